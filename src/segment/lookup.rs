//! Looks a key up in a segment: filter, block, entry.
//!
//! The way of a lookup, in the order of this file:
//!
//! 1. [`Segment::begin`] finds the place in the filter and begins to fetch it.
//! 2. [`Segment::lookup`] asks the filter. Most absent keys end here: the filter says no, or the
//!    fences that are in the processor's cache refute the block that it names.
//! 3. `lookup_further` is for all others. An entry that is kept by itself answers without a block.
//!    Otherwise the filter's answer and the fences lead to one block, and `search` reads it, or one
//!    group of it.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::format::block::{Found, search_alone};
use crate::key::{Kind, Sequence};
use crate::slice::Slice;
use criba_filters::KeyHash;
use criba_filters::segment::{Answer, Begun};

use super::block::Block;
use super::body::Body;
use super::caches::Caches;
use super::fetched::{Content, FetchedBlocks, Need};
use super::filter::{FilterState, SegmentFilter};
use super::groups::Mark;
use super::outcome::{Hit, LookupCost};
use super::reader::Segment;

/// The key that a lookup wants, and as of when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) hash: KeyHash,
    pub(crate) key: &'a [u8],
    /// Newer entries are not seen.
    pub(crate) sequence: Sequence,
    /// For one of many keys: the blocks that were read for them. The lookup reads no others.
    pub(crate) fetched: Option<&'a FetchedBlocks>,
}

/// A lookup in one segment: what it wants, what is in memory, and its account.
#[derive(Debug)]
pub(crate) struct Lookup<'a> {
    pub(crate) wanted: Wanted<'a>,
    pub(crate) caches: &'a Caches,
    pub(crate) cost: LookupCost,
    /// What it has stopped for. Its result is of no use then.
    pub(crate) need: Option<Need>,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(wanted: Wanted<'a>, caches: &'a Caches) -> Lookup<'a> {
        Lookup {
            wanted,
            caches,
            cost: LookupCost::default(),
            need: None,
        }
    }

    /// Stops. The error leads out of the lookup; nobody looks at it.
    #[cold]
    fn stop(&mut self, need: Need) -> Error {
        self.need = Some(need);
        Error::io(PathBuf::new(), io::ErrorKind::WouldBlock.into())
    }
}

/// Where an entry of the key may be.
pub(super) enum Lead {
    /// Nowhere in this segment.
    Absent,
    /// In this block, or nowhere.
    Block(Entrance),
    /// In the block that the fences name.
    Fences,
}

/// Where a search enters the data.
#[derive(Clone, Copy)]
pub(super) struct Entrance {
    pub(super) block: u32,
    /// The group that holds the entry; `None` for the one that a search within the block finds.
    pub(super) group: Option<u32>,
}

/// What an entry is searched in.
enum Read {
    /// The block, and whether it is enough that it stays in memory itself.
    Block(Block, bool),
    /// The answer of the one group that was read.
    Group(Option<Hit>),
}

// The way of an absent key: nothing is called here that is not inlined.
impl Segment {
    /// The first step of a lookup, which touches memory only and begins to fetch what the second,
    /// [`Segment::lookup`], will read first. Does nothing where there is no filter to ask.
    #[inline(always)]
    pub(crate) fn begin(&self, hash: KeyHash, begun: &mut Begun) {
        if let Some(FilterState::Ready(filter)) = self.filter() {
            filter.begin(hash, begun);
        }
    }

    /// The newest entry of the key that is at most as new as the lookup's sequence. The key lies
    /// between the first and the last key of the segment; `begun` is what [`Segment::begin`] made
    /// of its hash.
    ///
    /// Reads nothing if the filter says no, else at most one data block (more only for a key
    /// whose versions fill blocks, or when two keys of the segment have equal hashes).
    ///
    /// A `WATCHED` lookup is explained: it keeps what the filter rejects apart from what the
    /// fences refute.
    #[inline]
    pub(crate) fn lookup<const WATCHED: bool>(
        &self,
        begun: &Begun,
        lookup: &mut Lookup<'_>,
    ) -> Result<Option<Hit>> {
        let body = self.body()?;
        let answer = Self::ask_filter::<WATCHED>(body, begun, lookup);
        if answer == Answer::No {
            body.counters.count(false, &lookup.cost);
            return Ok(None);
        }
        self.lookup_further(body, answer, lookup)
    }

