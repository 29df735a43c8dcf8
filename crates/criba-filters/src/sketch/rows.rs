//! Where a hash belongs in each row of a sketch, and in each probe of a Bloom filter.
//!
//! A key is hashed once. Rows are told apart by a salt under which that hash is mixed again: what a
//! sketch needs, that two keys meet in one row as seldom as by chance and independently of the
//! other rows, holds for a mixer as good as this one as far as anybody can measure. All of this
//! reaches the bytes by its effect and must not be changed.

use crate::hash::mix_for;
use crate::{KeyHash, start_of};

/// The hash in row number `row`.
#[inline]
pub(super) fn in_row(hash: KeyHash, row: u64) -> u64 {
    mix_for(hash, row + 1)
}

/// The column of a hash that was mixed for its row. Takes the high bits; the lowest are still
/// random.
#[inline]
pub(super) fn column(in_row: u64, width: u64) -> usize {
    start_of(in_row, width) as usize
}

/// 1 or -1, by the lowest bit.
#[inline]
pub(super) fn sign(in_row: u64) -> i64 {
    1 - 2 * (in_row & 1) as i64
}

/// By what the step from cell to cell grows: 2^64 over the golden ratio.
const GROWTH: u64 = 0x9e37_79b9_7f4a_7c15;

/// The cells of a hash in a Bloom filter, reduced to their number by a multiplication. Double
/// hashing on 64 bits (Kirsch and Mitzenmacher 2006) with a step that grows, so that no key gets
/// one so close to a small fraction of the whole that its cells fall together. Filters of another
/// number are independent.
#[inline]
pub(super) fn probes(
    hash: KeyHash,
    filter: u64,
    (cells, count): (u64, u8),
) -> impl Iterator<Item = usize> {
    let start = (in_row(hash, 2 * filter), in_row(hash, 2 * filter + 1));
    (0..count).scan(start, move |(place, step), _| {
        let cell = start_of(*place, cells);
        *place = place.wrapping_add(*step);
        *step = step.wrapping_add(GROWTH);
        Some(cell as usize)
    })
}
