//! No false negative, whatever the filter: segments written and read through this module, with
//! hashes as bad as can be.

mod readahead;

use std::ops::Bound;
use std::sync::Arc;

use proptest::prelude::*;

use crate::cursor::{Cursor as _, Direction};
use crate::format::block::Entry;
use crate::key::{KeyspaceId, Kind, MAX_KEY_BYTES, Sequence};
use crate::options::{Compression, FilterLoading, FilterResidency};
use crate::sim::Memory;
use crate::slice::Slice;
use crate::storage::Storage;
use criba_filters::Shape as FilterShape;
use criba_filters::segment::{Begun, BloomierBits, CustomFilters, FilterSpec};
use criba_filters::{KeyHash, hash_key};

use super::{
    Caches, Lookup, LookupCost, NewFile, Reading, Segment, SegmentFile, SegmentWalk, Wanted,
    Writer, WriterOptions,
};

type HashKey = fn(u64, &[u8]) -> KeyHash;

const SEED: u64 = 77;

const COMPRESSIONS: [Compression; 3] = [
    Compression::None,
    Compression::Lz4,
    Compression::Zstd { level: 1 },
];

fn six_bits(seed: u64, key: &[u8]) -> KeyHash {
    KeyHash(hash_key(seed, key).0 & 63)
}

fn six_high_bits(seed: u64, key: &[u8]) -> KeyHash {
    KeyHash(hash_key(seed, key).0 & 63 << 58)
}

fn all_equal(_: u64, _: &[u8]) -> KeyHash {
    KeyHash(0xdead_beef)
}

const HASHES: [HashKey; 4] = [hash_key, six_bits, six_high_bits, all_equal];

fn customs() -> CustomFilters {
    let mut customs = CustomFilters::default();
    customs.add(Arc::new(FilterShape::Fuse.filter(9.5)));
    customs
}

fn specs() -> Vec<Option<FilterSpec>> {
    let bloomier = |bits| Some(FilterSpec::Bloomier(BloomierBits::BitsPerKey(bits)));
    vec![
        None,
        Some(FilterSpec::Bloom { bits_per_key: 1.0 }),
        Some(FilterSpec::Bloom { bits_per_key: 10.7 }),
        Some(FilterSpec::Bloomier(BloomierBits::Block)),
        Some(FilterSpec::Bloomier(BloomierBits::Slot)),
        bloomier(1.0),
        bloomier(2.5),
        bloomier(7.9),
        bloomier(13.0),
        bloomier(64.0),
        Some(FilterSpec::Custom),
    ]
}

/// Keys ascending; of each key the sequences of its versions, newest first.
type Content = Vec<(Vec<u8>, Vec<u64>)>;

/// The value of a version, and whether it is a tombstone.
fn version(key: &[u8], sequence: u64, value_bytes: usize) -> (Kind, Vec<u8>) {
    if sequence % 11 == 7 {
        return (Kind::Tombstone, Vec::new());
    }
    let mut value = sequence.to_le_bytes().to_vec();
    value.resize(8 + value_bytes, key.len() as u8);
    (Kind::Value, value)
}

#[derive(Clone, Copy, Debug)]
struct Setup {
    spec: Option<FilterSpec>,
    hash: usize,
    block_bytes: u32,
    entries_per_group: u32,
    compression: Compression,
    value_bytes: usize,
}

impl Setup {
    fn plain(spec: Option<FilterSpec>, hash: usize) -> Setup {
        Setup {
            spec,
            hash,
            block_bytes: 512,
            entries_per_group: 4,
            compression: Compression::None,
            value_bytes: 4,
        }
    }
}

struct World {
    segment: Arc<Segment>,
    caches: Arc<Caches>,
    setup: Setup,
}

fn write(content: &Content, setup: Setup, residency: FilterResidency) -> World {
    let memory = Memory::new();
    memory.create_dir().unwrap();
    write_to(
        &(Arc::new(memory) as Arc<dyn Storage>),
        content,
        setup,
        residency,
    )
}

fn options(setup: Setup) -> WriterOptions {
    WriterOptions {
        store_id: 5,
        keyspace: KeyspaceId::DEFAULT,
        hash_seed: SEED,
        hash_key: HASHES[setup.hash],
        block_bytes: setup.block_bytes,
        entries_per_group: setup.entries_per_group,
        compression: setup.compression,
        customs: customs(),
        range_bits: None,
        filter: setup.spec,
        sequence_base: Sequence(1),
        filter_salt: 99,
    }
}

