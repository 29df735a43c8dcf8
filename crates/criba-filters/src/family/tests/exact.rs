//! Filters of fingerprints and static maps: values, limits, deletion, growth.

use std::collections::BTreeMap;

use crate::formulas::{fingerprint_bits_for, fuse_cells_for, peeled_cells_for};
use crate::{
    Cuckoo, Delete, Error, Fuse, Insert, KeyHash, Lookup, Map, Membership, Peeled, Quotient,
};

use super::{absent, assert_none_denied, check_rate, five_sigma, keys, passes, present};

fn entries(count: u64, value_bits: u32) -> Vec<([u8; 8], u64)> {
    let mask = 1u64.checked_shl(value_bits).unwrap_or(0).wrapping_sub(1);
    let value = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
    (0..count).map(|i| (present(i), value(i))).collect()
}

/// Entries as maps take them.
fn pairs(entries: &[([u8; 8], u64)]) -> impl Iterator<Item = (&[u8; 8], u64)> {
    entries.iter().map(|(key, value)| (key, *value))
}

/// All values come back; of absent keys as many have one as there are bits to deny them.
fn check_map(map: &impl Lookup, entries: &[([u8; 8], u64)], check_bits: f64) {
    for (key, value) in entries {
        assert_eq!(map.get(key), Some(*value));
    }
    let trials = 20_000;
    let found = (0..trials).filter(|i| map.get(&absent(*i)).is_some());
    let (found, rate) = (found.count() as f64, (-check_bits).exp2());
    let mean = rate * trials as f64;
    assert!(
        (found - mean).abs() <= five_sigma(rate, trials) + 1.0,
        "{found} {mean}"
    );
}

#[test]
fn maps_return_what_was_put_in() {
    for (value_bits, check_bits) in [(1, 0), (1, 63), (8, 4), (33, 7), (63, 1), (64, 0)] {
        let entries = entries(3_000, value_bits);
        let check = f64::from(check_bits);
        let ribbon = Map::build(pairs(&entries), value_bits, check).unwrap();
        check_map(&ribbon, &entries, check);
        let peeled = Peeled::build(pairs(&entries), value_bits, check_bits).unwrap();
        check_map(&peeled, &entries, check);
        let fuse = Fuse::build(pairs(&entries), value_bits, check_bits).unwrap();
        check_map(&fuse, &entries, check);
        assert_eq!(
            [ribbon.value_bits(), peeled.value_bits(), fuse.value_bits()],
            [value_bits; 3]
        );
    }
}

#[test]
fn check_bits_of_a_ribbon_may_be_fractions() {
    let entries = entries(30_000, 5);
    for check_bits in [0.5, 3.25, 6.9] {
        let map = Map::build(pairs(&entries), 5, check_bits).unwrap();
        for (key, value) in &entries {
            assert_eq!(map.get(key), Some(*value));
        }
        check_rate(&map, 50_000);
        let bits = map.bits() as f64 / 30_000.0;
        assert!(bits < (5.0 + check_bits) * 1.03, "{bits}");
    }
}

#[test]
fn maps_refuse_what_they_cannot_hold() {
    let mut twice = entries(100, 8);
    twice.push(twice[7]);
    assert_eq!(
        Map::build(pairs(&twice), 8, 0.0).unwrap_err(),
        Error::EqualKeys
    );
    assert_eq!(
        Peeled::build(pairs(&twice), 8, 0).unwrap_err(),
        Error::EqualKeys
    );
    assert_eq!(
        Fuse::build(pairs(&twice), 8, 0).unwrap_err(),
        Error::EqualKeys
    );
    let wide = [("key", 256)];
    let error = Map::build(wide, 8, 0.0).unwrap_err().to_string();
    assert!(error.contains("choose more bits"), "{error}");
    assert!(Peeled::build(wide, 8, 0).is_err());
    assert!(Fuse::build(wide, 8, 0).is_err());
    for check_bits in [-1.0, 65.0, f64::NAN, 0.0, 0.5] {
        assert!(Map::set(&keys(2), check_bits).is_err(), "{check_bits}");
    }
    assert!(Map::build(wide, 64, 1.0).is_err());
    assert!(Peeled::set(&keys(2), 0).is_err());
    assert!(Fuse::set(&keys(2), 65).is_err());
}

#[test]
fn sizes_are_those_of_the_papers() {
    assert_eq!(peeled_cells_for(1_000_000), 1_230_033);
    let share = |keys: u64| fuse_cells_for(keys) as f64 / keys as f64;
    assert!(
        (1.12..1.14).contains(&share(10_000_000)),
        "{}",
        share(10_000_000)
    );
    assert!(
        (1.12..1.16).contains(&share(1_000_000)),
        "{}",
        share(1_000_000)
    );
    assert!((1.15..1.25).contains(&share(50_000)), "{}", share(50_000));
    for (keys, most) in [(1_000u64, 1.13), (10_000, 1.04), (100_000, 1.015)] {
        let all = super::keys(keys);
        let bits = Map::set(&all, 8.0).unwrap().bits() as f64 / keys as f64;
        assert!(bits / 8.0 < most, "{keys}: {bits}");
        let peeled = Peeled::set(&all, 8).unwrap();
        assert_eq!(peeled.bits(), peeled_cells_for(keys) * 8);
        let fuse = Fuse::set(&all, 8).unwrap();
        assert_eq!(fuse.bits(), fuse_cells_for(keys) * 8);
    }
}

