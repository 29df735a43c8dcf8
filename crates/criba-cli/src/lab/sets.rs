//! What experiments do with every set: fill it, ask it, take the time.

use criba_filters::{Insert, Membership};

use super::bench::{Bench, Key, made};
use crate::exit::Failure;

/// Puts keys into a set.
///
/// # Errors
///
/// When the set has no room.
pub(crate) fn fill<T: Insert>(set: &mut T, keys: &[Key]) -> Result<(), Failure> {
    keys.iter().try_for_each(|key| made(set.insert(key)))
}

/// The share of keys that a set may contain, by its own word.
pub(crate) fn passing(set: &impl Membership, keys: &[Key]) -> f64 {
    let passing = keys.iter().filter(|key| set.may_contain(*key)).count();
    passing as f64 / keys.len().max(1) as f64
}

/// Nanoseconds of a lookup of each of these keys.
///
/// # Errors
///
/// Never; as [`Bench::time`].
pub(crate) fn lookup_time(
    bench: &Bench,
    set: &impl Membership,
    keys: &[Key],
) -> Result<f64, Failure> {
    bench.time(keys.len() as u64, || {
        let found = keys.iter().filter(|key| set.may_contain(*key)).count();
        std::hint::black_box(found);
        Ok(())
    })
}
