//! What is loaded and what is looked up: the same for every setting.
//!
//! Distinct keys are split by hash into present and absent ones, so that absent keys are real and
//! lie between present ones in key order. The occurrences of a present key are dealt by hash over
//! the runs; a key that is in several is overwritten by the later ones, and its newest value counts.

use super::input::{HeldOut, Keys};
use crate::exit::Failure;
use crate::random::{SplitMix, hash, mix};

/// A key that is loaded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Present {
    pub(crate) key: Box<[u8]>,
    /// Bit r is set when run r, 0 being loaded first, holds the key. Never 0.
    holders: u64,
}

impl Present {
    pub(crate) fn is_in(&self, run: u32) -> bool {
        self.holders >> run & 1 == 1
    }

    /// The run whose value counts.
    pub(crate) fn newest(&self) -> u32 {
        self.holders.ilog2()
    }
}

/// The work of a study.
#[derive(Debug)]
pub(crate) struct Workload {
    /// In key order.
    pub(crate) present: Vec<Present>,
    /// In key order.
    pub(crate) absent: Vec<Box<[u8]>>,
    /// The runs that get keys, in the order of loading, and how many keys each.
    pub(crate) parts: Vec<Part>,
    /// Which present keys are looked up, and in which order.
    pub(crate) present_lookups: Vec<u32>,
    /// The same for the absent ones.
    pub(crate) absent_lookups: Vec<u32>,
    pub(crate) seed: u64,
    pub(crate) name: String,
    pub(crate) skipped_long: u64,
}

/// What one run is loaded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its number: the bit in [`Present`].
    pub(crate) run: u32,
    pub(crate) keys: u64,
    pub(crate) key_bytes: u64,
}

impl Workload {
    /// # Errors
    ///
    /// When the keys are too few or too many.
    pub(crate) fn new(
        input: Keys,
        runs: u32,
        lookups: u64,
        seed: u64,
    ) -> Result<Workload, Failure> {
        let Keys {
            mut keys,
            held_out,
            name,
            skipped_long,
        } = input;
        keys.sort_unstable();
        let distinct = keys.chunk_by(|left, right| left == right).count();
        if distinct < 2 {
            return Err(Failure::usage(format!(
                "{name} has {distinct} distinct keys; a study needs two, one to load and one to miss"
            )));
        }
        if u32::try_from(distinct).is_err() {
            return Err(Failure::usage(format!(
                "{name} has {distinct} distinct keys; take a --sample"
            )));
        }
        let threshold = threshold(&keys, distinct, held_out, seed);
        let mut present = Vec::new();
        let mut absent = Vec::new();
        for group in keys.chunk_by_mut(|left, right| left == right) {
            let occurrences = group.len() as u64;
            let key = std::mem::take(&mut group[0]);
            if choice_hash(&key, seed) < threshold {
                absent.push(key);
            } else {
                let holders = deal(&key, occurrences, runs, seed);
                present.push(Present { key, holders });
            }
        }
        let mut random = SplitMix::new(seed);
        let present_lookups = draw(present.len(), lookups, &mut random);
        let absent_lookups = draw(absent.len(), lookups, &mut random);
        let parts = (0..runs)
            .map(|run| part(&present, run))
            .filter(|part| part.keys > 0)
            .collect();
        Ok(Workload {
            present,
            absent,
            parts,
            present_lookups,
            absent_lookups,
            seed,
            name,
            skipped_long,
        })
    }
}

/// The hash that chooses which keys are absent.
fn choice_hash(key: &[u8], seed: u64) -> u64 {
    hash(key, mix(seed ^ 0xab5e))
}

/// Keys whose hash is below this are held out. At least one key is on either side, unless two keys
/// share a 64-bit hash at the border.
fn threshold(sorted: &[Box<[u8]>], distinct: usize, held_out: HeldOut, seed: u64) -> u64 {
    let mut hashes: Vec<u64> = sorted
        .chunk_by(|left, right| left == right)
        .map(|group| choice_hash(&group[0], seed))
        .collect();
    let count = match held_out {
        HeldOut::Quarter => distinct / 4,
        HeldOut::AllBut(kept) => distinct.saturating_sub(kept as usize),
    };
    let count = count.clamp(1, distinct - 1);
    *hashes.select_nth_unstable(count).1
}

