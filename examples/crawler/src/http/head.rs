//! Status line and headers of an answer.

use std::time::{Duration, Instant};

use super::words::Named;
use super::{Connection, HEAD_BYTES_MAX, Trouble};

/// Headers of an answer that take no memory of their own.
const HEADERS_USUAL: usize = 128;

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// The head of an answer, and what of it we go by.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// As it came.
    pub(crate) raw: Vec<u8>,
    pub(crate) content_type: Option<String>,
    pub(crate) location: Option<String>,
    /// All `X-Robots-Tag` lines, joined by commas.
    pub(crate) robots_tag: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    /// All `Content-Encoding` lines, in lower case and joined by commas.
    pub(super) content_coding: Option<String>,
    pub(super) framing: Framing,
    pub(crate) keeps_alive: bool,
}

/// Reads up to the end of the head; interim answers (1xx) are passed over.
pub(super) fn read(connection: &mut Connection, deadline: Instant) -> Result<Head, Trouble> {
    loop {
        if let Some((len, head)) = first(connection.pending())? {
            connection.consume(len);
            match head {
                Some(head) => return Ok(head),
                None => continue,
            }
        }
        if Instant::now() > deadline {
            return Err(Trouble::TooSlow);
        }
        if !connection.fill()? {
            return Err(Trouble::Io(std::io::ErrorKind::UnexpectedEof.into()));
        }
    }
}

/// The first head in `pending` with its length, once it is whole. An interim answer has none that
/// counts.
fn first(pending: &[u8]) -> Result<Option<(usize, Option<Head>)>, Trouble> {
    const TOO_LONG: &str = "the headers are too long";
    if pending.is_empty() {
        return Ok(None);
    }
    let found = parse(pending, |parsed, status| {
        let httparse::Status::Complete(len) = status else {
            return Ok(None);
        };
        match parsed.code.unwrap_or_default() {
            101 => Err(Trouble::protocol("it wants to upgrade")),
            0..=199 => Ok(Some((len, None))),
            _ => Head::of(parsed, pending[..len].to_vec()).map(|head| Some((len, Some(head)))),
        }
    });
    let found = match found {
        Ok(found) => found?,
        Err(httparse::Error::TooManyHeaders) => return Err(Trouble::protocol(TOO_LONG)),
        Err(_) => return Err(Trouble::protocol("the answer is not HTTP/1")),
    };
    let len = found.as_ref().map_or(pending.len(), |(len, _)| *len);
    if len > HEAD_BYTES_MAX {
        return Err(Trouble::protocol(TOO_LONG));
    }
    Ok(found)
}

/// Parses a head, or the beginning of one, and reads what came of it.
fn parse<T>(
    bytes: &[u8],
    read: impl FnOnce(&httparse::Response<'_, '_>, httparse::Status<usize>) -> T,
) -> Result<T, httparse::Error> {
    let mut usual = [httparse::EMPTY_HEADER; HEADERS_USUAL];
    let mut parsed = httparse::Response::new(&mut usual);
    match parsed.parse(bytes) {
        Err(httparse::Error::TooManyHeaders) => {}
        status => return status.map(|status| read(&parsed, status)),
    }
    // Each header has a line, and lines beyond the limit are none of ours.
    let head = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    let lines = head.iter().filter(|&&byte| byte == b'\n').count();
    let mut all = vec![httparse::EMPTY_HEADER; lines];
    let mut parsed = httparse::Response::new(&mut all);
    let status = parsed.parse(bytes)?;
    Ok(read(&parsed, status))
}

/// Whether a body comes in chunks, by a line of `Transfer-Encoding`.
fn is_chunked(codings: &str) -> Result<bool, Trouble> {
    let mut chunked = false;
    for coding in codings.split(',').map(str::trim) {
        if coding.eq_ignore_ascii_case("chunked") {
            chunked = true;
        } else if !coding.is_empty() && !coding.eq_ignore_ascii_case("identity") {
            let coding = Named(coding);
            return Err(Trouble::protocol(format!(
                "the body has the transfer coding {coding}, which was not asked for"
            )));
        }
    }
    Ok(chunked)
}

/// Adds a line of a header that is a list.
fn joined(before: Option<String>, line: String) -> Option<String> {
    Some(match before {
        Some(before) => format!("{before}, {line}"),
        None => line,
    })
}

impl Head {
    fn of(parsed: &httparse::Response<'_, '_>, raw: Vec<u8>) -> Result<Head, Trouble> {
        let status = parsed.code.unwrap_or_default();
        let mut head = Head {
            status,
            raw,
            content_type: None,
            location: None,
            robots_tag: None,
            retry_after: None,
            content_coding: None,
            framing: Framing::UntilClose,
            keeps_alive: parsed.version == Some(1),
        };
        let mut length = None;
        let mut chunked = false;
        for header in parsed.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            let text = || String::from_utf8_lossy(header.value).trim().to_owned();
            if is("content-type") {
                head.content_type = Some(text());
            } else if is("content-length") {
                let value = text().parse().ok();
                if value.is_none() || (length.is_some() && length != value) {
                    return Err(Trouble::protocol("the length of the body is nonsense"));
                }
                length = value;
            } else if is("transfer-encoding") {
                chunked |= is_chunked(&text())?;
            } else if is("connection") {
                let text = text().to_ascii_lowercase();
                head.keeps_alive = match head.keeps_alive {
                    true => !text.contains("close"),
                    false => text.contains("keep-alive"),
                };
            } else if is("location") {
                head.location = Some(text());
            } else if is("content-encoding") {
                let line = text().to_ascii_lowercase();
                head.content_coding = joined(head.content_coding.take(), line);
            } else if is("x-robots-tag") {
                head.robots_tag = joined(head.robots_tag.take(), text());
            } else if is("retry-after") {
                head.retry_after = text().parse().ok().map(Duration::from_secs);
            }
        }
        head.framing = match (status, chunked, length) {
            (204 | 304, _, _) => Framing::Length(0),
            (_, true, _) => Framing::Chunked,
            (_, _, Some(length)) => Framing::Length(length),
            _ => Framing::UntilClose,
        };
        Ok(head)
    }

    /// The words behind the status, or nothing.
    pub(super) fn reason(&self) -> String {
        let reason = parse(&self.raw, |parsed, _| parsed.reason.map(str::to_owned));
        reason.ok().flatten().unwrap_or_default()
    }

    /// The value of a header in a head that was kept, if it is plain text.
    pub(crate) fn find(raw: &[u8], name: &str) -> Option<String> {
        let value = parse(raw, |parsed, _| {
            let mut headers = parsed.headers.iter();
            let found = headers.find(|header| header.name.eq_ignore_ascii_case(name))?;
            let value = std::str::from_utf8(found.value).ok()?;
            Some(value.trim().to_owned())
        });
        value.ok().flatten()
    }

    /// The head for a body that stands whole behind it: transfer coding out, length in.
    pub(crate) fn for_whole_body(&self, body_len: usize) -> Vec<u8> {
        if self.framing == Framing::Length(body_len as u64) {
            return self.raw.clone();
        }
        let mut out = Vec::with_capacity(self.raw.len() + 32);
        for line in self.raw.split_inclusive(|&byte| byte == b'\n') {
            let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
            let is = |what: &str| name.eq_ignore_ascii_case(what.as_bytes());
            if is("transfer-encoding") || is("content-length") || is("trailer") {
                continue;
            }
            if line == b"\r\n" || line == b"\n" {
                out.extend_from_slice(format!("Content-Length: {body_len}\r\n\r\n").as_bytes());
                return out;
            }
            out.extend_from_slice(line);
        }
        out
    }
}
