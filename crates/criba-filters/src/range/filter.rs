//! A range filter that can be asked.

use std::ops::Range;

use super::bits::Reader;
use super::cells::{Cell, Found, Resolution, Root, first_from, last_to, may_meet};
use super::coder::Coder;
use crate::Result;
use crate::fields::{Fields, require};

/// Written to disk.
pub(super) const VERSION: u8 = 1;

/// The length of a block that does not fit a byte follows this one. Written to disk.
pub(super) const LONG: u8 = u8::MAX;

/// The greatest resolution, in quarters of a bit.
pub(super) const RESOLUTION_MAX: u16 = 512;

/// The two keys between which all keys of a block lie.
#[derive(Clone, Copy, Debug)]
pub struct Between<'a> {
    /// The fence of the block: at most its first key. For the first block of a segment it is the
    /// first key.
    pub lower: &'a [u8],
    /// The fence of the next block, above all keys of this one. For the last block it is the last key.
    pub upper: &'a [u8],
}

impl<'a> Between<'a> {
    /// The prefix that both have in common, and so all keys of the block.
    pub(super) fn prefix(&self) -> &'a [u8] {
        let pairs = self.lower.iter().zip(self.upper);
        let len = pairs.take_while(|(lower, upper)| lower == upper).count();
        &self.lower[..len]
    }
}

/// The filter of a segment without its body, which is asked for by words.
#[derive(Clone, Debug)]
pub struct RangeFilter {
    keys: u64,
    resolution: Resolution,
    /// Keys of a block that most blocks have about.
    typical: u32,
    coder: Coder,
    /// Where the bytes of each block begin in the body, and where the last end.
    starts: Box<[u32]>,
}

impl RangeFilter {
    /// Reads a header, as [`Built`](super::Built) has it, for a segment with this number of blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`](crate::Error::Unreadable) for other bytes.
    pub fn parse(header: &[u8], blocks: u32) -> Result<RangeFilter> {
        let mut fields = Fields::new(header);
        let version = fields.u8("the version of a range filter is cut short")?;
        require(
            version == VERSION,
            "the version of a range filter is not known",
        )?;
        require(
            fields.u8("a reserved byte is cut short")? == 0,
            "a reserved byte is not zero",
        )?;
        let resolution = fields.u16("the resolution is cut short")?;
        require(
            resolution <= RESOLUTION_MAX,
            "the resolution is out of bounds",
        )?;
        let found = fields.u32("the number of blocks is cut short")?;
        require(
            found == blocks,
            "the number of blocks is not that of the segment",
        )?;
        let typical = fields.u32("the typical number of keys is cut short")?;
        let keys = fields.u64("the number of keys is cut short")?;
        let coder = Coder::decode(&mut fields)?;
        let mut starts = vec![0];
        let mut end = 0_u32;
        for _ in 0..blocks {
            let len = match fields.u8("the length of a block is cut short")? {
                LONG => fields.u32("the length of a block is cut short")?,
                short => short.into(),
            };
            let sum = end.checked_add(len);
            require(sum.is_some(), "lengths of blocks sum to too much")?;
            end = sum.unwrap_or(end);
            starts.push(end);
        }
        fields.end()?;
        Ok(RangeFilter {
            keys,
            resolution: Resolution(resolution),
            typical,
            coder,
            starts: starts.into(),
        })
    }

    /// Distinct keys of the segment.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// 64-bit words of the body.
    #[must_use]
    pub fn body_words(&self) -> u64 {
        u64::from(self.starts.last().copied().unwrap_or(0)).div_ceil(8)
    }

    /// Whether a new filter of the same keys, with this number of bits for each, would be about as large.
    /// The rest of the header does not count, as it does not for [`Builder`](super::Builder).
    #[must_use]
    pub fn fits(&self, bits_per_key: f64) -> bool {
        let per_key = |bytes: f64| bytes * 8.0 / self.keys.max(1) as f64;
        let lengths = per_key((self.starts.len() - 1) as f64);
        let bits = per_key(self.starts.last().copied().unwrap_or(0).into()) + lengths;
        // A piece is whole bytes. And where the finest cells are small enough, they are taken.
        let is_finest = self.resolution.0 == RESOLUTION_MAX && bits < bits_per_key;
        is_finest || (bits - bits_per_key).abs() <= 1.0 + lengths
    }