    /// What the filter says. Without one, each key may be there.
    #[inline]
    fn ask_filter<const WATCHED: bool>(
        body: &Body,
        begun: &Begun,
        lookup: &mut Lookup<'_>,
    ) -> Answer {
        let FilterState::Ready(filter) = &body.filter else {
            lookup.cost.filter_damaged |= matches!(body.filter, FilterState::Damaged(_));
            return Answer::Maybe;
        };
        let key = lookup.wanted.key;
        let is_refuted = |blocks| !WATCHED && Self::are_refuted(body, filter, blocks, key);
        let answer = filter.answer(begun, is_refuted, lookup.caches, &mut lookup.cost);
        if WATCHED {
            lookup.cost.answer = Some(answer);
        }
        answer
    }

    /// Whether these blocks, one of which the filter names, cannot hold the key, and so no other
    /// can. Most absent keys are refuted by fences that are in the processor's cache. Where two
    /// keys have one hash the filter names the block of one of them, and nothing is refuted.
    #[inline(always)]
    fn are_refuted(body: &Body, filter: &SegmentFilter, blocks: Range<u32>, key: &[u8]) -> bool {
        !filter.equal_hashes && !body.fences.may_cover(blocks, key)
    }
}

// The way of a key that may be there.
impl Segment {
    /// The rest of [`Segment::lookup`], where the filter did not say no: a call of its own, so that
    /// the way of most absent keys needs none.
    #[inline(never)]
    fn lookup_further(
        &self,
        body: &Body,
        answer: Answer,
        lookup: &mut Lookup<'_>,
    ) -> Result<Option<Hit>> {
        let found = self.find(body, answer, lookup);
        if lookup.need.is_some() {
            lookup.cost.answer = Some(answer);
        }
        let hit = found?;
        body.counters.count(hit.is_some(), &lookup.cost);
        Ok(hit)
    }

    /// Goes on with a lookup that has stopped here, now that what it needs was read. Its account has the
    /// filter's answer.
    pub(crate) fn go_on(&self, lookup: &mut Lookup<'_>) -> Result<Option<Hit>> {
        let body = self.body()?;
        let answer = lookup.cost.answer.unwrap_or(Answer::Maybe);
        self.lookup_further(body, answer, lookup)
    }

    /// Looks where the filter's answer leads.
    fn find(&self, body: &Body, answer: Answer, lookup: &mut Lookup<'_>) -> Result<Option<Hit>> {
        let key = lookup.wanted.key;
        let mut named = None;
        if let (FilterState::Ready(filter), Answer::At(location)) = (&body.filter, answer) {
            let block = location.block;
            if Self::are_refuted(body, filter, location.blocks(), key) {
                (lookup.cost.refuted, lookup.cost.block) = (true, Some(block));
                return Ok(None);
            }
            if location.unknown_bits == 0 {
                named = Some(block);
            }
        }
        if let Some(hit) = self.entry_by_itself(lookup) {
            lookup.cost.block = Some(named.unwrap_or_else(|| body.fences.first_block_of(key)));
            return Ok(Some(hit));
        }
        let FilterState::Ready(filter) = &body.filter else {
            return self.search(body, Self::by_fences(body, key), lookup);
        };
        match Self::lead_of(body, filter, answer, lookup) {
            Lead::Absent => Ok(None),
            Lead::Fences => self.search(body, Self::by_fences(body, key), lookup),
            Lead::Block(entrance) => match self.search(body, entrance, lookup)? {
                // The place may be that of another key with the same hash.
                None if filter.equal_hashes => {
                    self.search(body, Self::by_fences(body, key), lookup)
                }
                hit => Ok(hit),
            },
        }
    }

    pub(super) fn by_fences(body: &Body, key: &[u8]) -> Entrance {
        Entrance {
            block: body.fences.first_block_of(key),
            group: None,
        }
    }

    /// The newest entry of the key, if it is kept by itself and not too new. A lookup that has come to
    /// a block before has asked before.
    fn entry_by_itself(&self, lookup: &mut Lookup<'_>) -> Option<Hit> {
        if !self.is_all_visible(lookup.wanted.sequence) || lookup.cost.data_blocks > 0 {
            return None;
        }
        let hit = (lookup.caches).entry(self.meta.id, lookup.wanted.hash, lookup.wanted.key)?;
        // It stands for its block.
        lookup.cost.data_blocks += 1;
        lookup.cost.from_cache += 1;
        Some(hit)
    }

    /// Whether the newest entry of each key is at most `sequence`.
    fn is_all_visible(&self, sequence: Sequence) -> bool {
        self.meta.sequence_max <= sequence
    }

    /// Asks the filter for a key and holds its answer against the fences, as a lookup would.
    pub(super) fn lead_to(body: &Body, filter: &SegmentFilter, lookup: &mut Lookup<'_>) -> Lead {
        let mut begun = Begun::default();
        filter.begin(lookup.wanted.hash, &mut begun);
        let answer = filter.answer(&begun, |_| false, lookup.caches, &mut lookup.cost);
        lookup.cost.answer = Some(answer);
        Self::lead_of(body, filter, answer, lookup)
    }

