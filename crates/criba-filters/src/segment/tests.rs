//! Tests of the whole family through its public interface: every key found, rates and sizes as
//! promised, damage without harm. Seeds are fixed; nothing here depends on time.

use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use proptest::test_runner::Config;

use super::{
    Answer, Begun, BloomierBits, Build, Built, Filter, FilterKind, FilterSpec, KeyHash, Lookup,
    Place, Words, build,
};
use crate::hash_key;

const SIZES: [u64; 14] = [
    0, 1, 2, 3, 10, 63, 64, 65, 127, 128, 129, 1000, 10_000, 100_000,
];

/// Keys in blocks of 20 and slots of 4, as a segment writer would number them.
struct Keys {
    hashes: Vec<KeyHash>,
    places: Vec<Place>,
    block_count: u32,
    max_slot: u16,
}

const BLOCK_KEYS: u64 = 20;
const SLOT_KEYS: u64 = 4;

impl Keys {
    fn new(count: u64) -> Self {
        Self::with_hashes((0..count).map(present).collect())
    }

    fn with_hashes(hashes: Vec<KeyHash>) -> Self {
        let place = |i: u64| Place {
            block: (i / BLOCK_KEYS) as u32,
            slot: (i % BLOCK_KEYS / SLOT_KEYS) as u16,
        };
        let places: Vec<Place> = (0..hashes.len() as u64).map(place).collect();
        let block_count = places.last().map_or(0, |last| last.block + 1);
        let max_slot = places.iter().map(|place| place.slot).max().unwrap_or(0);
        Self {
            hashes,
            places,
            block_count,
            max_slot,
        }
    }

    fn build(&self, spec: FilterSpec, salt: u64) -> Probe {
        let built = build(&Build {
            spec,
            salt,
            hashes: &self.hashes,
            places: &self.places,
            block_count: self.block_count,
            max_slot: self.max_slot,
        });
        Probe::new(built)
    }
}

fn present(i: u64) -> KeyHash {
    hash_key(11, &i.to_le_bytes())
}

fn absent(i: u64) -> KeyHash {
    hash_key(12, &i.to_le_bytes())
}

/// A filter with its body in memory.
struct Probe {
    built: Built,
    filter: Filter,
}

impl Probe {
    fn new(built: Built) -> Self {
        let words = built.body.len() as u64;
        let filter = Filter::parse(built.kind, &built.header, words).unwrap();
        assert_eq!(filter.kind(), built.kind);
        assert!((filter.designed_rate() - built.designed_rate).abs() < 1e-12);
        Self { built, filter }
    }

    fn ask(&self, hash: KeyHash) -> Answer {
        let answer = self.ask_in_two_steps(hash);
        assert_eq!(self.filter.ask(hash, &self.built.body), answer);
        answer
    }

    fn ask_in_two_steps(&self, hash: KeyHash) -> Answer {
        match self.filter.locate(hash) {
            Lookup::Answered(answer) => answer,
            Lookup::Window(window) => {
                let words = window.words();
                let words = &self.built.body[words.start as usize..words.end as usize];
                self.filter.answer(&window, words)
            }
        }
    }

    /// Checks the answer for a key that is there.
    fn check_present(&self, hash: KeyHash, place: Place, slot_stored: bool) {
        match self.ask(hash) {
            Answer::No => panic!("{hash:?} is denied"),
            Answer::Maybe => assert_eq!(self.built.kind, FilterKind::Bloom),
            Answer::At(at) => {
                assert_eq!(at.block, known_bits(place.block, at.unknown_bits));
                assert_eq!(at.slot, slot_stored.then_some(place.slot));
                let complete = self.filter.block_ordinal_complete();
                assert!(!complete || at.block == place.block);
            }
        }
    }

    fn check_all(&self, keys: &Keys, slot_stored: bool) {
        for (&hash, &place) in keys.hashes.iter().zip(&keys.places) {
            self.check_present(hash, place, slot_stored);
        }
    }

    /// Absent keys of `count` that pass, where the fences around the `i`-th one are those of block
    /// `i` modulo the number of blocks.
    fn passes(&self, count: u64, block_count: u32) -> u64 {
        let passes = |i: &u64| match self.ask(absent(*i)) {
            Answer::No => false,
            Answer::Maybe => true,
            Answer::At(at) => {
                let block = (i % u64::from(block_count)) as u32;
                at.block == known_bits(block, at.unknown_bits)
            }
        };
        (0..count).filter(passes).count() as u64
    }

