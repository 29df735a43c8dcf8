//! What a cell of a static map holds: the value, and bits that check the key.
//!
//! From its lowest bit, the value and then zeros, all XOR the key's fingerprint. For an absent key
//! the zeros come out as arbitrary bits: that is how it is denied.

use super::frame::{Fields, require};
use crate::KeyHash;
use crate::error::{Error, Result};
use crate::hash::{fingerprint, low_mask, mix_for, unmix_for};
use crate::segment::band::Row;

/// How the bits of a cell are divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// Bits of the value, 0 to 64.
    pub(super) value_bits: u32,
    /// Bits of the cell, 1 to 64 and no less than those of the value.
    pub(super) cell_bits: u32,
}

impl Layout {
    /// # Errors
    ///
    /// If a cell would not have 1 to 64 bits.
    pub(super) fn new(value_bits: u32, check_bits: u32) -> Result<Self> {
        let cell_bits = value_bits.saturating_add(check_bits);
        if (1..=64).contains(&cell_bits) {
            return Ok(Self {
                value_bits,
                cell_bits,
            });
        }
        Error::invalid(format!(
            "{value_bits} bits of value and {check_bits} to check are not 1 to 64 together: choose \
             fewer, or more"
        ))
    }

    /// Bits that check the key.
    pub(super) fn check_bits(self) -> u32 {
        self.cell_bits - self.value_bits
    }

    /// Whether the value fits.
    pub(super) fn check_value(self, value: u64) -> Result<()> {
        if value & !low_mask(self.value_bits) == 0 {
            return Ok(());
        }
        Error::invalid(format!(
            "the value {value} has more than {} bits: choose more bits for values",
            self.value_bits
        ))
    }

    #[inline]
    pub(super) fn cell(self, value: u64, mixed: u64) -> u64 {
        (value ^ fingerprint(mixed)) & low_mask(self.cell_bits)
    }

    /// The value in a cell, unless it is one of another key.
    #[inline]
    pub(super) fn value(self, cell: u64, mixed: u64) -> Option<u64> {
        let value = (cell ^ fingerprint(mixed)) & low_mask(self.cell_bits);
        (value & !low_mask(self.value_bits) == 0).then_some(value)
    }

    /// Probability that an absent key has a value.
    pub(super) fn rate(self) -> f64 {
        (-f64::from(self.check_bits())).exp2()
    }

    pub(super) fn put(self, payload: &mut Vec<u8>) {
        payload.extend(self.value_bits.to_le_bytes());
        payload.extend(self.cell_bits.to_le_bytes());
    }

    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let value_bits = fields.u32("the bits of values are cut short")?;
        let cell_bits = fields.u32("the bits of cells are cut short")?;
        let fits = (1..=64).contains(&cell_bits) && value_bits <= cell_bits;
        require(fits, "values do not fit their cells")?;
        Ok(Self {
            value_bits,
            cell_bits,
        })
    }

    /// Mixed hash and cell of an entry, in the filter with this salt.
    #[inline]
    pub(super) fn row(self, salt: u64, hash: KeyHash, value: u64) -> Row {
        let mixed = mix_for(hash, salt);
        Row {
            bits: mixed,
            value: self.cell(value, mixed),
        }
    }

    /// The same entry in the filter with another salt.
    pub(super) fn resalted(self, row: &Row, from: u64, to: u64) -> Row {
        // The fingerprint goes out as it came in.
        let value = self.cell(row.value, row.bits);
        self.row(to, unmix_for(row.bits, from), value)
    }
}
