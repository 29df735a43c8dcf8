//! Given these segments, this plan.

use super::*;

const MB: u64 = 1 << 20;

/// A segment from `first` to `last`, of so many megabytes.
fn segment(id: u64, range: &str, megabytes: u64) -> SegmentFacts {
    let (first, last) = range.split_once('-').unwrap();
    SegmentFacts {
        id,
        bytes: megabytes * MB,
        entries: megabytes * 1000,
        tombstones: 0,
        age: None,
        first_key: first.into(),
        last_key: last.into(),
        busy: false,
    }
}

fn run(level: u32, number: u64, segments: &[SegmentFacts]) -> RunFacts {
    RunFacts {
        level,
        number,
        segments: segments.to_vec(),
        hidden_bytes: 0,
    }
}

fn shape(strategy: Strategy) -> TreeShape {
    TreeShape {
        strategy,
        ratio: 4,
        level0_runs: 2,
        base_bytes: 10 * MB,
        merge_when_idle: true,
        merge_levels_whole: true,
    }
}

fn merge(inputs: &[u64], level: u32, target: Target) -> Option<Plan> {
    Some(Plan::Merge {
        inputs: inputs.to_vec(),
        level,
        target,
    })
}

#[test]
fn nothing_to_do_in_an_empty_or_fitting_tree() {
    for strategy in [
        Strategy::Leveled,
        Strategy::Tiered,
        Strategy::LazyLeveled,
        Strategy::Fifo {
            bytes: 100 * MB,
            age: None,
        },
    ] {
        assert_eq!(plan(&[], &shape(strategy)), None);
        let runs = [run(0, 1, &[segment(1, "a-z", 3)])];
        assert_eq!(plan(&runs, &shape(strategy)), None, "{strategy:?}");
    }
}

#[test]
fn leveled_takes_all_flushed_runs_down_with_what_they_overlap() {
    let level1 = run(
        1,
        9,
        &[
            segment(1, "a-c", 2),
            segment(2, "d-f", 2),
            segment(3, "x-z", 2),
        ],
    );
    let runs = [
        run(0, 12, &[segment(12, "b-e", 2)]),
        run(0, 11, &[segment(11, "e-g", 2)]),
        level1,
    ];
    let expected = merge(&[12, 11, 1, 2], 1, Target::Join(9));
    assert_eq!(plan(&runs, &shape(Strategy::Leveled)), expected);
}

/// The merge would write more of level 1 anew than comes to it.
#[test]
fn leveled_waits_for_more_flushed_runs_where_much_overlaps_them() {
    let level1 = run(1, 9, &[segment(1, "a-m", 2), segment(2, "n-z", 2)]);
    let level2 = run(2, 8, &[segment(3, "a-z", 20)]);
    let flushed = |count| (0..count).map(|n| run(0, 30 - n, &[segment(30 - n, "b-y", 1)]));
    let plan_with = |count| {
        let runs: Vec<RunFacts> = flushed(count)
            .chain([level1.clone(), level2.clone()])
            .collect();
        assert_eq!(debt_bytes(&runs, &shape(Strategy::Leveled)) > 0, count > 3);
        plan(&runs, &shape(Strategy::Leveled))
    };
    assert_eq!([plan_with(2), plan_with(3)], [None, None]);
    let expected = merge(&[30, 29, 28, 27, 1, 2], 1, Target::Join(9));
    assert_eq!(plan_with(4), expected);
    // As large as what overlaps them, they go down at once.
    let runs = [
        run(0, 12, &[segment(12, "b-e", 1)]),
        run(0, 11, &[segment(11, "c-f", 1)]),
        level1.clone(),
        level2.clone(),
    ];
    let expected = merge(&[12, 11, 1], 1, Target::Join(9));
    assert_eq!(plan(&runs, &shape(Strategy::Leveled)), expected);
    // And where nothing lies below, reads matter more.
    let runs: Vec<RunFacts> = flushed(2).chain([level1.clone()]).collect();
    let expected = merge(&[30, 29, 1, 2], 1, Target::Join(9));
    assert_eq!(plan(&runs, &shape(Strategy::Leveled)), expected);
}

