//! The journal's bytes: a file header, then records one after the other.
//!
//! A record's header has a checksum of its own, so that it is recognised, and its watermark
//! believed, even when its payload is damaged or cut off. Whether a journal may end where it
//! does is not decided here: this module says what the bytes are, `journal` what they mean.
//!
//! Every offset and length is that of the file; `docs/format.md` has the tables.

mod header;
mod record;

pub(crate) use header::{BadHeader, FileHeader, HEADER_BYTES, Point};
pub(crate) use record::{MAX_OPERATIONS, RECORD_BYTES, Record, seal_payload, sealed_by};

use super::checksum;
use crate::key::Sequence;
use header::is_zero;
use record::FIRST_AT;

/// So many bytes tell where a journal starts: its header and that of the first record.
pub(crate) const START_BYTES: u64 = (HEADER_BYTES + RECORD_BYTES) as u64;

/// The unit in which a device loses or keeps what was written.
const SECTOR_BYTES: usize = 512;

/// The unit in which a system writes back, or fails to.
const PAGE_BYTES: usize = 4096;

/// What stands at an offset of a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step<'a> {
    /// Nothing but zeros: the journal ends here.
    End,
    /// An intact record.
    Record {
        record: Record,
        payload: &'a [u8],
        /// Where the next record stands.
        end: usize,
        /// What it must say to follow this one.
        after: Point,
    },
    /// Fewer bytes than a header has.
    Short,
    /// No intact header.
    BadHeader,
    /// An intact header, but the file ends within its payload.
    Cut(Record),
    /// An intact header before a damaged payload.
    BadPayload(Record),
}

impl Step<'_> {
    /// The record whose header is intact, whatever its payload is.
    pub(crate) fn record(&self) -> Option<&Record> {
        match self {
            Step::Record { record, .. } | Step::Cut(record) | Step::BadPayload(record) => {
                Some(record)
            }
            Step::End | Step::Short | Step::BadHeader => None,
        }
    }
}

/// Intact headers found behind the place where the records end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Strays {
    /// Offset of the first one.
    pub(crate) at: usize,
    /// The highest watermark among them.
    pub(crate) watermark: Sequence,
    /// Offset of the first one with that watermark.
    pub(crate) watermark_at: usize,
    /// Whether one of them begins an append.
    pub(crate) begins_append: bool,
}

/// The bytes of a whole journal whose header is intact.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Journal<'a> {
    bytes: &'a [u8],
    header: FileHeader,
    identity: u64,
}

