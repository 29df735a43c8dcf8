//! How bits are chosen: hash functions against each other, and what k and long keys cost.

use criba_filters::{Classic, Design, Hashing, Insert as _, Membership, hash_key};

use crate::exit::Failure;
use crate::lab::bench::{Bench, made};
use crate::lab::outcome::{Axes, FALSE_POSITIVES, INSERT, LOOKUP, Outcome, Quantity, Subject};
use crate::lab::sets::{fill, lookup_time, passing};

const FAMILIES: [Hashing; 4] = [
    Hashing::Xxh3,
    Hashing::Double,
    Hashing::Enhanced,
    Hashing::Blake2b,
];

/// Those that differ in cost.
const COSTS: [Hashing; 3] = [Hashing::Xxh3, Hashing::Enhanced, Hashing::Blake2b];

const BUILD: Quantity = Quantity::number("build ns");
const BUILD_PER_BIT: Quantity = Quantity::number("build ns per probe");

/// Most keys of which filters are built: the largest one has 256 MiB then.
const BUILD_KEYS_MAX: u64 = 1 << 20;

/// Most keys of an experiment in which BLAKE2b takes part.
const KEYS_MAX: u64 = 50_000;

/// The same filter with each family, for random keys and for numbers in a row.
pub(crate) fn families(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let count = bench.keys.min(KEYS_MAX);
    let random = (bench.present(count), bench.absent());
    let numbers = |from: u64| {
        (from..from + count)
            .map(u64::to_be_bytes)
            .collect::<Vec<_>>()
    };
    let numbers = (numbers(0), numbers(count));
    for hashing in FAMILIES {
        let design = made(Design::for_rate(count, 0.01))?.hashed(hashing);
        let subject = |keys: &str| Subject::new(hashing.name()).with("keys", keys);
        let mut filter = made(Classic::new(design))?;
        let insert = bench.time(count, || {
            filter = made(Classic::new(design))?;
            fill(&mut filter, &random.0)
        })?;
        let trials = &random.1[..count as usize];
        let one = subject("random").bits(filter.bits() as f64, count);
        let rates = (filter.expected_rate(), passing(&filter, trials));
        outcome.share(&one, FALSE_POSITIVES, rates, (count, 0.06));
        outcome.measured(&one, INSERT, insert);
        outcome.measured(&one, LOOKUP, lookup_time(bench, &filter, trials)?);

        let mut filter = made(Classic::new(design))?;
        let hash = |key: &[u8; 8]| hash_key(bench.seed, key);
        for key in &numbers.0 {
            made(filter.insert(hash(key)))?;
        }
        let passing = numbers
            .1
            .iter()
            .filter(|key| filter.may_contain(hash(key)))
            .count();
        let rates = (filter.expected_rate(), passing as f64 / count as f64);
        let one = subject("numbers in a row").bits(filter.bits() as f64, count);
        outcome.share(&one, FALSE_POSITIVES, rates, (count, 0.06));
    }
    outcome.bars(INSERT);
    outcome.note(
        "absent keys; most are denied by the first bits, so lookups cost less than insertions",
    );
    Ok(outcome)
}

/// Insert and lookup over the number of hash functions and the length of keys, each of which is
/// hashed once before a family derives its bits from the hash.
pub(crate) fn cost(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let count = bench.keys.min(KEYS_MAX);
    for hashing in COSTS {
        for probes in [1, 4, 7, 14] {
            for bytes in [16, 256] {
                let keys = long_keys(bench, count, bytes);
                let design = made(Design::for_bits(count, count * 20))?.hashed(hashing);
                let mut filter = made(Classic::new(Design { probes, ..design }))?;
                let insert = bench.time(count, || {
                    keys.iter().try_for_each(|key| made(filter.insert(key)))
                })?;
                let lookup = bench.time(count, || {
                    let found = keys.iter().filter(|key| filter.may_contain(*key)).count();
                    std::hint::black_box(found);
                    Ok(())
                })?;
                let subject = Subject::new(format!("{}, {bytes} bytes", hashing.name()))
                    .with("probes", probes)
                    .with("key bytes", bytes as u64);
                outcome.measured(&subject, INSERT, insert);
                outcome.measured(&subject, LOOKUP, lookup);
            }
        }
    }
    outcome.plot(LOOKUP, "probes", Axes::Vertical);
    outcome.note("lookups of keys that are there: all k bits are asked");
    Ok(outcome)
}

/// Building over the bits and the number of hash functions, from an array that fits the nearest cache to
/// one that fits none.
pub(crate) fn construction(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let count = bench.keys.min(BUILD_KEYS_MAX);
    let (keys, absent) = (bench.present(count), bench.absent());
    for bits_per_key in [2, 8, 32, 256, 2048] {
        let bits = count * bits_per_key;
        for probes in [1, 2, 4, 8, 16] {
            let design = Design {
                probes,
                ..made(Design::for_bits(count, bits))?
            };
            let mut filter = made(Classic::new(design))?;
            let build = bench.time(count, || {
                filter = made(Classic::new(design))?;
                fill(&mut filter, &keys)
            })?;
            let subject = Subject::new(format!("{bits_per_key} bits per key"))
                .with("probes", probes)
                .with("KiB", bits.div_ceil(8 << 10))
                .bits(bits as f64, count);
            outcome.measured(&subject, BUILD, build);
            outcome.measured(&subject, BUILD_PER_BIT, build / f64::from(probes));
            let rates = (filter.expected_rate(), passing(&filter, &absent));
            outcome.share(&subject, FALSE_POSITIVES, rates, (bench.keys, 0.06));
        }
    }
    outcome.plot(BUILD, "probes", Axes::Both);
    outcome.note(format!(
        "{count} keys of 16 bytes, hashed, put into a new filter; its memory is taken and cleared within \
         the time"
    ));
    Ok(outcome)
}

/// Keys of so many bytes, all different.
fn long_keys(bench: &Bench, count: u64, bytes: usize) -> Vec<Vec<u8>> {
    let one = |number| bench.key(number).into_iter().cycle().take(bytes).collect();
    (0..count).map(one).collect()
}
