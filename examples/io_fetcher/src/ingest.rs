//! `ingest`: what has changed since the last run is compared, and stored where it is new.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};

use criba::{RunStats, Stats};

use crate::account::Account;
use crate::archive::{Archive, Choices};
use crate::args::IngestArgs;
use crate::diff::{self, Directory};
use crate::exit::{self, Exit, Failure};
use crate::keys::{Filters, Table};
#[cfg(test)]
use crate::ledger::Accounts;
use crate::ledger::{Ledger, malformed};
use crate::lines::Lines;
use crate::progress::Progress;
use crate::read::Sources;
use crate::record::{self, Entry, Known, Origin, Stamp, What};
use crate::report::{Counts, Totals};
use crate::sources::{self, Source};
use crate::summary::{self, Summary};
use crate::tune::Auto;
use crate::walk::{self, Listing, Message, WalkOptions};
use crate::{content, index, keys, web};

/// Documents that are committed together.
const TOGETHER_MAX: usize = 1024;

/// Documents that are compared together: their first blocks are in memory. A divisor of the above.
const COMPARED_MAX: usize = 256;

/// Names that are held in memory before their directories are committed, a large one apart.
const NAMES_MAX: usize = 8192;

/// A journal of more than this is better turned into a segment than replayed by the next run.
const FLUSH_WORTH_BYTES: u64 = 256 << 10;

/// An index up to so many times what was written is merged at the end of a run,
const TIDY_RATIO: u64 = 4;

/// if it has more sorted runs than this, so that the next run would begin with merging them.
const RUNS_TIDY: usize = 3;

/// Directories that the walk may be ahead.
const AHEAD: usize = 64;

/// Says how to go on after a run that could not write.
pub(crate) const GOES_ON: &str =
    "what is committed stays, and the same command goes on from there when there is room";

/// A document to compare.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) path: PathBuf,
    pub(crate) stamp: Stamp,
    pub(crate) device: u64,
    pub(crate) links: u64,
    /// Directory and name that it is for.
    pub(crate) slot: (usize, usize),
    /// What the name stood for.
    pub(crate) old: Option<Entry>,
    /// The document whose content it should have, when content is to be compared all the same.
    pub(crate) verify: Option<u64>,
}

/// How a document got its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// It was not there.
    New,
    /// It was there.
    Known,
    /// The file was met under another name.
    OtherName,
    /// It was there, damaged, and was stored again.
    Repaired,
}

/// The cost of a document, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cost {
    /// Read of the source.
    pub(crate) read: u64,
    /// Written to the packs.
    pub(crate) written: u64,
}

impl Cost {
    pub(crate) fn of_reading(bytes: u64) -> Cost {
        Cost {
            read: bytes,
            written: 0,
        }
    }
}

/// The document that has the content, and how it came to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fate {
    pub(crate) document: u64,
    pub(crate) how: How,
    pub(crate) cost: Cost,
}

/// Where a document went, or why it was skipped.
pub(crate) type Outcome = Result<Fate, String>;

/// An ingest under way.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) archive: &'a Archive,
    pub(crate) args: &'a IngestArgs,
    pub(crate) ledger: Ledger<'a>,
    pub(crate) sources: Sources,
    pub(crate) counts: Counts,
    pub(crate) auto: Auto,
    pub(crate) threads: usize,
    pub(crate) lines: Lines,
    synced_end: u64,
}

/// What is left when it is over.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) archive: Archive,
    pub(crate) counts: Counts,
    /// The account of this run's lookups.
    #[cfg(test)]
    pub(crate) accounts: Accounts,
    lines: Lines,
    summary: Summary,
}

pub(crate) fn run(args: &IngestArgs) -> Result<Exit, Failure> {
    let ended = ingest(args)?;
    ended.archive.db.close()?;
    match ended.summary {
        Summary::Json(object) => ended.lines.end(object)?,
        Summary::Text(text) => exit::say(text.as_bytes())?,
    }
    Ok(match ended.counts.troubles {
        0 => Exit::Done,
        _ => Exit::Partly,
    })
}

