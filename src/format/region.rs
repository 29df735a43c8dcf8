//! The frame of every region of a segment: payload, zero padding, trailer with a checksum.
//!
//! The trailer stands last, so that a region can be written in one pass, and is the same for
//! data blocks, filter headers, indexes and properties. See `docs/format.md`, "Regions".

use super::checksum;
use super::cursor::{Cursor, Malformed};
use super::four_bytes;

/// Bytes behind the payload of every region.
pub(crate) const TRAILER_BYTES: usize = 16;

const VERSION: u8 = 1;

/// What a region holds. These numbers are written to disk and must not be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RegionKind {
    Data = 1,
    FilterHeader = 2,
    Index = 3,
    Properties = 4,
    RangeHeader = 6,
}

impl RegionKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            RegionKind::Data => "data block",
            RegionKind::FilterHeader => "filter header",
            RegionKind::Index => "index",
            RegionKind::Properties => "properties",
            RegionKind::RangeHeader => "range filter header",
        }
    }
}

/// How a payload is stored. These numbers are written to disk and must not be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Codec {
    Plain = 0,
    Zstd = 1,
    Lz4 = 2,
}

impl Codec {
    fn of(number: u8) -> Option<Codec> {
        match number {
            0 => Some(Codec::Plain),
            1 => Some(Codec::Zstd),
            2 => Some(Codec::Lz4),
            _ => None,
        }
    }
}

/// Where a region lies, which its checksum covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Identity of the file: see [`file_identity`].
    pub(crate) file: u64,
    /// Offset of the region in the file, in bytes.
    pub(crate) offset: u64,
}

/// What seeds the checksums of a file, so that a region of another file or store is refused.
pub(crate) fn file_identity(store_id: u128, file_id: u64) -> u64 {
    let [low, high] = halves(store_id);
    (low ^ high).wrapping_add(file_id)
}

fn halves(id: u128) -> [u64; 2] {
    let bytes = id.to_le_bytes();
    let mut low = [0; 8];
    let mut high = [0; 8];
    for (index, &byte) in bytes.iter().enumerate() {
        let half = if index < 8 { &mut low } else { &mut high };
        if let Some(slot) = half.get_mut(index & 7) {
            *slot = byte;
        }
    }
    [u64::from_le_bytes(low), u64::from_le_bytes(high)]
}

/// Appends padding and trailer to a region whose stored payload is already in `out` from `start`.
/// Returns the region's checksum.
///
/// # Panics
///
/// If one of the two lengths is 4 GiB or more. An index and a filter header are bounded by the size of
/// a segment, a data block by that of an entry.
pub(crate) fn finish(
    out: &mut Vec<u8>,
    start: usize,
    kind: RegionKind,
    stored: Stored,
    place: Place,
) -> u32 {
    let payload_len = out.len().saturating_sub(start);
    out.resize(out.len().saturating_add(stored.padding), 0);
    for len in [payload_len, stored.plain_len] {
        out.extend_from_slice(&four_bytes(len as u64).to_le_bytes());
    }
    out.extend_from_slice(&[kind as u8, stored.codec as u8, VERSION, 0]);
    let sum = checksum::at(
        place.file,
        place.offset,
        &[out.get(start..).unwrap_or_default()],
    );
    out.extend_from_slice(&sum.to_le_bytes());
    sum
}

/// How a payload was stored by the caller of [`finish`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) codec: Codec,
    /// Length before compression, in bytes; below 4 GiB.
    pub(crate) plain_len: usize,
    /// Zeros between payload and trailer, in bytes.
    pub(crate) padding: usize,
}

impl Stored {
    pub(crate) fn plain(len: usize) -> Stored {
        Stored {
            codec: Codec::Plain,
            plain_len: len,
            padding: 0,
        }
    }
}

/// A region whose checksum holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    /// Bytes of payload as stored, from the start of the region.
    pub(crate) payload_len: usize,
    pub(crate) plain_len: usize,
    pub(crate) codec: Codec,
    pub(crate) checksum: u32,
}

/// Data blocks of a segment without compression begin at multiples of this.
pub(crate) const DATA_ALIGN: u64 = 64;
/// Padding of a data block is shorter than this.
pub(crate) const PADDING_MAX: u64 = 4096;

/// What may be the trailer of a data block: for a search without an index. The checksum decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    pub(crate) payload_len: u64,
    codec: Codec,
}

impl Candidate {
    /// Looks at [`TRAILER_BYTES`] bytes.
    pub(crate) fn of(trailer: &[u8]) -> Option<Candidate> {
        let tags = trailer.get(8..12)?;
        if tags.first() != Some(&(RegionKind::Data as u8)) || tags.get(2..4)? != [VERSION, 0] {
            return None;
        }
        let codec = Codec::of(*tags.get(1)?)?;
        let mut cursor = Cursor::new(trailer);
        let payload_len = cursor.u32("payload length").ok()?;
        let plain_len = cursor.u32("plain length").ok()?;
        (codec != Codec::Plain || plain_len == payload_len).then_some(Candidate {
            payload_len: payload_len.into(),
            codec,
        })
    }

