//! `criba study --tree`: the same keys in trees that compaction has shaped, under one strategy and
//! one filter after another, with the same memory for filters.
//!
//! Each store is loaded in random order, left alone until nothing is compacted any more, and asked
//! for keys that are not there, which lie between the others in key order. What is measured is
//! counted by the storage (`count.rs`); what is calculated comes from the designed rates of the
//! filters that are really there (`levels.rs`).
//!
//! All filters stand on the same tree, of the same files: it grows with the filters of the budget,
//! which are as old as their segments, and the uniform ones, which are the same at any age, are
//! built over copies of it.

mod conclusion;
mod count;
mod fields;
mod html;
mod keys;
mod load;
mod row;
pub(super) mod settle;
mod table;

use std::time::Instant;

use criba::{Compaction, Stats};

use super::args::StudyArgs;
use super::row::Memory;
use super::scratch::Scratch;
use crate::choice::{StudyFilter, strategy_name};
use crate::exit::{Exit, Failure};
use crate::files;
use crate::output::Output;
use crate::progress::Progress;
use keys::Keys;
use load::Loading;
use row::{Row, allocation, rows_with_ratios};

pub(crate) fn run(args: &StudyArgs) -> Result<Exit, Failure> {
    let rows = measure(args)?;
    if let Some(path) = &args.html {
        files::write_report(path, &html::page(&rows, args)?)?;
    }
    let mut output = Output::stdout();
    if args.json {
        for row in &rows {
            row.json(args).write(&mut output)?;
        }
    } else {
        write!(output, "{}", table::text(&rows, args))?;
    }
    output.finish()?;
    Ok(Exit::Done)
}

/// One store after another: each is gone before the next is made.
fn measure(args: &StudyArgs) -> Result<Vec<Row>, Failure> {
    let mut stops = args.also_at.clone();
    stops.retain(|keys| *keys < args.keys);
    stops.push(args.keys);
    stops.sort_unstable();
    stops.dedup();
    let looked_up = 2 * args.lookups * (args.filter.len() * stops.len()) as u64;
    let mut progress = Progress::new(
        Some((args.keys + looked_up) * args.strategy.len() as u64),
        "[{bar:30}] {percent:>3} % {eta:>4}  {msg}",
    );
    // The tree grows with this one; the others are built when it is there.
    let budget = |filter: &&StudyFilter| allocation(**filter) == "budget";
    let native = args.filter.iter().find(budget).or(args.filter.first());
    let Some(&native) = native else {
        return Ok(Vec::new());
    };
    let mut rows = Vec::new();
    for &strategy in &args.strategy {
        let scratch = Scratch::new(args.dir.as_deref())?;
        let mut loading = Loading::new(scratch.path().join("store"), strategy, args);
        let db = loading.open(&loading.path, native, Compaction::Background)?;
        for &stop in &stops {
            progress.phase(format!("{}: load", strategy_name(strategy)));
            loading.load(stop, &db, &mut progress)?;
            let stats = db.stats();
            for &filter in &args.filter {
                let setting = (filter, filter == native);
                rows.push(one(setting, &loading, &stats, (args, &mut progress))?);
            }
        }
        db.close()?;
    }
    Ok(rows_with_ratios(rows))
}

/// Looks everything up with one filter, in a copy of the tree.
fn one(
    (filter, is_native): (StudyFilter, bool),
    loading: &Loading<'_>,
    stats: &Stats,
    (args, progress): (&StudyArgs, &mut Progress),
) -> Result<Row, Failure> {
    let name = format!("{} {}", strategy_name(loading.strategy), filter.name());
    progress.phase(format!("{name}: look up"));
    let scratch = Scratch::new(args.dir.as_deref())?;
    let copy = scratch.path().join("copy");
    // All that was put is in segments, and nothing is written.
    files::copy_directory(&loading.path, &copy)?;
    let db = loading.open(&copy, filter, Compaction::Manual)?;
    let started = Instant::now();
    let mut build_ns = Memory::new(stats).build_ns;
    if !is_native {
        db.rebuild_filters(.., |_, _| {})?;
        // With the reading of the keys.
        build_ns = started.elapsed().as_nanos() as f64;
    }
    let keys = Keys::new(loading.count, args.seed);
    let counted = count::count(&db, &keys, args, progress).map_err(|f| f.at(&name))?;
    db.close()?;
    let mut row = Row::new(filter, loading, stats, counted);
    row.memory.build_ns = build_ns;
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::row::tests::small_args;
    use super::*;

    #[test]
    fn a_tree_is_measured_as_it_grows() {
        let mut args = small_args();
        (args.keys, args.lookups) = (4000, 1000);
        args.also_at = vec![3000, 2000, 5000];
        args.strategy.truncate(1);
        let rows = measure(&args).unwrap();
        let keys: Vec<u64> = rows.iter().map(|row| row.memory.stored_keys).collect();
        assert_eq!(keys, [2000, 2000, 2000, 3000, 3000, 3000, 4000, 4000, 4000]);
        for tree in rows.chunks(3) {
            let shape = |row: &Row| (row.keys, row.runs(), row.memory.segments);
            assert!(tree.iter().all(|row| shape(row) == shape(&tree[0])));
            assert_eq!(tree[0].ratio_to_bloom, Some(1.0));
        }
    }

    #[test]
    fn trees_are_settled_and_counted() {
        let mut args = small_args();
        args.keys = 10_000;
        args.lookups = 5000;
        let rows = measure(&args).unwrap();
        assert_eq!(rows.len(), 6);
        for row in &rows {
            let name = format!("{} {}", row.strategy_name(), row.filter.name());
            assert_eq!(
                row.memory.stored_keys, 10_000,
                "{name}: nothing is stored twice"
            );
            assert!(row.levels.len() >= 2, "{name}: {:?}", row.levels);
            assert!(row.counts.absent.lookups >= 5000);
            let absent = &row.counts.absent;
            assert_eq!(absent.data.calls, absent.false_positives, "{name}");
            assert!(row.counts.present.data.calls >= 5000, "{name}");
            assert!(row.write_amplification > 1.0, "{name}");
            assert!(row.memory.build_ns > 0.0, "{name}");
            let (measured, expected) = (row.wasted_reads(), row.expected_wasted_reads());
            let chance = 6.0 * (expected / absent.lookups as f64).sqrt() + 0.2 * expected;
            assert!(
                (measured - expected).abs() < chance,
                "{name}: measured {measured}, expected {expected}"
            );
        }
        for uniform in &rows[3..5] {
            assert!(rows[5].expected_wasted_reads() < uniform.expected_wasted_reads());
        }
        assert_eq!(rows[3].ratio_to_bloom, Some(1.0));
    }
}
