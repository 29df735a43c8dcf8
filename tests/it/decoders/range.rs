//! Range filters of any bytes: read or refused. And those of any keys: none of these is denied.

use criba_filters::range::{Between, Builder, RangeFilter};

use super::bytes::{Input, u32_at};
use super::exercise::{exercise, golden};
use super::frame::{self, Parts};
use super::{FilterInput, is_written, repair, sidecar_of};

/// Segments of the golden store of range filters, all with one.
const SEGMENTS: [u64; 3] = [11, 15, 23];

/// Blocks that are asked of a filter of any bytes, from both ends.
const BLOCKS_MAX: u32 = 32;

/// Bytes of keys that a filter is built of.
const KEYS_MAX: usize = 1 << 20;

/// A range filter as a file has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Framed {
    pub(super) header: Option<Vec<u8>>,
    pub(super) words: Vec<u8>,
}

/// A byte of choices, then by these
/// 0. fences, bounds, a header and words, which are asked by themselves;
/// 1. keys of which a filter is built;
/// 2. a header and words in a segment whose blocks are sound;
/// 3. the same in a filter file.
pub(super) fn range(input: &[u8]) {
    let mut input = Input(input);
    let choice = input.u8().unwrap_or_default();
    match choice & 3 {
        0 => parsed(input),
        1 => built(input),
        _ => framed(choice, input),
    }
}

fn bytes<'a>(input: &mut Input<'a>) -> &'a [u8] {
    let len = input.u16().unwrap_or_default();
    input.at_most(len.into())
}

fn parsed(mut input: Input<'_>) {
    let [lower, upper, from, to, header] = [(); 5].map(|()| bytes(&mut input));
    let (words, _) = input.0.as_chunks();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let blocks = u32_at(header, 4).unwrap_or_default();
    let Ok(filter) = RangeFilter::parse(header, blocks) else {
        return;
    };
    assert!(filter.words(blocks).is_empty());
    let fences = Between { lower, upper };
    for block in (0..blocks).filter(|n| *n < BLOCKS_MAX || blocks - n <= BLOCKS_MAX) {
        let own = filter.words(block);
        assert!(own.end <= filter.body_words());
        let start = words.len().min(own.start as usize);
        let own = &words[start..words.len().min(own.end as usize)];
        for bounds in [
            (Some(from), Some(to)),
            (Some(to), Some(from)),
            (None, Some(to)),
            (Some(from), None),
            (None, None),
        ] {
            let answer = filter.may_hold((block, own), fences, bounds);
            std::hint::black_box(answer);
        }
    }
}

/// Of each key: bytes that it shares with the one before, and a length; with the highest bit of
/// that, it is the length of a run of one byte instead.
fn keys(mut input: Input<'_>) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let mut key = Vec::new();
    let mut left = KEYS_MAX;
    while let (Some(shared), Some(len)) = (input.u16(), input.u16()) {
        key.truncate(shared.into());
        if len >> 15 == 0 {
            key.extend_from_slice(input.at_most(len.into()));
        } else {
            let byte = input.u8().unwrap_or_default();
            key.resize(key.len() + usize::from(len & 0x7fff), byte);
        }
        key.truncate(criba::MAX_KEY_BYTES);
        keys.push(key.clone());
        match left.checked_sub(key.len() + 1) {
            Some(rest) => left = rest,
            None => break,
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

/// The shortest prefix of `key` that is greater than `before`.
fn separator<'a>(before: &[u8], key: &'a [u8]) -> &'a [u8] {
    let shared = before.iter().zip(key).take_while(|(a, b)| a == b).count();
    &key[..shared + 1]
}

fn built(mut input: Input<'_>) {
    let per_block = usize::from(input.u8().unwrap_or_default()) + 1;
    let bits = 4.0 + f64::from(input.u8().unwrap_or_default() % 61);
    let keys = keys(input);
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
        return;
    };
    let mut fences = vec![&first[..]];
    let mut builder = Builder::default();
    for (number, block) in keys.chunks(per_block).enumerate() {
        if number > 0 {
            fences.push(separator(&keys[number * per_block - 1], &block[0]));
        }
        builder.begin_block(fences[number]);
        block.iter().for_each(|key| builder.add(key));
    }
    let Some(built) = builder.build(last, bits) else {
        return;
    };
    let blocks = fences.len() as u32;
    fences.push(last);
    let filter = RangeFilter::parse(&built.header, blocks).unwrap();
    assert_eq!(filter.keys(), keys.len() as u64);
    assert_eq!(filter.body_words(), built.body.len() as u64);
    for (number, block) in keys.chunks(per_block).enumerate() {
        let words = filter.words(number as u32);
        let words = &built.body[words.start as usize..words.end as usize];
        let fences = Between {
            lower: fences[number],
            upper: fences[number + 1],
        };
        for (at, key) in block.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| &block[before][..]);
            let next = block.get(at + 1).map(|next| &next[..]);
            for bounds in [
                (Some(&key[..]), Some(&key[..])),
                (before, Some(key)),
                (Some(key), next),
                (None, Some(key)),
                (Some(key), None),
                (Some(&key[..key.len() / 2]), Some(key)),
            ] {
                let may_hold = filter.may_hold((number as u32, words), fences, bounds);
                assert!(may_hold, "{bounds:?} is denied");
            }
        }
    }
}

