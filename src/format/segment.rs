//! Footer, properties and filter pages of a segment. See `docs/format.md`, "Segment".

use super::checksum;
use super::cursor::{Cursor, Malformed};
use super::region::{Place, TRAILER_BYTES};
use super::varint;
use crate::key::{KeyspaceId, Sequence};
use criba_filters::store::KeySketch;

const MAGIC: &[u8; 8] = b"cribaseg";
const VERSION: u16 = 3;

/// Length of the footer, the last bytes of a segment.
pub(crate) const FOOTER_BYTES: usize = 8 + 2 + 6 + 8 + 16 + 8 + 7 * 8 + 4 * 4 + 4;

const SEGMENT_ID_AT: usize = 8 + 2 + 6;

/// A filter page on disk: words, then a trailer of eight bytes.
pub(crate) const PAGE_BYTES: usize = 4096;
pub(crate) const PAGE_TRAILER_BYTES: usize = 8;
const PAGE_VERSION: u8 = 1;
pub(crate) const PAGE_WORDS: usize = (PAGE_BYTES - PAGE_TRAILER_BYTES) / 8;

/// What a page belongs to. Goes on from the numbers of [`super::region::RegionKind`]. Written to disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageKind {
    Filter = 5,
    Range = 7,
}

/// Filter pages begin at a multiple of this, so that reading one touches one page of the device.
pub(crate) const FILTER_ALIGN: u64 = 4096;

/// Where everything in a segment is. Regions stand in this order without gaps, except that
/// zeros fill the space before the pages of each filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Footer {
    pub(crate) segment_id: u64,
    pub(crate) store_id: u128,
    /// Of the segment, this footer included.
    pub(crate) len: u64,
    /// Data blocks fill the file from 0 to here.
    pub(crate) data_end: u64,
    /// Filter pages begin here, ...
    pub(crate) filter_start: u64,
    /// ... those of the range filter here, ...
    pub(crate) range_start: u64,
    /// ... and the headers of both follow.
    pub(crate) filter_header: u64,
    pub(crate) range_header: u64,
    pub(crate) index: u64,
    pub(crate) properties: u64,
    /// Checksums of both filter headers, index and properties, so that the manifest, which holds the
    /// checksum of the footer, pins them all.
    pub(crate) filter_header_sum: u32,
    pub(crate) range_header_sum: u32,
    pub(crate) index_sum: u32,
    pub(crate) properties_sum: u32,
}

impl Footer {
    pub(crate) fn offset(&self) -> u64 {
        self.len.saturating_sub(FOOTER_BYTES as u64)
    }

    /// What bytes that look like a footer say of store, segment and length, before anything is
    /// verified.
    pub(crate) fn claims_of(bytes: &[u8]) -> Option<(u128, u64, u64)> {
        if !bytes.starts_with(MAGIC) {
            return None;
        }
        let mut cursor = Cursor::new(bytes.get(SEGMENT_ID_AT..)?);
        let segment_id = cursor.u64("footer.segment_id").ok()?;
        let store_id = cursor.u128("footer.store_id").ok()?;
        let len = cursor.u64("footer.length").ok()?;
        Some((store_id, segment_id, len))
    }

    /// Where the next footer may begin in these bytes.
    pub(crate) fn find_in(bytes: &[u8], from: usize) -> Option<usize> {
        let rest = bytes.get(from..)?;
        let mut windows = rest.windows(MAGIC.len());
        windows
            .position(|window| window == MAGIC)
            .map(|at| from.saturating_add(at))
    }

