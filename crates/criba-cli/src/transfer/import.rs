//! `import`: lines become batches, batches become segments.

use std::io::{self, BufRead, Write as _};

use criba::{Db, Durability, Keyspace, MAX_KEY_BYTES, MAX_VALUE_BYTES};

use super::{Entry, Kind, Said, Spelling};
use crate::args::ImportArgs;
use crate::exit::{Exit, Failure};
use crate::keyspaces::{self, Name};
use crate::lines::{Line, Lines};
use crate::progress::Progress;
use crate::{files, store};

/// A batch is committed at so many entries, or so many bytes of keys and values.
const BATCH_ENTRIES: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;

/// No entry is longer than this when each of its bytes is an escape of six characters.
const LINE_BYTES_MAX: usize = (MAX_KEY_BYTES + MAX_VALUE_BYTES + 100).saturating_mul(6);

pub(crate) fn import(args: &ImportArgs) -> Result<Exit, Failure> {
    let name = Name::given(&args.place, &args.unescape)?;
    let input = files::open_input(&args.file)?;
    // Another keyspace may have another operator than the default one.
    let operator = args.operator.as_ref();
    let of_store = operator.filter(|_| name.is_default());
    let builder = store::with_operator(Db::builder(&args.store), of_store);
    let mut builder = args.filter.choose(builder).compression(args.compression);
    if let Some(bytes) = args.memtable_bytes {
        builder = builder.memtable_bytes(bytes);
    }
    let db = builder.open()?;
    let template = match input.bytes {
        Some(_) => "importing [{bar:40}] {bytes}/{total_bytes} {eta}",
        None => "importing {bytes}",
    };
    let mut loader = Loader {
        db: &db,
        keyspace: keyspaces::open(&db, &name, operator)?,
        is_given: args.place.keyspace.is_some(),
        lines: Lines::new(input.reader, LINE_BYTES_MAX),
        spelling: Spelling::new(args.json),
        progress: Progress::new(input.bytes, template),
        name: input.name,
        has_operator: args.operator.is_some(),
        entries: 0,
    };
    let loaded = loader.load();
    let entries = loader.entries;
    drop(loader);
    // What was read before a bad line is kept, and kept safe, all the same.
    let kept = db.flush().and_then(|()| db.close());
    // If it could not be, that is worse than any bad line.
    kept?;
    loaded?;
    // Nothing is to be done when standard error is gone; the work is.
    let noun = if entries == 1 { "entry" } else { "entries" };
    writeln!(io::stderr(), "{entries} {noun} imported").ok();
    Ok(Exit::Done)
}

struct Loader<'a> {
    db: &'a Db,
    /// That of the next entry.
    keyspace: Keyspace,
    /// Whether the command line names it.
    is_given: bool,
    lines: Lines<Box<dyn BufRead>>,
    spelling: Spelling,
    progress: Progress,
    name: String,
    has_operator: bool,
    entries: u64,
}

impl Loader<'_> {
    fn load(&mut self) -> Result<(), Failure> {
        let mut line = Vec::new();
        loop {
            let mut batch = self.db.batch();
            let mut bytes = 0;
            let mut next = Ok(true);
            while batch.len() < BATCH_ENTRIES && bytes < BATCH_BYTES {
                match self.entry(&mut line) {
                    Ok(Some((key, kind, value))) => {
                        bytes += key.len() + value.len();
                        let mut batch = batch.keyspace(&self.keyspace);
                        match kind {
                            Kind::Value => batch.put(key, value),
                            Kind::Operand => batch.merge(key, value),
                        };
                    }
                    Ok(None) => next = Ok(false),
                    Err(failure) => next = Err(failure),
                }
                if !matches!(next, Ok(true)) {
                    break;
                }
            }
            let count = batch.len() as u64;
            batch.commit_with(Durability::Buffered)?;
            self.entries += count;
            self.progress.position(self.lines.read_bytes());
            match next {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(failure) => return Err(self.with_account(failure)),
            }
        }
    }

    /// The next entry; `None` at the end. Empty lines are none, and lines that name a keyspace.
    fn entry(&mut self, line: &mut Vec<u8>) -> Result<Option<Entry>, Failure> {
        loop {
            let found = self.lines.next(line);
            let found = found
                .map_err(|error| Failure::io(format_args!("cannot read {}", self.name), &error))?;
            let said = match found {
                Line::End => return Ok(None),
                Line::Whole if line.is_empty() => continue,
                Line::Whole => self.spelling.read(line).map_err(Failure::usage),
                Line::TooLong => Err(Failure::usage("the line is longer than any entry can be")),
            };
            let entry = said.and_then(|said| match said {
                Said::Keyspace(name) => self.enter(&name).map(|()| None),
                Said::Entry(entry) => self.check(entry).map(Some).map_err(Failure::usage),
            });
            let entry = entry.map_err(|failure| {
                failure.at(format_args!("{}: line {}", self.name, self.lines.number()))
            })?;
            if entry.is_some() {
                return Ok(entry);
            }
        }
    }

    /// The entries that come now are of this keyspace.
    fn enter(&mut self, name: &Name) -> Result<(), Failure> {
        if self.is_given {
            let what = "this line names a keyspace, and so does --keyspace; leave that out";
            return Err(Failure::usage(what));
        }
        self.keyspace = keyspaces::open(self.db, name, None)?;
        Ok(())
    }

    fn check(&self, entry: Entry) -> Result<Entry, String> {
        store::check_limits(&entry.0, &entry.2)?;
        self.check_kind(entry)
    }

    fn check_kind(&self, entry: Entry) -> Result<Entry, String> {
        match entry.1 {
            Kind::Operand if !self.has_operator => {
                Err("this is an operand; name its operator with --operator".into())
            }
            Kind::Operand | Kind::Value => Ok(entry),
        }
    }

    /// The failure, and what is in the store all the same.
    fn with_account(&self, failure: Failure) -> Failure {
        let Failure::Said(mut said) = failure else {
            return failure;
        };
        let account = match self.entries {
            0 => return Failure::Said(said),
            1 => "the entry before it is in the store".into(),
            count => format!("the {count} entries before it are in the store"),
        };
        said.sentence = format!("{}; {account}", said.sentence);
        Failure::Said(said)
    }
}
