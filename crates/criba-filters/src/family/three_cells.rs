//! A static map, or set, whose value for a key is the XOR of three cells.

use std::marker::PhantomData;

use super::peel::{Function, Graph};
use super::values::Layout;
use super::{fuse, peeled};
use crate::error::Result;
use crate::{KeyHash, Lookup, Membership};

/// Which three cells a key has.
pub trait Choice {
    /// What the bytes begin with. Written by [`to_bytes`](Membership::to_bytes); must not be
    /// changed.
    const KIND: [u8; 4];
    /// Whether the cells lie in neighbouring segments; else one lies in each third of all.
    const ARE_NEAR: bool;
}

/// The version of the bytes.
const VERSION: u8 = 2;

/// Three cells for each key: [`Fuse`](super::Fuse), [`Peeled`](super::Peeled).
///
/// ```
/// use criba_filters::{Choice, Lookup, Neighbours, ThreeCells};
///
/// fn price<C: Choice>(prices: &ThreeCells<C>, name: &str) -> Option<u64> {
///     prices.get(name)
/// }
///
/// let prices = ThreeCells::<Neighbours>::build([("apple", 30), ("melon", 250)], 8, 6)?;
/// assert_eq!(price(&prices, "melon"), Some(250));
/// # Ok::<(), criba_filters::Error>(())
/// ```
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
    /// which is practically impossible, if no salt gives a solution.
    pub fn build<K: Into<KeyHash>>(
        entries: impl IntoIterator<Item = (K, u64)>,
        value_bits: u32,
        check_bits: u32,
    ) -> Result<Self> {
        let layout = Layout::new(value_bits, check_bits)?;
        let row = |(key, value): (K, u64)| {
            layout.check_value(value)?;
            Ok(layout.row(0, key.into(), value))
        };
        let rows = entries.into_iter().map(row).collect::<Result<_>>()?;
        Function::map(layout, rows, Self::graph).map(Self::of)
    }

    /// A set of keys, of which `check_bits` bits are stored, 1 to 64.
    ///
    /// # Errors
    ///
    /// If the bits are out of bounds, or, which is practically impossible, if no salt gives a
    /// solution.
    pub fn set<K: Into<KeyHash>>(
        keys: impl IntoIterator<Item = K>,
        check_bits: u32,
    ) -> Result<Self> {
        let layout = Layout::new(0, check_bits)?;
        let row = |key: K| layout.row(0, key.into(), 0);
        let rows = keys.into_iter().map(row).collect();
        Function::set(layout, rows, Self::graph).map(Self::of)
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

    /// Salts that were tried to build it; 0 when it was read from bytes.
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
    fn get_hash(&self, hash: KeyHash) -> Option<u64> {
        self.function.get(hash)
    }
}

impl<C: Choice> Membership for ThreeCells<C> {
    #[inline]
    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.function.get(hash).is_some()
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