    pub(crate) fn encode(&self, identity: u64) -> (Vec<u8>, u32) {
        let mut bytes = Vec::with_capacity(FOOTER_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 6]);
        bytes.extend_from_slice(&self.segment_id.to_le_bytes());
        bytes.extend_from_slice(&self.store_id.to_le_bytes());
        bytes.extend_from_slice(&self.len.to_le_bytes());
        let offsets = [
            self.data_end,
            self.filter_start,
            self.range_start,
            self.filter_header,
            self.range_header,
            self.index,
            self.properties,
        ];
        for offset in offsets {
            bytes.extend_from_slice(&offset.to_le_bytes());
        }
        for sum in [
            self.filter_header_sum,
            self.range_header_sum,
            self.index_sum,
            self.properties_sum,
        ] {
            bytes.extend_from_slice(&sum.to_le_bytes());
        }
        assert!(
            self.len >= FOOTER_BYTES as u64,
            "a segment ends with its footer"
        );
        let sum = checksum::at(identity, self.offset(), &[&bytes]);
        bytes.extend_from_slice(&sum.to_le_bytes());
        (bytes, sum)
    }

    /// Decodes the last [`FOOTER_BYTES`] of a segment of `len` bytes; also its checksum.
    pub(crate) fn decode(
        bytes: &[u8],
        len: u64,
        identity: u64,
    ) -> Result<(Footer, u32), Malformed> {
        let mut cursor = Cursor::new(bytes);
        cursor.begins("footer", MAGIC, VERSION)?;
        cursor.zeros("footer.reserved", 6)?;
        let footer = Footer {
            segment_id: cursor.u64("footer.segment_id")?,
            store_id: cursor.u128("footer.store_id")?,
            len: cursor.u64("footer.length")?,
            data_end: cursor.u64("footer.data_end")?,
            filter_start: cursor.u64("footer.filter_start")?,
            range_start: cursor.u64("footer.range_start")?,
            filter_header: cursor.u64("footer.filter_header")?,
            range_header: cursor.u64("footer.range_header")?,
            index: cursor.u64("footer.index")?,
            properties: cursor.u64("footer.properties")?,
            filter_header_sum: cursor.u32("footer.filter_header_sum")?,
            range_header_sum: cursor.u32("footer.range_header_sum")?,
            index_sum: cursor.u32("footer.index_sum")?,
            properties_sum: cursor.u32("footer.properties_sum")?,
        };
        let offset = len.saturating_sub(FOOTER_BYTES as u64);
        let sum = cursor.checksum("footer", identity, offset)?;
        cursor.end("footer")?;
        let ascending = [
            0,
            footer.data_end,
            footer.filter_start,
            footer.range_start,
            footer.filter_header,
            footer.range_header,
            footer.index,
            footer.properties,
            offset,
        ];
        if footer.len != len || !ascending.is_sorted() {
            return Err(Malformed {
                what: "footer: regions overlap or are cut".into(),
                at: 0,
            });
        }
        Ok((footer, sum))
    }
}

/// Which filter a segment carries and what it takes to ask it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct FilterProperties {
    /// Code of [`criba_filters::segment::FilterKind`]; an unknown one means "no filter".
    pub(crate) kind: u8,
    pub(crate) body_words: u64,
    /// Two different keys of the segment have the same 64-bit hash, and the filter tells a place.
    pub(crate) equal_hashes: bool,
    pub(crate) designed_rate: f64,
}

/// The range filter of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum RangeProperties {
    /// None was asked for.
    #[default]
    None,
    /// One is there. It refutes about this part of the gaps between the keys, in percent.
    There { refuted: u8 },
    /// One would have refuted only this part, so there is none.
    Declined { refuted: u8 },
}

impl RangeProperties {
    pub(crate) fn encode(self) -> [u8; 2] {
        match self {
            RangeProperties::None => [0, 0],
            RangeProperties::There { refuted } => [1, refuted],
            RangeProperties::Declined { refuted } => [2, refuted],
        }
    }

    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<RangeProperties, Malformed> {
        let kind = cursor.u8("properties.range_filter")?;
        let refuted = cursor.u8("properties.range_refuted")?;
        match (kind, refuted) {
            (0, 0) => Ok(RangeProperties::None),
            (1, 0..=100) => Ok(RangeProperties::There { refuted }),
            (2, 0..=100) => Ok(RangeProperties::Declined { refuted }),
            _ => Err(cursor.malformed("properties.range_filter: not known, or out of bounds")),
        }
    }
}

/// What is known of a segment as a whole.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Properties {
    pub(crate) entries: u64,
    pub(crate) keys: u64,
    pub(crate) tombstones: u64,
    pub(crate) sequence_min: Sequence,
    pub(crate) sequence_max: Sequence,
    pub(crate) raw_bytes: u64,
    /// Keys whose newest entry in the segment is a tombstone.
    pub(crate) deleted_keys: u64,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) first_key: Vec<u8>,
    pub(crate) last_key: Vec<u8>,
    pub(crate) sketches: Sketches,
    pub(crate) range: RangeProperties,
    pub(crate) filter: Option<FilterProperties>,
}