fn write_to(
    storage: &Arc<dyn Storage>,
    content: &Content,
    setup: Setup,
    residency: FilterResidency,
) -> World {
    let file = NewFile::create(storage, 3).unwrap();
    let mut writer = Writer::create(file, 3, options(setup), Default::default()).unwrap();
    for (key, versions) in content {
        for &sequence in versions {
            let (kind, value) = version(key, sequence, setup.value_bytes);
            let entry = Entry {
                key,
                sequence: Sequence(sequence),
                kind,
                value: &value,
            };
            writer.add(&entry).unwrap();
        }
    }
    let (finished, file, _) = writer.finish(0, 3).unwrap();
    file.sync().unwrap();
    let customs = customs();
    let loading = FilterLoading { residency, customs };
    let file = SegmentFile::open(storage, 3).unwrap();
    let segment = Segment::open(&file, 5, finished.meta, &loading).unwrap();
    assert!(segment.damage().is_none() && segment.filter_damage().is_none());
    let caches = Caches::new(1 << 20, residency);
    World {
        segment: Arc::new(segment),
        caches: Arc::new(caches),
        setup,
    }
}

impl World {
    fn get(&self, key: &[u8], sequence: u64) -> (Option<(Kind, Slice)>, LookupCost) {
        let watched = self.get_by::<true>(key, sequence);
        let (hit, probe) = self.get_by::<false>(key, sequence);
        assert_eq!(
            (&hit, probe.data_blocks),
            (&watched.0, watched.1.data_blocks)
        );
        watched
    }

    fn get_by<const WATCHED: bool>(
        &self,
        key: &[u8],
        sequence: u64,
    ) -> (Option<(Kind, Slice)>, LookupCost) {
        let wanted = Wanted {
            hash: HASHES[self.setup.hash](SEED, key),
            key,
            sequence: Sequence(sequence),
            fetched: None,
        };
        let mut lookup = Lookup::new(wanted, &self.caches);
        if !self.segment.covers(key) {
            return (None, lookup.cost);
        }
        let mut begun = Begun::default();
        self.segment.begin(wanted.hash, &mut begun);
        let hit = self.segment.lookup::<WATCHED>(&begun, &mut lookup).unwrap();
        (hit.map(|hit| (hit.kind, hit.value)), lookup.cost)
    }

    /// Every version is found at its own sequence and at the next ones; nothing before the first.
    fn check_key(&self, key: &[u8], versions: &[u64]) {
        let find = |sequence| self.get(key, sequence).0;
        let context = || format!("{:?}: key of {} bytes", self.setup, key.len());
        for &sequence in versions {
            let (kind, value) = version(key, sequence, self.setup.value_bytes);
            for at in [sequence, sequence + 1] {
                if at > sequence && versions.contains(&at) {
                    continue;
                }
                let found = find(at).unwrap_or_else(|| panic!("{} at {at}: lost", context()));
                assert!(
                    found.0 == kind && found.1 == value,
                    "{} at {at}: wrong",
                    context()
                );
            }
        }
        let newest = versions.iter().max().copied().unwrap_or_default();
        let (kind, value) = version(key, newest, self.setup.value_bytes);
        assert!(
            find(u64::MAX >> 8) == Some((kind, Slice::from(value))),
            "{}",
            context()
        );
        let oldest = versions.iter().min().copied().unwrap_or_default();
        assert_eq!(find(oldest - 1), None, "{}: from the future", context());
    }

    fn check_absent(&self, key: &[u8]) {
        assert_eq!(self.get(key, u64::MAX >> 8).0, None, "{:?}", self.setup);
    }

    fn walk(&self, direction: Direction, from: Bound<&[u8]>) -> Vec<(Vec<u8>, u64)> {
        let read = |reading| {
            let (segment, caches) = (Arc::clone(&self.segment), Arc::clone(&self.caches));
            let from = from.map(Slice::from);
            let mut walk = SegmentWalk::new(segment, caches, direction, from, reading);
            std::iter::from_fn(|| walk.next().unwrap())
                .map(|item| (item.key.to_vec(), item.sequence.0))
                .collect::<Vec<_>>()
        };
        let entries = read(Reading::Blocks);
        assert!(entries == read(Reading::Ahead), "{:?}", self.setup);
        entries
    }

