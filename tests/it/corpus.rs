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
