//! The decoder's part for segments: footer, properties, index, data blocks, filter pages.

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::decode::{Entry, Meta, State};
use super::filters::{self, Parts, Point};
use super::ranges::{Fences, Ranges};
use super::reader::{Reader, checksum, shown};

const TRAILER: usize = 16;
const FOOTER: usize = 124;

/// Offsets and checksums from the footer.
#[derive(Debug)]
struct Footer {
    data_end: usize,
    filter_start: usize,
    range_start: usize,
    filter_header: usize,
    range_header: usize,
    index: usize,
    properties: usize,
    /// Of filter header, range filter header, index and properties.
    sums: [u32; 4],
}

/// Where the newest entry of a key stands.
pub(super) type Places = BTreeMap<Vec<u8>, (u64, u64)>;

/// A file and what its checksums begin with.
#[derive(Clone, Copy, Debug)]
pub(super) struct File<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) identity: u64,
}

impl<'a> File<'a> {
    pub(super) fn new(bytes: &'a [u8], store_id: u128, number: u64) -> File<'a> {
        let mixed = (store_id as u64) ^ (store_id >> 64) as u64;
        File {
            bytes,
            identity: mixed.wrapping_add(number),
        }
    }

    /// Checks a region and returns its payload and whether it is compressed.
    pub(super) fn region(
        self,
        (start, end): (usize, usize),
        kind: u8,
        dump: &mut String,
    ) -> Payload<'a> {
        let trailer = end - TRAILER;
        let mut reader = Reader::new(&self.bytes[trailer..end], trailer);
        let stored = reader.u32("payload length") as usize;
        let plain = reader.u32("plain length") as usize;
        assert_eq!(reader.u8("kind"), kind);
        let codec = reader.u8("codec");
        assert_eq!(reader.u8("version"), 1);
        reader.zeros(1, "reserved");
        let covered = &self.bytes[start..end - 4];
        let sum = checksum(self.identity, start as u64, &[covered]);
        reader.checksum(sum, "checksum");
        let (payload, padding) = self.bytes[start..trailer].split_at(stored);
        assert!(padding.iter().all(|&byte| byte == 0));
        match codec {
            0 => assert_eq!(plain, stored),
            1 | 2 => assert_eq!(kind, 1, "only data blocks are compressed"),
            other => panic!("codec {other}"),
        }
        dump.push_str(&reader.dump);
        Payload {
            bytes: payload,
            plain: (codec > 0).then_some((codec, plain)),
            sum,
            start,
        }
    }
}

#[derive(Debug)]
pub(super) struct Payload<'a> {
    pub(super) bytes: &'a [u8],
    /// Codec, and the length before compression, if there was any.
    plain: Option<(u8, usize)>,
    pub(super) sum: u32,
    pub(super) start: usize,
}

/// A segment and the filter file that stands for its filters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) filter_file: Option<&'a [u8]>,
}

/// The entries of a segment, and its range filter, from the filter file if there is one.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) entries: Vec<Entry>,
    pub(super) ranges: Option<Ranges>,
}

