//! `criba study`: the same keys under one filter after another, and what each lookup reads.
//!
//! The stores are loaded, the reads of lookups are counted, CPU time is measured by turns, and
//! the results go into a table, into JSON lines and onto a page. What is counted comes from the
//! store's own counters (`count.rs`); what theory says is kept apart (`theory.rs`) and is only drawn
//! beside it.

pub(crate) mod args;
mod conclusion;
mod count;
mod cpu;
mod fields;
mod html;
mod input;
mod load;
mod row;
mod scans;
mod scatter;
mod scratch;
mod table;
mod tree;
mod workload;

use args::StudyArgs;
use load::Loaded;
use row::{Memory, Relative, Row, Setup};
use scratch::Scratch;
use workload::Workload;

use crate::clock::Clock;
use crate::exit::{Exit, Failure};
use crate::files;
use crate::output::Output;
use crate::progress::Progress;

pub(crate) fn run(args: &StudyArgs) -> Result<Exit, Failure> {
    if let Some(path) = &args.html {
        files::check_report(path)?;
    }
    if args.scans {
        return scans::run(args);
    }
    if args.tree {
        return tree::run(args);
    }
    let keys = match &args.input {
        Some(path) => input::read(path, args.sample, args.seed)?,
        None => input::generate(args.keys, args.seed),
    };
    let work = Workload::new(keys, args.runs as u32, args.lookups, args.seed)?;
    let setup = Setup {
        args,
        work: &work,
        clock: Clock::best(),
    };
    let rows = measure(&setup)?;
    if let Some(path) = &args.html {
        files::write_report(path, &html::page(&rows, &setup)?)?;
    }
    let mut output = Output::stdout();
    if args.json {
        for row in &rows {
            row.json(&setup).write(&mut output)?;
        }
    } else {
        write!(output, "{}", table::text(&rows, &setup))?;
    }
    output.finish()?;
    Ok(Exit::Done)
}

/// Loads and measures all settings. The stores are gone when this returns.
fn measure(setup: &Setup<'_>) -> Result<Vec<Row>, Failure> {
    let (args, work) = (setup.args, setup.work);
    let scratch = Scratch::new(args.dir.as_deref())?;
    let mut progress = progress(setup);
    let mut stores: Vec<Loaded> = Vec::new();
    let mut rows = Vec::new();
    for (ordinal, choice) in args.choices().enumerate() {
        let name = crate::choice::filter_name(choice);
        progress.phase(format!("{name}: load"));
        let path = scratch.path().join(ordinal.to_string());
        let store = load::load(choice, &path, work, args, &mut progress)?;
        let memory = Memory::new(&store.db.stats());
        progress.phase(format!("{name}: count"));
        let counts = count::count(&store, work, args.value_bytes, &mut progress)?;
        rows.push(Row::new(&store, memory, counts));
        stores.push(store);
    }
    progress.phase("CPU time, all by turns");
    let times = cpu::measure(&stores, work, setup.clock, &mut progress)?;
    let none = stores.iter().position(|store| store.choice.is_none());
    for (row, own) in rows.iter_mut().zip(&times) {
        row.cpu = Relative::new(own.clone(), none.map(|place| &times[place]));
    }
    for store in stores {
        store.db.close()?;
    }
    Ok(rows)
}

fn progress(setup: &Setup<'_>) -> Progress {
    let work = setup.work;
    let loaded: u64 = work.parts.iter().map(|part| part.keys).sum();
    let counted = 2 * work.present_lookups.len() + work.absent_lookups.len();
    let each = loaded + counted as u64 + cpu::steps(work);
    let total = each * setup.args.filter.len() as u64;
    Progress::new(Some(total), "[{bar:30}] {percent:>3} % {eta:>4}  {msg}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::row::{per, tests::default_args};

    #[test]
    fn a_small_study_counts_what_it_should() {
        let args = default_args();
        let work = Workload::new(input::generate(4000, 1), 4, 1500, 1).unwrap();
        let setup = Setup {
            args: &args,
            work: &work,
            clock: Clock::best(),
        };
        let rows = measure(&setup).unwrap();
        assert_eq!(rows.len(), 5);
        for row in &rows {
            let counts = &row.counts;
            assert_eq!(
                (counts.present.lookups, counts.absent.lookups),
                (1500, 1500)
            );
            assert_eq!(row.holder_reads(), 1.0, "{}", row.setting);
            assert_eq!(
                counts.absent.reads, counts.absent.data,
                "filters are pinned"
            );
            assert_eq!(counts.absent.data.calls, counts.absent.false_positives);
            assert!(
                counts.absent.probes > 5900,
                "four runs cover nearly every key"
            );
            assert_eq!(row.cpu.times.present.len(), cpu::ROUNDS);
        }
        let (none, slot) = (&rows[0], &rows[4]);
        assert_eq!(none.counts.absent.data.calls, none.counts.absent.probes);
        assert_eq!((none.bits_per_key(), none.cpu.absent[0]), (0.0, 1.0));
        assert!(per(slot.counts.absent.data.calls, slot.counts.absent.probes) < 0.02);
    }

    #[test]
    fn a_starved_study_counts_filter_pages() {
        let mut args = default_args();
        args.residency = criba::FilterResidency::Cached { bytes: 0 };
        args.filter = vec![crate::choice::study_filter("bloomier:block").unwrap()];
        let work = Workload::new(input::generate(4000, 1), 4, 500, 1).unwrap();
        let setup = Setup {
            args: &args,
            work: &work,
            clock: Clock::Wall,
        };
        let rows = measure(&setup).unwrap();
        let absent = &rows[0].counts.absent;
        assert!(
            absent.filter.calls >= absent.probes,
            "at least a page for each run asked"
        );
        assert!(absent.reads.calls == absent.filter.calls + absent.data.calls);
    }
}
