//! A decoder of a whole store, written from `docs/format.md` alone: nothing of the crate is used.
//!
//! It reads what a healthy store holds and panics at anything else; that the crate copes with
//! damage is tested elsewhere.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::ranges::Ranges;
use super::reader::{Reader, checksum, shown};
use super::segment::{self, Source};

pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// Keys and their values, by the name of the keyspace.
pub(super) type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// One version of a key; `None` is a tombstone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) keyspace: u32,
    pub(super) key: Vec<u8>,
    pub(super) sequence: u64,
    pub(super) value: Option<Vec<u8>>,
    pub(super) is_operand: bool,
}

/// What the files say.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) dump: String,
    /// Keys and their values, by the name of the keyspace.
    pub(super) contents: Contents,
    pub(super) clean_at: Option<u64>,
    /// Sequence of the last operation.
    pub(super) last: u64,
    /// Range filters by the numbers of their segments.
    pub(super) ranges: BTreeMap<u64, Ranges>,
}

#[derive(Debug)]
struct Current {
    store_id: u128,
    manifest: u64,
    clean_at: Option<u64>,
    journal: u64,
}

/// A segment as the manifest describes it.
#[derive(Debug)]
pub(super) struct Meta {
    pub(super) id: u64,
    pub(super) keyspace: u32,
    pub(super) file: u64,
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) sequence_max: u64,
    /// 0 for none.
    pub(super) filter_file: u64,
    pub(super) footer_sum: u32,
    pub(super) first_key: Vec<u8>,
    pub(super) last_key: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) store_id: u128,
    pub(super) hash_seed: u64,
    segments: BTreeMap<u64, Meta>,
    floor: Option<(u64, Point)>,
    next_file: u64,
    reserved_end: u64,
    next_keyspace: u32,
    keyspaces: BTreeMap<u32, String>,
}

/// Where journals go on: the next sequence and the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Point {
    next: u64,
    chain: u32,
}

/// Decodes every file of a store.
pub(super) fn store(files: &Files) -> Decoded {
    let mut dump = String::new();
    assert!(files["LOCK"].is_empty());
    let current = current(&files["CURRENT"], &mut dump);
    let mut state = State::default();
    for (name, bytes) in files {
        if let Some(id) = name.strip_prefix("MANIFEST-") {
            let id = id.parse().unwrap();
            let decoded = manifest(bytes, id, &current, &mut dump);
            if id == current.manifest {
                state = decoded;
            }
        }
    }
    let mut entries = Vec::new();
    let mut ranges = BTreeMap::new();
    let mut ends = BTreeMap::new();
    for meta in state.segments.values() {
        let name = format!("{:06}.seg", meta.file);
        let section = (meta.start as usize, meta.len as usize);
        let bytes = &files[&name][section.0..section.0 + section.1];
        let filter_file = format!("{:06}.filter", meta.filter_file);
        let source = Source {
            bytes,
            filter_file: (meta.filter_file > 0).then(|| &files[&filter_file][..]),
        };
        let segment = segment::decode(source, meta, &state, &mut dump);
        entries.extend(segment.entries);
        ranges.extend(segment.ranges.map(|filter| (meta.id, filter)));
        // Segments of a file stand one behind another, each from a multiple of 4096 on.
        let end: &mut u64 = ends.entry(name).or_default();
        assert!(meta.start.is_multiple_of(4096) && meta.start >= *end);
        *end = meta.start + meta.len;
    }
    for name in files.keys().filter(|name| name.ends_with(".seg")) {
        // What lies behind, or between, are segments that are not live any more.
        assert!(ends[name] <= files[name].len() as u64, "{name}");
    }
    let last = journals(files, &current, &state, &mut entries, &mut dump);
    entries.sort_by_key(|entry| entry.sequence);
    let names = state.keyspaces.values().cloned();
    let mut contents: Contents = names.map(|name| (name, BTreeMap::new())).collect();
    for entry in entries {
        let Some(name) = state.keyspaces.get(&entry.keyspace) else {
            assert!(entry.keyspace < state.next_keyspace, "it was dropped");
            continue;
        };
        let content = contents.get_mut(name).unwrap();
        match entry.value {
            // The operator of the store that has operands puts a comma between values.
            Some(operand) if entry.is_operand => {
                let base = content.get(&entry.key);
                let merged = base.map_or(operand.clone(), |base: &Vec<u8>| {
                    [base, &b","[..], &operand].concat()
                });
                content.insert(entry.key, merged)
            }
            Some(value) => content.insert(entry.key, value),
            None => content.remove(&entry.key),
        };
    }
    Decoded {
        dump,
        contents,
        clean_at: current.clean_at,
        last,
        ranges,
    }
}

