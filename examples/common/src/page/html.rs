//! Text from the network, made safe to stand in HTML.

use std::fmt::{self, Write as _};

use crate::escape::is_active;

/// Shows text within HTML, also within quoted attributes.
#[derive(Debug, Clone, Copy)]
pub struct Html<'a>(pub &'a str);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_active_reaches_a_page() {
        let text = "<a href='x' id=\"y\">&\0\u{202e}";
        let shown = "&lt;a href=&#39;x&#39; id=&quot;y&quot;&gt;&amp;\u{fffd}\u{fffd}";
        assert_eq!(Html(text).to_string(), shown);
    }
}
