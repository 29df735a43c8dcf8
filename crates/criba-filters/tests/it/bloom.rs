//! Counting, spectral and layered Bloom filters.

use criba_filters::{
    CountingBloom, Delete, Insert, LayeredBloom, Membership, Merge, Sketch, SpectralBloom,
};

use super::{SplitMix, Stream, check_bytes, check_refused, check_share, hash};

/// Puts keys of a seed into a filter that is never full.
fn put(filter: &mut CountingBloom, (seed, keys): (u64, std::ops::Range<u64>)) {
    for key in keys {
        filter.insert(hash(seed, key)).unwrap();
    }
}

#[test]
fn counting_filters_take_keys_out_again() {
    let keys = 20_000;
    let mut filter = CountingBloom::with_rate(keys, 0.01).unwrap();
    assert!(!filter.remove(hash(1, 0)), "nothing is there");
    put(&mut filter, (1, 0..keys));
    assert!((0..keys).all(|key| filter.may_contain(hash(1, key))));
    let passes = |filter: &CountingBloom| {
        let absent = 1 << 40..(1 << 40) + 100_000;
        absent
            .filter(|key| filter.may_contain(hash(1, *key)))
            .count()
    };
    check_share(passes(&filter), 100_000, filter.rate_with(keys));
    check_share(passes(&filter), 100_000, filter.current_rate());
    assert_eq!((filter.len(), filter.full()), (keys, 0.0));
    let half = filter.fill();
    assert!((0.49..0.53).contains(&half), "{half}");

    let before = filter.clone();
    let more = keys..2 * keys;
    put(&mut filter, (1, more.clone()));
    check_share(passes(&filter), 100_000, filter.rate_with(2 * keys));
    assert!(more.clone().all(|key| filter.remove(hash(1, key))));
    assert_eq!(filter, before);
    assert!((0..keys).all(|key| filter.remove(hash(1, key))));
    assert_eq!((filter.fill(), filter.is_empty()), (0.0, true));
}

/// Where two numbers stand for `k` hashes, some keys have bad luck: in a small filter of low rate
/// that would be several times the rate itself.
#[test]
fn small_filters_of_low_rate_keep_it() {
    let (mut passing, mut expected) = (0, 0.0);
    for seed in 0..50 {
        let mut filter = CountingBloom::with_rate(200, 1e-5).unwrap();
        put(&mut filter, (seed, 0..200));
        let absent = 1 << 40..(1 << 40) + 40_000;
        passing += absent
            .filter(|key| filter.may_contain(hash(seed, *key)))
            .count();
        expected += 40_000.0 * filter.rate_with(200);
    }
    assert!(
        (passing as f64) < 2.2 * expected,
        "{passing}, {expected} are expected"
    );
}

/// A counter that has reached 15 knows no longer for how many keys it stands.
#[test]
fn full_counters_stay() {
    let mut filter = CountingBloom::with_rate(100, 0.01).unwrap();
    let (often, once) = (hash(1, 1), hash(1, 2));
    for count in 1..=20 {
        filter.insert(often).unwrap();
        assert_eq!(filter.estimate(often), count.min(15));
    }
    filter.insert(once).unwrap();
    assert!((0..20).all(|_| filter.remove(often)));
    assert_eq!(filter.estimate(often), 15);
    assert!(filter.full() > 0.0 && filter.may_contain(once) && filter.remove(once));
    // Far more keys than it was made for: everything passes, nothing is lost, nothing panics.
    put(&mut filter, (2, 0..10_000));
    assert!((0..10_000).all(|key| filter.may_contain(hash(2, key))));
    assert_eq!(
        (filter.fill(), filter.full(), filter.current_rate()),
        (1.0, 1.0, 1.0)
    );
    assert!((0..10_000).all(|key| filter.remove(hash(2, key))));
    assert!((0..10_000).all(|key| filter.may_contain(hash(2, key))));
}

/// A removal that meets a full counter, which stays, is not counted: an empty filter denies all.
#[test]
fn a_filter_is_empty_only_when_it_denies_all() {
    let mut filter = CountingBloom::with_rate(100, 0.01).unwrap();
    let key = hash(1, 1);
    (0..100).for_each(|_| filter.insert(key).unwrap());
    assert!((0..100).all(|_| filter.remove(key)));
    assert!(filter.may_contain(key));
    assert_eq!((filter.len(), filter.is_empty()), (100, false));

    // So few counters that some are full now and then.
    let mut random = SplitMix(7);
    let mut emptied = 0;
    for _ in 0..300 {
        let mut filter = CountingBloom::with_shape(40, 3).unwrap();
        let count = random.next() % 120;
        put(&mut filter, (2, 0..count));
        assert!((0..count).all(|key| filter.remove(hash(2, key))));
        assert_eq!(filter.is_empty(), filter.fill() == 0.0, "{count} keys");
        emptied += u32::from(filter.is_empty());
    }
    assert!((50..250).contains(&emptied), "{emptied}");
}

