//! Filters in a file of their own, which stand for those in their segment.
//! See `docs/format.md`, "Filter file".

use super::checksum;
use super::cursor::{Cursor, Malformed};
use super::segment::{FilterProperties, RangeProperties};

const MAGIC: &[u8; 8] = b"cribafil";
const VERSION: u16 = 2;

/// Length of the footer, the last bytes of a filter file.
pub(crate) const FOOTER_BYTES: usize = 8 + 2 + 3 * 2 + 2 * 8 + 16 + 6 * 8 + 3 * 4;

/// What a filter file holds: filter pages from offset 0, pages of the range filter, the headers of
/// both, this footer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Footer {
    pub(crate) id: u64,
    pub(crate) segment_id: u64,
    pub(crate) store_id: u128,
    pub(crate) file_len: u64,
    pub(crate) range_start: u64,
    /// Where the filter header begins, behind all pages.
    pub(crate) header: u64,
    pub(crate) range_header: u64,
    pub(crate) header_sum: u32,
    pub(crate) range_header_sum: u32,
    pub(crate) filter: Option<FilterProperties>,
    pub(crate) range: RangeProperties,
}

/// What stands in the place of a filter where there is none.
const NO_FILTER: FilterProperties = FilterProperties {
    kind: 0,
    body_words: 0,
    equal_hashes: false,
    designed_rate: 0.0,
};

impl Footer {
    pub(crate) fn offset(&self) -> u64 {
        self.file_len.saturating_sub(FOOTER_BYTES as u64)
    }

    pub(crate) fn encode(&self, identity: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FOOTER_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        let filter = self.filter.unwrap_or(NO_FILTER);
        bytes.extend_from_slice(&[filter.kind, u8::from(filter.equal_hashes)]);
        bytes.extend_from_slice(&self.range.encode());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&self.id.to_le_bytes());
        bytes.extend_from_slice(&self.segment_id.to_le_bytes());
        bytes.extend_from_slice(&self.store_id.to_le_bytes());
        for number in [
            self.file_len,
            self.range_start,
            self.header,
            self.range_header,
            filter.body_words,
            filter.designed_rate.to_bits(),
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for sum in [self.header_sum, self.range_header_sum] {
            bytes.extend_from_slice(&sum.to_le_bytes());
        }
        assert!(
            self.file_len >= FOOTER_BYTES as u64,
            "a file ends with its footer"
        );
        let sum = checksum::at(identity, self.offset(), &[&bytes]);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes the last [`FOOTER_BYTES`] of a file of `file_len` bytes.
    pub(crate) fn decode(bytes: &[u8], file_len: u64, identity: u64) -> Result<Footer, Malformed> {
        let mut cursor = Cursor::new(bytes);
        cursor.begins("filter file", MAGIC, VERSION)?;
        let kind = cursor.u8("filter file.kind")?;
        let equal_hashes = match cursor.u8("filter file.equal_hashes")? {
            0 => false,
            1 => true,
            _ => return Err(cursor.malformed("filter file.equal_hashes: neither 0 nor 1")),
        };
        let range = RangeProperties::decode(&mut cursor)?;
        cursor.zeros("filter file.reserved", 2)?;
        let footer = Footer {
            id: cursor.u64("filter file.id")?,
            segment_id: cursor.u64("filter file.segment_id")?,
            store_id: cursor.u128("filter file.store_id")?,
            file_len: cursor.u64("filter file.file_len")?,
            range_start: cursor.u64("filter file.range_start")?,
            header: cursor.u64("filter file.header")?,
            range_header: cursor.u64("filter file.range_header")?,
            filter: Some(FilterProperties {
                kind,
                equal_hashes,
                body_words: cursor.u64("filter file.words")?,
                designed_rate: cursor.f64("filter file.designed_rate")?,
            })
            .filter(|filter| filter.kind != NO_FILTER.kind),
            range,
            header_sum: cursor.u32("filter file.header_sum")?,
            range_header_sum: cursor.u32("filter file.range_header_sum")?,
        };
        let offset = file_len.saturating_sub(FOOTER_BYTES as u64);
        cursor.checksum("filter file", identity, offset)?;
        cursor.end("filter file")?;
        let ascending = [
            footer.range_start,
            footer.header,
            footer.range_header,
            offset,
        ];
        if footer.file_len != file_len || !ascending.is_sorted() {
            return Err(Malformed {
                what: "filter file: its regions are cut".into(),
                at: 0,
            });
        }
        Ok(footer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footer_round_trip_and_damage() {
        let footer = Footer {
            id: 9,
            segment_id: 7,
            store_id: 1 << 100,
            file_len: 9000,
            range_start: 4096,
            header: 8192,
            range_header: 8300,
            header_sum: 1,
            range_header_sum: 2,
            filter: Some(FilterProperties {
                kind: 2,
                body_words: 511,
                equal_hashes: true,
                designed_rate: 0.25,
            }),
            range: RangeProperties::There { refuted: 90 },
        };
        let without = Footer {
            filter: None,
            range: RangeProperties::Declined { refuted: 3 },
            ..footer
        };
        assert_eq!(Footer::decode(&without.encode(42), 9000, 42), Ok(without));
        let bytes = footer.encode(42);
        assert_eq!(bytes.len(), FOOTER_BYTES);
        assert_eq!(Footer::decode(&bytes, 9000, 42), Ok(footer));
        assert!(Footer::decode(&bytes, 9000, 43).is_err());
        assert!(Footer::decode(&bytes, 9001, 42).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Footer::decode(&damaged, 9000, 42).is_err(), "bit {bit}");
        }
    }
}
