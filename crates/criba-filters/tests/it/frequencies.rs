//! Count-min, count sketch, tug of war: errors against Zipf streams.

use criba_filters::{CountMin, CountSketch, Merge, Sketch, TugOfWar, Update};

use super::{Stream, check_bytes, check_refused, hash};

/// Cormode and Muthukrishnan 2005, theorem 1: no estimate is too low, and a share of at most
/// `delta` is too high by more than `epsilon N`. With conservative update the same, and better.
#[test]
fn count_min_keeps_its_bound() {
    for exponent in [0.0, 0.8, 1.1, 1.5] {
        let stream = Stream::zipf(3, 200_000, 50_000, exponent);
        let plain = CountMin::with_error(0.002, 0.05).unwrap();
        assert_eq!(plain.shape(), (1360, 3));
        let mut sketches = [plain.clone().with_update(Update::Conservative), plain];
        for hash in stream.hashes() {
            sketches.iter_mut().for_each(|sketch| sketch.insert(hash));
        }
        let mut sums = Vec::new();
        for sketch in &sketches {
            let bound = 0.002 * stream.len();
            assert!((sketch.error_bound() / bound - 1.0).abs() < 0.01);
            let (mut sum, mut over) = (0, 0);
            for (key, count) in &stream.counts {
                let found = sketch.estimate(stream.hash(*key));
                assert!(found >= *count);
                sum += found - count;
                over += usize::from((found - count) as f64 > bound);
            }
            let share = over as f64 / stream.counts.len() as f64;
            assert!(share <= 0.05, "{exponent}: {share}");
            sums.push(sum);
        }
        assert!(10 * sums[0] < 8 * sums[1], "{exponent}: {sums:?}");
    }
}

#[test]
fn merged_count_min_sketches_are_those_of_one_stream() {
    let stream = Stream::zipf(4, 20_000, 5000, 1.0);
    for update in [Update::Plain, Update::Conservative] {
        let mut whole = CountMin::with_shape(300, 4).unwrap().with_update(update);
        let mut parts = [whole.clone(), whole.clone(), whole.clone()];
        for (ordinal, hash) in stream.hashes().enumerate() {
            whole.insert(hash);
            parts[ordinal % 3].insert(hash);
        }
        let [mut merged, second, third] = parts;
        merged.merge(&second).unwrap();
        merged.merge(&third).unwrap();
        assert_eq!(merged.total(), whole.total());
        if update == Update::Plain {
            assert_eq!(merged, whole);
        }
        for (key, count) in &stream.counts {
            assert!(merged.estimate(stream.hash(*key)) >= *count);
        }
        check_bytes(&whole, CountMin::to_bytes, CountMin::from_bytes);
    }
}

#[test]
fn count_min_at_its_bounds() {
    let mut sketch = CountMin::with_shape(1, 1).unwrap();
    assert_eq!(sketch.estimate(hash(1, 1)), 0);
    check_bytes(&sketch, CountMin::to_bytes, CountMin::from_bytes);
    sketch.add(hash(1, 1), 5);
    sketch.add(hash(1, 2), u64::MAX);
    assert_eq!(
        (sketch.estimate(hash(1, 3)), sketch.total()),
        (u64::MAX, u64::MAX)
    );
    check_refused(sketch.merge(&CountMin::with_shape(2, 1).unwrap()));
    let other = CountMin::with_shape(1, 1)
        .unwrap()
        .with_update(Update::Conservative);
    check_refused(sketch.merge(&other));
    check_refused(CountMin::with_shape(0, 1));
    check_refused(CountMin::with_shape(5, 0));
    check_refused(CountMin::with_shape(5, 65));
    check_refused(CountMin::with_shape(u64::MAX, 5));
    check_refused(CountMin::with_error(0.0, 0.1));
    check_refused(CountMin::with_error(0.1, 1.0));
    check_refused(CountMin::with_error(1e-12, 0.1));
}

/// Charikar, Chen, Farach-Colton 2002: a share of at most `delta` is off by more than
/// `epsilon sqrt(F2)`, either way alike.
#[test]
fn count_sketches_keep_their_bound() {
    for exponent in [0.0, 0.8, 1.1, 1.5] {
        let stream = Stream::zipf(6, 200_000, 50_000, exponent);
        let (epsilon, delta) = (0.05, 0.02);
        let mut sketch = CountSketch::with_error(epsilon, delta).unwrap();
        stream.hashes().for_each(|hash| sketch.insert(hash));
        let bound = epsilon * stream.second_moment().sqrt();
        let mut over = 0;
        for (key, count) in &stream.counts {
            let off = (sketch.estimate(stream.hash(*key)) - *count as i64) as f64;
            over += usize::from(off.abs() > bound);
        }
        let share = over as f64 / stream.counts.len() as f64;
        assert!(share <= delta, "{exponent}: {share}");
        let moment = sketch.second_moment() / stream.second_moment() - 1.0;
        let deviation = (2.0 / sketch.shape().0 as f64).sqrt();
        assert!(moment.abs() < 4.0 * deviation, "{exponent}: {moment}");
    }
}