impl<'a> Journal<'a> {
    /// Takes the bytes of the file that bears the name of journal `id`.
    pub(crate) fn new(bytes: &'a [u8], id: u64) -> Result<Journal<'a>, BadHeader> {
        let header = header::decode(bytes, id)?;
        Ok(Journal {
            bytes,
            header,
            identity: header.identity(),
        })
    }

    /// Takes the bytes of a journal whose header is damaged: its records can still be told, as
    /// their checksums need only the store and the number. Nothing else of the header is known.
    pub(crate) fn headless(bytes: &'a [u8], id: u64, store_id: u128) -> Journal<'a> {
        let header = FileHeader {
            id,
            store_id,
            previous: 0,
            start: None,
            boot_id: 0,
        };
        Journal {
            bytes,
            header,
            identity: header.identity(),
        }
    }

    /// The first offset from `from` on where the header of a record is intact.
    pub(crate) fn next_record(&self, from: usize) -> Option<usize> {
        let mut windows = self.rest(from).windows(RECORD_BYTES).enumerate();
        windows.find_map(|(index, window)| {
            let at = from.saturating_add(index);
            record::decode(window, self.identity, at).map(|_| at)
        })
    }

    pub(crate) fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Where it starts: as its header says, or its first record where the header leaves it open.
    /// `None` when it has no record that tells.
    pub(crate) fn start(&self) -> Option<Point> {
        self.header.start.or_else(|| {
            let first = self.step(HEADER_BYTES);
            first.record().map(Record::start)
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn rest(&self, offset: usize) -> &'a [u8] {
        self.bytes.get(offset..).unwrap_or_default()
    }

    pub(crate) fn step(&self, offset: usize) -> Step<'a> {
        let rest = self.rest(offset);
        let Some((header, behind)) = rest.split_at_checked(RECORD_BYTES) else {
            return if is_zero(rest) {
                Step::End
            } else {
                Step::Short
            };
        };
        let Some(intact) = record::decode(header, self.identity, offset) else {
            return if is_zero(rest) {
                Step::End
            } else {
                Step::BadHeader
            };
        };
        let record = intact.record;
        let payload = usize::try_from(intact.payload_len)
            .ok()
            .and_then(|len| behind.get(..len));
        let Some(payload) = payload else {
            return Step::Cut(record);
        };
        if intact.payload_checksum != checksum::at(self.identity, offset as u64, &[payload]) {
            return Step::BadPayload(record);
        }
        let end = offset
            .saturating_add(RECORD_BYTES)
            .saturating_add(payload.len());
        Step::Record {
            record,
            payload,
            end,
            after: record.after(header),
        }
    }

    /// Looks at every byte from `from` on for an intact header of a record that gives `next` or
    /// a later sequence.
    ///
    /// An operation takes a byte at least, so the sequences that can occur in a file are few
    /// among all numbers: comparing one field rejects nearly every offset. Where the start is not
    /// known, any sequence can.
    pub(crate) fn strays(&self, from: usize, next: Sequence) -> Option<Strays> {
        let last = self.start().map_or(Sequence::MAX.0, |start| {
            start.next.0.saturating_add(self.bytes.len() as u64)
        });
        let span = last.saturating_sub(next.0);
        let mut found: Option<Strays> = None;
        for (index, window) in self.rest(from).windows(RECORD_BYTES).enumerate() {
            let Some(first) = window.get(FIRST_AT..).and_then(|field| field.first_chunk()) else {
                break;
            };
            if u64::from_le_bytes(*first).wrapping_sub(next.0) > span {
                continue;
            }
            let at = from.saturating_add(index);
            let Some(intact) = record::decode(window, self.identity, at) else {
                continue;
            };
            let watermark = intact.record.watermark;
            let strays = found.get_or_insert(Strays {
                at,
                watermark,
                watermark_at: at,
                begins_append: false,
            });
            strays.begins_append |= intact.record.begins_append;
            if watermark > strays.watermark {
                strays.watermark = watermark;
                strays.watermark_at = at;
            }
        }
        found
    }

    /// Whether a whole sector is zero that begins between two offsets, as when the system failed
    /// to write it back. The end of the file may cut it if a page begins with it.
    pub(crate) fn has_zero_sector(&self, from: usize, to: usize) -> bool {
        let start = from
            .checked_next_multiple_of(SECTOR_BYTES)
            .unwrap_or(usize::MAX);
        (start..to.min(self.len())).step_by(SECTOR_BYTES).any(|at| {
            let sector = self.rest(at);
            let is_whole = sector.len() >= SECTOR_BYTES || at.is_multiple_of(PAGE_BYTES);
            is_whole && is_zero(sector.get(..SECTOR_BYTES).unwrap_or(sector))
        })
    }

    /// Where the damaged record at an offset ends, as far as that is known.
    pub(crate) fn end_of_damaged(&self, offset: usize) -> usize {
        let header = offset.saturating_add(RECORD_BYTES);
        let intact = self
            .bytes
            .get(offset..header)
            .and_then(|bytes| record::decode(bytes, self.identity, offset));
        let payload_len = intact.map_or(0, |intact| intact.payload_len);
        header.saturating_add(usize::try_from(payload_len).unwrap_or(usize::MAX))
    }

    /// Whether an append began here that did not finish: its first byte is stored last.
    pub(crate) fn is_unfinished_append(&self, offset: usize) -> bool {
        self.bytes.get(offset) == Some(&0)
    }

    /// What stands behind a seal, where nothing should.
    pub(crate) fn behind_seal(&self, offset: usize) -> Step<'a> {
        if self.is_zero_from(offset) {
            Step::End
        } else {
            Step::BadHeader
        }
    }

    /// Whether nothing but zeros follows.
    pub(crate) fn is_zero_from(&self, offset: usize) -> bool {
        is_zero(self.rest(offset))
    }
}

#[cfg(test)]
mod tests;
