//! In which charset a page is written, and the page in UTF-8.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};

use super::tags::{self, Attribute, Attributes, Sink, Tag};

/// How far into a page browsers look for its own word on the matter.
const PRESCAN_BYTES: usize = 1024;

/// The page in UTF-8, and the charset in which its links are to be written.
///
/// A byte order mark counts most, then the header, then the page itself. Where nobody says
/// anything, valid UTF-8 is UTF-8 and everything else windows-1252. What is not valid in its
/// charset may stay as it is: who uses it replaces it.
pub(super) fn decode<'a>(
    body: &'a [u8],
    header: Option<&str>,
) -> (Cow<'a, [u8]>, &'static Encoding) {
    if let Some((encoding, len)) = Encoding::for_bom(body) {
        return with(encoding, &body[len..]);
    }
    let named = header.and_then(|header| in_content_type(header.as_bytes()));
    let encoding = named.or_else(|| in_page(body)).unwrap_or_else(|| {
        if std::str::from_utf8(body).is_ok() {
            UTF_8
        } else {
            WINDOWS_1252
        }
    });
    with(encoding, body)
}

fn with<'a>(encoding: &'static Encoding, body: &'a [u8]) -> (Cow<'a, [u8]>, &'static Encoding) {
    let output = encoding.output_encoding();
    if encoding == UTF_8 {
        return (Cow::Borrowed(body), output);
    }
    let (text, _) = encoding.decode_without_bom_handling(body);
    let text = match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    };
    (text, output)
}

/// What the page says of itself.
fn in_page(body: &[u8]) -> Option<&'static Encoding> {
    let head = &body[..body.len().min(PRESCAN_BYTES)];
    let mut said = Declared(None);
    tags::read(head, &mut said);
    // Whoever could read this in ASCII did not read UTF-16.
    let told = said.0?;
    if told == UTF_16LE || told == UTF_16BE {
        return Some(UTF_8);
    }
    Some(if told == X_USER_DEFINED {
        WINDOWS_1252
    } else {
        told
    })
}

struct Declared(Option<&'static Encoding>);

impl Sink for Declared {
    fn tag(&mut self, tag: Tag, attributes: &Attributes) -> bool {
        if tag == Tag::Meta {
            self.0 = in_meta(attributes);
        }
        self.0.is_none()
    }

    fn text(&mut self, _: &[u8]) {}

    fn title(&mut self, _: &[u8]) {}

    fn boundary(&mut self) {}
}

fn in_meta(attributes: &Attributes) -> Option<&'static Encoding> {
    if let Some(label) = attributes.get(Attribute::Charset) {
        return Encoding::for_label(label);
    }
    let what = attributes.get(Attribute::HttpEquiv)?;
    if !what.eq_ignore_ascii_case(b"content-type") {
        return None;
    }
    in_content_type(attributes.get(Attribute::Content)?)
}

/// The charset of `text/html; charset="utf-8"`.
fn in_content_type(text: &[u8]) -> Option<&'static Encoding> {
    const WORD: &[u8] = b"charset";
    let mut rest = text;
    loop {
        let at = rest
            .windows(WORD.len())
            .position(|part| part.eq_ignore_ascii_case(WORD))?;
        rest = rest[at + WORD.len()..].trim_ascii_start();
        if let Some(value) = rest.strip_prefix(b"=") {
            return Encoding::for_label(unquoted(value.trim_ascii_start()));
        }
    }
}

fn unquoted(value: &[u8]) -> &[u8] {
    let until = |text: &[u8], ends: &dyn Fn(u8) -> bool| text.iter().position(|&byte| ends(byte));
    match value.split_first() {
        Some((&quote @ (b'"' | b'\''), rest)) => {
            until(rest, &|byte| byte == quote).map_or(b"", |end| &rest[..end])
        }
        _ => {
            let end = until(value, &|byte| {
                byte.is_ascii_whitespace() || matches!(byte, b';' | b',')
            });
            &value[..end.unwrap_or(value.len())]
        }
    }
}
