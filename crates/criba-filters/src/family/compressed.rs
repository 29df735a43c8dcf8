//! A Bloom filter made to be compressed: fewer probes, so that fewer bits are set.
//!
//! Mitzenmacher, "Compressed Bloom filters" (2001, 2002). The filter of least rate for its memory
//! has half of its bits set and cannot be compressed at all. With fewer probes the bits are biased
//! and the bytes shrink toward the entropy `H(fill)`: at a fill of 1/3 to 0.918 of the size, not to
//! a quarter. What is gained is small: for the same bytes on the wire a larger array with fewer
//! probes has a lower rate.
//!
//! **Memory** *more* than a Bloom filter of the same rate while it is asked, as it is asked
//! uncompressed; [`Compressed::to_bytes`](Membership::to_bytes) is what shrinks. **Cost** fewer
//! probes; to compress and to expand once each. **Cannot** delete or grow.

use super::bits::Bits;
use super::design::Design;
use super::frame::{self, Fields, Kind, require};
use super::{Classic, bits_for};
use crate::error::{Error, Result};
use crate::{Insert, KeyHash, Membership, Merge};

const KIND: Kind = *b"COMP";
const VERSION: u8 = 2;

/// How the bits are stored: as they are, or in a frame of zstd.
const RAW: u8 = 0;
const ZSTD: u8 = 1;

/// Nearly empty filters shrink without bound; they are stored as they are instead, so that nobody
/// who reads bytes allocates more than so many times their length.
const EXPANSION_MAX: usize = 16;
const ZSTD_LEVEL: i32 = 3;

/// The fill that is not exceeded.
const FILL_MAX: f64 = 1.0 / 3.0;

/// Bits of information in a bit that is set with this probability, `-p log2 p - (1-p) log2 (1-p)`.
#[must_use]
pub fn entropy(share: f64) -> f64 {
    let term = |p: f64| if p > 0.0 { -p * p.log2() } else { 0.0 };
    term(share) + term(1.0 - share)
}

/// A compressor.
///
/// ```
/// use criba_filters::{Codec, Compressed};
///
/// let empty = Compressed::new(10_000, 0.01)?;
/// assert!(empty.compressed_bytes(Codec::Zstd) < empty.raw_bytes());
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Codec {
    /// Zstandard, level 3.
    Zstd,
    /// DEFLATE, level 6; for comparison.
    #[cfg(feature = "lab")]
    Deflate,
}

/// A Bloom filter with at most a third of its bits set.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/compressed.md`.
///
/// ```
/// use criba_filters::{Compressed, Insert, Membership};
///
/// let mut seen = Compressed::new(10_000, 0.01)?;
/// seen.insert("fruit/apple")?;
/// let there = Compressed::from_bytes(&seen.to_bytes())?;
/// assert!(there.may_contain("fruit/apple"));
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compressed {
    filter: Classic,
}

impl Compressed {
    /// An empty filter for so many keys (0 is taken as 1) with the bits of a Bloom filter of this
    /// rate, and so few probes that at most a third of them will be set. Its own rate is therefore
    /// higher.
    ///
    /// Below 2.5 bits per key one probe is too many for that, and is taken nevertheless.
    ///
    /// # Errors
    ///
    /// If the rate is not from 2^-64 to below 1, or more than 2^36 bits would be needed.
    pub fn new(keys: u64, rate: f64) -> Result<Self> {
        super::design::check_rate(rate)?;
        Self::with_bits(keys, bits_for(keys.max(1), rate))
    }

    /// The same for so many bits.
    ///
    /// # Errors
    ///
    /// If there is no bit, or more than 2^36.
    pub fn with_bits(keys: u64, bits: u64) -> Result<Self> {
        Self::salted(0, keys, bits)
    }

    /// The same, independent of those with other salts.
    pub(super) fn salted(salt: u64, keys: u64, bits: u64) -> Result<Self> {
        // A fill of f after k n draws from m bits: k = -ln(1 - f) m / n.
        let most = -(-FILL_MAX).ln_1p() * bits as f64 / keys.max(1) as f64;
        let design = Design::for_bits(keys, bits)?;
        let probes = (most.floor() as u32).clamp(1, design.probes);
        let filter = Classic::salted(salt, Design { probes, ..design })?;
        Ok(Self { filter })
    }

