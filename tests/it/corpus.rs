//! Replays what the fuzzers of `fuzz/` have found, and their seeds, through the same checks.

use std::path::{Path, PathBuf};

use crate::decoders::{TARGETS, seeds};

/// Where inputs of a target are kept, one file each.
fn directory(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(target)
}

fn kept(target: &str) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(directory(target)) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

#[test]
fn kept_inputs_are_read_or_refused() {
    for (name, target) in TARGETS {
        let inputs = kept(name);
        assert!(!inputs.is_empty(), "{name} has no corpus");
        inputs.iter().for_each(|input| target(input));
    }
}

/// Every seed, whole, cut, and with single bytes changed.
#[test]
fn inputs_near_the_seeds_are_read_or_refused() {
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name} has no seed");
        for seed in seeds {
            target(&seed);
            for at in (0..seed.len()).step_by(seed.len().div_ceil(40).max(1)) {
                target(&seed[..at]);
                for change in [0xff, 0x01, 0x80] {
                    let mut changed = seed.clone();
                    changed[at] ^= change;
                    target(&changed);
                }
            }
        }
    }
}

/// Seeds with random bytes changed, put in or left out. `CRIBA_MUTATIONS=100000` tries so many for
/// each target, `CRIBA_MUTATED=range` only those of one: a fuzzer without coverage, on stable.
#[test]
fn mutated_seeds_are_read_or_refused() {
    let count = std::env::var("CRIBA_MUTATIONS").map_or(20, |count| count.parse().unwrap());
    let only = std::env::var("CRIBA_MUTATED").ok();
    let chosen = |name: &str| only.as_ref().is_none_or(|only| only == name);
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for (name, target) in TARGETS.into_iter().filter(|(name, _)| chosen(name)) {
        let seeds = [seeds(name), kept(name)].concat();
        for _ in 0..count {
            let mut input = seeds[random(seeds.len())].clone();
            for _ in 0..=random(6) {
                let at = random(input.len() + 1);
                match random(4) {
                    0 => input.insert(at, random(256) as u8),
                    1 if at < input.len() => drop(input.remove(at)),
                    2 if at < input.len() => input[at] ^= 1 << random(8),
                    _ if at < input.len() => input[at] = random(256) as u8,
                    _ => {}
                }
            }
            target(&input);
        }
    }
}