#[test]
fn merged_counting_filters_are_those_of_one_stream() {
    for count in [0, 1, 500, 5000] {
        let mut whole = CountingBloom::with_rate(500, 0.02).unwrap();
        let mut parts = [whole.clone(), whole.clone()];
        for key in 0..count {
            whole.insert(hash(3, key % 700)).unwrap();
            parts[(key % 2) as usize]
                .insert(hash(3, key % 700))
                .unwrap();
        }
        let [mut left, right] = parts;
        left.merge(&right).unwrap();
        assert_eq!(left, whole);
        check_bytes(&whole, CountingBloom::to_bytes, CountingBloom::from_bytes);
    }
    let mut one = CountingBloom::with_shape(1001, 3).unwrap();
    one.insert(hash(1, 1)).unwrap();
    check_bytes(&one, CountingBloom::to_bytes, CountingBloom::from_bytes);
    check_refused(one.merge(&CountingBloom::with_shape(1001, 4).unwrap()));
    check_refused(CountingBloom::with_shape(0, 3));
    check_refused(CountingBloom::with_shape(1 << 33, 3));
    check_refused(CountingBloom::with_shape(100, 0));
    check_refused(CountingBloom::with_shape(100, 65));
    check_refused(CountingBloom::with_rate(100, 0.0));
    check_refused(CountingBloom::with_rate(u64::MAX, 0.5));
    for rate in [1e-12, 1.0 - 1e-9] {
        let mut filter = CountingBloom::with_rate(0, rate).unwrap();
        assert!(!filter.may_contain(hash(1, 1)));
        filter.insert(hash(1, 1)).unwrap();
        assert!(filter.may_contain(hash(1, 1)));
    }
}

/// Cohen and Matias 2003, claim 1: no count is too low, and a share of at most the rate of false
/// positives is too high.
#[test]
fn spectral_counts_are_seldom_too_high() {
    for exponent in [0.0, 0.8, 1.2] {
        let stream = Stream::zipf(5, 200_000, 20_000, exponent);
        let distinct = stream.counts.len() as u64;
        let mut filter = SpectralBloom::with_rate(distinct, 0.05).unwrap();
        let mut halves = [filter.clone(), filter.clone()];
        for (ordinal, hash) in stream.hashes().enumerate() {
            filter.insert(hash);
            halves[ordinal % 2].insert(hash);
        }
        let [mut merged, other] = halves;
        merged.merge(&other).unwrap();
        let mut wrong = 0;
        for (key, count) in &stream.counts {
            let found = u64::from(filter.estimate(stream.hash(*key)));
            assert!(found >= *count && u64::from(merged.estimate(stream.hash(*key))) >= *count);
            wrong += usize::from(found > *count);
        }
        let share = wrong as f64 / distinct as f64;
        assert!(share < 0.05, "{exponent}: {share}");
        assert_eq!((filter.total(), merged.total()), (200_000, 200_000));
        // Keys that never came: as any Bloom filter.
        let absent = (1 << 40)..(1 << 40) + 100_000;
        let passes = absent
            .filter(|key| filter.may_contain(stream.hash(*key)))
            .count();
        check_share(passes, 100_000, filter.current_rate());
        check_share(passes, 100_000, filter.rate_with(distinct));
    }
}

#[test]
fn spectral_filters_at_their_bounds() {
    let mut filter = SpectralBloom::with_rate(100, 0.01).unwrap();
    assert_eq!((filter.estimate(hash(1, 1)), filter.fill()), (0, 0.0));
    check_bytes(&filter, SpectralBloom::to_bytes, SpectralBloom::from_bytes);
    filter.add(hash(1, 1), u32::MAX);
    filter.insert(hash(1, 1));
    assert_eq!(filter.estimate(hash(1, 1)), u32::MAX);
    let other = filter.clone();
    filter.merge(&other).unwrap();
    assert_eq!(filter.estimate(hash(1, 1)), u32::MAX);
    (0..10_000).for_each(|key| filter.insert(hash(1, key)));
    assert!((0..10_000).all(|key| filter.may_contain(hash(1, key))));
    check_bytes(&filter, SpectralBloom::to_bytes, SpectralBloom::from_bytes);
    check_refused(filter.merge(&SpectralBloom::with_rate(101, 0.01).unwrap()));
    check_refused(SpectralBloom::with_shape(0, 1));
    check_refused(SpectralBloom::with_shape(5, 0));
    check_refused(SpectralBloom::with_rate(5, f64::NAN));
}

