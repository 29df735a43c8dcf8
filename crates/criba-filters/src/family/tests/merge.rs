//! Two of a kind made one: exactly the structure of both streams, or an error that changes nothing.

use std::fmt::Debug;

use super::{assert_none_denied, check_rate, fill, fill_from, passes};
use crate::{
    Blocked, Classic, Compressed, Cuckoo, Design, Ensemble, Error, Growth, Hierarchical, Hybrid,
    Insert, Membership, Merge, Partitioned, Quotient, Scalable,
};

/// Two halves merged are the whole, bit for bit; what differs in shape is refused and changes
/// nothing.
#[track_caller]
fn check<T: Insert + Merge + Clone + PartialEq + Debug>(empty: &T, other_shape: &T) {
    let (mut left, mut right, mut whole) = (empty.clone(), empty.clone(), empty.clone());
    fill_from(&mut left, 0, 300);
    fill_from(&mut right, 200, 300);
    fill_from(&mut whole, 0, 300);
    fill_from(&mut whole, 200, 300);
    let before = left.clone();
    let error = left.merge(other_shape).unwrap_err();
    assert!(error.to_string().contains("build both"), "{error}");
    assert_eq!(left, before);
    left.merge(empty).unwrap();
    assert_eq!(left, before);
    left.merge(&right).unwrap();
    assert_eq!(left, whole);
    assert_eq!(left.len(), 600);
}

#[test]
fn filters_of_bits_are_those_of_both_streams() {
    let classic = |rate| Classic::new(Design::for_rate(1_000, rate).unwrap()).unwrap();
    check(&classic(0.01), &classic(0.02));
    let blocked = |bits| Blocked::new(1_000, bits).unwrap();
    check(&blocked(10.0), &blocked(12.0));
    let partitioned = |rate| Partitioned::new(1_000, rate).unwrap();
    check(&partitioned(0.01), &partitioned(0.02));
    let compressed = |rate| Compressed::new(1_000, rate).unwrap();
    check(&compressed(0.01), &compressed(0.02));
    let ensemble = |target| Ensemble::new(1_000, 0.1, target).unwrap();
    check(&ensemble(0.01), &ensemble(0.001));
    let hybrid = |target| Hybrid::new(1_000, 0.1, target).unwrap();
    check(&hybrid(0.05), &hybrid(0.001));
    // Equal fronts before backs that differ.
    let hierarchical = |rate| Hierarchical::new(1_000, 0.1, rate).unwrap();
    check(&hierarchical(0.01), &hierarchical(0.001));
}

#[test]
fn layers_of_both_are_kept() {
    let growth = Growth {
        first_keys: 100,
        first_rate: 0.01,
        growth: 2.0,
        tightening: 0.5,
    };
    let mut left = Scalable::new(growth).unwrap();
    let mut right = left.clone();
    let once = left.bound();
    fill_from(&mut left, 0, 1_000);
    fill_from(&mut right, 1_000, 5_000);
    let (alone, pair) = (left.clone(), (left.len(), right.len()));
    let expected = 1.0 - (1.0 - left.expected_rate()) * (1.0 - right.expected_rate());
    left.merge(&right).unwrap();
    assert_none_denied(&left, 6_000);
    assert_eq!(left.len(), pair.0 + pair.1);
    assert!((left.expected_rate() - expected).abs() < 1e-3);
    check_rate(&left, 100_000);
    assert!(left.bound() > once && left.bound() <= 2.0 * once);
    // It grows on, with layers that come after those of both.
    fill_from(&mut left, 6_000, 30_000);
    assert_none_denied(&left, 36_000);
    assert!(left.expected_rate() < left.bound());
    assert_eq!(Scalable::from_bytes(&left.to_bytes()).unwrap(), left);
    // Layers that are not full are united where there is room for both.
    let mut small = Scalable::new(growth).unwrap();
    let mut few = small.clone();
    fill_from(&mut small, 0, 40);
    fill_from(&mut few, 40, 60);
    small.merge(&few).unwrap();
    assert_eq!((small.layers().len(), small.len()), (1, 100));
    small.merge(&few).unwrap();
    assert_eq!(small.layers().len(), 2);
    assert!((small.bound() - once - 0.01).abs() < 1e-12);

    let other = Growth {
        first_keys: 101,
        ..growth
    };
    let mut left = alone.clone();
    let error = left.merge(&Scalable::new(other).unwrap()).unwrap_err();
    assert!(error.to_string().contains("one growth"), "{error}");
    assert_eq!(left, alone);
}

#[test]
fn cuckoo_filters_are_merged_while_there_is_room() {
    let mut left = Cuckoo::with_shape(8, 12).unwrap();
    let mut right = left.clone();
    fill_from(&mut left, 0, 400);
    fill_from(&mut right, 400, 400);
    left.merge(&right).unwrap();
    assert_none_denied(&left, 800);
    assert_eq!(left.len(), 800);
    check_rate(&left, 100_000);
    let full = left.clone();
    assert_eq!(left.merge(&right), Err(Error::Full { keys: 800 }));
    assert_eq!(left, full);
    assert!(left.merge(&Cuckoo::with_shape(8, 11).unwrap()).is_err());
    assert!(left.merge(&Cuckoo::with_shape(9, 12).unwrap()).is_err());
}

/// Lists of fingerprints of any sizes: what comes out is the filter of both streams in its shape.
#[test]
fn quotient_filters_of_any_sizes_are_merged() {
    for (own, other, merged) in [
        // Room for all keys, in the shape of both.
        ((10, 12), (10, 12), (10, 12)),
        // Too few slots: it grows.
        ((9, 13), (9, 13), (10, 12)),
        // Sizes that differ, with equal fingerprints.
        ((12, 10), (9, 13), (12, 10)),
        ((9, 13), (12, 10), (10, 12)),
        // Fingerprints that differ: the shorter ones.
        ((10, 12), (10, 20), (10, 12)),
        ((10, 20), (12, 8), (10, 10)),
        // Shorter ones than this one has bits of quotient.
        ((18, 3), (10, 2), (11, 1)),
    ] {
        let filled = |(quotient, remainder), first, count| {
            let mut filter = Quotient::with_shape(quotient, remainder).unwrap();
            fill_from(&mut filter, first, count);
            filter
        };
        let mut filter = filled(own, 0, 450);
        filter.merge(&filled(other, 450, 450)).unwrap();
        assert_eq!(filter, filled(merged, 0, 900), "{own:?} {other:?}");
    }
    let mut small = Quotient::with_shape(9, 1).unwrap();
    fill(&mut small, 450);
    let before = small.clone();
    assert_eq!(small.merge(&before), Err(Error::Full { keys: 450 }));
    assert_eq!(small, before);
    let mut empty = Quotient::with_shape(4, 8).unwrap();
    empty.merge(&Quotient::with_shape(3, 9).unwrap()).unwrap();
    assert_eq!((empty.len(), passes(&empty, 100)), (0, 0));
}
