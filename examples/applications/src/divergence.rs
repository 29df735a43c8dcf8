//! Two replicas that were equal, and what was written to each of them since.

use std::collections::BTreeSet;

use criba::Db;
use tempfile::TempDir;

use crate::replica::{Entry, Replica};
use crate::{Error, Random, Result};

/// How two replicas differ that were equal before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Divergence {
    /// Keys whose versions differ.
    pub keys: u64,
    /// The part of these keys that both have written.
    pub conflicts: u64,
    /// Versions that only the left one has: new ones, and old ones that the right one has replaced.
    pub left_only: u64,
    /// Versions that only the right one has.
    pub right_only: u64,
}

/// The name of a key.
pub fn key(number: u64) -> Vec<u8> {
    format!("user/{number:07}").into_bytes()
}

fn value(random: &mut Random) -> Vec<u8> {
    let words = 1 + random.below(4);
    let word = |_| format!("{:08x} ", random.next() as u32);
    (0..words).map(word).collect::<String>().into_bytes()
}

/// The stores of two sites, for one pair of replicas after the other.
#[derive(Debug)]
pub struct Sites {
    stores: [Db; 2],
    _folders: [TempDir; 2],
}

impl Sites {
    /// Two empty stores.
    ///
    /// # Errors
    ///
    /// If a store refuses.
    pub fn new() -> Result<Sites> {
        let folders = [tempfile::tempdir()?, tempfile::tempdir()?];
        let [left, right] = &folders;
        Ok(Sites {
            stores: [Db::open(left.path())?, Db::open(right.path())?],
            _folders: folders,
        })
    }

    /// Two replicas with equal content: `keys` keys with values.
    ///
    /// # Errors
    ///
    /// If a store refuses.
    pub fn equal_replicas(&self, keys: u64, random: &mut Random) -> Result<[Replica; 2]> {
        let [left, right] = &self.stores;
        let (mut left, mut right) = (Replica::new(left, 1)?, Replica::new(right, 2)?);
        for number in 0..keys {
            let value = value(random);
            left.write(&key(number), Some(&value))?;
        }
        for entry in left.entries()? {
            right.merge(&entry)?;
        }
        Ok([left, right])
    }
}

/// Writes to different keys, each on one side: of ten, four get a new value, four are deleted (or
/// written again, where that was done before), and two are new. The keys below `keys` exist.
///
/// # Errors
///
/// If a store refuses.
pub fn diverge(
    replicas: &mut [Replica; 2],
    (changes, keys): (u64, u64),
    random: &mut Random,
) -> Result<Divergence> {
    let mut numbers: Vec<u64> = (0..keys).collect();
    random.shuffle(&mut numbers);
    let mut wrote = [BTreeSet::new(), BTreeSet::new()];
    for &old in numbers.iter().take(changes as usize) {
        let kind = random.below(10);
        let key = match kind {
            0 | 1 => format!("user/{old:07}/{:08x}", random.next() as u32).into_bytes(),
            _ => key(old),
        };
        let side = random.below(2) as usize;
        write(&mut replicas[side], &key, kind >= 6, random)?;
        wrote[side].insert(key);
    }
    count(replicas, &wrote)
}

/// Writes and deletions on each side, of keys below `keys`, old ones and new ones: some on both sides.
///
/// # Errors
///
/// If a store refuses.
pub fn part(
    replicas: &mut [Replica; 2],
    (writes, keys): (u64, u64),
    random: &mut Random,
) -> Result<Divergence> {
    let mut wrote = [BTreeSet::new(), BTreeSet::new()];
    for side in [0, 1] {
        for _ in 0..writes {
            let key = key(random.below(keys));
            let deletes = random.chance(0.4);
            write(&mut replicas[side], &key, deletes, random)?;
            wrote[side].insert(key);
        }
    }
    count(replicas, &wrote)
}

fn write(replica: &mut Replica, key: &[u8], deletes: bool, random: &mut Random) -> Result<()> {
    let (_, has_value) = replica.has(key)?;
    let value = value(random);
    let deleted = deletes && has_value;
    replica.write(key, (!deleted).then_some(&value[..]))
}

