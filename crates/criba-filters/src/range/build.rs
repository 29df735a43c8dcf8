//! Builds a range filter while the segment is written.

use super::bits::Writer;
use super::cells::{self, Resolution, Root};
use super::coder::{Coder, Counts, SYMBOLS_MAX};
use super::filter::{Between, LONG, RESOLUTION_MAX, VERSION, count_away};
use super::gaps;

/// Blocks of which the size is measured, to choose the resolution for all.
const SAMPLES: usize = 128;

/// A finished range filter.
#[derive(Clone, PartialEq, Debug)]
pub struct Built {
    /// What [`RangeFilter::parse`](super::RangeFilter::parse) reads.
    pub header: Vec<u8>,
    /// The cells of all blocks.
    pub body: Vec<u64>,
    /// The share of gaps between keys of the segment that it would refute, 0 to 1, by a sample.
    pub refuted: f64,
}

/// Takes the distinct keys of a segment in their order, block by block.
///
/// ```
/// use criba_filters::range::{Between, Builder, RangeFilter};
///
/// let key = |number: u32| format!("{:08}", number * 1_000);
/// let mut builder = Builder::default();
/// builder.begin_block(key(0).as_bytes());
/// (0..100).for_each(|number| builder.add(key(number).as_bytes()));
/// builder.begin_block(key(100).as_bytes());
/// (100..200).for_each(|number| builder.add(key(number).as_bytes()));
/// let built = builder.build(key(199).as_bytes(), 10.0).unwrap();
///
/// let filter = RangeFilter::parse(&built.header, 2)?;
/// let (lower, upper) = (key(0), key(100));
/// let fences = Between { lower: lower.as_bytes(), upper: upper.as_bytes() };
/// let words = filter.words(0);
/// let words = &built.body[words.start as usize..words.end as usize];
/// let ask = |lower: &str, upper: &str| {
///     filter.may_hold((0, words), fences, (Some(lower.as_bytes()), Some(upper.as_bytes())))
/// };
/// assert!(ask("00017000", "00017000"));
/// assert!(!ask("00017300", "00017600"));
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Default)]
pub struct Builder {
    counts: Counts,
    blocks: Vec<Block>,
    /// The keys of finished blocks without the prefix of their block, as far as codes look at them.
    /// The two fences of a block stand before its keys.
    bytes: Vec<u8>,
    ends: Vec<u32>,
    open: Open,
}

/// The block that takes keys.
#[derive(Default)]
struct Open {
    fence: Option<Vec<u8>>,
    keys: Vec<u8>,
    ends: Vec<usize>,
}

/// A block of which all keys are there.
struct Block {
    /// The last byte of the prefix.
    before: Option<u8>,
    /// Where its strings begin in [`Builder::ends`], and how many keys it has.
    first: usize,
    keys: usize,
}

/// The codes of a block, all different, and the root that they lie below.
pub(super) struct BlockCodes {
    pub(super) root: Root,
    /// Ascending; equal ones are there once for each key.
    pub(super) all: Vec<u128>,
    pub(super) distinct: Vec<u128>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys: usize = self.blocks.iter().map(|block| block.keys).sum();
        write!(
            f,
            "Builder {{ blocks: {}, keys: {keys} }}",
            self.blocks.len()
        )
    }
}

impl Builder {
    /// Begins a block with its fence; for the first block, the first key of the segment.
    pub fn begin_block(&mut self, fence: &[u8]) {
        self.end_block(fence);
        self.open.fence = Some(fence.to_vec());
    }

    /// Adds a key of the block, greater than all before. A block may have none.
    pub fn add(&mut self, key: &[u8]) {
        self.open.keys.extend_from_slice(key);
        self.open.ends.push(self.open.keys.len());
    }

