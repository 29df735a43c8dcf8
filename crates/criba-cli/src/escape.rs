//! Bytes as printable ASCII and back, without loss.
//!
//! Printable ASCII stands for itself, except the backslash: `\\`. Tab, line feed and carriage
//! return are `\t`, `\n`, `\r`; every other byte is `\xNN`. So foreign bytes cannot reach a
//! terminal, and a line or a column never breaks. Reading is more tolerant than writing: a byte
//! that is not a backslash stands for itself, whatever it is.

use std::fmt;

/// Shows bytes escaped.
pub(crate) struct Escaped<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while !rest.is_empty() {
            let plain = rest
                .iter()
                .position(|&byte| !is_plain(byte))
                .unwrap_or(rest.len());
            let (text, special) = rest.split_at(plain);
            // Plain bytes are ASCII, so this borrows.
            f.write_str(&String::from_utf8_lossy(text))?;
            let Some((&byte, after)) = special.split_first() else {
                break;
            };
            match byte {
                b'\\' => f.write_str("\\\\")?,
                b'\t' => f.write_str("\\t")?,
                b'\n' => f.write_str("\\n")?,
                b'\r' => f.write_str("\\r")?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
            rest = after;
        }
        Ok(())
    }
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'\\'
}

/// Undoes [`Escaped`].
///
/// # Errors
///
/// A sentence that names the first escape that is none, and where it is.
pub(crate) fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        bytes.extend_from_slice(&rest[..at]);
        let (byte, len) = one(&rest[at + 1..]).ok_or_else(|| {
            let offset = text.len() - rest.len() + at;
            format!(
                "byte {} begins no known escape; write \\\\ \\t \\n \\r or \\xNN",
                offset + 1
            )
        })?;
        bytes.push(byte);
        rest = &rest[at + 1 + len..];
    }
    bytes.extend_from_slice(rest);
    Ok(bytes)
}

/// The byte that an escape stands for, and its length without the backslash.
fn one(after: &[u8]) -> Option<(u8, usize)> {
    match after {
        [b'\\', ..] => Some((b'\\', 1)),
        [b't', ..] => Some((b'\t', 1)),
        [b'n', ..] => Some((b'\n', 1)),
        [b'r', ..] => Some((b'\r', 1)),
        [b'x', high, low, ..] => {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let value = digit(*high)? << 4 | digit(*low)?;
            Some((u8::try_from(value).ok()?, 3))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_bytes_comes_back() {
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                let bytes = [first, second];
                let text = Escaped(&bytes).to_string();
                assert!(
                    text.bytes().all(|byte| matches!(byte, b' '..=b'~')),
                    "{text}"
                );
                assert_eq!(unescape(text.as_bytes()).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn reads_as_written() {
        fn check(bytes: &[u8], text: &str) {
            assert_eq!(Escaped(bytes).to_string(), text);
            assert_eq!(unescape(text.as_bytes()).unwrap(), bytes);
        }
        check(b"", "");
        check(b"plain 'text' \"here\"", "plain 'text' \"here\"");
        check(b"\x1b[31m\0\xff", "\\x1b[31m\\x00\\xff");
        check(b"a\tb\nc\rd\\", "a\\tb\\nc\\rd\\\\");
        check("é".as_bytes(), "\\xc3\\xa9");
        assert_eq!(unescape("é\\x4A".as_bytes()).unwrap(), "éJ".as_bytes());
    }

    #[test]
    fn names_what_is_no_escape() {
        fn check(text: &[u8], at: usize) {
            let message = unescape(text).unwrap_err();
            assert!(message.starts_with(&format!("byte {at} ")), "{message}");
        }
        check(b"\\", 1);
        check(b"ab\\", 3);
        check(b"ab\\q", 3);
        check(b"\\t\\x1", 3);
        check(b"\\x1g", 1);
        check(b"\\x+1", 1);
        check(b"\\0", 1);
    }
}
