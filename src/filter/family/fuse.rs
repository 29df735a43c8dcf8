//! The binary fuse filter: three cells per key that lie close together, 1.13 cells for each.
//!
//! Graf, Lemire, "Binary fuse filters: fast and smaller than xor filters" (2022), section 3; after
//! Dietzfelbinger, Walzer, "Dense peelable random uniform hypergraphs" (2019). Works as told in
//! `peel.rs`, with the cells of a key in three consecutive short segments: peeling begins at both ends
//! of the array and works inwards, so that fewer cells are enough.
//!
//! **Memory** 1.125 times the bits of a value and of its check at a million keys and more, 1.16 at
//! 200,000, 1.2 at 37,000, 1.4 at 700, and whole segments. **Cost** three accesses within a few pages, always; faster to
//! build than random cells. **Can** return values. **Cannot** be changed, list its keys, or have
//! fractions of bits.

use super::frame::{Kind, Unreadable};
use super::peel::{Function, Graph, SEGMENT_BITS_MAX};
use super::{Lookup, Membership, Refused};

const KIND: Kind = *b"FUSE";
const VERSION: u8 = 1;

/// Cells for so many keys: `n max(1.125, 0.875 + 0.25 ln 10^6 / ln n)`, in whole segments.
#[must_use]
pub fn fuse_cells_for(keys: u64) -> u64 {
    segments(keys).cells()
}

/// Sizes of the authors' implementation. What was chosen is stored: machines may differ in `ln`.
pub(super) fn segments(keys: u64) -> Graph {
    let n = keys.max(2) as f64;
    let best = (n.ln() / 3.33f64.ln() + 2.25).floor();
    let segment_bits = best.clamp(2.0, f64::from(SEGMENT_BITS_MAX)) as u32;
    let factor = (0.875 + 0.25 * 1e6f64.ln() / n.ln()).max(1.125);
    let all = ((n * factor).round() as u64).div_ceil(1 << segment_bits);
    Graph::Segments {
        segment_bits,
        starts: all.saturating_sub(2).max(1),
    }
}

/// A static map, or set, of three neighbouring cells per key.
#[doc(alias = "binary fuse")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fuse {
    function: Function,
}

impl Fuse {
    /// A map of distinct keys to values of `value_bits` bits, with `check_bits` more to deny absent
    /// keys.
    ///
    /// # Errors
    ///
    /// If a value has more bits, if the bits are not 1 to 64 together, if a key is given twice, or,
    /// which is practically impossible, if no seed gives a solution.
    pub fn build<K: AsRef<[u8]>>(
        seed: u64,
        entries: &[(K, u64)],
        value_bits: u32,
        check_bits: u32,
    ) -> Result<Self, Refused> {
        let bits = (value_bits, check_bits);
        let function = Function::map(seed, entries, bits, segments)?;
        Ok(Self { function })
    }

    /// A set of keys, of which `check_bits` bits are stored, 1 to 64.
    ///
    /// # Errors
    ///
    /// If the bits are out of bounds, or, which is practically impossible, if no seed gives a solution.
    pub fn set<K: AsRef<[u8]>>(seed: u64, keys: &[K], check_bits: u32) -> Result<Self, Refused> {
        let function = Function::set(seed, keys, check_bits, segments)?;
        Ok(Self { function })
    }

    /// Seeds that were tried to build it; 0 when it was read from bytes.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.function.attempts()
    }

    /// Bits of a value.
    #[must_use]
    pub fn value_bits(&self) -> u32 {
        self.function.value_bits()
    }
}

impl Lookup for Fuse {
    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.function.get(key)
    }
}

impl Membership for Fuse {
    #[inline]
    fn may_contain(&self, key: &[u8]) -> bool {
        self.function.get(key).is_some()
    }

    /// Distinct keys.
    fn len(&self) -> u64 {
        self.function.len()
    }

    fn bits(&self) -> u64 {
        self.function.bits()
    }

    fn expected_rate(&self) -> f64 {
        self.function.rate()
    }

    /// The same: what is stored is as good as random.
    fn current_rate(&self) -> f64 {
        self.function.rate()
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.function.encode(KIND, VERSION)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let function = Function::decode(KIND, VERSION, bytes)?;
        Ok(Self { function })
    }
}
