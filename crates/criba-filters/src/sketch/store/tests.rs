use std::collections::HashSet;

use super::overlap::common;
use super::*;

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *state;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The hash of key number `n` in the world of this seed.
fn hash(seed: u64, n: u64) -> KeyHash {
    let mut state = seed.wrapping_mul(0x1234_5678_9abc_def1) ^ n;
    splitmix(&mut state);
    KeyHash(splitmix(&mut state))
}

fn sketch(seed: u64, keys: impl Iterator<Item = u64>) -> KeySketch {
    let mut sketch = KeySketch::default();
    keys.for_each(|n| sketch.insert(hash(seed, n)));
    sketch
}

/// Mean and root mean square of the relative errors of some trials, the seeds of which are told.
fn errors(trials: u64, trial: impl Fn(u64) -> (f64, f64)) -> (f64, f64) {
    let errors: Vec<f64> = (0..trials)
        .map(|seed| {
            let (estimate, exact) = trial(seed);
            estimate / exact - 1.0
        })
        .collect();
    let mean_of = |f: &dyn Fn(f64) -> f64| errors.iter().map(|e| f(*e)).sum::<f64>();
    let trials = trials as f64;
    let mean = mean_of(&|e| e) / trials;
    (mean, (mean_of(&|e| e * e) / trials).sqrt())
}

/// Random keys below `below`, and their sketch.
fn draw(seed: u64, stream: u64, count: u64, below: u64) -> (HashSet<u64>, Set) {
    let mut state = seed << 20 ^ stream << 50;
    let keys: HashSet<u64> = (0..count).map(|_| splitmix(&mut state) % below).collect();
    let set = Set {
        sketch: sketch(seed, keys.iter().copied()),
        count: keys.len() as f64,
    };
    (keys, set)
}

#[test]
fn ranks_are_positions_of_the_first_one() {
    assert_eq!(place(KeyHash(u64::MAX)), (4095, 1));
    assert_eq!(place(KeyHash(0)), (0, RANK_MAX));
    assert_eq!(place(KeyHash(1)), (0, RANK_MAX - 1));
    assert_eq!(place(KeyHash(0x1230_0000_0000_0000)), (0x123, RANK_MAX));
    assert_eq!(place(KeyHash(0x1231_0000_0000_0000)), (0x123, 4));
}

/// Standard deviation 1.04 / 64 = 1.6 %; less while most registers are zero. The mean of 100
/// trials is known to 0.16 %: three times that is no bias.
#[test]
fn one_sketch_is_within_its_bounds_at_every_size() {
    for size in [
        1, 2, 10, 100, 1000, 3000, 5000, 10_000, 20_000, 100_000, 300_000,
    ] {
        let (mean, deviation) = errors(100, |seed| (sketch(seed, 0..size).estimate(), size as f64));
        assert!(mean.abs() < 0.005, "{size}: mean {mean}");
        assert!(deviation < 0.020, "{size}: deviation {deviation}");
    }
    assert_eq!(KeySketch::default().estimate(), 0.0);
}

/// See [`Union`]: the formula there, and never more than it by a fifth.
#[test]
fn two_overlapping_sets() {
    for (a, b, both) in [
        (50_000_u64, 50_000_u64, 0_u64),
        (50_000, 50_000, 25_000),
        (50_000, 50_000, 50_000),
        (100_000, 50_000, 50_000),
        (100_000, 10_000, 0),
        (100_000, 10_000, 5000),
        (100_000, 100, 50),
        (500, 300, 100),
        (20, 20, 10),
    ] {
        let union = a + b - both;
        let (mean, deviation) = errors(60, |seed| {
            let left = sketch(seed, 0..a);
            let right = sketch(seed, a - both..union);
            let common = common((&left, a as f64), (&right, b as f64));
            (a as f64 + b as f64 - common, union as f64)
        });
        let stated = ((a.min(b) - both) as f64 / union as f64).sqrt() / 64.0;
        let name = format!("{a} {b} {both}: mean {mean}, deviation {deviation}, stated {stated}");
        assert!(deviation < 1.2 * stated + 1e-4, "{name}");
        assert!(mean.abs() < 0.5 * stated + 1e-4, "{name}");
    }
}

