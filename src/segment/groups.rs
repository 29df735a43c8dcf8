//! Groups of data blocks that can be read by themselves.
//!
//! A lookup that a filter leads to a group of a block wants a few hundred bytes, and the checksum
//! on disk is that of the whole block. So once a lookup has read a block and verified it, where its
//! groups lie and a checksum of each stay in memory, and the next lookups read one group alone.
//! What they save is what the system copies and the processor sums: a seventh to a fifth of a
//! lookup whose block is in the system's memory. From a device it is a page in both cases.
//!
//! Eight bytes for each group are a fiftieth of the file at 500 bytes each. All segments share a
//! room of an eighth of the cache's budget ([`Room`]). A segment that comes when it is used up goes
//! without. Blocks that are compressed, longer than 64 KB, or of groups below 256 bytes go
//! without as well.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::format::checksum;

use super::Block;

/// A group shorter than this, if as many as there can be fill a block, is not worth its mark.
const GROUP_BYTES_MIN: u64 = 256;

/// Reads are as long as the group, up to the next multiple of this: memory that was read into fits
/// the next read only if that is as long.
const READ_STEP: u64 = 256;

/// Bytes of the cache's budget for each byte of the room.
const BUDGET_PER_ROOM: u64 = 8;

/// Bytes that the marks of all segments may take.
#[derive(Clone, Debug)]
pub(super) struct Room {
    most_bytes: u64,
    taken_bytes: Arc<AtomicU64>,
}

impl Room {
    pub(super) fn of_budget(budget_bytes: u64) -> Room {
        Room {
            most_bytes: budget_bytes / BUDGET_PER_ROOM,
            taken_bytes: Arc::default(),
        }
    }

    /// Bytes that marks take.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> Option<Taken> {
        let more = |taken: u64| {
            taken
                .checked_add(bytes)
                .filter(|all| *all <= self.most_bytes)
        };
        // Relaxed: it is a number that says nothing of other memory.
        let taken = (self.taken_bytes).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Taken {
            room: self.clone(),
            bytes,
        })
    }
}

/// A part of the room, until it is dropped.
#[derive(Debug)]
struct Taken {
    room: Room,
    bytes: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room
            .taken_bytes
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What is known of the groups of a segment.
#[derive(Debug)]
pub(super) struct Groups {
    /// Groups of a block, at most; 0 where none is to be read by itself.
    stride: usize,
    blocks: usize,
    /// Made when the first block is noted; `None` inside for no room.
    marks: OnceLock<Option<Marks>>,
}

#[derive(Debug)]
struct Marks {
    /// One for each group, block after block, 0 for what is not known. Relaxed: each stands by
    /// itself.
    all: Box<[AtomicU64]>,
    _taken: Taken,
}

/// Where a group lies in its block, and its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    start: u16,
    len: u16,
    sum: u32,
}

impl Mark {
    fn of_number(number: u64) -> Option<Mark> {
        // No group begins at 0, where the header is.
        (number != 0).then_some(Mark {
            start: number as u16,
            len: (number >> 16) as u16,
            sum: (number >> 32) as u32,
        })
    }

    fn number(self) -> u64 {
        u64::from(self.start) | u64::from(self.len) << 16 | u64::from(self.sum) << 32
    }

    /// Of a block at this place of the file, offset and length of what is to be read.
    pub(super) fn extent(self, (offset, len): (u64, u64)) -> (u64, u64) {
        let start = u64::from(self.start);
        let wanted = u64::from(self.len).next_multiple_of(READ_STEP);
        (
            offset.saturating_add(start),
            wanted.min(len.saturating_sub(start)),
        )
    }

    /// The group, from what was read at this offset, if it is what it was.
    pub(super) fn verify(self, file: u64, offset: u64, read: &[u8]) -> Option<&[u8]> {
        let group = read.get(..usize::from(self.len))?;
        (checksum::at(file, offset, &[group]) == self.sum).then_some(group)
    }
}

impl Groups {
    /// For blocks of at most so many bytes, whose last group has at most this number. Without it,
    /// for none.
    pub(super) fn new(blocks: u32, block_bytes: u64, last_group: Option<u16>) -> Groups {
        let count = last_group.map_or(0, |last| u64::from(last) + 1);
        // One is as much as the block.
        let are_worth_it = count > 1 && count * GROUP_BYTES_MIN <= block_bytes;
        Groups {
            stride: if are_worth_it { count as usize } else { 0 },
            blocks: blocks as usize,
            marks: OnceLock::new(),
        }
    }

    fn place(&self, block: u32, group: u32) -> Option<usize> {
        let is_one = (group as usize) < self.stride;
        is_one.then(|| block as usize * self.stride + group as usize)
    }

    fn known(&self) -> &[AtomicU64] {
        let marks = self.marks.get().and_then(Option::as_ref);
        marks.map_or(&[], |marks| &marks.all)
    }

    #[inline]
    pub(super) fn get(&self, block: u32, group: u32) -> Option<Mark> {
        let mark = self.known().get(self.place(block, group)?)?;
        Mark::of_number(mark.load(Ordering::Relaxed))
    }

