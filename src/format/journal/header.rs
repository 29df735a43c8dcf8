//! The file header of a journal.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::format::{Cursor, Malformed, checksum};
use crate::key::Sequence;

/// Length of the file header.
pub(crate) const HEADER_BYTES: usize = 80;

// These values are written to disk and must not be changed.
const MAGIC: &[u8; 8] = b"cribajnl";
const VERSION: u16 = 2;

// Bytes that the checksum covers: all before it and all behind it.
const CHECKSUM_AT: usize = 12;
const FIELDS_AT: usize = 16;

/// Where a journal ends: what the next record must say to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    /// The sequence of the next operation.
    pub(crate) next: Sequence,
    /// The hash of all records before.
    pub(crate) chain: u32,
}

impl Point {
    /// Where the first journal of a store starts.
    pub(crate) fn initial(store_id: u128) -> Point {
        Point {
            next: Sequence(1),
            chain: chained(0, &store_id.to_le_bytes()),
        }
    }

    /// The sequence of the last operation, 0 when there is none.
    pub(crate) fn last(self) -> Sequence {
        Sequence(self.next.0.saturating_sub(1))
    }
}

/// The first bytes of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) id: u64,
    pub(crate) store_id: u128,
    /// The journal that came before, 0 when there is none.
    pub(crate) previous: u64,
    /// Where it starts; `None` in one that was made ready before that was known. Its first record
    /// tells.
    pub(crate) start: Option<Point>,
    /// The run of the operating system that wrote the journal, 0 when unknown.
    pub(crate) boot_id: u128,
}

/// The hash of what is chained. 32 bits will do: a record that is taken for one of another row
/// would need the right checksums and sequence as well.
#[expect(clippy::cast_possible_truncation, reason = "the low half is the hash")]
pub(super) fn chained(chain: u32, bytes: &[u8]) -> u32 {
    xxh3_64_with_seed(bytes, u64::from(chain)) as u32
}

impl FileHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        let mut fields = Vec::with_capacity(HEADER_BYTES);
        fields.extend_from_slice(&self.id.to_le_bytes());
        fields.extend_from_slice(&self.previous.to_le_bytes());
        let (first, chain) = self.start.map_or((0, 0), |at| (at.next.0, at.chain));
        fields.extend_from_slice(&first.to_le_bytes());
        fields.extend_from_slice(&chain.to_le_bytes());
        fields.extend_from_slice(&[0; 4]);
        fields.extend_from_slice(&self.store_id.to_le_bytes());
        fields.extend_from_slice(&self.boot_id.to_le_bytes());
        let sum = checksum::at(self.id, 0, &[&bytes, &fields]);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes.extend_from_slice(&fields);
        bytes
    }

    /// What seeds the checksums of this journal's records. It holds the store's identity too, so
    /// that neither a value someone stored nor a stale sector of another store passes for one.
    pub(crate) fn identity(&self) -> u64 {
        xxh3_64_with_seed(&self.store_id.to_le_bytes(), self.id)
    }
}

/// Why a file is not read as a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum BadHeader {
    /// The file is as a crash leaves it while it is created: the header is not all there, and
    /// nothing follows.
    Unborn,
    /// The header is not what was written, or not of this version.
    Damaged(Malformed),
}

pub(super) fn decode(bytes: &[u8], id: u64) -> Result<FileHeader, BadHeader> {
    let Some(head) = bytes.get(..HEADER_BYTES) else {
        return Err(BadHeader::Unborn);
    };
    // Records are written only after the header is durable: a zero header before more bytes is
    // damage.
    if bytes.len() == HEADER_BYTES && is_zero(bytes) {
        return Err(BadHeader::Unborn);
    }
    decode_fields(head, id).map_err(BadHeader::Damaged)
}

fn decode_fields(head: &[u8], id: u64) -> Result<FileHeader, Malformed> {
    let mut cursor = Cursor::new(head);
    if cursor.bytes("magic", MAGIC.len())? != MAGIC {
        return Err(Malformed {
            what: "this is not a journal of criba".to_owned(),
            at: 0,
        });
    }
    let at = cursor.clone();
    let version = cursor.u16("version")?;
    if version == 1 {
        return Err(at.malformed(
            "a criba from before the first release wrote this journal; export the store with it, \
             and import that here",
        ));
    }
    if version != VERSION {
        return Err(at.malformed(format!(
            "a newer criba wrote this journal (version {version}; this one reads {VERSION}), or \
             the number is damaged"
        )));
    }
    cursor.zeros("header.reserved", 2)?;
    let at = cursor.clone();
    let sum = cursor.u32("header.checksum")?;
    let before = head.get(..CHECKSUM_AT).unwrap_or_default();
    let after = head.get(FIELDS_AT..).unwrap_or_default();
    if sum != checksum::at(id, 0, &[before, after]) {
        return Err(at.malformed("the header's checksum does not match"));
    }
    let start = cursor.clone();
    let number = cursor.u64("header.id")?;
    let previous = cursor.u64("header.previous")?;
    let (first, chain) = (cursor.u64("header.first")?, cursor.u32("header.chain")?);
    let begin = Point {
        next: Sequence(first),
        chain,
    };
    cursor.zeros("header.reserved", 4)?;
    let header = FileHeader {
        id: number,
        previous,
        start: (first > 0).then_some(begin),
        store_id: cursor.u128("header.store_id")?,
        boot_id: cursor.u128("header.boot_id")?,
    };
    cursor.end("header")?;
    let possible = header.id == id
        && header.previous < id
        && first <= Sequence::MAX.0
        && (first > 0 || chain == 0);
    if !possible {
        return Err(start.malformed("the header's numbers are impossible"));
    }
    Ok(header)
}

/// Whether all bytes are zero.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    // Whole chunks without a branch in them: the compiler makes wide instructions of that.
    bytes
        .chunks(64)
        .all(|chunk| chunk.iter().fold(0, |all, &byte| all | byte) == 0)
}