/// Levels in the default ratio.
fn wide() -> TreeShape {
    TreeShape {
        ratio: 10,
        ..shape(Strategy::Leveled)
    }
}

/// Flushed runs and levels in ratios that writers at work may leave.
#[test]
fn an_idle_tree_merges_what_is_alike() {
    let tree = |sizes: &[(u32, u64)]| {
        let one = |(n, (level, megabytes)): (u64, &(u32, u64))| {
            run(*level, 30 - n, &[segment(30 - n, "b-y", *megabytes)])
        };
        (0..).zip(sizes).map(one).collect::<Vec<_>>()
    };
    let merged = |sizes: &[(u32, u64)]| while_idle(&tree(sizes), &wide());
    let of = |plan, megabytes: u64| Some((plan?, megabytes * MB));
    // Flushed runs stay newer than what is flushed meanwhile; a level keeps its run.
    let flushed = merge(&[30, 29], 0, Target::Join(30));
    assert_eq!(merged(&[(0, 1), (0, 8), (1, 73)]), of(flushed, 9));
    let all = merge(&[30, 29, 28], 1, Target::Join(28));
    assert_eq!(merged(&[(0, 1), (0, 8), (1, 72)]), of(all, 81));
    let all = || merge(&[30, 29, 28], 2, Target::Join(28));
    assert_eq!(merged(&[(0, 1), (1, 10), (2, 88)]), of(all(), 99));
    // Also when the newest alone would not have been worth it, ...
    assert_eq!(merged(&[(0, 1), (1, 30), (2, 90)]), of(all(), 121));
    // ... but nothing is written for what is much less.
    assert_eq!(merged(&[(0, 1), (1, 9)]), None);
    assert_eq!(merged(&[(0, 1), (1, 10), (2, 89)]), None);
    // There is nothing to gain by one run.
    assert_eq!((merged(&[]), merged(&[(0, 1)])), (None, None));
    let tiered = shape(Strategy::Tiered);
    assert_eq!(while_idle(&tree(&[(0, 1), (0, 1)]), &tiered), None);
    let declined = TreeShape {
        merge_when_idle: false,
        ..shape(Strategy::Leveled)
    };
    assert_eq!(while_idle(&tree(&[(0, 1), (0, 1)]), &declined), None);
}

/// A tree whose levels are full is never merged whole.
#[test]
fn an_idle_tree_leaves_what_follows_the_ratio() {
    let tree = |sizes: &[u64]| {
        let one = |(level, megabytes): (u32, &u64)| {
            let number = u64::from(30 - level);
            run(level, number, &[segment(number, "b-y", *megabytes)])
        };
        (1..).zip(sizes).map(one).collect::<Vec<_>>()
    };
    let merged = |sizes: &[u64], ratio| {
        let shape = TreeShape {
            ratio,
            ..shape(Strategy::Leveled)
        };
        while_idle(&tree(sizes), &shape)
    };
    let both = |bytes: u64| Some((merge(&[29, 28], 2, Target::Join(28))?, bytes * MB));
    assert_eq!(merged(&[10, 80], 10), both(90));
    assert_eq!(merged(&[10, 81], 10), None);
    assert_eq!(merged(&[10, 81], 100), None);
    assert_eq!(merged(&[100, 1000, 10_000, 100_000], 10), None);
    assert_eq!(merged(&[10, 56], 7), None);
    assert_eq!(merged(&[10, 50], 7), both(60));
    // Where levels are closer.
    assert_eq!(merged(&[10, 40], 2), both(50));
    assert_eq!(merged(&[10, 41], 2), None);
}

