//! Text from the network, made safe to show.
//!
//! A terminal acts on control characters, and some characters of Unicode reorder or hide what stands
//! beside them. They are shown by their numbers. HTML has its own five.

use std::fmt::{self, Write as _};

/// Shows text on one line of a terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain<'a>(pub(crate) &'a str);

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

/// Shows text within HTML, also within quoted attributes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Html<'a>(pub(crate) &'a str);

impl fmt::Display for Html<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                character if is_active(character) => f.write_char('\u{fffd}')?,
                character => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// Control characters, and those that change direction, join lines or cannot be seen.
fn is_active(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_active_reaches_a_terminal() {
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
    fn nothing_active_reaches_a_page() {
        let text = "<a href='x' id=\"y\">&\0\u{202e}";
        let shown = "&lt;a href=&#39;x&#39; id=&quot;y&quot;&gt;&amp;\u{fffd}\u{fffd}";
        assert_eq!(Html(text).to_string(), shown);
    }
}
