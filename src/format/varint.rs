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

/// The length of a number's encoding.
pub(crate) fn bytes(value: u64) -> usize {
    let bits = u64::BITS.saturating_sub(value.leading_zeros());
    bits.div_ceil(7).max(1) as usize
}

/// The number at the start of `bytes` and its length, or `None` when it is cut off, too large
/// or not in its shortest form.
#[inline]
pub(crate) fn decode(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((u64::from(first), 1));
    }
    match bytes.first_chunk() {
        Some(word) => decode_word(*word).or_else(|| decode_bytes(bytes)),
        None => decode_bytes(bytes),
    }
}

/// A number of at most eight bytes; `None` also if it is longer.
#[inline]
fn decode_word(word: [u8; 8]) -> Option<(u64, usize)> {
    let word = u64::from_le_bytes(word);
    let stops = !word & 0x8080_8080_8080_8080;
    if stops == 0 {
        return None;
    }
    // The bits up to that of the last byte which says that it is the last.
    let used = word & (stops ^ stops.wrapping_sub(1));
    let stop = stops.trailing_zeros();
    let last = used.checked_shr(stop.saturating_sub(7))?;
    let len = (stop / 8).saturating_add(1);
    // Seven bits of each byte, then fourteen of each two, then twenty-eight of each four.
    let pairs = (used & 0x007f_007f_007f_007f) | ((used & 0x7f00_7f00_7f00_7f00) >> 1);
    let fours = (pairs & 0x0000_3fff_0000_3fff) | ((pairs & 0x3fff_0000_3fff_0000) >> 2);
    let value = (fours & 0x0fff_ffff) | ((fours & 0x0fff_ffff_0000_0000) >> 4);
    (last != 0).then_some((value, len as usize))
}

fn decode_bytes(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().enumerate().take(MAX_BYTES) {
        let shift = u32::try_from(index).ok()?.checked_mul(7)?;
        let part = u64::from(byte & 0x7f);
        if part.checked_shl(shift)?.checked_shr(shift)? != part {
            return None;
        }
        value |= part.checked_shl(shift)?;
        if byte < 0x80 {
            return (byte != 0 || index == 0).then_some((value, index.saturating_add(1)));
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
                let len = bytes.len();
                // At the end of what there is, and with more behind it.
                for _ in 0..MAX_BYTES {
                    assert_eq!(decode(&bytes), Some((value, len)));
                    assert_eq!(decode_bytes(&bytes), Some((value, len)));
                    bytes.push(0xff);
                }
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