/// Decodes a segment and holds it against the manifest.
pub(super) fn decode(source: Source<'_>, meta: &Meta, state: &State, dump: &mut String) -> Segment {
    let (bytes, store_id) = (source.bytes, state.store_id);
    let file = File::new(bytes, store_id, meta.id);
    dump.push_str(&format!("\nsegment {} of {:06}.seg\n", meta.id, meta.file));
    assert_eq!(bytes.len() as u64, meta.len);
    let footer = footer(file, meta, store_id, dump);
    let properties_end = bytes.len() - FOOTER;
    dump.push_str("  properties\n");
    let payload = file.region((footer.properties, properties_end), 4, dump);
    assert_eq!(payload.sum, footer.sums[3]);
    let (counts, sketches, (range, point)) = properties(&payload, meta, dump);
    dump.push_str("  index\n");
    let payload = file.region((footer.index, footer.properties), 3, dump);
    assert_eq!(payload.sum, footer.sums[2]);
    let fences = index(&payload, footer.data_end, dump);
    let Blocks {
        mut entries,
        places,
        keys,
    } = blocks(file, &fences, dump);
    entries
        .iter_mut()
        .for_each(|entry| entry.keyspace = meta.keyspace);

    let tombstones = entries.iter().filter(|entry| entry.value.is_none()).count();
    let raw = |entry: &Entry| entry.key.len() + entry.value.as_ref().map_or(0, Vec::len);
    let found = [
        entries.len() as u64,
        places.len() as u64,
        tombstones as u64,
        entries.iter().map(|entry| entry.sequence).min().unwrap(),
        entries.iter().map(|entry| entry.sequence).max().unwrap(),
        entries.iter().map(raw).sum::<usize>() as u64,
    ];
    assert_eq!(found, counts[..6]);
    check_sketches(&entries, counts[6], &sketches, state.hash_seed);
    assert_eq!(found[4], meta.sequence_max);
    let parts = Parts {
        point,
        range,
        start: footer.data_end,
        filter_pages: footer.filter_start,
        range_pages: footer.range_start,
        filter_header: footer.filter_header,
        range_header: footer.range_header,
        headers_end: footer.index,
        sums: [footer.sums[0], footer.sums[1]],
    };
    let fences = fences.into_iter().map(|fence| (fence.key, fence.continues));
    let fences: Vec<_> = fences.collect();
    let known = filters::Segment {
        places: &places,
        keys: &keys,
        fences: Fences {
            fences: &fences,
            first_key: &meta.first_key,
            last_key: &meta.last_key,
        },
    };
    let mut ranges = filters::check(file, &parts, (known, state), dump);
    if let Some(bytes) = source.filter_file {
        ranges = filters::decode_file(bytes, meta, (known, state), dump);
    }
    Segment { entries, ranges }
}

fn footer(file: File<'_>, meta: &Meta, store_id: u128, dump: &mut String) -> Footer {
    let start = file.bytes.len() - FOOTER;
    let bytes = &file.bytes[start..];
    let mut reader = Reader::new(bytes, start);
    reader.title("  footer");
    assert_eq!(reader.bytes(8, "magic"), b"cribaseg");
    assert_eq!(reader.u16("version"), 3);
    reader.zeros(6, "reserved");
    assert_eq!(reader.u64("segment"), meta.id);
    assert_eq!(reader.u128("store id"), store_id);
    assert_eq!(reader.u64("length"), meta.len);
    let mut offset = |name| reader.u64(name) as usize;
    let mut footer = Footer {
        data_end: offset("end of data blocks"),
        filter_start: offset("filter pages"),
        range_start: offset("range filter pages"),
        filter_header: offset("filter header"),
        range_header: offset("range filter header"),
        index: offset("index"),
        properties: offset("properties"),
        sums: [0; 4],
    };
    let names = [
        "filter header",
        "range filter header",
        "index",
        "properties",
    ];
    for (sum, name) in footer.sums.iter_mut().zip(names) {
        *sum = reader.stored_checksum(&format!("checksum of {name}"));
    }
    let sum = checksum(file.identity, start as u64, &[&bytes[..FOOTER - 4]]);
    reader.checksum(sum, "checksum");
    assert_eq!(sum, meta.footer_sum);
    dump.push_str(&reader.dump);
    footer
}

fn properties(
    payload: &Payload<'_>,
    meta: &Meta,
    dump: &mut String,
) -> ([u64; 7], [Registers; 2], (u8, Option<Point>)) {
    let mut reader = Reader::new(payload.bytes, payload.start);
    let counts = [
        "entries",
        "keys",
        "tombstones",
        "first sequence",
        "last sequence",
        "raw bytes",
        "deleted keys",
    ]
    .map(|name| reader.u64(name));
    assert_eq!(reader.u32("keyspace"), meta.keyspace);
    assert_eq!(reader.prefixed("first key"), meta.first_key);
    assert_eq!(reader.prefixed("last key"), meta.last_key);
    let sketches = ["sketch of values", "sketch of deleted keys"];
    let sketches = sketches.map(|name| sketch(&reader.prefixed(name)));
    let range = reader.u8("range filter");
    let refuted = reader.u8("refuted gaps");
    assert!(refuted <= 100 && (range > 0 || refuted == 0));
    let kind = reader.u8("filter kind");
    let filter = (kind != 0).then(|| Point {
        kind,
        equal_hashes: reader.u8("equal hashes") == 1,
        words: reader.u64("filter words") as usize,
    });
    if filter.is_some() {
        reader.rate("designed rate");
    }
    assert!(reader.is_at_end());
    dump.push_str(&reader.dump);
    (counts, sketches, (range, filter))
}

