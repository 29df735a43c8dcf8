//! Space-saving and Misra-Gries: the most frequent keys.

use std::collections::BTreeMap;

use criba_filters::{Merge, MisraGries, Sketch, SpaceSaving};

use super::{SplitMix, Stream, check_bytes, check_refused};

fn name(key: u64) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

/// Metwally, Agrawal, El Abbadi 2005, lemmas 3.3 and 3.4, theorem 3.5: for both streams in one as
/// for two that are merged.
fn check_bounds(summary: &SpaceSaving, counts: &BTreeMap<u64, u64>) {
    let total: u64 = counts.values().sum();
    let share = total as f64 / summary.counters() as f64;
    assert_eq!(summary.total(), total);
    assert!(summary.least() as f64 <= share);
    let top = summary.top(usize::MAX);
    assert!(top.len() <= summary.counters());
    assert!(top.is_sorted_by(|one, other| one.count >= other.count));
    for (key, count) in counts {
        let (found, error) = summary.estimate(name(*key));
        assert!(
            found >= *count && found - error <= *count,
            "{key}: {found} {error} {count}"
        );
        assert!(error as f64 <= share, "{key}: {error}");
        if *count as f64 > share {
            assert!(
                top.iter().any(|counter| counter.key == name(*key)),
                "{key}: {count}"
            );
        }
    }
    for counter in &top {
        assert_eq!(
            summary.estimate(&counter.key),
            (counter.count, counter.error)
        );
    }
}

#[test]
fn frequent_keys_are_found() {
    for (exponent, counters) in [(0.0, 100), (0.7, 100), (1.0, 1), (1.0, 500), (1.4, 50)] {
        let stream = Stream::zipf(11, 60_000, 5000, exponent);
        let mut summary = SpaceSaving::with_counters(counters).unwrap();
        stream
            .draws
            .iter()
            .for_each(|key| summary.insert(name(*key)));
        check_bounds(&summary, &stream.counts);
        let sum: u64 = summary
            .top(counters)
            .iter()
            .map(|counter| counter.count)
            .sum();
        assert_eq!(sum, 60_000, "every draw is in one counter");
        let half = stream.draws.len() / 2;
        let mut parts = [0, half].map(|start| {
            let mut part = SpaceSaving::with_counters(counters).unwrap();
            stream.draws[start..][..half]
                .iter()
                .for_each(|key| part.insert(name(*key)));
            part
        });
        let [merged, other] = &mut parts;
        merged.merge(other).unwrap();
        check_bounds(merged, &stream.counts);
    }
}

#[test]
fn the_top_of_a_skewed_stream_is_exact() {
    let stream = Stream::zipf(12, 100_000, 10_000, 1.3);
    let mut summary = SpaceSaving::with_error(0.001).unwrap();
    assert_eq!(summary.counters(), 1000);
    stream
        .draws
        .iter()
        .for_each(|key| summary.insert(name(*key)));
    let mut exact: Vec<(u64, u64)> = stream
        .counts
        .iter()
        .map(|(key, count)| (*count, *key))
        .collect();
    exact.sort_unstable_by(|one, other| other.cmp(one));
    let found: Vec<(u64, Vec<u8>)> = summary
        .top(10)
        .into_iter()
        .map(|counter| (counter.count, counter.key))
        .collect();
    let expected: Vec<(u64, Vec<u8>)> = exact
        .iter()
        .take(10)
        .map(|(count, key)| (*count, name(*key)))
        .collect();
    assert_eq!(found, expected);
}

/// Against a list that does the same in the plainest way, with counts of all sizes.
#[test]
fn the_heap_agrees_with_a_list() {
    let mut random = SplitMix(13);
    for counters in [1, 2, 7, 30] {
        let mut summary = SpaceSaving::with_counters(counters).unwrap();
        let mut counts: Vec<u64> = Vec::new();
        for _ in 0..3000 {
            let (key, count) = (random.next() % 60, random.next() % 5);
            let before = summary.estimate(name(key));
            let is_new = !summary
                .top(counters)
                .iter()
                .any(|counter| counter.key == name(key));
            if is_new {
                counts.sort_unstable();
                match counts.len() < counters {
                    true => counts.push(count),
                    false => counts[0] += count,
                }
            } else {
                let place = counts.iter().position(|found| *found == before.0).unwrap();
                counts[place] += count;
            }
            summary.add(name(key), count);
            let mut found: Vec<u64> = summary.top(counters).iter().map(|one| one.count).collect();
            found.reverse();
            counts.sort_unstable();
            assert_eq!(found, counts);
        }
    }
}

