//! The store on disk: an index in criba and packs of content beside it.

use std::path::{Path, PathBuf};

use common::codec::Reader;
use criba::{Access, Compression, Create, Db, Keyspace, Stats};

use crate::exit::Failure;
use crate::keys::{self, Filters, Table, Tables};
use crate::ledger::malformed;
use crate::pack::Packs;
use crate::record::{Document, Frame};
use crate::report::Totals;

/// First byte of `M`. Written to disk; 1 had all tables in one keyspace, 2 was never used.
const FORMAT: u8 = 3;

/// Frames kept decoded while a document is read: the lines of one may lie in many.
const FRAMES_KEPT: usize = 8;

/// What writes a segment holds all its keys, to build the filter, and a key takes few bytes on
/// disk.
const SEGMENT_BYTES: u64 = 4 << 20;

#[derive(Debug)]
pub(crate) struct Archive {
    pub(crate) path: PathBuf,
    pub(crate) db: Db,
    pub(crate) tables: Tables,
    pub(crate) packs: Packs,
    pub(crate) is_index_only: bool,
    /// Number of the next new document.
    pub(crate) next_document: u64,
    pub(crate) totals: Totals,
    /// Bytes that were committed to the index before this run.
    committed_before: u64,
}

/// What is chosen when an archive is opened to write.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choices {
    pub(crate) is_index_only: bool,
    pub(crate) zstd_level: i32,
    pub(crate) filters: Filters,
}

impl Archive {
    /// Opens the archive, or makes it.
    pub(crate) fn open_to_write(path: &Path, choices: &Choices) -> Result<Archive, Failure> {
        make_folder(path)?;
        let db = builder(path).open()?;
        if db.get(keys::META)?.is_none() {
            expect_empty(path, &db)?;
            // Who only reads cannot make them.
            Tables::open(&db, &choices.filters)?;
            db.put(keys::META, [FORMAT, u8::from(choices.is_index_only)])?;
        }
        make_folder(&path.join("packs"))?;
        let archive = Archive::over(path, db, choices)?;
        if archive.is_index_only != choices.is_index_only {
            let (is, asked) = if archive.is_index_only {
                ("an index without content", "without --index-only")
            } else {
                ("a store with content", "with --index-only")
            };
            return Err(Failure::usage(format!(
                "{} is {is}, it cannot be used {asked}; choose another directory with --store",
                path.display()
            )));
        }
        Ok(archive)
    }

    /// Opens an existing archive, of either kind, to take something out of it.
    pub(crate) fn open_to_change(path: &Path) -> Result<Archive, Failure> {
        expect_store(path)?;
        let db = builder(path).create(Create::Never);
        Archive::over(path, db.open()?, &Choices::default())
    }

    /// Opens an existing archive to read; others may read it at the same time.
    pub(crate) fn open_to_read(path: &Path) -> Result<Archive, Failure> {
        expect_store(path)?;
        let db = builder(path)
            .create(Create::Never)
            .access(Access::ReadOnly)
            .open()?;
        Archive::over(path, db, &Choices::default())
    }

    fn over(path: &Path, db: Db, choices: &Choices) -> Result<Archive, Failure> {
        let Some(meta) = db.get(keys::META)? else {
            return Err(Failure::usage(format!(
                "{} holds no documents yet; `ingest` some",
                path.display()
            )));
        };
        let is_index_only = match meta[..] {
            [FORMAT, kind @ (0 | 1)] => kind == 1,
            _ => {
                return Err(Failure::usage(format!(
                    "{} was written by another version of this program; use that one, or another \
                     directory",
                    path.display()
                )));
            }
        };
        // 0 stands for the empty document.
        let (mut next_document, mut packs_end) = (1, 0);
        if let Some(next) = db.get(keys::NEXT)? {
            let mut reader = Reader(&next);
            let mut number = || reader.number().map_err(malformed("the last batch"));
            (next_document, packs_end) = (number()?, number()?);
        }
        let totals = match db.get(keys::TOTALS)? {
            Some(record) => Totals::decode(&record).map_err(malformed("the counters"))?,
            None => Totals::default(),
        };
        Ok(Archive {
            path: path.to_owned(),
            packs: Packs::new(path.join("packs"), packs_end, choices.zstd_level),
            tables: Tables::open(&db, &choices.filters)?,
            totals,
            committed_before: db.stats().compactions.user_bytes,
            db,
            is_index_only,
            next_document,
        })
    }

