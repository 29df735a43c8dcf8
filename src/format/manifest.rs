//! The manifest: a header, then edits, each checksummed and counted.
//! See `docs/format.md`, "Manifest".

use super::checksum;
use super::cursor::{Cursor, Malformed};
use super::varint;
use crate::key::{KeyspaceId, Sequence};

const MAGIC: &[u8; 8] = b"cribaman";
const VERSION: u16 = 2;

/// Length of the file header in bytes.
pub(crate) const HEADER_BYTES: usize = 8 + 2 + 6 + 8 + 16 + 8 + 4;

/// Length of what stands before the payload of an edit, in bytes.
pub(crate) const EDIT_HEADER_BYTES: usize = 4 + 4 + 8;

/// Least bytes of an encoded segment: eight numbers of eight bytes, keyspace, level, checksum, two keys.
const SEGMENT_BYTES_MIN: usize = 8 * 8 + 4 + 4 + 4 + 2;

/// Least bytes of a keyspace: its number, a name, and the name of its operator.
const KEYSPACE_BYTES_MIN: usize = 4 + 2 + 1;

/// The name of the keyspace that every store has.
pub(crate) const DEFAULT_KEYSPACE: &str = "default";

/// Longest name of a keyspace, and of a merge operator, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// Least bytes of the lookups of a segment: its number, and seven numbers.
const TRAFFIC_BYTES_MIN: usize = 8 + 7;

/// The head of a manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) manifest_id: u64,
    pub(crate) store_id: u128,
    /// The secret with which keys are hashed, so that nobody can prepare keys that collide.
    pub(crate) hash_seed: u64,
}

/// A keyspace as the manifest knows it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct KeyspaceMeta {
    pub(crate) name: String,
    /// The name of its merge operator; empty until an operand was written.
    pub(crate) operator: String,
}

/// A segment as the manifest knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SegmentMeta {
    pub(crate) id: u64,
    pub(crate) keyspace: KeyspaceId,
    /// The number of the file that holds the segment: that of the first segment in it.
    pub(crate) file: u64,
    /// Where the segment begins in its file.
    pub(crate) start: u64,
    pub(crate) level: u32,
    /// Segments of one level with the same run do not overlap; a higher run is newer.
    pub(crate) run: u64,
    /// Length of the segment.
    pub(crate) len: u64,
    pub(crate) footer_sum: u32,
    /// Sequence of the newest entry.
    pub(crate) sequence_max: Sequence,
    /// The file of the filter that stands for the one in the segment, 0 for none.
    pub(crate) filter_file: u64,
    /// When its newest entry was written, or later, in milliseconds since 1970; 0 for unknown.
    pub(crate) written_ms: u64,
    pub(crate) first_key: Vec<u8>,
    pub(crate) last_key: Vec<u8>,
}

/// What point lookups met in a segment since it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Traffic {
    /// Lookups that came to the segment.
    pub(crate) probes: u64,
    /// Of these, answered "absent" without a data block.
    pub(crate) negatives: u64,
    /// Of these, the key was there.
    pub(crate) true_positives: u64,
    /// Of these, a data block was searched in vain.
    pub(crate) false_positives: u64,
    /// Data blocks read for them that were not in the cache, and their bytes.
    pub(crate) block_reads: u64,
    pub(crate) block_bytes: u64,
    /// Lookups in the runs of the store while the segment was live, wherever they went.
    pub(crate) lookups: u64,
}

/// Bytes written since the store was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Work {
    /// Of batches, as they were committed.
    pub(crate) user_bytes: u64,
    /// Of segments, by flushes and by merges.
    pub(crate) flushed_bytes: u64,
    pub(crate) merged_bytes: u64,
}

/// No store ever gives so many numbers; with this bound they can be added to without care.
const NUMBER_MAX: u64 = 1 << 62;

/// No tree has more levels: each of them is twice the one above or more.
pub(crate) const LEVEL_MAX: u32 = 63;

/// No file is as long and nothing happens as often: a thousand of such numbers can be added up.
const COUNT_MAX: u64 = 1 << 54;

/// Which journals are still needed: from this one on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JournalFloor {
    pub(crate) id: u64,
    /// Where this journal begins: the sequence after the last one in a segment, and the chain.
    pub(crate) next: Sequence,
    pub(crate) chain: u32,
}

