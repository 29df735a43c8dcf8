//! Every decoder, fed with any bytes: the checks that the fuzz targets and the kept corpus share.
//!
//! Decoders are private, so each input becomes a file of a store in memory which is then opened
//! and read in every way. Checksums are made right first, or they would keep the input from what
//! lies behind them. Nothing may panic, hang or take memory that the input does not justify; and
//! where `Db::verify` finds nothing wrong, all ways to read must agree.

mod bytes;
mod exercise;
mod frame;
mod keyspaces;
mod operand;
mod range;
mod repair;

use bytes::{Input, prefixed, varint};
use exercise::{exercise, golden};
use frame::Parts;
use operand::operand;

/// A way to feed a decoder.
pub(crate) type Target = fn(&[u8]);

/// All of them, by name: also the names of the fuzz targets and of the corpus folders.
pub(crate) const TARGETS: [(&str, Target); 12] = [
    ("batch", batch),
    ("block", block),
    ("current", current),
    ("filter", filter),
    ("index", index),
    ("journal", journal),
    ("keyspaces", keyspaces::keyspaces),
    ("manifest", manifest),
    ("operand", operand),
    ("range", range::range),
    ("segment", segment),
    ("sidecar", sidecar),
];

/// Segments of the golden store, one for each kind of filter and block.
const SEGMENTS: [u64; 5] = [5, 9, 13, 17, 21];

/// Its number.
const DEFAULT_KEYSPACE: [u8; 4] = [0; 4];

/// Picks one of the golden segments.
fn base(choice: u8) -> (u64, Vec<u8>) {
    let number = SEGMENTS[usize::from(choice) % SEGMENTS.len()];
    (
        number,
        golden("closed")[&format!("{number:06}.seg")].clone(),
    )
}

/// Whether the store is written to as well: slower, so only for one input in eight.
fn is_written(choice: u8) -> bool {
    choice >> 5 == 7
}

/// The input is `CURRENT`.
pub(crate) fn current(input: &[u8]) {
    let mut files = golden("closed");
    let mut bytes = input.to_vec();
    repair::current(&mut bytes);
    files.insert("CURRENT".into(), bytes);
    exercise(files, true);
}

/// The input is the live manifest.
pub(crate) fn manifest(input: &[u8]) {
    let mut files = golden("closed");
    let mut bytes = input.to_vec();
    repair::manifest(&mut bytes, 18);
    files.insert("MANIFEST-000018".into(), bytes);
    exercise(files, true);
}

/// A byte of choices, then the first journal of a store that was killed.
pub(crate) fn journal(input: &[u8]) {
    let mut input = Input(input);
    let choice = input.u8().unwrap_or_default();
    let mut files = golden("killed");
    let mut bytes = input.0.to_vec();
    if choice & 1 == 0 {
        repair::journal(&mut bytes, 3, choice & 2 == 0);
    }
    if choice & 4 == 0 {
        files.remove("000004.journal");
    }
    files.insert("000003.journal".into(), bytes);
    exercise(files, is_written(choice));
}

/// The input is the payload of a journal record, or describes one with long keys. What it means is
/// known if it is well formed.
pub(crate) fn batch(input: &[u8]) {
    match input.split_first() {
        Some((&LONG_KEYS, described)) => record(&long_keys(described)),
        _ => record(input),
    }
}

/// No operation begins with this.
const LONG_KEYS: u8 = 0xff;

/// Operations with long keys that are alike, in far fewer bytes than these take: of each, a byte of
/// its kind (bit 2 for an operand) and whether the length of the prefix is another than before, that length, and two bytes
/// behind the prefix.
fn long_keys(described: &[u8]) -> Vec<u8> {
    let mut input = Input(described);
    let mut payload = Vec::new();
    let mut prefix = 0;
    // Enough to split leaves, and quickly read in every way.
    while payload.len() < 4 << 20
        && let Some(kind) = input.u8()
    {
        if kind & 2 != 0 {
            prefix = usize::from(input.u16().unwrap_or_default());
        }
        let prefix = prefix.min(criba::MAX_KEY_BYTES - 2);
        let key = [&vec![b'k'; prefix][..], input.at_most(2)].concat();
        let code = if kind & 4 != 0 { 2 } else { kind & 1 };
        payload.push(code);
        prefixed(&key, &mut payload);
        if code > 0 {
            prefixed(&[kind], &mut payload);
        }
    }
    payload
}

