//! With content: what is certainly new is stored at once; what may be there is compared with the
//! stored candidate first, in the order that reads least.
//!
//! 1. Fingerprint of size and first block: not in the index, so certainly new. Stored, and the
//!    store is not read.
//! 2. In the index: one positioned read of the first block of the stored candidate. A document
//!    that is no longer than that is decided.
//! 3. The rest of the source is hashed; the stored content is not read, its hash is in the index.
//! 4. Another hash: stored.

use common::codec::{Reader, put_number};

use crate::exit::Failure;
use crate::ingest::{Cost, Fate, How, Outcome, Run, Work, known, new};
use crate::keys::{self, Fingerprint, Hash, Table};
use crate::ledger::malformed;
use crate::parallel;
use crate::pieces;
use crate::read::{self, BLOCK_BYTES};
use crate::record::Document;

/// A document that has to be stored.
pub(crate) struct Job<'a> {
    pub(crate) at: usize,
    pub(crate) work: &'a Work,
    pub(crate) first: &'a [u8],
    /// Under which number.
    number: u64,
    /// The hash that it had when it was compared.
    hash: Option<Hash>,
    /// Bytes of the source that are read before and while it is stored.
    read: u64,
}

/// A document that may be there.
struct Maybe<'a> {
    at: usize,
    work: &'a Work,
    first: &'a [u8],
    candidate: u64,
}

/// How a candidate compares.
enum Verdict {
    /// The first block is all there is, and it is the same.
    Same,
    /// The first block is the same; this is the hash of all of it.
    Hash(Hash),
    /// What is stored is another content.
    Refuted,
}

pub(crate) fn process(run: &mut Run<'_>, works: &[&Work]) -> Result<Vec<Outcome>, Failure> {
    let mut outcomes: Vec<Option<Outcome>> = vec![None; works.len()];
    verify(run, works, &mut outcomes)?;
    let firsts = {
        let todo: Vec<_> = works.iter().zip(&outcomes).collect();
        parallel::map(run.threads, &todo, |(work, outcome)| match outcome {
            Some(_) => Ok(Vec::new()),
            None => run.sources.first_block(&work.path, &work.stamp),
        })
    };
    let (mut jobs, mut maybes) = (Vec::new(), Vec::new());
    for (at, (work, first)) in works.iter().zip(&firsts).enumerate() {
        match first {
            _ if outcomes[at].is_some() => {}
            Err(what) => outcomes[at] = Some(Err(what.clone())),
            Ok(first) => {
                let key = first_key(work, first);
                match run.ledger.get(Table::FirstBlock, &key)? {
                    Some(value) => maybes.push(Maybe {
                        at,
                        work,
                        first,
                        candidate: decode_number(&value)?,
                    }),
                    None => {
                        let number = run.ledger.take_number();
                        lead(run, Table::FirstBlock, &key, number);
                        jobs.push(Job {
                            at,
                            work,
                            first,
                            number,
                            hash: None,
                            read: work.stamp.size,
                        });
                    }
                }
            }
        }
    }
    store_all(run, &jobs, &mut outcomes)?;
    let later = compare_all(run, &maybes, &mut outcomes)?;
    let failed = store_all(run, &later, &mut outcomes)?;
    let outcomes = outcomes.into_iter().map(|outcome| match outcome {
        // It had the content of a document that was to be stored and then changed.
        Some(Ok(fate)) if failed.contains(&fate.document) => Err(read::CHANGED.to_owned()),
        Some(outcome) => outcome,
        None => Err("it was not looked at; this is a bug".to_owned()),
    });
    Ok(outcomes.collect())
}

fn first_key(work: &Work, first: &[u8]) -> Fingerprint {
    read::fingerprint_first(work.stamp.size, first)
}

/// A key that leads to a document.
fn lead(run: &mut Run<'_>, table: Table, key: &[u8], document: u64) {
    let mut value = Vec::new();
    put_number(&mut value, document);
    run.ledger.put(table, key, value);
}

fn decode_number(value: &[u8]) -> Result<u64, Failure> {
    Reader(value).number().map_err(malformed("a content"))
}