/// Layers as large as a stream needs them: a key that came `c` times is in the first `c`.
#[test]
fn layers_count_up_to_their_number() {
    for (exponent, rate) in [(0.5, 0.01), (1.0, 0.05), (1.3, 0.001)] {
        let stream = Stream::zipf(7, 100_000, 20_000, exponent);
        let at_least = |times| {
            stream
                .counts
                .values()
                .filter(|count| **count >= times)
                .count() as u64
        };
        let sizes: Vec<u64> = (1..=8).map(at_least).collect();
        let mut layers = LayeredBloom::with_rate(rate, &sizes).unwrap();
        for hash in stream.hashes() {
            let before = layers.increment(hash);
            // More where the next layer holds it by chance.
            assert!(layers.estimate(hash) >= (before + 1).min(8));
        }
        let mut too_high = 0;
        for (key, count) in &stream.counts {
            let found = u64::from(layers.estimate(stream.hash(*key)));
            assert!(found >= (*count).min(8) && found <= 8);
            too_high += usize::from(found > *count);
        }
        // Each time a key comes, the layer it should be written to may hold it by chance.
        let share = too_high as f64 / stream.counts.len() as f64;
        assert!(share < 3.0 * rate, "{exponent} {rate}: {share}");
        let absent = (1 << 40)..(1 << 40) + 100_000;
        let passes = absent
            .filter(|key| layers.may_contain(stream.hash(*key)))
            .count();
        check_share(passes, 100_000, layers.current_rate(0).unwrap());
        check_share(passes, 100_000, layers.rate_with(0, sizes[0]).unwrap());
        assert!(layers.current_rate(8).is_none() && layers.rate_with(8, 1).is_none());
    }
}

#[test]
fn layers_at_their_bounds() {
    let mut layers = LayeredBloom::with_rate(0.01, &[50, 0, 7]).unwrap();
    assert_eq!((layers.layers(), layers.estimate(hash(1, 1))), (3, 0));
    check_bytes(&layers, LayeredBloom::to_bytes, LayeredBloom::from_bytes);
    for before in [0, 1, 2, 3, 3] {
        assert_eq!(layers.increment(hash(1, 1)), before);
    }
    (0..1000).for_each(|key| assert!(layers.increment(hash(2, key)) <= 3));
    assert!((0..1000).all(|key| layers.may_contain(hash(2, key))));
    check_bytes(&layers, LayeredBloom::to_bytes, LayeredBloom::from_bytes);
    check_refused(LayeredBloom::with_rate(0.01, &[]));
    check_refused(LayeredBloom::with_rate(0.01, &[1; 256]));
    check_refused(LayeredBloom::with_rate(1.0, &[1]));
    check_refused(LayeredBloom::with_rate(0.01, &[1, u64::MAX]));
}

/// Merged layers are never too low, up to their number, and of one key in both streams tell the
/// sum.
#[test]
fn merged_layers_add_up() {
    let sizes = [2000, 1000, 500, 250];
    let stream = Stream::zipf(9, 20_000, 4000, 0.9);
    let mut parts: Vec<LayeredBloom> = (0..3)
        .map(|_| LayeredBloom::with_rate(0.001, &sizes).unwrap())
        .collect();
    for (ordinal, hash) in stream.hashes().enumerate() {
        parts[ordinal % 3].insert(hash);
    }
    let mut merged = parts[0].clone();
    merged.merge(&parts[1]).unwrap();
    merged.merge(&parts[2]).unwrap();
    assert_eq!((merged.stacks(), merged.layers()), (3, 4));
    let mut too_high = 0;
    for (key, count) in &stream.counts {
        let found = u64::from(merged.estimate(stream.hash(*key)));
        let single: u64 = parts
            .iter()
            .map(|part| u64::from(part.estimate(stream.hash(*key))))
            .sum();
        assert_eq!(found, single.min(4));
        assert!(found >= (*count).min(4));
        too_high += usize::from(found > *count);
    }
    let share = too_high as f64 / stream.counts.len() as f64;
    assert!(share < 0.02, "{share}");
    let absent = (1 << 40)..(1 << 40) + 100_000;
    let passes = absent.filter(|key| merged.may_contain(stream.hash(*key)));
    check_share(passes.count(), 100_000, merged.current_rate(0).unwrap());
    // It counts on.
    let new = hash(77, 1);
    for count in 1..=6 {
        merged.insert(new);
        assert!(merged.estimate(new) >= count.min(4));
    }
    let back = LayeredBloom::from_bytes(&merged.to_bytes()).unwrap();
    assert_eq!(back, merged);
    let mut small = LayeredBloom::with_rate(0.1, &[20, 10]).unwrap();
    small.insert(hash(1, 1));
    small.merge(&small.clone()).unwrap();
    assert_eq!(small.estimate(hash(1, 1)), 2);
    check_bytes(&small, LayeredBloom::to_bytes, LayeredBloom::from_bytes);
    check_refused(small.merge(&LayeredBloom::with_rate(0.1, &[20]).unwrap()));
    check_refused(small.merge(&LayeredBloom::with_rate(0.1, &[20, 11]).unwrap()));
    for _ in 0..7 {
        check_grown(&mut small);
    }
    check_refused(small.merge(&small.clone()));
}

/// Merges a structure with itself, as long as it stays below 255 stacks.
fn check_grown(layers: &mut LayeredBloom) {
    let stacks = u32::from(layers.stacks());
    let twin = layers.clone();
    match layers.merge(&twin) {
        Ok(()) => assert_eq!(u32::from(layers.stacks()), 2 * stacks),
        Err(error) => assert!(2 * stacks > 255, "{error}"),
    }
}
