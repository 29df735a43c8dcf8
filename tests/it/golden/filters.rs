//! The decoder's part for where filters lie: "Filter pages" in a segment, and "Filter file".

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::decode::{Meta, State};
use super::filter::{Answer, Filter};
use super::ranges::{self, Fences, Ranges};
use super::reader::{Reader, checksum, shown};
use super::segment::{File, Places};

const PAGE_WORDS: usize = 511;
const FOOTER: usize = 108;

/// The point filter as the properties have it.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) kind: u8,
    pub(super) equal_hashes: bool,
    pub(super) words: usize,
}

/// Where the filters of a segment lie in it or in a filter file.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) point: Option<Point>,
    /// 0 was not asked for, 1 there is one, 2 would not pay.
    pub(super) range: u8,
    /// Where the data blocks end.
    pub(super) start: usize,
    pub(super) filter_pages: usize,
    pub(super) range_pages: usize,
    pub(super) filter_header: usize,
    pub(super) range_header: usize,
    pub(super) headers_end: usize,
    /// Of both headers.
    pub(super) sums: [u32; 2],
}

/// What filters have to know of their segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub(super) places: &'a Places,
    /// The keys whose newest entry stands in each block.
    pub(super) keys: &'a [BTreeSet<Vec<u8>>],
    pub(super) fences: Fences<'a>,
}

