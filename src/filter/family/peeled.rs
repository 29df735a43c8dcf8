//! The Bloomier filter by peeling: three random cells per key, 1.23 cells for each.
//!
//! Chazelle, Kilian, Rubinfeld, Tal, "The Bloomier filter" (2004); as a set Graf, Lemire, "Xor filters:
//! faster and smaller than Bloom and cuckoo filters" (2020). Works as told in `peel.rs`, with one cell
//! in each third of the array.
//!
//! **Memory** 1.23 times the bits of a value and of its check. **Cost** three random accesses, always;
//! to build, random accesses to arrays much larger than the result. **Can** return values. **Cannot**
//! be changed, list its keys, or have fractions of bits.

use super::frame::{Kind, Unreadable};
use super::peel::{Function, Graph};
use super::{Lookup, Membership, Refused};

const KIND: Kind = *b"PEEL";
const VERSION: u8 = 1;

/// Cells for so many keys: `1.23 n`, and 32 more for small graphs, in three equal parts.
#[must_use]
pub fn peeled_cells_for(keys: u64) -> u64 {
    thirds(keys).cells()
}

pub(super) fn thirds(keys: u64) -> Graph {
    // 1.23 in hundredths, so that all machines agree.
    let cells = keys.saturating_mul(123).div_ceil(100).saturating_add(32);
    Graph::Thirds {
        third: cells.div_ceil(3),
    }
}

/// A static map, or set, of three random cells per key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peeled {
    function: Function,
}

impl Peeled {
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
        let function = Function::map(seed, entries, bits, thirds)?;
        Ok(Self { function })
    }

    /// A set of keys, of which `check_bits` bits are stored, 1 to 64.
    ///
    /// # Errors
    ///
    /// If the bits are out of bounds, or, which is practically impossible, if no seed gives a solution.
    pub fn set<K: AsRef<[u8]>>(seed: u64, keys: &[K], check_bits: u32) -> Result<Self, Refused> {
        let function = Function::set(seed, keys, check_bits, thirds)?;
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

impl Lookup for Peeled {
    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.function.get(key)
    }
}

impl Membership for Peeled {
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
