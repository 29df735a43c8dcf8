//! `check`: reads and verifies everything: the blocks of the index, the hash of every content, and
//! that every name has a document.

use std::collections::BTreeSet;

use common::escape::Escaped;
use serde_json::json;

use crate::archive::Archive;
use crate::args::CheckArgs;
use crate::exit::{Exit, Failure};
use crate::keys::{self, Table};
use crate::list;
use crate::parallel;
use crate::progress::Progress;
use crate::record::{Document, What};

/// Documents that are verified together.
const TOGETHER: usize = 256;

pub(crate) fn run(args: &CheckArgs) -> Result<Exit, Failure> {
    let archive = Archive::open_to_read(&args.store.store)?;
    let index = archive.db.verify(|_, _| {})?;
    let mut damage: Vec<_> = index.findings.iter().map(ToString::to_string).collect();
    let mut documents = 0;
    let mut damaged = BTreeSet::new();
    if !archive.is_index_only {
        let threads = usize::from(args.store.threads);
        documents = contents(&archive, threads, &mut damaged, &mut damage)?;
    }
    let names = names(&archive, &damaged, &mut damage);
    for line in &damage {
        eprintln!("damaged: {}", Escaped(line.as_bytes()));
    }
    let (names, count) = (names?, damage.len());
    match args.store.json {
        true => println!(
            "{}",
            json!({ "documents": documents, "names": names, "damaged": damaged.len(), "damage": count })
        ),
        false => println!("{documents} contents and {names} names verified, {count} damaged"),
    }
    if count == 0 {
        return Ok(Exit::Done);
    }
    if !damaged.is_empty() {
        eprintln!("`ingest --paranoid` stores again what its sources still have");
    }
    Ok(Exit::Damaged)
}

/// Verifies all contents; the numbers of the damaged ones are collected.
fn contents(
    archive: &Archive,
    threads: usize,
    damaged: &mut BTreeSet<u64>,
    damage: &mut Vec<String>,
) -> Result<u64, Failure> {
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
                damaged.insert(*number);
                damage.push(format!("document {number}: {what}"));
            }
        }
    }
}

/// Verifies that names lead to documents, and says which lead to damaged ones.
fn names(
    archive: &Archive,
    damaged: &BTreeSet<u64>,
    damage: &mut Vec<String>,
) -> Result<u64, Failure> {
    let mut names = 0;
    list::each(archive, &[], |named| {
        names += 1;
        let What::File { document } = named.what else {
            return Ok(());
        };
        let name = || String::from_utf8_lossy(&named.name).into_owned();
        if damaged.contains(&document) {
            damage.push(format!("{}: its content is damaged", name()));
        } else if document >= archive.next_document
            || !archive.is_index_only
                && document != 0
                && !archive.tables[Table::Document].contains_key(keys::document(document))?
        {
            damage.push(format!("{}: its content is not there", name()));
        }
        Ok(())
    })?;
    Ok(names)
}
