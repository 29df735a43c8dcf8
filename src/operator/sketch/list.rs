//! The items of a sketch that holds few: their hashes and how often each came.
//!
//! The letters `CRBL`, then for each hash, ascending, 8 bytes of it and 8 of how often it came, at
//! least once.

use std::collections::BTreeMap;

use criba_filters::KeyHash;

use super::hash_of;

const MAGIC: &[u8] = b"CRBL";

/// Bytes of a hash and its count.
pub(super) const ENTRY_BYTES: u64 = 16;

/// Hashes and how often each came.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct List(BTreeMap<u64, u64>);

impl List {
    /// The items that these bytes are, if they are one item or a list.
    pub(super) fn read(bytes: &[u8]) -> Option<Result<List, &'static str>> {
        if let Some(hash) = hash_of(bytes) {
            return Some(Ok(List(BTreeMap::from([(hash.0, 1)]))));
        }
        Some(read_entries(bytes.strip_prefix(MAGIC)?))
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for (hash, count) in &self.0 {
            bytes.extend(hash.to_le_bytes());
            bytes.extend(count.to_le_bytes());
        }
        bytes
    }

    pub(super) fn add(&mut self, other: &List) {
        for (hash, count) in &other.0 {
            let sum = self.0.entry(*hash).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    /// Distinct hashes.
    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Items, each as often as it came.
    pub(super) fn total(&self) -> u64 {
        self.0.values().fold(0, |sum, n| sum.saturating_add(*n))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (KeyHash, u64)> {
        self.0.iter().map(|(hash, count)| (KeyHash(*hash), *count))
    }
}

fn read_entries(bytes: &[u8]) -> Result<List, &'static str> {
    let (entries, []) = bytes.as_chunks::<{ ENTRY_BYTES as usize }>() else {
        return Err("the list is cut short");
    };
    let mut list = BTreeMap::new();
    for entry in entries {
        let (hash, count) = entry.split_at(8);
        let number = |bytes| hash_of(bytes).map_or(0, |hash| hash.0);
        let (hash, count) = (number(hash), number(count));
        if count == 0 {
            return Err("an item of the list came never");
        }
        if list.last_key_value().is_some_and(|(last, _)| *last >= hash) {
            return Err("the list is not in order");
        }
        list.insert(hash, count);
    }
    Ok(List(list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_written_and_nothing_else_is() {
        let mut list = List::default();
        for item in [7_u64, 3, 7] {
            list.add(&List::read(&item.to_le_bytes()).unwrap().unwrap());
        }
        let bytes = list.write();
        assert_eq!((list.len(), list.total(), bytes.len()), (2, 3, 36));
        assert_eq!(List::read(&bytes), Some(Ok(list)));
        assert_eq!(List::read(b"CRBL"), Some(Ok(List::default())));
        assert_eq!(List::read(b"CRBS"), None);
        assert!(List::read(&bytes[..35]).unwrap().is_err(), "cut short");
        let swapped = [&bytes[..4], &bytes[20..], &bytes[4..20]].concat();
        assert!(List::read(&swapped).unwrap().is_err(), "out of order");
        let mut never = bytes;
        never[12..20].fill(0);
        assert!(List::read(&never).unwrap().is_err(), "never came");
    }
}