    /// Compressed, so that no padding stands before the trailer.
    pub(crate) fn is_packed(&self) -> bool {
        self.codec != Codec::Plain
    }

    /// A cheap test of the first bytes of the payload, 16 of them if it has so many.
    pub(crate) fn may_begin_with(&self, head: &[u8]) -> bool {
        match self.codec {
            Codec::Zstd => return head.starts_with(&ZSTD_MAGIC),
            // Nothing is there yet that could be copied: literals come first.
            Codec::Lz4 => return head.first().is_some_and(|token| *token >= 0x10),
            Codec::Plain => {}
        }
        let mut cursor = Cursor::new(head);
        let counts = cursor
            .u64("base")
            .and_then(|base| Ok((base, cursor.u32("entries")?, cursor.u32("groups")?)));
        counts.is_ok_and(|(base, entries, groups)| {
            base <= crate::key::Sequence::MAX.0
                && (1..=entries).contains(&groups)
                && u64::from(entries) <= self.payload_len
        })
    }
}

/// What a zstd frame begins with.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Checks a whole stored region.
///
/// # Errors
///
/// When its checksum, kind, version or lengths are wrong.
pub(crate) fn open(bytes: &[u8], kind: RegionKind, place: Place) -> Result<Region, Malformed> {
    let name = kind.name();
    let malformed = |what: &str| Malformed {
        what: format!("{name}: {what}"),
        at: 0,
    };
    let body_len = bytes
        .len()
        .checked_sub(TRAILER_BYTES)
        .ok_or_else(|| malformed("shorter than its trailer"))?;
    let mut trailer = Cursor::new(bytes.get(body_len..).unwrap_or_default());
    let payload_len = trailer.u32("payload length")? as usize;
    let plain_len = trailer.u32("plain length")? as usize;
    let tag = trailer.u8("kind")?;
    let codec = trailer.u8("codec")?;
    let version = trailer.u8("version")?;
    trailer.zeros("reserved", 1)?;
    let summed = bytes.len().saturating_sub(4);
    let checksum = trailer.u32("checksum")?;
    if checksum::at(
        place.file,
        place.offset,
        &[bytes.get(..summed).unwrap_or_default()],
    ) != checksum
    {
        return Err(malformed("its checksum does not match"));
    }
    if tag != kind as u8 {
        return Err(malformed("another kind of region stands in its place"));
    }
    if version != VERSION {
        return Err(malformed(
            "written by a newer version of criba; open it with that one",
        ));
    }
    let codec = Codec::of(codec)
        .ok_or_else(|| malformed("unknown compression; a newer version of criba wrote it"))?;
    let padding = bytes
        .get(payload_len..body_len)
        .ok_or_else(|| malformed("payload too long"))?;
    if padding.iter().any(|&byte| byte != 0) {
        return Err(malformed("padding is not zero"));
    }
    if codec == Codec::Plain && plain_len != payload_len {
        return Err(malformed("its two lengths differ"));
    }
    Ok(Region {
        payload_len,
        plain_len,
        codec,
        checksum,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place {
        file: 7,
        offset: 4096,
    };

    fn sample() -> Vec<u8> {
        let mut bytes = b"payload".to_vec();
        let stored = Stored {
            codec: Codec::Plain,
            plain_len: 7,
            padding: 41,
        };
        finish(&mut bytes, 0, RegionKind::Index, stored, PLACE);
        bytes
    }

    #[test]
    fn round_trip_skips_the_padding() {
        let bytes = sample();
        assert_eq!(bytes.len(), 64);
        let region = open(&bytes, RegionKind::Index, PLACE).unwrap();
        assert_eq!((region.payload_len, region.plain_len), (7, 7));
        assert_eq!(&bytes[..region.payload_len], b"payload");
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        let bytes = sample();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(
                open(&damaged, RegionKind::Index, PLACE).is_err(),
                "bit {bit}"
            );
        }
        for len in 0..bytes.len() {
            assert!(
                open(&bytes[..len], RegionKind::Index, PLACE).is_err(),
                "length {len}"
            );
        }
    }

    #[test]
    fn a_region_of_another_place_is_refused() {
        let bytes = sample();
        assert!(open(&bytes, RegionKind::Data, PLACE).is_err());
        assert!(open(&bytes, RegionKind::Index, Place { file: 8, ..PLACE }).is_err());
        assert!(open(&bytes, RegionKind::Index, Place { offset: 0, ..PLACE }).is_err());
    }
}