    /// Holds the filter's answer against the fences.
    fn lead_of(
        body: &Body,
        filter: &SegmentFilter,
        answer: Answer,
        lookup: &mut Lookup<'_>,
    ) -> Lead {
        let location = match answer {
            Answer::No => return Lead::Absent,
            Answer::Maybe => return Lead::Fences,
            Answer::At(location) => location,
        };
        let block = if location.unknown_bits == 0 {
            body.fences
                .covers(location.block, lookup.wanted.key)
                .then_some(location.block)
        } else {
            let block = body.fences.first_block_of(lookup.wanted.key);
            location.may_be_in(block).then_some(block)
        };
        match block {
            // The last slot that can be stored stands for all behind it.
            Some(block) => {
                let group = location.slot.filter(|slot| *slot < u16::MAX).map(u32::from);
                Lead::Block(Entrance { block, group })
            }
            None => {
                lookup.cost.refuted = true;
                lookup.cost.block = Some(location.block);
                if filter.equal_hashes {
                    Lead::Fences
                } else {
                    Lead::Absent
                }
            }
        }
    }
}

// The search of a block, in memory or read for this lookup.
impl Segment {
    /// Searches a block, and the next ones as long as versions of the key go on.
    fn search(
        &self,
        body: &Body,
        mut entrance: Entrance,
        lookup: &mut Lookup<'_>,
    ) -> Result<Option<Hit>> {
        lookup.cost.block.get_or_insert(entrance.block);
        while entrance.block < body.fences.block_count() {
            let Entrance { block, group } = entrance;
            let (content, is_enough) = match self.come_to(body, entrance, lookup)? {
                Read::Block(content, is_enough) => (content, is_enough),
                Read::Group(hit) => return Ok(hit),
            };
            let Wanted { key, sequence, .. } = lookup.wanted;
            let found = content.shape.search(&content.payload, key, sequence, group);
            match found.map_err(|malformed| self.malformed_block(body, block, &malformed))? {
                Found::Absent => return Ok(None),
                Found::Entry {
                    kind: kind @ Kind::Operand,
                    sequence,
                    value: (start, end),
                } if body.has_versions() => {
                    let value = content.payload.slice(start..end);
                    let older = self.find_older(body, (block, content), sequence, lookup)?;
                    let older = Some(older.into_boxed_slice());
                    return Ok(Some(Hit { kind, value, older }));
                }
                Found::Entry {
                    kind,
                    value: (start, end),
                    ..
                } => {
                    let value = match lookup.wanted.fetched {
                        Some(_) if !is_enough => content.payload.into_part_passing(start..end),
                        _ => content.payload.into_part_alone(start..end),
                    };
                    let hit = Hit::of(kind, value);
                    if !is_enough {
                        self.offer(lookup, &hit);
                    }
                    return Ok(Some(hit));
                }
                Found::Beyond => {
                    entrance = Entrance {
                        block: block + 1,
                        group: Some(0),
                    };
                }
            }
        }
        Ok(None)
    }

    /// Finds what an operand stands on here: the entries of the key that are older, from the block in
    /// which it was found on, down to the first that is no operand.
    #[cold]
    fn find_older(
        &self,
        body: &Body,
        (mut block, mut content): (u32, Block),
        mut newer: Sequence,
        lookup: &mut Lookup<'_>,
    ) -> Result<Vec<Hit>> {
        let key = lookup.wanted.key;
        let mut older = Vec::new();
        let last_block = body.fences.last_block_of(key);
        loop {
            let below = Sequence(newer.0.saturating_sub(1));
            let found = content.shape.search(&content.payload, key, below, None);
            match found.map_err(|malformed| self.malformed_block(body, block, &malformed))? {
                Found::Entry {
                    kind,
                    sequence,
                    value: (start, end),
                } => {
                    let value = content.payload.slice(start..end);
                    older.push(Hit::of(kind, value));
                    if kind != Kind::Operand {
                        return Ok(older);
                    }
                    newer = sequence;
                }
                Found::Beyond if block < last_block => {
                    block += 1;
                    content = self.block(body, block, lookup.caches, &mut lookup.cost)?;
                }
                Found::Absent | Found::Beyond => return Ok(older),
            }
        }
    }

    /// The block, or a group of it, from memory or read.
    #[inline]
    fn come_to(&self, body: &Body, entrance: Entrance, lookup: &mut Lookup<'_>) -> Result<Read> {
        if let Some(fetched) = lookup.wanted.fetched
            && let Some(read) = self.read_before(body, entrance, fetched, lookup)?
        {
            return Ok(read);
        }
        let (caches, cost) = (lookup.caches, &mut lookup.cost);
        match self.block_in_memory(body, entrance.block, caches, cost) {
            Some(content) => {
                let is_enough = content.payload.is_mapped() || !caches.wants_entry_of_kept();
                Ok(Read::Block(content, is_enough))
            }
            None => self.read_for_entry(body, entrance, lookup),
        }
    }