#[test]
fn summaries_at_their_bounds() {
    let mut summary = SpaceSaving::with_counters(3).unwrap();
    assert_eq!(
        (
            summary.estimate(b"x"),
            summary.top(5).len(),
            summary.total()
        ),
        ((0, 0), 0, 0)
    );
    check_bytes(&summary, SpaceSaving::to_bytes, |bytes| {
        // The frame of an empty one is what another structure is tried with.
        let read = SpaceSaving::from_bytes(bytes)?;
        match read.counters() {
            1 => criba_filters::LogLog::from_bytes(bytes).map(|_| read),
            _ => Ok(read),
        }
    });
    for key in [&b""[..], b"a", b"a", &[0xff; 300]] {
        summary.insert(key);
    }
    assert_eq!(
        (summary.estimate(b"a"), summary.estimate(b"x")),
        ((2, 0), (1, 1))
    );
    summary.add(b"x", u64::MAX);
    summary.add(b"x", 1);
    assert_eq!(summary.estimate(b"x"), (u64::MAX, 1));
    let bytes = summary.to_bytes();
    assert_eq!(SpaceSaving::from_bytes(&bytes).unwrap(), summary);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(SpaceSaving::from_bytes(&damaged).is_err(), "byte {at}");
    }
    let empty = SpaceSaving::with_counters(3).unwrap();
    let before = summary.clone();
    summary.merge(&empty).unwrap();
    assert_eq!(summary, before);
    check_refused(summary.merge(&SpaceSaving::with_counters(4).unwrap()));
    check_refused(SpaceSaving::with_counters(0));
    check_refused(SpaceSaving::with_counters(usize::MAX));
    check_refused(SpaceSaving::with_error(0.0));
    check_refused(SpaceSaving::with_error(1e-15));
}

/// Misra and Gries 1982; Agarwal and others 2012, section 3: never too high, too low by at most what
/// was taken, which is at most what the rest of the stream pays for.
fn check_lower_bounds(summary: &MisraGries, counts: &BTreeMap<u64, u64>) {
    let total: u64 = counts.values().sum();
    let places = summary.counters() as u64 + 1;
    let top = summary.top(usize::MAX);
    let counted: u64 = top.iter().map(|one| one.1).sum();
    assert_eq!(summary.total(), total);
    assert!(summary.error() * places <= total - counted);
    assert!(top.len() <= summary.counters());
    assert!(top.is_sorted_by(|one, other| one.1 >= other.1));
    for (key, count) in counts {
        let found = summary.estimate(name(*key));
        assert!(
            found <= *count && found + summary.error() >= *count,
            "{key}: {found} {count}"
        );
        if *count > total / places {
            assert!(top.iter().any(|one| one.0 == name(*key)), "{key}: {count}");
        }
    }
}

#[test]
fn frequent_keys_are_never_counted_too_high() {
    for (exponent, counters) in [(0.0, 100), (0.7, 100), (1.0, 1), (1.0, 500), (1.4, 50)] {
        let stream = Stream::zipf(11, 60_000, 5000, exponent);
        let of = |draws: &[u64]| {
            let mut summary = MisraGries::with_counters(counters).unwrap();
            draws.iter().for_each(|key| summary.insert(name(*key)));
            summary
        };
        check_lower_bounds(&of(&stream.draws), &stream.counts);
        let (left, right) = stream.draws.split_at(20_000);
        let mut merged = of(left);
        merged.merge(&of(right)).unwrap();
        check_lower_bounds(&merged, &stream.counts);
        // Counts of all sizes, one key after the other.
        let mut added = MisraGries::with_counters(counters).unwrap();
        for (key, count) in &stream.counts {
            added.add(name(*key), *count);
        }
        check_lower_bounds(&added, &stream.counts);
    }
}

/// Agarwal and others 2012, section 3: space-saving with one counter more, less its least count.
#[test]
fn misra_gries_is_space_saving_from_below() {
    for (exponent, counters) in [(0.5, 30), (1.0, 10), (1.3, 100)] {
        let stream = Stream::zipf(14, 20_000, 1000, exponent);
        let mut below = MisraGries::with_counters(counters).unwrap();
        let mut above = SpaceSaving::with_counters(counters + 1).unwrap();
        for key in &stream.draws {
            below.insert(name(*key));
            above.insert(name(*key));
        }
        assert_eq!(below.error(), above.least());
        for key in stream.counts.keys() {
            let found = above.estimate(name(*key)).0 - above.least();
            assert_eq!(below.estimate(name(*key)), found, "{key}");
        }
    }
}

#[test]
fn misra_gries_at_its_bounds() {
    let mut summary = MisraGries::with_error(0.25).unwrap();
    assert_eq!(summary.counters(), 3);
    check_bytes(&summary, MisraGries::to_bytes, MisraGries::from_bytes);
    for key in [&b""[..], b"a", b"a", &[0xff; 300]] {
        summary.insert(key);
    }
    // The fourth key lowers all, and two counters become free.
    summary.insert(b"x");
    assert_eq!(
        (summary.top(5), summary.error(), summary.total()),
        (vec![(b"a".to_vec(), 1)], 1, 5)
    );
    check_bytes(&summary, MisraGries::to_bytes, MisraGries::from_bytes);
    summary.add(b"never", 0);
    assert_eq!(summary.top(5).len(), 1);
    summary.add(b"x", u64::MAX);
    summary.add(b"x", 1);
    summary.add(b"a", u64::MAX);
    assert_eq!(summary.estimate(b"x"), u64::MAX);
    let bytes = summary.to_bytes();
    assert_eq!(MisraGries::from_bytes(&bytes).unwrap(), summary);
    let mut twice = summary.clone();
    twice.merge(&summary).unwrap();
    assert_eq!(twice.top(9), summary.top(9));
    let before = summary.clone();
    summary
        .merge(&MisraGries::with_counters(3).unwrap())
        .unwrap();
    assert_eq!(summary, before);
    check_refused(summary.merge(&MisraGries::with_counters(4).unwrap()));
    check_refused(MisraGries::with_counters(0));
    check_refused(MisraGries::with_counters(usize::MAX));
    check_refused(MisraGries::with_error(0.0));
    check_refused(MisraGries::with_error(1e-15));
}