/// A change of what is live. The first edit of a manifest is the whole state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Edit {
    pub(crate) added: Vec<SegmentMeta>,
    pub(crate) removed: Vec<u64>,
    pub(crate) floor: Option<JournalFloor>,
    /// File numbers from here on are free ...
    pub(crate) next_file: u64,
    /// ... and below here they are the store's: a file with such a number that is not live is
    /// dead.
    pub(crate) reserved_end: u64,
    /// What was counted for segments that are live after this edit, in place of what was known.
    pub(crate) traffic: Vec<(u64, Traffic)>,
    /// In place of what was known.
    pub(crate) work: Work,
    /// Numbers of keyspaces from here on are free.
    pub(crate) next_keyspace: KeyspaceId,
    /// Keyspaces that are there from now on, or whose operator is known from now on.
    pub(crate) keyspaces: Vec<(KeyspaceId, KeyspaceMeta)>,
    /// Keyspaces that go, with all their segments.
    pub(crate) dropped: Vec<KeyspaceId>,
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 6]);
        bytes.extend_from_slice(&self.manifest_id.to_le_bytes());
        bytes.extend_from_slice(&self.store_id.to_le_bytes());
        bytes.extend_from_slice(&self.hash_seed.to_le_bytes());
        let sum = checksum::at(self.manifest_id, 0, &[&bytes]);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8], manifest_id: u64) -> Result<Header, Malformed> {
        let mut cursor = Cursor::new(bytes);
        cursor.begins("manifest header", MAGIC, VERSION)?;
        cursor.zeros("manifest.reserved", 6)?;
        let header = Header {
            manifest_id: cursor.u64("manifest.id")?,
            store_id: cursor.u128("manifest.store_id")?,
            hash_seed: cursor.u64("manifest.hash_seed")?,
        };
        cursor.checksum("manifest header", manifest_id, 0)?;
        if header.manifest_id != manifest_id {
            return Err(Malformed {
                what: "manifest header: not the number of its name".into(),
                at: 0,
            });
        }
        Ok(header)
    }
}

impl Edit {
    /// The record of this edit, the `ordinal`-th of the manifest, for this offset in the file.
    /// `None` when its payload is 4 GiB or more, as that of 32,768 segments with the longest keys.
    pub(crate) fn encode(&self, manifest_id: u64, ordinal: u64, offset: u64) -> Option<Vec<u8>> {
        // The keys first: they are nearly all of it, and not yet copied.
        u32::try_from(self.key_bytes()).ok()?;
        let payload = self.payload();
        let len = u32::try_from(payload.len()).ok()?.to_le_bytes();
        let ordinal = ordinal.to_le_bytes();
        let sum = checksum::at(manifest_id, offset, &[&len, &ordinal, &payload]);
        Some([&sum.to_le_bytes()[..], &len, &ordinal, &payload].concat())
    }

    /// Bytes of all keys in it.
    fn key_bytes(&self) -> u64 {
        let keys = self
            .added
            .iter()
            .flat_map(|one| [&one.first_key, &one.last_key]);
        keys.fold(0, |bytes: u64, key| bytes.saturating_add(key.len() as u64))
    }

