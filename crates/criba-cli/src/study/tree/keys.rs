//! The keys of a tree study, made one by one when they are needed: present, absent and their values.

use crate::random::{SplitMix, fill_value, mix};

/// Length of a key, in bytes.
pub(super) const KEY_BYTES: usize = 20;

/// A seed chooses the keys; those with the ordinals below the count are loaded, the others are not.
///
/// [`mix`] permutes all numbers, so keys are distinct, ordinals one after another are in random
/// order, and absent keys lie between the present ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    count: u64,
    seed: u64,
}

impl Keys {
    pub(super) fn new(count: u64, seed: u64) -> Keys {
        Keys { count, seed }
    }

    /// All present keys, in random order.
    pub(super) fn present(&self) -> impl Iterator<Item = [u8; KEY_BYTES]> {
        (0..self.count).map(|ordinal| self.key(ordinal))
    }

    /// Keys that are there, at random.
    pub(super) fn some_present(&self) -> impl Iterator<Item = [u8; KEY_BYTES]> {
        let mut random = SplitMix::new(mix(self.seed ^ 0x9e5e));
        std::iter::repeat_with(move || self.key(random.below(self.count)))
    }

    /// Keys that are not there, at random; none comes twice.
    pub(super) fn absent(&self) -> impl Iterator<Item = [u8; KEY_BYTES]> {
        (self.count..).map(|ordinal| self.key(ordinal))
    }

    /// The value of a key.
    pub(super) fn fill_value(&self, key: &[u8], value: &mut [u8]) {
        fill_value(key, 0, self.seed, value);
    }

    /// A key of the same form as those of plain `study`: a prefix and a number in hexadecimal.
    fn key(&self, ordinal: u64) -> [u8; KEY_BYTES] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut key = *b"key:................";
        let mut number = mix(ordinal ^ mix(self.seed));
        for digit in key[4..].iter_mut().rev() {
            *digit = DIGITS[(number & 15) as usize];
            number >>= 4;
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn present_and_absent_keys_interleave() {
        let keys = Keys::new(1000, 7);
        let present: BTreeSet<_> = keys.present().collect();
        assert_eq!(present.len(), 1000);
        let absent: BTreeSet<_> = keys.absent().take(1000).collect();
        assert_eq!(absent.len(), 1000);
        assert!(present.is_disjoint(&absent));
        assert!(
            keys.some_present()
                .take(100)
                .all(|key| present.contains(&key))
        );
        let inside = absent
            .iter()
            .filter(|key| present.first() < Some(key) && Some(*key) < present.last())
            .count();
        assert!(inside > 980, "{inside}");
        let changes = present
            .iter()
            .map(|key| (key, 0))
            .chain(absent.iter().map(|key| (key, 1)))
            .collect::<std::collections::BTreeMap<_, _>>();
        let sides: Vec<i32> = changes.into_values().collect();
        let changes = sides.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((800..1200).contains(&changes), "{changes}");
    }

    #[test]
    fn keys_look_like_those_of_a_plain_study() {
        let key = Keys::new(10, 1).present().next().unwrap();
        let plain = crate::study::input::generate(10, 1);
        assert_eq!(*plain.keys[0], key[..]);
        assert!(Keys::new(10, 1).present().ne(Keys::new(10, 2).present()));
    }
}
