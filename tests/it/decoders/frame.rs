//! Builds the files of a store around a part that was given.

use std::collections::BTreeMap;

use super::bytes::{Input, offset_at, prefixed, u32_at, u64_at};
use super::repair::{self, HASH_SEED, SEGMENT_FOOTER, STORE_ID};

pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// Number of the journal that is live in a store around a segment.
const JOURNAL: u64 = 38;

/// The chain of the journals that were there before.
const CHAIN: u32 = 0x1234;

/// Number of the filter file, if there is one.
pub(super) const SIDECAR: u64 = 30;

/// Sequences end here, whatever the damage says: a hundred writes before their limit.
const SEQUENCE_MAX: u64 = (1 << 58) - 100;

/// The parts of a segment as they were before they were framed.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// Data blocks, each a whole region.
    pub(super) data: Vec<u8>,
    /// Words of the filter's body.
    pub(super) words: Vec<u8>,
    /// Payload of the filter header.
    pub(super) header: Option<Vec<u8>>,
    /// Words and header of the range filter.
    pub(super) range_words: Vec<u8>,
    pub(super) range_header: Option<Vec<u8>>,
    pub(super) index: Vec<u8>,
    pub(super) properties: Vec<u8>,
}

/// Appends a region with its trailer; its checksum is made right later.
pub(super) fn region(payload: &[u8], kind: u8, out: &mut Vec<u8>) {
    stored_region((payload, payload.len(), 0), kind, out);
}

/// As [`region`], for a payload that was stored with a codec.
pub(super) fn stored_region(
    (payload, plain_len, codec): (&[u8], usize, u8),
    kind: u8,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(payload);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&(plain_len as u32).to_le_bytes());
    out.extend_from_slice(&[kind, codec, 1, 0, 0, 0, 0, 0]);
}

/// Kinds of pages.
pub(super) const FILTER_PAGE: u8 = 5;
pub(super) const RANGE_PAGE: u8 = 7;

/// Appends the pages of a filter's body, from a multiple of 4096 on, and says where they begin.
pub(super) fn pages(words: &[u8], kind: u8, out: &mut Vec<u8>) -> usize {
    if !words.is_empty() {
        out.resize(out.len().next_multiple_of(4096), 0);
    }
    let start = out.len();
    for page in words.chunks(511 * 8) {
        out.extend_from_slice(page);
        out.extend_from_slice(&[kind, 1, 0, 0, 0, 0, 0, 0]);
    }
    start
}

/// Appends a region if there is one, and says where it begins.
pub(super) fn optional_region(payload: Option<&[u8]>, kind: u8, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    if let Some(payload) = payload {
        region(payload, kind, out);
    }
    start
}

impl Parts {
    /// The whole file, its checksums right.
    pub(super) fn build(&self, number: u64) -> Vec<u8> {
        let mut bytes = self.data.clone();
        let data_end = bytes.len();
        let filter = pages(&self.words, FILTER_PAGE, &mut bytes);
        let range = pages(&self.range_words, RANGE_PAGE, &mut bytes);
        let header = optional_region(self.header.as_deref(), 2, &mut bytes);
        let range_header = optional_region(self.range_header.as_deref(), 6, &mut bytes);
        let index = optional_region(Some(&self.index), 3, &mut bytes);
        let properties = optional_region(Some(&self.properties), 4, &mut bytes);
        let len = bytes.len() + SEGMENT_FOOTER;
        bytes.extend_from_slice(b"cribaseg\x03\0\0\0\0\0\0\0");
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&STORE_ID.to_le_bytes());
        let offsets = [filter, range, header, range_header, index, properties];
        for field in [len, data_end].iter().chain(&offsets) {
            bytes.extend_from_slice(&(*field as u64).to_le_bytes());
        }
        bytes.extend_from_slice(&[0; 20]);
        repair::segment(&mut bytes, number);
        bytes
    }

    /// Takes a sound segment apart.
    pub(super) fn of(bytes: &[u8]) -> Parts {
        let footer = bytes.len() - SEGMENT_FOOTER;
        let at = |field| offset_at(bytes, footer + field).unwrap();
        let (data_end, filter, range, header) = (at(48), at(56), at(64), at(72));
        let (range_header, index, properties) = (at(80), at(88), at(96));
        let payload = |start: usize, end: usize| {
            let len = u32_at(bytes, end - 16).unwrap() as usize;
            bytes[start..start + len].to_vec()
        };
        // The last page may have zeros behind it.
        let filter_end = (header..range_header).next().map_or(0, |_| {
            let words = filter_words(&payload(properties, footer)) as usize;
            filter + words * 8 + words.div_ceil(511) * 8
        });
        let words = |start: usize, end: usize| {
            let pages = bytes[start..end.max(start)].chunks(4096);
            let words = pages.flat_map(|page| &page[..page.len() - 8]);
            words.copied().collect()
        };
        let optional = |start, end| (start < end).then(|| payload(start, end));
        Parts {
            data: bytes[..data_end].to_vec(),
            words: words(filter, filter_end),
            header: optional(header, range_header),
            range_words: words(range, header),
            range_header: optional(range_header, index),
            index: payload(index, properties),
            properties: payload(properties, footer),
        }
    }
}

