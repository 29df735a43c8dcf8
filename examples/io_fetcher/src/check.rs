//! `check`: reads and verifies everything: the blocks of the index, the hash of every content, and
//! that every name has a document.

use std::collections::BTreeSet;

use common::escape::{Escaped, Plain};
use serde_json::json;

use crate::archive::{Archive, empty_document};
use crate::args::CheckArgs;
use crate::exit::{self, Exit, Failure, complain};
use crate::keys::{self, Table};
use crate::lines::{Facts, Lines, Status};
use crate::list;
use crate::parallel;
use crate::progress::Progress;
use crate::record::{Document, What};

/// Documents that are verified together.
const TOGETHER: usize = 256;

/// The findings of a check.
struct Found {
    lines: Lines,
    /// Contents that are damaged.
    damaged: BTreeSet<u64>,
    /// Everything that is damaged: parts of the index, contents, names.
    damages: u64,
}

pub(crate) fn run(args: &CheckArgs) -> Result<Exit, Failure> {
    let archive = Archive::open_to_read(&args.store.store)?;
    let mut found = Found {
        lines: Lines::new(args.store.json),
        damaged: BTreeSet::new(),
        damages: 0,
    };
    for finding in &archive.db.verify(|_, _| {})?.findings {
        found.nameless("the index", &finding.to_string(), None);
    }
    let mut documents = 0;
    if !archive.is_index_only {
        let threads = usize::from(args.store.threads);
        documents = contents(&archive, threads, &mut found)?;
    }
    let names = names(&archive, &mut found)?;
    let Found {
        lines,
        damaged,
        damages,
    } = found;
    match args.store.json {
        true => lines.end(json!({
            "documents": documents,
            "names": names,
            "damaged": damaged.len(),
            "damage": damages,
        }))?,
        false => exit::say(
            format!("{documents} contents and {names} names verified, {damages} damaged\n")
                .as_bytes(),
        )?,
    }
    if damages == 0 {
        return Ok(Exit::Done);
    }
    if !damaged.is_empty() {
        complain(format_args!(
            "`ingest --paranoid` stores again what its sources still have"
        ));
    }
    Ok(Exit::Damaged)
}

impl Found {
    /// Something without a name is damaged.
    fn nameless(&mut self, what: &str, reason: &str, document: Option<u64>) {
        self.damages += 1;
        let facts = Facts {
            document,
            reason: Some(reason),
            ..Facts::default()
        };
        self.lines.add_nameless(Status::Damaged, &facts);
        complain(format_args!("damaged: {what}: {}", Plain(reason)));
    }

    /// A name leads to no content, or to a damaged one.
    fn named(&mut self, name: &[u8], (status, reason): (Status, &str), facts: Facts<'_>) {
        self.damages += 1;
        let facts = Facts {
            reason: Some(reason),
            ..facts
        };
        self.lines.add(name, status, &facts);
        complain(format_args!("damaged: {}: {reason}", Escaped(name)));
    }
}

/// Verifies all contents; the numbers of the damaged ones are collected.
fn contents(archive: &Archive, threads: usize, damage: &mut Found) -> Result<u64, Failure> {
    let progress = Progress::new(Some(archive.next_document.saturating_sub(1)));
    let mut records = archive.tables[Table::Document].iter();
    let mut documents = 0;
    loop {
        let mut some = Vec::new();
        for record in records.by_ref().take(TOGETHER) {
            let (key, value) = record?;
            some.push((keys::document_number(&key), Document::decode(&value)));
        }
        if some.is_empty() {
            return Ok(documents);
        }
        let found = parallel::map(threads, &some, |(_, document)| match document {
            Ok(document) => archive.verify(document),
            Err(_) => Err("its record is not one that this program writes".into()),
        });
        for ((number, _), found) in some.iter().zip(found) {
            documents += 1;
            progress.step();
            if let Err(what) = found {
                damage.damaged.insert(*number);
                damage.nameless(&format!("document {number}"), &what, Some(*number));
            }
        }
        damage.lines.flush()?;
    }
}

/// Verifies that names lead to documents, and says which lead to damaged ones.
fn names(archive: &Archive, found: &mut Found) -> Result<u64, Failure> {
    let mut names = 0;
    list::each(archive, &[], |named| {
        names += 1;
        let What::File { document } = named.what else {
            return Ok(());
        };
        let mut facts = Facts {
            size: Some(named.size),
            document: Some(document),
            ..Facts::default()
        };
        let is_known = document < archive.next_document;
        if found.damaged.contains(&document) {
            let what = (Status::Damaged, "its content is damaged");
            found.named(&named.name, what, facts);
        } else if !is_known || !has_record(archive, document, &mut facts)? {
            let what = (Status::Missing, "its content is not there");
            found.named(&named.name, what, facts);
        } else {
            found.lines.add(&named.name, Status::Sound, &facts);
        }
        found.lines.flush()
    })?;
    Ok(names)
}

/// Whether a document has the record that it should have; its hash is noted.
fn has_record(archive: &Archive, document: u64, facts: &mut Facts<'_>) -> Result<bool, Failure> {
    if archive.is_index_only {
        return Ok(true);
    }
    if document == 0 {
        facts.hash = Some(empty_document().hash);
        return Ok(true);
    }
    let Some(record) = archive.tables[Table::Document].get(keys::document(document))? else {
        return Ok(false);
    };
    // One that does not decode is among the damaged ones.
    facts.hash = Document::decode(&record).ok().map(|document| document.hash);
    Ok(true)
}
