//! Filters follow the tree: a budget over several levels, policies for some of them, and what is
//! asked.

use criba::{BloomierBits, Db, FilterPolicy, RunStats, SegmentStats, Strategy};

use super::{check_runs, key, rig, settle, small};

fn keys_of(run: &RunStats) -> u64 {
    run.segments.iter().map(|one| one.keys).sum()
}

/// Bits per key of a segment.
fn bits_of_one(segment: &SegmentStats) -> f64 {
    let filter = segment.filter.as_ref();
    filter.map_or(0.0, |filter| filter.r_bits)
}

/// Bits per key of a run, over all its keys.
fn bits_of(run: &RunStats) -> f64 {
    let segments = run.segments.iter();
    let bits = segments.map(|one| bits_of_one(one) * one.keys as f64);
    bits.sum::<f64>() / keys_of(run) as f64
}

/// Bits of memory per key that all filters take, overhead included.
fn memory(runs: &[RunStats]) -> f64 {
    let keys: u64 = runs.iter().map(keys_of).sum();
    let segments = runs.iter().flat_map(|run| &run.segments);
    let bytes: u64 = segments
        .filter_map(|one| Some(one.filter.as_ref()?.pinned_bytes))
        .sum();
    bytes as f64 * 8.0 / keys as f64
}

/// In small portions: flushed runs that wait take bits from the filters that are written
/// meanwhile.
fn load(db: &Db, count: u64) {
    for n in 0..count {
        db.put(key(n * 7919 % count), n.to_le_bytes()).unwrap();
        if n.is_multiple_of(1000) {
            settle(db);
        }
    }
    settle(db);
    check_runs(db, "a budget");
}

#[test]
fn a_budget_is_spent_over_the_whole_tree() {
    for strategy in [Strategy::Leveled, Strategy::LazyLeveled, Strategy::Tiered] {
        for bits_per_key in [6.0, 10.0] {
            let db = small(&rig())
                .strategy(strategy)
                .filter(FilterPolicy::Budget { bits_per_key })
                .open()
                .unwrap();
            load(&db, 60_000);
            let runs = db.stats().runs;
            let tree: Vec<_> = runs
                .iter()
                .map(|run| (run.level, keys_of(run), bits_of(run)))
                .collect();
            let what = format!("{strategy:?}, {bits_per_key} bits: {tree:?} {}", db.stats());
            let deepest = runs.last().unwrap().level;
            assert!(deepest >= 2, "{what}");
            // Of memory, overhead included: about the budget; less while levels above
            // the last are not full, because a filter is as old as its segment and leaves room
            // for those to come; more where parameters take more than a tenth of it, as they do in
            // segments of 3,500 keys of six bits.
            let spent = memory(&runs) / bits_per_key;
            assert!((0.8..1.06).contains(&spent), "{spent}, {what}");
            // Each halving earns a bit, up to what is worth its memory; filters are as old as
            // their segments.
            let last = runs.last().unwrap();
            for run in &runs[..runs.len() - 1] {
                let halvings = (keys_of(last) as f64 / keys_of(run) as f64).log2();
                let more = bits_of(run) - bits_of(last);
                let least = 0.5 * halvings.min(4.0) - 0.5;
                assert!(more > least, "{more} of {halvings}: {what}");
            }
        }
    }
}

/// The second fill moves segments down without rewriting them: keys come in order.
#[test]
fn what_moves_down_gets_a_filter_that_fits() {
    let fixed = |policy| FilterPolicy::Bloomier(BloomierBits::BitsPerKey(policy));
    let db = small(&rig())
        .filter(FilterPolicy::Budget { bits_per_key: 10.0 })
        .open()
        .unwrap();
    for n in 0..40_000 {
        db.put(key(n), n.to_le_bytes()).unwrap();
    }
    settle(&db);
    let runs = db.stats().runs;
    let spent = memory(&runs) / 10.0;
    // What has moved keeps the bits of the tree as it was: a little more than its share now.
    assert!((0.8..1.15).contains(&spent), "{spent}: {}", db.stats());
    // Other policies for other levels: what moves is rewritten.
    let db = small(&rig())
        .filter(fixed(9.0))
        .filter_of_level(0, fixed(20.0))
        .filter_of_level(1, fixed(15.0))
        .filter_of_last_level(FilterPolicy::None)
        .open()
        .unwrap();
    for n in 0..40_000 {
        db.put(key(n), n.to_le_bytes()).unwrap();
    }
    settle(&db);
    let runs = db.stats().runs;
    let last = runs.last().unwrap().level;
    assert!(last >= 2);
    for run in &runs {
        for segment in &run.segments {
            let bits = segment.filter.as_ref().map(|filter| filter.r_bits);
            // A level may have become the next one as it is.
            let expected = match run.level {
                level if level == last => &[None][..],
                0 => &[Some(20.0)],
                1 => &[Some(15.0)],
                _ => &[Some(15.0), Some(9.0)],
            };
            assert!(
                expected.contains(&bits),
                "{bits:?} in level {}: {}",
                run.level,
                db.stats()
            );
        }
    }
}

