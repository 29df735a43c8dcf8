//! The index of a segment in memory: which block covers a key, by 8-byte heads first.
//!
//! All keys of a segment begin with the bytes that its first and last key have in common; they
//! are left out. Of the rest, the first eight bytes of each fence stand together as a number, so
//! that most comparisons touch no key bytes.
//!
//! Invariants:
//! 1. Fence 0 is empty: it covers everything from the first key on.
//! 2. `starts` has one more element than there are blocks, ascending, ending at `bytes.len()`.

use std::cmp::Ordering;
use std::ops::Range;

use crate::format::Malformed;
use crate::format::index;
use crate::key::{MAX_KEY_BYTES, head};

/// The resident index.
#[derive(Debug)]
pub(crate) struct Fences {
    prefix_len: usize,
    heads: Vec<u64>,
    /// Every [`STRIDE`]th head, from the first on: a search among these stays in a few cache lines,
    /// and leaves a few to look at of all.
    tops: Vec<u64>,
    starts: Vec<u32>,
    bytes: Vec<u8>,
    offsets: Offsets,
    /// Ordinals of blocks that begin with further versions of the last key before, ascending.
    continued: Vec<u32>,
}

/// Heads for each one that is searched first: eight cache lines.
const STRIDE: usize = 64;

/// Where blocks lie.
#[derive(Debug)]
enum Offsets {
    /// All have this length, but for the last one, which may be shorter: the usual case without
    /// compression.
    Uniform { len: u64, end: u64 },
    /// Ends of the blocks.
    Ends(Vec<u64>),
}

/// Whether a fence may come after the one before it: the first is empty, the others ascend, and
/// only one that continues a key may be equal.
fn follows(ordinal: u32, continues: bool, (before, fence): (&[u8], &[u8])) -> bool {
    if ordinal == 0 {
        return fence.is_empty() && !continues;
    }
    match before.cmp(fence) {
        Ordering::Less => true,
        Ordering::Equal => continues,
        Ordering::Greater => false,
    }
}

impl Fences {
    /// Decodes an index region. `key_bytes_max` bounds what the fences may take in memory: they
    /// are prefixes of keys of the segment.
    pub(crate) fn decode(
        payload: &[u8],
        (first, last): (&[u8], &[u8]),
        data_end: u64,
        key_bytes_max: u64,
    ) -> Result<Fences, Malformed> {
        let malformed = |what: &str| Malformed {
            what: format!("index: {what}"),
            at: 0,
        };
        let prefix_len = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let mut fences = Fences {
            prefix_len,
            heads: Vec::new(),
            tops: Vec::new(),
            starts: vec![0],
            bytes: Vec::new(),
            offsets: Offsets::Uniform { len: 0, end: 0 },
            continued: Vec::new(),
        };
        let mut fence = Vec::new();
        let mut before = Vec::new();
        let mut ends = Vec::new();
        let mut end: u64 = 0;
        let count = index::decode(payload, &mut |entry| {
            if entry.shared > fence.len() || entry.suffix.len() > MAX_KEY_BYTES - entry.shared {
                return Err(malformed(
                    "a fence shares more than there is, or is too long",
                ));
            }
            before.clone_from(&fence);
            fence.truncate(entry.shared);
            fence.extend_from_slice(entry.suffix);
            let ordinal = ends.len() as u32;
            let continues = entry.continues;
            if !follows(ordinal, continues, (&before, &fence))
                || (ordinal > 0 && fence.get(..prefix_len) != first.get(..prefix_len))
            {
                return Err(malformed("fences do not ascend within the key range"));
            }
            if !fences.push(&fence) || fences.bytes.len() as u64 > key_bytes_max {
                return Err(malformed("fences are longer than the keys"));
            }
            if entry.continues {
                fences.continued.push(ordinal);
            }
            end = end
                .checked_add(entry.stored_len)
                .ok_or_else(|| malformed("offsets overflow"))?;
            ends.push(end);
            Ok(())
        })?;
        if count == 0
            || end != data_end
            || ends[0] == 0
            || ends.iter().zip(&ends[1..]).any(|(a, b)| a == b)
        {
            return Err(malformed("blocks do not fill the data region"));
        }
        let len = ends[0];
        let (before, last) = ends.split_at(ends.len() - 1);
        let is_uniform = (1..)
            .zip(before)
            .all(|(ordinal, end)| len.checked_mul(ordinal) == Some(*end))
            && last[0] - before.last().unwrap_or(&0) <= len;
        fences.offsets = if is_uniform {
            Offsets::Uniform { len, end }
        } else {
            Offsets::Ends(ends)
        };
        fences.heads.shrink_to_fit();
        fences.tops = fences.heads.iter().step_by(STRIDE).copied().collect();
        fences.starts.shrink_to_fit();
        fences.bytes.shrink_to_fit();
        Ok(fences)
    }

