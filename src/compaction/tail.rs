//! Entries that are tail back for a while, as copies: the blocks that they lie in may be many times as
//! large.

use crate::format::block::Entry;
use crate::key::{Kind, Sequence};

/// Entries one behind the other in one piece of memory.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// The key and the value of each.
    bytes: Vec<u8>,
    rests: Vec<Rest>,
}

/// What an entry has beside its bytes.
#[derive(Debug)]
struct Rest {
    key_len: usize,
    value_len: usize,
    sequence: Sequence,
    kind: Kind,
}

impl Tail {
    pub(super) fn push(&mut self, entry: &Entry<'_>) {
        self.bytes.extend_from_slice(entry.key);
        self.bytes.extend_from_slice(entry.value);
        self.rests.push(Rest {
            key_len: entry.key.len(),
            value_len: entry.value.len(),
            sequence: entry.sequence,
            kind: entry.kind,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rests.is_empty()
    }

    /// Bytes of keys and values.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// In the order in which they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut later = &*self.bytes;
        self.rests.iter().map(move |rest| {
            let (key, behind) = later.split_at(rest.key_len);
            let (value, behind) = behind.split_at(rest.value_len);
            later = behind;
            Entry {
                key,
                sequence: rest.sequence,
                kind: rest.kind,
                value,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_comes_back_as_it_was() {
        let all: Vec<(Vec<u8>, Vec<u8>)> = (0..100)
            .map(|n| {
                (
                    vec![n; usize::from(n % 7)],
                    vec![n; usize::from(n % 5) * 40],
                )
            })
            .collect();
        let kind = |n: u64| [Kind::Value, Kind::Tombstone][(n % 2) as usize];
        let entries = (0..).zip(&all).map(|(n, (key, value))| Entry {
            key,
            sequence: Sequence(n),
            kind: kind(n),
            value,
        });
        let mut tail = Tail::default();
        assert!(tail.is_empty());
        entries.for_each(|entry| tail.push(&entry));
        assert!(!tail.is_empty());
        let bytes: usize = all.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert_eq!(tail.bytes(), bytes as u64);
        let mut count = 0;
        for (n, (entry, (key, value))) in (0..).zip(tail.iter().zip(&all)) {
            assert_eq!((entry.key, entry.value), (&**key, &**value));
            assert_eq!((entry.sequence, entry.kind), (Sequence(n), kind(n)));
            count += 1;
        }
        assert_eq!(count, all.len());
    }
}
