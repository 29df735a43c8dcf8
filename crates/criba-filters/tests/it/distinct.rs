//! LogLog, adaptive counting and HyperLogLog: how many distinct keys there were.

use std::collections::BTreeSet;

use criba_filters::{AdaptiveCounting, HyperLogLog, LogLog, Merge, Sketch};

use super::{check_bytes, check_refused, hash};

/// Mean and root mean square of the relative errors of estimates of a number, seed by seed.
fn errors(exact: u64, trials: u64, estimate: impl Fn(u64) -> f64) -> (f64, f64) {
    let errors: Vec<f64> = (0..trials)
        .map(|seed| estimate(seed) / exact as f64 - 1.0)
        .collect();
    let trials = trials as f64;
    let mean = errors.iter().sum::<f64>() / trials;
    let squares = errors.iter().map(|error| error * error).sum::<f64>();
    (mean, (squares / trials).sqrt())
}

fn hyper(bits: u8, seed: u64, keys: u64) -> HyperLogLog {
    let mut sketch = HyperLogLog::with_index_bits(bits).unwrap();
    (0..keys).for_each(|key| sketch.insert(hash(seed, key)));
    sketch
}

fn loglog(bits: u8, seed: u64, keys: u64) -> LogLog {
    let mut sketch = LogLog::with_index_bits(bits).unwrap();
    (0..keys).for_each(|key| sketch.insert(hash(seed, key)));
    sketch
}

fn adaptive(bits: u8, seed: u64, keys: u64) -> AdaptiveCounting {
    let mut sketch = AdaptiveCounting::with_index_bits(bits).unwrap();
    (0..keys).for_each(|key| sketch.insert(hash(seed, key)));
    sketch
}

/// 60 trials know the mean to an eighth of the deviation and the deviation to a tenth of itself.
#[test]
fn hyperloglog_is_within_its_error_at_every_size() {
    for bits in [4, 6, 10, 14] {
        let registers = 1_u64 << bits;
        let stated = hyper(bits, 0, 0).standard_error();
        for keys in [
            1,
            registers / 3,
            registers,
            3 * registers,
            6 * registers,
            40 * registers,
        ] {
            let keys = keys.min(100_000);
            let (mean, deviation) = errors(keys, 60, |seed| hyper(bits, seed, keys).estimate());
            let name = format!("{bits} bits, {keys} keys: mean {mean}, deviation {deviation}");
            assert!(mean.abs() < 0.5 * stated, "{name}, stated {stated}");
            assert!(deviation < 1.4 * stated, "{name}, stated {stated}");
        }
    }
}

/// With the correction for small numbers, as the paper of 2007 has it: nearly exact where most
/// registers are zero, as good as stated where all are used, some percent off between.
#[test]
fn the_estimate_of_2007_is_corrected_for_small_numbers() {
    let stated = 1.04 / 32.0;
    for (keys, most_bias, most_deviation) in [
        (10, 0.1 * stated, 0.6 * stated),
        (300, 0.5 * stated, 1.0 * stated),
        (3000, 3.0 * stated, 3.0 * stated),
        (50_000, 0.5 * stated, 1.3 * stated),
    ] {
        let (mean, deviation) = errors(keys, 60, |seed| hyper(10, seed, keys).estimate_2007());
        let name = format!("{keys} keys: mean {mean}, deviation {deviation}");
        assert!(
            mean.abs() < most_bias && deviation < most_deviation,
            "{name}"
        );
    }
    assert_eq!(hyper(10, 1, 0).estimate_2007(), 0.0);
}

/// Durand and Flajolet 2003: 1.30 / sqrt(m), where there are enough keys.
#[test]
fn loglog_is_within_its_error_beyond_small_numbers() {
    for bits in [6, 8, 11] {
        let keys = 20 << bits;
        let stated = loglog(bits, 0, 0).standard_error();
        let (mean, deviation) = errors(keys, 60, |seed| loglog(bits, seed, keys).estimate());
        let name = format!("{bits} bits: mean {mean}, deviation {deviation}, stated {stated}");
        assert!(
            mean.abs() < 0.5 * stated && deviation < 1.3 * stated,
            "{name}"
        );
    }
    // What the module says of small numbers.
    let none = loglog(10, 1, 0).estimate() / 1024.0;
    assert!((0.39..0.40).contains(&none), "{none}");
}