/// Reads the filters and asks them for every key of the segment, and for a thousand others.
pub(super) fn check(
    file: File<'_>,
    parts: &Parts,
    (segment, state): (Segment<'_>, &State),
    dump: &mut String,
) -> Option<Ranges> {
    let end = match &parts.point {
        Some(point) => check_point(file, parts, point, (segment.places, state), dump),
        None => {
            assert_eq!(parts.filter_pages, parts.start);
            assert_eq!(parts.filter_header, parts.range_header);
            assert_eq!(parts.sums[0], 0);
            parts.start
        }
    };
    if parts.range != 1 {
        assert!(parts.range == 0 || parts.range == 2);
        assert_eq!(parts.range_pages, end);
        assert_eq!(parts.filter_header, end);
        assert_eq!(parts.range_header, parts.headers_end);
        assert_eq!(parts.sums[1], 0);
        return None;
    }
    dump.push_str("  range filter header\n");
    let payload = file.region((parts.range_header, parts.headers_end), 6, dump);
    assert_eq!(payload.sum, parts.sums[1]);
    let mut reader = Reader::new(payload.bytes, payload.start);
    let header = ranges::Header::decode(&mut reader);
    dump.push_str(&reader.dump);
    let pages = Pages {
        start: parts.range_pages,
        behind: end,
        words: header.words(),
        kind: 7,
    };
    let (words, pages_end) = pages.read(file, dump);
    assert_eq!(pages_end, parts.filter_header);
    let body: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    let mut reader = Reader::new(&body, 0);
    reader.title("  pieces, offsets within the body");
    let ranges = Ranges::decode(header, &mut reader, segment.fences);
    ranges.check(segment.keys);
    let absent = ranges::absent(segment.places.keys());
    let passed = absent.iter().filter(|(a, b)| ranges.may_hold(a, b)).count();
    reader.title(&format!(
        "    {passed} of {} ranges without a key pass",
        absent.len()
    ));
    dump.push_str(&reader.dump);
    Some(ranges)
}

/// Pages of a filter.
#[derive(Clone, Copy, Debug)]
struct Pages {
    start: usize,
    /// Where the part before them ends.
    behind: usize,
    words: usize,
    kind: u8,
}

impl Pages {
    /// Checks the pages and returns their words, and where they end.
    fn read(self, file: File<'_>, dump: &mut String) -> (Vec<u64>, usize) {
        let start = match self.words {
            0 => self.behind,
            _ => self.behind.next_multiple_of(4096),
        };
        assert_eq!(self.start, start);
        let mut reader = Reader::new(&file.bytes[start..], start);
        let mut words = Vec::new();
        while words.len() < self.words {
            let start = reader.offset();
            let count = PAGE_WORDS.min(self.words - words.len());
            let name = if self.kind == 5 { "filter" } else { "range" };
            let body = reader.bytes(count * 8, &format!("{name} page: {count} words"));
            let (body, _) = body.as_chunks();
            words.extend(body.iter().map(|word| u64::from_le_bytes(*word)));
            let kind = format!("kind {}, version 1", self.kind);
            assert_eq!(reader.bytes(2, &kind), [self.kind, 1]);
            reader.zeros(2, "reserved");
            let covered = &file.bytes[start..reader.offset()];
            let sum = checksum(file.identity, start as u64, &[covered]);
            reader.checksum(sum, "checksum");
        }
        dump.push_str(&reader.dump);
        (words, reader.offset())
    }
}

/// Returns where the pages end.
fn check_point(
    file: File<'_>,
    parts: &Parts,
    point: &Point,
    (places, state): (&Places, &State),
    dump: &mut String,
) -> usize {
    let pages = Pages {
        start: parts.filter_pages,
        behind: parts.start,
        words: point.words,
        kind: 5,
    };
    let (words, end) = pages.read(file, dump);
    dump.push_str("  filter header\n");
    let payload = file.region((parts.filter_header, parts.range_header), 2, dump);
    assert_eq!(payload.sum, parts.sums[0]);
    let mut reader = Reader::new(payload.bytes, payload.start);
    let filter = Filter::decode(&mut reader, point.kind, words);

    assert!(!point.equal_hashes);
    let hash = |key: &[u8]| xxh3_64_with_seed(key, state.hash_seed);
    for (key, (block, group)) in places {
        match filter.ask(hash(key)) {
            Answer::No => panic!("{} is hidden", shown(key)),
            Answer::Maybe => assert_eq!(point.kind, 1),
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
    end
}

/// Decodes a filter file and asks its filters.
pub(super) fn decode_file(
    bytes: &[u8],
    meta: &Meta,
    (segment, state): (Segment<'_>, &State),
    dump: &mut String,
) -> Option<Ranges> {
    let file = File::new(bytes, state.store_id, meta.filter_file);
    let start = bytes.len() - FOOTER;
    let mut reader = Reader::new(&bytes[start..], start);
    reader.title(&format!("\n{:06}.filter\n  footer", meta.filter_file));
    assert_eq!(reader.bytes(8, "magic"), b"cribafil");
    assert_eq!(reader.u16("version"), 2);
    let kind = reader.u8("kind");
    let equal_hashes = reader.u8("equal hashes") == 1;
    let range = reader.u8("range filter");
    assert!(reader.u8("refuted gaps") <= 100);
    reader.zeros(2, "reserved");
    assert_eq!(reader.u64("number"), meta.filter_file);
    assert_eq!(reader.u64("segment"), meta.id);
    assert_eq!(reader.u128("store id"), state.store_id);
    assert_eq!(reader.u64("file length"), bytes.len() as u64);
    let offsets = ["range pages", "filter header", "range filter header"];
    let offsets = offsets.map(|name| reader.u64(name) as usize);
    let words = reader.u64("words") as usize;
    reader.rate("designed rate");
    let sums = ["filter header", "range filter header"];
    let sums = sums.map(|name| reader.stored_checksum(&format!("checksum of {name}")));
    let covered = &bytes[start..bytes.len() - 4];
    let sum = checksum(file.identity, start as u64, &[covered]);
    reader.checksum(sum, "checksum");
    assert!(reader.is_at_end());
    dump.push_str(&reader.dump);
    let point = (kind != 0).then_some(Point {
        kind,
        equal_hashes,
        words,
    });
    assert!(point.is_some() || words == 0);
    let parts = Parts {
        point,
        range,
        start: 0,
        filter_pages: 0,
        range_pages: offsets[0],
        filter_header: offsets[1],
        range_header: offsets[2],
        headers_end: start,
        sums,
    };
    check(file, &parts, (segment, state), dump)
}
