//! Frequent directions: a few rows that stand for a large matrix.
//!
//! Liberty, "Simple and deterministic matrix sketching" (2013); Ghashami, Liberty, Phillips, Woodruff,
//! "Frequent directions: simple and deterministic matrix sketching" (2016): what Misra-Gries does with
//! keys, done with directions. Rows are kept until there are twice as many as asked for. Then all
//! directions are shortened by the square of the length of the last one that has a place, and those
//! that are not longer than that are gone.
//!
//! With `l` rows, for all `k < l`: `|A^T A - B^T B|_2 <= |A - A_k|_F^2 / (l - k)`, where `A_k` is the
//! best matrix of rank `k`; with `k = 0`, that is `|A|_F^2 / l`. `B` is never longer than `A` in any
//! direction. Two sketches are merged by putting the rows of one into the other.
//!
//! There are no keys and no hashes in it, so it lives here and not among the sketches of
//! `criba-filters`.

use super::matrix::{Rows, eigen, products};

/// A sketch of a matrix whose rows come one by one.
pub(super) struct Directions {
    rows: usize,
    buffer: Rows,
}

impl Directions {
    /// A sketch with this number of rows at most, which is at least one.
    pub(super) fn new(rows: usize) -> Directions {
        Directions {
            rows,
            buffer: Vec::new(),
        }
    }

    /// Adds the next row.
    pub(super) fn insert(&mut self, row: Vec<f64>) {
        if self.buffer.len() == 2 * self.rows {
            self.shrink();
        }
        self.buffer.push(row);
    }

    /// Adds all that another sketch stands for.
    pub(super) fn merge(&mut self, other: Directions) {
        for row in other.buffer {
            self.insert(row);
        }
    }

    /// The sketch: at most as many rows as were asked for.
    pub(super) fn finish(mut self) -> Rows {
        if self.buffer.len() > self.rows {
            self.shrink();
        }
        self.buffer
    }

    /// Leaves fewer rows than were asked for: one for each direction, at right angles.
    fn shrink(&mut self) {
        let found = eigen(products(&self.buffer));
        let step = found.values.get(self.rows - 1).copied().unwrap_or(0.0);
        let step = step.max(0.0);
        let mut shorter = Vec::new();
        for (square, weights) in found.values.iter().zip(&found.vectors) {
            if *square <= step {
                break;
            }
            let factor = ((square - step) / square).sqrt();
            let mut row = vec![0.0; self.buffer[0].len()];
            for (old, weight) in self.buffer.iter().zip(weights) {
                for (sum, value) in row.iter_mut().zip(old) {
                    *sum += factor * weight * value;
                }
            }
            shorter.push(row);
        }
        self.buffer = shorter;
    }
}

#[cfg(test)]
mod tests {
    use super::super::matrix::{covariance, difference, squares};
    use super::*;
    use crate::random::SplitMix;

    fn matrix(rows: usize, width: usize, seed: u64) -> Rows {
        let mut random = SplitMix::new(seed);
        let mut number = || (random.next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
        let mut found = vec![vec![0.0; width]; rows];
        for row in &mut found {
            for (place, value) in (0_i32..).zip(row) {
                *value = number() * 0.8_f64.powi(place);
            }
        }
        found
    }

    fn sketch(rows: &[Vec<f64>], length: usize) -> Directions {
        let mut sketch = Directions::new(length);
        rows.iter().for_each(|row| sketch.insert(row.clone()));
        sketch
    }

    /// The theorem for every `k`, and that nothing is too long; merged as in one.
    #[test]
    fn errors_are_within_the_bounds() {
        let rows = matrix(300, 20, 1);
        let exact = covariance(&rows, 20);
        let lengths = eigen(exact.clone()).values;
        for length in [1, 2, 5, 10, 19] {
            let mut merged = sketch(&rows[..100], length);
            merged.merge(sketch(&rows[100..], length));
            for found in [sketch(&rows, length).finish(), merged.finish()] {
                assert!(found.len() <= length);
                let off = eigen(difference(&exact, &covariance(&found, 20))).values;
                assert!(*off.last().unwrap() > -1e-9, "longer than the matrix");
                for k in 0..length {
                    let tail: f64 = lengths[k..].iter().sum();
                    let bound = tail / (length - k) as f64;
                    assert!(
                        off[0] <= bound * (1.0 + 1e-9),
                        "{length} {k}: {off:?} {bound}"
                    );
                }
            }
        }
    }

    /// As many rows as the matrix has directions keep it.
    #[test]
    fn a_matrix_of_low_rank_is_kept() {
        let mut rows = matrix(200, 4, 2);
        rows.iter_mut().for_each(|row| row.resize(12, 0.0));
        let found = sketch(&rows, 6).finish();
        let off = difference(&covariance(&rows, 12), &covariance(&found, 12));
        assert!(squares(&off) < 1e-18 * squares(&rows).powi(2));
        assert!(Directions::new(3).finish().is_empty());
    }
}
