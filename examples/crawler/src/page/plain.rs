//! The markup that most pages consist of, read without a state machine.
//!
//! Invariant: what is read here means what the tokenizer would have found; whatever could mean
//! anything else (character references, upper case, tags that change how the rest is read, an end
//! within a tag) is left to it. A test compares the two.

use memchr::memchr;

use super::tags::{Attributes, Tag, attribute};

/// A whole tag.
pub(super) struct Plain {
    /// Its attributes were read, if it is one that matters.
    pub(super) tag: Option<Tag>,
    pub(super) len: usize,
}

/// The tag at the beginning of `html`, if it is a plain one.
#[inline]
pub(super) fn read(html: &[u8], attributes: &mut Attributes) -> Option<Plain> {
    let is_end = html.get(1) == Some(&b'/');
    let start = 1 + usize::from(is_end);
    let first = html.first() == Some(&b'<') && html.get(start)?.is_ascii_lowercase();
    if !first {
        return None;
    }
    let end = skip(html, start, NAME | EQUALS)?;
    let name = &html[start..end];
    if html[end].is_ascii_uppercase() {
        return None;
    }
    if is_end {
        return whole(html, end, None).map(|len| Plain { tag: None, len });
    }
    let tag = match name {
        b"iframe" | b"math" | b"noembed" | b"noframes" | b"plaintext" | b"script" | b"style"
        | b"svg" | b"textarea" | b"title" | b"xmp" => return None,
        _ => Tag::of(name),
    };
    attributes.clear();
    let into = tag.is_some().then_some(attributes);
    whole(html, end, into).map(|len| Plain { tag, len })
}

/// The character that stands at the beginning of `html` as one of the commonest references, and the
/// reference's length.
#[inline]
pub(super) fn reference<'r>(html: &[u8], room: &'r mut [u8; 4]) -> Option<(&'r str, usize)> {
    // Longer than any of those below.
    const LEN_MAX: usize = 10;
    let html = &html[..html.len().min(LEN_MAX)];
    let name = html.strip_prefix(b"&")?;
    let name = &name[..memchr(b';', name)?];
    let character = match name {
        b"amp" => '&',
        b"gt" => '>',
        b"lt" => '<',
        b"nbsp" => '\u{a0}',
        b"quot" => '"',
        _ => numbered(name.strip_prefix(b"#")?)?,
    };
    Some((character.encode_utf8(room), name.len() + 2))
}

/// The character with a decimal number, if the standard has no other in its place.
fn numbered(digits: &[u8]) -> Option<char> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    char::from_u32(number).filter(|&character| !character.is_control())
}

/// Where a tag ends whose name ends at `at`. The attributes that matter go `into`.
fn whole(html: &[u8], mut at: usize, mut into: Option<&mut Attributes>) -> Option<usize> {
    loop {
        at = skip(html, at, SPACE | SLASH)?;
        if html[at] == b'>' {
            return Some(at + 1);
        }
        // Even `=` is a name, where a name is due.
        let end = skip(html, at + 1, NAME | UPPER)?;
        let name = &html[at..end];
        at = skip(html, end, SPACE)?;
        let mut value = &[][..];
        if html[at] == b'=' {
            at = skip(html, at + 1, SPACE)?;
            (value, at) = self::value(html, at)?;
        }
        if let Some(attributes) = &mut into {
            set(attributes, name, value)?;
        }
    }
}

/// The value that begins at `at`, and the place behind it.
fn value(html: &[u8], at: usize) -> Option<(&[u8], usize)> {
    match html[at] {
        quote @ (b'"' | b'\'') => {
            let start = at + 1;
            let end = start + memchr(quote, &html[start..])?;
            Some((&html[start..end], end + 1))
        }
        _ => {
            let end = skip(html, at, !(SPACE | END))?;
            Some((&html[at..end], end))
        }
    }
}

/// `None` if it takes more to know what is meant.
fn set(attributes: &mut Attributes, name: &[u8], value: &[u8]) -> Option<()> {
    if name.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    if let Some(name) = attribute(name) {
        if value
            .iter()
            .any(|byte| matches!(byte, b'&' | b'\0' | b'\r'))
        {
            return None;
        }
        attributes.put(name, value);
    }
    Some(())
}

/// The first place from `at` on whose byte is not of these classes.
#[inline]
fn skip(html: &[u8], at: usize, classes: u8) -> Option<usize> {
    let is_other = |&byte: &u8| CLASSES[usize::from(byte)] & classes == 0;
    Some(at + html.get(at..)?.iter().position(is_other)?)
}

/// Classes of bytes, one bit each. Everything that is nothing else is part of a name.
const NAME: u8 = 1;
const UPPER: u8 = 2;
const SPACE: u8 = 4;
const SLASH: u8 = 8;
const EQUALS: u8 = 16;
const END: u8 = 32;

/// The class of each byte.
const CLASSES: [u8; 256] = {
    let mut classes = [NAME; 256];
    let mut upper = b'A';
    while upper <= b'Z' {
        classes[upper as usize] = UPPER;
        upper += 1;
    }
    let spaces = b" \n\t\r\x0c";
    let mut at = 0;
    while at < spaces.len() {
        classes[spaces[at] as usize] = SPACE;
        at += 1;
    }
    classes[b'/' as usize] = SLASH;
    classes[b'=' as usize] = EQUALS;
    classes[b'>' as usize] = END;
    classes
};
