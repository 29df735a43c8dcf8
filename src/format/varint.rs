//! Unsigned numbers in 1 to 10 bytes: seven bits a byte, low bits first (LEB128), shortest form.

/// Longest encoding of a `u64`, in bytes.
pub(crate) const MAX_BYTES: usize = 10;

pub(crate) fn encode(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// The number at the start of `bytes` and its length, or `None` when it is cut off, too large
/// or not in its shortest form.
pub(crate) fn decode(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((u64::from(first), 1));
    }
    let mut value = u64::from(first & 0x7f);
    for (index, &byte) in bytes.iter().enumerate().take(MAX_BYTES).skip(1) {
        let shift = u32::try_from(index).ok()?.checked_mul(7)?;
        let part = u64::from(byte & 0x7f);
        if part.checked_shl(shift)?.checked_shr(shift)? != part {
            return None;
        }
        value |= part.checked_shl(shift)?;
        if byte < 0x80 {
            return (byte != 0).then_some((value, index.saturating_add(1)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_at_every_width() {
        for shift in 0..64 {
            for value in [
                1_u64 << shift,
                (1 << shift) - 1,
                (1_u64 << shift) | 1,
                u64::MAX >> shift,
            ] {
                let mut bytes = Vec::new();
                encode(value, &mut bytes);
                assert!(bytes.len() <= MAX_BYTES, "{value}");
                bytes.push(0xff);
                assert_eq!(decode(&bytes), Some((value, bytes.len() - 1)));
            }
        }
    }

    #[test]
    fn refuses_what_encode_never_writes() {
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&[0x80]), None);
        assert_eq!(decode(&[0x80, 0x00]), None, "not the shortest form");
        assert_eq!(decode(&[0xff; 10]), None);
        assert_eq!(
            decode(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]),
            None
        );
    }
}
