//! Where the entries themselves lie: one after the other, as they came.
//!
//! An entry is 16 bytes of sequence, kind and lengths, the key and the value. It is named by the
//! number of its chunk and its place there, and never moves.

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use crate::arena::{Chunk, Filler};
use crate::key::{Kind, Sequence};
use crate::slice::Slice;

use super::pool::Pool;

/// Bytes of an entry before its key.
pub(super) const HEADER_BYTES: usize = 16;

/// The first chunk is small, as many tables are; each is twice as long as the one before, up to
/// the most, which is also what a slice that a user keeps can hold of memory.
const CHUNK_BYTES_MIN: usize = 4 << 10;
const CHUNK_BYTES_MAX: usize = 256 << 10;

/// The name of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EntryRef(u64);

impl EntryRef {
    /// Stands before all entries.
    pub(super) const NONE: EntryRef = EntryRef(u64::MAX);

    pub(super) fn from_u64(number: u64) -> EntryRef {
        EntryRef(number)
    }

    pub(super) fn to_u64(self) -> u64 {
        self.0
    }

    fn new(chunk: u32, start: usize) -> EntryRef {
        // Chunks are shorter than 4 GiB.
        EntryRef(u64::from(chunk) << 32 | start as u64)
    }

    fn chunk(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn start(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }
}

/// An entry in its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    chunk: &'a Arc<Chunk>,
    /// Where the key begins.
    start: usize,
    key_bytes: usize,
    value_bytes: usize,
    pub(super) sequence: Sequence,
    pub(super) kind: Kind,
}

impl<'a> Entry<'a> {
    #[inline]
    pub(super) fn key(&self) -> &'a [u8] {
        self.chunk.read(self.start..self.start + self.key_bytes)
    }

    pub(super) fn key_slice(&self) -> Slice {
        let range = self.start..self.start + self.key_bytes;
        Slice::from_chunk(Arc::clone(self.chunk), range)
    }

    pub(super) fn value(&self) -> &'a [u8] {
        let start = self.start + self.key_bytes;
        self.chunk.read(start..start + self.value_bytes)
    }

    pub(super) fn value_slice(&self) -> Slice {
        let start = self.start + self.key_bytes;
        Slice::from_chunk(Arc::clone(self.chunk), start..start + self.value_bytes)
    }

    /// The order of entries: key ascending, then newest first.
    #[inline]
    pub(super) fn compare(&self, key: &[u8], sequence: Sequence) -> Ordering {
        self.key().cmp(key).then(sequence.cmp(&self.sequence))
    }
}

/// All entries of a table.
#[derive(Debug)]
pub(super) struct Entries {
    chunks: Pool<OnceLock<Arc<Chunk>>>,
}

/// The right to add entries.
#[derive(Debug, Default)]
pub(super) struct Adder {
    chunk_count: u32,
    /// The chunk that is being filled, and its number.
    filler: Option<(Filler, u32)>,
}

impl Entries {
    pub(super) fn new() -> Entries {
        Entries {
            chunks: Pool::new(),
        }
    }

    /// Adds an entry, of less than 4 GiB.
    pub(super) fn add(
        &self,
        adder: &mut Adder,
        (key, sequence): (&[u8], Sequence),
        (kind, value): (Kind, &[u8]),
    ) -> EntryRef {
        let mut header = [0; HEADER_BYTES];
        let stamp = sequence.0 << 1 | u64::from(kind.to_u8());
        header[..8].copy_from_slice(&stamp.to_le_bytes());
        // A key has at most 64 KiB, a value 1 GiB.
        header[8..12].copy_from_slice(&(key.len() as u32).to_le_bytes());
        header[12..].copy_from_slice(&(value.len() as u32).to_le_bytes());
        let parts = [&header[..], key, value];
        if let Some((filler, number)) = &mut adder.filler
            && let Some(start) = filler.append(&parts)
        {
            return EntryRef::new(*number, start);
        }
        let bytes = HEADER_BYTES + key.len() + value.len();
        let number = adder.chunk_count;
        let grown = CHUNK_BYTES_MIN << number.min(16);
        let usual = grown.min(CHUNK_BYTES_MAX);
        let mut filler = Filler::new(usual.max(bytes));
        self.chunks
            .make(number)
            .get_or_init(|| Arc::clone(filler.chunk()));
        adder.chunk_count += 1;
        let start = filler.append(&parts).expect("the chunk was made for it");
        // What is left of the other chunk may be more than of one that was made for a long entry.
        let left = |filler: &Option<(Filler, u32)>| filler.as_ref().map_or(0, |one| one.0.room());
        if filler.room() >= left(&adder.filler) {
            adder.filler = Some((filler, number));
        }
        EntryRef::new(number, start)
    }

    /// The entry of this name, which is not [`EntryRef::NONE`].
    #[inline]
    pub(super) fn get(&self, entry: EntryRef) -> Entry<'_> {
        let chunk = self.chunks.get(entry.chunk()).get();
        let chunk = chunk.expect("names are of entries that were added");
        let header = chunk.read(entry.start()..entry.start() + HEADER_BYTES);
        let (stamp, lengths) = header.split_at(8);
        let stamp = u64::from_le_bytes(stamp.try_into().unwrap_or_default());
        let lengths = u64::from_le_bytes(lengths.try_into().unwrap_or_default());
        Entry {
            chunk,
            start: entry.start() + HEADER_BYTES,
            key_bytes: (lengths & u64::from(u32::MAX)) as usize,
            value_bytes: (lengths >> 32) as usize,
            sequence: Sequence(stamp >> 1),
            kind: if stamp & 1 == 1 {
                Kind::Value
            } else {
                Kind::Tombstone
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_as_they_were_added() {
        let (entries, mut adder) = (Entries::new(), Adder::default());
        let value = |n: u64| vec![n as u8; (n * n * 37 % 5000) as usize];
        let key = |n: u64| format!("{n:0width$}", width = (n % 50) as usize).into_bytes();
        let kind = |n: u64| {
            if n.is_multiple_of(3) {
                Kind::Tombstone
            } else {
                Kind::Value
            }
        };
        let add = |n| entries.add(&mut adder, (&key(n), Sequence(n)), (kind(n), &value(n)));
        let mut names: Vec<EntryRef> = (0..500).map(add).collect();
        let long = vec![7; 1 << 20];
        names.push(entries.add(&mut adder, (b"", Sequence::MAX), (Kind::Value, &long)));
        // The long one has not cut short the chunk that was being filled.
        assert!(
            adder
                .filler
                .as_ref()
                .is_some_and(|(filler, _)| filler.room() > 0)
        );
        for (n, &name) in (0..500).zip(&names) {
            let entry = entries.get(name);
            assert_eq!(
                (entry.key(), entry.key_slice()),
                (&*key(n), Slice::from(key(n)))
            );
            assert_eq!(entry.value_slice(), value(n));
            assert_eq!((entry.sequence, entry.kind), (Sequence(n), kind(n)));
        }
        let last = entries.get(names[500]);
        assert_eq!(
            (last.sequence, last.value_slice().len()),
            (Sequence::MAX, 1 << 20)
        );
    }
}
