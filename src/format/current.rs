//! `CURRENT`: which manifest is live, and whether the store was closed in order.
//! See `docs/format.md`, "CURRENT".

use super::checksum;
use super::cursor::{Cursor, Malformed};
use crate::key::Sequence;

const MAGIC: &[u8; 8] = b"cribacur";
const VERSION: u16 = 1;
const CLEAN: u16 = 1;

/// Length of the file in bytes.
pub(crate) const BYTES: usize = 8 + 2 + 2 + 4 + 16 + 8 + 8 + 8 + 4 + 4;

/// The content of `CURRENT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Current {
    pub(crate) store_id: u128,
    /// Number of the live manifest.
    pub(crate) manifest: u64,
    /// Sequence of the last write when the store was closed in order; `None` while it is open
    /// for writing, or after a crash.
    pub(crate) clean_at: Option<Sequence>,
    /// The first journal of the session that wrote last, which must exist unless the manifest
    /// says that it is dead; 0 for none.
    pub(crate) journal: u64,
}

impl Current {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let flags = if self.clean_at.is_some() { CLEAN } else { 0 };
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.store_id.to_le_bytes());
        bytes.extend_from_slice(&self.manifest.to_le_bytes());
        bytes.extend_from_slice(&self.clean_at.unwrap_or_default().0.to_le_bytes());
        bytes.extend_from_slice(&self.journal.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        let sum = checksum::at(0, 0, &[&bytes]);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Current, Malformed> {
        let mut cursor = Cursor::new(bytes);
        cursor.begins("CURRENT", MAGIC, VERSION)?;
        let flags = cursor.u16("current.flags")?;
        cursor.zeros("current.reserved", 4)?;
        let store_id = cursor.u128("current.store_id")?;
        let manifest = cursor.u64("current.manifest")?;
        let sequence = Sequence(cursor.u64("current.clean_sequence")?);
        let journal = cursor.u64("current.journal")?;
        cursor.zeros("current.reserved", 4)?;
        cursor.checksum("CURRENT", 0, 0)?;
        cursor.end("CURRENT")?;
        let clean_at = match flags {
            0 if sequence.0 == 0 => None,
            CLEAN => Some(sequence),
            _ => {
                return Err(
                    cursor.malformed("CURRENT: unknown flags, or a sequence without its flag")
                );
            }
        };
        Ok(Current {
            store_id,
            manifest,
            clean_at,
            journal,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() {
        for clean_at in [None, Some(Sequence(0)), Some(Sequence(77))] {
            let current = Current {
                store_id: 3 << 70,
                manifest: 9,
                clean_at,
                journal: 4,
            };
            let bytes = current.encode();
            assert_eq!(bytes.len(), BYTES);
            assert_eq!(Current::decode(&bytes), Ok(current));
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(Current::decode(&damaged).is_err(), "bit {bit}");
            }
            for len in 0..bytes.len() {
                assert!(Current::decode(&bytes[..len]).is_err());
            }
        }
    }
}
