//! Keys made by someone who wants to harm: for a hash whose seed is known they can be made at
//! will, for the secret seed of a store they are keys like any others.

use criba_filters::segment::{
    Answer, BloomierBits, Build, Built, Filter, FilterSpec, Lookup, Place, build,
};
use criba_filters::{KeyHash, hash_key};

/// From the constants of XXH3, as `specification/xxhash_spec.md` of xxHash has them: what keys of
/// 9 to 16 bytes are mixed with, before the seed.
const LOW_FLIP: u64 = 0x1f67_b3b7_a4a4_4072 ^ 0x78e5_c0cc_4ee6_79cb;
const HIGH_FLIP: u64 = 0x2172_ffcc_7dd0_5a82 ^ 0x8e24_43f7_7446_08b8;

const KNOWN: u64 = 0x0123_4567_89ab_cdef;
const SECRET: u64 = 0xfeed_5eed_0bad_cafe;

/// A key of 16 bytes is hashed as `swap(low) + high + fold(low * high)`: where one half is 0 for
/// this seed, the product is, too.
fn key_of_halves(seed: u64, low: u64, high: u64) -> [u8; 16] {
    let low = low ^ LOW_FLIP.wrapping_add(seed);
    let high = high ^ HIGH_FLIP.wrapping_sub(seed);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&low.to_le_bytes());
    key[8..].copy_from_slice(&high.to_le_bytes());
    key
}

/// Two keys with the same hash under the known seed.
fn pair(n: u64) -> ([u8; 16], [u8; 16]) {
    let x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let one = key_of_halves(KNOWN, 0, x);
    let other = key_of_halves(KNOWN, x.swap_bytes(), 0);
    (one, other)
}

const COUNT: u64 = 10_000;

/// A filter that holds the first key of each pair; with this seed of the hash.
fn filter(seed: u64, spec: FilterSpec) -> Built {
    let hashes: Vec<KeyHash> = (1..=COUNT).map(|n| hash_key(seed, &pair(n).0)).collect();
    let place = |n: u64| Place {
        block: (n / 40) as u32,
        slot: (n % 40 / 4) as u16,
    };
    let places: Vec<Place> = (0..COUNT).map(place).collect();
    build(&Build {
        spec,
        salt: 7,
        hashes: &hashes,
        places: &places,
        block_count: COUNT.div_ceil(40) as u32,
        max_slot: 9,
    })
}

/// How many keys the filter lets pass; a Bloomier filter: how many it takes for the key of their
/// pair that is there.
fn passed(built: &Built, seed: u64, key_of: impl Fn(u64) -> [u8; 16]) -> u64 {
    let filter = Filter::parse(built.kind, &built.header, built.body.len() as u64).unwrap();
    let passes = |n: &u64| {
        let answer = |key: &[u8]| match filter.locate(hash_key(seed, key)) {
            Lookup::Answered(answer) => answer,
            Lookup::Window(window) => {
                let words = window.words();
                filter.answer(
                    &window,
                    &built.body[words.start as usize..words.end as usize],
                )
            }
        };
        let found = answer(&key_of(*n));
        found == Answer::Maybe || found != Answer::No && found == answer(&pair(*n).0)
    };
    (1..=COUNT).filter(passes).count() as u64
}

#[test]
fn keys_crafted_for_one_seed_do_not_collide_under_another() {
    let equal = |seed: u64| {
        let hashes = |n: &u64| {
            let (one, other) = pair(*n);
            assert_ne!(one, other);
            hash_key(seed, &one) == hash_key(seed, &other)
        };
        (1..=COUNT).filter(hashes).count() as u64
    };
    assert_eq!(equal(KNOWN), COUNT, "every pair collides");
    assert_eq!(equal(SECRET), 0);
}

#[test]
fn filters_of_another_seed_are_not_polluted() {
    let bloom = FilterSpec::Bloom { bits_per_key: 10.0 };
    let slot = FilterSpec::Bloomier(BloomierBits::Slot);
    for (spec, most) in [(bloom, COUNT / 50), (slot, COUNT / 500)] {
        let victim = filter(KNOWN, spec);
        let crafted = passed(&victim, KNOWN, |n| pair(n).1);
        assert_eq!(crafted, COUNT, "{spec:?}: every crafted key is let through");
        let secret = filter(SECRET, spec);
        let crafted = passed(&secret, SECRET, |n| pair(n).1);
        assert!(crafted < most, "{spec:?}: {crafted} are let through");
        assert_eq!(passed(&secret, SECRET, |n| pair(n).0), COUNT);
    }
}

/// Equal hashes, however many, are stored all the same.
#[test]
fn a_filter_of_crafted_keys_is_built_and_hides_none() {
    let (one, other) = pair(1);
    let hashes: Vec<KeyHash> = (1..=COUNT)
        .flat_map(|n| [pair(n).0, pair(n).1])
        .chain([one, other])
        .map(|key| hash_key(KNOWN, &key))
        .collect();
    let places = vec![Place { block: 0, slot: 0 }; hashes.len()];
    let built = build(&Build {
        spec: FilterSpec::Bloomier(BloomierBits::Slot),
        salt: 7,
        hashes: &hashes,
        places: &places,
        block_count: 1,
        max_slot: 0,
    });
    assert!(built.equal_hashes);
    assert_eq!(passed(&built, KNOWN, |n| pair(n).0), COUNT);
    assert_eq!(passed(&built, KNOWN, |n| pair(n).1), COUNT);
}
