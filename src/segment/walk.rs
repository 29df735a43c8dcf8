//! Walks the entries of a segment, group by group, in either direction.

use std::ops::{Bound, Range};
use std::sync::{Arc, OnceLock};

use crate::bounds::{is_above, is_below};
use crate::cursor::{Cursor, Direction, NO_ENTRY};
use crate::error::Result;
use crate::format::block::{Decoded, Entry, Group};
use crate::key::Sequence;
use crate::slice::Slice;

use super::outcome::LookupCost;
use super::readahead::{Ahead, Reading, Windows};
use super::reader::Segment;
use super::{Block, Caches};

/// A cursor over one segment that owns what it needs.
///
/// Costs one data-block read for each block it enters, or reads many blocks at once: see
/// [`Reading`]. Nothing is read before the first call.
#[derive(Debug)]
pub(crate) struct SegmentWalk {
    segment: Arc<Segment>,
    caches: Arc<Caches>,
    direction: Direction,
    /// Entries before this bound (in the direction of the walk) are passed over.
    from: Bound<Slice>,
    place: Place,
    /// The block of the current group, or of the next one.
    block: Option<Block>,
    group: Group,
    /// Entries of the group that are left, that at which it stands first in the direction.
    rest: Range<usize>,
    /// The keys of the group, once someone wants to keep one.
    keys: OnceLock<Slice>,
    ahead: Option<Ahead>,
    windows: Windows,
    /// Blocks that were asked for one by one.
    cost: LookupCost,
}

#[derive(Debug)]
enum Place {
    /// Nothing was read yet.
    Start,
    /// The group that comes next, in the block that is there.
    Group {
        ordinal: u32,
        group: u32,
    },
    /// The block that comes next, from its first or last group.
    Block(u32),
    End,
}

impl SegmentWalk {
    pub(crate) fn new(
        segment: Arc<Segment>,
        caches: Arc<Caches>,
        direction: Direction,
        from: Bound<Slice>,
        reading: Reading,
    ) -> SegmentWalk {
        let place = Place::Start;
        SegmentWalk {
            segment,
            caches,
            direction,
            from,
            place,
            block: None,
            group: Group::default(),
            rest: 0..0,
            keys: OnceLock::new(),
            ahead: match (reading, direction) {
                (Reading::Ahead, Direction::Forward) => Some(Ahead::default()),
                _ => None,
            },
            windows: Windows::default(),
            cost: LookupCost::default(),
        }
    }

    /// Data blocks asked for, and read from storage, except for those that were read ahead.
    pub(crate) fn blocks(&self) -> (u64, u64) {
        (self.cost.data_blocks, self.cost.block_reads)
    }

    fn load(&mut self, ordinal: u32) -> Result<Block> {
        let (segment, body) = (&self.segment, self.segment.body()?);
        let Some(ahead) = &mut self.ahead else {
            self.windows.come_to(body, ordinal, self.direction);
            return segment.block(body, ordinal, &self.caches, &mut self.cost);
        };
        let (offset, _) = body.fences.extent(ordinal);
        let stored = ahead.stored(segment, body, ordinal)?;
        segment.open_block(body, offset, &stored)
    }

    /// The group at which the walk begins.
    fn start(&mut self) -> Result<Place> {
        let segment = Arc::clone(&self.segment);
        let fences = &segment.body()?.fences;
        let (first, last) = (&*segment.meta.first_key, &*segment.meta.last_key);
        let (Bound::Included(key) | Bound::Excluded(key)) = self.from.clone() else {
            return Ok(self.outermost_block(fences.block_count()));
        };
        match self.direction {
            Direction::Forward if *key > *last => return Ok(Place::End),
            Direction::Forward if *key < *first => return Ok(Place::Block(0)),
            Direction::Backward if *key < *first => return Ok(Place::End),
            Direction::Backward if *key > *last => {
                return Ok(self.outermost_block(fences.block_count()));
            }
            Direction::Forward | Direction::Backward => {}
        }
        // Before the newest entry of the key, or behind the oldest.
        let (ordinal, sequence) = match self.direction {
            Direction::Forward => (fences.first_block_of(&key), Sequence(u64::MAX)),
            Direction::Backward => (fences.last_block_of(&key), Sequence(0)),
        };
        let block = self.load(ordinal)?;
        let group = block
            .shape
            .seek_group(&block.payload, &key, sequence)
            .map_err(|what| self.malformed(ordinal, &what))?;
        self.block = Some(block);
        Ok(Place::Group { ordinal, group })
    }