    /// Checks that so many passes are within six standard deviations of the designed rate, plus a
    /// relative error of the model.
    fn check_rate(&self, count: u64, block_count: u32, model_error: f64) {
        let measured = self.passes(count, block_count) as f64;
        let expected = self.built.designed_rate * count as f64;
        let bound = 6.0 * expected.sqrt() + 3.0 + model_error * expected;
        assert!(
            (measured - expected).abs() <= bound,
            "{measured} of {count}, not {expected}"
        );
    }

    fn bits(&self) -> f64 {
        (self.built.header.len() * 8 + self.built.body.len() * 64) as f64
    }
}

/// All but so many low bits, of which there may be 31.
fn known_bits(number: u32, unknown: u8) -> u32 {
    number >> unknown << unknown
}

fn bloom(bits_per_key: f64) -> FilterSpec {
    FilterSpec::Bloom { bits_per_key }
}

fn bloomier(bits_per_key: f64) -> FilterSpec {
    FilterSpec::Bloomier(BloomierBits::BitsPerKey(bits_per_key))
}

fn rejecting(bits_per_key: f64) -> FilterSpec {
    FilterSpec::Bloomier(BloomierBits::Rejecting(bits_per_key))
}

const BLOCK: FilterSpec = FilterSpec::Bloomier(BloomierBits::Block);
const SLOT: FilterSpec = FilterSpec::Bloomier(BloomierBits::Slot);

#[test]
fn every_key_is_found_at_every_size() {
    for count in SIZES {
        let keys = Keys::new(count);
        keys.build(bloom(10.0), count).check_all(&keys, false);
        keys.build(BLOCK, count).check_all(&keys, false);
        keys.build(SLOT, count).check_all(&keys, true);
        keys.build(bloomier(1.0), count)
            .check_all(&keys, keys.max_slot == 0 && count <= 20);
        keys.build(bloomier(40.7), count).check_all(&keys, true);
        keys.build(rejecting(40.7), count).check_all(&keys, false);
        keys.build(bloomier(64.0), count).check_all(&keys, true);
    }
}

#[test]
fn two_million_keys_are_found_by_bloom() {
    let keys = Keys::new(2_000_000);
    let probe = keys.build(bloom(10.0), 5);
    probe.check_all(&keys, false);
    probe.check_rate(500_000, keys.block_count, 0.03);
}

#[test]
fn two_million_keys_are_found_by_bloomier() {
    let keys = Keys::new(2_000_000);
    let probe = keys.build(BLOCK, 5);
    probe.check_all(&keys, false);
    assert!(probe.bits() / (2e6 * 17.0) < 1.02);
    probe.check_rate(500_000, keys.block_count, 0.0);
}

#[test]
fn no_key_is_in_an_empty_filter() {
    for spec in [bloom(10.0), BLOCK, SLOT, bloomier(3.5)] {
        let probe = Keys::new(0).build(spec, 1);
        assert!(probe.built.body.is_empty());
        assert_eq!(probe.filter.key_count(), 0);
        assert!((0..1000).all(|i| probe.ask(absent(i)) == Answer::No));
        assert!(probe.built.designed_rate.abs() < f64::EPSILON);
    }
}

/// Of entries with one hash the first place is kept, and the pair is reported where places are told.
#[test]
fn equal_hashes_keep_the_first_place() {
    for (count, distinct) in [(2, 1), (50, 1), (5000, 1), (3000, 1000), (100_000, 99_999)] {
        let hashes: Vec<KeyHash> = (0..count).map(|i| present(i % distinct)).collect();
        let keys = Keys::with_hashes(hashes);
        for spec in [bloom(9.0), BLOCK, SLOT, bloomier(30.3)] {
            let probe = keys.build(spec, 3);
            let tells_places = probe.built.kind == FilterKind::Bloomier;
            assert_eq!(probe.built.equal_hashes, tells_places);
            for i in 0..distinct as usize {
                let stored = spec != BLOCK;
                probe.check_present(keys.hashes[i], keys.places[i], stored);
            }
        }
    }
    assert!(!Keys::new(1000).build(SLOT, 3).built.equal_hashes);
    assert!(!Keys::new(1000).build(bloom(9.0), 3).built.equal_hashes);
}

