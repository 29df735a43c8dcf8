//! Hyphenation by a rule, with a table of exceptions on disk and a filter of them in memory.
//!
//! This is the example of the first paper on Bloom filters (Bloom, "Space/time trade-offs in hash coding
//! with allowable errors", 1970). A lookup in the table is a disk read. Bloom's estimate of the reads
//! saved is `(1 - P) r`, where `r` is the share of words that break by the rule, and `P` the rate of errors.

use std::path::Path;

use applications::numbers::grouped;
use applications::{Cell, Error, Hyphens, Line, Plot, Report, Result, Scale, Table, Words};
use criba::{Access, Db, Durability, FilterPolicy};
use criba_filters::{Design, Membership, hash_key};

use crate::filter_of;

/// One false alarm is allowed in so many words.
const ERRORS: [u32; 6] = [2, 4, 8, 16, 32, 64];

/// Each word is hyphenated once, and the exceptions lie on disk.
pub(crate) fn hyphenation(
    list: &Words,
    hyphens: &Hyphens,
    seed: u64,
    report: &mut Report,
) -> Result<()> {
    let exceptions: Vec<(&String, String)> = (list.words.iter())
        .map(|word| (word, hyphens.rightly(word)))
        .filter(|(word, right)| hyphens.by_rule(word) != *right)
        .collect();
    let keys: Vec<&String> = exceptions.iter().map(|(word, _)| *word).collect();
    let (all, count) = (list.words.len() as u64, keys.len() as u64);
    if count == 0 {
        return Err(Error::Usage(format!(
            "by {} the words have no exceptions to the rule: give more words, or patterns of more than \
             four letters",
            hyphens.source
        )));
    }
    let mut findings = Findings::new(all, count, &hyphens.source);
    let folder = tempfile::tempdir()?;

    let plain = table_on_disk(
        &folder.path().join("plain"),
        &exceptions,
        FilterPolicy::None,
    )?;
    let without = hyphenate(list, hyphens, &plain, |_| true)?;
    findings.row("none", (Cell::None, Some(1.0)), without);
    for errors in ERRORS {
        let design = Design::for_rate(count, 1.0 / f64::from(errors))?;
        let filter = filter_of(&keys, design, seed)?;
        let asked = hyphenate(list, hyphens, &plain, |word| {
            filter.may_contain(hash_key(seed, word))
        })?;
        let memory = Cell::Bytes(filter.bits().div_ceil(8));
        let rate = Some(filter.expected_rate());
        findings.row(&format!("P = 1/{errors}"), (memory, rate), asked);
        findings
            .points
            .push((f64::from(errors), asked.1, filter.expected_rate()));
    }
    plain.close()?;
    let own = table_on_disk(
        &folder.path().join("own"),
        &exceptions,
        FilterPolicy::default(),
    )?;
    let asked = hyphenate(list, hyphens, &own, |_| true)?;
    let stats = own.stats();
    let filters = stats
        .segments()
        .filter_map(|segment| segment.filter.as_ref());
    let memory = Cell::Bytes(filters.map(|filter| filter.disk_bytes).sum());
    findings.row("the store's own", (memory, None), asked);
    own.close()?;
    findings.tell(report);
    Ok(())
}

/// The table, and what the plot needs of it.
struct Findings {
    table: Table,
    words: u64,
    exceptions: u64,
    /// Block reads without a filter.
    base: u64,
    /// For each filter, one of so many errors was allowed; its reads; its calculated rate.
    points: Vec<(f64, u64, f64)>,
}

impl Findings {
    fn new(words: u64, exceptions: u64, source: &str) -> Findings {
        let heads = [
            "filter",
            "memory",
            "rate",
            "rate calculated",
            "exceptions",
            "looked up",
            "block reads",
            "saved",
            "saved calculated",
        ];
        let title = format!("Hyphenation of {} words ({source})", grouped(words));
        Findings {
            table: Table::new(title, &heads),
            words,
            exceptions,
            base: 0,
            points: Vec::new(),
        }
    }