/// Above the threshold of peeling nearly every salt has a solution.
#[test]
fn peeling_rarely_takes_a_second_salt() {
    let (mut peeled, mut fuse) = (0, 0);
    for trial in 0..40_u64 {
        let all = || (0..2_000).map(|i| KeyHash::from(&present(trial << 32 | i)));
        peeled += Peeled::set(all(), 4).unwrap().attempts();
        fuse += Fuse::set(all(), 4).unwrap().attempts();
    }
    assert!((40..=48).contains(&peeled), "{peeled}");
    assert!((40..=60).contains(&fuse), "{fuse}");
}

#[test]
fn a_cuckoo_filter_is_full_at_its_load_limit() {
    assert_eq!(fingerprint_bits_for(0.01), 10);
    for first in [0, 1 << 32, 2 << 32] {
        let present = |i| present(first | i);
        let mut filter = Cuckoo::with_shape(12, 12).unwrap();
        let refused = (0..).find_map(|i| filter.insert(&present(i)).err().map(|e| (i, e)));
        let (count, error) = refused.unwrap();
        assert_eq!(error, Error::Full { keys: count });
        assert!((0.93..0.99).contains(&filter.load()), "{}", filter.load());
        // The insertion that failed has moved nothing.
        assert!((0..count).all(|i| filter.may_contain(&present(i))));
        check_rate(&filter, 100_000);

        for i in (0..count).step_by(2) {
            assert!(filter.remove(&present(i)));
        }
        assert_eq!(filter.len(), count / 2);
        assert!(
            (0..count)
                .skip(1)
                .step_by(2)
                .all(|i| filter.may_contain(&present(i)))
        );
        check_rate(&filter, 100_000);
        assert!(filter.insert(&present(0)).is_ok());
    }
}

#[test]
fn a_cuckoo_filter_holds_a_key_eight_times() {
    let mut filter = Cuckoo::with_shape(10, 16).unwrap();
    for _ in 0..8 {
        filter.insert(b"key").unwrap();
    }
    let before = filter.clone();
    assert_eq!(filter.insert(b"key"), Err(Error::Full { keys: 8 }));
    assert_eq!(filter, before);
    for _ in 0..8 {
        assert!(filter.may_contain(b"key") && filter.remove(b"key"));
    }
    assert!(!filter.may_contain(b"key") && !filter.remove(b"key") && filter.is_empty());
    assert!(Cuckoo::new(u64::MAX, 0.01).is_err());
    assert!(Cuckoo::new(10, 1e-18).is_err());
    assert!(Cuckoo::with_shape(3, 1).is_err());
}

/// Against a list of fingerprints, in a table so small that runs meet and go around the end.
#[test]
fn a_quotient_filter_is_a_list_of_fingerprints() {
    for (quotient_bits, remainder_bits) in [(1, 3), (3, 2), (5, 1), (6, 4)] {
        let shape = Quotient::with_shape(quotient_bits, remainder_bits);
        let (mut filter, mut model) = (shape.unwrap(), BTreeMap::new());
        let mut random = 1u64;
        for step in 0..3_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = present(random >> 33 & 63);
            let print = filter.split(KeyHash::from(&key));
            let known = model.get(&print).copied().unwrap_or(0);
            assert_eq!(filter.may_contain(&key), known > 0, "step {step}");
            if random >> 60 < 9 {
                if filter.insert(&key).is_ok() {
                    *model.entry(print).or_insert(0) += 1;
                }
            } else if filter.remove(&key) {
                model.entry(print).and_modify(|count| *count -= 1);
            } else {
                assert_eq!(known, 0, "step {step}");
            }
            let count: u64 = model.values().sum();
            assert_eq!(filter.len(), count);
        }
        let again = Quotient::from_bytes(&filter.to_bytes());
        assert_eq!(again, Ok(filter));
    }
}

#[test]
fn a_quotient_filter_grows_without_its_keys() {
    let mut filter = Quotient::with_shape(10, 12).unwrap();
    let refused = (0..).find_map(|i| filter.insert(&present(i)).err().map(|e| (i, e)));
    let (count, error) = refused.unwrap();
    assert_eq!((count, error), (972, Error::Full { keys: 972 }));
    assert_none_denied(&filter, count);
    let rate = filter.expected_rate();
    for doubling in 1..=3 {
        filter = filter.grow().unwrap();
        assert_none_denied(&filter, count);
        assert_eq!((filter.len(), filter.slots()), (count, 1024 << doubling));
        assert!((filter.expected_rate() - rate).abs() < 1e-12);
    }
    for i in count..7_000 {
        filter.insert(&present(i)).unwrap();
    }
    assert_none_denied(&filter, 7_000);
    check_rate(&filter, 100_000);
    for i in 0..count {
        assert!(filter.remove(&present(i)));
    }
    assert!((count..7_000).all(|i| filter.may_contain(&present(i))));
    let coarse = Quotient::with_shape(4, 1).unwrap();
    assert!(coarse.grow().is_err());
    assert!(Quotient::new(u64::MAX, 0.5).is_err());
    assert!(Quotient::with_shape(0, 5).is_err());
    assert!(passes(&coarse, 100) == 0);
}