fn current(bytes: &[u8], dump: &mut String) -> Current {
    let mut reader = Reader::new(bytes, 0);
    reader.title("CURRENT");
    assert_eq!(reader.bytes(8, "magic"), b"cribacur");
    assert_eq!(reader.u16("version"), 1);
    let flags = reader.u16("flags");
    assert!(flags <= 1);
    reader.zeros(4, "reserved");
    let store_id = reader.u128("store id");
    let manifest = reader.u64("manifest");
    let sequence = reader.u64("clean sequence");
    let journal = reader.u64("journal");
    reader.zeros(4, "reserved");
    reader.checksum(checksum(0, 0, &[&bytes[..60]]), "checksum");
    assert!(reader.is_at_end());
    dump.push_str(&reader.dump);
    Current {
        store_id,
        manifest,
        clean_at: (flags == 1).then_some(sequence),
        journal,
    }
}

fn manifest(bytes: &[u8], id: u64, current: &Current, dump: &mut String) -> State {
    let mut reader = Reader::new(bytes, 0);
    reader.title(&format!("\nMANIFEST-{id:06}"));
    assert_eq!(reader.bytes(8, "magic"), b"cribaman");
    assert_eq!(reader.u16("version"), 2);
    reader.zeros(6, "reserved");
    assert_eq!(reader.u64("number"), id);
    let mut state = State {
        store_id: reader.u128("store id"),
        hash_seed: reader.u64("hash seed"),
        ..State::default()
    };
    assert_eq!(state.store_id, current.store_id);
    reader.checksum(checksum(id, 0, &[&bytes[..48]]), "checksum");
    let mut ordinal = 0;
    while !reader.is_at_end() {
        let offset = reader.offset();
        reader.title(&format!("  edit {ordinal}"));
        let head: [u8; 8] = reader.rest()[..8].try_into().unwrap();
        let len = u32::from_le_bytes(head[4..].try_into().unwrap()) as usize;
        let covered = &reader.rest()[4..16 + len];
        reader.checksum(checksum(id, offset as u64, &[covered]), "checksum");
        reader.u32("length");
        assert_eq!(reader.u64("ordinal"), ordinal);
        edit(&mut reader, &mut state);
        assert_eq!(reader.offset(), offset + 16 + len);
        ordinal += 1;
    }
    assert!(ordinal > 0 && state.next_file <= state.reserved_end);
    dump.push_str(&reader.dump);
    state
}