/// Places outside the counts given are still found: the counts follow.
#[test]
fn places_beyond_the_counts_are_found() {
    let mut keys = Keys::new(500);
    keys.block_count = 1;
    keys.max_slot = 0;
    keys.build(SLOT, 1).check_all(&keys, true);
    let far = Place {
        block: u32::MAX - 1,
        slot: u16::MAX,
    };
    keys.places.fill(far);
    keys.build(SLOT, 1).check_all(&keys, true);
    keys.build(bloomier(64.0), 1).check_all(&keys, true);
}

/// Hashes chosen with knowledge of the salt, so that all keys start at the same slot of the first
/// layers: larger, not wrong.
#[test]
fn crowded_hashes_are_stored_all_the_same() {
    let crowd = |i: u64| crate::hash::unmix(i, 9);
    let keys = Keys::with_hashes((0..20_000).map(crowd).collect());
    keys.build(SLOT, 9).check_all(&keys, true);
    keys.build(bloom(10.0), 9).check_all(&keys, false);
}

/// Dense layers with a crowd in a few buckets anywhere, above all where the two runs of buckets meet:
/// equations run far and rows are taken out again.
#[test]
fn a_crowd_anywhere_does_no_harm() {
    let uniform = |i: u64| crate::hash::mix(KeyHash(i), 1);
    for part in 0..16 {
        let crowd = |i: u64| uniform(i) >> 7 | part << 60;
        for crowd_share in [3, 10, 50] {
            let mixed = (0..12_000).map(|i| {
                if i % crowd_share == 0 {
                    crowd(i)
                } else {
                    uniform(i)
                }
            });
            let hashes = mixed.map(|mixed| crate::hash::unmix(mixed, 9));
            let keys = Keys::with_hashes(hashes.collect());
            keys.build(SLOT, 9).check_all(&keys, true);
        }
    }
}

#[test]
fn bloom_rate_is_as_designed() {
    for bits in [1.0, 4.0, 6.0, 8.0, 10.0, 10.5, 12.3, 16.0, 20.0] {
        let keys = Keys::new(200_000);
        let probe = keys.build(bloom(bits), 77);
        probe.check_rate(1_000_000, keys.block_count, 0.03);
        let spent = probe.bits() / 200_000.0;
        assert!((bits..bits + 0.01).contains(&spent), "{spent} bits per key");
        assert!((probe.filter.r_bits() - bits).abs() < 0.01);
    }
    let ten = Keys::new(200_000).build(bloom(10.0), 78);
    let rate = ten.passes(1_000_000, 1) as f64 / 1e6;
    assert!(rate < 1.15 * 0.0095, "{rate}");
}

#[test]
fn bloomier_rate_is_as_designed() {
    for (count, spec) in [
        (3, BLOCK),
        (20, BLOCK),
        (20, SLOT),
        (100, bloomier(7.0)),
        (1000, BLOCK),
        (1000, SLOT),
        (1000, bloomier(10.3)),
        (20_000, BLOCK),
        (20_000, SLOT),
        (20_000, bloomier(1.0)),
        (20_000, bloomier(3.5)),
        (20_000, bloomier(8.5)),
        (20_000, bloomier(9.9)),
        (20_000, bloomier(10.3)),
        (20_000, bloomier(13.0)),
        (1000, rejecting(9.5)),
        (20_000, rejecting(13.0)),
    ] {
        let keys = Keys::new(count);
        for salt in 0..4 {
            // Tiny ribbons have few random bits of their own, so their rates scatter more.
            let model_error = if count < 1000 { 0.5 } else { 0.01 };
            keys.build(spec, salt)
                .check_rate(250_000, keys.block_count, model_error);
        }
    }
}

/// Bug: a segment of 512 KiB ends with a few keys in block 128. All others have 0 in the highest bit
/// of their ordinal, and so had the solution up to the first of these few: it did not reject there.
/// With 15,625 expected, six standard deviations are 5 %.
#[test]
fn a_bit_that_few_keys_have_rejects_like_any_other() {
    let mut keys = Keys::new(128 * 98 + 2);
    for (i, place) in (0..).zip(&mut keys.places) {
        place.block = i / 98;
    }
    keys.block_count = 129;
    let passes = |salt| {
        let probe = keys.build(BLOCK, salt);
        assert!((probe.built.designed_rate * 256.0 - 1.0).abs() < 1e-6);
        probe.passes(250_000, keys.block_count) as f64
    };
    let measured: f64 = (0..16).map(passes).sum();
    let expected = 16.0 * 250_000.0 / 256.0;
    let bound = 6.0 * f64::sqrt(expected);
    assert!(
        (measured - expected).abs() < bound,
        "{measured}, not {expected}"
    );
}