fn record(input: &[u8]) {
    let mut expected = exercise::Content::new();
    let mut rest = Input(input);
    let mut count = 0_u32;
    let mut is_sound = true;
    while is_sound && !rest.0.is_empty() {
        is_sound = operation(&mut rest, &mut expected).is_some();
        count += 1;
    }
    let mut journal = golden("killed")["000003.journal"][..80].to_vec();
    journal.extend_from_slice(&[0; 8]);
    journal.extend_from_slice(&(input.len() as u32).to_le_bytes());
    journal.extend_from_slice(&count.to_le_bytes());
    journal.extend_from_slice(&[0; 16]);
    journal.extend_from_slice(input);
    repair::journal(&mut journal, 3, true);
    let mut files = golden("killed");
    files.remove("000004.journal");
    files.insert("000003.journal".into(), journal);
    let found = exercise(files, input.len().is_multiple_of(8));
    if is_sound {
        assert_eq!(found, Some(expected));
    }
}

fn operation(rest: &mut Input<'_>, content: &mut exercise::Content) -> Option<()> {
    let kind = rest.u8()?;
    let mut shortest = || {
        let before = rest.0.len();
        let part = rest.prefixed()?.to_vec();
        let mut again = Vec::new();
        prefixed(&part, &mut again);
        (before - rest.0.len() == again.len()).then_some(part)
    };
    let key = shortest().filter(|key| key.len() <= criba::MAX_KEY_BYTES)?;
    match kind {
        0 => content.remove(&key),
        1 => content.insert(key, shortest()?),
        2 => {
            let operand = shortest()?;
            let base = content.get(&key).map_or(&[][..], |base| base);
            let merged = [base, &operand].concat();
            content.insert(key, merged)
        }
        _ => return None,
    };
    Some(())
}

/// A byte of choices, then a whole segment.
pub(crate) fn segment(input: &[u8]) {
    let mut input = Input(input);
    let choice = input.u8().unwrap_or_default();
    let (number, _) = base(choice);
    let mut bytes = input.0.to_vec();
    repair::segment(&mut bytes, number);
    exercise(frame::store(number, bytes, None), is_written(choice));
}

/// A byte of choices, lengths of the parts, then the payloads of index and properties of a
/// segment whose blocks and filter are sound.
pub(crate) fn index(input: &[u8]) {
    let mut input = Input(input);
    let choice = input.u8().unwrap_or_default();
    let (number, bytes) = base(choice);
    let index_len = input.u16().unwrap_or_default();
    let parts = Parts {
        index: input.at_most(index_len.into()).to_vec(),
        properties: input.0.to_vec(),
        ..Parts::of(&bytes)
    };
    build(number, &parts, is_written(choice));
}

fn build(number: u64, parts: &Parts, is_written: bool) {
    exercise(frame::store(number, parts.build(number), None), is_written);
}

/// A filter: a byte of choices, its kind, whether there are equal hashes, the length of its
/// header, the header, and its words.
struct FilterInput {
    choice: u8,
    kind: u8,
    equal_hashes: u8,
    header: Vec<u8>,
    words: Vec<u8>,
}

impl FilterInput {
    fn new(input: &[u8]) -> FilterInput {
        let mut input = Input(input);
        let mut byte = || input.u8().unwrap_or_default();
        let (choice, kind, equal_hashes) = (byte(), byte(), byte());
        let header_len = input.u16().unwrap_or_default();
        let header = input.at_most(header_len.into()).to_vec();
        let words = input.0[..input.0.len() & !7].to_vec();
        FilterInput {
            choice,
            kind,
            equal_hashes: equal_hashes & 1,
            header,
            words,
        }
    }

    fn word_count(&self) -> u64 {
        self.words.len() as u64 / 8
    }
}

/// The filter of a segment whose blocks are sound.
pub(crate) fn filter(input: &[u8]) {
    let filter = FilterInput::new(input);
    let (number, bytes) = base(filter.choice);
    let mut parts = Parts::of(&bytes);
    parts.properties = with_filter(&parts.properties, &filter).unwrap();
    parts.words = filter.words;
    parts.header = Some(filter.header);
    build(number, &parts, is_written(filter.choice));
}

/// Properties that tell of another filter than they did.
fn with_filter(properties: &[u8], filter: &FilterInput) -> Option<Vec<u8>> {
    let mut rest = Input(properties);
    rest.bytes(60)?;
    for _ in 0..4 {
        rest.prefixed()?;
    }
    // Of the range filter.
    rest.bytes(2)?;
    let mut changed = properties[..properties.len() - rest.0.len()].to_vec();
    changed.push(filter.kind);
    if filter.kind != 0 {
        changed.push(filter.equal_hashes);
        changed.extend_from_slice(&filter.word_count().to_le_bytes());
        changed.extend_from_slice(&[0; 8]);
    }
    Some(changed)
}