    fn outermost_block(&self, block_count: u32) -> Place {
        match (self.direction, block_count) {
            (_, 0) => Place::End,
            (Direction::Forward, _) => Place::Block(0),
            (Direction::Backward, _) => Place::Block(block_count - 1),
        }
    }

    fn malformed(&self, ordinal: u32, what: &crate::format::Malformed) -> crate::error::Error {
        match self.segment.body() {
            Ok(body) => self.segment.malformed_block(body, ordinal, what),
            Err(error) => error,
        }
    }

    /// Decodes the next group and stands at its first entry. `false` at the end.
    fn next_group(&mut self) -> Result<bool> {
        self.keys = OnceLock::new();
        self.rest = 0..0;
        let place = match std::mem::replace(&mut self.place, Place::End) {
            Place::Start => self.start()?,
            place => place,
        };
        let (ordinal, group) = match place {
            Place::Start | Place::End => return Ok(false),
            Place::Group { ordinal, group } => (ordinal, Some(group)),
            Place::Block(ordinal) => {
                self.block = Some(self.load(ordinal)?);
                (ordinal, None)
            }
        };
        let Some(block) = &self.block else {
            return Ok(false);
        };
        let groups = block.shape.group_count();
        let group = group.unwrap_or(match self.direction {
            Direction::Forward => 0,
            Direction::Backward => groups - 1,
        });
        let decoded = block
            .shape
            .decode_group(&block.payload, group, &mut self.group);
        decoded.map_err(|what| self.malformed(ordinal, &what))?;
        self.rest = 0..self.group.entries.len();
        let blocks = self.segment.body()?.fences.block_count();
        self.place = match self.direction {
            Direction::Forward if group + 1 < groups => Place::Group {
                ordinal,
                group: group + 1,
            },
            Direction::Backward if group > 0 => Place::Group {
                ordinal,
                group: group - 1,
            },
            Direction::Forward if ordinal + 1 < blocks => Place::Block(ordinal + 1),
            Direction::Backward if ordinal > 0 => Place::Block(ordinal - 1),
            Direction::Forward | Direction::Backward => Place::End,
        };
        Ok(true)
    }

    fn pass(&mut self) {
        match self.direction {
            Direction::Forward => drop(self.rest.next()),
            Direction::Backward => drop(self.rest.next_back()),
        }
    }

    fn is_before_start(&self, key: &[u8]) -> bool {
        match self.direction {
            Direction::Forward => !is_above(&self.from, key),
            Direction::Backward => !is_below(&self.from, key),
        }
    }
}

impl SegmentWalk {
    /// The entry at which it stands, and the block that it is in.
    fn current(&self) -> Option<(&Block, &Decoded)> {
        let index = match self.direction {
            Direction::Forward => self.rest.start,
            Direction::Backward => self.rest.end.checked_sub(1)?,
        };
        if self.rest.is_empty() {
            return None;
        }
        Some((self.block.as_ref()?, self.group.entries.get(index)?))
    }
}

impl Cursor for SegmentWalk {
    fn advance(&mut self) -> Result<bool> {
        self.pass();
        loop {
            while let Some((_, entry)) = self.current() {
                if !self.is_before_start(self.group.key(entry)) {
                    self.from = Bound::Unbounded;
                    return Ok(true);
                }
                self.pass();
            }
            if !self.next_group()? {
                return Ok(false);
            }
        }
    }

    fn entry(&self) -> Entry<'_> {
        self.current().map_or(NO_ENTRY, |(block, entry)| Entry {
            key: self.group.key(entry),
            sequence: entry.sequence,
            kind: entry.kind,
            value: &block.payload[entry.value.0..entry.value.1],
        })
    }

    fn key(&self) -> Slice {
        self.current().map_or_else(Slice::default, |(_, entry)| {
            let keys = || Slice::from(&*self.group.keys);
            self.keys.get_or_init(keys).slice(entry.key.0..entry.key.1)
        })
    }

    fn value(&self) -> Slice {
        self.current()
            .map_or_else(Slice::default, |(block, entry)| {
                block.payload.slice(entry.value.0..entry.value.1)
            })
    }
}
