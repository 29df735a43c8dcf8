//! What a page asks of robots, and where it sends its reader.

use super::Page;
use crate::site::AGENT;

/// Reads the header `X-Robots-Tag`: directives, those behind `name:` for the crawler of that name
/// only.
///
/// Such a name holds to the end of its line.
pub(super) fn header(lines: &str, page: &mut Page) {
    for line in lines.lines() {
        let mut is_for_us = true;
        for part in line.split(',') {
            let directive = match part.split_once(':') {
                Some((name, rest)) if !takes_value(name) => {
                    is_for_us = is_us(name.trim().as_bytes());
                    rest
                }
                _ => part,
            };
            if is_for_us {
                wish(directive.trim().as_bytes(), page);
            }
        }
    }
}

fn takes_value(name: &str) -> bool {
    const NAMES: [&str; 4] = [
        "unavailable_after",
        "max-snippet",
        "max-image-preview",
        "max-video-preview",
    ];
    NAMES
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name.trim()))
}

/// Reads `<meta name content>`.
pub(super) fn meta(name: &[u8], content: &[u8], page: &mut Page) {
    let name = name.trim_ascii();
    if name.eq_ignore_ascii_case(b"robots") || is_us(name) {
        for directive in content.split(|&byte| byte == b',' || byte.is_ascii_whitespace()) {
            wish(directive, page);
        }
    }
}

fn is_us(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(AGENT.as_bytes())
}

fn wish(directive: &[u8], page: &mut Page) {
    let is = |name: &[u8]| directive.eq_ignore_ascii_case(name);
    page.noindex |= is(b"noindex") || is(b"none");
    page.nofollow |= is(b"nofollow") || is(b"none");
}

/// The address in the content of a refresh, `5; url='there'`; `None` if it leads to the page
/// itself.
///
/// The steps of the HTML standard ("shared declarative refresh steps").
pub(super) fn refresh(content: &[u8]) -> Option<&[u8]> {
    let rest = content.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 && rest.first() != Some(&b'.') {
        return None;
    }
    let fraction = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
    let rest = &rest[rest.iter().take_while(fraction).count()..];
    if !rest
        .first()
        .is_some_and(|&byte| byte.is_ascii_whitespace() || matches!(byte, b';' | b','))
    {
        return None;
    }
    let rest = rest.trim_ascii_start();
    let rest = match rest.split_first() {
        Some((b';' | b',', rest)) => rest.trim_ascii_start(),
        _ => rest,
    };
    let address = quoted(after_url(rest).unwrap_or(rest));
    (!address.is_empty()).then_some(address)
}

/// What stands behind `url =`.
fn after_url(text: &[u8]) -> Option<&[u8]> {
    let (word, rest) = text.split_at_checked(3)?;
    if !word.eq_ignore_ascii_case(b"url") {
        return None;
    }
    let rest = rest.trim_ascii_start().strip_prefix(b"=")?;
    Some(rest.trim_ascii_start())
}

fn quoted(text: &[u8]) -> &[u8] {
    match text.split_first() {
        Some((quote @ (b'"' | b'\''), rest)) => {
            let end = rest.iter().position(|byte| byte == quote);
            &rest[..end.unwrap_or(rest.len())]
        }
        _ => text,
    }
}
