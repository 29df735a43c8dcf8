//! Looks a key up in a segment: filter, block, entry.

use crate::error::Result;
use crate::filter::{Answer, KeyHash};
use crate::format::block::Found;
use crate::key::{Kind, Sequence};
use crate::slice::Slice;

use super::Caches;
use super::filter::{FilterState, SegmentFilter};
use super::reader::{Body, Segment};

/// What one lookup asked and cost in one segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probe {
    /// The filter's answer, once it was asked.
    pub(crate) answer: Option<Answer>,
    /// The answer named a block whose fences do not cover the key.
    pub(crate) refuted: bool,
    /// The block that the filter, or else the fences, named first.
    pub(crate) block: Option<u32>,
    pub(crate) filter_damaged: bool,
    pub(crate) filter_pages: u64,
    pub(crate) data_blocks: u64,
    pub(crate) from_cache: u64,
    pub(crate) read_bytes: u64,
    /// Data blocks that were not in the cache, and their bytes.
    pub(crate) block_reads: u64,
    pub(crate) block_bytes: u64,
}

/// The newest visible entry of a key.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) kind: Kind,
    pub(crate) value: Slice,
}

/// What is left to do after the filter.
pub(super) enum Next {
    Absent,
    /// Search this block, entering at this group if one is given.
    Block(u32, Option<u32>),
    /// Find the block by its fences.
    Search,
}

impl Segment {
    /// Begins to fetch what a [`Segment::get`] that is to come will read first.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        if let Ok(body) = self.body()
            && let FilterState::Ready(filter) = &body.filter
        {
            filter.prefetch(hash);
        }
    }

    /// The newest entry of `key` that is at most `sequence`. The key lies between the first and
    /// the last key of the segment.
    ///
    /// Reads nothing if the filter says no, else at most one data block (more only for a key
    /// whose versions fill blocks, or when two keys of the segment have equal hashes).
    pub(crate) fn get(
        &self,
        (hash, key): (KeyHash, &[u8]),
        sequence: Sequence,
        caches: &Caches,
        probe: &mut Probe,
    ) -> Result<Option<Hit>> {
        let body = self.body()?;
        let FilterState::Ready(filter) = &body.filter else {
            probe.filter_damaged = matches!(body.filter, FilterState::Damaged(_));
            let block = body.fences.first_block_of(key);
            let hit = self.search(key, sequence, (block, None), (caches, probe))?;
            body.counters.count(hit.is_some(), probe);
            return Ok(hit);
        };
        let hit = match self.ask(body, filter, (hash, key), (caches, probe)) {
            Next::Absent => None,
            Next::Search => {
                let block = body.fences.first_block_of(key);
                self.search(key, sequence, (block, None), (caches, probe))?
            }
            Next::Block(block, group) => {
                match self.search(key, sequence, (block, group), (caches, probe))? {
                    // The place may be that of another key with the same hash.
                    None if filter.equal_hashes => {
                        let block = body.fences.first_block_of(key);
                        self.search(key, sequence, (block, None), (caches, probe))?
                    }
                    hit => hit,
                }
            }
        };
        body.counters.count(hit.is_some(), probe);
        Ok(hit)
    }

    /// Asks the filter and holds its answer against the fences.
    pub(super) fn ask(
        &self,
        body: &Body,
        filter: &SegmentFilter,
        (hash, key): (KeyHash, &[u8]),
        (caches, probe): (&Caches, &mut Probe),
    ) -> Next {
        let answer = filter.ask(hash, &caches.pages, probe);
        probe.answer = Some(answer);
        let location = match answer {
            Answer::No => return Next::Absent,
            Answer::Maybe => return Next::Search,
            Answer::At(location) => location,
        };
        let block = if filter.filter.block_ordinal_complete() {
            body.fences
                .covers(location.block, key)
                .then_some(location.block)
        } else {
            let block = body.fences.first_block_of(key);
            let known = 1_u64
                .checked_shl(location.block_bits.into())
                .map_or(u64::MAX, |m| m - 1);
            (u64::from(block) & known == u64::from(location.block)).then_some(block)
        };
        match block {
            // The last slot that can be stored stands for all behind it.
            Some(block) => {
                let group = location.slot.filter(|slot| *slot < u16::MAX).map(u32::from);
                Next::Block(block, group)
            }
            None => {
                probe.refuted = true;
                probe.block = Some(location.block);
                if filter.equal_hashes {
                    Next::Search
                } else {
                    Next::Absent
                }
            }
        }
    }

    /// Searches a block, and the next ones as long as versions of the key go on.
    fn search(
        &self,
        key: &[u8],
        sequence: Sequence,
        (mut block, mut group): (u32, Option<u32>),
        (caches, probe): (&Caches, &mut Probe),
    ) -> Result<Option<Hit>> {
        let body = self.body()?;
        probe.block.get_or_insert(block);
        while block < body.fences.block_count() {
            let content = self.block(body, block, caches, probe)?;
            let found = content.shape.search(&content.payload, key, sequence, group);
            match found.map_err(|malformed| self.malformed_block(body, block, &malformed))? {
                Found::Absent => return Ok(None),
                Found::Entry {
                    kind,
                    value: (start, end),
                    ..
                } => {
                    return Ok(Some(Hit {
                        kind,
                        value: content.payload.into_part(start..end),
                    }));
                }
                Found::Beyond => {
                    block += 1;
                    group = Some(0);
                }
            }
        }
        Ok(None)
    }
}