    fn saved(&self, reads: u64) -> f64 {
        1.0 - reads as f64 / self.base as f64
    }

    /// By Bloom: of the words that break by the rule, all but the false alarms.
    fn saved_by_theory(&self, rate: f64) -> f64 {
        (self.words - self.exceptions) as f64 / self.words as f64 * (1.0 - rate)
    }

    /// A filter of this size and calculated rate; the first line is the one without a filter.
    fn row(&mut self, name: &str, filter: (Cell, Option<f64>), (asked, reads): (u64, u64)) {
        if self.base == 0 {
            self.base = reads;
        }
        let (memory, rate) = filter;
        let by_rule = (self.words - self.exceptions) as f64;
        let measured = (asked - self.exceptions) as f64 / by_rule;
        let calculated = |share: fn(&Findings, f64) -> f64| {
            rate.map_or(Cell::None, |rate| Cell::Share(share(self, rate)))
        };
        let cells = [
            name.into(),
            memory,
            // The filter of the store is asked within it.
            rate.map_or(Cell::None, |_| Cell::Share(measured)),
            calculated(|_, rate| rate),
            self.exceptions.into(),
            asked.into(),
            reads.into(),
            Cell::Share(self.saved(reads)),
            calculated(Findings::saved_by_theory),
        ];
        self.table.row(cells);
    }

    fn tell(self, report: &mut Report) {
        let points = |saved: &dyn Fn(u64, f64) -> f64| {
            let point =
                |&(errors, reads, rate): &(f64, u64, f64)| (errors, 100.0 * saved(reads, rate));
            self.points.iter().map(point).collect()
        };
        report.plot(Plot {
            title: "Disk reads saved, percent".into(),
            across: "one false alarm allowed in so many words".into(),
            scales: (Scale::Logarithmic, Scale::Linear),
            lines: vec![
                Line::new(
                    "second",
                    "calculated",
                    points(&|_, rate| self.saved_by_theory(rate)),
                ),
                Line::dots("first", "measured", points(&|reads, _| self.saved(reads))),
            ],
        });
        if let Some(&(errors, reads, _)) = self.points.last() {
            report.conclude(format!(
                "{:.1} % of the words are exceptions to the rule. A filter of these that errs at 1/{errors} \
                 saves {:.1} % of the disk reads, and every word is hyphenated as without it.",
                100.0 * self.exceptions as f64 / self.words as f64,
                100.0 * self.saved(reads),
            ));
        }
        report.table(self.table);
    }
}

/// The table of exceptions, as it is on the next day: all on disk, and nothing of it in a cache.
fn table_on_disk(
    path: &Path,
    exceptions: &[(&String, String)],
    filter: FilterPolicy,
) -> Result<Db> {
    let db = Db::builder(path)
        .filter(filter)
        .durability(Durability::Buffered)
        .open()?;
    for (word, right) in exceptions {
        db.put(word, right)?;
    }
    db.flush()?;
    db.close()?;
    Ok(Db::builder(path)
        .access(Access::ReadOnly)
        .cache_bytes(0)
        .open()?)
}

/// Hyphenates all words; how many were looked up in the table, and the blocks that were read.
fn hyphenate(
    list: &Words,
    hyphens: &Hyphens,
    db: &Db,
    may_be_exception: impl Fn(&[u8]) -> bool,
) -> Result<(u64, u64)> {
    let reads =
        |db: &Db| db.stats().lookups.hit_block_reads + db.stats().lookups.absent_block_reads;
    let (before, mut asked) = (reads(db), 0);
    for word in &list.words {
        let mut hyphenated = None;
        if may_be_exception(word.as_bytes()) {
            asked += 1;
            hyphenated = db
                .get(word)?
                .map(|right| String::from_utf8_lossy(&right).into_owned());
        }
        let hyphenated = hyphenated.unwrap_or_else(|| hyphens.by_rule(word));
        if hyphenated != hyphens.rightly(word) {
            return Err(Error::Wrong(format!(
                "{word:?} is hyphenated {hyphenated:?}"
            )));
        }
    }
    Ok((asked, reads(db) - before))
}
