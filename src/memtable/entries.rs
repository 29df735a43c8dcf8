//! Where the entries themselves lie: one after the other, as they came.
//!
//! An entry is eight bytes of sequence and kind, the lengths of key and value as varints, the key
//! and the value. It is named by the number of its chunk and its place there, and never moves.
//!
//! An operand may have a *summary* behind it: what it and all older operands of its key in this
//! table come to. A reader that meets one need not look at those.

use std::cmp::Ordering;
use std::sync::{Arc, Weak};

use crate::arena::{Chunk, Filler, Spares};
use crate::format::varint;
use crate::key::{Kind, Sequence};
use crate::slice::Slice;
use criba_filters::prefetch;

use super::pool::Pool;
use super::sync::{CHUNK_BYTES_MIN, OnceLock};

/// Bytes of sequence and kind, before the lengths.
const STAMP_BYTES: usize = 8;

/// Bits of a stamp that are the kind.
const CODE_BITS: u32 = 2;
const CODE_MASK: u64 = (1 << CODE_BITS) - 1;

/// The kind of an operand with a summary: its value is the operand, the summary, and the length of
/// the operand.
const SUMMED: u8 = 3;
const LENGTH_BYTES: usize = 4;

/// Bytes of usual entries. Of longer ones the processor fetches the rest by itself.
const USUAL_BYTES: usize = 160;

/// Bytes of the longest chunk of usual entries, which is also what a slice that a user keeps can
/// hold of memory.
pub(super) const CHUNK_BYTES_MAX: usize = 256 << 10;

/// Entries begin at multiples of this, so that four bytes name them all.
pub(super) const UNIT: usize = 4;

/// Bits of a name that are the place in the chunk: all units of the longest in which a second
/// entry begins.
const PLACE_BITS: u32 = (CHUNK_BYTES_MAX / UNIT).trailing_zeros();

/// Chunks that can be named: 16 GiB of the longest. A table is a quarter of it at most
/// ([`Builder::memtable_bytes`](crate::Builder::memtable_bytes)); the rest is for the batches that
/// make it full.
pub(super) const CHUNKS_MAX: u32 = u32::MAX >> PLACE_BITS;

/// The name of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EntryRef(u32);

impl EntryRef {
    /// Stands before all entries.
    pub(super) const NONE: EntryRef = EntryRef(u32::MAX);

    pub(super) fn some(self) -> Option<EntryRef> {
        (self != EntryRef::NONE).then_some(self)
    }

    pub(super) fn from_u32(number: u32) -> EntryRef {
        EntryRef(number)
    }

    pub(super) fn to_u32(self) -> u32 {
        self.0
    }

    /// # Panics
    ///
    /// If an entry is to begin behind the first [`CHUNK_BYTES_MAX`] of a chunk: it would get the name
    /// of another.
    pub(super) fn new(chunk: u32, start: usize) -> EntryRef {
        assert!(start < CHUNK_BYTES_MAX, "no entry begins far into a chunk");
        EntryRef(chunk << PLACE_BITS | (start / UNIT) as u32)
    }

    pub(super) fn chunk(self) -> u32 {
        self.0 >> PLACE_BITS
    }

    pub(super) fn start(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize * UNIT
    }
}

/// What a new entry holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content<'a> {
    pub(super) kind: Kind,
    pub(super) value: &'a [u8],
    /// Only of an operand.
    pub(super) summary: Option<&'a [u8]>,
}

impl<'a> Content<'a> {
    pub(super) fn of(kind: Kind, value: &'a [u8]) -> Content<'a> {
        Content {
            kind,
            value,
            summary: None,
        }
    }
}

/// An entry in its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    chunk: &'a Arc<Chunk>,
    /// Where the key begins, and all that was written from there on.
    start: usize,
    bytes: &'a [u8],
    key_bytes: usize,
    /// Of the value, with the summary if there is one.
    value_bytes: usize,
    pub(super) sequence: Sequence,
    code: u8,
}

impl<'a> Entry<'a> {
    #[inline]
    pub(super) fn key(&self) -> &'a [u8] {
        &self.bytes[..self.key_bytes]
    }

    pub(super) fn key_slice(&self) -> Slice {
        let range = self.start..self.start + self.key_bytes;
        Slice::from_chunk(Arc::clone(self.chunk), range)
    }

    #[inline]
    pub(super) fn kind(&self) -> Kind {
        match self.code {
            0 => Kind::Tombstone,
            1 => Kind::Value,
            _ => Kind::Operand,
        }
    }

    pub(super) fn value(&self) -> &'a [u8] {
        &self.bytes[self.key_bytes..][..self.own_bytes()]
    }

    pub(super) fn value_slice(&self) -> Slice {
        let start = self.start + self.key_bytes;
        Slice::from_chunk(Arc::clone(self.chunk), start..start + self.own_bytes())
    }

    /// What this operand and all older ones of the key in this table come to, if it is known.
    pub(super) fn summary(&self) -> Option<Slice> {
        let start = self.start + self.key_bytes;
        let range = start + self.own_bytes()..start + self.value_bytes - LENGTH_BYTES;
        (self.code == SUMMED).then(|| Slice::from_chunk(Arc::clone(self.chunk), range))
    }

    /// Bytes of the value itself.
    #[inline]
    fn own_bytes(&self) -> usize {
        if self.code != SUMMED {
            return self.value_bytes;
        }
        let all = &self.bytes[self.key_bytes..][..self.value_bytes];
        let length = all.last_chunk().copied().unwrap_or_default();
        u32::from_le_bytes(length) as usize
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
    spares: Weak<Spares>,
}

