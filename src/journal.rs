//! The journal (write-ahead log): what was written and is not yet in a segment.
//!
//! One file per memtable. A [`Writer`] appends records to a new file; [`recover`] replays the
//! files after a crash and tells a torn tail, which may be dropped, from damage, which may not.
//! What the payloads mean is not known here.
//!
//! Invariants, of which recovery makes use:
//!
//! 1. A journal's header is durable, name included, before its first record is written. It may have
//!    been made ready before it was known where it would start: then its first record tells.
//! 2. A journal is only ever appended to, by the writer that created it; after a failed write
//!    nothing more is written to it.
//! 3. Records are chained, within a file and from file to file: each says the hash of all before.
//! 4. A journal starts where the journals before it end. When a writer moves on, all records of
//!    the old file reach the system before the first record of the new file does; when a recovery
//!    moves on, what it recovered is durable before.
//! 5. A watermark is at most the last sequence of which the whole past is durable.

mod recover;

#[cfg(test)]
mod tests;

pub(crate) use crate::format::journal::Point;
pub(crate) use recover::{
    Apply, Expect, Recovered, Salvaged, Torn, make_durable, recover, salvage, tolerate,
};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::journal::{
    FileHeader, HEADER_BYTES, Journal, MAX_OPERATIONS, RECORD_BYTES, Record, seal_payload,
};
use crate::key::Sequence;
use crate::storage::{AppendFile, ReadCause, Storage, SyncFile};

const EXTENSION: &str = ".journal";

/// The buffer is written to the file when it is longer, and longer payloads are not copied to it.
const BUFFER_BYTES: usize = 64 << 10;

fn too_long() -> Error {
    Error::Invalid("a batch is limited to 4 GiB".to_owned())
}

/// The name of a journal.
pub(crate) fn file_name(id: u64) -> String {
    format!("{id:06}{EXTENSION}")
}

/// The journal that has this name, if it is one that [`file_name`] makes.
pub(crate) fn parse_name(name: &str) -> Option<u64> {
    let id = name.strip_suffix(EXTENSION)?.parse().ok()?;
    // Number 0 is never given.
    (id > 0 && file_name(id) == name).then_some(id)
}

/// What a journal says about itself, if that is intact.
pub(crate) fn read_header(storage: &dyn Storage, id: u64) -> Option<FileHeader> {
    let file = storage.open(&file_name(id)).ok()?;
    let len = file.len().min(HEADER_BYTES as u64);
    let bytes = file.read(ReadCause::Open, 0, usize::try_from(len).ok()?);
    let journal = Journal::new(&bytes.ok()?, id).map(|journal| *journal.header());
    journal.ok()
}

/// What a new journal is to say about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewJournal {
    /// Above the id of every journal there has been.
    pub(crate) id: u64,
    pub(crate) store_id: u128,
    /// The journal before, also one that recovery could not use; 0 when there is none.
    pub(crate) previous: u64,
    /// Whether the file is made longer ahead of what is appended.
    pub(crate) reserve: bool,
}

/// A journal that is durable and has no records yet.
///
/// It can be made ready before the one before it has ended, so that who moves on waits for no disk.
#[derive(Debug)]
pub(crate) struct Ready {
    file: Box<dyn AppendFile>,
    path: PathBuf,
    header: FileHeader,
}

impl Ready {
    /// Creates the file and makes its header and its name durable, without saying where it starts.
    ///
    /// After an error a part of it may be left; recovery knows what to make of that, but the next
    /// attempt needs another id.
    pub(crate) fn create(storage: &Arc<dyn Storage>, new: NewJournal) -> Result<Ready> {
        Self::starting(storage, new, None)
    }

    fn starting(
        storage: &Arc<dyn Storage>,
        new: NewJournal,
        start: Option<Point>,
    ) -> Result<Ready> {
        assert!(
            new.previous < new.id,
            "a journal comes after the one before it"
        );
        let name = file_name(new.id);
        let path = storage.path_of(&name);
        let header = FileHeader {
            id: new.id,
            store_id: new.store_id,
            previous: new.previous,
            start,
            boot_id: storage.boot_id().unwrap_or(0),
        };
        let failed = |error| Error::io(&path, error);
        let mut file = storage.create(&name).map_err(failed)?;
        file.append(&[&header.encode()]).map_err(failed)?;
        file.sync().map_err(failed)?;
        storage.sync_dir().map_err(failed)?;
        if new.reserve {
            file.reserve();
        }
        Ok(Ready { file, path, header })
    }

    /// Begins to write where the journals before end.
    pub(crate) fn begin(self, start: Point) -> Writer {
        assert!(start.next >= Sequence(1), "the first sequence is 1");
        Writer {
            file: self.file,
            path: self.path,
            id: self.header.id,
            identity: self.header.identity(),
            point: start,
            watermark: Sequence(0),
            written_bytes: HEADER_BYTES as u64,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            failed: None,
            sealed: false,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.header.id
    }
}

/// Appends records to one journal.
///
/// After a failed write every later call returns the same error: a part may have been written,
/// and a record behind a torn one would be lost with it.
#[derive(Debug)]
pub(crate) struct Writer {
    file: Box<dyn AppendFile>,
    path: PathBuf,
    id: u64,
    identity: u64,
    point: Point,
    watermark: Sequence,
    written_bytes: u64,
    buffer: Vec<u8>,
    // Invariant: once set, nothing is written any more.
    failed: Option<Error>,
    sealed: bool,
}

impl Writer {
    /// Creates a journal that starts where those before end, as [`Ready::create`] does.
    pub(crate) fn create(
        storage: &Arc<dyn Storage>,
        new: NewJournal,
        start: Point,
    ) -> Result<Writer> {
        Ok(Ready::starting(storage, new, Some(start))?.begin(start))
    }

