//! Walks what is intact of a damaged segment.
//!
//! With its index a segment is read block by block, and a damaged one is passed over. Without it
//! the file is searched for the trailers of data blocks: each says how long its block is, and its
//! checksum covers identity, offset and content, so that nothing else passes for one.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::cursor::{Cursor, Direction, Item, NO_ENTRY};
use crate::error::{Error, Result};
use crate::format::block::Entry;
use crate::format::manifest::SegmentMeta;
use crate::format::region::file_identity;
use crate::key::{self, Sequence};
use crate::loss::Loss;
use crate::options::{FilterLoading, FilterResidency};
use crate::slice::Slice;
use crate::storage::Storage;

use super::files::SegmentFile;
use super::footers::footer_of;
use super::outcome::LookupCost;
use super::readahead::Windows;
use super::reader::Segment;
use super::scan::Scanner;
use super::{Block, Caches, file_name};

/// What several walks have found together.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) losses: Vec<Loss>,
    /// Losses beyond those that are kept.
    pub(crate) more: u64,
    /// Intact data blocks.
    pub(crate) blocks: u64,
}

/// More losses are only counted.
const LOSSES_MAX: usize = 10_000;

impl Tally {
    pub(crate) fn lose(&mut self, loss: Loss) {
        if self.losses.len() < LOSSES_MAX {
            self.losses.push(loss);
        } else {
            self.more += 1;
        }
    }
}

/// A cursor over the entries of a segment that are intact, in order; it returns no error.
#[derive(Debug)]
pub(crate) struct SalvageWalk {
    path: PathBuf,
    /// Where the segment begins in its file.
    start: u64,
    source: Source,
    /// Entries of the current block, last one first.
    entries: Vec<Item>,
    /// Where it stands.
    current: Option<Item>,
    last: Option<(Slice, Sequence)>,
    /// What is known of the range of keys.
    range: Option<(Slice, Slice)>,
    /// Losses since the last entry: up to which key they go is told by the next one.
    pending: Vec<Loss>,
    tally: Arc<Mutex<Tally>>,
}

#[derive(Debug)]
enum Source {
    Indexed {
        segment: Box<Segment>,
        next: u32,
        windows: Windows,
        caches: Arc<Caches>,
    },
    Scanned {
        scanner: Scanner,
        /// Where data blocks end, if that is known.
        data_end: Option<u64>,
    },
    End,
}

/// A segment, by what the manifest or its footer says of it; or else all of a file, as one segment
/// of the same number.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) storage: &'a Arc<dyn Storage>,
    pub(crate) store_id: u128,
    pub(crate) file: u64,
    pub(crate) meta: Option<SegmentMeta>,
}

impl SalvageWalk {
    pub(crate) fn new(
        found: &Found<'_>,
        caches: &Arc<Caches>,
        tally: &Arc<Mutex<Tally>>,
    ) -> SalvageWalk {
        let path = found.storage.path_of(&file_name(found.file));
        let range = found.meta.as_ref().map(|meta| {
            let (first, last) = (&*meta.first_key, &*meta.last_key);
            (Slice::from(first), Slice::from(last))
        });
        let mut walk = SalvageWalk {
            path,
            start: 0,
            source: Source::End,
            entries: Vec::new(),
            current: None,
            last: None,
            range,
            pending: Vec::new(),
            tally: Arc::clone(tally),
        };
        walk.source = walk.open(found, caches);
        walk
    }

    fn open(&mut self, found: &Found<'_>, caches: &Arc<Caches>) -> Source {
        let file = match SegmentFile::open(found.storage, found.file) {
            Ok(file) => file,
            Err(error) => {
                self.lose(0, 0, format!("the segment cannot be opened: {error}"));
                return Source::End;
            }
        };
        // No filter is asked: one that is not pinned is not read either.
        let loading = FilterLoading {
            residency: FilterResidency::Cached { bytes: 0 },
            ..FilterLoading::default()
        };
        let meta = found.meta.clone();
        let opened = meta.map(|meta| Segment::open(&file, found.store_id, meta, &loading));
        if let Some(Ok(segment)) = opened
            && segment.damage().is_none()
        {
            return Source::Indexed {
                segment: Box::new(segment),
                next: 0,
                windows: Windows::default(),
                caches: Arc::clone(caches),
            };
        }
        let (id, bytes) = match &found.meta {
            Some(meta) => {
                self.start = meta.start;
                (meta.id, file.section(meta.start, meta.len))
            }
            None => (found.file, file.section(0, u64::MAX)),
        };
        let identity = file_identity(found.store_id, id);
        let data_end = footer_of(&*bytes, identity).map(|(footer, _)| footer.data_end);
        Source::Scanned {
            scanner: Scanner::new(bytes, identity, data_end),
            data_end,
        }
    }

    fn lose(&mut self, offset: u64, bytes: u64, what: impl Into<String>) {
        let offset = self.start.saturating_add(offset);
        self.pending
            .push(Loss::new(self.path.clone(), offset, bytes, what));
    }