    /// Walks from around every key in both directions.
    fn check_walks(&self, content: &Content, step: usize) {
        let all: Vec<(Vec<u8>, u64)> = content
            .iter()
            .flat_map(|(key, versions)| versions.iter().map(|version| (key.clone(), *version)))
            .collect();
        let reversed: Vec<_> = all.iter().rev().cloned().collect();
        assert_eq!(self.walk(Direction::Forward, Bound::Unbounded), all);
        assert_eq!(self.walk(Direction::Backward, Bound::Unbounded), reversed);
        for (key, _) in content.iter().step_by(step) {
            let mut above = key.clone();
            above.push(0);
            for bound in [key, &above] {
                let after: Vec<_> = all.iter().filter(|(k, _)| k >= bound).cloned().collect();
                let behind: Vec<_> = all.iter().filter(|(k, _)| k > bound).cloned().collect();
                let before: Vec<_> = reversed
                    .iter()
                    .filter(|(k, _)| k <= bound)
                    .cloned()
                    .collect();
                let below: Vec<_> = reversed
                    .iter()
                    .filter(|(k, _)| k < bound)
                    .cloned()
                    .collect();
                let walk = |direction, from| self.walk(direction, from);
                assert_eq!(walk(Direction::Forward, Bound::Included(bound)), after);
                assert_eq!(walk(Direction::Forward, Bound::Excluded(bound)), behind);
                assert_eq!(walk(Direction::Backward, Bound::Included(bound)), before);
                assert_eq!(walk(Direction::Backward, Bound::Excluded(bound)), below);
            }
        }
    }
}

const RESIDENCIES: [FilterResidency; 3] = [
    FilterResidency::Pinned,
    FilterResidency::Cached { bytes: 1 << 20 },
    FilterResidency::Cached { bytes: 0 },
];

/// Even numbers are present.
fn numbered(count: u64) -> Content {
    (0..count)
        .map(|n| ((2 * n).swap_bytes().to_le_bytes().to_vec(), vec![n % 5 + 1]))
        .collect()
}

#[test]
fn every_key_is_found_at_every_size() {
    for spec in specs() {
        for (size, step) in [(1, 1), (2, 1), (3, 1), (65, 1), (1000, 1), (20_000, 7)] {
            for residency in RESIDENCIES {
                let world = write(&numbered(size), Setup::plain(spec, 0), residency);
                for n in (0..size).step_by(step) {
                    world.check_key(&(2 * n).swap_bytes().to_le_bytes(), &[n % 5 + 1]);
                    world.check_absent(&(2 * n + 1).swap_bytes().to_le_bytes());
                }
            }
        }
    }
}

#[test]
fn every_key_is_found_among_two_hundred_thousand() {
    for spec in specs() {
        let content = numbered(200_000);
        let setup = Setup {
            block_bytes: 4096,
            ..Setup::plain(spec, 0)
        };
        let world = write(&content, setup, FilterResidency::Pinned);
        for (key, versions) in &content {
            assert!(world.get(key, versions[0]).0.is_some(), "{spec:?}");
        }
    }
}

#[test]
fn equal_hashes_hide_nothing() {
    for spec in specs() {
        for hash in 1..HASHES.len() {
            for (size, step) in [(1, 1), (2, 1), (64, 1), (500, 1), (3000, 13)] {
                for residency in RESIDENCIES {
                    let world = write(&numbered(size), Setup::plain(spec, hash), residency);
                    for n in (0..size).step_by(step) {
                        world.check_key(&(2 * n).swap_bytes().to_le_bytes(), &[n % 5 + 1]);
                        world.check_absent(&(2 * n + 1).swap_bytes().to_le_bytes());
                    }
                }
            }
        }
    }
}