#[test]
fn an_idle_tree_merges_no_more_than_overlaps() {
    let runs = [
        run(0, 20, &[segment(20, "m-p", 1)]),
        run(
            1,
            9,
            &[
                segment(1, "a-k", 9),
                segment(2, "l-n", 2),
                segment(3, "o-r", 2),
            ],
        ),
        run(2, 8, &[segment(4, "a-k", 99), segment(5, "q-z", 40)]),
    ];
    let idle = |runs: &[RunFacts]| Some(while_idle(runs, &wide())?.0);
    // What was added to the inputs reaches further down than what it was added to.
    let expected = merge(&[20, 2, 3, 5], 2, Target::Join(8));
    assert_eq!(idle(&runs), expected);
    let mut larger = runs.clone();
    larger[2].segments[1].bytes = 41 * MB;
    let expected = merge(&[20, 2, 3], 1, Target::Join(9));
    assert_eq!(idle(&larger), expected);
    larger[1].segments[2].busy = true;
    assert_eq!(idle(&larger), None);
    // Beside each other they are in nobody's way.
    let beside = [runs[0].clone(), run(1, 9, &[segment(1, "a-k", 1)])];
    assert_eq!(idle(&beside), None);
}

#[test]
fn leveled_does_not_touch_what_is_busy() {
    let mut busy = segment(1, "a-c", 3);
    busy.busy = true;
    let runs = [
        run(0, 12, &[segment(12, "b-e", 3)]),
        run(0, 11, &[segment(11, "e-g", 3)]),
        run(1, 9, &[busy]),
    ];
    assert_eq!(plan(&runs, &shape(Strategy::Leveled)), None);
}

#[test]
fn leveled_moves_down_what_overlaps_least() {
    let runs = [
        run(
            1,
            8,
            &[
                segment(1, "a-c", 4),
                segment(2, "d-f", 4),
                segment(3, "g-i", 4),
            ],
        ),
        run(
            2,
            9,
            &[
                segment(4, "a-b", 9),
                segment(5, "c-d", 9),
                segment(6, "e-h", 9),
                segment(7, "i-z", 9),
            ],
        ),
    ];
    // Level 1 may have a quarter of level 2, 9 MB; it has 12. Segment 2 overlaps 5 and 6, 3
    // overlaps 6 and 7, 1 overlaps 4 and 5: all alike, the first wins.
    assert_eq!(
        plan(&runs, &shape(Strategy::Leveled)),
        merge(&[1, 4, 5], 2, Target::Join(9))
    );
}

/// A queue whose every item is flushed would leave a segment of each.
#[test]
fn leveled_merges_small_flushed_runs_although_they_could_move() {
    let small = |id, range| SegmentFacts {
        bytes: MB,
        ..segment(id, range, 3)
    };
    let runs = [
        run(0, 12, &[small(12, "m-n")]),
        run(0, 11, &[segment(11, "g-h", 3)]),
        run(1, 9, &[segment(1, "a-c", 3)]),
    ];
    let expected = merge(&[12, 11], 1, Target::Join(9));
    assert_eq!(plan(&runs, &shape(Strategy::Leveled)), expected);
}

/// Bug: of keys that were written in ascending order, what was flushed later lies higher, and was
/// taken to overlap because it stood first: everything was written twice.
#[test]
fn leveled_moves_without_rewriting_when_nothing_overlaps() {
    let level1 = run(1, 9, &[segment(1, "a-c", 2), segment(2, "i-k", 2)]);
    for (newer, older) in [("m-n", "g-h"), ("g-h", "m-n")] {
        let runs = [
            run(0, 12, &[segment(12, newer, 2)]),
            run(0, 11, &[segment(11, older, 2)]),
            level1.clone(),
        ];
        let lower = level1.overlapping((b"g", b"n"));
        assert_eq!(lower.len(), 1);
        let expected = merge(&[12, 11, 2], 1, Target::Join(9));
        assert_eq!(plan(&runs, &shape(Strategy::Leveled)), expected);
        let runs = [
            runs[0].clone(),
            runs[1].clone(),
            run(1, 9, &[segment(1, "a-c", 2)]),
        ];
        let expected = Plan::Move {
            segments: vec![12, 11],
            level: 1,
            target: Target::Join(9),
        };
        assert_eq!(plan(&runs, &shape(Strategy::Leveled)), Some(expected));
    }
}