#[test]
fn a_level_without_filters_is_read_without() {
    let db = small(&rig())
        .filter_of_last_level(FilterPolicy::None)
        .filter_of_level(0, FilterPolicy::Bloom { bits_per_key: 12.0 })
        .open()
        .unwrap();
    load(&db, 20_000);
    db.put(key(1), "new").unwrap();
    db.put(key(19_999), "new").unwrap();
    db.flush().unwrap();
    let runs = db.stats().runs;
    let last = runs.last().unwrap();
    assert!(last.level > 0 && last.segments.iter().all(|one| one.filter.is_none()));
    let kinds = runs
        .iter()
        .filter(|run| run.level == 0)
        .flat_map(|run| &run.segments);
    assert!(
        kinds
            .into_iter()
            .all(|one| one.filter.as_ref().unwrap().kind == "bloom")
    );
    for n in 0..20_000 {
        assert!(db.contains_key(key(n)).unwrap());
    }
}

/// Bug: where a level can have several runs, each segment was taken for a run of its own, which as a
/// small one earned bits that the budget did not have.
#[test]
fn a_rebuilt_filter_is_one_of_its_run() {
    for strategy in [Strategy::Leveled, Strategy::LazyLeveled, Strategy::Tiered] {
        let rig = rig();
        let open = |policy| {
            small(&rig)
                .strategy(strategy)
                .filter(policy)
                .open()
                .unwrap()
        };
        let db = open(FilterPolicy::Bloom { bits_per_key: 4.0 });
        load(&db, 50_000);
        db.close().unwrap();
        let db = open(FilterPolicy::Budget { bits_per_key: 10.0 });
        let rebuilt = db.rebuild_filters(.., |_, _| {}).unwrap();
        assert_eq!(rebuilt.rebuilt, rebuilt.segments);
        let runs = db.stats().runs;
        let what = format!("{strategy:?}: {}", db.stats());
        assert!(runs.last().unwrap().segments.len() > 4, "{what}");
        let spent = memory(&runs) / 10.0;
        // Of segments as small as these a filter rounds up by some per cent, and threads shape the tree.
        assert!((0.85..1.05).contains(&spent), "{spent}, {what}");
        assert_eq!(
            db.rebuild_filters(.., |_, _| {}).unwrap().rebuilt,
            0,
            "{what}"
        );
    }
}

/// The lower half of the keys is asked for absent neighbours all the time, the upper half never. The
/// tree gets deeper meanwhile: levels are renamed, and filters follow as segments are rewritten.
#[test]
fn bits_go_where_absent_keys_are_asked_for() {
    const KEYS: u64 = 60_000;
    let db = small(&rig())
        .filter(FilterPolicy::Budget { bits_per_key: 10.0 })
        .open()
        .unwrap();
    let mut depths = Vec::new();
    for n in 0..2 * KEYS {
        db.put(key(n * 7919 % KEYS), n.to_le_bytes()).unwrap();
        let mut absent = key(n * 104_729 % (KEYS / 2));
        absent.push(b'x');
        assert!(!db.contains_key(absent).unwrap());
        if n.is_multiple_of(1000) {
            settle(&db);
            depths.push(db.stats().runs.last().unwrap().level);
        }
    }
    settle(&db);
    check_runs(&db, "asked for absent keys");
    let stats = db.stats();
    let last = stats.runs.last().unwrap();
    assert!(depths[0] < last.level && last.level >= 3, "{depths:?}");
    let middle = key(KEYS / 2);
    let bits_of_half = |is_lower: bool| {
        let segments = last.segments.iter();
        let half = segments.filter(|one| (*one.last_key < *middle) == is_lower);
        let bits: Vec<f64> = half.map(bits_of_one).collect();
        bits.iter().sum::<f64>() / bits.len() as f64
    };
    let (asked, not_asked) = (bits_of_half(true), bits_of_half(false));
    assert!(asked > not_asked + 3.0, "{asked} {not_asked} {stats}");
    let spent = memory(&stats.runs) / 10.0;
    // What is left is of segments that were written when there was less, and not rewritten since.
    assert!((0.85..1.05).contains(&spent), "{spent}, {stats}");
}

/// One merge writes segments that are asked and segments that are not.
#[test]
fn a_merge_of_everything_leaves_bits_where_they_are_asked_for() {
    const KEYS: u64 = 20_000;
    let db = small(&rig())
        .filter(FilterPolicy::Budget { bits_per_key: 10.0 })
        .open()
        .unwrap();
    load(&db, KEYS);
    for n in 0..KEYS {
        let mut absent = key(n * 7919 % (KEYS / 2));
        absent.push(b'x');
        assert!(!db.contains_key(absent).unwrap());
    }
    db.compact_all().unwrap().wait().unwrap();
    let stats = db.stats();
    assert_eq!(stats.runs.len(), 1, "{stats}");
    let segments = stats.runs[0].segments.iter();
    let bits: Vec<f64> = segments.map(bits_of_one).collect();
    // Twice the mean, and a sixteenth of it.
    assert!(
        (bits[0] - bits[bits.len() - 1] - 5.0).abs() < 0.2,
        "{stats}"
    );
    let spent = memory(&stats.runs) / 10.0;
    assert!((0.85..1.05).contains(&spent), "{spent}, {stats}");
}