/// The right to add entries.
#[derive(Debug, Default)]
pub(super) struct Adder {
    chunk_count: u32,
    /// The chunk that is being filled, and its number.
    filler: Option<(Filler, u32)>,
    /// Memory that entries have taken: their bytes, and what was left at the end of chunks.
    bytes: u64,
    /// What stands before the key, while an entry is added.
    header: Vec<u8>,
}

impl Adder {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn room(&self) -> usize {
        self.filler.as_ref().map_or(0, |(filler, _)| filler.room())
    }
}

impl Entries {
    pub(super) fn new(spares: Weak<Spares>) -> Entries {
        Entries {
            chunks: Pool::new(),
            spares,
        }
    }

    /// Adds an entry, of less than 4 GiB.
    ///
    /// # Panics
    ///
    /// If there are [`CHUNKS_MAX`] chunks.
    pub(super) fn add(
        &self,
        adder: &mut Adder,
        (key, sequence): (&[u8], Sequence),
        content: Content<'_>,
    ) -> EntryRef {
        let Content { kind, value, .. } = content;
        // At most `MAX_VALUE_BYTES`.
        let length = (value.len() as u32).to_le_bytes();
        let (code, summary, length) = match content.summary {
            Some(summary) => (SUMMED, summary, &length[..]),
            None => (kind.to_u8(), &[][..], &[][..]),
        };
        let value_bytes = value.len() + summary.len() + length.len();
        let stamp = sequence.0 << CODE_BITS | u64::from(code);
        adder.header.clear();
        adder.header.extend(stamp.to_le_bytes());
        varint::encode(key.len() as u64, &mut adder.header);
        varint::encode(value_bytes as u64, &mut adder.header);
        let bytes = adder.header.len() + key.len() + value_bytes;
        let padding = &[0; UNIT][..bytes.next_multiple_of(UNIT) - bytes];
        let parts = [&adder.header[..], key, value, summary, length, padding];
        let bytes = bytes + padding.len();
        adder.bytes += bytes as u64;
        if let Some((filler, number)) = &mut adder.filler
            && let Some(start) = filler.append(&parts)
        {
            return EntryRef::new(*number, start);
        }
        let number = adder.chunk_count;
        assert!(number < CHUNKS_MAX, "a memtable of 16 GiB takes no more");
        let grown = CHUNK_BYTES_MIN << number.min(16);
        let mut filler = Filler::new(grown.min(CHUNK_BYTES_MAX).max(bytes), &self.spares);
        self.chunks
            .make(number)
            .get_or_init(|| Arc::clone(filler.chunk()));
        adder.chunk_count += 1;
        let start = filler.append(&parts).expect("the chunk was made for it");
        // What is left of the other chunk may be more than of one that was made for a long entry,
        // which is none: so no entry begins far into a chunk that is longer than usual.
        let (left, room) = (adder.room(), filler.room());
        adder.bytes += left.min(room) as u64;
        if room >= left {
            adder.filler = Some((filler, number));
        }
        EntryRef::new(number, start)
    }

    /// Begins to fetch an entry that will be read, as far as usual ones go.
    pub(super) fn prefetch(&self, entry: EntryRef) {
        if let Some(chunk) = self.chunks.get(entry.chunk()).get() {
            prefetch(chunk.read_from(entry.start()), 0, USUAL_BYTES);
        }
    }

    /// The entry of this name, which is not [`EntryRef::NONE`].
    #[inline]
    pub(super) fn get(&self, entry: EntryRef) -> Entry<'_> {
        let chunk = self.chunks.get(entry.chunk()).get();
        let chunk = chunk.expect("names are of entries that were added");
        let bytes = chunk.read_from(entry.start());
        let (stamp, lengths) = bytes
            .split_first_chunk()
            .unwrap_or((&[0; STAMP_BYTES], &[]));
        let stamp = u64::from_le_bytes(*stamp);
        let (key_bytes, first) = varint::decode(lengths).unwrap_or_default();
        let (value_bytes, second) = varint::decode(&lengths[first..]).unwrap_or_default();
        let header_bytes = STAMP_BYTES + first + second;
        Entry {
            chunk,
            start: entry.start() + header_bytes,
            bytes: &bytes[header_bytes..],
            key_bytes: key_bytes as usize,
            value_bytes: value_bytes as usize,
            sequence: Sequence(stamp >> CODE_BITS),
            code: (stamp & CODE_MASK) as u8,
        }
    }
}
