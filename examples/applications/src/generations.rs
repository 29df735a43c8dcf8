//! Checks a filter with generations against an exact list of what it was asked, and against theory.

use std::collections::HashMap;

use criba_filters::Design;

use crate::{Error, Result};

/// Counts the answers for objects that are in no generation, and finds answers that must not be.
#[derive(Debug, Default)]
pub struct Check {
    /// The number of the generation in which each object was last asked for.
    last: HashMap<u64, u64>,
    /// How often an object was asked for that is not in the filter.
    pub absent: u64,
    /// How often the answer was "maybe" nevertheless.
    pub wrong: u64,
    /// How often it would be, as calculated.
    pub wrong_expected: f64,
}

impl Check {
    /// The filter has answered, from generation `oldest` on. It says "maybe" wrongly at this rate.
    ///
    /// # Errors
    ///
    /// If it has denied an object that one of these generations holds.
    pub fn answer(&mut self, object: u64, answer: bool, (oldest, rate): (u64, f64)) -> Result<()> {
        let last = self.last.get(&object);
        if last.is_none_or(|generation| *generation < oldest) {
            self.wrong_expected += rate;
            self.absent += 1;
            self.wrong += u64::from(answer);
        } else if !answer {
            let what = format!("object {object} was asked for before");
            return Err(Error::Wrong(what));
        }
        Ok(())
    }

    /// The object is in this generation from now on.
    pub fn note(&mut self, object: u64, generation: u64) {
        self.last.insert(object, generation);
    }
}

/// The calculated share of a filter's bits that is set, if only keys that it denies go in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fill(f64);

impl Fill {
    /// A key that the filter has denied goes in. So at least one of its bits is new, and it sets more bits than
    /// the textbook says, which lets all keys in: `k (1 - fill)` of them, over `1 - fill^k`.
    pub fn insert(&mut self, design: Design) {
        let new_bits = f64::from(design.probes) * (1.0 - self.0) / (1.0 - self.rate(design));
        self.0 += new_bits / design.bits as f64;
    }

    /// The probability that all bits of another key are set.
    pub fn rate(self, design: Design) -> f64 {
        self.0.powf(design.probes.into())
    }
}

#[cfg(test)]
mod tests {
    use criba_filters::{Classic, Insert, KeyHash, Membership};

    use super::*;

    #[test]
    fn a_filter_fills_as_calculated() {
        let design = Design::for_rate(5_000, 0.2).unwrap();
        let (mut filter, mut fill) = (Classic::new(design).unwrap(), Fill::default());
        let mut next = (0..u64::MAX).map(|key| KeyHash::from(&key.to_le_bytes()));
        while filter.len() < 5_000 {
            let key = next.find(|key| !filter.may_contain(*key)).unwrap();
            filter.insert(key).unwrap();
            fill.insert(filter.design());
        }
        let wrong = next.take(20_000).filter(|key| filter.may_contain(*key));
        let (wrong, expected) = (wrong.count() as f64, 20_000.0 * fill.rate(filter.design()));
        assert!((wrong / expected - 1.0).abs() < 0.06, "{wrong} {expected}");
        // With the textbook's number of set bits it would be far off.
        assert!(expected > 1.15 * 0.2 * 20_000.0, "{expected}");
    }

    #[test]
    fn what_was_noted_must_not_be_denied() {
        let mut check = Check::default();
        check.note(1, 3);
        check.answer(1, true, (3, 0.5)).unwrap();
        assert!(matches!(
            check.answer(1, false, (3, 0.5)),
            Err(Error::Wrong(_))
        ));
        assert_eq!((check.absent, check.wrong), (0, 0));
        // It is forgotten together with its generation.
        check.answer(1, false, (4, 0.5)).unwrap();
        check.answer(2, true, (0, 0.25)).unwrap();
        assert_eq!((check.absent, check.wrong), (2, 1));
        assert_eq!(check.wrong_expected, 0.75);
    }
}
