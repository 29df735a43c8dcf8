//! The point at which a rebuild pays: the reads that it costs against the reads that false positives of
//! an over-full filter cost.
//!
//! A filter for `n` keys that holds `x n` has the rate `p(x)`. To rebuild it for all its keys costs a
//! read of each block that holds them, `x n / b` reads with `b` keys in a block, and each lookup of an
//! absent key then costs `p(x) - p(1)` reads less. So it has paid for itself after
//! `x n / (b (p(x) - p(1)))` such lookups.

use criba_filters::formulas::rate_for;
use criba_filters::{Classic, Design, Membership as _};

use crate::exit::Failure;
use crate::lab::bench::{ABSENT, Bench, Key, made};
use crate::lab::outcome::{Axes, Outcome, Quantity, Subject};
use crate::lab::sets::fill;

const PER_KEY: Quantity = Quantity::number("lookups per key until it pays");
const LOOKUPS: Quantity = Quantity::count("absent lookups until it pays");
const COST: Quantity = Quantity::count("reads of the rebuild");

/// Keys in a block: 4 KiB of entries of some 40 bytes.
const IN_BLOCK: u64 = 100;

/// The rate that filters are made for.
const RATE: f64 = 0.01;

pub(crate) fn run(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let made_for = bench.keys / 4;
    let keys = bench.present(bench.keys);
    for tenths in [12, 14, 16, 20, 25, 30, 40] {
        let times = tenths as f64 / 10.0;
        let count = (made_for as f64 * times) as usize;
        measure(bench, &mut outcome, &keys[..count], (made_for, times))?;
    }
    outcome.plot(PER_KEY, "times its size", Axes::Vertical);
    outcome.note(format!(
        "filters for a rate of {RATE}; {IN_BLOCK} keys in a block; a read of a block costs the same for a \
         rebuild and for a false positive. Where the rebuild reads in order and a false positive costs a \
         seek, it pays earlier, by the ratio of the two"
    ));
    outcome.note(
        "measured: both filters are asked for the same absent keys until the false positives of the old \
         one are ahead of those of the new one by the reads of the rebuild",
    );
    Ok(outcome)
}

fn measure(
    bench: &Bench,
    outcome: &mut Outcome,
    keys: &[Key],
    (made_for, times): (u64, f64),
) -> Result<(), Failure> {
    let count = keys.len() as u64;
    let designs = [made_for, count].map(|keys| Design::for_rate(keys, RATE));
    let [full, fresh] = designs.map(made);
    let (full, fresh) = (full?, fresh?);
    let mut old = made(Classic::new(full))?;
    fill(&mut old, keys)?;
    let mut new = made(Classic::new(fresh))?;
    fill(&mut new, keys)?;
    let cost = count.div_ceil(IN_BLOCK);

    let rates = [full, fresh].map(|design| rate_for(design.bits, design.probes, count));
    let saved = rates[0] - rates[1];
    let expected = cost as f64 / saved;
    let (mut ahead, mut asked) = (0_i64, 0_u64);
    while ahead < cost as i64 {
        let key = bench.key(ABSENT + asked);
        ahead += i64::from(old.may_contain(&key)) - i64::from(new.may_contain(&key));
        asked += 1;
    }
    // The lead is a walk: its steps have a mean, and a variance of about the sum of both rates. The rate
    // of a single filter is off by chance, and by what the formula leaves out.
    let deviation = ((rates[0] + rates[1]) / saved / cost as f64).sqrt();
    let off = 5.0 * deviation + (5.0 * spread(full, count) + 0.06) * rates[0] / saved;
    let bounds = |expected: f64| (expected * (1.0 - off).max(0.0), expected * (1.0 + off));
    let subject = Subject::new("classic")
        .with("times its size", times)
        .with("keys", count)
        .bits(old.bits() as f64, count);
    outcome.measured(&subject, COST, cost as f64);
    let lookups = (expected, asked as f64);
    outcome.compared(&subject, LOOKUPS, lookups, bounds(expected));
    let per_key = (expected / count as f64, asked as f64 / count as f64);
    outcome.compared(&subject, PER_KEY, per_key, bounds(per_key.0));
    Ok(())
}

/// The standard deviation of the rate of one filter, as a part of it: that of the share of set bits
/// (Whang, Vander-Zanden, Taylor 1990, section 4), to the power of the probes.
fn spread(design: Design, keys: u64) -> f64 {
    let (bits, probes) = (design.bits as f64, f64::from(design.probes));
    let load = probes * keys as f64 / bits;
    let clear = (-load).exp();
    let variance = bits * clear * (1.0 - (1.0 + load) * clear);
    probes * variance.sqrt() / (bits * (1.0 - clear))
}
