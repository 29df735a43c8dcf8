//! Sets of keys and ranges without keys, the same for the same seed.

use std::ops::Range;

use super::KeyRange;
use crate::random::{SplitMix, hash, mix};

/// A filter holds one of so many keys: the others are in other runs.
const RUNS: u64 = 8;

/// Keys whose span is a range.
const NEIGHBOURS: usize = 3;

/// Integers in a range that begins right behind a key.
const BEHIND: u64 = 16;

/// Sensors of the clustered keys, and the milliseconds of 30 days.
const SENSORS: u64 = 300;
const MILLISECONDS: u64 = 2_592_000_000;

/// The shape of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Uniform,
    SensorText,
    SensorBinary,
    Words,
    Paths,
}

pub(crate) const ALL: [Kind; 5] = [
    Kind::Uniform,
    Kind::SensorText,
    Kind::SensorBinary,
    Kind::Words,
    Kind::Paths,
];

/// All keys, and those that the filter holds, both sorted.
pub(crate) struct KeySet {
    pub(crate) kind: Kind,
    pub(crate) all: Vec<Vec<u8>>,
    pub(crate) run: Vec<Vec<u8>>,
    seed: u64,
}

impl KeySet {
    /// With about so many keys for the filter.
    pub(crate) fn new(kind: Kind, (keys, seed): (u64, u64)) -> KeySet {
        let mut random = SplitMix::new(mix(seed ^ 0x7261_6e67));
        let mut all: Vec<Vec<u8>> = (0..keys * RUNS).map(|_| key(kind, &mut random)).collect();
        all.sort_unstable();
        all.dedup();
        let is_held = |key: &&Vec<u8>| hash(key, seed).is_multiple_of(RUNS);
        let run = all.iter().filter(is_held).cloned().collect();
        KeySet {
            kind,
            all,
            run,
            seed,
        }
    }

    /// Up to so many ranges of neighbouring keys of all that hold none of the filter's, and lie
    /// between two of those.
    pub(crate) fn neighbours(&self, count: usize) -> Vec<KeyRange> {
        let places = self.all.len().saturating_sub(NEIGHBOURS);
        self.sample(places, count, |at| {
            (self.all[at].clone(), self.all[at + NEIGHBOURS - 1].clone())
        })
    }

    /// Up to so many ranges that begin right behind a key of the filter and hold none: the next
    /// integers, or of text everything that begins with the key.
    pub(crate) fn behind(&self, count: usize) -> Vec<KeyRange> {
        self.sample(self.run.len(), count, |at| {
            let key = &self.run[at];
            match self.kind {
                Kind::Uniform | Kind::SensorBinary => (plus(key, 1), plus(key, BEHIND)),
                _ => ([key, &[0][..]].concat(), [key, &[0xff][..]].concat()),
            }
        })
    }

    fn sample(
        &self,
        places: usize,
        count: usize,
        range: impl Fn(usize) -> KeyRange,
    ) -> Vec<KeyRange> {
        let mut random = SplitMix::new(mix(self.seed ^ 0x736b));
        let mut found = Vec::with_capacity(count);
        for _ in 0..count * 4 {
            let range = range(random.below(places.max(1) as u64) as usize);
            let from = self.run.partition_point(|key| *key < range.0);
            let next = self.run.get(from);
            if from > 0 && next.is_some_and(|key| *key > range.1) && found.len() < count {
                found.push(range);
            }
        }
        found
    }
}

/// A key whose last 8 bytes are a number, and so much more.
fn plus(key: &[u8], more: u64) -> Vec<u8> {
    let mut key = key.to_vec();
    let mut carry = more;
    for byte in key.iter_mut().rev() {
        carry += u64::from(*byte);
        *byte = (carry & 0xff) as u8;
        carry >>= 8;
    }
    key
}

#[expect(
    clippy::big_endian_bytes,
    reason = "keys that are in the order of their numbers"
)]
fn key(kind: Kind, random: &mut SplitMix) -> Vec<u8> {
    match kind {
        Kind::Uniform => random.next().to_be_bytes().to_vec(),
        Kind::SensorText => {
            let (sensor, time) = reading(random);
            format!("sensor{sensor:04}:{time:013}").into_bytes()
        }
        Kind::SensorBinary => {
            let (sensor, time) = reading(random);
            [&(sensor as u32).to_be_bytes()[..], &time.to_be_bytes()].concat()
        }
        Kind::Words => word(random, 1..5),
        Kind::Paths => path(random),
    }
}

/// A sensor and a time.
fn reading(random: &mut SplitMix) -> (u64, u64) {
    let (sensor, time) = (random.below(SENSORS), random.below(MILLISECONDS));
    (sensor, 1_700_000_000_000 + time)
}

/// One of these, the first far more often than the last.
fn skewed<'a>(random: &mut SplitMix, from: &[&'a str]) -> &'a str {
    let bound = random.below(from.len() as u64) + 1;
    from[random.below(bound) as usize]
}

/// Something like a word, of so many syllables.
fn word(random: &mut SplitMix, syllables: Range<u64>) -> Vec<u8> {
    const ONSETS: [&str; 20] = [
        "s", "t", "p", "c", "m", "b", "d", "r", "l", "", "n", "f", "h", "st", "g", "w", "tr", "pr",
        "ch", "qu",
    ];
    const VOWELS: [&str; 8] = ["e", "a", "i", "o", "u", "ea", "io", "ou"];
    const CODAS: [&str; 10] = ["", "n", "r", "t", "s", "l", "nt", "ck", "m", "d"];
    const ENDS: [&str; 8] = ["", "s", "ing", "ed", "er", "ly", "ness", "able"];
    let count = syllables.start + random.below(syllables.end - syllables.start);
    let mut word = String::new();
    for _ in 0..count {
        for part in [&ONSETS[..], &VOWELS, &CODAS] {
            word.push_str(skewed(random, part));
        }
    }
    word.push_str(skewed(random, &ENDS));
    word.into_bytes()
}

/// A path in a tree of directories: a name depends on the path before it and a number, so many paths
/// have their directories in common.
fn path(random: &mut SplitMix) -> Vec<u8> {
    const TOPS: [&str; 4] = ["/usr/share", "/usr/lib", "/var/lib", "/srv/sites/src"];
    const ENDS: [&str; 8] = [".html", ".rs", ".h", ".png", ".txt", ".json", ".so.1", ""];
    let mut path = skewed(random, &TOPS).as_bytes().to_vec();
    for _ in 0..1 + random.below(4) {
        let bound = 1 + random.below(30);
        let number = random.below(bound);
        path.push(b'/');
        let mut name = SplitMix::new(hash(&path, number));
        path.extend(word(&mut name, 1..3));
    }
    path.push(b'/');
    path.extend(word(random, 1..4));
    path.extend_from_slice(skewed(random, &ENDS).as_bytes());
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_no_key_of_the_filter() {
        for kind in ALL {
            let set = KeySet::new(kind, (1000, 1));
            assert!((500..1500).contains(&set.run.len()), "{kind:?}");
            for ranges in [set.neighbours(300), set.behind(300)] {
                assert!(ranges.len() > 100, "{kind:?}: {}", ranges.len());
                for (lower, upper) in ranges {
                    assert!(lower <= upper);
                    let holds = |key: &Vec<u8>| (&lower..=&upper).contains(&key);
                    assert!(!set.run.iter().any(holds), "{kind:?}");
                }
            }
        }
        assert_eq!(plus(&[1, 0xff, 0xff], 2), [2, 0, 1]);
    }
}