    /// Appends a record of `count` operations, or one that only carries the watermark when `count`
    /// is 0. It may stay in the buffer: only [`Writer::write_out`] makes it survive a kill.
    ///
    /// Each operation takes a byte of the payload at least. `watermark` is the highest sequence
    /// known durable, in whatever file. Returns the sequence of the first operation.
    pub(crate) fn append(
        &mut self,
        count: u32,
        payload: &[u8],
        watermark: Sequence,
    ) -> Result<Sequence> {
        assert!(
            if count == 0 {
                payload.is_empty()
            } else {
                count as usize <= payload.len()
            },
            "{count} operations cannot take {} bytes",
            payload.len()
        );
        let record = self.next(count, watermark)?;
        self.push(record, payload)?;
        Ok(record.first)
    }

    /// The same of a payload that `make` puts at the end of a buffer. It is not a long one.
    #[inline]
    pub(crate) fn append_made(
        &mut self,
        count: u32,
        watermark: Sequence,
        make: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Sequence> {
        let record = self.next(count, watermark)?;
        self.push_made(record, make)?;
        Ok(record.first)
    }

    fn next(&self, count: u32, watermark: Sequence) -> Result<Record> {
        let first = self.point.next;
        if count > MAX_OPERATIONS || first.after(u64::from(count)) > Sequence::MAX {
            return Err(Error::Invalid(format!(
                "a batch of {count} operations goes beyond the limits of the store"
            )));
        }
        Ok(Record {
            count,
            first,
            watermark,
            chain: self.point.chain,
            begins_append: self.buffer.is_empty(),
        })
    }

    /// Gives the buffer to the system: everything appended so far survives a kill of the process.
    pub(crate) fn write_out(&mut self) -> Result<()> {
        self.check_usable()?;
        self.write_out_with(&[])
    }

    /// The same, and the rest of the last record behind it. It is one append, as what a kill
    /// leaves of an append begins with a record.
    fn write_out_with(&mut self, payload: &[u8]) -> Result<()> {
        match self.file.append(&[&self.buffer, payload]) {
            Ok(()) => {
                self.written_bytes += (self.buffer.len() + payload.len()) as u64;
                self.buffer.clear();
                Ok(())
            }
            Err(error) => {
                let error = Error::io(&self.path, error);
                self.failed = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Ends this journal with the statement that journal `next_id` follows, and writes it out.
    ///
    /// That journal has been created, and starts at [`Writer::point`], which the seal does not move.
    /// Nothing can be appended after. The file is cut to its length when the writer is dropped.
    pub(crate) fn seal(&mut self, next_id: u64) -> Result<()> {
        assert!(next_id > self.id, "a journal is followed by a later one");
        let record = Record::seal(self.point, self.watermark, self.buffer.is_empty());
        self.push(record, &seal_payload(next_id))?;
        self.sealed = true;
        self.write_out()
    }

    /// Where the next record goes.
    pub(crate) fn point(&self) -> Point {
        self.point
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Length of the file when the buffer has been written out.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    /// A handle that makes durable what has been written out.
    pub(crate) fn syncer(&self) -> Arc<dyn SyncFile> {
        self.file.syncer()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn push(&mut self, record: Record, payload: &[u8]) -> Result<()> {
        if payload.len() <= BUFFER_BYTES {
            return self.push_made(record, |out| out.extend_from_slice(payload));
        }
        self.check_record(record)?;
        let offset = self.file_bytes();
        let encoded = record.encode(self.identity, offset, payload);
        let (header, point) = encoded.ok_or_else(too_long)?;
        self.buffer.extend_from_slice(&header);
        self.move_to(point, record);
        self.write_out_with(payload)
    }

    #[inline]
    fn push_made(&mut self, record: Record, make: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        self.check_record(record)?;
        let offset = self.file_bytes();
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; RECORD_BYTES]);
        make(&mut self.buffer);
        let (header, payload) = self.buffer[start..].split_at_mut(RECORD_BYTES);
        let Some((encoded, point)) = record.encode(self.identity, offset, payload) else {
            self.buffer.truncate(start);
            return Err(too_long());
        };
        header.copy_from_slice(&encoded);
        self.move_to(point, record);
        if self.buffer.len() > BUFFER_BYTES {
            return self.write_out();
        }
        Ok(())
    }

    fn check_record(&self, record: Record) -> Result<()> {
        assert!(!self.sealed, "nothing follows the seal of a journal");
        assert!(
            record.watermark < record.first,
            "nothing is durable before it is written"
        );
        self.check_usable()
    }

    fn move_to(&mut self, point: Point, record: Record) {
        self.point = point;
        self.watermark = self.watermark.max(record.watermark);
    }

    fn check_usable(&self) -> Result<()> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}
