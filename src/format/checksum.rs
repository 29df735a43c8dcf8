//! CRC-32 (IEEE) of a region together with the place where it belongs.
//!
//! A checksum covers the identity of the file and the offset of the region, so that a region
//! written to or read from a wrong place does not pass.

/// Bytes up to which a region is put together with its place, so that they are one call: each has a
/// cost of its own, beside that of its bytes.
const SHORT_BYTES: usize = 256;

/// The checksum of `parts`, one after the other, at `offset` in the file with this identity.
pub(crate) fn at(file_id: u64, offset: u64, parts: &[&[u8]]) -> u32 {
    let place = (u128::from(offset) << 64 | u128::from(file_id)).to_le_bytes();
    if let [part] = parts
        && let Some(len) = place.len().checked_add(part.len())
        && len <= SHORT_BYTES
    {
        let mut bytes = [0; SHORT_BYTES];
        let (covered, _) = bytes.split_at_mut(len);
        let (front, rest) = covered.split_at_mut(place.len());
        front.copy_from_slice(&place);
        rest.copy_from_slice(part);
        return crc32fast::hash(covered);
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&place);
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
        let long = [7; SHORT_BYTES];
        for len in [
            0,
            SHORT_BYTES - 17,
            SHORT_BYTES - 16,
            SHORT_BYTES - 15,
            SHORT_BYTES,
        ] {
            let (one, other) = long[..len].split_at(len / 2);
            assert_eq!(
                at(3, 4, &[&long[..len]]),
                at(3, 4, &[one, other]),
                "{len} bytes"
            );
        }
        assert_eq!(sum, at(1, 4096, &[b"bl", b"ock"]));
        assert_ne!(sum, at(2, 4096, &[b"block"]));
        assert_ne!(sum, at(1, 8192, &[b"block"]));
        assert_ne!(sum, at(1, 4096, &[b"blocl"]));
    }
}
