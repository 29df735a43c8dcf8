//! The values of the frontier.

use common::codec::{Malformed, Reader, put_number};
use url::Url;

use crate::error::Error;

/// An address in the frontier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The address, normalised.
    pub url: String,
    /// Links from a seed to here.
    pub depth: u32,
    /// Redirects that led here in a row.
    pub hops: u32,
    /// Fetches that failed so far.
    pub attempts: u32,
    /// The kind of page that is expected there. The program gives the numbers their meaning.
    pub kind: u8,
    /// It was fetched before and is to be fetched again.
    pub again: bool,
    /// Number of the page that led to it first; `None` for one that no page led to.
    pub from: Option<u64>,
}

impl Entry {
    /// The value in the frontier.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.url.len() + 9);
        let flags = u64::from(self.again) | u64::from(self.kind) << 1;
        for number in [
            flags,
            self.depth.into(),
            self.hops.into(),
            self.attempts.into(),
            // 0 is none. A number is below 2^64 - 1: that many addresses do not fit a store.
            self.from.map_or(0, |page| page.wrapping_add(1)),
        ] {
            put_number(&mut out, number);
        }
        out.extend_from_slice(self.url.as_bytes());
        out
    }

    /// Undoes [`Entry::encode`].
    ///
    /// # Errors
    ///
    /// When the bytes are not those of an entry.
    pub fn decode(bytes: &[u8]) -> Result<Entry, Malformed> {
        let mut reader = Reader(bytes);
        let flags = reader.number()?;
        let (depth, hops, attempts) = (reader.small()?, reader.small()?, reader.small()?);
        let from = reader.number()?.checked_sub(1);
        Ok(Entry {
            url: reader.rest_as_text()?.to_owned(),
            depth,
            hops,
            attempts,
            kind: u8::try_from(flags >> 1).ok().ok_or(Malformed)?,
            again: flags & 1 != 0,
            from,
        })
    }
}

/// An address as it stands in the store, taken apart.
pub(crate) fn parsed(address: &str) -> Result<Url, Error> {
    Url::parse(address).map_err(|error| Error::Damaged(format!("an address is none: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back() {
        let entry = Entry {
            url: "http://a/ü".into(),
            depth: 3,
            hops: 1,
            attempts: 2,
            kind: 255,
            again: true,
            from: None,
        };
        for from in [None, Some(0), Some(1 << 40)] {
            let entry = Entry {
                from,
                ..entry.clone()
            };
            assert_eq!(Entry::decode(&entry.encode()).unwrap(), entry);
        }
        assert!(Entry::decode(b"\0\0\0\0").is_err());
        assert!(Entry::decode(&[0xff, 0x7f, 0, 0, 0, 0]).is_err());
    }
}