/// A byte of choices, then a filter file of a sound segment; or, by the choice, a filter as for
/// [`filter`] that is framed as such a file.
pub(crate) fn sidecar(input: &[u8]) {
    let choice = input.first().copied().unwrap_or_default();
    let (number, segment) = base(choice);
    let mut bytes = if choice & 16 == 0 {
        input.get(1..).unwrap_or_default().to_vec()
    } else {
        sidecar_of(&FilterInput::new(input), &range::Framed::default(), number)
    };
    repair::sidecar(&mut bytes, frame::SIDECAR);
    let files = frame::store(number, segment, Some(bytes));
    exercise(files, is_written(choice));
}

/// A filter file of these filters, of which checksums are made right later.
fn sidecar_of(filter: &FilterInput, range: &range::Framed, segment: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::pages(&filter.words, frame::FILTER_PAGE, &mut bytes);
    let range_pages = frame::pages(&range.words, frame::RANGE_PAGE, &mut bytes);
    let has_filter = filter.kind != 0;
    let header = has_filter.then_some(&filter.header[..]);
    let header = frame::optional_region(header, 2, &mut bytes);
    let range_header = frame::optional_region(range.header.as_deref(), 6, &mut bytes);
    bytes.extend_from_slice(b"cribafil\x02\0");
    let is_there = u8::from(range.header.is_some());
    bytes.extend_from_slice(&[filter.kind, filter.equal_hashes, is_there, 0, 0, 0]);
    bytes.extend_from_slice(&frame::SIDECAR.to_le_bytes());
    bytes.extend_from_slice(&segment.to_le_bytes());
    bytes.extend_from_slice(&repair::STORE_ID.to_le_bytes());
    let offsets = [range_pages, header, range_header].map(|offset| offset as u64);
    for field in [&[0][..], &offsets, &[filter.word_count(), 0]].concat() {
        bytes.extend_from_slice(&u64::to_le_bytes(field));
    }
    bytes.extend_from_slice(&[0; 12]);
    bytes
}

/// A byte of choices, the stated length of what is compressed, then the payload of the only data
/// block of a segment.
pub(crate) fn block(input: &[u8]) {
    let mut input = Input(input);
    let choice = input.u8().unwrap_or_default();
    let plain_len = input.u32().unwrap_or_default();
    let (codec, plain_len) = match choice % 3 {
        0 => (0, input.0.len()),
        packed => (packed, plain_len as usize),
    };
    let mut data = Vec::new();
    frame::stored_region((input.0, plain_len, codec), 1, &mut data);
    let mut index = vec![1];
    varint(data.len() as u64, &mut index);
    index.extend_from_slice(&[0, 0]);
    let mut properties = Vec::new();
    let entries = Input(input.0.get(8..).unwrap_or_default()).u32();
    for field in [
        u64::from(entries.unwrap_or(1).max(1)),
        1,
        0,
        0,
        1 << 40,
        0,
        0,
    ] {
        properties.extend_from_slice(&field.to_le_bytes());
    }
    properties.extend_from_slice(&DEFAULT_KEYSPACE);
    prefixed(b"", &mut properties);
    prefixed(&[0xff; 40], &mut properties);
    // Two empty sketches, no range filter, no filter.
    properties.extend_from_slice(&[0; 5]);
    let parts = Parts {
        data,
        index,
        properties,
        ..Parts::default()
    };
    build(5, &parts, is_written(choice));
}

