use std::ops::Range;

use super::super::{
    Begun, BloomierBits, Build, Filter, FilterSpec, Lookup, Place, Resident, Words, build,
};
use super::*;
use crate::hash::{hash_key, mix};

/// Miri takes a thousand times as long: there, of many cases, only one in so many is tried.
const STEP: usize = if cfg!(miri) { 9 } else { 1 };

fn random(i: u64) -> u64 {
    mix(KeyHash(i), 0x5eed)
}

#[test]
fn the_form_in_use_is_among_those_that_are_tested() {
    let all = Form::all();
    assert_eq!(all[0].0, Kind::Portable);
    assert_eq!(all.last().map(|form| form.0), Some(Form::detect().0));
    // Every aarch64 system that the standard library runs on has these vectors.
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    assert_eq!(Form::detect().0, Kind::Neon);
}

#[test]
fn parities_agree_with_counting() {
    for round in (0..1000).step_by(STEP) {
        let words: [u64; LANES] = std::array::from_fn(|j| random(round * 8 + j as u64));
        let expected = (0..LANES).fold(0, |sum, j| {
            sum | (u64::from(words[j].count_ones()) & 1) << j
        });
        assert_eq!(portable::parities::<false>(words), expected);
        assert_eq!(portable::parities::<true>(words), expected);
    }
}

/// The value at a window, bit by bit.
fn value(words: &[u64], planes: usize, row: u64, shift: u32) -> u64 {
    let mut value = 0;
    for plane in 0..planes {
        for bit in (0..64u32).filter(|bit| row >> bit & 1 == 1) {
            let slot = (shift + bit) as usize;
            let word = words[slot / 64 * planes + plane];
            value ^= (word >> (slot % 64) & 1) << plane;
        }
    }
    value
}

#[test]
fn evaluation_agrees_with_bit_by_bit() {
    for form in Form::all() {
        for planes in (1..=64usize).step_by(STEP) {
            for (round, shift) in [0u32, 1, 17, 40, 63].into_iter().enumerate() {
                let words = (0..2 * planes as u64).map(|i| random(i + 999 * round as u64));
                let words: Vec<u64> = words.collect();
                let row = random(planes as u64 + 77 * round as u64) | 1;
                let used = &words[..planes << u32::from(shift != 0)];
                let expected = value(&words, planes, row, shift);
                assert_eq!(
                    form.evaluate(used, planes, row, shift),
                    expected,
                    "{form:?}"
                );
            }
        }
    }
}

#[test]
fn substitution_agrees_with_evaluation() {
    for form in Form::all() {
        for planes in (1..=SLOTS).step_by(4 * STEP - 3) {
            let rows: [Row; SLOTS] = std::array::from_fn(|i| {
                let i = (planes * SLOTS + i) as u64;
                // Some slots are free, with a value.
                let bits = if i.is_multiple_of(7) {
                    0
                } else {
                    random(i) | 1
                };
                let value = random(i + 100_000);
                Row { bits, value }
            });
            let next: [u64; SLOTS] = std::array::from_fn(|i| random(200_000 + i as u64));
            let mut state = next;
            form.substitute(&rows, planes, &mut state);
            let words: Vec<u64> = [&state[..planes], &next[..planes]].concat();
            for (slot, row) in (0u32..).zip(&rows) {
                let equation = if row.bits == 0 { 1 } else { row.bits };
                let expected = row.value & (u64::MAX >> (SLOTS - planes));
                assert_eq!(value(&words, planes, equation, slot), expected, "{form:?}");
            }
        }
    }
}

#[test]
fn probes_agree_with_one_by_one() {
    for form in Form::all() {
        let (mut all, mut one_missing) = (0, 0);
        let rounds = if cfg!(miri) { 64 } else { 20_000 };
        for i in 0..rounds {
            let (mixed, count) = (random(i), (i % 32 + 1) as u8);
            let mut line: [u64; LINE_WORDS] = std::array::from_fn(|j| random(i * 8 + j as u64));
            for (word, mask) in probes(mixed, count) {
                line[word] |= mask;
            }
            all += u64::from(form.has_all(&line, mixed, count));
            for missing in probes(mixed, count) {
                let mut line = line;
                line[missing.0] &= !missing.1;
                one_missing += u64::from(form.has_all(&line, mixed, count));
            }
        }
        assert_eq!((all, one_missing), (rounds, 0), "{form:?}");
    }
}