    fn payload(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.next_file.to_le_bytes());
        out.extend_from_slice(&self.reserved_end.to_le_bytes());
        match &self.floor {
            None => out.push(0),
            Some(floor) => {
                out.push(1);
                out.extend_from_slice(&floor.id.to_le_bytes());
                out.extend_from_slice(&floor.next.0.to_le_bytes());
                out.extend_from_slice(&floor.chain.to_le_bytes());
            }
        }
        out.extend_from_slice(&self.next_keyspace.0.to_le_bytes());
        varint::encode(self.dropped.len() as u64, &mut out);
        for id in &self.dropped {
            out.extend_from_slice(&id.0.to_le_bytes());
        }
        varint::encode(self.keyspaces.len() as u64, &mut out);
        for (id, keyspace) in &self.keyspaces {
            out.extend_from_slice(&id.0.to_le_bytes());
            keyspace.encode(&mut out);
        }
        varint::encode(self.removed.len() as u64, &mut out);
        for id in &self.removed {
            out.extend_from_slice(&id.to_le_bytes());
        }
        varint::encode(self.added.len() as u64, &mut out);
        for segment in &self.added {
            segment.encode(&mut out);
        }
        varint::encode(self.traffic.len() as u64, &mut out);
        for (id, traffic) in &self.traffic {
            out.extend_from_slice(&id.to_le_bytes());
            traffic.encode(&mut out);
        }
        let work = &self.work;
        for number in [work.user_bytes, work.flushed_bytes, work.merged_bytes] {
            varint::encode(number, &mut out);
        }
        out
    }

    /// The edit at the start of `bytes` and the length of its record.
    ///
    /// # Errors
    ///
    /// When it is cut off or damaged, which at the end of a manifest is what a crash leaves.
    pub(crate) fn decode(
        bytes: &[u8],
        manifest_id: u64,
        ordinal: u64,
        offset: u64,
    ) -> Result<(Edit, usize), Malformed> {
        let mut cursor = Cursor::new(bytes);
        let sum = cursor.u32("edit.checksum")?;
        let len = cursor.u32("edit.length")?;
        let number = cursor.u64("edit.ordinal")?;
        let payload = cursor.bytes("edit.payload", len as usize)?;
        let parts: [&[u8]; 3] = [&len.to_le_bytes(), &number.to_le_bytes(), payload];
        if checksum::at(manifest_id, offset, &parts) != sum {
            return Err(Malformed {
                what: "edit: its checksum does not match".into(),
                at: 0,
            });
        }
        if number != ordinal {
            return Err(Malformed {
                what: format!("edit {number} stands where edit {ordinal} belongs"),
                at: 0,
            });
        }
        Ok((Edit::decode_payload(payload)?, cursor.position()))
    }

    fn decode_payload(payload: &[u8]) -> Result<Edit, Malformed> {
        let mut cursor = Cursor::new(payload);
        let mut edit = Edit {
            next_file: cursor.u64("edit.next_file")?,
            reserved_end: cursor.u64("edit.reserved_end")?,
            ..Edit::default()
        };
        if edit.next_file > edit.reserved_end || edit.reserved_end > NUMBER_MAX {
            return Err(cursor.malformed("edit.reserved_end: below the next file, or too high"));
        }
        edit.floor = match cursor.u8("edit.has_floor")? {
            0 => None,
            1 => Some(JournalFloor {
                id: cursor.u64("edit.floor_id")?,
                next: match cursor.u64("edit.floor_next")? {
                    0 => return Err(cursor.malformed("edit.floor_next: sequences begin at 1")),
                    next => Sequence(next),
                },
                chain: cursor.u32("edit.floor_chain")?,
            }),
            _ => return Err(cursor.malformed("edit.has_floor: neither 0 nor 1")),
        };
        edit.next_keyspace = KeyspaceId(cursor.u32("edit.next_keyspace")?);
        for _ in 0..cursor.count("edit.dropped", 4)? {
            let id = KeyspaceId(cursor.u32("edit.dropped_id")?);
            edit.dropped.push(id);
        }
        for _ in 0..cursor.count("edit.keyspaces", KEYSPACE_BYTES_MIN)? {
            let id = KeyspaceId(cursor.u32("edit.keyspace_id")?);
            edit.keyspaces
                .push((id, KeyspaceMeta::decode(&mut cursor)?));
        }
        for _ in 0..cursor.count("edit.removed", 8)? {
            edit.removed.push(cursor.u64("edit.removed_id")?);
        }
        for _ in 0..cursor.count("edit.added", SEGMENT_BYTES_MIN)? {
            edit.added.push(SegmentMeta::decode(&mut cursor)?);
        }
        for _ in 0..cursor.count("edit.traffic", TRAFFIC_BYTES_MIN)? {
            let id = cursor.u64("edit.traffic_id")?;
            edit.traffic.push((id, Traffic::decode(&mut cursor)?));
        }
        edit.work = Work {
            user_bytes: counted(&mut cursor, "edit.user_bytes")?,
            flushed_bytes: counted(&mut cursor, "edit.flushed_bytes")?,
            merged_bytes: counted(&mut cursor, "edit.merged_bytes")?,
        };
        cursor.end("edit")?;
        Ok(edit)
    }
}