    /// Bytes of this in memory, without the body.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        (self.coder.memory_bytes() + self.starts.len() * 4) as u64
    }

    /// The words of the body that hold a block; none for a block that is not there.
    #[must_use]
    pub fn words(&self, block: u32) -> Range<u64> {
        let bytes = self.bytes(block);
        u64::from(bytes.start) / 8..u64::from(bytes.end).div_ceil(8)
    }

    fn bytes(&self, block: u32) -> Range<u32> {
        let block = block as usize;
        match (self.starts.get(block), self.starts.get(block + 1)) {
            (Some(&start), Some(&end)) => start..end,
            _ => 0..0,
        }
    }

    /// Whether a block may hold a key from `lower` to `upper`, both included; a bound that is missing
    /// leaves its side open. `false` is certain.
    ///
    /// `words` are those that [`words`](Self::words) names. If they are not, or make no sense, the
    /// answer is `true`.
    #[must_use]
    pub fn may_hold(
        &self,
        (block, words): (u32, &[u64]),
        fences: Between<'_>,
        (lower, upper): (Option<&[u8]>, Option<&[u8]>),
    ) -> bool {
        let Some(mut reader) = self.reader(block, words) else {
            return true;
        };
        let codes = Codes::between(&self.coder, fences);
        let lower = lower.map_or(0, |key| codes.of(key));
        let upper = upper.map_or(u128::MAX, |key| codes.of(key));
        let count = get_count(&mut reader, self.typical);
        let tree = (codes.root(), self.resolution);
        may_meet(reader, count, tree, (lower, upper))
    }

    /// Where the next key may be: a block has no key from `from` to below the one returned. `None` if it
    /// has no key from there on.
    ///
    /// `words` as for [`may_hold`](Self::may_hold); if they make no sense, the answer is `from` itself.
    #[must_use]
    pub fn next_from(
        &self,
        (block, words): (u32, &[u64]),
        fences: Between<'_>,
        from: &[u8],
    ) -> Option<Vec<u8>> {
        let here = || Some(from.to_vec());
        let Some(mut reader) = self.reader(block, words) else {
            return here();
        };
        let codes = Codes::between(&self.coder, fences);
        let count = get_count(&mut reader, self.typical);
        let tree = (codes.root(), self.resolution);
        match first_from(reader, count, tree, codes.of(from)) {
            Found::None => None,
            Found::Unreadable => here(),
            Found::Cell(cell) => Some(codes.begin_of(cell).max(from.to_vec())),
        }
    }

    /// Where the key before may be: a block has no key from the one returned up to `to`, both included.
    /// `None` if it has no key up to there.
    ///
    /// `words` as for [`may_hold`](Self::may_hold). If they make no sense, or the next key may be `to`,
    /// the answer is greater than `to`.
    #[must_use]
    pub fn previous_to(
        &self,
        (block, words): (u32, &[u64]),
        fences: Between<'_>,
        to: &[u8],
    ) -> Option<Vec<u8>> {
        let here = || Some([to, &[0]].concat());
        let Some(mut reader) = self.reader(block, words) else {
            return here();
        };
        let codes = Codes::between(&self.coder, fences);
        let count = get_count(&mut reader, self.typical);
        let tree = (codes.root(), self.resolution);
        match last_to(reader, count, tree, codes.of(to)) {
            Found::None => None,
            Found::Unreadable => here(),
            Found::Cell(cell) => codes.end_of(cell).or_else(here),
        }
    }

    /// Reads the piece of a block; `None` if it is empty, or not all there.
    fn reader<'a>(&self, block: u32, words: &'a [u64]) -> Option<Reader<'a>> {
        let bytes = self.bytes(block);
        let from = bytes.start as usize % 8;
        let to = from + bytes.len();
        if words.len() < to.div_ceil(8) || bytes.is_empty() {
            return None;
        }
        Some(Reader::new(words, from * 8, to * 8))
    }
}

/// The codes of keys in a block.
pub(super) struct Codes<'a> {
    coder: &'a Coder,
    prefix: &'a [u8],
    root: Root,
}

impl<'a> Codes<'a> {
    pub(super) fn between(coder: &'a Coder, fences: Between<'a>) -> Codes<'a> {
        let prefix = fences.prefix();
        let code = |fence: &[u8]| coder.code(prefix.last().copied(), &fence[prefix.len()..]);
        Codes {
            coder,
            prefix,
            root: Root::between(code(fences.lower), code(fences.upper)),
        }
    }

    pub(super) fn root(&self) -> Root {
        self.root
    }

    /// The code of a key; one that does not lie between the fences is below or above all.
    fn of(&self, key: &[u8]) -> u128 {
        match key.strip_prefix(self.prefix) {
            Some(rest) => self.coder.code(self.prefix.last().copied(), rest),
            None if key < self.prefix => 0,
            None => u128::MAX,
        }
    }
}

impl Codes<'_> {
    fn symbols_of(&self, code: u128, depth: u32) -> Vec<u8> {
        let before = self.prefix.last().copied();
        let symbols = self.coder.symbols_of(before, code, depth);
        [self.prefix, &symbols].concat()
    }

    /// No key of the cell is less.
    fn begin_of(&self, cell: Cell) -> Vec<u8> {
        self.symbols_of(cell.least, cell.depth)
    }

    /// All keys of the cell are less: what follows all keys that begin as the greatest may. `None` if
    /// nothing does.
    fn end_of(&self, cell: Cell) -> Option<Vec<u8>> {
        let mut end = self.symbols_of(cell.greatest(), cell.depth);
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        *end.last_mut()? += 1;
        Some(end)
    }
}

/// A block begins with the number of its codes, as the distance from the typical number.
fn get_count(reader: &mut Reader<'_>, typical: u32) -> u32 {
    let away = reader.get_gamma();
    if away.is_multiple_of(2) {
        typical.saturating_sub(away / 2)
    } else {
        typical.saturating_add(away / 2 + 1)
    }
}

/// See [`get_count`].
pub(super) fn count_away(count: u32, typical: u32) -> u32 {
    if count > typical {
        2 * (count - typical) - 1
    } else {
        2 * (typical - count)
    }
}
