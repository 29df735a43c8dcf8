//! Short ranges of a damaged store, in both directions: those that range filters answer.

use std::ops::RangeInclusive;

use criba::{Keyspace, RangeFilterPolicy};

use super::{Model, Reading};

/// The segments are so small that a filter with few bits for each key has no cells of use.
pub(super) const POLICY: RangeFilterPolicy = RangeFilterPolicy::Bits { bits_per_key: 64.0 };

/// From a key on, over none to three of those that runs may have, or between two of them.
fn short_ranges() -> impl Iterator<Item = RangeInclusive<String>> {
    let between = (0..50).step_by(9);
    let between = between.map(|n| format!("key{n:02}!")..=format!("key{n:02}~"));
    let over = (0..50).step_by(6);
    let over = over.map(|n| format!("key{n:02}")..=format!("key{:02}", n + n % 4));
    between.chain(over)
}

/// The entries of a range in their order, or `None` after an error.
fn read(
    keyspace: &Keyspace,
    range: RangeInclusive<String>,
    is_forward: bool,
) -> criba::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = Vec::new();
    let entries = keyspace.range(range);
    let mut push = |entry: criba::Result<(criba::Slice, criba::Slice)>| {
        let (key, value) = entry?;
        found.push((key.to_vec(), value.to_vec()));
        Ok(())
    };
    if is_forward {
        entries.into_iter().try_for_each(&mut push)?;
    } else {
        entries.rev().try_for_each(&mut push)?;
        found.reverse();
    }
    Ok(found)
}

fn is_of(model: &Model, range: &RangeInclusive<String>, found: &[(Vec<u8>, Vec<u8>)]) -> bool {
    let bytes = |key: &String| key.clone().into_bytes();
    let expected = model.range(bytes(range.start())..=bytes(range.end()));
    expected.eq(found.iter().map(|(key, value)| (key, value)))
}

/// All short ranges are as the model says.
pub(super) fn assert_ranges(db: &Keyspace, model: &Model, what: &str) {
    for range in short_ranges() {
        for is_forward in [false, true] {
            let found = read(db, range.clone(), is_forward).unwrap();
            assert!(is_of(model, &range, &found), "{what}: {range:?}");
        }
    }
}

impl Reading<'_> {
    pub(super) fn scan_ranges(&mut self) {
        for (nth, range) in short_ranges().enumerate() {
            // Every range in one direction.
            match read(&self.db, range.clone(), nth % 2 == 0) {
                Ok(found) => self.candidates.retain(|state| is_of(state, &range, &found)),
                Err(error) => {
                    (self.blames)(&error);
                    self.is_partial = true;
                }
            }
            assert!(
                !self.candidates.is_empty(),
                "{}: a wrong answer for {range:?}",
                (self.what)()
            );
        }
    }
}