/// The keys of a segment, each in one of two sets. `None` for a sketch that this version cannot
/// read: estimates then go without it.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Sketches {
    /// Keys whose newest entry is a value.
    pub(crate) values: Option<KeySketch>,
    /// Keys whose newest entry is a tombstone.
    pub(crate) deleted: Option<KeySketch>,
}

impl Properties {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let numbers = [
            self.entries,
            self.keys,
            self.tombstones,
            self.sequence_min.0,
            self.sequence_max.0,
            self.raw_bytes,
            self.deleted_keys,
        ];
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.keyspace.0.to_le_bytes());
        for key in [&self.first_key, &self.last_key] {
            varint::encode(key.len() as u64, &mut out);
            out.extend_from_slice(key);
        }
        for sketch in [&self.sketches.values, &self.sketches.deleted] {
            let bytes = sketch.as_ref().map(KeySketch::to_bytes).unwrap_or_default();
            varint::encode(bytes.len() as u64, &mut out);
            out.extend_from_slice(&bytes);
        }
        out.extend_from_slice(&self.range.encode());
        match &self.filter {
            None => out.push(0),
            Some(filter) => {
                out.push(filter.kind);
                out.push(u8::from(filter.equal_hashes));
                out.extend_from_slice(&filter.body_words.to_le_bytes());
                out.extend_from_slice(&filter.designed_rate.to_bits().to_le_bytes());
            }
        }
        out
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Properties, Malformed> {
        let mut cursor = Cursor::new(payload);
        let mut properties = Properties {
            entries: cursor.u64("properties.entries")?,
            keys: cursor.u64("properties.keys")?,
            tombstones: cursor.u64("properties.tombstones")?,
            sequence_min: Sequence(cursor.u64("properties.sequence_min")?),
            sequence_max: Sequence(cursor.u64("properties.sequence_max")?),
            raw_bytes: cursor.u64("properties.raw_bytes")?,
            deleted_keys: cursor.u64("properties.deleted_keys")?,
            keyspace: KeyspaceId(cursor.u32("properties.keyspace")?),
            first_key: cursor.prefixed("properties.first_key")?.to_vec(),
            last_key: cursor.prefixed("properties.last_key")?.to_vec(),
            sketches: Sketches {
                values: KeySketch::from_bytes(cursor.prefixed("properties.values_sketch")?).ok(),
                deleted: KeySketch::from_bytes(cursor.prefixed("properties.deleted_sketch")?).ok(),
            },
            range: RangeProperties::decode(&mut cursor)?,
            filter: None,
        };
        let kind = cursor.u8("properties.filter_kind")?;
        if kind != 0 {
            let equal_hashes = match cursor.u8("properties.equal_hashes")? {
                0 => false,
                1 => true,
                _ => return Err(cursor.malformed("properties.equal_hashes: neither 0 nor 1")),
            };
            properties.filter = Some(FilterProperties {
                kind,
                equal_hashes,
                body_words: cursor.u64("properties.filter_words")?,
                designed_rate: cursor.f64("properties.designed_rate")?,
            });
        }
        cursor.end("properties")?;
        if properties.first_key > properties.last_key || properties.entries == 0 {
            return Err(cursor.malformed("properties: an empty or reversed key range"));
        }
        Ok(properties)
    }
}

/// Bytes that `words` filter words take in pages on disk.
pub(crate) fn pages_len(words: u64) -> u64 {
    let pages = words.div_ceil(PAGE_WORDS as u64);
    words
        .saturating_mul(8)
        .saturating_add(pages.saturating_mul(PAGE_TRAILER_BYTES as u64))
}

/// One filter page: words, kind, version, checksum. Only the last page may be shorter than the rest.
/// It will lie at this place.
pub(crate) fn encode_page(kind: PageKind, words: &[u64], place: Place, out: &mut Vec<u8>) {
    let start = out.len();
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&[kind as u8, PAGE_VERSION, 0, 0]);
    let sum = checksum::at(
        place.file,
        place.offset,
        &[out.get(start..).unwrap_or_default()],
    );
    out.extend_from_slice(&sum.to_le_bytes());
}

