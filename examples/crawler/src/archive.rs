//! `--warc`: every exchange into a web archive, from all threads.
//!
//! 1. An exchange is in the file, whole, before its page (or what robots.txt said) is committed.
//! 2. Each commit says where the archive ends ([`Archive::end`]). After a kill, the next run cuts the
//!    file there: a torn record goes, and so does an exchange whose page is fetched again.
//!
//! So a page that the store knows as fetched is in the archive, and no record is behind a torn one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use common::codec::{Reader, put_number};
use criba::Db;
use url::Url;

use crate::failure::Failure;
use crate::http::{Cut, Response};
use crate::keys;
use crate::warc::{Exchange, WarcWriter};

const SOFTWARE: &str = concat!("criba crawler/", env!("CARGO_PKG_VERSION"));

/// An archive that is being written.
pub(crate) struct Archive {
    /// `None` after a write that failed: a later record could refer to a body that is not there.
    writing: Mutex<Option<Writing>>,
    /// Bytes of whole records that the system has.
    end: AtomicU64,
    path: String,
    db: Db,
}

struct Writing {
    writer: WarcWriter,
    file: File,
}

impl Archive {
    /// Begins a new file, or goes on in the one that the last run of this crawl has left.
    pub(crate) fn open(path: &Path, db: &Db) -> Result<Archive, Failure> {
        let shown = path.display().to_string();
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        #[expect(clippy::disallowed_methods, reason = "the user names this file")]
        let file = options.open(path).map_err(cannot("open", &shown))?;
        let bytes = file.metadata().map_err(cannot("open", &shown))?.len();
        let mut writer = WarcWriter::default();
        let end = match bytes {
            0 => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let first = writer.information(&name, SOFTWARE);
                let first = first.map_err(cannot("write", &shown))?;
                begin(&file, first, &shown, db)?;
                sync_folder(path).map_err(cannot("write", &shown))?;
                first.len() as u64
            }
            _ => {
                let end = known_end(&file, bytes, &shown, db)?;
                file.set_len(end).map_err(cannot("write", &shown))?;
                end
            }
        };
        Ok(Archive {
            writing: Mutex::new(Some(Writing { writer, file })),
            end: AtomicU64::new(end),
            path: shown,
            db: db.clone(),
        })
    }

    /// The exchange is in the file when this returns.
    pub(crate) fn add(
        &self,
        url: &Url,
        request: &[u8],
        response: &Response,
    ) -> Result<(), Failure> {
        let response_head = response.head.for_whole_body(response.wire.len());
        let exchange = Exchange {
            url,
            at: SystemTime::now(),
            request,
            response_head: &response_head,
            body: &response.wire,
            truncated: response.cut.map(|cut| match cut {
                Cut::Length => "length",
                Cut::Time => "time",
                Cut::Disconnect => "disconnect",
                Cut::Nonsense => "unspecified",
            }),
        };
        let mut slot = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut writing = slot.take().ok_or_else(|| broken(&self.path))?;
        let end = self.end.load(Ordering::Relaxed);
        let records = writing.writer.add(&exchange);
        let written = records.and_then(|records| {
            writing.file.write_all_at(records, end)?;
            Ok(records.len() as u64)
        });
        let bytes = written.map_err(cannot("write", &self.path))?;
        self.end.store(end + bytes, Ordering::Release);
        *slot = Some(writing);
        Ok(())
    }

    /// Where the whole records end, for the commit of a page whose exchange was added.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Commits where the whole records end, for an exchange that is not one of a page. Commits of
    /// this value follow each other: the caller holds the lock under which pages are committed.
    pub(crate) fn commit_end(&self) -> Result<(), Failure> {
        Ok(self.db.put(keys::ARCHIVE_END, encode_end(self.end()))?)
    }

    /// Everything survives a power loss when this returns.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let writing = self.writing.into_inner();
        let writing = writing.unwrap_or_else(PoisonError::into_inner);
        let writing = writing.ok_or_else(|| broken(&self.path))?;
        let synced = writing.file.sync_all();
        synced.map_err(cannot("write", &self.path))
    }
}

fn broken(path: &str) -> Failure {
    cannot("write", path)(io::Error::other("an earlier write failed"))
}

fn cannot(what: &str, path: &str) -> impl FnOnce(io::Error) -> Failure {
    Failure::io(format!("cannot {what} {path}"))
}

/// Writes the first record. The store knows it before the file has it: killed in between, the file
/// is empty, and the next run begins it again.
fn begin(file: &File, first: &[u8], path: &str, db: &Db) -> Result<(), Failure> {
    let mut batch = db.batch();
    batch.put(keys::ARCHIVE, first);
    batch.put(keys::ARCHIVE_END, encode_end(first.len() as u64));
    batch.commit()?;
    // Synced, so that a file that lost pages in a power loss is not taken for an empty one.
    let written = file.write_all_at(first, 0).and_then(|()| file.sync_all());
    written.map_err(cannot("write", path))
}

/// Where the records of committed pages end, in a file that this crawl has written last. Its first
/// record has a random number, so no other file begins with the same bytes.
fn known_end(file: &File, bytes: u64, path: &str, db: &Db) -> Result<u64, Failure> {
    let first = db.get(keys::ARCHIVE)?.unwrap_or_default();
    let mut found = vec![0; first.len()];
    let is_known =
        !first.is_empty() && file.read_exact_at(&mut found, 0).is_ok() && found == *first;
    if !is_known {
        return Err(Failure::Usage(format!(
            "{path} exists, and the last run of this crawl did not write it; name a new file"
        )));
    }
    let end = db.get(keys::ARCHIVE_END)?.unwrap_or_default();
    let end = Reader(&end).number()?;
    if bytes < end {
        return Err(Failure::Usage(format!(
            "{path} has lost its last {} bytes, as after a power loss, and with them pages that are \
             not fetched again; name a new file to go on, or crawl anew with another --store",
            end - bytes
        )));
    }
    Ok(end)
}

/// The value of [`keys::ARCHIVE_END`].
pub(crate) fn encode_end(end: u64) -> Vec<u8> {
    let mut value = Vec::new();
    put_number(&mut value, end);
    value
}

/// The file keeps its name after a power loss.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
    #[expect(clippy::disallowed_methods, reason = "the user names this file")]
    let folder = File::open(folder.unwrap_or(Path::new(".")))?;
    folder.sync_all()
}