#[test]
fn leveled_makes_the_last_level_the_next_one_when_it_is_full() {
    let runs = [run(1, 9, &[segment(1, "a-c", 6), segment(2, "d-f", 6)])];
    let expected = Plan::Deepen {
        segments: vec![1, 2],
    };
    assert_eq!(plan(&runs, &shape(Strategy::Leveled)), Some(expected));
    // Not while something is under way; and nothing else begins meanwhile.
    let mut busy = runs.clone();
    busy[0].segments[0].busy = true;
    assert_eq!(plan(&busy, &shape(Strategy::Leveled)), None);
}

/// Bug: with writers ahead, all of a level 1 of many times its size was rewritten for every few
/// flushed runs, because there were always even more of those.
#[test]
fn leveled_makes_room_in_level_1_before_more_comes() {
    let level1: Vec<SegmentFacts> = (0..6_u64)
        .map(|n| segment(20 + n, &format!("{n}a-{n}z"), 10))
        .collect();
    let mut runs: Vec<RunFacts> = (30..70)
        .rev()
        .map(|id| run(0, id, &[segment(id, "0-9", 3)]))
        .collect();
    runs.push(run(1, 9, &level1));
    runs.push(run(2, 8, &[segment(8, "3b-3c", 40)]));
    let expected = Plan::Move {
        segments: vec![20],
        level: 2,
        target: Target::Join(8),
    };
    assert_eq!(plan(&runs, &shape(Strategy::Leveled)), Some(expected));
}

/// What the flushed runs push out of level 1 would be written by their merge as well.
#[test]
fn leveled_moves_down_first_what_has_no_room() {
    let flushed = [
        run(0, 12, &[segment(12, "a-z", 3)]),
        run(0, 11, &[segment(11, "a-z", 3)]),
    ];
    let wide = TreeShape {
        ratio: 10,
        ..shape(Strategy::Leveled)
    };
    let with = |below: &[RunFacts]| plan(&[&flushed, below].concat(), &wide);
    let level2 = run(2, 8, &[segment(8, "a-z", 45)]);
    let level1 = run(1, 9, &[segment(1, "a-m", 3), segment(2, "n-z", 2)]);
    let expected = merge(&[1, 8], 2, Target::Join(8));
    assert_eq!(with(&[level1.clone(), level2.clone()]), expected);
    // Unless what lies below is no more than four times as much as all that.
    let smaller = run(2, 8, &[segment(8, "a-z", 44)]);
    let all = merge(&[12, 11, 1, 2, 8], 2, Target::Join(8));
    assert_eq!(with(&[level1.clone(), smaller]), all);
    let roomy = run(1, 9, &[segment(2, "n-z", 2)]);
    let expected = merge(&[12, 11, 2], 1, Target::Join(9));
    assert_eq!(with(&[roomy, level2]), expected);
    // The only level becomes the next one, unless the flushed runs overwrite what is in it.
    let deeper = Some(Plan::Deepen {
        segments: vec![1, 2],
    });
    assert_eq!(with(std::slice::from_ref(&level1)), deeper);
    let overwritten = RunFacts {
        hidden_bytes: MB,
        ..level1
    };
    let expected = merge(&[12, 11, 1, 2], 1, Target::Join(9));
    assert_eq!(with(&[overwritten]), expected);
}

#[test]
fn leveled_merges_down_what_is_mostly_tombstones() {
    let with = |tombstones| {
        let mut dead = segment(1, "a-c", 1);
        dead.tombstones = tombstones;
        let runs = [run(1, 8, &[dead]), run(2, 9, &[segment(2, "a-z", 30)])];
        plan(&runs, &shape(Strategy::Leveled))
    };
    assert_eq!(with(667), merge(&[1, 2], 2, Target::Join(9)));
    // As many deleted as put, give or take a few, is no reason.
    assert_eq!(with(660), None);
}

