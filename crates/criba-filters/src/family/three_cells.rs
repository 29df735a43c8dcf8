//! A static map, or set, whose value for a key is the XOR of three cells.

use std::marker::PhantomData;

use super::peel::{Function, Graph};
use super::{Lookup, Membership, fuse, peeled};
use crate::error::Result;

/// Which three cells a key has.
pub trait Choice {
    /// What the bytes begin with. Written by [`to_bytes`](Membership::to_bytes); must not be changed.
    const KIND: [u8; 4];
    /// Whether the cells lie in neighbouring segments; else one lies in each third of all.
    const ARE_NEAR: bool;
}

/// The version of the bytes.
const VERSION: u8 = 1;

/// Three cells for each key: [`Fuse`](super::Fuse), [`Peeled`](super::Peeled).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreeCells<C> {
    function: Function,
    choice: PhantomData<C>,
}

impl<C: Choice> ThreeCells<C> {
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
    ) -> Result<Self> {
        let bits = (value_bits, check_bits);
        Function::map(seed, entries, bits, Self::graph).map(Self::of)
    }

    /// A set of keys, of which `check_bits` bits are stored, 1 to 64.
    ///
    /// # Errors
    ///
    /// If the bits are out of bounds, or, which is practically impossible, if no seed gives a solution.
    pub fn set<K: AsRef<[u8]>>(seed: u64, keys: &[K], check_bits: u32) -> Result<Self> {
        Function::set(seed, keys, check_bits, Self::graph).map(Self::of)
    }

    fn of(function: Function) -> Self {
        Self {
            function,
            choice: PhantomData,
        }
    }

    fn graph(keys: u64) -> Graph {
        if C::ARE_NEAR {
            fuse::segments(keys)
        } else {
            peeled::thirds(keys)
        }
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

impl<C: Choice> Lookup for ThreeCells<C> {
    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.function.get(key)
    }
}

impl<C: Choice> Membership for ThreeCells<C> {
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
        self.function.encode(C::KIND, VERSION)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Function::decode(C::KIND, VERSION, bytes).map(Self::of)
    }
}
