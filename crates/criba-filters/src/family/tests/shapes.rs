//! Structures of the family as filters of segments.

use super::{absent, five_sigma, present};
use crate::segment::CustomFilter as _;
use crate::{KeyHash, Shape, hash_key};

fn hashes(count: u64) -> Vec<KeyHash> {
    (0..count).map(|i| hash_key(81, &present(i))).collect()
}

#[test]
fn no_key_is_denied_and_rates_are_as_designed() {
    for shape in Shape::ALL {
        for (count, bits) in [(1, 8.0), (2, 1.0), (63, 64.0), (1_000, 9.3), (20_000, 12.0)] {
            let (hashes, filter) = (hashes(count), shape.filter(bits));
            let bytes = filter.build(&hashes).unwrap();
            let opened = filter.open("", &bytes).unwrap();
            assert!(
                hashes.iter().all(|hash| opened.may_contain(*hash)),
                "{shape:?}"
            );
            if count < 1_000 {
                continue;
            }
            let memory_bits = opened.memory_bytes() as f64 * 8.0 / count as f64;
            assert!(memory_bits <= bits + 0.1, "{shape:?}: {memory_bits} bits");
            let trials = 100_000;
            let passes = |i: &u64| opened.may_contain(hash_key(81, &absent(*i)));
            let hits = (0..trials).filter(passes).count() as f64;
            let rate = opened.expected_rate().unwrap();
            // A thousand keys leave the share of set bits some freedom of its own.
            let freedom = 0.1 * rate * trials as f64;
            let allowed = five_sigma(rate, trials) + freedom;
            let off = (hits - rate * trials as f64).abs();
            assert!(off <= allowed, "{shape:?}: {hits}, {rate} by design");
        }
    }
}

#[test]
fn any_hashes_make_a_filter() {
    let crowded: Vec<KeyHash> = (0..500).map(KeyHash).collect();
    let equal = [hashes(300), hashes(100), vec![KeyHash(7); 50]].concat();
    for filter in Shape::ALL.map(|shape| shape.filter(9.0)) {
        for hashes in [&crowded, &equal, &Vec::new()] {
            let bytes = filter.build(hashes).unwrap();
            let opened = filter.open("", &bytes).unwrap();
            assert!(
                hashes.iter().all(|hash| opened.may_contain(*hash)),
                "{filter:?}"
            );
        }
    }
}

#[test]
fn bytes_of_another_structure_are_refused() {
    for (at, shape) in Shape::ALL.into_iter().enumerate() {
        let bytes = shape.filter(9.0).build(&hashes(100)).unwrap();
        let other = Shape::ALL[(at + 1) % Shape::ALL.len()].filter(9.0);
        // Ensembles of one kind of member are alike but for that kind.
        assert!(other.open("", &bytes).is_err(), "{shape:?}");
        assert!(
            shape
                .filter(9.0)
                .open("", &bytes[..bytes.len() - 1])
                .is_err()
        );
    }
}