    /// The same from what was read for many lookups, if it is there.
    fn read_before(
        &self,
        body: &Body,
        entrance: Entrance,
        fetched: &FetchedBlocks,
        lookup: &mut Lookup<'_>,
    ) -> Result<Option<Read>> {
        let Some(fetched) = fetched.get(self.meta.id, entrance.block) else {
            return Ok(None);
        };
        let (mark, read) = match &fetched.content {
            Content::Failed(error) => return Err(error.clone()),
            Content::Block(block) => {
                fetched.count(&mut lookup.cost);
                return Ok(Some(Read::Block(block.clone(), fetched.is_kept)));
            }
            Content::Group(mark, read) => (*mark, read),
        };
        if self.mark_of(body, entrance, lookup) == Some(mark) {
            fetched.count(&mut lookup.cost);
            if let Some(group) = Self::open_group(body, entrance.block, mark, read.clone())
                && let Some(hit) = self.search_group(body, entrance.block, group, lookup)?
            {
                return Ok(Some(Read::Group(hit)));
            }
        }
        Err(lookup.stop(Need {
            block: entrance.block,
            group: None,
            is_wanted: Some(false),
        }))
    }

    /// Where the group lies that is enough for a lookup, and its checksum, if they are known.
    fn mark_of(&self, body: &Body, entrance: Entrance, lookup: &Lookup<'_>) -> Option<Mark> {
        let group = entrance.group?;
        if !self.is_all_visible(lookup.wanted.sequence) {
            return None;
        }
        body.groups.get(entrance.block, group)
    }

    /// Reads a block for one entry, or only the group that a filter named. One of many lookups stops.
    fn read_for_entry(
        &self,
        body: &Body,
        entrance: Entrance,
        lookup: &mut Lookup<'_>,
    ) -> Result<Read> {
        let caches = lookup.caches;
        let ordinal = entrance.block;
        let (offset, len) = body.fences.extent(ordinal);
        let mark = self.mark_of(body, entrance, lookup);
        let place = (self.meta.id, offset);
        let mut is_wanted = None;
        if lookup.wanted.fetched.is_some() {
            is_wanted = mark.map(|_| caches.wants(place, len));
            return Err(lookup.stop(Need {
                block: ordinal,
                group: mark.filter(|_| is_wanted == Some(false)),
                is_wanted,
            }));
        }
        if let Some(mark) = mark {
            let is_wanted = *is_wanted.insert(caches.wants(place, len));
            if !is_wanted
                && let Some(group) = self.group_from_file(body, ordinal, mark, &mut lookup.cost)?
                && let Some(hit) = self.search_group(body, ordinal, group, lookup)?
            {
                return Ok(Read::Group(hit));
            }
        }
        let block = self.block_from_file(body, ordinal, &mut lookup.cost)?;
        let is_kept = body.keeps_mapped(ordinal, &block) || {
            let is_wanted = is_wanted.unwrap_or_else(|| caches.wants(place, len));
            if is_wanted {
                self.keep(body, ordinal, &block, caches);
            }
            is_wanted
        };
        if !is_kept {
            let at = (body.identity, offset);
            body.groups.note(ordinal, &block, at, &caches.group_room);
        }
        Ok(Read::Block(block, is_kept))
    }

    /// Searches one group, of a segment whose entries are all visible. `None` where it is not enough:
    /// what an operand stands on may be in the next one.
    fn search_group(
        &self,
        body: &Body,
        ordinal: u32,
        group: Slice,
        lookup: &Lookup<'_>,
    ) -> Result<Option<Option<Hit>>> {
        let found = search_alone(&group, lookup.wanted.key)
            .map_err(|malformed| self.malformed_block(body, ordinal, &malformed))?;
        Ok(match found {
            Found::Entry {
                kind,
                value: (start, end),
                ..
            } => {
                if kind == Kind::Operand && body.has_versions() {
                    return Ok(None);
                }
                let value = group.into_part_alone(start..end);
                let hit = Hit::of(kind, value);
                self.offer(lookup, &hit);
                Some(Some(hit))
            }
            Found::Absent | Found::Beyond => Some(None),
        })
    }

    /// Offers an entry that was found to those that are kept by themselves.
    fn offer(&self, lookup: &Lookup<'_>, hit: &Hit) {
        if self.is_all_visible(lookup.wanted.sequence) {
            let Wanted { hash, key, .. } = lookup.wanted;
            (lookup.caches.entries).offer(self.meta.id, hash, key, hit);
        }
    }
}