    /// That of the store's own records, then those of the tables.
    pub(crate) fn keyspaces(&self) -> impl Iterator<Item = &Keyspace> {
        std::iter::once(&*self.db).chain(self.tables.iter())
    }

    /// Counters of all of [`Archive::keyspaces`].
    pub(crate) fn stats(&self) -> Vec<Stats> {
        self.keyspaces().map(Keyspace::stats).collect()
    }

    /// Bytes that this run has committed to the index.
    pub(crate) fn committed_bytes(&self) -> u64 {
        self.db.stats().compactions.user_bytes - self.committed_before
    }

    /// The record of a document.
    pub(crate) fn document(&self, number: u64) -> Result<Document, Failure> {
        if number == 0 {
            return Ok(empty_document());
        }
        let what = format!("document {number}");
        match self.tables[Table::Document].get(keys::document(number))? {
            Some(record) => Document::decode(&record).map_err(malformed(&what)),
            None => Err(Failure::damaged(format!(
                "{what} is not in the index; check the store"
            ))),
        }
    }

    /// Gives the content of a document to `take`, piece by piece, until it says that it has
    /// enough. What is wrong with the content is a sentence.
    pub(crate) fn read(
        &self,
        document: &Document,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), String> {
        let mut kept: Vec<(Frame, Vec<u8>)> = Vec::new();
        for span in &document.spans {
            let at = match kept.iter().position(|(frame, _)| *frame == span.frame) {
                Some(at) => at,
                None => {
                    if kept.len() == FRAMES_KEPT {
                        kept.remove(0);
                    }
                    kept.push((span.frame, self.packs.read(&span.frame)?));
                    kept.len() - 1
                }
            };
            let (start, end) = (span.start as usize, (span.start + span.len) as usize);
            let part = kept[at].1.get(start..end).ok_or("a part is missing")?;
            if !take(part) {
                break;
            }
        }
        Ok(())
    }

    /// Whether what is stored for a document is what was put in.
    pub(crate) fn verify(&self, document: &Document) -> Result<(), String> {
        let mut hasher = blake3::Hasher::new();
        self.read(document, |part| {
            hasher.update(part);
            true
        })?;
        if *hasher.finalize().as_bytes() == document.hash {
            return Ok(());
        }
        Err("the stored content is not what was put in".into())
    }

    pub(crate) fn packs_folder(&self) -> PathBuf {
        self.path.join("packs")
    }
}

fn expect_store(path: &Path) -> Result<(), Failure> {
    match path.join("index").is_dir() {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{} is no store; `ingest` makes one",
            path.display()
        ))),
    }
}

/// Refuses a store that is not ours: one that was made here and has no kind yet has no entries.
fn expect_empty(path: &Path, db: &Db) -> Result<(), Failure> {
    let is_ours =
        |name: &String| name == db.name() || Table::ALL.iter().any(|(_, ours)| ours == name);
    if db.is_empty()? && db.keyspaces().iter().all(is_ours) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{} holds the store of another program; choose another directory with --store",
        path.display()
    )))
}

/// The content of every file of no bytes.
pub(crate) fn empty_document() -> Document {
    Document {
        size: 0,
        hash: *blake3::hash(b"").as_bytes(),
        spans: Vec::new(),
    }
}

/// Small memtables and cache: the whole program is to stay within 40 MB.
fn builder(path: &Path) -> criba::Builder {
    Db::builder(path.join("index"))
        .memtable_bytes(8 << 20)
        .segment_bytes(SEGMENT_BYTES)
        .sealed_memtables_max(1)
        .cache_bytes(4 << 20)
        .level_base_bytes(16 << 20)
        .compression(Compression::Zstd { level: 1 })
}

fn make_folder(path: &Path) -> Result<(), Failure> {
    let what = || {
        format!(
            "cannot make the directory {}; name another one with --store",
            path.display()
        )
    };
    std::fs::create_dir_all(path).map_err(|error| Failure::io(what(), &error))
}