/// Does the work and leaves the archive open.
pub(crate) fn ingest(args: &IngestArgs) -> Result<Ended, Failure> {
    let mut all: Box<dyn Iterator<Item = Result<Source, Failure>> + Send> =
        Box::new(args.sources.iter().cloned().map(Source::new).map(Ok));
    if let Some(list) = &args.files_from {
        all = Box::new(all.chain(sources::listed(list, args.null)?));
    }
    let tables: Vec<_> = args.filters.iter().copied().flatten().collect();
    let filters = Filters::new(&tables, args.bits_per_key);
    let choices = Choices {
        is_index_only: args.index_only,
        zstd_level: args.zstd_level,
        filters,
    };
    let archive = Archive::open_to_write(&args.store.store, &choices)?;
    let cannot = |error| Failure::io("cannot look at the store's directory", &error);
    let meta = fs::metadata(&args.store.store).map_err(cannot)?;
    let options = WalkOptions {
        one_file_system: args.one_file_system,
        store: (meta.dev(), meta.ino()),
    };
    let mut run = Run::new(&archive, args);
    let (out, messages) = sync_channel(AHEAD);
    std::thread::scope(|scope| {
        scope.spawn(move || walk::walk(all, &options, &out));
        // By value: when this ends early, the walk ends too.
        run.take_all(messages)
    })?;
    run.finish()?;
    let summary = summary::of(&run);
    Ok(Ended {
        counts: run.counts,
        #[cfg(test)]
        accounts: run.ledger.accounts(),
        lines: run.lines,
        summary,
        archive,
    })
}

