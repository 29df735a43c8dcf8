//! Opens a store whose journals are damaged, for who has asked for it, and puts what was saved
//! where the next `open` finds it.
//!
//! Until the switch to the new state, which is one step, nothing that recovery looks at changes: a
//! crash before it leaves a store on which the same is done again. Damaged journals are copied
//! before and removed, as all that are not needed, after it.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::journal::{self, Apply, Expect, Point, Recovered};
use crate::manifest::{self, JournalFloor, Manifest, SegmentMeta};
use crate::memtable::Memtable;
use crate::options::Recovery;
use crate::segment::{self, Segment};
use crate::storage::{self, DAMAGED, Storage};

use super::shared::{Shared, View, lock};
use super::write::Writing;

/// Whether a refusal is about journals, which [`Recovery`] can get past.
pub(crate) fn is_passable(error: &Error, manifest: &Manifest) -> bool {
    match error {
        Error::Corrupt(at) => {
            let name = at.path.file_name().unwrap_or_default();
            manifest::parse_name(&name.to_string_lossy()).is_none()
        }
        // With a torn manifest a journal may be missing because it is not needed any more.
        Error::Missing { .. } => !manifest.is_torn(),
        _ => false,
    }
}

/// Names what can be done about a refusal.
pub(crate) fn with_ways_out(error: Error, ways: &str) -> Error {
    match error {
        Error::Corrupt(mut corruption) => {
            corruption.what.push_str("; ");
            corruption.what.push_str(ways);
            Error::Corrupt(corruption)
        }
        error => error,
    }
}

/// The manifest's part in a missing journal: a segment that is not listed and newer than the
/// journal tells that an edit is gone which added the one and made the other superfluous. Unless a
/// recovery past this damage was interrupted: what it has written is newer than the journal, which
/// continues none, that it began before.
pub(crate) fn blame_cut(
    error: Error,
    (unlisted, journals): (&[String], &[u64]),
    (storage, manifest): (&Arc<dyn Storage>, u64),
) -> Error {
    let Error::Missing { path } = &error else {
        return error;
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some(id) = journal::parse_name(&name) else {
        return error;
    };
    let continues_none = |journal: &u64| {
        let header = journal::read_header(&**storage, *journal);
        *journal > id && header.is_some_and(|header| header.previous == 0)
    };
    let end = journals.iter().copied().find(continues_none);
    let suspects = id.saturating_add(1)..end.unwrap_or(u64::MAX);
    let newer = |name: &&String| segment::parse_name(name).is_some_and(|id| suspects.contains(&id));
    let Some(segment) = unlisted.iter().find(newer) else {
        return error;
    };
    let manifest = manifest::file_name(manifest);
    let end = storage.open(&manifest).map_or(0, |file| file.len());
    let what = format!(
        "{name} is missing, and {segment}, which is newer, is not listed: the end of the manifest \
         was cut off, unless the journal was removed"
    );
    Error::corrupt(&storage.path_of(&manifest), end, what)
}

/// Replays damaged journals into a memtable that is empty. `is_intact` tells whether a payload is
/// what its record says.
pub(crate) fn replay(
    storage: &Arc<dyn Storage>,
    ids: &[u64],
    (recovery, expect): (Recovery, &Expect<'_>),
    apply: &mut Apply<'_>,
) -> Result<(Recovered, journal::Salvaged)> {
    let salvaged = match recovery {
        Recovery::Strict | Recovery::TolerateTail => {
            journal::tolerate(&**storage, ids, expect, apply)?
        }
        Recovery::Salvage => journal::salvage(&**storage, ids, expect, apply)?,
    };
    // A chain that no record continues: the journals there are must not lead to the next one.
    let mut chain = [0; 4];
    storage
        .fill_random(&mut chain)
        .map_err(|error| Error::io(storage.path_of(""), error))?;
    let recovered = Recovered {
        point: Point {
            next: salvaged.next,
            chain: u32::from_le_bytes(chain),
        },
        last: None,
        watermark: expect.durable,
        records: 0,
        operations: salvaged.operations,
        torn: Vec::new(),
    };
    Ok((recovered, salvaged))
}

impl Shared {
    /// Makes what was saved from damaged journals durable in segments, behind a new journal.
    /// Returns the names under which damaged files are kept.
    pub(crate) fn settle(&self, damaged: &BTreeSet<u64>, dead: &[String]) -> Result<Vec<String>> {
        let mut kept = Vec::new();
        for &id in damaged {
            kept.push(self.keep_copy(&journal::file_name(id))?);
        }
        self.storage
            .sync_dir()
            .map_err(|error| Error::io(self.storage.path_of(""), error))?;
        let mut writing = lock(&self.writer);
        let mut manifest = lock(&self.manifest);
        manifest.keep_clean();
        let id = manifest.allocate()?;
        drop(manifest);
        let journal = self.create_journal(id, &writing)?;
        let sealed = Self::sealed_before(&writing, &journal);
        let floor = sealed.floor;
        if sealed.table.is_empty() {
            self.switch(&mut writing, floor, (Vec::new(), Vec::new()))?;
        } else {
            self.flush_into(&sealed, |finished| {
                let opened = self.open_finished(finished)?;
                self.switch(&mut writing, floor, opened)
            })?;
        }
        writing.recovered.clear();
        writing.recovered_durable = true;
        self.begin_journal(journal, &mut writing);
        drop(writing);
        self.remove_journals_before(id);
        for name in dead {
            // It may be live in truth: what else is damaged is not known.
            if segment::parse_name(name).is_some() {
                kept.push(self.rename_damaged(name)?);
            }
        }
        Ok(kept)
    }

    fn switch(
        &self,
        writing: &mut Writing,
        floor: JournalFloor,
        (added, segments): (Vec<SegmentMeta>, Vec<Arc<Segment>>),
    ) -> Result<()> {
        let mut manifest = lock(&self.manifest);
        let mut edit = manifest.edit();
        edit.added = added;
        edit.floor = Some(floor);
        let switched = manifest.switch(&edit, floor.id);
        drop(manifest);
        switched.map_err(|error| self.poison(error))?;
        self.durable
            .store(floor.next.0 - 1, std::sync::atomic::Ordering::Release);
        writing.active = Arc::new(Memtable::new(self.options.memtable_bytes));
        self.install_behind(|view| View {
            active: Arc::clone(&writing.active),
            sealed: Vec::new(),
            version: Arc::new(view.version.with(segments, &[])),
        });
        Ok(())
    }

    /// Copies a file beside itself. The name is there only when the copy is whole.
    fn keep_copy(&self, name: &str) -> Result<String> {
        let kept = format!("{name}{DAMAGED}");
        storage::copy(&*self.storage, name, &kept)
            .map_err(|error| Error::io(self.storage.path_of(&kept), error))?;
        Ok(kept)
    }

    fn rename_damaged(&self, name: &str) -> Result<String> {
        let kept = format!("{name}{DAMAGED}");
        match self.storage.rename(name, &kept) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io(self.storage.path_of(name), error))
            }
            _ => Ok(kept),
        }
    }
}
