//! Names published as Bloom filters of bigrams for record linkage, and an attacker who reads them.
//!
//! Two hospitals want to find their common patients. Each publishes a filter for each patient that holds
//! the bigrams of the name, because similar names have similar filters (Schnell, Bachteler, Reiher,
//! "Privacy-preserving record linkage using Bloom filters", 2009). The attacker knows how frequent each
//! name is, and the method, but no key.
//!
//! The attack needs neither a hash nor the position of a bit. It uses operations that a published filter
//! offers to everybody: how many bigrams are in a filter, and how many two filters share.

use std::collections::BTreeMap;

use criba_filters::{Classic, Design, Hashing, Insert, KeyHash, Membership, hash_key};

use crate::adversary::PUBLIC;
use crate::names::{Names, bigrams};
use crate::{Random, Result};

/// How the publisher protects the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Bigrams are hashed with the public seed.
    None,
    /// Bigrams are hashed with a secret key.
    Key,
    /// With a secret key, and each record has bits of as many random bigrams more.
    Noise(u32),
    /// With a secret key that also depends on another field of the record, which has as many values.
    Salt(u64),
}

impl Protection {
    /// How many different filters a name can have.
    fn copies(self) -> u64 {
        match self {
            Protection::Salt(values) => values,
            _ => 1,
        }
    }

    fn noise(self) -> f64 {
        match self {
            Protection::Noise(bigrams) => f64::from(bigrams),
            _ => 0.0,
        }
    }
}

/// The records of one publisher.
#[derive(Debug)]
pub struct Published {
    /// The place of each record's name in the list. The attacker does not see it.
    pub truth: Vec<usize>,
    filters: Vec<Classic>,
    protection: Protection,
}

/// Bits and probes of a record's filter, of the order that the literature uses.
const DESIGN: Design = Design {
    keys: 10,
    bits: 1_000,
    probes: 20,
    hashing: Hashing::Xxh3,
};

/// The filter of a name.
fn encode(name: &str, key: u64) -> Result<Classic> {
    let mut filter = Classic::new(DESIGN)?;
    for bigram in bigrams(name) {
        filter.insert(hash_key(key, bigram.as_bytes()))?;
    }
    Ok(filter)
}

/// Publishes so many people, whose names are drawn by frequency.
///
/// # Errors
///
/// If a filter refuses a key.
pub fn publish(
    names: &Names,
    people: u64,
    protection: Protection,
    random: &mut Random,
) -> Result<Published> {
    let key = random.next();
    let truth: Vec<usize> = (0..people).map(|_| names.draw(random)).collect();
    let mut filters = Vec::new();
    for &name in &truth {
        let key = match protection {
            Protection::None => PUBLIC,
            Protection::Key | Protection::Noise(_) => key,
            Protection::Salt(values) => hash_key(key, &random.below(values).to_le_bytes()).0,
        };
        let mut filter = encode(&names.names[name].text, key)?;
        if let Protection::Noise(bigrams) = protection {
            for _ in 0..bigrams {
                filter.insert(KeyHash(random.next()))?;
            }
        }
        filters.push(filter);
    }
    Ok(Published {
        truth,
        filters,
        protection,
    })
}

/// Records that have one name, as the attacker believes.
#[derive(Debug)]
struct Pattern {
    /// The bits that all of them have.
    core: Classic,
    records: Vec<usize>,
    /// About how many bigrams the name has.
    size: f64,
}

/// For each record a name, as a place in the list; `None` where the attacker has no guess.
pub type Guesses = Vec<Option<usize>>;

/// An attacker with the published filters and the frequencies of names.
#[derive(Debug)]
pub struct Attacker<'a> {
    names: &'a Names,
    published: &'a Published,
    /// The most frequent one first.
    patterns: Vec<Pattern>,
    /// The bigrams of each name.
    bigrams: Vec<Vec<String>>,
}