impl<'a> Run<'a> {
    pub(crate) fn new(archive: &'a Archive, args: &'a IngestArgs) -> Run<'a> {
        Run {
            archive,
            args,
            ledger: Ledger::new(archive),
            sources: Sources::default(),
            counts: Counts::default(),
            auto: Auto::default(),
            threads: usize::from(args.store.threads),
            lines: Lines::new(args.store.json),
            synced_end: archive.packs.end(),
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "its end is the walk's end")]
    fn take_all(&mut self, messages: Receiver<Message>) -> Result<(), Failure> {
        let progress = Progress::new(None);
        let mut group = Group::default();
        while let Ok(message) = messages.recv() {
            match message {
                Message::Listing(listing) => self.take_listing(listing, &mut group)?,
                Message::Url(url) => {
                    let outcome = web::fetch(self, &url)?;
                    if let Err(what) = outcome {
                        self.trouble(url.as_bytes(), &what);
                    }
                }
                Message::Failed(failure) => return Err(failure),
            }
            if group.works.len() >= TOGETHER_MAX || group.names >= NAMES_MAX {
                self.settle(std::mem::take(&mut group))?;
            }
            let read = self.sources.bytes.load(Ordering::Relaxed);
            progress.show(self.counts.documents, read, self.counts.stored_bytes);
        }
        self.settle(group)
    }

    fn take_listing(&mut self, listing: Listing, group: &mut Group) -> Result<(), Failure> {
        for (path, what) in &listing.troubles {
            self.trouble(path.as_os_str().as_bytes(), what);
        }
        self.left_out(&listing);
        let is_nothing = listing.found.is_empty() && !listing.is_whole;
        if is_nothing || listing.path.as_os_str().len() > keys::NAME_BYTES_MAX {
            return Ok(());
        }
        // Its record must be there before it is changed again.
        if !group.paths.insert(listing.path.clone()) {
            self.settle(std::mem::take(group))?;
            group.paths.insert(listing.path.clone());
        }
        self.counts.directories += u64::from(listing.is_whole);
        let old = self.directory(&listing.path)?;
        if old.is_none() {
            self.count_attributes([&*listing.path].into_iter());
        }
        let slot = group.directories.len();
        let difference = diff::compare(old, listing, self.args, slot);
        self.count_difference(&difference);
        for path in &difference.gone_directories {
            self.subtree_gone(path)?;
        }
        group.names += difference.directory.entries.len();
        group.directories.push(difference.directory);
        // A large directory is mostly alone: its works are not copied.
        match group.works.is_empty() {
            true => group.works = difference.works,
            false => group.works.extend(difference.works),
        }
        Ok(())
    }

    /// The record of a directory as it was left; `None` if there is none.
    fn directory(&mut self, path: &std::path::Path) -> Result<Option<Vec<Entry>>, Failure> {
        let record = self.ledger.get(Table::Directory, &keys::directory(path))?;
        let what = path.display().to_string();
        record
            .map(|record| record::decode_directory(&record).map_err(malformed(&what)))
            .transpose()
    }

    /// A directory is gone, and so is all below it.
    fn subtree_gone(&mut self, path: &std::path::Path) -> Result<(), Failure> {
        let key = keys::directory(path);
        let below: Vec<u8> = key.iter().copied().chain([0]).collect();
        let directories = &self.archive.tables[Table::Directory];
        let here = directories.range(&key[..]..=&key[..]);
        for record in here.chain(directories.prefix(&below)) {
            let (key, value) = record?;
            let path = keys::directory_path(&key);
            let mut entries =
                record::decode_directory(&value).map_err(malformed(&path.display().to_string()))?;
            for entry in entries.iter_mut().filter(|entry| !entry.is_gone) {
                entry.is_gone = true;
                if matches!(entry.what, What::File { .. }) {
                    self.gone(&path.join(OsStr::from_bytes(&entry.name)));
                }
            }
            if self.args.prune {
                entries.clear();
            }
            let record = record::encode_directory(entries.iter());
            self.ledger.put(Table::Directory, &key[..], record);
        }
        Ok(())
    }

    /// Compares what is new in a group of directories, stores what has to be, and commits: first
    /// the documents, batch by batch, the directories with the last.
    fn settle(&mut self, group: Group) -> Result<(), Failure> {
        let Group {
            mut directories,
            works,
            ..
        } = group;
        let mut compared = 0;
        for some in works.chunks(COMPARED_MAX) {
            self.count_attributes(some.iter().map(|work| &*work.path));
            let outcomes = self.process(some)?;
            for (work, outcome) in some.iter().zip(outcomes) {
                self.enter(&mut directories, work, outcome);
            }
            compared += some.len();
            if works.len() > TOGETHER_MAX && compared.is_multiple_of(TOGETHER_MAX) {
                self.commit()?;
            }
        }
        drop(works);
        for directory in directories.iter().filter(|directory| directory.is_changed) {
            let record = record::encode_directory(directory.entries.iter().flatten());
            let key = keys::directory(&directory.path);
            self.ledger.put(Table::Directory, key, record);
        }
        self.commit()
    }

    /// Writes down where a document went. One that was skipped keeps what was known of it.
    fn enter(&mut self, directories: &mut [Directory], work: &Work, outcome: Outcome) {
        let directory = &mut directories[work.slot.0];
        let entry = &mut directory.entries[work.slot.1];
        match outcome {
            Ok(fate) => {
                let status = self.count(work, fate);
                let name = work.path.as_os_str().as_bytes();
                self.tell(name, status, work.stamp.size, fate);
                if let Some(entry) = entry {
                    entry.what = What::File {
                        document: fate.document,
                    };
                }
                // The stamp may be as before, and only the content another.
                directory.is_changed |= *entry != work.old;
            }
            Err(what) => {
                entry.clone_from(&work.old);
                directory.is_changed |= entry.is_none();
                self.trouble(work.path.as_os_str().as_bytes(), &what);
            }
        }
    }

    /// Decides about documents: those of no bytes and other names of the same file at once, the
    /// rest by comparison.
    pub(crate) fn process(&mut self, works: &[Work]) -> Result<Vec<Outcome>, Failure> {
        let mut outcomes: Vec<Option<Outcome>> = vec![None; works.len()];
        let mut aliases = Vec::new();
        let mut names: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        let mut rest = Vec::new();
        for (at, work) in works.iter().enumerate() {
            let file = (work.device, work.stamp.inode);
            if work.stamp.size == 0 {
                outcomes[at] = Some(known(0, Cost::default()));
            } else if work.links > 1 && work.verify.is_none() {
                match names.get(&file) {
                    Some(&first) => aliases.push((at, first)),
                    None => {
                        names.insert(file, at);
                        outcomes[at] = self.other_name(work)?;
                    }
                }
            }
            let is_alias = aliases.last().is_some_and(|(alias, _)| *alias == at);
            if outcomes[at].is_none() && !is_alias {
                rest.push(at);
            }
        }
        let compared: Vec<&Work> = rest.iter().map(|&at| &works[at]).collect();
        let decided = match self.archive.is_index_only {
            true => index::process(self, &compared)?,
            false => content::process(self, &compared)?,
        };
        for (at, outcome) in rest.into_iter().zip(decided) {
            self.remember_name(&works[at], &outcome);
            outcomes[at] = Some(outcome);
        }
        for (at, first) in aliases {
            self.counts.hard_links += 1;
            let fate = outcomes[first].clone().map(|outcome| {
                outcome.map(|fate| Fate {
                    how: How::OtherName,
                    cost: Cost::default(),
                    ..fate
                })
            });
            outcomes[at] = fate;
        }
        let skipped = || Err("it was not looked at; this is a bug".to_owned());
        Ok(outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or_else(skipped))
            .collect())
    }

    /// The content of a file that was met under another name and has not changed since.
    fn other_name(&mut self, work: &Work) -> Result<Option<Outcome>, Failure> {
        let key = keys::inode(work.device, work.stamp.inode);
        let Some(value) = self.ledger.get(Table::Inode, &key)? else {
            return Ok(None);
        };
        match Known::decode(&value).map_err(malformed("a file with several names"))? {
            Known::One {
                document,
                origin: Some(origin),
            } if origin.stamp == work.stamp => {
                self.counts.hard_links += 1;
                Ok(Some(Ok(Fate {
                    document,
                    how: How::OtherName,
                    cost: Cost::default(),
                })))
            }
            _ => Ok(None),
        }
    }

    fn remember_name(&mut self, work: &Work, outcome: &Outcome) {
        if let (Ok(fate), true) = (outcome, work.links > 1) {
            let origin = Origin {
                path: Vec::new(),
                stamp: work.stamp,
            };
            let known = Known::One {
                document: fate.document,
                origin: Some(origin),
            };
            let key = keys::inode(work.device, work.stamp.inode);
            self.ledger.put(Table::Inode, key, known.encode());
        }
    }

    /// Commits what there is; content first, so that nothing refers to what is not there.
    pub(crate) fn commit(&mut self) -> Result<(), Failure> {
        let end = self.sync_packs()?;
        self.ledger.commit(None, end)?;
        self.lines.flush()
    }

    /// Commits blocks and lines in the middle of a document: others that wait may not be whole yet.
    pub(crate) fn commit_pieces(&mut self) -> Result<(), Failure> {
        let end = self.sync_packs()?;
        self.ledger.commit(Some(Table::Piece), end)
    }

    fn sync_packs(&mut self) -> Result<u64, Failure> {
        let end = self.archive.packs.end();
        if end != self.synced_end {
            let cannot = |error| Failure::io(format!("cannot sync the packs; {GOES_ON}"), &error);
            self.archive.packs.sync().map_err(cannot)?;
            self.synced_end = end;
        }
        Ok(end)
    }

    /// What the next run opens is to be in few segments: it would replay the journal, and merge
    /// what this run has left to merge. A merge that is much larger than what was written is left
    /// for later.
    fn leave_tidy(&self) -> Result<(), Failure> {
        self.archive.db.flush()?;
        let stats = self.archive.stats();
        let runs = stats.iter().flat_map(|table| &table.runs);
        let held: u64 = runs.map(RunStats::file_bytes).sum();
        if held >= TIDY_RATIO * self.archive.committed_bytes() {
            return Ok(());
        }
        for (table, stats) in self.archive.keyspaces().zip(&stats) {
            if stats.runs.len() > RUNS_TIDY {
                table.compact_all()?.wait()?;
            }
        }
        Ok(())
    }

    /// The end of a run: counters are kept for the next one, and everything survives power loss.
    fn finish(&mut self) -> Result<(), Failure> {
        self.counts.opened = self.sources.opened.load(Ordering::Relaxed);
        let before = &self.archive.totals;
        let mut accounts = before.accounts;
        let mut run = Account::default();
        for (sum, account) in accounts.iter_mut().zip(self.ledger.accounts()) {
            *sum += account;
            run += account;
        }
        let totals = Totals {
            runs: before.runs + 1,
            reads_avoided: before.reads_avoided + run.reads_avoided,
            false_positives: before.false_positives + run.false_positives,
            source_bytes_read: before.source_bytes_read
                + self.sources.bytes.load(Ordering::Relaxed),
            source_bytes_seen: before.source_bytes_seen + self.counts.document_bytes,
            accounts,
        };
        let db = &self.archive.db;
        if self.archive.committed_bytes() == 0 {
            // Nothing has changed, so nothing is written.
            return Ok(());
        }
        db.put(keys::TOTALS, totals.encode())?;
        let stats = self.archive.stats();
        let sum = |of: fn(&Stats) -> u64| stats.iter().map(of).sum::<u64>();
        let unflushed = sum(|table| table.memtable.active_bytes);
        if unflushed > FLUSH_WORTH_BYTES || sum(|table| table.memtable.flushes) > 0 {
            self.leave_tidy()?;
        }
        Ok(db.sync()?)
    }
}

impl Fate {
    /// The fate of a document that was not read.
    pub(crate) fn unread(document: u64) -> Fate {
        Fate {
            document,
            how: How::Known,
            cost: Cost::default(),
        }
    }
}

pub(crate) fn known(document: u64, cost: Cost) -> Outcome {
    Ok(Fate {
        document,
        how: How::Known,
        cost,
    })
}

pub(crate) fn new(document: u64, cost: Cost) -> Outcome {
    Ok(Fate {
        document,
        how: How::New,
        cost,
    })
}

/// Directories that are committed together.
#[derive(Debug, Default)]
struct Group {
    directories: Vec<Directory>,
    paths: BTreeSet<PathBuf>,
    works: Vec<Work>,
    names: usize,
}