/// The rates that the design page promises for whole numbers of bits.
#[test]
fn designed_rate_follows_from_the_bits() {
    fn check(spec: FilterSpec, expected: f64) {
        // 1000 blocks: 10 bits; 5 slots of 8: 3 bits.
        let rate = Keys::new(20_000).build(spec, 1).built.designed_rate;
        assert!(
            (rate / expected - 1.0).abs() < 0.01,
            "{spec:?}: {rate}, not {expected}"
        );
    }
    check(BLOCK, 1.0 / 1024.0);
    check(SLOT, 1.0 / 1024.0 * 0.625);
    check(bloomier(4.0), 1.0 / 16.0);
    check(bloomier(4.5), 0.75 / 16.0);
    check(bloomier(12.0), 1.0 / 4096.0);
    check(bloomier(13.0), 1.0 / 1024.0 * 0.625);
    check(bloomier(15.0), 1.0 / 4096.0 * 0.625);
    check(rejecting(9.0), 1.0 / 512.0);
    check(rejecting(13.0), 1.0 / 8192.0);
    check(rejecting(15.5), 0.75 / 32768.0);
}

/// Header and body together, against the bits of the values alone.
#[test]
fn space_is_as_promised() {
    fn check(count: u64, bits: f64, ratio_max: f64) {
        let salts = 4;
        let keys = Keys::new(count);
        let spent: f64 = (0..salts)
            .map(|salt| keys.build(bloomier(bits), salt).bits())
            .sum();
        let ratio = spent / (count * salts) as f64 / bits;
        assert!(ratio <= ratio_max, "{count} keys, {bits} bits: {ratio}");
    }
    for bits in [8.0, 14.0, 17.0] {
        check(1000, bits, 1.10);
        check(10_000, bits, 1.03);
        check(100_000, bits, 1.01);
    }
    check(1_000_000, 10.0, 1.007);
    check(10_000, 1.0, 1.09);
    check(10_000, 8.5, 1.03);
    check(10_000, 10.3, 1.03);
    check(100_000, 8.5, 1.01);
    check(100_000, 10.3, 1.01);
}

#[test]
fn few_blocks_still_make_a_filter() {
    for count in [1, 20, 40] {
        for spec in [BLOCK, SLOT] {
            let probe = Keys::new(count).build(spec, 8);
            assert!(probe.built.designed_rate <= 1.0 / 128.0);
        }
    }
}

#[test]
fn equal_input_gives_equal_bytes() {
    let keys = Keys::new(5000);
    for spec in [bloom(10.0), SLOT, bloomier(9.4)] {
        assert!(keys.build(spec, 1).built == keys.build(spec, 1).built);
        assert!(keys.build(spec, 1).built.body != keys.build(spec, 2).built.body);
    }
}

/// Parses whatever it is given and, if that succeeds, looks many keys up.
fn survive(kind: FilterKind, header: &[u8], body: &[u64]) {
    let Ok(filter) = Filter::parse(kind, header, body.len() as u64) else {
        return;
    };
    assert!(filter.resident_bytes() <= 16 * header.len() + 1024);
    assert!((0.0..=1.0).contains(&filter.designed_rate()));
    assert!(filter.r_bits() >= 0.0);
    for i in 0..300 {
        if let Lookup::Window(window) = filter.locate(absent(i)) {
            let words = window.words();
            assert!(words.start < words.end && words.end <= body.len() as u64);
            let words = &body[words.start as usize..words.end as usize];
            if let Answer::At(at) = filter.answer(&window, words) {
                assert_eq!(at.block, known_bits(at.block, at.unknown_bits));
            }
            assert_eq!(filter.answer(&window, &words[1..]), Answer::Maybe);
        }
    }
    let mut words = Words::with_capacity(body.len());
    words.extend(body);
    let arranged = filter.arrange(words);
    for i in 0..100 {
        let hash = absent(i);
        let mut begun = Begun::default();
        filter.begin(hash, &arranged, &mut begun);
        let second = || filter.answer_unless(&begun.window, &arranged, |_| false);
        let answer = begun.answered.unwrap_or_else(second);
        assert_eq!(answer, filter.ask(hash, body));
    }
}

