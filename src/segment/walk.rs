//! Walks the entries of a segment, group by group, in either direction.

use std::ops::Bound;
use std::sync::Arc;

use crate::cursor::{Cursor, Direction, Item};
use crate::error::Result;
use crate::key::Sequence;
use crate::slice::Slice;

use super::ahead::{Ahead, Reading};
use super::reader::{Probe, Segment};
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
    /// Decoded entries of the current group, last one first.
    group: Vec<Item>,
    ahead: Option<Ahead>,
}

#[derive(Debug)]
enum Place {
    /// Nothing was read yet.
    Start,
    /// The group that comes next.
    Group {
        ordinal: u32,
        block: Block,
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
            group: Vec::new(),
            ahead: match (reading, direction) {
                (Reading::Ahead, Direction::Forward) => Some(Ahead::default()),
                _ => None,
            },
        }
    }

    fn load(&mut self, ordinal: u32) -> Result<Block> {
        let (segment, body) = (&self.segment, self.segment.body()?);
        let Some(ahead) = &mut self.ahead else {
            return segment.block(body, ordinal, &self.caches, &mut Probe::default());
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
        Ok(Place::Group {
            ordinal,
            block,
            group,
        })
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

    /// Decodes one group into `self.group`, reversed so that the next entry is at its end.
    fn decode(&mut self, ordinal: u32, block: &Block, group: u32) -> Result<()> {
        block
            .decode(group, &mut self.group)
            .map_err(|what| self.malformed(ordinal, &what))?;
        if self.direction == Direction::Forward {
            self.group.reverse();
        }
        Ok(())
    }

    /// Moves on by one group. `false` at the end.
    fn advance(&mut self) -> Result<bool> {
        let place = match std::mem::replace(&mut self.place, Place::End) {
            Place::Start => self.start()?,
            place => place,
        };
        let (ordinal, block, group) = match place {
            Place::Start | Place::End => return Ok(false),
            Place::Group {
                ordinal,
                block,
                group,
            } => (ordinal, block, group),
            Place::Block(ordinal) => {
                let block = self.load(ordinal)?;
                let group = match self.direction {
                    Direction::Forward => 0,
                    Direction::Backward => block.shape.group_count() - 1,
                };
                (ordinal, block, group)
            }
        };
        self.decode(ordinal, &block, group)?;
        let blocks = self.segment.body()?.fences.block_count();
        self.place = match self.direction {
            Direction::Forward if group + 1 < block.shape.group_count() => Place::Group {
                ordinal,
                block,
                group: group + 1,
            },
            Direction::Backward if group > 0 => Place::Group {
                ordinal,
                block,
                group: group - 1,
            },
            Direction::Forward if ordinal + 1 < blocks => Place::Block(ordinal + 1),
            Direction::Backward if ordinal > 0 => Place::Block(ordinal - 1),
            Direction::Forward | Direction::Backward => Place::End,
        };
        Ok(true)
    }

    fn is_before_start(&self, key: &[u8]) -> bool {
        match (&self.from, self.direction) {
            (Bound::Unbounded, _) => false,
            (Bound::Included(from), Direction::Forward) => *key < **from,
            (Bound::Excluded(from), Direction::Forward) => *key <= **from,
            (Bound::Included(from), Direction::Backward) => *key > **from,
            (Bound::Excluded(from), Direction::Backward) => *key >= **from,
        }
    }
}

impl Cursor for SegmentWalk {
    fn next(&mut self) -> Result<Option<Item>> {
        loop {
            while let Some(item) = self.group.pop() {
                if !self.is_before_start(&item.key) {
                    self.from = Bound::Unbounded;
                    return Ok(Some(item));
                }
            }
            if !self.advance()? {
                return Ok(None);
            }
        }
    }
}
