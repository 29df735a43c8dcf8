//! The header of a journal's record.

use super::header::{Point, chained};
use crate::format::{Cursor, checksum};
use crate::key::Sequence;

/// Length of a record's header; its payload follows.
pub(crate) const RECORD_BYTES: usize = 32;

// These values are written to disk and must not be changed.

/// Set in the count of a record that begins an append.
const BEGINS_APPEND: u32 = 1 << 31;

/// The count of a seal.
const SEAL: u32 = BEGINS_APPEND - 1;

/// Set in every header checksum, so that the first byte of a record is neither zero nor one
/// flipped bit away from zero: a zero there means that the append did not finish.
const MARK: u32 = 0x81;

/// The most operations of one record.
pub(crate) const MAX_OPERATIONS: u32 = SEAL - 1;

const CHECKSUM_BYTES: usize = 4;

/// Offset of the first sequence within the header.
pub(super) const FIRST_AT: usize = 16;

/// A record's header without its checksums, which depend on where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Operations of the payload; 0 for a record that only carries its watermark.
    pub(crate) count: u32,
    /// The sequence of the first operation, or of the next one if there is none.
    pub(crate) first: Sequence,
    /// The highest sequence known durable when the record was made: always below `first`.
    pub(crate) watermark: Sequence,
    /// The hash of all records before.
    pub(crate) chain: u32,
    /// Whether it is the first of the records that reach the file by one append.
    pub(crate) begins_append: bool,
}

impl Record {
    /// The last record of a journal; its payload is [`seal_payload`]. It is not part of the
    /// chain, because the journal it names starts before the seal is written.
    pub(crate) fn seal(point: Point, watermark: Sequence, begins_append: bool) -> Record {
        Record {
            count: SEAL,
            first: point.next,
            watermark,
            chain: point.chain,
            begins_append,
        }
    }

    /// What the records before say, if this one follows them.
    pub(crate) fn start(&self) -> Point {
        Point {
            next: self.first,
            chain: self.chain,
        }
    }

    pub(crate) fn is_seal(&self) -> bool {
        self.count == SEAL
    }

    /// Sequences that the record takes.
    pub(crate) fn operations(&self) -> u32 {
        if self.is_seal() { 0 } else { self.count }
    }

    /// The header of this record, which will stand at `offset` in front of `payload`, and what follows the
    /// record; `None` when the payload is 4 GiB or more.
    pub(crate) fn encode(
        &self,
        identity: u64,
        offset: u64,
        payload: &[u8],
    ) -> Option<([u8; RECORD_BYTES], Point)> {
        let len = u32::try_from(payload.len()).ok()?;
        let payload_sum = checksum::at(identity, offset, &[payload]);
        let mut header = [0; RECORD_BYTES];
        let (own, covered) = header.split_first_chunk_mut::<CHECKSUM_BYTES>()?;
        let (sum, rest) = covered.split_first_chunk_mut()?;
        *sum = payload_sum.to_le_bytes();
        let (bytes, rest) = rest.split_first_chunk_mut()?;
        *bytes = len.to_le_bytes();
        let (count, rest) = rest.split_first_chunk_mut()?;
        let append = if self.begins_append { BEGINS_APPEND } else { 0 };
        *count = (self.count | append).to_le_bytes();
        let (first, rest) = rest.split_first_chunk_mut()?;
        *first = self.first.0.to_le_bytes();
        let (lag, rest) = rest.split_first_chunk_mut()?;
        *lag = self.lag().to_le_bytes();
        let (chain, _) = rest.split_first_chunk_mut()?;
        *chain = self.chain.to_le_bytes();
        *own = own_checksum(identity, offset, covered).to_le_bytes();
        Some((header, self.after(&header)))
    }

    /// How far the watermark is behind the first sequence. 0 says nothing of it: a watermark so far
    /// behind that the field is too small is not told, which only makes less of a promise.
    fn lag(&self) -> u32 {
        let lag = self.first.0.saturating_sub(self.watermark.0);
        u32::try_from(lag).unwrap_or(0)
    }

    /// Where the journal stands behind this record.
    pub(super) fn after(&self, header: &[u8]) -> Point {
        let next = self.first.after(u64::from(self.operations()));
        if self.is_seal() {
            return Point {
                next,
                chain: self.chain,
            };
        }
        Point {
            next,
            chain: chained(self.chain, header),
        }
    }

    fn is_possible(&self, payload_len: u32) -> bool {
        let content = match self.count {
            SEAL => payload_len == 8,
            0 => payload_len == 0,
            // An operation takes a byte at least: that bounds the sequences within a file.
            count => count <= payload_len,
        };
        // Sequences begin at 1: no header is all zeros, whatever their checksum is.
        content
            && self.first.0 > 0
            && self.first.after(u64::from(self.operations())) <= Sequence::MAX
    }
}

/// The checksum that a header begins with, of its other bytes.
fn own_checksum(identity: u64, offset: u64, covered: &[u8]) -> u32 {
    checksum::at(identity, offset, &[covered]) | MARK
}

/// The payload of a seal: which journal follows.
pub(crate) fn seal_payload(next_id: u64) -> [u8; 8] {
    next_id.to_le_bytes()
}

/// The journal that a seal names.
pub(crate) fn sealed_by(payload: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*payload.first_chunk()?))
}

/// A record's header whose checksum is right.
pub(super) struct Intact {
    pub(super) record: Record,
    pub(super) payload_len: u32,
    pub(super) payload_checksum: u32,
}

pub(super) fn decode(header: &[u8], identity: u64, offset: usize) -> Option<Intact> {
    let mut cursor = Cursor::new(header);
    let sum = cursor.u32("record.checksum").ok()?;
    let payload_checksum = cursor.u32("record.payload_checksum").ok()?;
    let payload_len = cursor.u32("record.payload_len").ok()?;
    let count = cursor.u32("record.count").ok()?;
    let first = cursor.u64("record.first").ok()?;
    let record = Record {
        count: count & !BEGINS_APPEND,
        first: Sequence(first),
        watermark: match cursor.u32("record.lag").ok()? {
            0 => Sequence(0),
            lag => Sequence(first.checked_sub(u64::from(lag))?),
        },
        chain: cursor.u32("record.chain").ok()?,
        begins_append: count & BEGINS_APPEND != 0,
    };
    cursor.end("record").ok()?;
    let covered = header.get(CHECKSUM_BYTES..)?;
    let intact =
        record.is_possible(payload_len) && sum == own_checksum(identity, offset as u64, covered);
    intact.then_some(Intact {
        record,
        payload_len,
        payload_checksum,
    })
}