fn edit(reader: &mut Reader<'_>, state: &mut State) {
    state.next_file = reader.u64("next file");
    state.reserved_end = reader.u64("reserved end");
    match reader.u8("has floor") {
        0 => {}
        1 => {
            let id = reader.u64("floor");
            let next = reader.u64("floor: first sequence");
            let chain = reader.u32("floor: chain");
            state.floor = Some((id, Point { next, chain }));
        }
        other => panic!("has floor {other}"),
    }
    keyspaces(reader, state);
    for _ in 0..reader.varint("removed") {
        let id = reader.u64("removed segment");
        assert!(state.segments.remove(&id).is_some());
    }
    for _ in 0..reader.varint("added") {
        let id = reader.u64("segment");
        let file = reader.u64("file");
        let start = reader.u64("start");
        reader.u64("run");
        let len = reader.u64("length");
        let sequence_max = reader.u64("last sequence");
        let filter_file = reader.u64("filter file");
        assert!(reader.u64("written") >= super::stores::WRITTEN_MS);
        let keyspace = reader.u32("keyspace");
        assert!(state.keyspaces.contains_key(&keyspace));
        reader.u32("level");
        let footer_sum = u32::from_le_bytes(reader.bytes(4, "footer checksum").try_into().unwrap());
        let meta = Meta {
            id,
            keyspace,
            file,
            start,
            len,
            sequence_max,
            filter_file,
            footer_sum,
            first_key: reader.prefixed("first key"),
            last_key: reader.prefixed("last key"),
        };
        assert!(meta.first_key <= meta.last_key);
        assert!(state.segments.insert(id, meta).is_none());
    }
    for _ in 0..reader.varint("counted") {
        let id = reader.u64("lookups in segment");
        assert!(state.segments.contains_key(&id));
        let probes = reader.varint("probes");
        let outcomes = ["negatives", "true positives", "false positives"];
        let outcomes = outcomes.map(|name| reader.varint(name));
        assert_eq!(outcomes.iter().sum::<u64>(), probes);
        let blocks = ["block reads", "block bytes"].map(|name| reader.varint(name));
        assert_eq!(blocks[0] == 0, blocks[1] == 0);
        assert!(reader.varint("lookups") >= probes);
    }
    let work = ["committed bytes", "flushed bytes", "merged bytes"];
    let work = work.map(|name| reader.varint(name));
    assert_eq!(work[2], 0, "nothing was merged");
}

fn keyspaces(reader: &mut Reader<'_>, state: &mut State) {
    state.next_keyspace = reader.u32("next keyspace");
    for _ in 0..reader.varint("dropped") {
        let id = reader.u32("dropped keyspace");
        assert!(id > 0 && state.keyspaces.remove(&id).is_some());
        state.segments.retain(|_, meta| meta.keyspace != id);
    }
    for _ in 0..reader.varint("keyspaces") {
        let id = reader.u32("keyspace");
        assert!(id < state.next_keyspace);
        let name = String::from_utf8(reader.prefixed("name")).unwrap();
        assert!((1..=255).contains(&name.len()));
        assert!(reader.prefixed("operator").len() <= 255);
        assert_eq!(id == 0, name == "default");
        state.keyspaces.insert(id, name);
    }
}

/// Reads the journals from the floor on, adds what they hold and returns the last sequence.
fn journals(
    files: &Files,
    current: &Current,
    state: &State,
    entries: &mut Vec<Entry>,
    dump: &mut String,
) -> u64 {
    let initial = Point {
        next: 1,
        chain: xxh3_64_with_seed(&state.store_id.to_le_bytes(), 0) as u32,
    };
    let (floor, mut point) = state.floor.unwrap_or((0, initial));
    let mut promised = None;
    let mut seen = Vec::new();
    for (name, bytes) in files {
        let Some(id) = name.strip_suffix(".journal") else {
            continue;
        };
        let id: u64 = id.parse().unwrap();
        assert!(id >= floor, "{name} is not needed");
        assert!(promised.is_none_or(|next| next == id));
        let (found, next) = journal((bytes, id), state, &mut point, dump);
        entries.extend(found);
        promised = next;
        seen.push(id);
    }
    assert!(promised.is_none(), "the last journal is not sealed");
    assert!(current.journal < floor || seen.contains(&current.journal));
    let last = point.next - 1;
    assert!(current.clean_at.is_none_or(|clean_at| clean_at == last));
    last
}