fn base(choice: u8) -> (u64, Vec<u8>) {
    let number = SEGMENTS[usize::from(choice >> 2 & 7) % SEGMENTS.len()];
    let name = format!("{number:06}.seg");
    (number, golden("ranges")[&name].clone())
}

fn framed(choice: u8, mut input: Input<'_>) {
    let (number, segment) = base(choice);
    let header = bytes(&mut input).to_vec();
    let filter = Framed {
        header: Some(header),
        words: input.0[..input.0.len() & !7].to_vec(),
    };
    let is_written = is_written(choice);
    if choice & 1 == 0 {
        let parts = Parts {
            range_words: filter.words,
            range_header: filter.header,
            ..Parts::of(&segment)
        };
        exercise(frame::store(number, parts.build(number), None), is_written);
    } else {
        let mut bytes = sidecar_of(&FilterInput::new(&[]), &filter, number);
        repair::sidecar(&mut bytes, frame::SIDECAR);
        let files = frame::store(number, segment, Some(bytes));
        exercise(files, is_written);
    }
}

fn put(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Filters of the golden store, by themselves, framed, and keys of some shapes.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for at in 0..SEGMENTS.len() as u8 {
        let (_, segment) = base(at << 2);
        let parts = Parts::of(&segment);
        let header = parts.range_header.unwrap();
        let mut alone = vec![0];
        for part in [&b"river/"[..], b"stones", b"river/2", b"river/3", &header] {
            put(part, &mut alone);
        }
        alone.extend_from_slice(&parts.range_words);
        seeds.push(alone);
        // The last ones are written to.
        for choice in [2, 3, 0xe2, 0xe3] {
            let mut framed = vec![choice | at << 2];
            put(&header, &mut framed);
            framed.extend_from_slice(&parts.range_words);
            seeds.push(framed);
        }
    }
    let mut even = vec![1, 31, 6];
    let mut runs = vec![1, 3, 60];
    for n in 0..200_u8 {
        even.extend_from_slice(&[0, 0, 2, 0, n.wrapping_mul(37), n]);
        runs.extend_from_slice(&[n, n / 64, n, 0x80, [0, 1, 0xff, b'a'][usize::from(n % 4)]]);
    }
    seeds.extend([even, runs]);
    seeds
}

/// The frame of this target is one that is read: the filter in it is asked.
#[test]
fn framed_range_filters_are_asked() {
    for at in 0..SEGMENTS.len() as u8 {
        let (number, segment) = base(at << 2);
        let parts = Parts::of(&segment);
        assert_eq!(parts.build(number), segment);
        let framed = Framed {
            header: parts.range_header,
            words: parts.range_words,
        };
        let mut file = sidecar_of(&FilterInput::new(&[]), &framed, number);
        repair::sidecar(&mut file, frame::SIDECAR);
        for sidecar in [None, Some(file)] {
            let files = frame::store(number, segment.clone(), sidecar);
            assert!(exercise(files, false).is_some(), "segment {number}");
        }
    }
}