/// The words of one filter page.
pub(crate) fn decode_page(
    wanted: PageKind,
    bytes: &[u8],
    place: Place,
) -> Result<Vec<u64>, Malformed> {
    let malformed = |what: &str| Malformed {
        what: what.to_owned(),
        at: 0,
    };
    let body_len = bytes
        .len()
        .checked_sub(PAGE_TRAILER_BYTES)
        .ok_or_else(|| malformed("filter page: shorter than its trailer"))?;
    let mut trailer = Cursor::new(bytes.get(body_len..).unwrap_or_default());
    let kind = trailer.u8("filter page.kind")?;
    let version = trailer.u8("filter page.version")?;
    trailer.zeros("filter page.reserved", 2)?;
    let sum = trailer.u32("filter page.checksum")?;
    let summed = bytes
        .get(..bytes.len().saturating_sub(4))
        .unwrap_or_default();
    if checksum::at(place.file, place.offset, &[summed]) != sum {
        return Err(malformed("filter page: its checksum does not match"));
    }
    if kind != wanted as u8 || version != PAGE_VERSION {
        let what = "filter page: of another filter, or a newer version of criba wrote it";
        return Err(malformed(what));
    }
    let body = bytes.get(..body_len).unwrap_or_default();
    let (words, rest) = body.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(malformed("filter page: not whole words"));
    }
    Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

/// Least bytes of a region on disk.
pub(crate) const REGION_BYTES_MIN: u64 = TRAILER_BYTES as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use criba_filters::KeyHash;

    #[test]
    fn footer_round_trip_and_damage() {
        let footer = Footer {
            segment_id: 7,
            store_id: 1 << 100,
            len: 9000,
            data_end: 4096,
            filter_start: 4096,
            range_start: 4900,
            filter_header: 5000,
            range_header: 5500,
            index: 6000,
            properties: 7000,
            filter_header_sum: 1,
            range_header_sum: 4,
            index_sum: 2,
            properties_sum: 3,
        };
        let (bytes, sum) = footer.encode(42);
        assert_eq!(bytes.len(), FOOTER_BYTES);
        assert_eq!(Footer::decode(&bytes, 9000, 42), Ok((footer, sum)));
        assert!(Footer::decode(&bytes, 9000, 43).is_err());
        assert!(Footer::decode(&bytes, 9001, 42).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Footer::decode(&damaged, 9000, 42).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn properties_round_trip_and_every_cut_is_refused() {
        let filter = FilterProperties {
            kind: 2,
            body_words: 100,
            equal_hashes: true,
            designed_rate: 0.25,
        };
        let mut sketch = KeySketch::default();
        sketch.insert(KeyHash(77));
        let properties = Properties {
            entries: 3,
            keys: 2,
            tombstones: 1,
            sequence_min: Sequence(5),
            sequence_max: Sequence(9),
            raw_bytes: 77,
            deleted_keys: 1,
            keyspace: KeyspaceId(3),
            first_key: b"".to_vec(),
            last_key: b"z".to_vec(),
            sketches: Sketches {
                values: Some(sketch),
                deleted: Some(KeySketch::default()),
            },
            range: RangeProperties::There { refuted: 97 },
            filter: Some(filter),
        };
        let bytes = properties.encode();
        assert_eq!(Properties::decode(&bytes).as_ref(), Ok(&properties));
        for len in 0..bytes.len() {
            assert!(Properties::decode(&bytes[..len]).is_err());
        }
        let without = Properties {
            filter: None,
            sketches: Sketches::default(),
            range: RangeProperties::Declined { refuted: 30 },
            ..properties
        };
        assert_eq!(Properties::decode(&without.encode()), Ok(without));
    }

    #[test]
    fn pages_hold_words_and_know_their_place() {
        let words: Vec<u64> = (0..100).map(|n| n * n).collect();
        let mut bytes = Vec::new();
        let place = |offset| Place { file: 1, offset };
        encode_page(PageKind::Range, &words, place(8192), &mut bytes);
        assert_eq!(bytes.len() as u64, pages_len(100));
        let decode = |kind, offset| decode_page(kind, &bytes, place(offset));
        assert_eq!(decode(PageKind::Range, 8192), Ok(words));
        assert!(decode(PageKind::Range, 4096).is_err());
        assert!(decode(PageKind::Filter, 8192).is_err());
        assert_eq!(pages_len(PAGE_WORDS as u64), PAGE_BYTES as u64);
        assert_eq!(pages_len(PAGE_WORDS as u64 + 1), PAGE_BYTES as u64 + 16);
        assert_eq!(pages_len(0), 0);
    }
}
