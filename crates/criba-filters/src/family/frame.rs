//! Filters and sketches as bytes: one frame for all, so that damage is found in one place.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic, the letters `CRBS` |
//! | 4 | 4 | kind, four letters that name the structure |
//! | 8 | 1 | version of the structure's payload |
//! | 9 | 3 | zero |
//! | 12 | 4 | CRC-32 of all other bytes |
//! | 16 | 8 | bytes of payload |
//! | 24 | | payload |
//!
//! Integers are little-endian. The module knows no structure; each writes its payload and reads it
//! back through [`Fields`], which hands out no more than there is.
//!
//! Invariants:
//! 1. Bytes of which up to four neighbouring ones were changed, or which were cut or extended, are
//!    refused with an [`Error::Unreadable`](crate::Error::Unreadable) that says what is wrong.
//! 2. Nothing is allocated here for lengths that are read before the bytes are known to be there.

use crate::error::{Result, Unreadable};
pub(crate) use crate::fields::{Fields, require};

/// Names a structure in its bytes: four letters.
pub(crate) type Kind = [u8; 4];

const MAGIC: Kind = *b"CRBS";
const KIND_AT: usize = MAGIC.len();
const VERSION_AT: usize = KIND_AT + 4;
const RESERVED_AT: usize = VERSION_AT + 1;
const CHECKSUM_AT: usize = RESERVED_AT + 3;
const LENGTH_AT: usize = CHECKSUM_AT + 4;
const HEADER_BYTES: usize = LENGTH_AT + 8;

/// Puts a payload into its frame.
pub(crate) fn encode(kind: Kind, version: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend(MAGIC);
    bytes.extend(kind);
    bytes.push(version);
    bytes.extend([0; CHECKSUM_AT - RESERVED_AT]);
    bytes.extend([0; LENGTH_AT - CHECKSUM_AT]);
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend(payload);
    let checksum = checksum(&bytes);
    bytes[CHECKSUM_AT..LENGTH_AT].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The payload of bytes of this kind, version `version` and no other.
pub(crate) fn decode(kind: Kind, version: u8, bytes: &[u8]) -> Result<Fields<'_>> {
    if !bytes.starts_with(&MAGIC) {
        return Err(Unreadable::Foreign.into());
    }
    let Some((header, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(Unreadable::Length {
            wanted: HEADER_BYTES as u64,
            found: bytes.len() as u64,
        }
        .into());
    };
    let mut fields = Fields::new(&header[KIND_AT..]);
    let found = (fields.array::<4>("kind")?, fields.u8("version")?);
    fields.array::<3>("reserved")?;
    let stored = fields.u32("checksum")?;
    let length = fields.u64("length")?;
    if length != payload.len() as u64 {
        return Err(Unreadable::Length {
            wanted: length.saturating_add(HEADER_BYTES as u64),
            found: bytes.len() as u64,
        }
        .into());
    }
    // The reserved bytes are zero by what the checksum was made of; another version may use them.
    if stored != checksum(bytes) {
        return Err(Unreadable::Checksum.into());
    }
    if found != (kind, version) {
        let name =
            |(kind, version): (Kind, u8)| format!("\"{}\" version {version}", kind.escape_ascii());
        return Err(Unreadable::Other {
            wanted: name((kind, version)),
            found: name(found),
        }
        .into());
    }
    Ok(Fields::new(payload))
}

/// CRC-32 of all bytes but the checksum itself; `bytes` has a whole header.
fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..CHECKSUM_AT]);
    hasher.update(&bytes[LENGTH_AT..]);
    hasher.finalize()
}

/// Appends 64-bit words as [`Fields::words`] reads them.
pub(crate) fn put_words(payload: &mut Vec<u8>, words: &[u64]) {
    payload.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    const KIND: Kind = *b"TEST";

    #[test]
    fn what_is_put_in_comes_out() {
        let mut payload = vec![7];
        payload.extend(0.25f64.to_le_bytes());
        put_words(&mut payload, &[1, u64::MAX]);
        let bytes = encode(KIND, 3, &payload);
        let mut fields = decode(KIND, 3, &bytes).unwrap();
        assert_eq!(fields.u8("a").unwrap(), 7);
        assert!((fields.f64("b").unwrap() - 0.25).abs() < 1e-12);
        assert!(fields.end().is_err());
        assert_eq!(fields.words(2, "c").unwrap(), [1, u64::MAX]);
        assert!(fields.end().is_ok());
        assert_eq!(fields.u32("d"), Err(Error::field("d")));
        assert_eq!(fields.words(u64::MAX, "e"), Err(Error::field("e")));
    }

    #[test]
    fn any_damage_is_found() {
        let bytes = encode(KIND, 1, b"some payload");
        for at in 0..bytes.len() {
            for change in 1..=u8::MAX {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                assert!(decode(KIND, 1, &damaged).is_err(), "byte {at}");
            }
            assert!(decode(KIND, 1, &bytes[..at]).is_err(), "cut at {at}");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        let error = decode(KIND, 1, &longer).unwrap_err();
        assert_eq!(
            error.to_string(),
            "37 bytes where 36 belong: fetch them again, whole"
        );
    }

    #[test]
    fn errors_say_what_was_found() {
        let bytes = encode(KIND, 1, b"");
        let error = decode(*b"ELSE", 1, &bytes).unwrap_err().to_string();
        assert_eq!(
            error,
            "these bytes hold \"TEST\" version 1, not \"ELSE\" version 1: read them as such"
        );
        assert!(decode(KIND, 2, &bytes).is_err());
        assert_eq!(
            decode(KIND, 1, b"%PDF").unwrap_err(),
            Unreadable::Foreign.into()
        );
        assert_eq!(
            decode(KIND, 1, b"").unwrap_err(),
            Unreadable::Foreign.into()
        );
        assert_eq!(
            decode(KIND, 1, b"CRBS").unwrap_err(),
            Error::Unreadable(Unreadable::Length {
                wanted: 24,
                found: 4
            })
        );
    }
}