/// Around the switch at about three keys per register as elsewhere.
#[test]
fn adaptive_counting_is_within_its_error_at_every_size() {
    for bits in [6, 10, 12] {
        let registers = 1_u64 << bits;
        let stated = adaptive(bits, 0, 0).standard_error();
        assert!((stated * (registers as f64).sqrt() - 1.33).abs() < 1e-9);
        for tenths in [1, 3, 10, 20, 25, 29, 31, 35, 50, 200] {
            let keys = registers * tenths / 10;
            let (mean, deviation) = errors(keys, 60, |seed| adaptive(bits, seed, keys).estimate());
            let name = format!("{bits} bits, {keys} keys: mean {mean}, deviation {deviation}");
            assert!(mean.abs() < 0.5 * stated, "{name}, stated {stated}");
            assert!(deviation < 1.4 * stated, "{name}, stated {stated}");
        }
    }
    assert_eq!(adaptive(10, 1, 0).estimate(), 0.0);
}

/// Linear counting as a set of register numbers has it, up to the share of the paper; beyond, the
/// number of LogLog itself.
#[test]
fn adaptive_counting_switches_where_the_paper_does() {
    let registers = 4096.0;
    let (mut sketch, mut plain) = (adaptive(12, 3, 0), loglog(12, 3, 0));
    let mut used = BTreeSet::new();
    let (mut linear, mut geometric) = (0, 0);
    for key in 0..16_000 {
        let hash = hash(3, key);
        sketch.insert(hash);
        plain.insert(hash);
        used.insert(hash.0 >> 52);
        let empty = registers - used.len() as f64;
        if empty / registers > 0.051 {
            let expected = registers * (registers / empty).ln();
            assert!((sketch.estimate() - expected).abs() < 1e-6, "{key}");
            linear += 1;
        } else {
            assert_eq!(sketch.estimate(), plain.estimate(), "{key}");
            geometric += 1;
        }
    }
    assert!(
        (11_500..13_000).contains(&linear) && geometric > 3000,
        "{linear} {geometric}"
    );
}

#[test]
fn merging_and_repetition_change_nothing() {
    for keys in [0, 1, 15, 200, 20_000] {
        let (mut one, mut other) = (hyper(9, 5, keys), HyperLogLog::with_index_bits(9).unwrap());
        let (mut first, mut second) = (loglog(9, 5, keys), LogLog::with_index_bits(9).unwrap());
        let (whole, whole_loglog) = (hyper(9, 5, 2 * keys), loglog(9, 5, 2 * keys));
        let (mut left, mut right) = (
            adaptive(9, 5, keys),
            AdaptiveCounting::with_index_bits(9).unwrap(),
        );
        for key in (keys / 2..2 * keys).chain(keys / 2..keys) {
            other.insert(hash(5, key));
            second.insert(hash(5, key));
            right.insert(hash(5, key));
        }
        one.merge(&other).unwrap();
        first.merge(&second).unwrap();
        left.merge(&right).unwrap();
        assert_eq!((one, first), (whole.clone(), whole_loglog.clone()));
        assert_eq!(left, adaptive(9, 5, 2 * keys));
        assert_eq!(whole.is_empty(), keys == 0);
        check_bytes(&whole, HyperLogLog::to_bytes, HyperLogLog::from_bytes);
        check_bytes(&whole_loglog, LogLog::to_bytes, LogLog::from_bytes);
        check_bytes(
            &left,
            AdaptiveCounting::to_bytes,
            AdaptiveCounting::from_bytes,
        );
        assert!(LogLog::from_bytes(&left.to_bytes()).is_err());
    }
}

/// A list of registers until that would be larger, and never more than a byte for each.
#[test]
fn memory_grows_with_the_number_up_to_a_bound() {
    let bytes = [0, 100, 1000, 100_000].map(|keys| hyper(12, 1, keys).to_bytes().len());
    assert_eq!((bytes[0], bytes[3]), (26, 26 + 4096));
    assert!(
        bytes[1] <= 26 + 300 && bytes[2] <= 26 + 3000 && bytes[2] > 26 + 2400,
        "{bytes:?}"
    );
    assert!(hyper(12, 1, 100_000).memory_bytes() < 4096 + 64);
}

#[test]
fn sketches_of_other_sizes_are_refused() {
    assert_eq!(HyperLogLog::with_error(0.02).unwrap().registers(), 4096);
    assert_eq!(LogLog::with_error(0.02).unwrap().registers(), 8192);
    check_refused(hyper(9, 1, 5).merge(&hyper(10, 1, 5)));
    check_refused(loglog(9, 1, 5).merge(&loglog(10, 1, 5)));
    check_refused(adaptive(9, 1, 5).merge(&adaptive(10, 1, 5)));
    assert_eq!(
        AdaptiveCounting::with_error(0.0208).unwrap().registers(),
        4096
    );
    for bits in [0, 3, 17, 255] {
        check_refused(HyperLogLog::with_index_bits(bits));
        check_refused(LogLog::with_index_bits(bits));
    }
    for error in [0.0, -0.1, 1.0, 0.0001, f64::NAN] {
        check_refused(HyperLogLog::with_error(error));
        check_refused(LogLog::with_error(error));
    }
}
