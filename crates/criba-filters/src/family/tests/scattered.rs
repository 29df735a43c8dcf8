//! Filters of the family as filters of segments: through the interface that segments use.

use super::{absent, five_sigma, present};
use crate::segment::{
    Answer, Build, Built, Filter, FilterKind, FilterSpec, Lookup, Place, Scattered, build,
};
use crate::{KeyHash, hash_key};

const SHAPES: [Scattered; 4] = [
    Scattered::Classic,
    Scattered::Partitioned,
    Scattered::Peeled,
    Scattered::Fuse,
];

fn hashes(count: u64) -> Vec<KeyHash> {
    (0..count).map(|i| hash_key(71, &present(i))).collect()
}

fn built(shape: Scattered, bits_per_key: f64, hashes: &[KeyHash]) -> Built {
    build_scattered(shape, bits_per_key, 72, hashes)
}

/// A filter of a segment whose places do not matter.
pub(super) fn build_scattered(
    shape: Scattered,
    bits_per_key: f64,
    salt: u64,
    hashes: &[KeyHash],
) -> Built {
    let places = vec![Place { block: 0, slot: 0 }; hashes.len()];
    build(&Build {
        spec: FilterSpec::Scattered {
            shape,
            bits_per_key,
        },
        salt,
        hashes,
        places: &places,
        block_count: 1,
        max_slot: 0,
    })
}

fn ask(filter: &Filter, body: &[u64], hash: KeyHash) -> Answer {
    match filter.locate(hash) {
        Lookup::Answered(answer) => answer,
        Lookup::Window(window) => {
            let range = window.words();
            filter.answer(&window, &body[range.start as usize..range.end as usize])
        }
    }
}

pub(super) fn parse(built: &Built) -> Filter {
    Filter::parse(built.kind, &built.header, built.body.len() as u64).unwrap()
}

#[test]
fn no_key_is_denied_and_rates_are_as_designed() {
    for shape in SHAPES {
        for (count, bits) in [(1, 8.0), (2, 1.0), (63, 64.0), (1_000, 3.7), (20_000, 9.0)] {
            let hashes = hashes(count);
            let built = built(shape, bits, &hashes);
            let filter = parse(&built);
            assert_eq!((built.kind, filter.kind()), (shape.kind(), shape.kind()));
            assert_eq!(filter.key_count(), count);
            assert!(!built.equal_hashes);
            for hash in &hashes {
                assert_eq!(ask(&filter, &built.body, *hash), Answer::Maybe);
            }
            if count < 1_000 {
                continue;
            }
            let per_key = built.body.len() as f64 * 64.0 / count as f64;
            assert!(per_key <= bits + 0.1, "{shape:?}: {per_key} bits");
            let trials = 50_000;
            let passes =
                |i: &u64| ask(&filter, &built.body, hash_key(71, &absent(*i))) == Answer::Maybe;
            let hits = (0..trials).filter(passes).count() as f64;
            let rate = filter.designed_rate();
            assert!((rate - built.designed_rate).abs() < 1e-12);
            let off = (hits - rate * trials as f64).abs();
            // A thousand keys leave the share of set bits some freedom of its own.
            let freedom = 0.05 * rate * trials as f64;
            assert!(
                off <= five_sigma(rate, trials) + freedom,
                "{shape:?}: {hits}"
            );
        }
    }
}

#[test]
fn any_hashes_make_a_filter() {
    let crowded: Vec<KeyHash> = (0..500).map(KeyHash).collect();
    let equal = [hashes(300), hashes(100)].concat();
    for shape in SHAPES {
        let empty = built(shape, 9.0, &[]);
        assert!(empty.body.is_empty() && empty.designed_rate <= 0.0);
        assert_eq!(ask(&parse(&empty), &[], KeyHash(1)), Answer::No);
        for hashes in [&crowded, &equal] {
            let built = built(shape, 9.0, hashes);
            // No place is told that could be another key's.
            assert!(!built.equal_hashes);
            let filter = parse(&built);
            for hash in hashes {
                assert_eq!(ask(&filter, &built.body, *hash), Answer::Maybe);
            }
        }
    }
}

#[test]
fn damaged_headers_do_no_harm() {
    for shape in SHAPES {
        let built = built(shape, 9.0, &hashes(700));
        let words = built.body.len() as u64;
        for at in 0..built.header.len() {
            assert!(Filter::parse(built.kind, &built.header[..at], words).is_err());
            for change in 1..=u8::MAX {
                let mut header = built.header.clone();
                header[at] ^= change;
                if let Ok(filter) = Filter::parse(built.kind, &header, words) {
                    let answer = ask(&filter, &built.body, KeyHash(u64::from(change) << 56));
                    assert!(matches!(answer, Answer::No | Answer::Maybe));
                    assert!((0.0..=1.0).contains(&filter.designed_rate()));
                }
            }
        }
        let longer = [built.header.as_slice(), &[0]].concat();
        assert!(Filter::parse(built.kind, &longer, words).is_err());
        assert!(Filter::parse(built.kind, &built.header, words + 1).is_err());
        // A size whose bits cannot be counted.
        let mut header = built.header.clone();
        header[24..].fill(0xff);
        assert!(Filter::parse(built.kind, &header, words).is_err());
    }
}

/// The bytes of version 1: header, and checksum of the body.
#[test]
fn bytes_are_those_of_the_format() {
    let mut found = Vec::new();
    for shape in SHAPES {
        let built = built(shape, 9.0, &hashes(100));
        let body: Vec<u8> = built
            .body
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let header: String = built
            .header
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        found.push((header, crc32fast::hash(&body)));
    }
    let found: Vec<(&str, u32)> = found
        .iter()
        .map(|(header, sum)| (header.as_str(), *sum))
        .collect();
    assert_eq!(found, GOLDEN);
}
const GOLDEN: [(&str, u32); 4] = [
    (
        "0107000000000000480000000000000064000000000000008403000000000000",
        1_520_939_563,
    ),
    (
        "0107000000000000480000000000000064000000000000008000000000000000",
        76_327_154,
    ),
    (
        "0105000000000000480000000000000064000000000000003400000000000000",
        2_325_017_642,
    ),
    (
        "0104060000000000480000000000000064000000000000000100000000000000",
        961_693_791,
    ),
];

#[test]
fn kinds_have_the_numbers_of_the_format() {
    let numbers = SHAPES.map(|shape| shape.kind().to_u8());
    assert_eq!(numbers, [3, 4, 5, 6]);
    assert!(
        numbers
            .iter()
            .all(|number| FilterKind::from_u8(*number).is_some())
    );
}
