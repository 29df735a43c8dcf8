//! Where the segments of a run begin and end, so that the one that can hold a key is found without a look
//! at any of them.
//!
//! All keys of a run begin with the bytes that its first and last key have in common. Of the rest, the
//! first eight bytes of each bound stand together as numbers; only where these are equal keys are
//! compared.

use crate::key::head;

/// First and last key of a segment.
type Ends<'a> = (&'a [u8], &'a [u8]);

#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// What all keys of the run begin with.
    prefix: Box<[u8]>,
    /// The head of the prefix, and which bits of it count: a look at a number in place of a comparison of
    /// bytes, for prefixes of up to eight.
    prefix_head: u64,
    prefix_mask: u64,
    /// Heads of the first key of each segment, and of the last.
    heads: Box<[(u64, u64)]>,
}

impl Bounds {
    /// Of segments in key order that do not overlap.
    pub(super) fn of<'a>(segments: impl DoubleEndedIterator<Item = Ends<'a>> + Clone) -> Bounds {
        let (first, _) = segments.clone().next().unwrap_or_default();
        let (_, last) = segments.clone().next_back().unwrap_or_default();
        let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let rest = |key: &[u8]| head(key.get(shared..).unwrap_or_default());
        let prefix = first.get(..shared).unwrap_or_default();
        let bits = 8 * shared.min(size_of::<u64>()) as u32;
        Bounds {
            prefix: prefix.into(),
            prefix_head: head(prefix),
            // Its highest bits.
            prefix_mask: !u64::MAX.checked_shr(bits).unwrap_or(0),
            heads: segments
                .map(|(first, last)| (rest(first), rest(last)))
                .collect(),
        }
    }

    /// The ordinal of the segment that covers the key; `ends` gives those of the segments that this was
    /// made of.
    #[inline]
    pub(super) fn find<'a>(&self, key: &[u8], ends: impl Fn(usize) -> Ends<'a>) -> Option<usize> {
        let head = head(self.rest(key)?);
        let mut at = self.heads.partition_point(|(_, last)| *last < head);
        while self.heads.get(at)?.1 == head && ends(at).1 < key {
            at += 1;
        }
        let first = self.heads[at].0;
        let covers = first < head || (first == head && ends(at).0 <= key);
        covers.then_some(at)
    }

    /// What follows the prefix, if the key begins with it.
    #[inline]
    fn rest<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        if (head(key) ^ self.prefix_head) & self.prefix_mask != 0 {
            return None;
        }
        let (prefix, rest) = key.split_at_checked(self.prefix.len())?;
        (prefix.len() <= size_of::<u64>() || *prefix == *self.prefix).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn find(segments: &[(Vec<u8>, Vec<u8>)], key: &[u8]) -> Option<usize> {
        let bounds = Bounds::of(segments.iter().map(|(first, last)| (&first[..], &last[..])));
        bounds.find(key, |at| (&segments[at].0, &segments[at].1))
    }

    #[test]
    fn a_run_without_segments_covers_nothing() {
        assert_eq!(find(&[], b""), None);
        assert_eq!(find(&[], b"key"), None);
    }

    proptest! {
        /// Keys of few letters, so that heads are often equal and prefixes long.
        #[test]
        fn it_is_the_one_that_covers_the_key(
            prefix in prop_oneof![7 => "[ab]{0,12}", 1 => Just("a".repeat(40_000))],
            keys in prop::collection::btree_set("[abc\u{0}]{0,12}", 0..24),
            key in "[abc\u{0}]{0,12}",
            is_within in any::<bool>(),
        ) {
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| format!("{prefix}{key}").into_bytes()).collect();
            // A segment of one key now and then.
            let mut segments = Vec::new();
            let mut rest = &keys[..];
            while let Some((first, behind)) = rest.split_first() {
                let single = first.len() % 3 == 0 || behind.is_empty();
                let last = if single { first } else { &behind[0] };
                segments.push((first.clone(), last.clone()));
                rest = &behind[usize::from(!single)..];
            }
            let key = if is_within { format!("{prefix}{key}") } else { key };
            let key = key.as_bytes();
            let covering = segments.iter().position(|(first, last)| &first[..] <= key && key <= &last[..]);
            prop_assert_eq!(find(&segments, key), covering);
            for key in &keys {
                prop_assert!(find(&segments, key).is_some());
            }
        }
    }
}
