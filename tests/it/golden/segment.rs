//! The decoder's part for segments: footer, properties, index, data blocks, filter pages.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::decode::{Entry, Meta, State};
use super::filter::{Answer, Filter};
use super::reader::{Reader, checksum, shown};

const TRAILER: usize = 16;
const FOOTER: usize = 124;
const PAGE_WORDS: usize = 511;

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

#[derive(Debug)]
struct FilterProperties {
    kind: u8,
    equal_hashes: bool,
    words: usize,
}

/// Where the newest entry of a key stands.
type Places = BTreeMap<Vec<u8>, (u64, u64)>;

/// A file and what its checksums begin with.
#[derive(Clone, Copy, Debug)]
struct File<'a> {
    bytes: &'a [u8],
    identity: u64,
}

impl<'a> File<'a> {
    /// Checks a region and returns its payload and whether it is compressed.
    fn region(self, (start, end): (usize, usize), kind: u8, dump: &mut String) -> Payload<'a> {
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
struct Payload<'a> {
    bytes: &'a [u8],
    /// Codec, and the length before compression, if there was any.
    plain: Option<(u8, usize)>,
    sum: u32,
    start: usize,
}

/// Decodes a segment and holds it against the manifest; returns its entries.
pub(super) fn decode(bytes: &[u8], meta: &Meta, state: &State, dump: &mut String) -> Vec<Entry> {
    let store_id = state.store_id;
    let file = File {
        bytes,
        identity: ((store_id as u64) ^ (store_id >> 64) as u64).wrapping_add(meta.id),
    };
    dump.push_str(&format!("\nsegment {} of {:06}.seg\n", meta.id, meta.file));
    assert_eq!(bytes.len() as u64, meta.len);
    let footer = footer(file, meta, store_id, dump);
    let properties_end = bytes.len() - FOOTER;
    dump.push_str("  properties\n");
    let payload = file.region((footer.properties, properties_end), 4, dump);
    assert_eq!(payload.sum, footer.sums[3]);
    let (counts, sketches, filter) = properties(&payload, meta, dump);
    dump.push_str("  index\n");
    let payload = file.region((footer.index, footer.properties), 3, dump);
    assert_eq!(payload.sum, footer.sums[2]);
    let fences = index(&payload, footer.data_end, dump);
    let (mut entries, places) = blocks(file, &fences, dump);
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
    match filter {
        None => {
            assert_eq!(footer.filter_start, footer.data_end);
            assert_eq!(footer.filter_header, footer.range_header);
            assert_eq!(footer.sums[0], 0);
        }
        Some(filter) => check_filter(file, &footer, &filter, (&places, state), dump),
    }
    entries
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
        let stored = reader.bytes(4, &format!("checksum of {name}"));
        *sum = u32::from_le_bytes(stored.try_into().unwrap());
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
) -> ([u64; 7], [Registers; 2], Option<FilterProperties>) {
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
    // No golden store has range filters.
    assert_eq!(reader.u8("range filter"), 0);
    assert_eq!(reader.u8("refuted gaps"), 0);
    let kind = reader.u8("filter kind");
    let filter = (kind != 0).then(|| FilterProperties {
        kind,
        equal_hashes: reader.u8("equal hashes") == 1,
        words: reader.u64("filter words") as usize,
    });
    if filter.is_some() {
        let rate = f64::from_bits(u64::from_le_bytes(reader.quiet(8).try_into().unwrap()));
        reader.note(8, &format!("designed rate {rate}"));
        assert!((0.0..=1.0).contains(&rate));
    }
    assert!(reader.is_at_end());
    dump.push_str(&reader.dump);
    (counts, sketches, filter)
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

fn blocks(file: File<'_>, fences: &[Fence], dump: &mut String) -> (Vec<Entry>, Places) {
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
        for (group, entry) in entries {
            let place = (ordinal as u64, group);
            places.entry(entry.key.clone()).or_insert(place);
            all.push(entry);
        }
    }
    let order = |a: &Entry, b: &Entry| (&a.key, b.sequence) < (&b.key, a.sequence);
    assert!(all.is_sorted_by(order), "keys ascending, newest first");
    (all, places)
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

/// Reads the filter and asks it for every key of the segment, and for a thousand others.
fn check_filter(
    file: File<'_>,
    footer: &Footer,
    properties: &FilterProperties,
    (places, state): (&Places, &State),
    dump: &mut String,
) {
    if properties.words > 0 {
        assert_eq!(footer.filter_start, footer.data_end.next_multiple_of(4096));
    } else {
        assert_eq!(footer.filter_start, footer.data_end);
    }
    let mut reader = Reader::new(&file.bytes[..footer.range_start], 0);
    reader.quiet(footer.filter_start);
    let mut words = Vec::new();
    while words.len() < properties.words {
        let start = reader.offset();
        let count = PAGE_WORDS.min(properties.words - words.len());
        let body = reader.bytes(count * 8, &format!("filter page: {count} words"));
        words.extend(
            body.as_chunks::<8>()
                .0
                .iter()
                .map(|word| u64::from_le_bytes(*word)),
        );
        assert_eq!(reader.bytes(2, "kind 5, version 1"), [5, 1]);
        reader.zeros(2, "reserved");
        let covered = &file.bytes[start..reader.offset()];
        let sum = checksum(file.identity, start as u64, &[covered]);
        reader.checksum(sum, "checksum");
    }
    assert!(reader.is_at_end());
    reader.title("  filter header");
    dump.push_str(&reader.dump);
    let payload = file.region((footer.filter_header, footer.range_header), 2, dump);
    assert_eq!(payload.sum, footer.sums[0]);
    let mut reader = Reader::new(payload.bytes, payload.start);
    let filter = Filter::decode(&mut reader, properties.kind, words);

    assert!(!properties.equal_hashes);
    let hash = |key: &[u8]| xxh3_64_with_seed(key, state.hash_seed);
    for (key, (block, group)) in places {
        match filter.ask(hash(key)) {
            Answer::No => panic!("{} is hidden", shown(key)),
            Answer::Maybe => assert_eq!(properties.kind, 1),
            Answer::At { blocks, slot } => {
                assert!((blocks.0..=blocks.1).contains(block), "{}", shown(key));
                assert!(slot.is_none_or(|slot| slot == *group), "{}", shown(key));
            }
        }
    }
    let passed = (0..1000)
        .filter(|n| filter.ask(hash(format!("absent {n}").as_bytes())) != Answer::No)
        .count();
    reader.title(&format!(
        "    finds {} keys; {passed} of 1000 others pass",
        places.len()
    ));
    dump.push_str(&reader.dump);
}
