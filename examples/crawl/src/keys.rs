//! Keys of the keyspaces, and numbers in keys.

use url::{Position, Url};

/// How the keys of the seen set are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Partition {
    /// By address: those of a host lie together, and filters cover few hosts each.
    #[default]
    Host,
    /// By hash: every filter covers all hosts.
    None,
}

impl Partition {
    /// The name in the store.
    pub fn name(self) -> &'static str {
        match self {
            Partition::Host => "host",
            Partition::None => "none",
        }
    }

    /// Writes the key under which an address is known as seen.
    pub(crate) fn seen_key(self, address: &str, key: &mut Vec<u8>) {
        key.clear();
        if self == Partition::None {
            put_number(key, xxhash_rust::xxh3::xxh3_64(address.as_bytes()));
        }
        key.extend_from_slice(address.as_bytes());
    }

    /// The address in a key of the seen set.
    pub fn address(self, key: &[u8]) -> Option<&[u8]> {
        match self {
            Partition::Host => Some(key),
            Partition::None => key.get(8..),
        }
    }
}

/// Appends a number so that keys are in the order of their numbers: most significant byte first.
pub fn put_number(key: &mut Vec<u8>, number: u64) {
    key.extend_from_slice(&self::number(number));
}

/// A number as a key.
pub fn number(number: u64) -> [u8; 8] {
    std::array::from_fn(|at| (number >> (56 - 8 * at)) as u8)
}

/// Undoes [`number`]; `None` for a key of another length.
pub fn read_number(key: &[u8]) -> Option<u64> {
    let fold = |number, &byte| number << 8 | u64::from(byte);
    (key.len() == 8).then(|| key.iter().fold(0, fold))
}

/// `scheme://host:port` of a normalised address: what robots.txt and politeness go by.
pub fn origin(url: &Url) -> &str {
    &url[..Position::BeforePath]
}

/// All keys of an origin in the frontier begin with this.
pub fn queue(origin: &str) -> Vec<u8> {
    [origin.as_bytes(), b"\0"].concat()
}

/// One place in the frontier. Places of an origin are in the order in which they are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Milliseconds since 1970.
    pub due: u64,
    /// Number of the address.
    pub id: u64,
}

/// The key of a place.
pub fn waiting(origin: &str, place: Place) -> Vec<u8> {
    let mut key = queue(origin);
    put_number(&mut key, place.due);
    put_number(&mut key, place.id);
    key
}

/// Undoes [`waiting`].
pub fn read_waiting(key: &[u8]) -> Option<(&str, Place)> {
    let end = key.len().checked_sub(17)?;
    let place = Place {
        due: read_number(&key[end + 1..end + 9])?,
        id: read_number(&key[end + 9..])?,
    };
    Some((std::str::from_utf8(&key[..end]).ok()?, place))
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
        assert_eq!(read_waiting(b"short"), None);
    }

    #[test]
    fn numbers_are_in_order_and_come_back() {
        let numbers = [0, 1, 255, 256, 1 << 40, u64::MAX];
        assert!(numbers.map(number).is_sorted());
        for one in numbers {
            assert_eq!(read_number(&number(one)), Some(one));
        }
        assert_eq!(read_number(b""), None);
    }

    #[test]
    fn an_address_is_whole_in_its_key() {
        for partition in [Partition::Host, Partition::None] {
            let mut key = Vec::new();
            partition.seen_key("http://a/b", &mut key);
            assert_eq!(partition.address(&key), Some(&b"http://a/b"[..]));
        }
    }
}
