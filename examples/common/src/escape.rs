//! Foreign text, made safe to show on a terminal.
//!
//! A terminal acts on control characters, and some characters of Unicode reorder or hide what
//! stands beside them. [`Plain`] is for sentences: what is active in them is shown by its number.
//! [`Escaped`] is for names that someone may want back: no two names look the same.

use std::fmt::{self, Write as _};

/// Shows text on one line of a terminal, active characters as `\u{1b}`.
#[derive(Debug, Clone, Copy)]
pub struct Plain<'a>(pub &'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if is_active(character) {
                write!(f, "\\u{{{:x}}}", u32::from(character))?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}

/// Control characters, and those that change direction, join lines or cannot be seen.
pub fn is_active(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// Shows bytes without loss.
///
/// Printable ASCII and letters and digits of any script stand for themselves, except the backslash;
/// every other byte is `\xNN`.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<'a>(pub &'a [u8]);

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
    fn nothing_active_in_a_sentence_reaches_a_terminal() {
        fn check(text: &str, shown: &str) {
            assert_eq!(Plain(text).to_string(), shown);
        }
        check("plain: größer ≥ 漢字", "plain: größer ≥ 漢字");
        check("\x1b[31mred\x07", "\\u{1b}[31mred\\u{7}");
        check("a\r\nb\tc", "a\\u{d}\\u{a}b\\u{9}c");
        check("\u{9b}2J", "\\u{9b}2J");
        check("\u{202e}fdp.exe\u{feff}", "\\u{202e}fdp.exe\\u{feff}");
    }

    #[test]
    fn nothing_active_in_a_name_reaches_a_terminal() {
        fn check(bytes: &[u8], text: &str) {
            assert_eq!(Escaped(bytes).to_string(), text);
        }
        check(b"plain name.txt", "plain name.txt");
        check("señal/é".as_bytes(), "señal/é");
        check(b"\x1b[31m\n\\\xff", "\\x1b[31m\\x0a\\x5c\\xff");
        check("a\u{202e}b\u{9b}".as_bytes(), "a\\xe2\\x80\\xaeb\\xc2\\x9b");
    }
}
