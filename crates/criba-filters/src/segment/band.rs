//! Gaussian elimination on a band matrix, and its back substitution.
//!
//! An equation has 64 coefficients, which begin at its start slot; the lowest is 1. Inserting it
//! adds to it the rows it meets until its first coefficient falls on a slot without a row
//! (Dillinger and Walzer, "Ribbon filter: practically smaller than Bloom and Xor", 2021, section 2).
//!
//! Invariants:
//! 1. A row at slot `i` has coefficients for slots `i..i + 64`, the first of them 1; all zero means
//!    that the slot has no row.
//! 2. A row never changes once it is there. So the rows of the equations inserted last can be taken
//!    out again by clearing them.

use super::form::{Form, SLOTS};

/// A 64-bit number with a value: an equation's hash before it is inserted, its coefficients after.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Row {
    pub(crate) bits: u64,
    pub(crate) value: u64,
}

/// What became of an equation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inserted {
    /// It is the row at this slot.
    At(usize),
    /// It follows from the rows already there.
    Implied,
    /// It contradicts the rows already there, which are as before.
    Error,
}

/// An equation on its way to a slot without a row.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Equation {
    /// The slot of the first coefficient; at least 64 slots before the end of the band.
    pub(crate) slot: usize,
    /// The lowest is 1.
    pub(crate) coefficients: u64,
    pub(crate) value: u64,
}

impl Equation {
    /// Takes the slot if it has no row, otherwise adds the row and moves on.
    #[inline(always)]
    pub(crate) fn step(&mut self, band: &mut [Row]) -> Option<Inserted> {
        let row = &mut band[self.slot];
        if row.bits == 0 {
            *row = Row {
                bits: self.coefficients,
                value: self.value,
            };
            return Some(Inserted::At(self.slot));
        }
        self.coefficients ^= row.bits;
        self.value ^= row.value;
        if self.coefficients == 0 {
            let implied = self.value == 0;
            return Some(if implied {
                Inserted::Implied
            } else {
                Inserted::Error
            });
        }
        // Both lowest coefficients were 1, so the lowest is now 0 and the equation advances.
        let zeros = self.coefficients.trailing_zeros();
        self.coefficients >>= zeros;
        self.slot += zeros as usize;
        None
    }

    /// Inserts the equation.
    #[inline]
    pub(crate) fn insert(mut self, band: &mut [Row]) -> Inserted {
        loop {
            if let Some(inserted) = self.step(band) {
                return inserted;
            }
        }
    }
}

/// Solves the band from its last block of 64 slots to its first and hands each block's number and
/// plane words to `store`; word `j` holds bit `j` of the 64 values.
///
/// Slots without a row must carry a random value: they are free, and with zeros there the values of
/// absent keys would not be evenly spread in a sparse band.
pub(crate) fn substitute(
    band: &[Row],
    planes: usize,
    form: Form,
    mut store: impl FnMut(usize, &[u64; SLOTS]),
) {
    let mut state = [0; SLOTS];
    let (blocks, _) = band.as_chunks();
    for (block, rows) in blocks.iter().enumerate().rev() {
        form.substitute(rows, planes, &mut state);
        store(block, &state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{KeyHash, coefficients, mix};

    #[test]
    fn solution_satisfies_every_inserted_equation() {
        for planes in [1usize, 7, 8, 9, 16, 33, 64] {
            let slots = 64 * 5;
            let mut band = vec![Row::default(); slots];
            let mask = u64::MAX >> (64 - planes);
            let mut equations = Vec::new();
            for i in 0..270u64 {
                let hash = mix(KeyHash(i), 9);
                let (start, row) = ((hash >> 32) as usize % (slots - 63), coefficients(hash));
                let value = mix(KeyHash(i), 10) & mask;
                let equation = Equation {
                    slot: start,
                    coefficients: row,
                    value,
                };
                if equation.insert(&mut band) != Inserted::Error {
                    equations.push((start, row, value));
                }
            }
            assert!(equations.len() > 250, "{} equations fit", equations.len());
            let mut body = vec![0u64; 5 * planes];
            let form = Form::detect();
            substitute(&band, planes, form, |block, words| {
                body[block * planes..][..planes].copy_from_slice(&words[..planes]);
            });
            for (start, row, value) in equations {
                let (block, shift) = (start / 64, start % 64);
                let count = if shift == 0 { planes } else { 2 * planes };
                let words = &body[block * planes..][..count];
                let found = form.evaluate(words, planes, row, shift as u32);
                assert_eq!(found, value);
            }
        }
    }

    #[test]
    fn repeated_equations_are_implied_or_refused() {
        fn check(band: &mut [Row], coefficients: u64, value: u64, expected: Inserted) {
            assert_eq!(
                Equation {
                    slot: 3,
                    coefficients,
                    value
                }
                .insert(band),
                expected
            );
        }
        let mut band = vec![Row::default(); 128];
        check(&mut band, 0b1011, 5, Inserted::At(3));
        check(&mut band, 0b1011, 5, Inserted::Implied);
        let before = band.clone();
        check(&mut band, 0b1011, 4, Inserted::Error);
        assert!(band == before);
        check(&mut band, 0b0001, 4, Inserted::At(4));
    }
}
