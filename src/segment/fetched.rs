//! Blocks that were read together, for the lookups of many keys.
//!
//! Such a lookup does not read. Where it comes to a block that is not in memory, it notes what it
//! [`Need`]s and stops. Once all lookups have ended or stopped, the blocks that they need are read
//! with one call, each once. A block is verified and offered to the cache once, too. Then the
//! lookups go on from where they stopped.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::io;

use crate::error::Error;
use crate::slice::Slice;
use crate::storage::ReadRequest;

use super::block::Block;
use super::body::Body;
use super::caches::Caches;
use super::groups::Mark;
use super::outcome::LookupCost;
use super::reader::Segment;

/// What a lookup needs to go on: a block, or a group of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    pub(super) block: u32,
    /// The group that is enough.
    pub(super) group: Option<Mark>,
    /// Whether the cache wants the block, where it was asked.
    pub(super) is_wanted: Option<bool>,
}

/// What many lookups need.
#[derive(Debug, Default)]
pub(crate) struct Needs<'a> {
    /// By segment and block, so that a file is read from its beginning on.
    all: BTreeMap<(u64, u32), Together<'a>>,
    bytes: u64,
}

/// What several lookups need of one block.
#[derive(Debug)]
struct Together<'a> {
    segment: &'a Segment,
    body: &'a Body,
    need: Need,
    /// By more than one lookup.
    is_shared: bool,
}

impl Together<'_> {
    /// Offset and length of the block.
    fn extent(&self) -> (u64, u64) {
        self.body.fences.extent(self.need.block)
    }

    fn request(&self) -> ReadRequest<'_> {
        let (offset, len) = match self.need.group {
            Some(mark) => mark.extent(self.extent()),
            None => self.extent(),
        };
        self.segment.request(offset, len)
    }

    /// Verifies what was read and keeps it in memory if it is wanted there.
    fn open(&self, read: io::Result<Slice>, caches: &Caches) -> Fetched {
        let bytes = read.as_ref().map_or(0, |read| read.len() as u64);
        let (content, is_kept) = match read {
            Err(error) => (Content::Failed(self.segment.io_error(error)), false),
            Ok(read) => match self.need.group {
                Some(mark) => (Content::Group(mark, read), false),
                None => match self.segment.open_block(self.body, self.extent().0, &read) {
                    Ok(block) => {
                        let is_kept = self.keep(&block, caches);
                        (Content::Block(block), is_kept)
                    }
                    Err(damage) => (Content::Failed(damage), false),
                },
            },
        };
        Fetched {
            content,
            is_kept,
            bytes,
            is_counted: Cell::new(false),
        }
    }

    /// Whether the block stays in memory. One that several lookups need is asked for again at once.
    fn keep(&self, block: &Block, caches: &Caches) -> bool {
        let (segment, body, ordinal) = (self.segment, self.body, self.need.block);
        let (offset, len) = self.extent();
        if body.keeps_mapped(ordinal, block) {
            return true;
        }
        let is_wanted = || caches.wants((segment.meta.id, offset), len);
        let is_kept =
            self.need.is_wanted.unwrap_or_else(is_wanted) || self.is_shared && is_wanted();
        if is_kept {
            segment.keep(body, ordinal, block, caches);
        } else {
            let at = (body.identity, offset);
            body.groups.note(ordinal, block, at, &caches.group_room);
        }
        is_kept && caches.blocks.has_budget()
    }
}

impl<'a> Needs<'a> {
    /// Adds what a lookup in the segment needs. Two groups of a block are the whole block.
    pub(crate) fn add(&mut self, segment: &'a Segment, need: Need) {
        let Ok(body) = segment.body() else { return };
        let place = (segment.meta.id, need.block);
        let (all, bytes) = (&mut self.all, &mut self.bytes);
        all.entry(place)
            .and_modify(|together| {
                together.is_shared = true;
                together.need.group = None;
            })
            .or_insert_with(|| {
                *bytes += body.fences.extent(need.block).1;
                Together {
                    segment,
                    body,
                    need,
                    is_shared: false,
                }
            });
    }

    /// Bytes of the blocks.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What was read for many lookups.
#[derive(Debug, Default)]
pub(crate) struct FetchedBlocks {
    /// By segment and block.
    all: HashMap<(u64, u32), Fetched>,
}

/// What was read of one block.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) content: Content,
    /// Whether it stays in memory when the lookups have ended.
    pub(super) is_kept: bool,
    /// Bytes that were read.
    bytes: u64,
    is_counted: Cell<bool>,
}

#[derive(Debug)]
pub(super) enum Content {
    Block(Block),
    /// Not verified yet.
    Group(Mark, Slice),
    /// What is wrong with the block.
    Failed(Error),
}

impl FetchedBlocks {
    /// Reads what lookups need. A read that fails is the matter of those that come to its block.
    pub(crate) fn fetch(&mut self, needs: &Needs<'_>, caches: &Caches) {
        let Some(first) = needs.all.values().next() else {
            return;
        };
        let requests: Vec<_> = needs.all.values().map(Together::request).collect();
        let mut read = first
            .segment
            .file()
            .storage()
            .read_many(&requests)
            .into_iter();
        for (place, together) in &needs.all {
            // A storage that answers too few requests is wrong. Nobody is to wait for the others.
            let read = (read.next()).unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
            self.all.insert(*place, together.open(read, caches));
        }
    }

    /// Lets go of everything.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }

    #[inline]
    pub(super) fn get(&self, segment: u64, block: u32) -> Option<&Fetched> {
        self.all.get(&(segment, block))
    }
}

impl Fetched {
    /// A lookup uses it: the first one has caused the read.
    pub(super) fn count(&self, cost: &mut LookupCost) {
        cost.data_blocks += 1;
        if self.is_counted.replace(true) {
            cost.from_cache += 1;
        } else {
            cost.read_bytes += self.bytes;
            cost.block_reads += 1;
            cost.block_bytes += self.bytes;
        }
    }
}