#[test]
fn a_change_to_leveled_merges_the_runs_of_a_level_first() {
    let runs = [
        run(0, 30, &[segment(30, "a-z", 1)]),
        run(1, 21, &[segment(21, "a-z", 5)]),
        run(1, 20, &[segment(20, "a-z", 5)]),
    ];
    assert_eq!(
        plan(&runs, &shape(Strategy::Leveled)),
        merge(&[21, 20], 1, Target::Join(21))
    );
}

/// Bug: while the runs of a level could not be merged yet, the newer one went down past the older.
#[test]
fn a_newer_run_does_not_pass_an_older_one_of_its_level() {
    let mut busy = segment(20, "a-c", 50);
    busy.busy = true;
    let runs = [
        run(1, 21, &[segment(21, "a-c", 50), segment(22, "d-f", 50)]),
        run(1, 20, &[busy, segment(23, "d-f", 50)]),
        run(2, 9, &[segment(9, "x-z", 1)]),
    ];
    assert_eq!(plan(&runs, &shape(Strategy::Leveled)), None);
}

#[test]
fn tiered_merges_a_full_level_into_one_run_below() {
    let flushed: Vec<RunFacts> = (11..15)
        .rev()
        .map(|id| run(0, id, &[segment(id, "a-z", 3)]))
        .collect();
    let mut runs = flushed.clone();
    runs.push(run(1, 5, &[segment(5, "a-z", 12)]));
    let expected = merge(&[14, 13, 12, 11], 1, Target::NewRun);
    assert_eq!(plan(&runs, &shape(Strategy::Tiered)), expected);
    assert_eq!(plan(&flushed[1..], &shape(Strategy::Tiered)), None);
}

/// Whose bytes are more than those of as many runs of its size, as when merges fell behind.
#[test]
fn a_level_of_large_runs_is_full_before_it_has_all() {
    // A run of level 1 has 40 MB, four of them 160.
    let two = |older| {
        [(1, 7, 80), (1, 5, older), (2, 3, 900)]
            .map(|(level, id, megabytes)| run(level, id, &[segment(id, "a-z", megabytes)]))
    };
    for strategy in [Strategy::Tiered, Strategy::LazyLeveled] {
        assert_eq!(plan(&two(80), &shape(strategy)), None);
        let expected = merge(&[7, 5], 2, Target::NewRun);
        assert_eq!(plan(&two(81), &shape(strategy)), expected);
        // A single one is as well where it is, and flushed ones are as large as memtables.
        assert_eq!(plan(&two(161)[1..], &shape(strategy)), None);
        let flushed = [
            run(0, 9, &[segment(9, "a-z", 90)]),
            run(0, 8, &[segment(8, "a-z", 90)]),
        ];
        assert_eq!(plan(&flushed, &shape(strategy)), None);
    }
}

#[test]
fn lazy_leveling_keeps_one_run_at_the_bottom() {
    let lazy = shape(Strategy::LazyLeveled);
    // An arrival beside the bottom run is merged with it, and stays while there is room.
    let runs = [
        run(1, 7, &[segment(7, "a-z", 12)]),
        run(1, 5, &[segment(5, "a-z", 12)]),
    ];
    // It takes the place of the newer: another arrival that is under way stays newer.
    assert_eq!(plan(&runs, &lazy), merge(&[7, 5], 1, Target::Join(7)));
    // Outgrown, it becomes the next level.
    let runs = [
        run(1, 7, &[segment(7, "a-z", 12)]),
        run(1, 5, &[segment(5, "a-z", 41)]),
    ];
    assert_eq!(plan(&runs, &lazy), merge(&[7, 5], 2, Target::NewRun));
    // Levels above the bottom have several runs.
    let runs = [
        run(1, 7, &[segment(7, "a-z", 12)]),
        run(1, 5, &[segment(5, "a-z", 12)]),
        run(2, 3, &[segment(3, "a-z", 90)]),
    ];
    assert_eq!(plan(&runs, &lazy), None);
}