/// The mean over many hash functions is the count, of a frequent key as of one that never came.
#[test]
fn count_sketches_have_no_bias() {
    let stream = Stream::zipf(10, 5000, 1000, 1.0);
    for key in [0, 9, 1 << 40] {
        let exact = stream.counts.get(&key).copied().unwrap_or(0);
        let error = |seed| {
            let mut sketch = CountSketch::with_shape(40, 3).unwrap();
            for (key, count) in &stream.counts {
                sketch.add(hash(seed, *key), *count as i64);
            }
            (sketch.estimate(hash(seed, key)) - exact as i64) as f64
        };
        let errors: Vec<f64> = (0..100).map(error).collect();
        let mean = errors.iter().sum::<f64>() / 100.0;
        let deviation = (errors.iter().map(|error| error * error).sum::<f64>() / 100.0).sqrt();
        assert!(
            deviation > 1.0 && mean.abs() < 4.0 * deviation / 10.0,
            "{key}: {mean} {deviation}"
        );
    }
}

#[test]
fn count_sketches_are_linear() {
    let stream = Stream::zipf(8, 20_000, 5000, 1.0);
    let empty = CountSketch::with_shape(200, 5).unwrap();
    let (mut whole, mut parts) = (empty.clone(), [empty.clone(), empty.clone()]);
    for (ordinal, hash) in stream.hashes().enumerate() {
        whole.insert(hash);
        parts[ordinal % 2].insert(hash);
    }
    let [mut merged, other] = parts;
    merged.merge(&other).unwrap();
    assert_eq!(merged, whole);
    check_bytes(&whole, CountSketch::to_bytes, CountSketch::from_bytes);
    stream.hashes().for_each(|hash| whole.add(hash, -1));
    assert_eq!(whole, empty);
    assert_eq!(
        (empty.estimate(hash(1, 1)), empty.second_moment()),
        (0, 0.0)
    );
    // Beyond 63 bits and back.
    whole.add(hash(1, 1), i64::MIN);
    whole.add(hash(1, 1), i64::MIN);
    assert_eq!(whole, empty);
    check_refused(whole.merge(&CountSketch::with_shape(200, 3).unwrap()));
    check_refused(CountSketch::with_shape(200, 0));
    check_refused(CountSketch::with_shape(200, 4));
    check_refused(CountSketch::with_shape(0, 3));
    check_refused(CountSketch::with_error(1.0, 0.1));
    check_refused(CountSketch::with_error(1e-9, 0.1));
}

/// Alon, Matias, Szegedy 1996, theorem 2.2: the standard deviation of one mean is at most `sqrt(2 /
/// width)` of the second moment, and a share of at most `delta` of the medians is off by more than
/// `epsilon`.
#[test]
fn tugs_of_war_keep_their_bound() {
    let (epsilon, delta) = (0.15, 0.02);
    for exponent in [0.0, 0.9, 1.4] {
        let (mut over, mut squares, trials) = (0, 0.0, 40);
        for seed in 0..trials {
            let stream = Stream::zipf(seed, 3000, 1000, exponent);
            let exact = stream.second_moment();
            let mut sketch = TugOfWar::with_error(epsilon, delta).unwrap();
            let mut single = TugOfWar::with_shape(200, 1).unwrap();
            for (key, count) in &stream.counts {
                sketch.add(stream.hash(*key), *count as i64);
                single.add(stream.hash(*key), *count as i64);
            }
            over += usize::from((sketch.estimate() / exact - 1.0).abs() > epsilon);
            squares += (single.estimate() / exact - 1.0).powi(2);
        }
        assert!(
            over as f64 <= delta * trials as f64,
            "{exponent}: {over} of {trials}"
        );
        let deviation = (squares / trials as f64).sqrt();
        // The standard deviation of a standard deviation of 40 trials is 11 %.
        assert!(deviation < 0.1 * 1.4, "{exponent}: {deviation}");
    }
}

#[test]
fn tugs_of_war_are_linear() {
    let stream = Stream::zipf(9, 2000, 500, 1.0);
    let empty = TugOfWar::with_shape(70, 3).unwrap();
    assert_eq!(
        (empty.estimate(), empty.standard_error()),
        (0.0, (2.0_f64 / 70.0).sqrt())
    );
    let (mut whole, mut parts) = (empty.clone(), [empty.clone(), empty.clone()]);
    for (ordinal, hash) in stream.hashes().enumerate() {
        whole.insert(hash);
        parts[ordinal % 2].insert(hash);
    }
    let [mut merged, other] = parts;
    merged.merge(&other).unwrap();
    assert_eq!(merged, whole);
    check_bytes(&whole, TugOfWar::to_bytes, TugOfWar::from_bytes);
    stream.hashes().for_each(|hash| whole.add(hash, -1));
    assert_eq!(whole, empty);
    // One key alone pulls each rope by its count.
    whole.add(hash(1, 1), -30);
    assert_eq!(whole.estimate(), 900.0);
    check_refused(whole.merge(&TugOfWar::with_shape(71, 3).unwrap()));
    check_refused(TugOfWar::with_shape(70, 0));
    check_refused(TugOfWar::with_shape(70, 2));
    check_refused(TugOfWar::with_shape(0, 1));
    check_refused(TugOfWar::with_error(0.1, 0.0));
    check_refused(TugOfWar::with_error(1e-9, 0.1));
}
