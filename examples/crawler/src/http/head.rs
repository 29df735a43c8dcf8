//! Status line and headers of an answer.

use std::time::{Duration, Instant};

use super::{Connection, HEAD_BYTES_MAX, Trouble};

/// Most headers of an answer.
const HEADERS_MAX: usize = 128;

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
    pub(super) content_coding: Option<String>,
    pub(super) framing: Framing,
    pub(crate) keeps_alive: bool,
}

/// Reads up to the end of the head; interim answers (1xx) are passed over.
pub(super) fn read(connection: &mut Connection, deadline: Instant) -> Result<Head, Trouble> {
    loop {
        let pending = connection.pending();
        if !pending.is_empty() {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut parsed = httparse::Response::new(&mut headers);
            let status = parsed.parse(pending);
            match status.map_err(|_error| Trouble::Protocol("the answer is not HTTP/1"))? {
                httparse::Status::Complete(len) => {
                    let code = parsed.code.unwrap_or_default();
                    let head = (code >= 200).then(|| Head::of(&parsed, pending[..len].to_vec()));
                    connection.consume(len);
                    match head {
                        Some(head) => return head,
                        None if code == 101 => {
                            return Err(Trouble::Protocol("it wants to upgrade"));
                        }
                        None => continue,
                    }
                }
                httparse::Status::Partial if pending.len() > HEAD_BYTES_MAX => {
                    return Err(Trouble::Protocol("the headers are too long"));
                }
                httparse::Status::Partial => {}
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
                    return Err(Trouble::Protocol("the length of the body is nonsense"));
                }
                length = value;
            } else if is("transfer-encoding") {
                chunked = text().to_ascii_lowercase().ends_with("chunked");
            } else if is("connection") {
                let text = text().to_ascii_lowercase();
                head.keeps_alive = match head.keeps_alive {
                    true => !text.contains("close"),
                    false => text.contains("keep-alive"),
                };
            } else if is("location") {
                head.location = Some(text());
            } else if is("content-encoding") {
                head.content_coding = Some(text().to_ascii_lowercase());
            } else if is("x-robots-tag") {
                let line = text();
                head.robots_tag = Some(match head.robots_tag.take() {
                    Some(before) => format!("{before}, {line}"),
                    None => line,
                });
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

    /// The value of a header in a head that was kept, if it is plain text.
    pub(crate) fn find(raw: &[u8], name: &str) -> Option<String> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Response::new(&mut headers);
        parsed.parse(raw).ok()?;
        let found = parsed
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value)
            .ok()
            .map(|value| value.trim().to_owned())
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