#[test]
fn fifo_drops_the_oldest() {
    let runs: Vec<RunFacts> = (1..=5)
        .rev()
        .map(|id| run(0, id, &[segment(id, "a-z", 3)]))
        .collect();
    let fifo = |bytes| plan(&runs, &shape(Strategy::Fifo { bytes, age: None }));
    assert_eq!(fifo(15 * MB), None);
    assert_eq!(
        fifo(10 * MB),
        Some(Plan::Drop {
            segments: vec![1, 2]
        })
    );
}

/// Flushed runs, newest first, of these ages in seconds.
fn aged(ages: &[Option<u64>]) -> Vec<RunFacts> {
    let one = |(id, age): (usize, &Option<u64>)| {
        let id = 100 - id as u64;
        let segment = SegmentFacts {
            age: age.map(Duration::from_secs),
            ..segment(id, "a-z", 1)
        };
        run(0, id, &[segment])
    };
    ages.iter().enumerate().map(one).collect()
}

#[test]
fn fifo_drops_what_has_come_of_age() {
    let hour = |bytes| {
        shape(Strategy::Fifo {
            bytes,
            age: Some(Duration::from_secs(3600)),
        })
    };
    let check = |ages: &[Option<u64>], bytes, dropped: &[u64]| {
        let segments = dropped.to_vec();
        let expected = (!segments.is_empty()).then_some(Plan::Drop { segments });
        assert_eq!(plan(&aged(ages), &hour(bytes)), expected, "{ages:?}");
    };
    check(&[Some(0), Some(3599)], 9 * MB, &[]);
    check(&[Some(0), Some(3600), Some(9000)], 9 * MB, &[98, 99]);
    check(&[Some(3600), Some(3600)], 9 * MB, &[99, 100]);
    // What is of unknown age, or younger, keeps all that is newer.
    check(&[Some(4000), None], 9 * MB, &[]);
    check(&[Some(4000), Some(10)], 9 * MB, &[]);
    // Either limit is enough.
    check(&[Some(0), Some(1), None, Some(3600)], 3 * MB, &[97]);
    check(&[Some(0), Some(1), None, Some(3600)], 2 * MB, &[97, 98]);
    // A run is as young as its youngest part.
    let mut runs = aged(&[Some(3600), Some(3600)]);
    let younger = SegmentFacts {
        age: Some(Duration::from_secs(5)),
        ..segment(7, "zz-zzz", 1)
    };
    runs[1].segments.push(younger);
    assert_eq!(plan(&runs, &hour(9 * MB)), None);
    assert_eq!(
        due_in(&runs, &hour(9 * MB)),
        Some(Duration::from_secs(3595))
    );
    runs[1].segments[0].busy = true;
    assert_eq!(plan(&runs, &hour(MB)), None);
}

#[test]
fn the_oldest_run_tells_when_something_comes_of_age() {
    let due = |ages: &[Option<u64>], age: Option<u64>| {
        let age = age.map(Duration::from_secs);
        due_in(&aged(ages), &shape(Strategy::Fifo { bytes: MB, age }))
    };
    assert_eq!(
        due(&[Some(1), Some(7)], Some(10)),
        Some(Duration::from_secs(3))
    );
    assert_eq!(due(&[Some(1), Some(70)], Some(10)), Some(Duration::ZERO));
    assert_eq!(due(&[Some(1), None], Some(10)), Some(Duration::MAX));
    assert_eq!(due(&[], Some(10)), None);
    assert_eq!(due(&[Some(1)], None), None);
    assert_eq!(due_in(&aged(&[Some(1)]), &shape(Strategy::Leveled)), None);
}