/// The differences, from the keys that each side has written.
fn count(replicas: &[Replica; 2], wrote: &[BTreeSet<Vec<u8>>; 2]) -> Result<Divergence> {
    let mut divergence = Divergence::default();
    for key in wrote[0].union(&wrote[1]) {
        divergence.keys += 1;
        divergence.conflicts += u64::from(wrote.iter().all(|side| side.contains(key)));
        divergence.left_only += u64::from(replicas[0].has(key)?.0);
        divergence.right_only += u64::from(replicas[1].has(key)?.0);
    }
    Ok(divergence)
}

/// The entries that both must have at the end: of each key, the newest.
///
/// # Errors
///
/// If a store refuses.
pub fn newest(replicas: &[Replica; 2]) -> Result<Vec<Entry>> {
    let mut all = replicas[0].entries()?;
    all.extend(replicas[1].entries()?);
    // The newest version of a key comes first, and is kept. The sort is one merge of two sorted lists.
    all.sort_by(|a, b| (&a.key, b.version).cmp(&(&b.key, a.version)));
    all.dedup_by(|later, first| later.key == first.key);
    Ok(all)
}

/// Compares both replicas with these entries.
///
/// # Errors
///
/// If one of them has others, or if a store refuses.
pub fn check_newest(replicas: &[Replica; 2], expected: &[Entry]) -> Result<()> {
    for (side, replica) in ["left", "right"].iter().zip(replicas) {
        if !replica.has_exactly(expected)? {
            let what = format!("the {side} replica does not have the newest of each key");
            return Err(Error::Wrong(what));
        }
    }
    Ok(())
}

/// Writes that lead to a case.
pub type Case = (&'static str, fn(&mut [Replica; 2]) -> Result<()>);

/// Entries of the cases.
pub const CASE_KEYS: u64 = 1_000;

/// Special cases of two replicas.
pub const CASES: [Case; 6] = [
    ("identical", |_| Ok(())),
    ("right is empty", |[_, right]| {
        *right = right.emptied()?;
        Ok(())
    }),
    ("left is empty", |[left, _]| {
        *left = left.emptied()?;
        Ok(())
    }),
    ("nothing in common", |[_, right]| {
        *right = right.emptied()?;
        let write = |number| right.write(&key(CASE_KEYS + number), Some(b"other"));
        (0..CASE_KEYS).try_for_each(write)
    }),
    ("left deletes 100", |[left, _]| {
        (0..100).try_for_each(|number| left.write(&key(number), None))
    }),
    ("both write 100", |[left, right]| {
        (0..100).try_for_each(|number| {
            left.write(&key(number), Some(b"left"))?;
            right.write(&key(number), None)
        })
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divergence_is_counted() {
        let mut random = Random::new(1, 0);
        let sites = Sites::new().unwrap();
        let mut replicas = sites.equal_replicas(200, &mut random).unwrap();
        assert_eq!(
            replicas[0].entries().unwrap(),
            replicas[1].entries().unwrap()
        );
        let counted = diverge(&mut replicas, (100, 200), &mut random).unwrap();
        let [left, right] = [0, 1].map(|side: usize| replicas[side].entries().unwrap());
        let only = |own: &[Entry], other: &[Entry]| {
            own.iter().filter(|entry| !other.contains(entry)).count() as u64
        };
        assert_eq!(counted.keys, 100);
        assert_eq!(counted.conflicts, 0);
        assert_eq!(counted.left_only, only(&left, &right));
        assert_eq!(counted.right_only, only(&right, &left));
        // Each side lacks what only the other one has.
        let both = newest(&replicas).unwrap();
        assert!(check_newest(&replicas, &both).is_err());
        // Every key is there once, in the newest version of either side.
        assert!(both.windows(2).all(|two| two[0].key < two[1].key));
        for entry in left.iter().chain(&right) {
            let at = both.binary_search_by(|other| other.key.cmp(&entry.key));
            assert!(both[at.unwrap()].version >= entry.version);
        }
        assert!(
            both.iter()
                .all(|entry| left.contains(entry) || right.contains(entry))
        );
    }
}