/// Inputs that decoders accept: what a fuzzer starts from.
pub(crate) fn seeds(target: &str) -> Vec<Vec<u8>> {
    let (closed, killed) = (golden("closed"), golden("killed"));
    let with = |choice: usize, rest: &[u8]| [&[choice as u8], rest].concat();
    let segments = || {
        let of = |choice: usize| (choice, base(choice as u8).1);
        let count = SEGMENTS.len();
        // Each to be read only, and once more to be written to: see `is_written`.
        (0..count).chain(225..225 + count).map(of)
    };
    match target {
        "current" => [&closed, &killed]
            .map(|files| files["CURRENT"].clone())
            .into(),
        "manifest" => vec![
            closed["MANIFEST-000018"].clone(),
            closed["MANIFEST-000014"].clone(),
        ],
        "journal" => {
            let sealed = &killed["000003.journal"];
            let batches = &closed["000020.journal"];
            let choices = [
                (0, batches),
                (4, sealed),
                (5, sealed),
                (2, sealed),
                (224, batches),
            ];
            choices.map(|(choice, bytes)| with(choice, bytes)).into()
        }
        "batch" => {
            let journal = &closed["000020.journal"];
            vec![
                journal[155..192].to_vec(),
                vec![0, 1, b'k'],
                Vec::new(),
                long_keys_seed(),
                vec![1, 1, b'k', 1, b'a', 2, 1, b'k', 1, b'b', 2, 1, b'l', 0],
            ]
        }
        "keyspaces" => keyspaces::seeds(),
        "operand" => operand::seeds(),
        "range" => range::seeds(),
        "segment" => segments()
            .map(|(choice, bytes)| with(choice, &bytes))
            .collect(),
        "index" => segments()
            .map(|(choice, bytes)| index_seed(choice, &bytes))
            .collect(),
        "filter" => segments()
            .map(|(choice, bytes)| filter_seed(choice, &bytes))
            .collect(),
        "sidecar" => sidecar_seeds(segments()),
        "block" => segments()
            .map(|(_, bytes)| bytes)
            .chain([golden("packed")["000005.seg"].clone()])
            .chain([golden("operands")["000007.seg"].clone()])
            .flat_map(|bytes| block_seeds(&bytes))
            .collect(),
        _ => Vec::new(),
    }
}

/// Forty keys in no order that share 40,000 bytes, of which some are deleted.
fn long_keys_seed() -> Vec<u8> {
    let [low, high] = 40_000_u16.to_le_bytes();
    let mut seed = vec![LONG_KEYS, 3, low, high, 0, 0];
    for n in 1..40_u8 {
        seed.extend_from_slice(&[u8::from(n % 5 != 0), n.wrapping_mul(27), n]);
    }
    seed
}

fn index_seed(choice: usize, bytes: &[u8]) -> Vec<u8> {
    let parts = Parts::of(bytes);
    let len = (parts.index.len() as u16).to_le_bytes();
    [&[choice as u8], &len[..], &parts.index, &parts.properties].concat()
}

fn filter_seed(choice: usize, bytes: &[u8]) -> Vec<u8> {
    let parts = Parts::of(bytes);
    let header = parts.header.unwrap_or_default();
    // A Bloom filter's header is 24 bytes long, a Bloomier one's is longer.
    let kind = match header.len() {
        0 => 0,
        24 => 1,
        _ => 2,
    };
    let len = (header.len() as u16).to_le_bytes();
    [&[choice as u8, kind, 0], &len[..], &header, &parts.words].concat()
}

fn sidecar_seeds(segments: impl Iterator<Item = (usize, Vec<u8>)>) -> Vec<Vec<u8>> {
    let both = |(choice, bytes): (usize, Vec<u8>)| {
        let framed = filter_seed(choice | 16, &bytes);
        let number = SEGMENTS[(choice) % SEGMENTS.len()];
        let mut whole = sidecar_of(
            &FilterInput::new(&framed),
            &range::Framed::default(),
            number,
        );
        repair::sidecar(&mut whole, frame::SIDECAR);
        [framed, [&[choice as u8], &whole[..]].concat()]
    };
    segments.flat_map(both).collect()
}

/// The first blocks of a segment, by its own trailers.
fn block_seeds(bytes: &[u8]) -> Vec<Vec<u8>> {
    let parts = Parts::of(bytes);
    let mut index = Input(&parts.index);
    let blocks = index.varint().unwrap_or_default();
    let mut rest = Input(&parts.data);
    let mut seeds = Vec::new();
    for _ in 0..blocks.min(4) {
        let len = index.varint().unwrap_or_default() as usize;
        index.varint();
        index.prefixed();
        let region = rest.at_most(len);
        let trailer = &region[len - 16..];
        let payload_len = Input(trailer).u32().unwrap_or_default() as usize;
        let codec = [trailer[9]];
        seeds.push([&codec[..], &trailer[4..8], &region[..payload_len]].concat());
    }
    seeds
}

/// Bug: the frame was not what `docs/format.md` says any more, and no input was read.
#[test]
fn sound_segments_are_read_in_their_frame() {
    for choice in 0..SEGMENTS.len() {
        let (number, bytes) = base(choice as u8);
        let built = Parts::of(&bytes).build(number);
        for segment in [bytes, built] {
            let found = exercise(frame::store(number, segment, None), false);
            let count = found.map_or(0, |content| content.len());
            assert!(count > 0, "segment {number}");
        }
    }
}
