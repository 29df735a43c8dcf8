//! A filter in a file of its own, which stands for the one in its segment.
//! See `docs/format.md`, "Filter file".

use super::checksum;
use super::cursor::{Cursor, Malformed};
use super::segment::FilterProperties;

const MAGIC: &[u8; 8] = b"cribafil";
const VERSION: u16 = 1;

/// Length of the footer, the last bytes of a filter file.
pub(crate) const FOOTER_BYTES: usize = 8 + 2 + 1 + 1 + 4 + 8 + 8 + 16 + 8 + 8 + 8 + 8 + 4 + 4;

/// What a filter file holds: filter pages from offset 0, the filter header, this footer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Footer {
    pub(crate) id: u64,
    pub(crate) segment_id: u64,
    pub(crate) store_id: u128,
    pub(crate) file_len: u64,
    /// Where the filter header begins, behind the pages.
    pub(crate) header: u64,
    pub(crate) header_sum: u32,
    pub(crate) filter: FilterProperties,
}

impl Footer {
    pub(crate) fn offset(&self) -> u64 {
        self.file_len.saturating_sub(FOOTER_BYTES as u64)
    }

    pub(crate) fn encode(&self, identity: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FOOTER_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[self.filter.kind, u8::from(self.filter.equal_hashes)]);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.id.to_le_bytes());
        bytes.extend_from_slice(&self.segment_id.to_le_bytes());
        bytes.extend_from_slice(&self.store_id.to_le_bytes());
        for number in [
            self.file_len,
            self.header,
            self.filter.body_words,
            self.filter.designed_rate.to_bits(),
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.header_sum.to_le_bytes());
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
        cursor.zeros("filter file.reserved", 4)?;
        let footer = Footer {
            id: cursor.u64("filter file.id")?,
            segment_id: cursor.u64("filter file.segment_id")?,
            store_id: cursor.u128("filter file.store_id")?,
            file_len: cursor.u64("filter file.file_len")?,
            header: cursor.u64("filter file.header")?,
            filter: FilterProperties {
                kind,
                equal_hashes,
                body_words: cursor.u64("filter file.words")?,
                designed_rate: cursor.f64("filter file.designed_rate")?,
            },
            header_sum: cursor.u32("filter file.header_sum")?,
        };
        let offset = file_len.saturating_sub(FOOTER_BYTES as u64);
        cursor.checksum("filter file", identity, offset)?;
        cursor.end("filter file")?;
        if footer.file_len != file_len || footer.header > offset {
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
            header: 4096,
            header_sum: 1,
            filter: FilterProperties {
                kind: 2,
                body_words: 511,
                equal_hashes: true,
                designed_rate: 0.25,
            },
        };
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
