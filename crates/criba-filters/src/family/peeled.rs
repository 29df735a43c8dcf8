//! The Bloomier filter by peeling: three random cells per key, 1.23 cells for each.
//!
//! Chazelle, Kilian, Rubinfeld, Tal, "The Bloomier filter" (2004); as a set Graf, Lemire, "Xor
//! filters: faster and smaller than Bloom and cuckoo filters" (2020). Works as told in `peel.rs`,
//! with one cell in each third of the array.
//!
//! **Memory** 1.23 times the bits of a value and of its check. **Cost** three random accesses,
//! always; to build, random accesses to arrays much larger than the result. **Can** return values.
//! **Cannot** be changed, be merged, list its keys, or have fractions of bits.

use super::peel::Graph;
use super::{Choice, ThreeCells};

/// One cell at random in each third.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Anywhere;

impl Choice for Anywhere {
    const KIND: [u8; 4] = *b"PEEL";
    const ARE_NEAR: bool = false;
}

/// A static map, or set, of three random cells per key.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/peeled.md`.
///
/// ```
/// use criba_filters::{Peeled, Membership};
///
/// let set = Peeled::set(["apple", "melon", "quince"], 10)?; // 1/1,024
/// assert!(set.may_contain("quince") && set.len() == 3);
/// # Ok::<(), criba_filters::Error>(())
/// ```
pub type Peeled = ThreeCells<Anywhere>;

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