/// The number of words that the properties of a segment with a filter tell of, before the rate.
fn filter_words(properties: &[u8]) -> u64 {
    u64_at(properties, properties.len() - 16).unwrap()
}

/// What properties say of the range of keys and the last sequence; something, if they are damaged.
fn range_of(properties: &[u8]) -> (Vec<u8>, Vec<u8>, u64) {
    let last = u64_at(properties, 32).unwrap_or(1).min(SEQUENCE_MAX);
    let mut input = Input(properties.get(60..).unwrap_or_default());
    let first_key = input.prefixed().unwrap_or_default().to_vec();
    let last_key = input.prefixed().unwrap_or(&first_key).to_vec();
    let (first_key, last_key) = (
        first_key.clone().min(last_key.clone()),
        first_key.max(last_key),
    );
    (first_key, last_key, last)
}

/// A store that was closed in order and consists of this segment.
pub(super) fn store(number: u64, segment: Vec<u8>, sidecar: Option<Vec<u8>>) -> Files {
    let footer = segment.len().saturating_sub(SEGMENT_FOOTER);
    let properties = offset_at(&segment, footer + 96).unwrap_or(0);
    let (first_key, last_key, last) = range_of(&segment[properties..]);
    let sum = segment.len().saturating_sub(4);

    let mut edit = Vec::new();
    for field in [40, 64] {
        edit.extend_from_slice(&u64::to_le_bytes(field));
    }
    edit.push(1);
    for field in [JOURNAL, last + 1] {
        edit.extend_from_slice(&field.to_le_bytes());
    }
    edit.extend_from_slice(&CHAIN.to_le_bytes());
    // The next keyspace is 1; none goes, the default one comes, without an operator.
    edit.extend_from_slice(&[1, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    prefixed(b"default", &mut edit);
    edit.push(0);
    // No segment goes, one comes.
    edit.extend_from_slice(&[0, 1]);
    let filter_file = if sidecar.is_some() { SIDECAR } else { 0 };
    let len = segment.len() as u64;
    for field in [number, number, 0, number, len, last, filter_file, 0] {
        edit.extend_from_slice(&field.to_le_bytes());
    }
    // Keyspace and level.
    edit.extend_from_slice(&[0; 8]);
    edit.extend_from_slice(&u32_at(&segment, sum).unwrap_or_default().to_le_bytes());
    prefixed(&first_key, &mut edit);
    prefixed(&last_key, &mut edit);
    // Lookups of no segment, and three numbers of bytes.
    edit.extend_from_slice(&[0; 4]);

    let mut files = Files::from([
        ("LOCK".to_owned(), Vec::new()),
        ("CURRENT".to_owned(), current(37, Some(last), JOURNAL)),
        ("MANIFEST-000037".to_owned(), manifest(37, &edit)),
        (
            format!("{JOURNAL:06}.journal"),
            journal(JOURNAL, last + 1, CHAIN),
        ),
        (format!("{number:06}.seg"), segment),
    ]);
    if let Some(sidecar) = sidecar {
        files.insert(format!("{SIDECAR:06}.filter"), sidecar);
    }
    files
}

pub(super) fn current(manifest: u64, clean_at: Option<u64>, journal: u64) -> Vec<u8> {
    let mut bytes = b"cribacur\x01\0".to_vec();
    bytes.extend_from_slice(&u16::from(clean_at.is_some()).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&STORE_ID.to_le_bytes());
    for field in [manifest, clean_at.unwrap_or_default(), journal] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(&[0; 8]);
    repair::current(&mut bytes);
    bytes
}

fn manifest(number: u64, edit: &[u8]) -> Vec<u8> {
    let mut bytes = b"cribaman\x02\0\0\0\0\0\0\0".to_vec();
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&STORE_ID.to_le_bytes());
    bytes.extend_from_slice(&HASH_SEED.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&(edit.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(edit);
    repair::manifest(&mut bytes, number);
    bytes
}

/// A journal without records.
pub(super) fn journal(number: u64, first: u64, chain: u32) -> Vec<u8> {
    let mut bytes = b"cribajnl\x02\0\0\0\0\0\0\0".to_vec();
    for field in [number, 0, first, u64::from(chain)] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(&STORE_ID.to_le_bytes());
    bytes.extend_from_slice(&[0; 16]);
    repair::journal(&mut bytes, number, false);
    bytes
}