/// Snapshots keep versions until they fill blocks; equal hashes lead to the wrong ones.
#[test]
fn versions_that_fill_blocks_are_all_found() {
    for spec in specs() {
        for hash in 0..HASHES.len() {
            for entries_per_group in [1, 4, 256] {
                let versions = |count: u64| (1..=count).rev().collect::<Vec<u64>>();
                let content: Content = [
                    ("", 40),
                    ("a", 1),
                    ("b", 200),
                    ("b\0", 1),
                    ("ba", 100),
                    ("c", 1),
                    ("d", 90),
                ]
                .map(|(key, count)| (key.as_bytes().to_vec(), versions(count)))
                .to_vec();
                let setup = Setup {
                    entries_per_group,
                    value_bytes: 30,
                    ..Setup::plain(spec, hash)
                };
                for residency in RESIDENCIES {
                    let world = write(&content, setup, residency);
                    for (key, versions) in &content {
                        world.check_key(key, versions);
                    }
                    for absent in ["\0", "aa", "b\0\0", "b\x01", "bb", "cc"] {
                        world.check_absent(absent.as_bytes());
                    }
                    world.check_walks(&content, 1);
                }
            }
        }
    }
}

#[test]
fn the_longest_and_the_shortest_keys() {
    let longest = |byte: u8, last: u8| {
        let mut key = vec![byte; MAX_KEY_BYTES];
        key[MAX_KEY_BYTES - 1] = last;
        key
    };
    let mut content: Content = vec![(Vec::new(), vec![3]), (vec![0], vec![2])];
    for last in [0, 1, 2, 255] {
        content.push((longest(b'x', last), vec![5, 1]));
    }
    content.push((longest(b'y', 0), vec![4]));
    content.sort();
    for spec in specs() {
        for hash in 0..HASHES.len() {
            for compression in COMPRESSIONS {
                let setup = Setup {
                    compression,
                    ..Setup::plain(spec, hash)
                };
                let world = write(&content, setup, FilterResidency::Cached { bytes: 1 << 20 });
                for (key, versions) in &content {
                    world.check_key(key, versions);
                }
                world.check_absent(&longest(b'x', 3));
                world.check_absent(&vec![b'x'; MAX_KEY_BYTES - 1]);
                world.check_walks(&content, 1);
            }
        }
    }
}

/// Bug: a merge of a segment that lies about its least sequence gave entries other sequences.
#[test]
fn what_is_older_than_it_can_be_is_refused() {
    let memory = Memory::new();
    memory.create_dir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(memory);
    let options = WriterOptions {
        sequence_base: Sequence(5),
        ..options(Setup::plain(None, 0))
    };
    let file = NewFile::create(&storage, 3).unwrap();
    let mut writer = Writer::create(file, 3, options, Default::default()).unwrap();
    let mut add = |sequence| {
        writer.add(&Entry {
            key: b"k",
            sequence: Sequence(sequence),
            kind: Kind::Value,
            value: b"",
        })
    };
    assert!(add(5).is_ok());
    assert!(matches!(add(4), Err(crate::Error::Corrupt(_))));
}

/// More groups in one block than a slot can number.
#[test]
fn slots_beyond_their_range_are_searched_for() {
    let content: Content = (0..70_000_u32)
        .map(|n| (n.swap_bytes().to_le_bytes().to_vec(), vec![1]))
        .collect();
    for spec in specs() {
        let setup = Setup {
            block_bytes: 1 << 20,
            entries_per_group: 1,
            value_bytes: 0,
            ..Setup::plain(spec, 0)
        };
        let world = write(&content, setup, FilterResidency::Pinned);
        for (key, _) in content.iter().skip(65_000) {
            assert!(world.get(key, 9).0.is_some(), "{spec:?}");
        }
    }
}

/// A present key costs one block, also where versions fill blocks, as long as hashes differ.
#[test]
fn a_bloomier_filter_leads_to_the_block() {
    let content = numbered(5000);
    for bits in [
        BloomierBits::Block,
        BloomierBits::Slot,
        BloomierBits::BitsPerKey(12.5),
    ] {
        let setup = Setup::plain(Some(FilterSpec::Bloomier(bits)), 0);
        let world = write(&content, setup, FilterResidency::Pinned);
        for (key, versions) in &content {
            assert_eq!(world.get(key, versions[0]).1.data_blocks, 1, "{bits:?}");
        }
    }
}

