//! CRC-32 (IEEE) of a region together with the place where it belongs.
//!
//! A checksum covers the identity of the file and the offset of the region, so that a region
//! written to or read from a wrong place does not pass.

/// The checksum of `parts`, one after the other, at `offset` in the file with this identity.
pub(crate) fn at(file_id: u64, offset: u64, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    // At once: each call has a cost of its own, beside that of its bytes.
    let place = u128::from(offset) << 64 | u128::from(file_id);
    hasher.update(&place.to_le_bytes());
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_and_bytes_both_count() {
        let sum = at(1, 4096, &[b"block"]);
        assert_eq!(sum, at(1, 4096, &[b"bl", b"ock"]));
        assert_ne!(sum, at(2, 4096, &[b"block"]));
        assert_ne!(sum, at(1, 8192, &[b"block"]));
        assert_ne!(sum, at(1, 4096, &[b"blocl"]));
    }
}