    /// Adds a fence; false when there is no room, as all together have at most 4 GiB.
    fn push(&mut self, fence: &[u8]) -> bool {
        let rest = fence.get(self.prefix_len..).unwrap_or_default();
        let Ok(end) = u32::try_from(self.bytes.len() + rest.len()) else {
            return false;
        };
        self.heads.push(head(rest));
        self.bytes.extend_from_slice(rest);
        self.starts.push(end);
        true
    }

    pub(crate) fn block_count(&self) -> u32 {
        self.heads.len() as u32
    }

    /// Offset and length of a stored block.
    pub(crate) fn extent(&self, block: u32) -> (u64, u64) {
        let ordinal = block as usize;
        match &self.offsets {
            Offsets::Uniform { len, end } => {
                let start = u64::from(block) * len;
                (start, (*len).min(end - start))
            }
            Offsets::Ends(ends) => {
                let start = if ordinal == 0 { 0 } else { ends[ordinal - 1] };
                (start, ends[ordinal] - start)
            }
        }
    }

    /// Length of the blocks where all have the same, as without compression; else 0.
    pub(crate) fn uniform_len(&self) -> u64 {
        match self.offsets {
            Offsets::Uniform { len, .. } => len,
            Offsets::Ends(_) => 0,
        }
    }

    fn fence(&self, block: usize) -> &[u8] {
        &self.bytes[self.starts[block] as usize..self.starts[block + 1] as usize]
    }

    /// The least key that can be in a block; `first` is the first of the segment.
    pub(crate) fn least_key(&self, block: u32, first: &[u8]) -> Vec<u8> {
        if block == 0 {
            return first.to_vec();
        }
        let prefix = first.get(..self.prefix_len).unwrap_or_default();
        [prefix, self.fence(block as usize)].concat()
    }

    fn compare(&self, block: usize, (key_head, rest): (u64, &[u8])) -> Ordering {
        self.heads[block]
            .cmp(&key_head)
            .then_with(|| self.fence(block).cmp(rest))
    }