impl KeyspaceMeta {
    fn encode(&self, out: &mut Vec<u8>) {
        for name in [&self.name, &self.operator] {
            varint::encode(name.len() as u64, out);
            out.extend_from_slice(name.as_bytes());
        }
    }

    fn decode(cursor: &mut Cursor<'_>) -> Result<KeyspaceMeta, Malformed> {
        let mut name = |field: &str, least| {
            let bytes = cursor.prefixed(field)?;
            let name = std::str::from_utf8(bytes).ok();
            let fits = (least..=NAME_BYTES_MAX).contains(&bytes.len());
            let name = name.filter(|_| fits).map(str::to_owned);
            name.ok_or_else(|| cursor.malformed(format!("{field}: not a name")))
        };
        Ok(KeyspaceMeta {
            name: name("keyspace.name", 1)?,
            operator: name("keyspace.operator", 0)?,
        })
    }
}

impl SegmentMeta {
    fn encode(&self, out: &mut Vec<u8>) {
        for number in [
            self.id,
            self.file,
            self.start,
            self.run,
            self.len,
            self.sequence_max.0,
            self.filter_file,
            self.written_ms,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.keyspace.0.to_le_bytes());
        out.extend_from_slice(&self.level.to_le_bytes());
        out.extend_from_slice(&self.footer_sum.to_le_bytes());
        for key in [&self.first_key, &self.last_key] {
            varint::encode(key.len() as u64, out);
            out.extend_from_slice(key);
        }
    }

    fn decode(cursor: &mut Cursor<'_>) -> Result<SegmentMeta, Malformed> {
        let meta = SegmentMeta {
            id: cursor.u64("segment.id")?,
            file: cursor.u64("segment.file")?,
            start: cursor.u64("segment.start")?,
            run: cursor.u64("segment.run")?,
            len: cursor.u64("segment.length")?,
            sequence_max: Sequence(cursor.u64("segment.sequence_max")?),
            filter_file: cursor.u64("segment.filter_file")?,
            written_ms: cursor.u64("segment.written")?,
            keyspace: KeyspaceId(cursor.u32("segment.keyspace")?),
            level: cursor.u32("segment.level")?,
            footer_sum: cursor.u32("segment.footer_sum")?,
            first_key: cursor.prefixed("segment.first_key")?.to_vec(),
            last_key: cursor.prefixed("segment.last_key")?.to_vec(),
        };
        if meta.first_key > meta.last_key {
            return Err(cursor.malformed("segment: its key range is reversed"));
        }
        if meta.len > COUNT_MAX || meta.start > COUNT_MAX {
            return Err(cursor.malformed("segment.length: no file is so long"));
        }
        if meta.level > LEVEL_MAX {
            return Err(cursor.malformed("segment.level: no tree has so many"));
        }
        Ok(meta)
    }
}

impl Traffic {
    fn encode(&self, out: &mut Vec<u8>) {
        for number in [
            self.probes,
            self.negatives,
            self.true_positives,
            self.false_positives,
            self.block_reads,
            self.block_bytes,
            self.lookups,
        ] {
            varint::encode(number, out);
        }
    }

    fn decode(cursor: &mut Cursor<'_>) -> Result<Traffic, Malformed> {
        let mut count = |field| counted(cursor, field);
        Ok(Traffic {
            probes: count("traffic.probes")?,
            negatives: count("traffic.negatives")?,
            true_positives: count("traffic.true_positives")?,
            false_positives: count("traffic.false_positives")?,
            block_reads: count("traffic.block_reads")?,
            block_bytes: count("traffic.block_bytes")?,
            lookups: count("traffic.lookups")?,
        })
    }
}

