//! What is known of an address that was fetched or given up: the values of the keyspace `pages`.

use common::codec::{Malformed, Reader, put_bytes, put_number};
use crawl::Entry;

/// What a URL is expected to be: the `kind` of its entry in the frontier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Page = 0,
    Sitemap = 1,
}

impl Kind {
    pub(crate) fn of(entry: &Entry) -> Kind {
        match entry.kind {
            0 => Kind::Page,
            _ => Kind::Sitemap,
        }
    }
}

/// How the story of a URL ended. The numbers are in the store and do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Answered 200, or another 2xx.
    Fetched = 0,
    /// Leads elsewhere: the first of the links.
    Redirect = 1,
    /// Answered 4xx, or with a redirect that leads nowhere.
    Refused = 2,
    /// No usable answer after all attempts.
    Failed = 3,
    /// robots.txt forbids it.
    Disallowed = 4,
    /// A sitemap.
    Sitemap = 5,
    /// It was found, and is not asked for; the keyspace `left-out` has the reason.
    LeftOut = 6,
}

impl State {
    const ALL: [State; 7] = [
        State::Fetched,
        State::Redirect,
        State::Refused,
        State::Failed,
        State::Disallowed,
        State::Sitemap,
        State::LeftOut,
    ];

    /// Its name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Fetched => "fetched",
            State::Redirect => "redirect",
            State::Refused => "refused",
            State::Failed => "failed",
            State::Disallowed => "disallowed",
            State::Sitemap => "sitemap",
            State::LeftOut => "left_out",
        }
    }
}

/// Everything known about a URL that is no longer in the frontier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) state: State,
    pub(crate) url: String,
    pub(crate) depth: u32,
    /// Status of the response; 0 where there was none.
    pub(crate) status: u16,
    /// Milliseconds since 1970.
    pub(crate) fetched_at: u64,
    /// Status line and headers as they came: ETag and Last-Modified are read from here.
    pub(crate) head: Vec<u8>,
    /// Of the decoded body.
    pub(crate) content_hash: u128,
    /// Of the visible text; 0 where there is none.
    pub(crate) simhash: u64,
    pub(crate) noindex: bool,
    /// The page names another URL as canonical.
    pub(crate) not_canonical: bool,
    pub(crate) truncated: bool,
    /// Length of the decoded body.
    pub(crate) bytes: u64,
    /// Length of the body as it came.
    pub(crate) wire_bytes: u64,
    /// Title of the page; the reason, where there was no answer.
    pub(crate) title: String,
    /// Numbers of the URLs it links to, ascending.
    pub(crate) links: Vec<u64>,
}

impl Record {
    /// A record without a response.
    pub(crate) fn bare(state: State, url: &str, depth: u32, fetched_at: u64) -> Record {
        Record {
            state,
            url: url.to_owned(),
            depth,
            status: 0,
            fetched_at,
            head: Vec::new(),
            content_hash: 0,
            simhash: 0,
            noindex: false,
            not_canonical: false,
            truncated: false,
            bytes: 0,
            wire_bytes: 0,
            title: String::new(),
            links: Vec::new(),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out =
            Vec::with_capacity(self.url.len() + self.head.len() + 3 * self.links.len() + 64);
        out.push(self.state as u8);
        let flags = u64::from(self.noindex)
            | u64::from(self.not_canonical) << 1
            | u64::from(self.truncated) << 2;
        for number in [
            flags,
            self.depth.into(),
            self.status.into(),
            self.fetched_at,
            self.bytes,
            self.wire_bytes,
        ] {
            put_number(&mut out, number);
        }
        out.extend_from_slice(&self.content_hash.to_le_bytes());
        out.extend_from_slice(&self.simhash.to_le_bytes());
        for bytes in [self.url.as_bytes(), &self.head, self.title.as_bytes()] {
            put_bytes(&mut out, bytes);
        }
        let mut before = 0;
        for &link in &self.links {
            put_number(&mut out, link.wrapping_sub(before));
            before = link;
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Record, Malformed> {
        let mut reader = Reader(bytes);
        let state = usize::from(reader.byte()?);
        let state = *State::ALL.get(state).ok_or(Malformed)?;
        let flags = reader.number()?;
        let depth = reader.small()?;
        let status = reader.number()? as u16;
        let fetched_at = reader.number()?;
        let (bytes, wire_bytes) = (reader.number()?, reader.number()?);
        let (hash, simhash) = (reader.array()?, reader.array()?);
        let mut record = Record {
            status,
            content_hash: u128::from_le_bytes(hash),
            simhash: u64::from_le_bytes(simhash),
            noindex: flags & 1 != 0,
            not_canonical: flags & 2 != 0,
            truncated: flags & 4 != 0,
            bytes,
            wire_bytes,
            ..Record::bare(state, reader.text()?, depth, fetched_at)
        };
        record.head = reader.bytes()?.to_vec();
        record.title = reader.text()?.to_owned();
        let mut before = 0_u64;
        while reader.end().is_err() {
            before = before.wrapping_add(reader.number()?);
            record.links.push(before);
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let record = Record {
            status: 200,
            head: b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
            content_hash: u128::MAX - 5,
            simhash: 1 << 63 | 7,
            not_canonical: true,
            truncated: true,
            bytes: 1 << 33,
            wire_bytes: 300,
            title: "t".into(),
            links: vec![0, 1, 700, u64::MAX],
            ..Record::bare(State::Fetched, "http://a/", 9, 1 << 41)
        };
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes).unwrap(), record);
        assert!(Record::decode(&bytes[..20]).is_err());
        assert!(Record::decode(b"\xff").is_err());
    }
}