    /// Keeps where the groups are of a block that was read from this offset of the file and
    /// verified.
    pub(super) fn note(
        &self,
        ordinal: u32,
        block: &Block,
        (file, offset): (u64, u64),
        room: &Room,
    ) {
        if self.stride == 0 {
            return;
        }
        let made = self
            .marks
            .get_or_init(|| Marks::new(self.blocks * self.stride, room));
        let Some(marks) = made else { return };
        let payload = &block.payload;
        for group in 0..block.shape.group_count() {
            let Some(mark) = self
                .place(ordinal, group)
                .and_then(|place| marks.all.get(place))
            else {
                return;
            };
            let Ok((start, end)) = block.shape.group_range(payload, group) else {
                return;
            };
            let bytes = payload.get(start..end).unwrap_or_default();
            let (Ok(start), Ok(len)) = (u16::try_from(start), u16::try_from(bytes.len())) else {
                return;
            };
            let sum = checksum::at(file, offset.saturating_add(start.into()), &[bytes]);
            mark.store(Mark { start, len, sum }.number(), Ordering::Relaxed);
        }
    }

    /// Bytes in memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        size_of_val(self.known()) as u64
    }
}

impl Marks {
    fn new(count: usize, room: &Room) -> Option<Marks> {
        let taken = room.take(count as u64 * size_of::<AtomicU64>() as u64)?;
        Some(Marks {
            all: (0..count).map(|_| AtomicU64::new(0)).collect(),
            _taken: taken,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::block::{Builder, Entry};
    use crate::key::{Kind, Sequence};
    use crate::slice::Slice;

    const FILE: u64 = 7;

    /// Of so many entries, two in a group.
    fn block(entries: u64) -> Block {
        let mut builder = Builder::new(Sequence(1), 2);
        for n in 0..entries {
            builder.add(&Entry {
                key: format!("key{n:03}").as_bytes(),
                sequence: Sequence(1 + n),
                kind: Kind::Value,
                value: &[n as u8; 200],
            });
        }
        Block::of_payload(Slice::from(builder.finish())).unwrap()
    }

    #[test]
    fn groups_are_known_by_what_was_noted() {
        let room = Room::of_budget(1 << 20);
        let groups = Groups::new(10, 4096, Some(8));
        assert_eq!((groups.get(3, 0), groups.memory_bytes()), (None, 0));
        let block = block(11);
        groups.note(3, &block, (FILE, 12_288), &room);
        assert_eq!(groups.memory_bytes(), 10 * 9 * 8);
        for group in 0..6 {
            let mark = groups.get(3, group).unwrap();
            assert_eq!(Mark::of_number(mark.number()), Some(mark));
            let (start, end) = block.shape.group_range(&block.payload, group).unwrap();
            let (offset, len) = mark.extent((12_288, block.payload.len() as u64));
            assert_eq!(offset, 12_288 + start as u64);
            let rest = block.payload.len() - start;
            assert_eq!(len as usize, (end - start).next_multiple_of(256).min(rest));
            let mut read = block.payload[start..start + len as usize].to_vec();
            let whole = &block.payload[start..end];
            assert_eq!(mark.verify(FILE, offset, &read), Some(whole));
            assert_eq!(mark.verify(FILE + 1, offset, &read), None);
            assert_eq!(mark.verify(FILE, offset + 1, &read), None);
            assert_eq!(mark.verify(FILE, offset, &read[..end - start - 1]), None);
            read[(end - start) / 2] ^= 1;
            assert_eq!(mark.verify(FILE, offset, &read), None);
        }
        for (block, group) in [(3, 6), (3, 9), (2, 8), (4, 0), (10, 0), (u32::MAX, 1)] {
            assert_eq!(groups.get(block, group), None, "{block}, {group}");
        }
        // More groups than the filter tells, or of another segment: those that have a place.
        groups.note(9, &self::block(30), (FILE, 0), &room);
        assert!(groups.get(9, 8).is_some());
        groups.note(10, &block, (FILE, 0), &room);
    }

    #[test]
    fn only_long_groups_of_several_are_worth_it() {
        let room = Room::of_budget(1 << 20);
        for (block_bytes, last, are_kept) in [
            (4096, None, false),
            (4096, Some(0), false),
            (4096, Some(1), true),
            (4096, Some(15), true),
            (4096, Some(16), false),
            (0, Some(1), false),
        ] {
            let groups = Groups::new(4, block_bytes, last);
            groups.note(0, &block(4), (FILE, 0), &room);
            assert_eq!(
                groups.get(0, 0).is_some(),
                are_kept,
                "{block_bytes}, {last:?}"
            );
        }
    }

    #[test]
    fn room_is_shared_and_given_back() {
        let room = Room::of_budget(BUDGET_PER_ROOM * 100 * 8);
        let [first, second] = [60, 50].map(|blocks| Groups::new(blocks, 4096, Some(1)));
        let small = Groups::new(10, 4096, Some(1));
        second.note(0, &block(2), (FILE, 0), &room);
        assert_eq!(second.memory_bytes(), 800);
        first.note(0, &block(2), (FILE, 0), &room);
        assert_eq!((first.get(0, 0), first.memory_bytes()), (None, 0));
        small.note(0, &block(2), (FILE, 0), &room);
        assert_eq!(small.memory_bytes(), 0);
        assert_eq!(room.taken_bytes(), 800);
        drop(second);
        // Who found none is not asked again.
        small.note(0, &block(2), (FILE, 0), &room);
        assert_eq!(small.memory_bytes(), 0);
        let later = Groups::new(10, 4096, Some(1));
        later.note(0, &block(2), (FILE, 0), &room);
        assert_eq!((later.memory_bytes(), room.taken_bytes()), (160, 160));
    }
}
