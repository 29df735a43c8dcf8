//! Filters of bits: designs, hash families, sets of two filters, ensembles.

use super::{
    absent, assert_none_denied, check_rate, fill, fill_from, five_sigma, passes, passes_from,
    present,
};
use crate::formulas::{filters_for, partitioned_rate, rate_for};
use crate::{
    Blocked, Classic, Compressed, Cuckoo, Design, Ensemble, Error, Hashing, Hierarchical, Hybrid,
    Insert, Membership, Partitioned, Quotient,
};

fn filled(design: Design, count: u64) -> Classic {
    let mut filter = Classic::new(design).unwrap();
    fill(&mut filter, count);
    filter
}

#[test]
fn rates_follow_theory_for_every_hashing() {
    let mut all = vec![Hashing::Xxh3, Hashing::Enhanced];
    #[cfg(feature = "lab")]
    all.push(Hashing::Blake2b);
    for hashing in all.drain(..) {
        for rate in [0.5, 0.05, 0.003] {
            let design = Design::for_rate(10_000, rate).unwrap().hashed(hashing);
            let filter = filled(design, 10_000);
            assert_none_denied(&filter, 10_000);
            check_rate(&filter, 50_000);
            let again = Classic::from_bytes(&filter.to_bytes()).unwrap();
            assert_eq!(again, filter);
        }
    }
}

/// Why the default is not plain double hashing.
#[test]
fn a_step_that_stays_fails_small_filters() {
    let measure = |hashing| -> u64 {
        let design = Design::for_rate(200, 1e-5).unwrap().hashed(hashing);
        let passes = |trial: u64| {
            let mut filter = Classic::new(design).unwrap();
            fill_from(&mut filter, trial << 32, 200);
            passes_from(&filter, trial << 32, 40_000)
        };
        (0..20).map(passes).sum()
    };
    // Theory expects 8.
    let (grown, stays) = (measure(Hashing::Xxh3), measure(Hashing::Double));
    assert!(grown <= 20, "{grown}");
    assert!(stays >= 30, "{stays}");
}

#[test]
fn bits_per_key_may_be_fractions() {
    for bits_per_key in [0.3, 1.0, 2.5, 7.3, 14.9] {
        let bits = (20_000.0 * bits_per_key) as u64;
        let design = Design::for_bits(20_000, bits).unwrap();
        let mut filter = filled(design, 20_000);
        check_rate(&filter, 50_000);
        // Twice as many keys as it was made for: only the rate suffers, as theory says.
        for i in 20_000..40_000 {
            filter.insert(&present(i)).unwrap();
        }
        assert_none_denied(&filter, 40_000);
        let hits = passes(&filter, 50_000) as f64;
        let rate = rate_for(bits, design.probes, 40_000);
        assert!((hits - rate * 50_000.0).abs() <= five_sigma(rate, 50_000) + 1.0);
    }
}

#[test]
fn extreme_rates_work() {
    let strict = filled(Design::for_rate(500, 1e-19).unwrap(), 500);
    assert_none_denied(&strict, 500);
    assert_eq!(passes(&strict, 100_000), 0);
    let lax = filled(Design::for_rate(50_000, 0.999).unwrap(), 50_000);
    assert!(lax.bits() < 200);
    assert_none_denied(&lax, 50_000);
    assert!(lax.current_rate() > 0.99);
}

#[test]
fn a_union_is_the_filter_of_both() {
    let design = Design::for_rate(20_000, 0.01).unwrap();
    let (low, both) = (filled(design, 12_000), filled(design, 20_000));
    let mut high = Classic::new(design).unwrap();
    for i in 8_000..20_000 {
        high.insert(&present(i)).unwrap();
    }
    let union = low.union(&high).unwrap();
    assert_eq!(union.bits, both.bits);
    let within = |estimate: f64, keys: f64, share: f64| {
        assert!(
            (estimate / keys - 1.0).abs() < share,
            "{estimate} of {keys}"
        );
    };
    // The standard deviation of the estimate of 20,000 keys is 0.3 %.
    within(low.estimate(), 12_000.0, 0.02);
    within(low.estimate_union(&high).unwrap(), 20_000.0, 0.02);
    within(union.len() as f64, 20_000.0, 0.02);
    within(low.estimate_intersection(&high).unwrap(), 4_000.0, 0.1);

    let common = low.intersection(&high).unwrap();
    assert!((8_000..12_000).all(|i| common.may_contain(&present(i))));
    assert!(common.current_rate() <= low.current_rate().min(high.current_rate()));
    let trials = 100_000;
    assert!(passes(&common, trials) <= passes(&low, trials));

    let other = Classic::new(Design::for_rate(20_000, 0.02).unwrap()).unwrap();
    let error = low.union(&other).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
}

#[test]
fn a_filter_tells_how_full_it_is() {
    let design = Design::for_rate(1_000, 0.02).unwrap();
    let mut filter = Classic::new(design).unwrap();
    assert_eq!(filter.remaining_capacity(), 1_000);
    fill(&mut filter, 400);
    let left = filter.remaining_capacity();
    assert!((580..=620).contains(&left), "{left}");
    // Again the same keys: nothing changes but the number of insertions.
    fill(&mut filter, 400);
    assert_eq!(filter.remaining_capacity(), left);
    assert_eq!(filter.len(), 800);
    fill(&mut filter, 50_000);
    assert_eq!(filter.remaining_capacity(), 0);
    assert!(filter.fill() > 0.99);
    assert!(filter.probes_read(&present(5)) == design.probes);
    assert!(filter.estimate() > 20_000.0);
}