    #[inline]
    fn split<'a>(&self, key: &'a [u8]) -> (u64, &'a [u8]) {
        let rest = key.get(self.prefix_len..).unwrap_or_default();
        (head(rest), rest)
    }

    /// The block where the newest entry of `key` is if it is anywhere. The key lies between the
    /// first and the last key of the segment.
    pub(crate) fn first_block_of(&self, key: &[u8]) -> u32 {
        let mut block = self.last_block_of(key);
        while block > 0 && self.begins_with_older(block, self.split(key)) {
            block -= 1;
        }
        block
    }

    /// The last block that can hold an entry of `key`.
    pub(crate) fn last_block_of(&self, key: &[u8]) -> u32 {
        let key = self.split(key);
        let mut low = self.first_head_from(key.0);
        let mut high = match self.heads.get(low) {
            Some(head) if *head == key.0 => {
                low + self.heads[low..].partition_point(|head| *head == key.0)
            }
            _ => low,
        };
        while low < high {
            let middle = low.midpoint(high);
            if self.compare(middle, key) == Ordering::Greater {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low.saturating_sub(1) as u32
    }

    /// The first block whose head is at least this.
    fn first_head_from(&self, key_head: u64) -> usize {
        let tops = self.tops.partition_point(|top| *top < key_head);
        // Of the stride that begins with the last smaller one.
        let start = tops.saturating_sub(1) * STRIDE;
        let end = (tops * STRIDE).min(self.heads.len());
        start + self.heads[start..end].partition_point(|head| *head < key_head)
    }

    /// Whether the block begins with further versions of this very key.
    fn begins_with_older(&self, block: u32, key: (u64, &[u8])) -> bool {
        !self.continued.is_empty()
            && self.continued.binary_search(&block).is_ok()
            && self.compare(block as usize, key) == Ordering::Equal
    }

    /// Whether the newest entry of `key` can be in this block: the fences on both sides of the
    /// block are asked, no search is made.
    pub(crate) fn covers(&self, block: u32, key: &[u8]) -> bool {
        let key = self.split(key);
        let ordinal = block as usize;
        if ordinal >= self.heads.len()
            || !self.strides_may_cover(block..block + 1, key.0)
            || (block > 0 && self.compare(ordinal, key) == Ordering::Greater)
            || self.begins_with_older(block, key)
        {
            return false;
        }
        if ordinal + 1 == self.heads.len() {
            return true;
        }
        match self.compare(ordinal + 1, key) {
            Ordering::Greater => true,
            Ordering::Equal => self.begins_with_older(block + 1, key),
            Ordering::Less => false,
        }
    }

    /// Whether a key can be in one of these blocks, at least one, as far as that is told by what is
    /// in the processor's cache: seldom, if they are any few of all.
    #[inline]
    pub(crate) fn may_cover(&self, blocks: Range<u32>, key: &[u8]) -> bool {
        self.strides_may_cover(blocks, self.split(key).0)
    }

    /// Whether the strides of these blocks have room for a key with this head. Blocks that a filter
    /// names for a key that is not there are any of them: what refutes them should be in the
    /// processor's cache, and all heads are too many for that.
    #[inline]
    fn strides_may_cover(&self, blocks: Range<u32>, key_head: u64) -> bool {
        let Some(first) = self.tops.get(blocks.start as usize / STRIDE) else {
            return false;
        };
        let next = self.tops.get((blocks.end as usize).div_ceil(STRIDE));
        let next = next.copied().unwrap_or(u64::MAX);
        // Both, whatever the first says: only the outcome of the two together can be foretold.
        (*first <= key_head) & (key_head <= next)
    }

    /// How many blocks lie before a key, in fractions: within its block the key stands where it
    /// would if the keys there were spread evenly. `first` and `last` are those of the segment,
    /// the key is between them.
    pub(crate) fn position(&self, key: &[u8], (first, last): (&[u8], &[u8])) -> f64 {
        let block = self.last_block_of(key) as usize;
        let head_of = |key| self.split(key).0;
        let from = match block {
            0 => head_of(first),
            _ => self.heads[block],
        };
        let to = self.heads.get(block + 1).copied();
        let to = to.unwrap_or_else(|| head_of(last));
        let within = if from < to {
            let key = head_of(key).clamp(from, to);
            (key - from) as f64 / (to - from) as f64
        } else {
            0.5
        };
        block as f64 + within
    }

    /// Bytes in memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let offsets = match &self.offsets {
            Offsets::Uniform { .. } => 0,
            Offsets::Ends(ends) => ends.len() * 8,
        };
        let fences =
            (self.heads.len() + self.tops.len()) * 8 + self.starts.len() * 4 + self.bytes.len();
        (fences + offsets + self.continued.len() * 4) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks given by their keys; a key may go on in the next block.
    fn fences(blocks: &[&[&str]]) -> Fences {
        let mut builder = index::Builder::default();
        let mut last: Option<&str> = None;
        for keys in blocks {
            builder.add(4096, last.map(str::as_bytes), keys[0].as_bytes());
            last = keys.last().copied();
        }
        let first = blocks[0][0].as_bytes();
        let last = last.unwrap().as_bytes();
        let data_end = 4096 * blocks.len() as u64;
        Fences::decode(&builder.finish(), (first, last), data_end, 1 << 30).unwrap()
    }

    /// The first block that holds the key, or else the block it would be in.
    fn expected(blocks: &[&[&str]], key: &str) -> u32 {
        let holds = blocks.iter().position(|keys| keys.contains(&key));
        let before = blocks.iter().rposition(|keys| keys[0] <= key).unwrap_or(0);
        holds.unwrap_or(before) as u32
    }

    fn check(blocks: &[&[&str]]) {
        let fences = fences(blocks);
        let keys = blocks.iter().flat_map(|keys| keys.iter());
        for key in keys {
            let block = expected(blocks, key);
            assert_eq!(fences.first_block_of(key.as_bytes()), block, "{key}");
            for other in 0..blocks.len() as u32 + 2 {
                assert_eq!(
                    fences.covers(other, key.as_bytes()),
                    other == block,
                    "{key} {other}"
                );
            }
            let last = blocks.iter().rposition(|keys| keys.contains(key)).unwrap();
            assert_eq!(fences.last_block_of(key.as_bytes()), last as u32);
        }
    }

    #[test]
    fn finds_the_block_of_each_key() {
        check(&[&["a", "b"], &["c"], &["cc", "d"], &["e"]]);
        check(&[&[""], &["\0"], &["\0\0", "\0\0a"]]);
        check(&[&["user:1000", "user:1001"], &["user:10010"], &["user:2"]]);
        check(&[
            &["prefix-long-a1"],
            &["prefix-long-a2"],
            &["prefix-long-a20", "prefix-long-b"],
        ]);
    }

    /// Many strides, some of them of one head.
    #[test]
    fn finds_the_block_among_many() {
        let numbers = 0..3 * STRIDE as u32 + 7;
        for group in [1, 5, 100] {
            let keys: Vec<String> = numbers
                .clone()
                .map(|n| format!("{:03}-same-{:03}", n / group, n))
                .collect();
            let blocks: Vec<[&str; 1]> = keys.iter().map(|key| [&**key]).collect();
            let blocks: Vec<&[&str]> = blocks.iter().map(|keys| &keys[..]).collect();
            check(&blocks);
        }
    }

    /// Fences of up to the longest keys, with and without a prefix that all keys of a segment
    /// share.
    #[test]
    fn finds_the_block_of_keys_that_share_nearly_all() {
        for shared in [32_767, 32_768, 40_000, MAX_KEY_BYTES - 2] {
            let key = |n: u8| format!("{}{:02}", "k".repeat(shared), n);
            let keys: Vec<String> = (0..40).map(key).collect();
            let mut blocks: Vec<&[String]> = keys.chunks(2).collect();
            let short = ["a".to_owned()];
            for _ in 0..2 {
                let names: Vec<Vec<&str>> = blocks
                    .iter()
                    .map(|keys| keys.iter().map(String::as_str).collect())
                    .collect();
                check(&names.iter().map(Vec::as_slice).collect::<Vec<_>>());
                blocks.insert(0, &short);
            }
        }
    }

    #[test]
    fn fences_take_no_more_than_the_keys() {
        let mut builder = index::Builder::default();
        builder.add(4096, None, b"");
        builder.add(4096, Some(b"aaaa"), b"aaab");
        let index = builder.finish();
        let decode = |bytes| Fences::decode(&index, (b"", b"aaac"), 8192, bytes);
        assert!(decode(4).is_ok() && decode(3).is_err());
    }

    #[test]
    fn versions_that_fill_blocks_are_found_at_their_newest() {
        check(&[&["a", "b"], &["b"], &["b", "c"], &["d"]]);
        check(&[&["a"], &["a"], &["a"]]);
        check(&[&["k"], &["k"], &["k", "kk"], &["kk"]]);
    }

    #[test]
    fn a_gap_between_blocks_has_exactly_one_cover() {
        let fences = fences(&[&["a", "c"], &["m"], &["x", "z"]]);
        for key in ["b", "cc", "d", "l", "lz", "m", "mm", "w", "y"] {
            let covering: Vec<u32> = (0..3)
                .filter(|block| fences.covers(*block, key.as_bytes()))
                .collect();
            assert_eq!(covering, [fences.first_block_of(key.as_bytes())], "{key}");
        }
    }

    #[test]
    fn positions_ascend_and_are_even_within_a_block() {
        let blocks: &[&[&str]] = &[&["k00", "k40"], &["k50", "k90"]];
        let fences = fences(blocks);
        let position = |key: &str| fences.position(key.as_bytes(), (b"k00", b"k90"));
        assert_eq!(position("k00"), 0.0);
        // The fence is "k5", a little before the first key of its block.
        assert!((1.0..1.1).contains(&position("k50")), "{}", position("k50"));
        assert_eq!(position("k90"), 2.0);
        assert!((position("k25") - 0.5).abs() < 0.1, "{}", position("k25"));
        let keys: Vec<String> = (0..=90).map(|n| format!("k{n:02}")).collect();
        assert!(keys.is_sorted_by_key(|key| position(key)));
    }
}