/// Whatever the tree, planning and carrying out ends, and ends in shape.
#[test]
fn every_tree_comes_to_rest() {
    let strategies = [Strategy::Leveled, Strategy::Tiered, Strategy::LazyLeveled];
    for (strategy, ratio) in strategies.into_iter().flat_map(|one| [(one, 4), (one, 10)]) {
        let shape = TreeShape {
            ratio,
            ..shape(strategy)
        };
        let mut runs: Vec<RunFacts> = Vec::new();
        let mut next = 1;
        for flush in 0..200_u64 {
            let start = (flush * 37) % 90;
            let range = format!("{start:02}-{:02}", start + 9);
            runs.insert(0, run(0, next, &[segment(next, &range, 3)]));
            next += 1;
            let mut steps = 0;
            while let Some(plan) = plan(&runs, &shape) {
                carry_out(&mut runs, plan, &mut next);
                steps += 1;
                assert!(steps < 200, "{strategy:?} does not come to rest: {runs:?}");
            }
            assert_eq!(debt_bytes(&runs, &shape), 0, "{strategy:?}");
            while flush % 7 == 0
                && let Some(plan) =
                    plan(&runs, &shape).or_else(|| Some(while_idle(&runs, &shape)?.0))
            {
                carry_out(&mut runs, plan, &mut next);
                steps += 1;
                assert!(steps < 200, "{strategy:?} goes on when idle: {runs:?}");
            }
        }
        let deepest = last_level(&runs);
        assert!((1..=5).contains(&deepest), "{strategy:?}: {deepest}");
    }
}

/// A merge without a store: outputs are cut where they exceed 4 MB.
fn carry_out(runs: &mut Vec<RunFacts>, plan: Plan, next: &mut u64) {
    let (ids, level, target) = match plan {
        Plan::Merge {
            inputs,
            level,
            target,
        } => (inputs, level, target),
        Plan::Move {
            segments,
            level,
            target,
        } => (segments, level, target),
        Plan::Drop { segments } => (segments, u32::MAX, Target::NewRun),
        Plan::Deepen { .. } => {
            for run in runs.iter_mut().filter(|run| run.level > 0) {
                run.level += 1;
            }
            return;
        }
    };
    let mut taken = Vec::new();
    for run in runs.iter_mut() {
        let (gone, stays) = run
            .segments
            .drain(..)
            .partition(|one| ids.contains(&one.id));
        run.segments = stays;
        let mut gone: Vec<SegmentFacts> = gone;
        taken.append(&mut gone);
    }
    runs.retain(|run| !run.segments.is_empty());
    if level == u32::MAX {
        return;
    }
    // The union of ranges, each as one output.
    taken.sort_by(|a, b| a.first_key.cmp(&b.first_key));
    let mut outputs: Vec<SegmentFacts> = Vec::new();
    for one in taken {
        match outputs.last_mut() {
            Some(last) if one.first_key <= last.last_key => {
                last.last_key = last.last_key.clone().max(one.last_key);
                last.bytes += one.bytes / 2;
            }
            _ => outputs.push(one),
        }
    }
    for output in &mut outputs {
        output.id = *next;
        *next += 1;
    }
    match target {
        Target::Join(number) if runs.iter().any(|run| run.number == number) => {
            let run = runs.iter_mut().find(|run| run.number == number).unwrap();
            run.segments.append(&mut outputs);
            run.segments.sort_by(|a, b| a.first_key.cmp(&b.first_key));
        }
        Target::Join(number) => runs.push(run(level, number, &outputs)),
        Target::NewRun => runs.push(run(level, *next, &outputs)),
    }
    runs.sort_by_key(|run| (run.level, u64::MAX - run.number));
    for run in runs.iter() {
        let disjoint = |pair: &[SegmentFacts]| pair[0].last_key < pair[1].first_key;
        assert!(run.segments.windows(2).all(disjoint), "{run:?}");
    }
}
