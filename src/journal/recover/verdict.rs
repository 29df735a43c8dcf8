//! Whether records may end where they do.

use std::path::Path;

use super::{Replay, Stop, Torn};
use crate::error::{Error, Result};
use crate::format::journal::{FileHeader, HEADER_BYTES, Journal, Step, Strays};
use crate::journal::{Point, file_name};
use crate::key::Sequence;

impl Replay<'_> {
    /// Whether the operating system runs since the journal was begun: then nothing that was
    /// written to it, or before it, can have been lost.
    fn is_of_this_run(&self, header: &FileHeader) -> bool {
        self.boot_id == Some(header.boot_id)
    }

    /// The records of a journal end at `offset`: by right, or is something lost?
    pub(super) fn stop_at(
        &mut self,
        journal: &Journal<'_>,
        path: &Path,
        offset: usize,
        step: &Step<'_>,
    ) -> Result<()> {
        self.stop = Some(Stop {
            path: path.to_owned(),
            offset: offset as u64,
            is_of_this_run: self.is_of_this_run(journal.header()),
            has_zero_sector: journal.has_zero_sector(offset, journal.end_of_damaged(offset)),
        });
        if matches!(step, Step::End) {
            return Ok(());
        }
        let strays = journal.strays(offset.saturating_add(1), self.point.next);
        self.check_watermark(strays, path)?;
        if self.is_of_this_run(journal.header())
            && !is_explained_by_kill(journal, offset, step, strays)
        {
            return Err(Error::corrupt(
                path,
                offset as u64,
                "the record here is damaged, and the machine has not been restarted since it was \
                 written, so it cannot have been lost",
            ));
        }
        self.loose = true;
        self.drop_bytes(path, offset, journal.len());
        Ok(())
    }

    /// Passes over a journal that does not start where the records end: its predecessor lost
    /// records that were never promised, and with them all of this one is lost.
    pub(super) fn skip(&mut self, journal: &Journal<'_>, start: Point, path: &Path) -> Result<()> {
        let header = journal.header();
        let strays = journal.strays(HEADER_BYTES, start.next);
        let Some(stop) = &self.stop else {
            return Err(Error::corrupt(
                path,
                0,
                "the first journal does not begin where the store begins",
            ));
        };
        if self.unborn.contains(&header.previous) {
            let path = self.storage.path_of(&file_name(header.previous));
            return Err(Error::corrupt(&path, 0, "the header of a journal is gone"));
        }
        self.check_watermark(strays, path)?;
        if strays.is_some() && start.next < self.point.next {
            return Err(Error::corrupt(
                path,
                0,
                format!(
                    "this journal begins at sequence {}, but the records before it go on to {}",
                    start.next,
                    self.point.last()
                ),
            ));
        }
        // A killed process may have created this journal while the end of the one before was in
        // its buffer; it wrote no record here then.
        let is_explained = stop.is_of_this_run && (strays.is_none() || stop.has_zero_sector);
        if self.is_of_this_run(header) && !is_explained {
            return Err(Error::corrupt(
                &stop.path,
                stop.offset,
                format!(
                    "the records end here, but {} follows them and the machine has not been \
                     restarted since it was begun",
                    path.display()
                ),
            ));
        }
        let from = if journal.is_zero_from(HEADER_BYTES) {
            journal.len()
        } else {
            HEADER_BYTES
        };
        self.loose = true;
        self.drop_bytes(path, from, journal.len());
        Ok(())
    }

    /// A watermark above what was recovered proves that durable records are lost.
    fn check_watermark(&self, strays: Option<Strays>, path: &Path) -> Result<()> {
        let (Some(strays), Some(stop)) = (strays, &self.stop) else {
            return Ok(());
        };
        if strays.watermark <= self.last() {
            return Ok(());
        }
        Err(Error::corrupt(
            &stop.path,
            stop.offset,
            format!(
                "the records end here at sequence {}, but were durable up to {}, as byte {} of {} \
                 says",
                self.point.last(),
                strays.watermark,
                strays.watermark_at,
                path.display()
            ),
        ))
    }

    pub(super) fn drop_bytes(&mut self, path: &Path, from: usize, to: usize) {
        let dropped_bytes = to.saturating_sub(from) as u64;
        if dropped_bytes > 0 {
            self.torn.push(Torn {
                path: path.to_owned(),
                offset: from as u64,
                dropped_bytes,
            });
        }
    }

    pub(super) fn check_clean(&self, clean_at: Sequence) -> Result<()> {
        let last = self.last();
        if last == clean_at && !self.loose {
            return Ok(());
        }
        let (path, offset) = match (&self.stop, self.torn.first()) {
            (_, Some(torn)) => (torn.path.clone(), torn.offset),
            (Some(stop), None) => (stop.path.clone(), stop.offset),
            (None, None) => (self.storage.path_of(""), 0),
        };
        let what = if last == clean_at {
            format!("the store was closed cleanly at sequence {clean_at}, but more follows")
        } else {
            format!(
                "the store was closed cleanly at sequence {clean_at}, but the journals end at {last}"
            )
        };
        Err(Error::corrupt(&path, offset, what))
    }
}

/// Whether the end of a process explains that there is no intact record at `offset`, or else that
/// the system could not write back a part of the record there.
fn is_explained_by_kill(
    journal: &Journal<'_>,
    offset: usize,
    step: &Step<'_>,
    strays: Option<Strays>,
) -> bool {
    // A call that writes is cut off: the first part of the bytes is there, and the file ends.
    let is_cut = strays.is_none() && matches!(step, Step::Short | Step::Cut(_));
    // A copy to a map is cut off: any part of the bytes but the first one is there, maybe whole
    // records. Nothing was appended later.
    let is_unfinished =
        journal.is_unfinished_append(offset) && strays.is_none_or(|strays| !strays.begins_append);
    is_cut || is_unfinished || journal.has_zero_sector(offset, journal.end_of_damaged(offset))
}
