//! Filters that grow by layers, and those made to be compressed.

use super::{assert_none_denied, check_rate, fill, present};
use crate::formulas::{compound_bound, entropy};
use crate::{Codec, Compressed, Error, Growth, Hybrid, Insert, Membership, Scalable};

const GROWTH: Growth = Growth {
    first_keys: 500,
    first_rate: 0.01,
    growth: 2.0,
    tightening: 0.5,
};

#[test]
fn layers_keep_the_bound_however_many_there_are() {
    assert!((compound_bound(0.01, 0.5) - 0.02).abs() < 1e-12);
    for (growth, tightening) in [(2.0, 0.5), (4.0, 0.9), (1.5, 0.8)] {
        let growth = Growth {
            growth,
            tightening,
            ..GROWTH
        };
        let mut filter = Scalable::new(growth).unwrap();
        fill(&mut filter, 50_000);
        assert_none_denied(&filter, 50_000);
        assert!(filter.layers().len() > 3);
        check_rate(&filter, 100_000);
        assert!(filter.expected_rate() < filter.bound());
        // A layer is closed when it is full, and not before.
        let (last, full) = filter.layers().split_last().unwrap();
        assert!(full.iter().all(|layer| layer.len() == layer.design().keys));
        assert!(last.len() > 0);
    }
}

#[test]
fn layers_end_where_no_filter_can_follow() {
    let growth = Growth {
        first_keys: 1,
        first_rate: 1e-19,
        growth: 1.0,
        tightening: 0.1,
    };
    let mut filter = Scalable::new(growth).unwrap();
    fill(&mut filter, 1);
    let refused = (1..20).find_map(|i| filter.insert(&present(i)).err());
    assert!(matches!(refused, Some(Error::Full { .. })), "{refused:?}");
    assert_none_denied(&filter, 1);
}

#[test]
fn growth_has_bounds() {
    let bad = [
        Growth {
            first_keys: 0,
            ..GROWTH
        },
        Growth {
            first_rate: 1.0,
            ..GROWTH
        },
        Growth {
            growth: 0.5,
            ..GROWTH
        },
        Growth {
            growth: f64::NAN,
            ..GROWTH
        },
        Growth {
            tightening: 1.0,
            ..GROWTH
        },
        Growth {
            tightening: 0.0,
            ..GROWTH
        },
    ];
    for growth in bad {
        assert!(Scalable::new(growth).is_err(), "{growth:?}");
    }
}

/// A third of the bits set leaves 0.918 bits of information in each: no code reaches a quarter.
#[test]
fn compression_reaches_the_entropy_and_not_more() {
    assert!((entropy(1.0 / 3.0) - 0.918_296).abs() < 1e-6);
    assert!(entropy(0.0) <= 0.0 && (entropy(0.5) - 1.0).abs() < 1e-12);
    for rate in [0.1, 0.01, 0.001] {
        let mut filter = Compressed::new(30_000, rate).unwrap();
        fill(&mut filter, 30_000);
        let fill = filter.filter().fill();
        assert!(fill < 1.0 / 3.0 + 0.01, "{fill}");
        let raw = filter.raw_bytes() as f64;
        let least = filter.entropy_bytes();
        let bytes = filter.compressed_bytes(Codec::Zstd) as f64;
        assert!(
            bytes >= 0.999 * least && bytes <= 1.1 * least,
            "{bytes} {least} {raw}"
        );
        let stored = filter.to_bytes().len() as f64;
        assert!(stored < bytes + 100.0);
        #[cfg(feature = "lab")]
        {
            let bytes = filter.compressed_bytes(Codec::Deflate) as f64;
            assert!(
                bytes >= 0.999 * least && bytes <= 1.1 * least,
                "{bytes} {least}"
            );
        }
    }
}

#[test]
fn a_nearly_empty_filter_is_not_a_bomb() {
    let empty = Compressed::new(1_000_000, 0.01).unwrap();
    assert!(empty.compressed_bytes(Codec::Zstd) < empty.raw_bytes() / 16);
    assert!(empty.to_bytes().len() as u64 >= empty.raw_bytes());
    assert_eq!(Compressed::from_bytes(&empty.to_bytes()).unwrap(), empty);
}

#[test]
fn a_hybrid_keeps_its_target() {
    let mut filter = Hybrid::new(10_000, 0.05, 0.002).unwrap();
    fill(&mut filter, 10_000);
    assert!(filter.filters().len() > 1);
    check_rate(&filter, 100_000);
    assert!(filter.expected_rate() <= 0.002 * 1.02);
    assert!(Hybrid::new(10, 0.05, 0.0).is_err());
}
