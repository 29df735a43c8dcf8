//! Base64 (RFC 4648, section 4) for bytes that JSON cannot hold as text.
//!
//! Forty lines instead of a dependency. Decoding accepts the canonical form only, so that each
//! sequence of bytes has one spelling.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The standard alphabet, padded.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            if digit > chunk.len() {
                text.push('=');
            } else {
                text.push(char::from(
                    ALPHABET[(group >> (18 - 6 * digit) & 63) as usize],
                ));
            }
        }
    }
    text
}

/// The bytes, or `None` when the text is not canonical base64.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let quads = text.len() / 4;
    for (ordinal, quad) in text.chunks_exact(4).enumerate() {
        let padding = quad.iter().rev().take_while(|&&byte| byte == b'=').count();
        if padding > 2 || (padding > 0 && ordinal + 1 < quads) {
            return None;
        }
        let mut group = 0u32;
        for &byte in &quad[..4 - padding] {
            group = group << 6 | value(byte)?;
        }
        group <<= 6 * padding;
        let three = [group >> 16, group >> 8, group].map(|byte| (byte & 0xff) as u8);
        let (kept, dropped) = three.split_at(3 - padding);
        if dropped.iter().any(|&byte| byte != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(bytes)
}

fn value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_standard() {
        fn check(bytes: &[u8], text: &str) {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text).as_deref(), Some(bytes));
        }
        check(b"", "");
        check(b"f", "Zg==");
        check(b"fo", "Zm8=");
        check(b"foo", "Zm9v");
        check(b"foob", "Zm9vYg==");
        check(b"\xff\xfe\xfd", "//79");
        check(b"\xfb\xf0", "+/A=");
        let all: Vec<u8> = (0..=u8::MAX).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
    }

    #[test]
    fn refuses_other_spellings() {
        for text in [
            "Z", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zg==Zg==", "Zg-_", "Zg\n=",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