/// Stores documents and enters them. Those that could not be read to their end are taken back;
/// their numbers are returned.
fn store_all(
    run: &mut Run<'_>,
    jobs: &[Job<'_>],
    outcomes: &mut [Option<Outcome>],
) -> Result<Vec<u64>, Failure> {
    let stored = pieces::store(run, jobs)?;
    let mut failed = Vec::new();
    for (job, stored) in jobs.iter().zip(stored) {
        let is_other = |document: &Document| job.hash.is_some_and(|hash| hash != document.hash);
        outcomes[job.at] = Some(match stored {
            Ok((document, written)) if !is_other(&document) => {
                let key = keys::document(job.number);
                run.ledger.put(Table::Document, key, document.encode());
                lead(run, Table::Whole, &document.hash, job.number);
                let read = job.read;
                new(job.number, Cost { read, written })
            }
            stored => {
                let first = first_key(job.work, job.first);
                run.ledger.withdraw(Table::FirstBlock, &first);
                if let Some(hash) = &job.hash {
                    run.ledger.withdraw(Table::Whole, hash);
                }
                failed.push(job.number);
                Err(stored.err().unwrap_or_else(|| read::CHANGED.to_owned()))
            }
        });
    }
    Ok(failed)
}

/// Compares documents with their candidates; returns those that are to be stored.
fn compare_all<'a>(
    run: &mut Run<'_>,
    maybes: &[Maybe<'a>],
    outcomes: &mut [Option<Outcome>],
) -> Result<Vec<Job<'a>>, Failure> {
    let mut candidates = Vec::new();
    for maybe in maybes {
        let record = run
            .ledger
            .get(Table::Document, &keys::document(maybe.candidate))?
            .map(|record| Document::decode(&record).map_err(malformed("a document")))
            .transpose()?;
        candidates.push((maybe, record));
    }
    let verdicts = parallel::map(run.threads, &candidates, |(maybe, candidate)| {
        compare(run, maybe, candidate.as_ref())
    });
    let mut later = Vec::new();
    for (maybe, verdict) in maybes.iter().zip(verdicts) {
        run.counts.verified += 1;
        let (size, first) = (maybe.work.stamp.size, maybe.first.len() as u64);
        let hash = match verdict {
            Ok(Verdict::Same) => {
                outcomes[maybe.at] = Some(known(maybe.candidate, Cost::of_reading(first)));
                continue;
            }
            Ok(Verdict::Hash(hash)) => {
                run.counts.hashed += 1;
                Some(hash)
            }
            Ok(Verdict::Refuted) => {
                run.counts.refuted += 1;
                None
            }
            Err(what) => {
                outcomes[maybe.at] = Some(Err(what));
                continue;
            }
        };
        if let Some(hash) = &hash
            && let Some(value) = run.ledger.get(Table::Whole, hash)?
        {
            let document = decode_number(&value)?;
            outcomes[maybe.at] = Some(known(document, Cost::of_reading(size)));
            continue;
        }
        let number = run.ledger.take_number();
        match &hash {
            Some(hash) => lead(run, Table::Whole, hash, number),
            None => {
                let key = first_key(maybe.work, maybe.first);
                lead(run, Table::FirstBlock, &key, number);
            }
        }
        later.push(Job {
            at: maybe.at,
            work: maybe.work,
            first: maybe.first,
            number,
            hash,
            // A document that was hashed is read again.
            read: size + if hash.is_some() { size - first } else { 0 },
        });
    }
    Ok(later)
}

fn compare(
    run: &Run<'_>,
    maybe: &Maybe<'_>,
    candidate: Option<&Document>,
) -> Result<Verdict, String> {
    let work = maybe.work;
    let hashed = || run.sources.hash(&work.path, &work.stamp, maybe.first);
    if maybe.candidate == keys::SEVERAL {
        return Ok(Verdict::Hash(hashed()?));
    }
    let Some(candidate) = candidate else {
        return Ok(Verdict::Refuted);
    };
    let mut left = maybe.first;
    let mut is_same = candidate.size == work.stamp.size;
    let stored = run.archive.read(candidate, |part| {
        let len = part.len().min(left.len());
        is_same &= part[..len] == left[..len];
        left = &left[len..];
        is_same && !left.is_empty()
    });
    if stored.is_err() || !is_same {
        return Ok(Verdict::Refuted);
    }
    if work.stamp.size <= BLOCK_BYTES as u64 {
        return Ok(Verdict::Same);
    }
    Ok(Verdict::Hash(hashed()?))
}

/// `--paranoid`: compares files whose stamp has not changed with what is stored for them, and
/// stores again, under the same number, what is damaged. Those that have another content are left
/// to be compared like any other.
fn verify(
    run: &mut Run<'_>,
    works: &[&Work],
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Failure> {
    let mut todo = Vec::new();
    for (at, work) in works.iter().enumerate() {
        if let Some(number) = work.verify {
            todo.push((at, *work, number, run.archive.document(number)));
        }
    }
    let found = parallel::map(run.threads, &todo, |(_, work, _, document)| {
        let hash = run.sources.hash(&work.path, &work.stamp, &[])?;
        let document = document.as_ref().map_err(ToString::to_string);
        let is_same = document
            .as_ref()
            .is_ok_and(|document| document.hash == hash);
        let is_sound = document.is_ok_and(|document| run.archive.verify(document).is_ok());
        Ok::<_, String>((hash, is_same, is_sound))
    });
    let mut repairs = Vec::new();
    for ((at, work, number, document), found) in todo.iter().zip(found) {
        let is_lost = document.is_err();
        match found {
            Err(what) => outcomes[*at] = Some(Err(what)),
            Ok((_, true, true)) => {
                let cost = Cost::of_reading(work.stamp.size);
                outcomes[*at] = Some(known(*number, cost));
            }
            Ok((hash, is_same, _)) if is_same || is_lost => repairs.push(Job {
                at: *at,
                work,
                first: &[],
                number: *number,
                hash: Some(hash),
                read: 2 * work.stamp.size,
            }),
            Ok(_) => {}
        }
    }
    // Several names of the same damaged document: once is enough.
    let mut done = std::collections::BTreeSet::new();
    let (repairs, again): (Vec<_>, Vec<_>) =
        repairs.into_iter().partition(|job| done.insert(job.number));
    for (job, stored) in repairs.iter().zip(pieces::store(run, &repairs)?) {
        outcomes[job.at] = Some(match stored {
            Ok((document, written)) if Some(document.hash) == job.hash => {
                run.counts.repaired += 1;
                let key = keys::document(job.number);
                run.ledger.put(Table::Document, key, document.encode());
                let read = job.read;
                Ok(Fate {
                    document: job.number,
                    how: How::Repaired,
                    cost: Cost { read, written },
                })
            }
            stored => Err(stored.err().unwrap_or_else(|| read::CHANGED.to_owned())),
        });
    }
    for job in again {
        let repaired = repairs.iter().find(|first| first.number == job.number);
        outcomes[job.at] = repaired
            .and_then(|first| outcomes[first.at].clone())
            .map(|outcome| {
                outcome.map(|fate| Fate {
                    cost: Cost::of_reading(job.work.stamp.size),
                    ..fate
                })
            });
    }
    Ok(())
}
