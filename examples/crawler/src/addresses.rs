//! Many addresses in little memory: one text, and where each ends in it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::xxh3_64;

/// Normalised addresses, one behind the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Addresses {
    text: String,
    ends: Vec<usize>,
}

impl Addresses {
    pub(crate) fn push(&mut self, address: &str) {
        self.write(|text| text.push_str(address));
        self.keep();
    }

    /// Writes an address behind the last one. It is none of them before [`Addresses::keep`].
    pub(crate) fn write<T>(&mut self, write: impl FnOnce(&mut String) -> T) -> T {
        self.text.truncate(self.last_end());
        write(&mut self.text)
    }

    /// What was written last.
    pub(crate) fn written(&self) -> &str {
        &self.text[self.last_end()..]
    }

    pub(crate) fn keep(&mut self) {
        self.ends.push(self.text.len());
    }

    fn last_end(&self) -> usize {
        self.ends.last().copied().unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, place: usize) -> &str {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[place]]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|place| self.get(place))
    }
}

/// The addresses, each once.
impl<A: AsRef<str>> FromIterator<A> for Addresses {
    fn from_iter<I: IntoIterator<Item = A>>(all: I) -> Addresses {
        let (mut addresses, mut places) = (Addresses::default(), Places::default());
        for address in all {
            let (address, place) = (address.as_ref(), addresses.len());
            let is_same = |place| addresses.get(place) == address;
            if places.find(address.as_bytes(), place, is_same).is_none() {
                addresses.push(address);
            }
        }
        addresses
    }
}

/// Finds equal texts in a list that someone else keeps.
#[derive(Debug, Default)]
pub(crate) struct Places {
    by_hash: HashMap<u64, usize, BuildHasherDefault<AsItIs>>,
}

impl Places {
    /// Where a text stands: `is_same` compares with what stands at a place. If it stands nowhere,
    /// it is noted as standing at `place`, and the answer is `None`.
    pub(crate) fn find(
        &mut self,
        text: &[u8],
        place: usize,
        is_same: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut hash = xxh3_64(text);
        loop {
            let found = *self.by_hash.entry(hash).or_insert(place);
            if found == place {
                return None;
            }
            if is_same(found) {
                return Some(found);
            }
            // Two texts with one hash: the second stands behind the first.
            hash = hash.wrapping_add(1);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.by_hash.clear();
    }

    pub(crate) fn capacity(&self) -> usize {
        self.by_hash.capacity()
    }
}

/// Takes hashes for what they are: they are well mixed.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_once_in_their_order() {
        let addresses: Addresses = ["b", "a", "b", "", "c", "", "a"].into_iter().collect();
        assert_eq!(addresses.iter().collect::<Vec<_>>(), ["b", "a", "", "c"]);
        assert_eq!((addresses.len(), addresses.get(3)), (4, "c"));
    }

    #[test]
    fn what_is_not_kept_is_gone() {
        let mut addresses = Addresses::default();
        addresses.push("a");
        addresses.write(|text| text.push_str("gone"));
        assert_eq!(addresses.written(), "gone");
        addresses.write(|text| text.push_str("kept"));
        addresses.keep();
        assert_eq!(addresses.iter().collect::<Vec<_>>(), ["a", "kept"]);
    }

    #[test]
    fn texts_with_one_hash_are_two() {
        let mut places = Places::default();
        assert_eq!(places.find(b"x", 0, |_| unreachable!()), None);
        // As if the text at 0 were another one with the same hash.
        assert_eq!(places.find(b"x", 1, |place| place == 1), None);
        assert_eq!(places.find(b"x", 2, |place| place == 1), Some(1));
        assert_eq!(places.find(b"x", 2, |place| place == 0), Some(0));
    }
}
