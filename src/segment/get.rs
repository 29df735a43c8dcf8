//! Looks a key up in a segment: filter, block, entry.

use std::ops::Range;

use crate::error::Result;
use crate::format::block::{Found, search_alone};
use crate::key::{Kind, Sequence};
use crate::slice::Slice;
use criba_filters::KeyHash;
use criba_filters::segment::{Answer, Begun};

use super::filter::{FilterState, SegmentFilter};
use super::reader::{Body, Segment};
use super::{Block, Caches};

/// What one lookup asked and cost in one segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probe {
    /// The filter's answer, once it was asked, for who watches.
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

/// The key of a lookup.
struct Wanted<'a> {
    hash: KeyHash,
    key: &'a [u8],
    sequence: Sequence,
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
    /// The first step of a lookup, which touches memory only and begins to fetch what the second,
    /// [`Segment::get`], will read first. Does nothing where there is no filter to ask.
    #[inline(always)]
    pub(crate) fn begin(&self, hash: KeyHash, begun: &mut Begun) {
        if let Some(FilterState::Ready(filter)) = self.filter() {
            filter.begin(hash, begun);
        }
    }

    /// The newest entry of `key` that is at most `sequence`. The key lies between the first and
    /// the last key of the segment; `begun` is what [`Segment::begin`] made of its hash.
    ///
    /// Reads nothing if the filter says no, else at most one data block (more only for a key
    /// whose versions fill blocks, or when two keys of the segment have equal hashes).
    ///
    /// For who is `WATCHED`, what the fences refute is told apart from what the filter rejects.
    #[inline]
    pub(crate) fn get<const WATCHED: bool>(
        &self,
        begun: &Begun,
        (hash, key): (KeyHash, &[u8]),
        sequence: Sequence,
        (caches, probe): (&Caches, &mut Probe),
    ) -> Result<Option<Hit>> {
        let body = self.body()?;
        let answer = Self::answer::<WATCHED>(body, begun, key, (caches, probe));
        if answer == Answer::No {
            body.counters.count(false, probe);
            return Ok(None);
        }
        let wanted = Wanted {
            hash,
            key,
            sequence,
        };
        self.get_at(body, answer, &wanted, (caches, probe))
    }

    /// What the filter says. Without one, each key may be there.
    #[inline]
    fn answer<const WATCHED: bool>(
        body: &Body,
        begun: &Begun,
        key: &[u8],
        (caches, probe): (&Caches, &mut Probe),
    ) -> Answer {
        let FilterState::Ready(filter) = &body.filter else {
            probe.filter_damaged |= matches!(body.filter, FilterState::Damaged(_));
            return Answer::Maybe;
        };
        let is_refuted = |blocks| !WATCHED && Self::are_refuted(body, filter, blocks, key);
        let answer = filter.answer(begun, is_refuted, (caches, probe));
        if WATCHED {
            probe.answer = Some(answer);
        }
        answer
    }

    /// The rest of [`Segment::get`], where the filter did not say no: a call of its own, so that the way of
    /// most absent keys needs none.
    #[inline(never)]
    fn get_at(
        &self,
        body: &Body,
        answer: Answer,
        wanted: &Wanted<'_>,
        (caches, probe): (&Caches, &mut Probe),
    ) -> Result<Option<Hit>> {
        let hit = self.find(body, answer, wanted, (caches, probe))?;
        body.counters.count(hit.is_some(), probe);
        Ok(hit)
    }

    /// The newest entry of the key, if it is kept by itself and not too new.
    fn kept_entry(&self, wanted: &Wanted<'_>, caches: &Caches, probe: &mut Probe) -> Option<Hit> {
        if !self.is_all_visible(wanted.sequence) {
            return None;
        }
        let key = (wanted.hash, wanted.key);
        let kept = caches.entry(self.meta.id, key)?;
        // It stands for its block.
        probe.data_blocks += 1;
        probe.from_cache += 1;
        Some(kept)
    }

    /// Whether the newest entry of each key is at most `sequence`.
    fn is_all_visible(&self, sequence: Sequence) -> bool {
        self.meta.sequence_max <= sequence
    }

    /// Looks where the filter's answer leads.
    fn find(
        &self,
        body: &Body,
        answer: Answer,
        wanted: &Wanted<'_>,
        (caches, probe): (&Caches, &mut Probe),
    ) -> Result<Option<Hit>> {
        let by_fences = || (body.fences.first_block_of(wanted.key), None);
        let mut named = None;
        if let (FilterState::Ready(filter), Answer::At(location)) = (&body.filter, answer) {
            let block = location.block;
            if Self::are_refuted(body, filter, location.blocks(), wanted.key) {
                (probe.refuted, probe.block) = (true, Some(block));
                return Ok(None);
            }
            if location.unknown_bits == 0 {
                named = Some(block);
                // Its fences arrive while the entry is looked for, and are not looked at if it is there.
                body.prefetch(block);
                self.prefetch_read(body, (block, location.slot), wanted.hash, caches);
            }
        }
        if let Some(kept) = self.kept_entry(wanted, caches, probe) {
            probe.block = Some(named.unwrap_or_else(|| by_fences().0));
            return Ok(Some(kept));
        }
        let FilterState::Ready(filter) = &body.filter else {
            return self.search(body, wanted, by_fences(), (caches, probe));
        };
        match Self::next(body, filter, (answer, wanted.key), probe) {
            Next::Absent => Ok(None),
            Next::Search => self.search(body, wanted, by_fences(), (caches, probe)),
            Next::Block(block, group) => {
                match self.search(body, wanted, (block, group), (caches, probe))? {
                    // The place may be that of another key with the same hash.
                    None if filter.equal_hashes => {
                        self.search(body, wanted, by_fences(), (caches, probe))
                    }
                    hit => Ok(hit),
                }
            }
        }
    }

    /// Whether these blocks, of which the filter names one, cannot hold the key, and so no other, by what is
    /// in the processor's cache: of most absent keys. Of two keys with one hash the filter names the block of
    /// one.
    #[inline(always)]
    fn are_refuted(body: &Body, filter: &SegmentFilter, blocks: Range<u32>, key: &[u8]) -> bool {
        !filter.equal_hashes && !body.fences.may_cover(blocks, key)
    }

    /// Asks the filter and holds its answer against the fences.
    pub(super) fn ask(
        &self,
        body: &Body,
        filter: &SegmentFilter,
        (hash, key): (KeyHash, &[u8]),
        (caches, probe): (&Caches, &mut Probe),
    ) -> Next {
        let mut begun = Begun::default();
        filter.begin(hash, &mut begun);
        let answer = filter.answer(&begun, |_| false, (caches, probe));
        probe.answer = Some(answer);
        Self::next(body, filter, (answer, key), probe)
    }

    /// Holds the filter's answer against the fences.
    fn next(
        body: &Body,
        filter: &SegmentFilter,
        (answer, key): (Answer, &[u8]),
        probe: &mut Probe,
    ) -> Next {
        let location = match answer {
            Answer::No => return Next::Absent,
            Answer::Maybe => return Next::Search,
            Answer::At(location) => location,
        };
        let block = if location.unknown_bits == 0 {
            body.fences
                .covers(location.block, key)
                .then_some(location.block)
        } else {
            let block = body.fences.first_block_of(key);
            location.may_be_in(block).then_some(block)
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
        body: &Body,
        wanted: &Wanted<'_>,
        (mut block, mut group): (u32, Option<u32>),
        (caches, probe): (&Caches, &mut Probe),
    ) -> Result<Option<Hit>> {
        let (key, sequence) = (wanted.key, wanted.sequence);
        probe.block.get_or_insert(block);
        while block < body.fences.block_count() {
            let (content, is_enough) = match self.block_in_memory(body, block, caches, probe) {
                Some(content) => {
                    let is_enough = content.payload.is_mapped() || !caches.wants_entry_of_kept();
                    (content, is_enough)
                }
                None => match self.read_for(body, (block, group), wanted, (caches, probe))? {
                    Read::Block(content, is_kept) => (content, is_kept),
                    Read::Alone(found) => return Ok(found),
                },
            };
            let found = content.shape.search(&content.payload, key, sequence, group);
            match found.map_err(|malformed| self.malformed_block(body, block, &malformed))? {
                Found::Absent => return Ok(None),
                Found::Entry {
                    kind,
                    value: (start, end),
                    ..
                } => {
                    let value = content.payload.into_part_alone(start..end);
                    let hit = Hit { kind, value };
                    if !is_enough {
                        self.offer(wanted, &hit, caches);
                    }
                    return Ok(Some(hit));
                }
                Found::Beyond => {
                    block += 1;
                    group = Some(0);
                }
            }
        }
        Ok(None)
    }

    /// Offers an entry that was found to those that are kept by themselves.
    fn offer(&self, wanted: &Wanted<'_>, hit: &Hit, caches: &Caches) {
        if self.is_all_visible(wanted.sequence) {
            let key = (wanted.hash, wanted.key);
            caches.entries.offer(self.meta.id, key, hit);
        }
    }

    /// Begins to fetch what will be looked at when the block is read for an entry of this group. There need be
    /// no such block.
    fn prefetch_read(
        &self,
        body: &Body,
        (block, group): (u32, Option<u16>),
        hash: KeyHash,
        caches: &Caches,
    ) {
        if block < body.fences.block_count() && !body.is_in_memory(block) {
            caches.prefetch_wants((self.meta.id, body.fences.extent(block).0), hash);
            if let Some(group) = group {
                body.groups.prefetch(block, group.into());
            }
        }
    }

    /// Reads a block for one entry, or only the group that a filter named.
    fn read_for(
        &self,
        body: &Body,
        (ordinal, group): (u32, Option<u32>),
        wanted: &Wanted<'_>,
        (caches, probe): (&Caches, &mut Probe),
    ) -> Result<Read> {
        let (offset, len) = body.fences.extent(ordinal);
        let mark = group
            .filter(|_| self.is_all_visible(wanted.sequence))
            .and_then(|group| body.groups.get(ordinal, group));
        let place = (self.meta.id, offset);
        let mut is_wanted = None;
        if let Some(mark) = mark {
            let is_wanted = *is_wanted.insert(caches.wants(place, len));
            if !is_wanted && let Some(group) = self.group_from_file(body, (ordinal, mark), probe)? {
                let found = self.search_alone(body, (ordinal, group), wanted, caches)?;
                return Ok(Read::Alone(found));
            }
        }
        // Arrives while the block is read, if it was not fetched before.
        caches.prefetch_wants(place, wanted.hash);
        let wants = |place, len| is_wanted.unwrap_or_else(|| caches.wants(place, len));
        let (block, is_kept) = self.block_from_file(body, ordinal, (caches, probe), wants)?;
        if !is_kept {
            let at = (body.identity, offset);
            body.groups.note(ordinal, &block, at, &caches.group_room);
        }
        Ok(Read::Block(block, is_kept))
    }

    /// Searches a group by itself, of a segment whose entries are all visible.
    fn search_alone(
        &self,
        body: &Body,
        (ordinal, group): (u32, Slice),
        wanted: &Wanted<'_>,
        caches: &Caches,
    ) -> Result<Option<Hit>> {
        match search_alone(&group, wanted.key)
            .map_err(|malformed| self.malformed_block(body, ordinal, &malformed))?
        {
            Found::Entry {
                kind,
                value: (start, end),
                ..
            } => {
                let value = group.into_part_alone(start..end);
                let hit = Hit { kind, value };
                self.offer(wanted, &hit, caches);
                Ok(Some(hit))
            }
            Found::Absent | Found::Beyond => Ok(None),
        }
    }
}

/// What was read for one entry.
enum Read {
    /// The block, and whether it is enough that it stays in memory itself.
    Block(Block, bool),
    /// What the group says.
    Alone(Option<Hit>),
}