/// Returns the entries and the journal that a seal names.
fn journal(
    (bytes, id): (&[u8], u64),
    state: &State,
    point: &mut Point,
    dump: &mut String,
) -> (Vec<Entry>, Option<u64>) {
    let mut entries = Vec::new();
    let mut reader = Reader::new(bytes, 0);
    reader.title(&format!("\n{id:06}.journal"));
    assert_eq!(reader.bytes(8, "magic"), b"cribajnl");
    assert_eq!(reader.u16("version"), 2);
    reader.zeros(2, "reserved");
    let sum = checksum(id, 0, &[&bytes[..12], &bytes[16..80]]);
    reader.checksum(sum, "checksum");
    assert_eq!(reader.u64("number"), id);
    assert!(reader.u64("previous") < id);
    assert_eq!(reader.u64("first sequence"), point.next);
    let chain = u32::from_le_bytes(reader.bytes(4, "chain").try_into().unwrap());
    assert_eq!(chain, point.chain);
    reader.zeros(4, "reserved");
    assert_eq!(reader.u128("store id"), state.store_id);
    reader.u128("boot id");
    let identity = xxh3_64_with_seed(&state.store_id.to_le_bytes(), id);
    let mut next = None;
    while !reader.is_at_end() {
        let zeros = reader.rest().len();
        if reader.rest().iter().all(|byte| *byte == 0) {
            assert!(zeros >= 8 << 10, "a reserve of {zeros} bytes");
            reader.zeros(zeros, "reserve");
            break;
        }
        assert!(next.is_none(), "nothing follows a seal");
        next = record(&mut reader, identity, point, &mut entries);
    }
    dump.push_str(&reader.dump);
    (entries, next)
}

fn record(
    reader: &mut Reader<'_>,
    identity: u64,
    point: &mut Point,
    entries: &mut Vec<Entry>,
) -> Option<u64> {
    const SEAL: u32 = 0x7fff_ffff;
    const MARK: u32 = 0x81;
    let offset = reader.offset() as u64;
    reader.title("  record");
    let (header, behind) = reader.rest().split_at(32);
    let len = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
    let payload = &behind[..len];
    let own = checksum(identity, offset, &[&header[4..]]) | MARK;
    reader.checksum(own, "checksum");
    reader.checksum(checksum(identity, offset, &[payload]), "payload checksum");
    reader.u32("payload length");
    let count = reader.u32("count") & SEAL;
    assert_eq!(reader.u64("first sequence"), point.next);
    assert!(u64::from(reader.u32("lag")) <= point.next);
    let chain = u32::from_le_bytes(reader.bytes(4, "chain").try_into().unwrap());
    assert_eq!(chain, point.chain);
    if count == SEAL {
        assert_eq!(len, 8);
        return Some(reader.u64("next journal"));
    }
    assert_eq!(count == 0, len == 0);
    point.chain = xxh3_64_with_seed(header, u64::from(chain)) as u32;
    let end = reader.offset() + len;
    for _ in 0..count {
        entries.push(operation(reader, point.next));
        point.next += 1;
    }
    assert_eq!(reader.offset(), end);
    None
}

fn operation(reader: &mut Reader<'_>, sequence: u64) -> Entry {
    let start = reader.offset();
    let tag = reader.quiet(1)[0];
    let (kind, is_named) = (tag & 0x7f, tag & 0x80 != 0);
    let keyspace = if is_named { reader.quiet_varint() } else { 0 };
    assert_eq!(is_named, keyspace > 0);
    let keyspace = u32::try_from(keyspace).unwrap();
    let mut part = || {
        let len = reader.quiet_varint() as usize;
        reader.quiet(len).to_vec()
    };
    let key = part();
    let value = match kind {
        0 => None,
        1 | 2 => Some(part()),
        other => panic!("kind {other}"),
    };
    let place = match keyspace {
        0 => String::new(),
        id => format!(" in keyspace {id}"),
    };
    let text = match &value {
        Some(value) => {
            let verb = if kind == 2 { "merge" } else { "put" };
            format!(
                "    {sequence}{place}: {verb} {} {}",
                shown(&key),
                shown(value)
            )
        }
        None => format!("    {sequence}{place}: delete {}", shown(&key)),
    };
    reader.note(reader.offset() - start, &text);
    Entry {
        keyspace,
        key,
        sequence,
        value,
        is_operand: kind == 2,
    }
}
