//! The binary fuse filter: three cells per key that lie close together, 1.13 cells for each.
//!
//! Graf, Lemire, "Binary fuse filters: fast and smaller than xor filters" (2022), section 3; after
//! Dietzfelbinger, Walzer, "Dense peelable random uniform hypergraphs" (2019). Works as told in
//! `peel.rs`, with the cells of a key in three consecutive short segments: peeling begins at both
//! ends of the array and works inwards, so that fewer cells are enough.
//!
//! **Memory** 1.125 times the bits of a value and of its check at a million keys and more, 1.16 at
//! 200,000, 1.2 at 37,000, 1.4 at 700, and whole segments. **Cost** three accesses within a few
//! pages, always; faster to build than random cells. **Can** return values. **Cannot** be changed,
//! be merged, list its keys, or have fractions of bits.

use super::peel::{Graph, SEGMENT_BITS_MAX};
use super::{Choice, ThreeCells};

/// Three neighbouring cells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbours;

impl Choice for Neighbours {
    const KIND: [u8; 4] = *b"FUSE";
    const ARE_NEAR: bool = true;
}

/// A static map, or set, of three neighbouring cells per key.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/fuse.md`.
///
/// ```
/// use criba_filters::{Fuse, Membership};
///
/// let set = Fuse::set(["apple", "melon", "quince"], 10)?; // 1/1,024
/// assert!(set.may_contain("quince") && set.len() == 3);
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[doc(alias = "binary fuse")]
pub type Fuse = ThreeCells<Neighbours>;

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
