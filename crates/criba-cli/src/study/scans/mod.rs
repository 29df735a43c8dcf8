//! `criba study --scans`: how many data blocks a scan reads, by the tree, the number of runs and the range
//! filter.
//!
//! The same keys go into one store for each tree and filter, flush by flush. After some numbers of flushes,
//! scans are made of ranges without an entry and with some, with nothing in memory but filters and index.
//! Blocks are counted by the storage, questions to filters by the store (`count.rs`), and every entry that a
//! scan finds is checked.

mod count;
mod html;
pub(super) mod keys;
mod row;
mod store;
mod table;

use super::args::StudyArgs;
use super::scratch::Scratch;
use crate::exit::{Exit, Failure};
use crate::files;
use crate::output::Output;
use crate::progress::Progress;
use count::{ALL, Scanned};
use keys::Keys;
use row::{Row, with_ratios};
use store::{Store, TREES, Tree};

pub(crate) fn run(args: &StudyArgs) -> Result<Exit, Failure> {
    let keys = Keys::new(args)?;
    let rows = measure(&keys, args)?;
    if let Some(path) = &args.html {
        files::write_report(path, &html::page(&rows, &keys, args)?)?;
    }
    let mut output = Output::stdout();
    if args.json {
        for row in &rows {
            row.json(&keys.name, args).write(&mut output)?;
        }
    } else {
        write!(output, "{}", table::text(&rows, &keys, args))?;
    }
    output.finish()?;
    Ok(Exit::Done)
}

/// Rows of one tree with one number of runs stand together.
fn measure(keys: &Keys, args: &StudyArgs) -> Result<Vec<Row>, Failure> {
    let filters = std::iter::once(None).chain(args.range_bits.iter().copied().map(Some));
    let filters: Vec<Option<f64>> = filters.collect();
    let loads = (TREES.len() * filters.len()) as u64;
    let mut progress = Progress::new(
        Some(keys.order.len() as u64 * loads),
        "[{bar:30}] {percent:>3} % {eta:>4}  {msg}",
    );
    let mut rows = Vec::new();
    for tree in TREES {
        let mut of_tree = Vec::new();
        for &bits in &filters {
            of_tree.extend(one((tree, bits), keys, args, &mut progress)?);
        }
        of_tree.sort_by_key(|row| row.flushes);
        rows.extend(of_tree);
    }
    Ok(with_ratios(rows))
}

/// One store, as it grows. It is gone when this returns.
fn one(
    (tree, bits): (Tree, Option<f64>),
    keys: &Keys,
    args: &StudyArgs,
    progress: &mut Progress,
) -> Result<Vec<Row>, Failure> {
    progress.phase(match bits {
        Some(bits) => format!("{}, {bits} bits", tree.name),
        None => format!("{}, no filter", tree.name),
    });
    let scratch = Scratch::new(args.dir.as_deref())?;
    let mut store = Store::open(&scratch.path().join("store"), (tree, bits), keys, args)?;
    let mut rows = Vec::new();
    for &flushes in tree.stops {
        let loaded = store.load(flushes, progress)?;
        let scanned = Scanned {
            db: &store.db,
            keys,
            loaded: &loaded,
            seed: args.seed,
        };
        let costs = ALL.map(|wanted| scanned.count(wanted, args.lookups));
        let costs = costs.into_iter().collect::<Result<Vec<_>, Failure>>()?;
        rows.push(Row::new((tree, bits, flushes), &store.db.stats(), costs));
    }
    store.db.close()?;
    Ok(rows)
}