/// Which runs get the occurrences of a key.
fn deal(key: &[u8], occurrences: u64, runs: u32, seed: u64) -> u64 {
    let mut random = SplitMix::new(hash(key, mix(seed ^ 0xdea1)));
    // After so many, every run has the key for all practical purposes.
    let occurrences = occurrences.min(64 * u64::from(runs));
    (0..occurrences).fold(0, |holders, _| holders | 1 << random.below(u64::from(runs)))
}

fn part(present: &[Present], run: u32) -> Part {
    let held = present.iter().filter(|present| present.is_in(run));
    let (keys, key_bytes) = held.fold((0, 0), |(keys, bytes), present| {
        (keys + 1, bytes + present.key.len() as u64)
    });
    Part {
        run,
        keys,
        key_bytes,
    }
}

/// `count` of the ordinals below `len`, at random; each at most once more than any other.
fn draw(len: usize, count: u64, random: &mut SplitMix) -> Vec<u32> {
    let mut order: Vec<u32> = (0..len as u32).collect();
    random.shuffle(&mut order);
    order.into_iter().cycle().take(count as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::input::generate;

    fn keys(words: &[&str]) -> Keys {
        let keys = words.iter().map(|word| word.as_bytes().into()).collect();
        Keys {
            keys,
            held_out: HeldOut::Quarter,
            name: "words".into(),
            skipped_long: 0,
        }
    }

    #[test]
    fn generated_keys_are_loaded_to_the_number() {
        let work = Workload::new(generate(3000, 1), 4, 100, 1).unwrap();
        assert_eq!(work.present.len(), 3000);
        assert_eq!(work.absent.len(), 1000);
        assert_eq!(work.parts.iter().map(|part| part.keys).sum::<u64>(), 3000);
        assert!(
            work.parts
                .iter()
                .all(|part| (600..900).contains(&part.keys))
        );
        assert_eq!(
            (work.present_lookups.len(), work.absent_lookups.len()),
            (100, 100)
        );
    }

    #[test]
    fn absent_keys_lie_between_present_ones() {
        let work = Workload::new(generate(3000, 1), 4, 100, 1).unwrap();
        let (first, last) = (&work.present[0].key, &work.present[2999].key);
        let between = work
            .absent
            .iter()
            .filter(|key| first < *key && *key < last)
            .count();
        assert!(between > 990, "{between}");
        let is_present = |key: &[u8]| work.present.binary_search_by(|p| (*p.key).cmp(key)).is_ok();
        assert!(!work.absent.iter().any(|key| is_present(key)));
    }

    #[test]
    fn repeated_keys_are_in_several_runs() {
        let words: Vec<String> = (0..4000).map(|n| format!("word {}", n % 40)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let work = Workload::new(keys(&words), 4, 7, 1).unwrap();
        assert_eq!((work.present.len(), work.absent.len()), (30, 10));
        assert!(work.present.iter().all(|present| present.holders == 0b1111));
        assert!(work.present.iter().all(|present| present.newest() == 3));
        assert_eq!(work.parts.len(), 4);
        assert_eq!(work.parts[2].keys, 30);
    }

    #[test]
    fn small_inputs_work_or_are_refused() {
        let work = Workload::new(keys(&["a", "b"]), 64, 5, 1).unwrap();
        assert_eq!(
            (work.present.len(), work.absent.len(), work.parts.len()),
            (1, 1, 1)
        );
        assert_eq!(work.absent_lookups, [0; 5]);
        for words in [&[][..], &["a"], &["a", "a"]] {
            assert!(matches!(
                Workload::new(keys(words), 4, 5, 1),
                Err(Failure::Said(_))
            ));
        }
    }

    #[test]
    fn a_draw_is_even() {
        let drawn = draw(3, 8, &mut SplitMix::new(1));
        for ordinal in 0..3 {
            let count = drawn.iter().filter(|&&other| other == ordinal).count();
            assert!((2..=3).contains(&count));
        }
    }
}