    /// The next intact block's entries are at hand when this returns true.
    fn load(&mut self) -> bool {
        loop {
            let block = match &mut self.source {
                Source::End => return self.end(None),
                Source::Indexed {
                    segment,
                    next,
                    windows,
                    caches,
                } => match next_indexed(segment, next, windows, caches) {
                    None => return self.end(None),
                    Some((offset, Ok(block))) => Ok((offset, block)),
                    Some((offset, Err((bytes, error)))) => Err((offset, bytes, error.to_string())),
                },
                Source::Scanned { scanner, data_end } => {
                    let before = scanner.at();
                    match scanner.next() {
                        None => {
                            let known = *data_end;
                            return self.end(Some((before, known)));
                        }
                        Some((offset, block)) => {
                            if offset > before {
                                let what = "no intact data block".to_owned();
                                let at = self.start.saturating_add(before);
                                let loss = Loss::new(self.path.clone(), at, offset - before, what);
                                self.pending.push(loss);
                            }
                            Ok((offset, block))
                        }
                    }
                }
            };
            match block {
                Ok((offset, block)) if self.decode(offset, &block) => return true,
                Ok(_) => {}
                Err((offset, bytes, what)) => self.lose(offset, bytes, what),
            }
        }
    }

    /// Takes the entries of a block, if they are what comes next.
    fn decode(&mut self, offset: u64, block: &Block) -> bool {
        let mut entries = Vec::new();
        for group in 0..block.shape.group_count() {
            if let Err(malformed) = block.decode(group, &mut entries) {
                self.lose(offset, 0, malformed.to_string());
                return false;
            }
        }
        let last = self.last.iter().map(|(key, sequence)| (&**key, *sequence));
        let all: Vec<_> = last
            .chain(entries.iter().map(|item| (&*item.key, item.sequence)))
            .collect();
        let is_ordered = all
            .windows(2)
            .all(|pair| key::compare(pair[0], pair[1]).is_lt());
        if !is_ordered || entries.is_empty() {
            self.lose(offset, 0, "the entries of the block are out of order");
            return false;
        }
        self.close_losses(Some(entries[0].key.clone()));
        self.lock().blocks += 1;
        entries.reverse();
        self.entries = entries;
        true
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The losses since the last entry go up to this key.
    fn close_losses(&mut self, next: Option<Slice>) {
        let range = self.range.as_ref();
        let lower = self.last.as_ref().map(|(key, _)| key.clone());
        let lower = lower.or_else(|| range.map(|(first, _)| first.clone()));
        let upper = next.or_else(|| range.map(|(_, last)| last.clone()));
        let keys = lower.zip(upper);
        for mut loss in std::mem::take(&mut self.pending) {
            loss.keys.clone_from(&keys);
            self.lock().lose(loss);
        }
    }

    /// No more blocks; `scanned` tells where a search for them found the last one's end, and where
    /// it should be.
    fn end(&mut self, scanned: Option<(u64, Option<u64>)>) -> bool {
        let source = std::mem::replace(&mut self.source, Source::End);
        if let (Source::Scanned { scanner, .. }, Some((at, known))) = (source, scanned) {
            let last = self.last.as_ref().map(|(key, _)| key);
            let is_all = match (known, &self.range) {
                (Some(end), _) => at >= end,
                (None, Some((_, range_end))) => last == Some(range_end),
                (None, None) => false,
            };
            if !is_all {
                let end = known.unwrap_or(scanner.len()).max(at);
                let what = if scanner.has_given_up() {
                    "too much looks like data blocks and is none; the rest was not searched"
                } else {
                    "no intact data block from here on, where there was one or may have been"
                };
                self.lose(at, end - at, what);
            }
        }
        self.close_losses(None);
        false
    }
}

impl Cursor for SalvageWalk {
    fn advance(&mut self) -> Result<bool> {
        self.current = None;
        if self.entries.is_empty() && !self.load() {
            return Ok(false);
        }
        self.current = self.entries.pop();
        if let Some(item) = &self.current {
            self.last = Some((item.key.clone(), item.sequence));
        }
        Ok(self.current.is_some())
    }

    fn entry(&self) -> Entry<'_> {
        self.current.as_ref().map_or(NO_ENTRY, Item::entry)
    }

    fn key(&self) -> Slice {
        let current = self.current.as_ref();
        current.map_or_else(Slice::default, |item| item.key.clone())
    }

    fn value(&self) -> Slice {
        let current = self.current.as_ref();
        current.map_or_else(Slice::default, |item| item.value.clone())
    }
}

type Loaded = (u64, Result<Block, (u64, Error)>);

fn next_indexed(
    segment: &Segment,
    next: &mut u32,
    windows: &mut Windows,
    caches: &Caches,
) -> Option<Loaded> {
    let body = segment.body().ok()?;
    if *next >= body.fences.block_count() {
        return None;
    }
    let ordinal = *next;
    *next += 1;
    let (offset, len) = body.fences.extent(ordinal);
    windows.come_to(body, ordinal, Direction::Forward);
    let block = segment.block(body, ordinal, caches, &mut LookupCost::default());
    Some((offset, block.map_err(|error| (len, error))))
}
