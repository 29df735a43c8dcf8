//! `criba study --tree`: the same keys in trees that compaction has shaped, under one strategy and
//! one filter after another, with the same memory for filters.
//!
//! Each store is loaded in random order, left alone until nothing is compacted any more, and asked
//! for keys that are not there, which lie between the others in key order. What is measured is
//! counted by the storage (`count.rs`); what is calculated comes from the designed rates of the
//! filters that are really there (`levels.rs`).

mod conclusion;
mod count;
mod fields;
mod html;
mod keys;
mod load;
mod row;
mod settle;
mod table;

use criba::Strategy;

use super::args::StudyArgs;
use super::scratch::Scratch;
use crate::choice::{StudyFilter, strategy_name};
use crate::exit::{Exit, Failure};
use crate::files;
use crate::output::Output;
use crate::progress::Progress;
use keys::Keys;
use row::{Row, rows_with_ratios};

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
    let count = args.strategy.len() * args.filter.len();
    let each = args.keys + 2 * args.lookups;
    let mut progress = Progress::new(
        Some(each * count as u64),
        "[{bar:30}] {percent:>3} % {eta:>4}  {msg}",
    );
    let mut rows = Vec::new();
    for &strategy in &args.strategy {
        for &filter in &args.filter {
            rows.push(one((strategy, filter), args, &mut progress)?);
        }
    }
    Ok(rows_with_ratios(rows))
}

fn one(
    (strategy, filter): (Strategy, StudyFilter),
    args: &StudyArgs,
    progress: &mut Progress,
) -> Result<Row, Failure> {
    let name = format!("{} {}", strategy_name(strategy), filter.name());
    let scratch = Scratch::new(args.dir.as_deref())?;
    let keys = Keys::new(args.keys, args.seed);
    progress.phase(format!("{name}: load"));
    let loaded = load::load((strategy, filter), scratch.path(), &keys, args, progress)?;
    progress.phase(format!("{name}: look up"));
    let counted = count::count(&loaded.db, &keys, args, progress).map_err(|f| f.at(&name))?;
    let row = Row::new((strategy, filter), &loaded, counted);
    loaded.db.close()?;
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::row::tests::small_args;
    use super::*;

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