    /// Bytes in memory of what was added, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * 4 + self.open.keys.capacity()
    }

    fn end_block(&mut self, upper: &[u8]) {
        let Some(lower) = self.open.fence.take() else {
            return;
        };
        let fences = Between {
            lower: &lower,
            upper,
        };
        let prefix = fences.prefix();
        let before = prefix.last().copied();
        let first = self.ends.len();
        let mut push = |key: &[u8]| {
            let rest = &key[prefix.len()..];
            let rest = &rest[..rest.len().min(SYMBOLS_MAX)];
            self.bytes.extend_from_slice(rest);
            self.ends.push(self.bytes.len() as u32);
            rest.len()
        };
        push(&lower);
        push(upper);
        let mut start = 0;
        for &end in &self.open.ends {
            push(&self.open.keys[start..end]);
            self.counts
                .add(before, &self.open.keys[start + prefix.len()..end]);
            start = end;
        }
        self.blocks.push(Block {
            before,
            first,
            keys: self.open.ends.len(),
        });
        self.open.keys.clear();
        self.open.ends.clear();
    }

    fn string(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[at] as usize]
    }

    fn codes(&self, coder: &Coder, block: &Block) -> BlockCodes {
        let code = |at: usize| coder.code(block.before, self.string(block.first + at));
        let all: Vec<u128> = (2..block.keys + 2).map(code).collect();
        debug_assert!(all.is_sorted(), "codes keep the order of the keys");
        let mut distinct = all.clone();
        distinct.dedup();
        BlockCodes {
            root: Root::between(code(0), code(1)),
            all,
            distinct,
        }
    }

    /// Builds the filter with about this number of bits for each key, [`BITS_MIN`] to [`BITS_MAX`]. The
    /// header, which has some hundred bytes, is not counted. `None` if there are too few bits for a
    /// filter, or no keys. The builder is empty then.
    ///
    /// [`BITS_MIN`]: super::BITS_MIN
    /// [`BITS_MAX`]: super::BITS_MAX
    pub fn build(&mut self, last_key: &[u8], bits_per_key: f64) -> Option<Built> {
        self.end_block(last_key);
        let taken = std::mem::take(self);
        taken.finish(bits_per_key)
    }

    fn finish(&self, bits_per_key: f64) -> Option<Built> {
        let keys: usize = self.blocks.iter().map(|block| block.keys).sum();
        // `ends` cannot tell of more bytes.
        if keys == 0 || u32::try_from(self.bytes.len()).is_err() {
            return None;
        }
        let coder = self.counts.coder();
        let stride = self.blocks.len().div_ceil(SAMPLES);
        let sampled = self.blocks.iter().skip(stride / 2).step_by(stride);
        let samples: Vec<BlockCodes> = sampled.map(|block| self.codes(&coder, block)).collect();
        let typical = typical(&samples);
        // The lengths of the blocks, about.
        let bits_per_key = bits_per_key - self.blocks.len() as f64 * 8.0 / keys as f64;
        let resolution = resolution_for(&samples, typical, bits_per_key)?;
        let refuted = gaps::refuted(&samples, resolution);
        let mut header = Vec::new();
        header.extend_from_slice(&[VERSION, 0]);
        header.extend_from_slice(&resolution.0.to_le_bytes());
        header.extend_from_slice(&(self.blocks.len() as u32).to_le_bytes());
        header.extend_from_slice(&typical.to_le_bytes());
        header.extend_from_slice(&(keys as u64).to_le_bytes());
        coder.encode(&mut header);
        let mut body = Vec::new();
        let mut bits = Writer::default();
        for block in &self.blocks {
            write_block(&self.codes(&coder, block), typical, resolution, &mut bits);
            let before = body.len();
            body.extend(bits.bytes());
            put_len(body.len() - before, &mut header)?;
        }
        u32::try_from(body.len()).ok()?;
        body.resize(body.len().next_multiple_of(8), 0);
        let (words, _) = body.as_chunks::<8>();
        Some(Built {
            header,
            body: words.iter().map(|word| u64::from_le_bytes(*word)).collect(),
            refuted,
        })
    }
}

fn put_len(len: usize, header: &mut Vec<u8>) -> Option<()> {
    match u8::try_from(len) {
        Ok(len) if len < LONG => header.push(len),
        _ => {
            header.push(LONG);
            header.extend_from_slice(&u32::try_from(len).ok()?.to_le_bytes());
        }
    }
    Some(())
}

fn write_block(codes: &BlockCodes, typical: u32, resolution: Resolution, out: &mut Writer) {
    out.clear();
    out.put_gamma(count_away(codes.distinct.len() as u32, typical));
    cells::encode(&codes.distinct, codes.root, resolution, out);
}

/// The median number of codes of a block.
fn typical(samples: &[BlockCodes]) -> u32 {
    let mut counts: Vec<u32> = samples
        .iter()
        .map(|one| one.distinct.len() as u32)
        .collect();
    counts.sort_unstable();
    counts.get(counts.len() / 2).copied().unwrap_or(0)
}

/// The greatest resolution with which the samples take no more bits; `None` if none is so small.
fn resolution_for(samples: &[BlockCodes], typical: u32, bits_per_key: f64) -> Option<Resolution> {
    let keys: usize = samples.iter().map(|one| one.all.len()).sum();
    let mut bits = Writer::default();
    let mut fits = |resolution: u16| {
        let len = |one: &BlockCodes| {
            write_block(one, typical, Resolution(resolution), &mut bits);
            bits.len().next_multiple_of(8)
        };
        let sum: usize = samples.iter().map(len).sum();
        sum as f64 <= bits_per_key * keys as f64
    };
    // The size grows with the resolution.
    let (mut least, mut most) = (0, RESOLUTION_MAX + 1);
    if !fits(0) {
        return None;
    }
    while most - least > 1 {
        let middle = least.midpoint(most);
        if fits(middle) {
            least = middle;
        } else {
            most = middle;
        }
    }
    Some(Resolution(least))
}
