//! Bytes as printable text, so that foreign names cannot reach a terminal, and back.
//!
//! Printable ASCII and printable letters of UTF-8 stand for themselves, except the backslash; every
//! other byte is `\xNN`, so that no line breaks and nothing moves the cursor.

use std::fmt::{self, Write as _};

/// Shows bytes escaped.
pub(crate) struct Escaped<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if is_plain(c) {
                    f.write_char(c)?;
                } else {
                    let mut bytes = [0; 4];
                    write_bytes(f, c.encode_utf8(&mut bytes).as_bytes())?;
                }
            }
            write_bytes(f, chunk.invalid())?;
        }
        Ok(())
    }
}

/// Letters and digits of any script are plain; marks that change direction or are invisible are not.
fn is_plain(c: char) -> bool {
    matches!(c, ' '..='~') && c != '\\' || !c.is_ascii() && c.is_alphanumeric()
}

fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_a_terminal() {
        fn check(bytes: &[u8], text: &str) {
            assert_eq!(Escaped(bytes).to_string(), text);
        }
        check(b"plain name.txt", "plain name.txt");
        check("señal/é".as_bytes(), "señal/é");
        check(b"\x1b[31m\n\\\xff", "\\x1b[31m\\x0a\\x5c\\xff");
        check("a\u{202e}b\u{9b}".as_bytes(), "a\\xe2\\x80\\xaeb\\xc2\\x9b");
    }
}