/// The registers of a sketch that are not zero.
type Registers = BTreeMap<u64, u8>;

fn sketch(bytes: &[u8]) -> Registers {
    assert_eq!(bytes[0], 1);
    let registers: Vec<(u64, u8)> = match bytes[1] {
        0 => {
            let number = |entry: &[u8]| u32::from_le_bytes([entry[0], entry[1], entry[2], 0]);
            let numbers: Vec<u32> = bytes[2..].chunks(3).map(number).collect();
            assert!(numbers.is_sorted_by(|a, b| a % 4096 < b % 4096) && numbers.len() < 1024);
            let split = |n: u32| (u64::from(n % 4096), (n / 4096) as u8);
            numbers.into_iter().map(split).collect()
        }
        1 => {
            assert_eq!(bytes.len(), 2 + 3072);
            let bit = |at: usize| bytes[2 + at / 8] >> (at % 8) & 1;
            let rank = |r: usize| (0..6).map(|n| bit(6 * r + n) << n).sum();
            let all = (0..4096).map(|r| (r as u64, rank(r)));
            let used: Vec<_> = all.filter(|one| one.1 > 0).collect();
            assert!(used.len() >= 1024);
            used
        }
        other => panic!("sketch of form {other}"),
    };
    assert!(registers.iter().all(|one| (1..=53).contains(&one.1)));
    registers.into_iter().collect()
}

/// The sketches are those of the keys, each by its newest entry.
fn check_sketches(entries: &[Entry], deleted: u64, sketches: &[Registers; 2], seed: u64) {
    let mut expected = [Registers::new(), Registers::new()];
    let mut deleted_keys = 0;
    for versions in entries.chunk_by(|a, b| a.key == b.key) {
        let is_deleted = versions[0].value.is_none();
        deleted_keys += u64::from(is_deleted);
        let hash = xxh3_64_with_seed(&versions[0].key, seed);
        let rank = (hash % (1 << 52)).leading_zeros() - 12 + 1;
        let register = expected[usize::from(is_deleted)]
            .entry(hash >> 52)
            .or_default();
        *register = (rank as u8).max(*register);
    }
    assert_eq!(deleted, deleted_keys);
    assert_eq!(*sketches, expected);
}

/// A data block as the index knows it.
#[derive(Debug)]
struct Fence {
    start: usize,
    end: usize,
    continues: bool,
    key: Vec<u8>,
}

fn index(payload: &Payload<'_>, data_end: usize, dump: &mut String) -> Vec<Fence> {
    let mut reader = Reader::new(payload.bytes, payload.start);
    let count = reader.varint("blocks");
    let mut fences: Vec<Fence> = Vec::new();
    for _ in 0..count {
        let offset = reader.offset();
        let (start, mut key) = match fences.last() {
            Some(before) => (before.end, before.key.clone()),
            None => (0, Vec::new()),
        };
        let end = start + reader.quiet_varint() as usize;
        let tag = reader.quiet_varint();
        let suffix_len = reader.quiet_varint() as usize;
        assert!(tag >> 1 <= key.len() as u64);
        key.truncate((tag >> 1) as usize);
        key.extend_from_slice(reader.quiet(suffix_len));
        let continues = tag & 1 == 1;
        let mark = if continues { " continues" } else { "" };
        let text = format!("  {start} to {end}, from {}{mark}", shown(&key));
        reader.note(reader.offset() - offset, &text);
        fences.push(Fence {
            start,
            end,
            continues,
            key,
        });
    }
    assert!(reader.is_at_end());
    assert_eq!(fences.last().unwrap().end, data_end);
    assert!(fences[0].key.is_empty() && !fences[0].continues);
    dump.push_str(&reader.dump);
    fences
}

/// What the data blocks of a segment hold.
struct Blocks {
    entries: Vec<Entry>,
    places: Places,
    /// The keys whose newest entry stands in each block.
    keys: Vec<BTreeSet<Vec<u8>>>,
}