/// Standard deviation of an estimated number of bigrams: 0.16 to 0.3 for names of usual length.
const SPREAD: f64 = 0.3;
/// Patterns whose names the attacker believes to be known, and compares all others with.
const ANCHORS: usize = 20;
/// One wrong anchor must not rule out the right name: no anchor counts for more than this.
const WORST: f64 = 6.0;
/// Rounds in which the names of the anchors get better.
const ROUNDS: usize = 3;

impl<'a> Attacker<'a> {
    /// Puts records with equal filters, or nearly equal ones where there is noise, together.
    ///
    /// # Errors
    ///
    /// If filters cannot be compared.
    pub fn new(names: &'a Names, published: &'a Published) -> Result<Attacker<'a>> {
        let mut patterns = match published.protection {
            Protection::Noise(_) => similar(&published.filters, published.protection.noise())?,
            _ => equal(&published.filters),
        };
        patterns.sort_by_key(|pattern| std::cmp::Reverse(pattern.records.len()));
        Ok(Attacker {
            names,
            published,
            patterns,
            bigrams: names.names.iter().map(|name| bigrams(&name.text)).collect(),
        })
    }

    /// How many different names there seem to be.
    pub fn patterns(&self) -> u64 {
        self.patterns.len() as u64
    }

    /// Makes the filter of every name with the public hash, and compares.
    ///
    /// # Errors
    ///
    /// If a filter refuses a key.
    pub fn by_dictionary(&self) -> Result<Guesses> {
        let mut dictionary = BTreeMap::new();
        for (place, name) in self.names.names.iter().enumerate() {
            let filter = encode(&name.text, PUBLIC)?.to_bytes();
            dictionary.entry(filter).or_insert(place);
        }
        let filters = self.published.filters.iter();
        Ok(filters
            .map(|filter| dictionary.get(&filter.to_bytes()).copied())
            .collect())
    }

    /// Takes the most frequent filter for the most frequent name, and so on.
    pub fn by_frequency(&self) -> Guesses {
        let (copies, last) = (
            self.published.protection.copies(),
            self.names.names.len() - 1,
        );
        let names = (0..self.patterns.len() as u64).map(|rank| (rank / copies) as usize);
        self.guesses(&names.map(|name| name.min(last)).collect::<Vec<_>>())
    }

    /// Weighs also how many bigrams each filter holds.
    pub fn by_size(&self) -> Guesses {
        let names = self
            .patterns
            .iter()
            .map(|pattern| self.best(pattern, |_| 0.0));
        self.guesses(&names.collect::<Vec<_>>())
    }

    /// Weighs also how many bigrams each filter shares with the most frequent ones. `None` where salts
    /// differ: equal bigrams then have different bits, and nothing can be compared.
    ///
    /// # Errors
    ///
    /// If filters cannot be compared.
    pub fn by_shared_bigrams(&self) -> Result<Option<Guesses>> {
        if self.published.protection.copies() > 1 {
            return Ok(None);
        }
        let anchors = &self.patterns[..ANCHORS.min(self.patterns.len())];
        let mut measured = Vec::new();
        for pattern in &self.patterns {
            let shared = |anchor: &Pattern| pattern.core.estimate_intersection(&anchor.core);
            measured.push(
                anchors
                    .iter()
                    .map(shared)
                    .collect::<std::result::Result<Vec<f64>, _>>()?,
            );
        }
        let by_size = self
            .patterns
            .iter()
            .map(|pattern| self.best(pattern, |_| 0.0));
        let mut guesses: Vec<usize> = by_size.collect();
        for _ in 0..ROUNDS {
            // How many bigrams each name would share with each anchor, if the guesses are right.
            let expected: Vec<Vec<f64>> = self
                .bigrams
                .iter()
                .map(|name| {
                    let shared = |&anchor: &usize| common(name, &self.bigrams[anchor]);
                    guesses[..anchors.len()].iter().map(shared).collect()
                })
                .collect();
            let weigh = |(place, pattern)| {
                let measured: &Vec<f64> = &measured[place];
                self.best(pattern, |name| {
                    let pairs = measured.iter().zip(&expected[name]).enumerate();
                    pairs
                        // A pattern does not testify for itself.
                        .filter(|(anchor, _)| *anchor != place)
                        .map(|(_, (measured, expected))| penalty(measured - expected))
                        .sum()
                })
            };
            guesses = self.patterns.iter().enumerate().map(weigh).collect();
        }
        Ok(Some(self.guesses(&guesses)))
    }

    /// The most probable name of a pattern, with a further penalty for each name.
    fn best(&self, pattern: &Pattern, further: impl Fn(usize) -> f64) -> usize {
        let people = self.published.filters.len() as f64;
        let copies = self.published.protection.copies() as f64;
        let seen = pattern.records.len() as f64;
        let score = |place: usize| {
            // Poisson's law, without the part that is equal for all names.
            let mean = people * self.names.names[place].share / copies;
            let by_frequency = seen * mean.ln() - mean;
            let size = self.bigrams[place].len() as f64;
            by_frequency - penalty(pattern.size - size) - further(place)
        };
        let scores = (0..self.names.names.len()).map(|place| (place, score(place)));
        let best = scores.max_by(|a, b| a.1.total_cmp(&b.1));
        best.map_or(0, |(place, _)| place)
    }

    /// From a name for each pattern to a name for each record.
    fn guesses(&self, names: &[usize]) -> Guesses {
        let mut guesses = vec![None; self.published.filters.len()];
        for (pattern, &name) in self.patterns.iter().zip(names) {
            for &record in &pattern.records {
                guesses[record] = Some(name);
            }
        }
        guesses
    }
}

