//! The number of distinct hashes from registers of ranks: the improved raw estimator of Ertl, "New
//! cardinality estimation algorithms for HyperLogLog sketches" (2017), section 2.5, algorithm 6.
//!
//! It needs neither tables nor a switch between ranges: what registers that are still zero tell,
//! and those that are full, is part of the sum.

use super::registers::{Histogram, rank_max};

/// From how many registers, which that many bits can name, have each rank.
pub(super) fn estimate(counts: &Histogram, index_bits: u8) -> f64 {
    let registers = f64::from(1_u32 << index_bits);
    let share = |rank: usize| f64::from(counts[rank]) / registers;
    let last = usize::from(rank_max(index_bits));
    let mut z = registers * tau(1.0 - share(last));
    for count in counts[1..last].iter().rev() {
        z = 0.5 * (z + f64::from(*count));
    }
    z += registers * sigma(share(0));
    registers * registers / (2.0 * std::f64::consts::LN_2 * z)
}

/// x + the sum of `x^(2^k) 2^(k-1)` for k from 1 on: what registers that are zero tell.
fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z <= before {
            return z;
        }
    }
}

/// (1 - x - the sum of `(1 - x^(2^-k))^2 2^-k` for k from 1 on) / 3: what full registers tell.
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z >= before {
            return z / 3.0;
        }
    }
}