#[test]
fn four_planes_are_evaluated_as_any() {
    for form in Form::all() {
        for shift in (0..64).step_by(STEP) {
            let words: [u64; 8] = std::array::from_fn(|i| random(i as u64 + 99 * u64::from(shift)));
            let (low, high) = words.split_at(4);
            let four = |words: &[u64]| words.try_into().unwrap();
            let row = random(u64::from(shift)) | 1;
            let used = &words[..4 << u32::from(shift != 0)];
            assert_eq!(
                form.evaluate_four(&four(low), &four(high), row, shift),
                value(used, 4, row, shift),
                "{form:?}"
            );
        }
    }
}

/// Every form asks as the two steps do, of filters of every kind, for keys that are there or not, with
/// a body that was arranged for lookups, and with one that is too short.
#[test]
#[cfg_attr(miri, ignore = "thousands of keys in 33 filters")]
fn both_steps_at_once_answer_as_one_by_one() {
    let bits = [1.0, 4.0, 5.5, 6.5, 8.0, 10.5, 11.0, 16.0, 20.3, 63.5, 64.0];
    let bloomier = |bits| FilterSpec::Bloomier(BloomierBits::BitsPerKey(bits));
    for bits in bits {
        // Of a few blocks the fingerprint tells most, of many their ordinal.
        both_steps_agree(bloomier(bits), 48, bits >= 12.0);
        both_steps_agree(bloomier(bits), 10, bits >= 5.0);
        both_steps_agree(FilterSpec::Bloom { bits_per_key: bits }, 48, false);
    }
}

/// Enough that those which the first layer bumps have a second one that bumps.
const BOTH_STEPS_KEYS: u32 = 12_000;

fn both_steps_agree(spec: FilterSpec, block_keys: u32, expect_divided: bool) {
    let all = 0..BOTH_STEPS_KEYS;
    let hash_of = |i: u32| hash_key(1, &u64::from(i).to_le_bytes());
    let place = |i: u32| Place {
        block: i / block_keys,
        slot: (i % block_keys / 4) as u16,
    };
    let hashes: Vec<KeyHash> = all.clone().map(hash_of).collect();
    let places: Vec<Place> = all.map(place).collect();
    let built = build(&Build {
        spec,
        salt: 7,
        hashes: &hashes,
        places: &places,
        block_count: BOTH_STEPS_KEYS / block_keys,
        max_slot: (block_keys.div_ceil(4) - 1) as u16,
    });
    let body = &built.body;
    let mut filter = Filter::parse(built.kind, &built.header, body.len() as u64).unwrap();
    let mut arranged = Words::with_capacity(body.len());
    arranged.extend(body);
    let arranged = filter.arrange(arranged);
    let is_divided = matches!(arranged, Resident::Divided(_));
    assert_eq!(is_divided, expect_divided, "{spec:?}, {block_keys}");
    for i in (0..2 * BOTH_STEPS_KEYS).step_by(3) {
        let hash = hash_of(i);
        let is_there = i < BOTH_STEPS_KEYS;
        // What may be refuted of a key that is there: blocks that its own is not among.
        let is_refuted = |blocks: Range<u32>| is_there && !blocks.contains(&place(i).block);
        filter.form = Form(Kind::Portable);
        let (end, expected) = match filter.locate(hash) {
            Lookup::Answered(answer) => (0, answer),
            Lookup::Window(window) => {
                let range = window.words();
                let (start, end) = (range.start as usize, range.end as usize);
                (end, filter.answer(&window, &body[start..end]))
            }
        };
        for form in Form::all() {
            filter.form = form;
            assert_eq!(filter.ask(hash, body), expected, "{form:?}, {spec:?}");
            let mut begun = Begun::default();
            filter.begin(hash, &arranged, &mut begun);
            let answer = begun
                .answered
                .unwrap_or_else(|| filter.answer_unless(&begun.window, &arranged, is_refuted));
            assert_eq!(answer, expected, "{form:?}, {spec:?}");
            if begun.answered.is_none() && !is_there {
                let refuted = filter.answer_unless(&begun.window, &arranged, |_| true);
                assert!(refuted == Answer::No || refuted == expected, "{spec:?}");
            }
            if end > 0 {
                assert_eq!(filter.ask(hash, &body[..end - 1]), Answer::Maybe);
                assert_eq!(filter.ask(hash, &[]), Answer::Maybe);
            }
        }
    }
}