/// Minus the logarithm of how probable this error of an estimate is, up to a constant.
fn penalty(error: f64) -> f64 {
    (error * error / (2.0 * SPREAD * SPREAD)).min(WORST)
}

/// How many bigrams two names share.
fn common(a: &[String], b: &[String]) -> f64 {
    a.iter().filter(|bigram| b.contains(bigram)).count() as f64
}

fn equal(filters: &[Classic]) -> Vec<Pattern> {
    let mut patterns: BTreeMap<Vec<u8>, Pattern> = BTreeMap::new();
    for (record, filter) in filters.iter().enumerate() {
        let new = || Pattern {
            core: filter.clone(),
            records: Vec::new(),
            size: filter.estimate(),
        };
        let pattern = patterns.entry(filter.to_bytes()).or_insert_with(new);
        pattern.records.push(record);
    }
    patterns.into_values().collect()
}

/// A filter joins the first pattern that it has all bigrams of, except for noise. The bits that all
/// records of a pattern have are soon those of the name alone, as the noise of each is another.
fn similar(filters: &[Classic], noise: f64) -> Result<Vec<Pattern>> {
    let mut patterns: Vec<Pattern> = Vec::new();
    for (record, filter) in filters.iter().enumerate() {
        let size = filter.estimate() - noise;
        let mut found = None;
        for pattern in &mut patterns {
            let shared = pattern.core.estimate_intersection(filter)?;
            if shared > size.max(pattern.size) - 2.0 * SPREAD {
                found = Some(pattern);
                break;
            }
        }
        match found {
            Some(pattern) => {
                pattern.core = pattern.core.intersection(filter)?;
                pattern.size = pattern.core.estimate();
                pattern.records.push(record);
            }
            None => patterns.push(Pattern {
                core: filter.clone(),
                records: vec![record],
                size,
            }),
        }
    }
    Ok(patterns)
}

/// The best share that a guess can reach that sees no filter: the most frequent name for everybody.
pub fn blind_share(names: &Names) -> f64 {
    names.names.first().map_or(0.0, |name| name.share)
}

/// The same for a guess that sees how many bigrams each name has, and nothing else.
pub fn share_by_size(names: &Names) -> f64 {
    let mut best: BTreeMap<usize, f64> = BTreeMap::new();
    for name in &names.names {
        let best = best.entry(bigrams(&name.text).len()).or_insert(0.0);
        *best = best.max(name.share);
    }
    best.values().sum()
}