fn blocks(file: File<'_>, fences: &[Fence], dump: &mut String) -> Blocks {
    let mut keys = Vec::new();
    let mut all: Vec<Entry> = Vec::new();
    let mut places = Places::new();
    for (ordinal, fence) in fences.iter().enumerate() {
        dump.push_str(&format!("  block {ordinal} at {}\n", fence.start));
        let payload = file.region((fence.start, fence.end), 1, dump);
        let unpacked = payload.plain.map(|(codec, len)| {
            let plain = match codec {
                1 => zstd::bulk::decompress(payload.bytes, len).unwrap(),
                _ => lz4_flex::block::decompress(payload.bytes, len).unwrap(),
            };
            assert_eq!(plain.len(), len);
            dump.push_str("    unpacked, offsets within the payload:\n");
            plain
        });
        let (bytes, base) = match &unpacked {
            Some(plain) => (&plain[..], 0),
            None => (payload.bytes, payload.start),
        };
        let mut reader = Reader::new(bytes, base);
        let entries = block(&mut reader, bytes.len());
        dump.push_str(&reader.dump);

        let first = &entries[0].1.key;
        match all.last() {
            None => {}
            Some(last) if last.key == *first => {
                assert!(fence.continues && fence.key == *first);
            }
            Some(last) => {
                let shared = last
                    .key
                    .iter()
                    .zip(first)
                    .take_while(|(a, b)| a == b)
                    .count();
                assert_eq!(
                    fence.key,
                    first[..=shared],
                    "the shortest that tells them apart"
                );
                assert!(!fence.continues);
            }
        }
        let mut newest = BTreeSet::new();
        for (group, entry) in entries {
            let place = (ordinal as u64, group);
            if !places.contains_key(&entry.key) {
                places.insert(entry.key.clone(), place);
                newest.insert(entry.key.clone());
            }
            all.push(entry);
        }
        keys.push(newest);
    }
    let order = |a: &Entry, b: &Entry| (&a.key, b.sequence) < (&b.key, a.sequence);
    assert!(all.is_sorted_by(order), "keys ascending, newest first");
    Blocks {
        entries: all,
        places,
        keys,
    }
}

/// The entries of a block with the ordinals of their groups.
fn block(reader: &mut Reader<'_>, len: usize) -> Vec<(u64, Entry)> {
    let payload = reader.rest();
    let base = reader.u64("base sequence");
    let count = reader.u32("entries");
    let groups = reader.u32("groups") as usize;
    let width = if len > 0xffff { 4 } else { 2 };
    let offsets_at = len - groups * width;
    let offsets: Vec<usize> = payload[offsets_at..]
        .chunks(width)
        .map(|bytes| {
            let mut offset = [0; 8];
            offset[..width].copy_from_slice(bytes);
            u64::from_le_bytes(offset) as usize
        })
        .collect();
    let start = reader.offset() - 16;
    let mut entries = Vec::new();
    for group in 0..groups {
        assert_eq!(start + offsets[group], reader.offset());
        let end = start + offsets.get(group + 1).copied().unwrap_or(offsets_at);
        let mut key = Vec::new();
        while reader.offset() < end {
            let entry = entry(reader, &mut key, base);
            entries.push((group as u64, entry));
        }
        assert_eq!(reader.offset(), end);
    }
    let name = format!("offsets of {groups} groups, {width} bytes each");
    reader.bytes(groups * width, &name);
    assert!(reader.is_at_end() && entries.len() == count as usize);
    entries
}

/// `key` is the one before, empty at the start of a group.
fn entry(reader: &mut Reader<'_>, key: &mut Vec<u8>, base: u64) -> Entry {
    let start = reader.offset();
    let shared = reader.quiet_varint() as usize;
    let suffix_len = reader.quiet_varint() as usize;
    let tag = reader.quiet_varint();
    let value_len = match tag & 3 {
        0 => None,
        1 | 2 => Some(reader.quiet_varint() as usize),
        other => panic!("kind {other}"),
    };
    assert!(shared <= key.len());
    key.truncate(shared);
    key.extend_from_slice(reader.quiet(suffix_len));
    let value = value_len.map(|len| reader.quiet(len).to_vec());
    let sequence = base + (tag >> 2);
    let text = match &value {
        Some(value) => {
            let kind = if tag & 3 == 2 { "operand " } else { "" };
            format!("  {} at {sequence}: {kind}{}", shown(key), shown(value))
        }
        None => format!("  {} at {sequence}: tombstone", shown(key)),
    };
    reader.note(reader.offset() - start, &text);
    Entry {
        keyspace: 0,
        key: key.clone(),
        sequence,
        value,
        is_operand: tag & 3 == 2,
    }
}
