//! Index only: which documents are the same, with the least reading.
//!
//! Three levels, each asked only where the one before says "maybe": the size (nothing is read), the
//! first block, the whole. A file whose size is certainly new is not even opened. A second file of
//! that size makes both be compared by their first blocks; a second with that first block makes
//! both be hashed. So a file is read no further than some other file made necessary.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::exit::Failure;
use crate::ingest::{Cost, Outcome, Run, Work, known, new};
use crate::keys::{Fingerprint, Hash, Table};
use crate::ledger::malformed;
use crate::parallel;
use crate::read::{self, BLOCK_BYTES, Sources};
use crate::record::{Known, Origin, Stamp};

/// A file to read further.
struct Ask {
    who: Who,
    path: PathBuf,
    stamp: Stamp,
}

#[derive(Clone, Copy)]
enum Who {
    /// A document that was the only one until now.
    Candidate(u64),
    /// What is being ingested, by its place in the list.
    Own(usize),
}

/// How one level answers for a file.
enum Meeting {
    Decided(Outcome),
    /// Read further, and first the one that was the only one until now.
    Compare(Option<Ask>),
}

pub(crate) fn process(run: &mut Run<'_>, works: &[&Work]) -> Result<Vec<Outcome>, Failure> {
    let mut outcomes: Vec<Option<Outcome>> = vec![None; works.len()];
    let mut asks = Vec::new();
    for (at, work) in works.iter().enumerate() {
        let meeting = meet(run, Table::Size, &work.stamp.size.to_le_bytes(), work)?;
        take(meeting, (at, work), &mut outcomes, &mut asks);
    }
    let firsts = read_all(run, &asks, first_block);
    let mut deeper = Vec::new();
    for (ask, first) in asks.iter().zip(firsts) {
        match (ask.who, first) {
            (Who::Candidate(document), Ok(key)) => {
                run.counts.verified += 1;
                let is_all = ask.stamp.size <= BLOCK_BYTES as u64;
                let origin = (!is_all).then(|| origin_of(&ask.path, ask.stamp));
                let known = Known::One { document, origin };
                run.ledger.put(Table::FirstBlock, key, known.encode());
            }
            // It is no longer what it was: nothing can be the same.
            (Who::Candidate(_), Err(_)) => run.counts.refuted += 1,
            (Who::Own(at), Ok(key)) => {
                let meeting = meet(run, Table::FirstBlock, &key, works[at])?;
                take(meeting, (at, works[at]), &mut outcomes, &mut deeper);
            }
            (Who::Own(at), Err(what)) => outcomes[at] = Some(Err(what)),
        }
    }
    whole(run, &deeper, &mut outcomes)?;
    let skipped = || Err("it was not looked at; this is a bug".to_owned());
    Ok(outcomes
        .into_iter()
        .map(|outcome| outcome.unwrap_or_else(skipped))
        .collect())
}

/// The last level: the hash of the whole content decides.
fn whole(run: &mut Run<'_>, asks: &[Ask], outcomes: &mut [Option<Outcome>]) -> Result<(), Failure> {
    let hashes = read_all(run, asks, whole_hash);
    for (ask, hash) in asks.iter().zip(hashes) {
        run.counts.hashed += 1;
        match (ask.who, hash) {
            (Who::Candidate(document), Ok(hash)) => {
                run.ledger.put(Table::Whole, hash, number(document));
            }
            (Who::Candidate(_), Err(_)) => run.counts.refuted += 1,
            (Who::Own(at), Ok(hash)) => {
                let found = run.ledger.get(Table::Whole, &hash)?;
                let cost =
                    Cost::of_reading(read::first_len(ask.stamp.size) as u64 + ask.stamp.size);
                outcomes[at] = Some(match found {
                    Some(value) => known(document(&value)?, cost),
                    None => {
                        let document = run.ledger.take_number();
                        run.ledger.put(Table::Whole, hash, number(document));
                        new(document, cost)
                    }
                });
            }
            (Who::Own(at), Err(what)) => outcomes[at] = Some(Err(what)),
        }
    }
    Ok(())
}

fn number(document: u64) -> Vec<u8> {
    Known::One {
        document,
        origin: None,
    }
    .encode()
}

fn document(value: &[u8]) -> Result<u64, Failure> {
    match Known::decode(value).map_err(malformed("a content"))? {
        Known::One { document, .. } => Ok(document),
        Known::Several => Err(Failure::damaged(
            "a content has several documents in the index; check the store",
        )),
    }
}

fn origin_of(path: &Path, stamp: Stamp) -> Origin {
    Origin {
        path: path.as_os_str().as_bytes().to_vec(),
        stamp,
    }
}

/// Asks one level about a file, and enters it there.
fn meet(run: &mut Run<'_>, level: Table, key: &[u8], work: &Work) -> Result<Meeting, Failure> {
    let read = match level {
        Table::FirstBlock => read::first_len(work.stamp.size) as u64,
        _ => 0,
    };
    let cost = Cost::of_reading(read);
    let is_all = level == Table::FirstBlock && work.stamp.size <= BLOCK_BYTES as u64;
    let enter = |run: &mut Run<'_>| {
        let document = run.ledger.take_number();
        let origin = (!is_all).then(|| origin_of(&work.path, work.stamp));
        let known = Known::One { document, origin };
        run.ledger.put(level, key, known.encode());
        Ok(Meeting::Decided(new(document, cost)))
    };
    let Some(value) = run.ledger.get(level, key)? else {
        return enter(run);
    };
    match Known::decode(&value).map_err(malformed("a size or first block"))? {
        Known::Several => Ok(Meeting::Compare(None)),
        // All of it is in the fingerprint.
        Known::One {
            document,
            origin: None,
        } => Ok(Meeting::Decided(known(document, cost))),
        Known::One {
            document,
            origin: Some(origin),
        } => {
            let path = OsStr::from_bytes(&origin.path);
            if path != work.path.as_os_str() {
                run.ledger.put(level, key, Known::Several.encode());
                return Ok(Meeting::Compare(Some(Ask {
                    who: Who::Candidate(document),
                    path: PathBuf::from(path),
                    stamp: origin.stamp,
                })));
            }
            // The same name again: a run was killed before its directory was committed, or the
            // file is another one now.
            match origin.stamp == work.stamp {
                true => Ok(Meeting::Decided(new(document, cost))),
                false => enter(run),
            }
        }
    }
}

fn take(
    meeting: Meeting,
    (at, work): (usize, &Work),
    outcomes: &mut [Option<Outcome>],
    asks: &mut Vec<Ask>,
) {
    match meeting {
        Meeting::Decided(outcome) => outcomes[at] = Some(outcome),
        Meeting::Compare(candidate) => {
            asks.extend(candidate);
            asks.push(Ask {
                who: Who::Own(at),
                path: work.path.clone(),
                stamp: work.stamp,
            });
        }
    }
}

fn read_all<T: Send>(
    run: &Run<'_>,
    asks: &[Ask],
    read: impl Fn(&Sources, &Ask) -> Result<T, String> + Sync,
) -> Vec<Result<T, String>> {
    parallel::map(run.threads, asks, |ask| read(&run.sources, ask))
}

fn first_block(sources: &Sources, ask: &Ask) -> Result<Fingerprint, String> {
    let block = sources.first_block(&ask.path, &ask.stamp)?;
    Ok(read::fingerprint_first(ask.stamp.size, &block))
}

fn whole_hash(sources: &Sources, ask: &Ask) -> Result<Hash, String> {
    sources.hash(&ask.path, &ask.stamp, &[])
}