/// Runs of one size, of keys that are all different, or half of which come again: better than
/// the sketch of the union alone, and within 3 % at three times the deviation.
#[test]
fn many_runs() {
    for (runs, each, below) in [
        (8, 20_000, u64::MAX),
        (8, 20_000, 100_000),
        (20, 10_000, u64::MAX),
        (20, 10_000, 100_000),
        (2, 100_000, 150_000),
        (40, 100, 2000),
    ] {
        let trial = |seed| {
            let (mut union, mut all) = (Union::default(), HashSet::new());
            let mut whole = KeySketch::default();
            for run in 0..runs {
                let (keys, set) = draw(seed, run, each, below);
                let new = union.count_new(&set);
                union.add(&set, new);
                whole.merge(&set.sketch);
                all.extend(keys);
            }
            (union.count(), whole.estimate(), all.len() as f64)
        };
        let trials: Vec<_> = (0..60).map(trial).collect();
        let at = |seed: u64| trials[seed as usize];
        let (mean, deviation) = errors(60, |seed| (at(seed).0, at(seed).2));
        let (_, alone) = errors(60, |seed| (at(seed).1, at(seed).2));
        let name = format!("{runs} x {each} below {below}: {mean} {deviation}, alone {alone}");
        assert!(deviation < 0.0125 && deviation < alone, "{name}");
        assert!(mean.abs() < 0.01, "{name}");
    }
}

#[test]
fn merging_is_adding_all() {
    let mut state = 7;
    for (left, right) in [
        (0, 5),
        (5, 0),
        (600, 600),
        (50, 9000),
        (9000, 50),
        (9000, 9000),
    ] {
        let from = splitmix(&mut state);
        let mut merged = sketch(1, from..from + left);
        merged.merge(&sketch(1, from + left / 2..from + left / 2 + right));
        let end = (left / 2 + right).max(left);
        assert_eq!(merged, sketch(1, from..from + end), "{left} {right}");
    }
}

#[test]
fn an_atomic_sketch_is_the_same() {
    for size in [0, 1, 1000, 1100, 50_000] {
        let atomic = AtomicSketch::default();
        (0..size).for_each(|n| atomic.insert(hash(3, n)));
        assert_eq!(atomic.load(), sketch(3, 0..size), "{size}");
    }
}

#[test]
fn bytes_round_trip_in_the_smaller_form() {
    for size in [0, 1, 2, 100, 1000, 1170, 1200, 5000, 100_000] {
        let sketch = sketch(5, 0..size);
        let bytes = sketch.to_bytes();
        let used = sketch.dense().iter().filter(|rank| **rank > 0).count();
        assert_eq!(bytes.len(), 2 + (3 * used).min(3072), "{size}");
        assert_eq!(KeySketch::from_bytes(&bytes), Ok(sketch));
    }
}

/// The example of `docs/format.md`.
#[test]
fn bytes_are_those_of_the_format() {
    let mut sketch = KeySketch::default();
    sketch.insert(KeyHash(0x1231_0000_0000_0000));
    sketch.insert(KeyHash(u64::MAX));
    assert_eq!(sketch.to_bytes(), [1, 0, 0x23, 0x41, 0, 0xff, 0x1f, 0]);
}

#[test]
fn foreign_bytes_are_a_sketch_or_nothing() {
    let mut state = 11;
    for size in [0, 1, 3, 700, 30_000] {
        let bytes = sketch(5, 0..size).to_bytes();
        for cut in (0..bytes.len()).step_by(1 + bytes.len() / 200) {
            // A list that is cut between two registers is one.
            let found = KeySketch::from_bytes(&bytes[..cut]);
            assert!(
                found.is_err() || (bytes[1] == 0 && cut % 3 == 2),
                "{size} {cut}"
            );
        }
        for _ in 0..2000 {
            let mut damaged = bytes.clone();
            let at = splitmix(&mut state) as usize % damaged.len();
            damaged[at] ^= 1 << (splitmix(&mut state) % 8);
            if let Ok(sketch) = KeySketch::from_bytes(&damaged) {
                assert_eq!(sketch.to_bytes(), damaged, "one form for one sketch");
                assert!(sketch.estimate().is_finite());
                common(
                    (&sketch, 1e6),
                    (&KeySketch::from_bytes(&bytes).unwrap(), 10.0),
                );
            }
        }
    }
    for len in [0, 1, 2, 5, 3074] {
        let bytes: Vec<u8> = (0..len).map(|_| splitmix(&mut state) as u8).collect();
        assert!(KeySketch::from_bytes(&bytes).is_err() || bytes.len() > 1);
    }
    let full: Vec<u8> = (0..4096_u32)
        .flat_map(|n| (n | 53 << 12).to_le_bytes()[..3].to_vec())
        .collect();
    assert!(KeySketch::from_bytes(&[&[1, 0][..], &full].concat()).is_err());
}

/// Sizes that do not belong to the sketches: a number within bounds all the same.
#[test]
fn sizes_may_be_wrong() {
    let (small, large) = (sketch(1, 0..100), sketch(1, 50..50_000));
    for (a, b) in [
        (0.0, 5.0),
        (1.0, 1.0),
        (1e12, 1e3),
        (1e18, 1e18),
        (3.5, 1e18),
    ] {
        let common = common((&small, a), (&large, b));
        assert!((0.0..=a.min(b)).contains(&common), "{a} {b}: {common}");
    }
}
