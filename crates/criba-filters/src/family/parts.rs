//! Structures within a structure: their bytes, each with its length before it.

use super::frame::Fields;
use crate::Membership;
use crate::error::Result;

/// Appends a part.
pub(super) fn put(payload: &mut Vec<u8>, part: &impl Membership) {
    let bytes = part.to_bytes();
    payload.extend((bytes.len() as u64).to_le_bytes());
    payload.extend(bytes);
}

/// Reads a part back.
pub(super) fn read<T: Membership>(fields: &mut Fields<'_>) -> Result<T> {
    let length = fields.u64("the length of a part is cut short")?;
    T::from_bytes(fields.bytes(length, "a part is cut short")?)
}

/// Appends all parts, after their number.
pub(super) fn put_all<T: Membership>(payload: &mut Vec<u8>, parts: &[T]) {
    payload.extend((parts.len() as u64).to_le_bytes());
    for part in parts {
        put(payload, part);
    }
}

/// Reads all parts back, at least one. Their number is not trusted: it allocates nothing.
pub(super) fn read_all<T: Membership>(fields: &mut Fields<'_>) -> Result<Vec<T>> {
    let count = fields.u64("the number of parts is cut short")?;
    let mut parts = Vec::new();
    for _ in 0..count {
        parts.push(read(fields)?);
    }
    super::frame::require(!parts.is_empty(), "there is no part")?;
    Ok(parts)
}

/// Probability that at least one of independent filters with these rates says yes.
pub(super) fn any(rates: impl Iterator<Item = f64>) -> f64 {
    1.0 - rates.map(|rate| 1.0 - rate).product::<f64>()
}