    /// The filter as it is asked.
    #[must_use]
    pub fn filter(&self) -> &Classic {
        &self.filter
    }

    /// Bytes of the array, uncompressed.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.filter.bits.words().len() as u64 * 8
    }

    /// Bytes of the array as this codec leaves them.
    #[must_use]
    pub fn compressed_bytes(&self, codec: Codec) -> u64 {
        let raw = self.raw();
        match codec {
            Codec::Zstd => zstd(&raw).len() as u64,
            #[cfg(feature = "lab")]
            Codec::Deflate => deflate(&raw).len() as u64,
        }
    }

    /// The least that any code for independent bits can reach, in bytes: `m H(fill) / 8`.
    #[must_use]
    pub fn entropy_bytes(&self) -> f64 {
        self.filter.bits() as f64 * entropy(self.filter.fill()) / 8.0
    }

    fn raw(&self) -> Vec<u8> {
        let words = self.filter.bits.words();
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// In memory zstd fails only for want of it; what is not compressed is then stored as it is.
fn zstd(raw: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(raw, ZSTD_LEVEL).unwrap_or_else(|_| raw.to_vec())
}

#[cfg(feature = "lab")]
fn deflate(raw: &[u8]) -> Vec<u8> {
    use std::io::Write;

    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(6));
    let written = encoder.write_all(raw).and_then(|()| encoder.finish());
    written.unwrap_or_else(|_| raw.to_vec())
}

fn expand(fields: &mut Fields<'_>, bits: u64) -> Result<Bits> {
    let coding = fields.u8("the coding is cut short")?;
    let stored = fields.u64("the length of the bits is cut short")?;
    let stored = fields.bytes(stored, "bits are cut short")?;
    // No more than 2^36 bits, by the check of the design.
    let wanted = (bits.div_ceil(64) as usize).saturating_mul(8);
    let raw = match coding {
        RAW => stored.to_vec(),
        ZSTD => {
            let bounded = wanted <= stored.len().saturating_mul(EXPANSION_MAX);
            require(bounded, "bits were compressed too much")?;
            zstd::bulk::decompress(stored, wanted)
                .or(Err(Error::field("bits cannot be decompressed")))?
        }
        _ => return Err(Error::field("the coding is unknown")),
    };
    let (words, rest) = raw.as_chunks::<8>();
    require(rest.is_empty(), "bits are cut short")?;
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    Bits::from_words(words.collect(), bits)
}

impl Membership for Compressed {
    #[inline]
    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.filter.may_contain_hash(hash)
    }

    /// Insertions: a key put in twice counts twice.
    fn len(&self) -> u64 {
        self.filter.len()
    }

    /// Uncompressed, as it is asked.
    fn bits(&self) -> u64 {
        self.filter.bits()
    }

    fn expected_rate(&self) -> f64 {
        self.filter.expected_rate()
    }

    fn current_rate(&self) -> f64 {
        self.filter.current_rate()
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        self.filter.put_head(&mut payload);
        let raw = self.raw();
        let short = zstd(&raw);
        let worth = short.len() < raw.len() && raw.len() <= short.len() * EXPANSION_MAX;
        let (coding, stored) = if worth { (ZSTD, short) } else { (RAW, raw) };
        payload.push(coding);
        payload.extend((stored.len() as u64).to_le_bytes());
        payload.extend(stored);
        frame::encode(KIND, VERSION, &payload)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        let filter = Classic::read_with(&mut fields, expand)?;
        Ok(Self { filter })
    }
}

impl Insert for Compressed {
    #[inline]
    fn insert_hash(&mut self, hash: KeyHash) -> Result<()> {
        self.filter.insert_hash(hash)
    }
}

impl Merge for Compressed {
    /// Exactly the filter of both streams in one, if the designs are the same.
    fn merge(&mut self, other: &Self) -> Result<()> {
        self.filter.merge(&other.filter)
    }
}