/// Blocks have pages of their own where that wastes little; else the next one begins in the last
/// page.
#[test]
fn blocks_waste_an_eighth_at_most() {
    let content: Content = numbered(900)
        .into_iter()
        .map(|(key, _)| (key, vec![1]))
        .collect();
    for (value_bytes, has_pages) in [
        (92, true),
        (430, true),
        (1000, false),
        (1016, false),
        (3000, false),
        (5000, false),
    ] {
        let setup = Setup {
            block_bytes: 4096,
            value_bytes,
            ..Setup::plain(None, 0)
        };
        let world = write(&content, setup, FilterResidency::Pinned);
        let fences = &world.segment.body().unwrap().fences;
        let count = fences.block_count();
        let on_pages = (0..count).filter(|block| fences.extent(*block).0.is_multiple_of(4096));
        assert_eq!(
            on_pages.count() == count as usize,
            has_pages,
            "{value_bytes}"
        );
        let (offset, len) = fences.extent(count - 1);
        let entries = content.len() * (value_bytes + 8 + 8);
        let parts = (offset + len) as f64 / entries as f64;
        assert!((1.0..1.16).contains(&parts), "{value_bytes}: {parts}");
        for (key, versions) in &content {
            world.check_key(key, versions);
        }
        world.check_walks(&content, 50);
    }
}

/// More keys that share nearly all of their bytes than a few blocks or fences hold.
#[test]
fn long_keys_that_fill_blocks_and_fences() {
    for (n, spec) in specs().into_iter().enumerate() {
        let shared = [32_769, 40_000, MAX_KEY_BYTES - 1][n % 3];
        let mut content = long_content(shared, 40);
        content.extend([(b"a".to_vec(), vec![2]), (b"z".to_vec(), vec![3, 1])]);
        content.sort();
        for hash in [0, 1] {
            let setup = Setup {
                compression: COMPRESSIONS[n % 3],
                block_bytes: [512, 1 << 20][n % 2],
                entries_per_group: [1, 4, 256][n % 3],
                ..Setup::plain(spec, hash)
            };
            let world = write(&content, setup, RESIDENCIES[n % 3]);
            for (key, versions) in &content {
                world.check_key(key, versions);
                world.check_absent(&[key, &[0][..]].concat());
            }
            world.check_absent(&vec![b'k'; shared]);
            world.check_walks(&content, 14);
        }
    }
}

/// So many keys of a byte behind the same prefix, some of them with more than one version.
fn long_content(shared: usize, count: u8) -> Content {
    let key = |n: u8| [&vec![b'k'; shared][..], &[2 * n]].concat();
    let versions = |n: u8| (1..=u64::from(n % 3 + 1)).rev().collect();
    (0..count).map(|n| (key(n), versions(n))).collect()
}

fn arbitrary_content() -> impl Strategy<Value = Content> {
    let long = (
        prop::sample::select(vec![32_767_usize, 32_768, 40_000, 65_534]),
        1..24_u8,
    )
        .prop_map(|(shared, count)| long_content(shared, count));
    prop_oneof![12 => content_of_short_keys(), 1 => long]
}

fn content_of_short_keys() -> impl Strategy<Value = Content> {
    let key = prop_oneof![
        4 => prop::collection::vec(prop::sample::select(&b"ab\x00\xff"[..]), 0..6),
        2 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (any::<u8>(), 1..2000_usize).prop_map(|(byte, len)| vec![byte; len]),
    ];
    let versions = prop_oneof![
        5 => Just(1_usize),
        2 => 1..8_usize,
        1 => 20..90_usize,
    ];
    prop::collection::btree_map(key, versions, 1..60).prop_map(|map| {
        map.into_iter()
            .map(|(key, count)| {
                (
                    key,
                    (0..count as u64).map(|n| 3 * (count as u64 - n)).collect(),
                )
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn any_segment_finds_what_is_in_it(
        content in arbitrary_content(),
        absent in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5), 20),
        spec in prop::sample::select(specs()),
        hash in 0..HASHES.len(),
        block_bytes in prop::sample::select(vec![512_u32, 1024, 4096]),
        entries_per_group in prop::sample::select(vec![1_u32, 2, 4, 16, 256]),
        compression in prop::sample::select(COMPRESSIONS.to_vec()),
        value_bytes in prop::sample::select(vec![0_usize, 20, 700]),
        residency in prop::sample::select(RESIDENCIES.to_vec()),
    ) {
        let setup = Setup { spec, hash, block_bytes, entries_per_group, compression, value_bytes };
        let world = write(&content, setup, residency);
        for (key, versions) in &content {
            world.check_key(key, versions);
        }
        for key in absent.iter().filter(|key| !content.iter().any(|(k, _)| k == *key)) {
            world.check_absent(key);
        }
        world.check_walks(&content, 5);
    }
}
