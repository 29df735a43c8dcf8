//! Attackers who choose the keys of a Bloom filter, or the keys that it is asked about.
//!
//! They use only operations that the crate of filters offers to everybody. To see whether a key would set
//! only new bits, an attacker inserts it into a copy of the filter, and compares how full both are.

use criba_filters::{Classic, Design, Insert, KeyHash, Membership, hash_key};

use crate::{Error, Options, Result};

/// The seed of the public hash, which everybody knows.
pub const PUBLIC: u64 = 0;

/// Keys without end, others for each purpose and each seed of the input.
pub fn keys(purpose: &'static str, options: &Options) -> impl Iterator<Item = String> + use<> {
    let seed = options.seed;
    (0_u64..).map(move |number| format!("{purpose} {seed} {number}"))
}

/// The filter of these keys, hashed with this seed.
///
/// # Errors
///
/// [`Error::Wrong`] if the filter then denies one of the keys.
pub fn filter_of(design: Design, seed: u64, keys: &[String]) -> Result<Classic> {
    let mut filter = Classic::new(design)?;
    for key in keys {
        filter.insert(hash_key(seed, key.as_bytes()))?;
    }
    let lost = |key: &&String| !filter.may_contain(hash_key(seed, key.as_bytes()));
    match keys.iter().find(lost) {
        Some(key) => Err(Error::Wrong(format!("a filter denies its key {key:?}"))),
        None => Ok(filter),
    }
}

/// How many of the keys the filter accepts.
pub fn accepted(filter: &Classic, seed: u64, keys: &[String]) -> u64 {
    let hashes = keys.iter().map(|key| hash_key(seed, key.as_bytes()));
    hashes.filter(|hash| filter.may_contain(*hash)).count() as u64
}

/// Candidates until a filter accepts as many of them as are wanted.
///
/// With the public seed the attacker needs a copy of the filter. With a secret one this is what the owner
/// answers to somebody who can only ask.
#[derive(Debug)]
pub struct Forged {
    /// Keys that are not in the filter, and that it accepts.
    pub keys: Vec<String>,
    /// Candidates that were tried.
    pub tried: u64,
}

impl Forged {
    /// Tries the candidates in order.
    pub fn search(
        filter: &Classic,
        seed: u64,
        candidates: impl Iterator<Item = String>,
        wanted: usize,
    ) -> Forged {
        let mut tried = 0;
        let counted = candidates.inspect(|_| tried += 1);
        let passed = counted.filter(|key| filter.may_contain(hash_key(seed, key.as_bytes())));
        let keys = passed.take(wanted).collect();
        Forged { keys, tried }
    }
}

/// Keys that an insider chose, and the work.
#[derive(Debug)]
pub struct Polluted {
    /// As many as the filter is made for.
    pub keys: Vec<String>,
    /// Each tenth of the keys.
    pub tenths: Vec<Tenth>,
}

/// The work for a tenth of the keys.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tenth {
    /// Keys in the filter at the end.
    pub keys: u64,
    /// How full the filter is then.
    pub fill: f64,
    /// Candidates that were tried.
    pub tried: u64,
    /// The expectation of that.
    pub expected: f64,
}

impl Polluted {
    /// Chooses keys of which each sets k bits that were clear before.
    ///
    /// # Errors
    ///
    /// If the design is out of bounds.
    pub fn choose(design: Design, options: &Options) -> Result<Polluted> {
        let ones = |filter: &Classic| (filter.fill() * design.bits as f64).round() as u64;
        let mut filter = Classic::new(design)?;
        let mut candidates = keys("chosen", options);
        let mut polluted = Polluted {
            keys: Vec::new(),
            tenths: Vec::new(),
        };
        for tenth in 1..=10 {
            let mut work = Tenth {
                keys: design.keys * tenth / 10,
                ..Tenth::default()
            };
            while (polluted.keys.len() as u64) < work.keys {
                let before = ones(&filter);
                work.expected += expected_tries(design, before);
                let wanted = before + u64::from(design.probes);
                let fitting = candidates.by_ref().find_map(|key| {
                    work.tried += 1;
                    let hash = KeyHash::from(&key);
                    // Most candidates already fail here, and need no copy of the filter.
                    let copy = (filter.probes_read(hash) == 1).then(|| with(&filter, hash))?;
                    (ones(&copy) == wanted).then_some((key, copy))
                });
                // The candidates have no end, so there is one.
                let Some((key, copy)) = fitting else { break };
                polluted.keys.push(key);
                filter = copy;
            }
            work.fill = filter.fill();
            polluted.tenths.push(work);
        }
        Ok(polluted)
    }

    /// Candidates that were tried, and how many were expected.
    pub fn work(&self) -> (u64, f64) {
        let add = |sum: (u64, f64), tenth: &Tenth| (sum.0 + tenth.tried, sum.1 + tenth.expected);
        self.tenths.iter().fold((0, 0.0), add)
    }
}

/// A copy of the filter with one key more.
fn with(filter: &Classic, hash: KeyHash) -> Classic {
    let mut copy = filter.clone();
    // A Bloom filter takes every key; one that did not would leave the copy as it was.
    copy.insert(hash).unwrap_or_default();
    copy
}

/// Candidates for one key whose probes all find different clear bits: one over the probability
/// z/m (z-1)/m ... (z-k+1)/m, where z of the m bits are clear.
fn expected_tries(design: Design, ones: u64) -> f64 {
    let clear = (design.bits - ones) as f64;
    let hits = |probe: u32| (clear - f64::from(probe)) / design.bits as f64;
    1.0 / (0..design.probes).map(hits).product::<f64>()
}

/// How full n chosen keys make a filter: n k / m (Gerbet and others, 2015).
pub fn chosen_fill(design: Design, keys: f64) -> f64 {
    keys * f64::from(design.probes) / design.bits as f64
}

/// How full n random keys make a filter: 1 - (1 - 1/m)^(k n).
pub fn random_fill(design: Design, keys: f64) -> f64 {
    let clear = keys * f64::from(design.probes) * (-1.0 / design.bits as f64).ln_1p();
    -clear.exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expectations_are_those_of_small_cases() {
        let design = Design {
            bits: 10,
            probes: 2,
            ..Design::for_bits(3, 10).unwrap()
        };
        // Six bits are clear: 6/10 * 5/10.
        assert!((expected_tries(design, 4) - 1.0 / 0.3).abs() < 1e-9);
        assert!((chosen_fill(design, 3.0) - 0.6).abs() < 1e-9);
        assert!((random_fill(design, 1.0) - 0.19).abs() < 1e-9);
    }
}
