//! What answered the lookups of a table: each lookup is counted in one row.
//!
//! A filter gets credit only for what it was asked and ruled out. A key for which no segment was
//! asked, because none was there or none covers it, is a row of its own.

use std::ops::AddAssign;

use common::codec::{Malformed, Reader, put_number};
use criba::{Explanation, FilterOutcome, Outcome, Source};
use serde_json::{Value, json};

/// Lookups by what answered them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// The batch that is being made had the key: the store was not asked.
    Batch,
    /// A memtable had it.
    Memtable,
    /// It is nowhere, and no segment was asked: none is there, or none covers it.
    NoSegment,
    /// It is nowhere. Filters were asked and ruled it out, and nothing was read.
    Filter,
    /// A segment had it: its block was read, or was in the cache.
    Found,
    /// It is nowhere, and a block was looked at in vain because a filter said "maybe".
    FalsePositive,
    /// It is nowhere, and a block was looked at in vain because there was no filter to ask.
    NoFilter,
}

impl Answer {
    /// All in their order, with their names.
    pub(crate) const ALL: [(Answer, &str); 7] = [
        (Answer::Batch, "batch"),
        (Answer::Memtable, "memtable"),
        (Answer::NoSegment, "no_segment"),
        (Answer::Filter, "filter"),
        (Answer::Found, "found"),
        (Answer::FalsePositive, "false_positive"),
        (Answer::NoFilter, "no_filter"),
    ];

    /// The row in which a lookup is counted.
    fn of(lookup: &Explanation) -> Answer {
        if let Some(last) = lookup.steps.last()
            && matches!(last.outcome, Outcome::Found | Outcome::Deleted)
        {
            return match last.source {
                Source::ActiveMemtable | Source::SealedMemtable(_) => Answer::Memtable,
                _ => Answer::Found,
            };
        }
        let asked = lookup
            .steps
            .iter()
            .filter(|step| matches!(step.source, Source::Segment { .. }));
        let mut answer = Answer::NoSegment;
        for step in asked {
            match step.filter {
                FilterOutcome::NotAsked | FilterOutcome::Damaged => answer = Answer::NoFilter,
                _ if step.outcome == Outcome::FalsePositive => return Answer::FalsePositive,
                _ if answer == Answer::NoSegment => answer = Answer::Filter,
                _ => {}
            }
        }
        answer
    }
}

/// The lookups of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    answers: [u64; Answer::ALL.len()],
    /// Data blocks that were not asked for because a filter said no.
    pub(crate) reads_avoided: u64,
    /// Data blocks that were asked for because a filter said "maybe", in vain.
    pub(crate) false_positives: u64,
}

impl Account {
    pub(crate) fn of(&self, answer: Answer) -> u64 {
        self.answers[answer as usize]
    }

    pub(crate) fn lookups(&self) -> u64 {
        self.answers.iter().sum()
    }

    /// The batch that is being made had the key.
    pub(crate) fn add_from_batch(&mut self) {
        self.answers[Answer::Batch as usize] += 1;
    }

    /// Adds a lookup of the store.
    pub(crate) fn add(&mut self, lookup: &Explanation) {
        self.answers[Answer::of(lookup) as usize] += 1;
        for step in &lookup.steps {
            match (step.filter, step.outcome) {
                (FilterOutcome::NotAsked | FilterOutcome::Damaged, _) => {}
                (_, Outcome::Absent) => self.reads_avoided += 1,
                (_, Outcome::FalsePositive) => self.false_positives += 1,
                _ => {}
            }
        }
    }

    pub(crate) fn json(&self) -> Value {
        let mut object = json!({ "lookups": self.lookups() });
        for (answer, name) in Answer::ALL {
            object[name] = json!(self.of(answer));
        }
        object["reads_avoided_by_filters"] = json!(self.reads_avoided);
        object["reads_in_vain"] = json!(self.false_positives);
        object
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for &number in &self.answers {
            put_number(out, number);
        }
        put_number(out, self.reads_avoided);
        put_number(out, self.false_positives);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Account, Malformed> {
        let mut account = Account::default();
        for number in &mut account.answers {
            *number = reader.number()?;
        }
        account.reads_avoided = reader.number()?;
        account.false_positives = reader.number()?;
        Ok(account)
    }
}

impl AddAssign for Account {
    fn add_assign(&mut self, other: Account) {
        for (mine, others) in self.answers.iter_mut().zip(other.answers) {
            *mine += others;
        }
        self.reads_avoided += other.reads_avoided;
        self.false_positives += other.false_positives;
    }
}

/// The lookups of all tables that were asked something, as lines for a person.
pub(crate) fn table(accounts: impl Iterator<Item = (&'static str, Account)>) -> Vec<String> {
    let heads = [
        "lookups",
        "batch",
        "memtable",
        "no segment",
        "filter",
        "found",
        "false pos.",
        "no filter",
    ];
    let row = |name: &str, cells: Vec<String>| {
        let cells: Vec<_> = cells.iter().map(|cell| format!("{cell:>10}")).collect();
        format!("  {name:<12} {}", cells.join(" "))
    };
    let mut lines: Vec<String> = accounts
        .filter(|(_, account)| account.lookups() > 0)
        .map(|(name, account)| {
            let numbers = [&[account.lookups()], &account.answers[..]].concat();
            row(name, numbers.iter().map(u64::to_string).collect())
        })
        .collect();
    if !lines.is_empty() {
        lines.insert(0, row("index table", heads.map(str::to_owned).to_vec()));
    }
    lines
}