#[test]
fn sub_arrays_cost_a_little() {
    let mut parted = Partitioned::new(5_000, 0.001).unwrap();
    fill(&mut parted, 5_000);
    assert_eq!(
        parted.bits(),
        parted.part_bits() * u64::from(parted.probes())
    );
    let design = Design::for_rate(5_000, 0.001).unwrap();
    let whole = design.rate();
    let rate = partitioned_rate(parted.part_bits(), parted.probes(), 5_000);
    assert!(rate > 0.9 * whole && rate < 1.1 * whole, "{rate} {whole}");
}

#[test]
fn a_block_costs_more_than_no_block() {
    for (bits, least, most) in [(8.0, 1.02, 1.4), (10.0, 1.05, 1.5), (16.0, 1.5, 4.0)] {
        let mut blocked = Blocked::new(20_000, bits).unwrap();
        fill(&mut blocked, 20_000);
        check_rate(&blocked, 50_000);
        let design = Design::for_bits(20_000, blocked.bits()).unwrap();
        let factor = Blocked::rate_for(20_000, bits) / design.rate();
        assert!((least..most).contains(&factor), "{bits} bits: {factor}");
    }
    for bits in [0.5, 65.0, f64::NAN, f64::NEG_INFINITY] {
        assert!(Blocked::new(1, bits).is_err());
    }
    assert!(Blocked::new(u64::MAX, 8.0).is_err());
}

#[test]
fn an_ensemble_is_no_better_than_one() {
    assert_eq!(filters_for(0.001, 0.1), 3);
    assert_eq!(filters_for(0.0009, 0.1), 4);
    assert_eq!(filters_for(0.5, 0.1), 1);
    for (rate, target) in [(0.1, 0.001), (0.03, 0.001), (0.25, 0.01)] {
        let mut all = Ensemble::new(20_000, rate, target).unwrap();
        fill(&mut all, 20_000);
        check_rate(&all, 100_000);
        // With the number of probes rounded up, a filter of rate 0.1 has one of 0.103.
        assert!(all.expected_rate() <= target * 1.1);
        assert!(all.rate_of_one() <= all.expected_rate() * 1.001);
    }
    assert!(Ensemble::new(10, 0.999_999, 0.01).is_err());
    assert!(Ensemble::new(10, 0.1, 0.0).is_err());
}

#[test]
fn the_front_denies_most() {
    let mut two = Hierarchical::new(10_000, 0.1, 0.001).unwrap();
    fill(&mut two, 10_000);
    let to_back = (0..50_000).filter(|i| two.front().may_contain(&absent(*i)));
    let (to_back, rate) = (to_back.count() as f64, two.front().expected_rate());
    assert!((to_back - rate * 50_000.0).abs() <= five_sigma(rate, 50_000));
    assert!(two.front().bits() < two.back().bits());
    assert!(Hierarchical::new(10, 0.01, 0.1).is_err());
}

/// Filters of bits take twice the keys that they were made for: only the rate suffers, as theory
/// says.
#[test]
fn over_full_filters_follow_theory() {
    fn check(mut filter: impl Insert) {
        fill(&mut filter, 20_000);
        let made_for = filter.expected_rate();
        for i in 20_000..40_000 {
            filter.insert(&present(i)).unwrap();
        }
        assert_none_denied(&filter, 40_000);
        assert!(filter.expected_rate() > 3.0 * made_for);
        check_rate(&filter, 100_000);
    }
    check(Blocked::new(20_000, 10.5).unwrap());
    check(Partitioned::new(20_000, 0.01).unwrap());
    check(Ensemble::new(20_000, 0.1, 0.01).unwrap());
    check(Compressed::new(20_000, 0.01).unwrap());
    check(Hybrid::new(20_000, 0.1, 0.03).unwrap());
    check(Hierarchical::new(20_000, 0.2, 0.01).unwrap());
}

/// Rates near 0 and near 1.
#[test]
fn extreme_rates_work_for_all() {
    fn check(mut filter: impl Insert, passing: bool) {
        fill(&mut filter, 500);
        assert_none_denied(&filter, 500);
        let passed = passes(&filter, 100_000);
        assert!(
            if passing {
                passed > 80_000
            } else {
                passed == 0
            },
            "{passed}"
        );
    }
    check(Blocked::new(500, 64.0).unwrap(), false);
    check(Partitioned::new(500, 1e-15).unwrap(), false);
    check(Ensemble::new(500, 1e-8, 1e-15).unwrap(), false);
    check(Compressed::new(500, 1e-15).unwrap(), false);
    check(Hybrid::new(500, 1e-6, 1e-15).unwrap(), false);
    check(Hierarchical::new(500, 1e-3, 1e-15).unwrap(), false);
    check(Cuckoo::new(500, 1e-14).unwrap(), false);
    check(Quotient::new(500, 1e-14).unwrap(), false);

    check(Partitioned::new(500, 0.99).unwrap(), true);
    check(Ensemble::new(500, 0.99, 0.99).unwrap(), true);
    check(Compressed::new(500, 0.99).unwrap(), true);
    check(Hierarchical::new(500, 0.999, 0.99).unwrap(), true);
    // Each filter would pass all: no number of them reaches the target.
    assert!(Hybrid::new(500, 0.99, 0.9).is_err());
    // Two bits for a fingerprint and one for a remainder are the least, so these stay below.
    let (mut cuckoo, mut quotient) = (
        Cuckoo::new(500, 0.99).unwrap(),
        Quotient::new(500, 0.99).unwrap(),
    );
    fill(&mut cuckoo, 500);
    fill(&mut quotient, 500);
    assert_none_denied(&cuckoo, 500);
    assert_none_denied(&quotient, 500);
    check_rate(&quotient, 100_000);
}
