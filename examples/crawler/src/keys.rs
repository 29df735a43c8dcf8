//! The key layout: which key holds what.
//!
//! | key | value | written |
//! |---|---|---|
//! | `u` URL | number of the URL | once, when the URL is discovered |
//! | `f` origin `00` due number | what to fetch: [`Entry`](crate::record::Entry) | at discovery; deleted when it is done |
//! | `p` number | [`Record`](crate::record::Record): state, head, hash, links | when it was fetched or given up |
//! | `c` hash of the body | number of the first page with it | with that page |
//! | `h` origin | robots.txt: when, and what it said | when it was fetched |
//! | `m` name | what holds for the whole store | at the beginning, and with each page |
//!
//! Numbers are given in the order of discovery. *due* is milliseconds since 1970; both it and the
//! number are 8 bytes, most significant first, so that the frontier of an origin is one range in
//! the order in which it is to be fetched, and a queue: put at its end, deleted at its front. An
//! origin is `scheme://host:port`, which is what robots.txt and politeness go by.
//!
//! The seen set is `u`: small entries of their own, so that a block holds many and a URL is
//! verified with one small block. The URL is kept whole, never a hash of it. Sorted as they are,
//! URLs of a host lie together, in few segments, each with a filter of its own
//! ([`Partition::Host`]); for comparison, [`Partition::None`] puts a hash in front and so spreads
//! every host over all segments.

use url::{Position, Url};

/// How the keys of the seen set are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Partition {
    /// By URL: those of a host lie together, and filters cover few hosts each.
    Host,
    /// By hash: every filter covers all hosts.
    None,
}

impl Partition {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Partition::Host => "host",
            Partition::None => "none",
        }
    }

    /// Writes the key under which a URL is known as seen.
    pub(crate) fn seen_key(self, url: &str, key: &mut Vec<u8>) {
        key.clear();
        key.push(b'u');
        if self == Partition::None {
            let hash = xxhash_rust::xxh3::xxh3_64(url.as_bytes());
            number(key, hash);
        }
        key.extend_from_slice(url.as_bytes());
    }
}

/// All keys of the seen set begin with it.
pub(crate) const SEEN: &[u8] = b"u";
/// All keys of the frontier begin with it.
pub(crate) const FRONTIER: &[u8] = b"f";
/// All keys of page records begin with it.
pub(crate) const PAGES: &[u8] = b"p";
/// What the store is, and which version of this layout.
pub(crate) const FORMAT: &[u8] = b"mformat";
/// Totals that go on from run to run.
pub(crate) const TOTALS: &[u8] = b"mtotals";
/// The first record of the archive that was written last.
pub(crate) const ARCHIVE: &[u8] = b"marchive";
/// Where the records of committed pages end in it.
pub(crate) const ARCHIVE_END: &[u8] = b"marchive-end";

/// The URL in a key of the seen set.
#[cfg(test)]
pub(crate) fn url_of_seen(partition: Partition, key: &[u8]) -> Option<&[u8]> {
    let skipped = if partition == Partition::None { 9 } else { 1 };
    key.get(skipped..)
}

fn number(key: &mut Vec<u8>, number: u64) {
    // Most significant byte first: keys are compared as bytes.
    key.extend((0..8).rev().map(|byte| (number >> (8 * byte)) as u8));
}

fn read_number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// `scheme://host:port`, as it stands in a normalised URL.
pub(crate) fn origin(url: &Url) -> &str {
    &url[..Position::BeforePath]
}

pub(crate) fn page(id: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(9);
    key.push(b'p');
    number(&mut key, id);
    key
}

/// The number in a key of a page record.
pub(crate) fn page_id(key: &[u8]) -> Option<u64> {
    (key.len() == 9).then(|| read_number(&key[1..]))
}

pub(crate) fn content(hash: u128) -> Vec<u8> {
    let mut key = Vec::with_capacity(17);
    key.push(b'c');
    number(&mut key, (hash >> 64) as u64);
    number(&mut key, hash as u64);
    key
}

pub(crate) fn robots(origin: &str) -> Vec<u8> {
    [b"h", origin.as_bytes()].concat()
}

/// The frontier of one origin: all its keys begin with this.
pub(crate) fn queue(origin: &str) -> Vec<u8> {
    [b"f", origin.as_bytes(), b"\0"].concat()
}

/// One place in the frontier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Milliseconds since 1970.
    pub(crate) due: u64,
    pub(crate) id: u64,
}

pub(crate) fn waiting(origin: &str, place: Place) -> Vec<u8> {
    let mut key = queue(origin);
    number(&mut key, place.due);
    number(&mut key, place.id);
    key
}

/// Origin and place of a key of the frontier.
pub(crate) fn read_waiting(key: &[u8]) -> Option<(&str, Place)> {
    let end = key.len().checked_sub(17)?;
    let origin = std::str::from_utf8(key.get(1..end)?).ok()?;
    let place = Place {
        due: read_number(&key[end + 1..end + 9]),
        id: read_number(&key[end + 9..]),
    };
    Some((origin, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frontier_is_ordered_by_origin_then_time_then_number() {
        let key = |origin, due, id| waiting(origin, Place { due, id });
        let sorted = [
            key("http://a", 256, 1),
            key("http://a", 1 << 40, 0),
            key("http://a.b", 1, 0),
            key("http://a.b", 1, 300),
            key("http://a.b", 2, 5),
        ];
        assert!(sorted.is_sorted());
        let place = Place {
            due: 1 << 40,
            id: 0,
        };
        assert_eq!(read_waiting(&sorted[1]), Some(("http://a", place)));
        assert!(!sorted[2].starts_with(&queue("http://a")));
    }

    #[test]
    fn a_url_comes_back_from_its_key() {
        for partition in [Partition::Host, Partition::None] {
            let mut key = Vec::new();
            partition.seen_key("http://a/b", &mut key);
            assert_eq!(url_of_seen(partition, &key), Some(&b"http://a/b"[..]));
        }
        assert_eq!(page_id(&page(77)), Some(77));
        let url = Url::parse("http://h:81/x?y").unwrap();
        assert_eq!(origin(&url), "http://h:81");
    }
}