/// What was counted. Nothing depends on it: a number that is too high is lowered, not refused.
fn counted(cursor: &mut Cursor<'_>, field: &str) -> Result<u64, Malformed> {
    Ok(cursor.varint(field)?.min(COUNT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Edit {
        let segment = SegmentMeta {
            id: 12,
            keyspace: KeyspaceId(7),
            file: 11,
            start: 4096,
            level: 0,
            run: 3,
            len: 8192,
            footer_sum: 99,
            sequence_max: Sequence(1000),
            filter_file: 11,
            written_ms: 1_700_000_000_000,
            first_key: b"a".to_vec(),
            last_key: b"zebra".to_vec(),
        };
        let traffic = Traffic {
            probes: 7,
            negatives: 1,
            true_positives: 2,
            false_positives: 4,
            block_reads: 6,
            block_bytes: 24_576,
            lookups: COUNT_MAX,
        };
        Edit {
            added: vec![segment.clone(), SegmentMeta { id: 13, ..segment }],
            removed: vec![4, 5],
            floor: Some(JournalFloor {
                id: 14,
                next: Sequence(1001),
                chain: 77,
            }),
            next_file: 15,
            reserved_end: 40,
            traffic: vec![(12, Traffic::default()), (13, traffic)],
            work: Work {
                user_bytes: 300,
                flushed_bytes: COUNT_MAX,
                merged_bytes: 0,
            },
            next_keyspace: KeyspaceId(9),
            keyspaces: vec![(
                KeyspaceId(8),
                KeyspaceMeta {
                    name: "users".into(),
                    operator: "add".into(),
                },
            )],
            dropped: vec![KeyspaceId(5)],
        }
    }

    /// Bug: numbers near the end of their range were accepted, and adding to them panicked.
    #[test]
    fn numbers_of_files_are_bounded() {
        let decoded = |next_file, reserved_end| {
            let edit = Edit {
                next_file,
                reserved_end,
                ..sample()
            };
            Edit::decode(&edit.encode(1, 0, 52).unwrap(), 1, 0, 52).is_ok()
        };
        assert!(decoded(40, 40) && decoded(1, NUMBER_MAX));
        assert!(!decoded(41, 40));
        assert!(!decoded(1, NUMBER_MAX + 1));
        assert!(!decoded(u64::MAX, u64::MAX));
    }

    #[test]
    fn edits_round_trip_and_every_flip_and_cut_is_seen() {
        let edit = sample();
        let bytes = edit.encode(7, 3, 500).unwrap();
        assert_eq!(Edit::decode(&bytes, 7, 3, 500), Ok((edit, bytes.len())));
        assert!(Edit::decode(&bytes, 8, 3, 500).is_err());
        assert!(Edit::decode(&bytes, 7, 4, 500).is_err());
        assert!(Edit::decode(&bytes, 7, 3, 501).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Edit::decode(&damaged, 7, 3, 500).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Edit::decode(&bytes[..len], 7, 3, 500).is_err());
        }
    }

    #[test]
    fn names_of_keyspaces_are_text_of_some_length() {
        let decoded = |name: &str, operator: &str| {
            let mut edit = sample();
            edit.keyspaces[0].1 = KeyspaceMeta {
                name: name.into(),
                operator: operator.into(),
            };
            Edit::decode(&edit.encode(1, 0, 52).unwrap(), 1, 0, 52).is_ok()
        };
        let long = "n".repeat(NAME_BYTES_MAX);
        assert!(decoded("ñ", "") && decoded(&long, &long));
        assert!(!decoded("", "") && !decoded(&format!("{long}n"), ""));
        let mut bytes = Vec::new();
        sample().keyspaces[0].1.encode(&mut bytes);
        bytes[1] = 0xff;
        assert!(KeyspaceMeta::decode(&mut Cursor::new(&bytes)).is_err());
    }

    /// Bug: its length was written as 4 GiB less one byte, and nobody could read it.
    #[test]
    fn an_edit_without_room_for_its_length_is_not_encoded() {
        let mut edit = sample();
        // Zeros that are never read take no memory.
        edit.added[1].last_key = vec![0; 1 << 32];
        assert_eq!(edit.encode(7, 3, 500), None);
    }

    #[test]
    fn header_round_trip_and_damage() {
        let header = Header {
            manifest_id: 7,
            store_id: 5,
            hash_seed: 6,
        };
        let bytes = header.encode();
        assert_eq!(bytes.len(), HEADER_BYTES);
        assert_eq!(Header::decode(&bytes, 7), Ok(header));
        assert!(Header::decode(&bytes, 8).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&damaged, 7).is_err(), "bit {bit}");
        }
    }
}