#[test]
fn damaged_headers_do_no_harm() {
    for count in [0, 1, 5, 300, 3000] {
        for spec in [bloom(8.0), BLOCK, SLOT, bloomier(6.3), bloomier(64.0)] {
            let Built {
                kind, header, body, ..
            } = Keys::new(count).build(spec, 21).built;
            for length in 0..header.len() {
                assert!(Filter::parse(kind, &header[..length], body.len() as u64).is_err());
            }
            let mut longer = header.clone();
            longer.push(0);
            assert!(Filter::parse(kind, &longer, body.len() as u64).is_err());
            for bit in 0..header.len() * 8 {
                let mut damaged = header.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                survive(kind, &damaged, &body);
                survive(FilterKind::Bloom, &damaged, &body);
            }
            for words in [0, 1, body.len() as u64 + 1, u64::MAX] {
                let fits = words == body.len() as u64;
                assert_eq!(Filter::parse(kind, &header, words).is_ok(), fits);
            }
        }
    }
}

/// Layers as large as their fields allow, with a body said to be as large: refused, as the header
/// has no thresholds for them.
#[test]
fn enormous_layers_are_refused() {
    let mut header = Keys::new(3000).build(bloomier(64.0), 1).built.header;
    assert_eq!(header[26], 1, "one layer that bumps");
    header.truncate(32);
    header[26] = 16;
    header[27] = 0;
    header.extend([0xff; 16 * 8]);
    let words = 16 * 64 * u64::from(u32::MAX);
    let refused = Filter::parse(FilterKind::Bloomier, &header, words).unwrap_err();
    assert!(refused.to_string().contains("thresholds"), "{refused}");
    // Without thresholds to store, a tail of any size is a filter, and its windows are in bounds.
    header[26] = 0;
    header[27] = 1;
    header[28..32].fill(0);
    header.truncate(40);
    let words = 64 * u64::from(u32::MAX);
    let filter = Filter::parse(FilterKind::Bloomier, &header, words).unwrap();
    for i in 0..10_000 {
        let Lookup::Window(window) = filter.locate(absent(i)) else {
            panic!("no stash")
        };
        assert!(window.words().end <= words);
    }
}

fn specs() -> impl Strategy<Value = FilterSpec> {
    prop_oneof![
        (1.0..30.0f64).prop_map(bloom),
        (1.0..64.0f64).prop_map(bloomier),
        (1u8..=64).prop_map(|bits| bloomier(f64::from(bits))),
        (1.0..64.0f64).prop_map(rejecting),
        any::<bool>().prop_map(|slot| if slot { SLOT } else { BLOCK }),
    ]
}

proptest! {
    #![proptest_config(Config { cases: 300, ..Config::default() })]

    #[test]
    fn any_keys_are_found(
        count in 0u64..3000,
        spec in specs(),
        salt in any::<u64>(),
        block_keys in 1u64..200,
        slot_keys in 1u64..20,
    ) {
        let mut keys = Keys::new(count);
        for (i, place) in (0u64..).zip(&mut keys.places) {
            place.block = (i / block_keys) as u32;
            place.slot = (i % block_keys / slot_keys) as u16;
        }
        keys.block_count = keys.places.last().map_or(1, |last| last.block + 1);
        keys.max_slot = keys.places.iter().map(|place| place.slot).max().unwrap_or(0);
        let probe = keys.build(spec, salt);
        // Whether the slot is stored is a matter of the plan; if it is, it must be right.
        for (&hash, place) in keys.hashes.iter().zip(&keys.places) {
            let stored = matches!(probe.ask(hash), Answer::At(at) if at.slot.is_some());
            probe.check_present(hash, *place, stored);
        }
        survive(probe.built.kind, &probe.built.header, &probe.built.body);
    }

    #[test]
    fn any_bytes_are_survived(mut header in proptest::collection::vec(any::<u8>(), 0..200)) {
        let body = vec![0x5555_5555_5555_5555; 16];
        survive(FilterKind::Bloom, &header, &body);
        survive(FilterKind::Bloomier, &header, &body);
        // The same with a plausible beginning.
        if header.len() >= 40 {
            header[..2].copy_from_slice(&[1, 0]);
            header[24..28].copy_from_slice(&[4, 4, 1, 0]);
            header[28..40].copy_from_slice(&[0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0]);
            header.truncate(41);
        }
        survive(FilterKind::Bloomier, &header, &body);
    }
}
