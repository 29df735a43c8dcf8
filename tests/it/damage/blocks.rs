//! Whole blocks doubled, swapped, inserted or left out; filter files; what replacements of files
//! left behind.

use super::{
    CACHED, Outcome, PINNED, Store, Tally, all_journals, build, builder, check, files, names,
    ranges, without_a_part, write_run,
};

use std::sync::Arc;

use criba::sim::{Memory, Survivors};
use criba::storage::Storage as _;
use criba::{Builder, Compression, FilterPolicy, RangeFilterPolicy};

use crate::faults::tell;

use super::Model;

/// A file with its blocks of this size in another order, or not as many as there were.
fn rearranged(bytes: &[u8], size: usize) -> Vec<(String, Vec<u8>)> {
    let blocks: Vec<&[u8]> = bytes.chunks(size).collect();
    let count = blocks.len();
    let mut all = Vec::new();
    for one in 0..count {
        for other in 0..count {
            let mut doubled = blocks.clone();
            doubled[other] = blocks[one];
            all.push((format!("{one} also at {other}"), doubled.concat()));
            let mut swapped = blocks.clone();
            swapped.swap(one, other);
            all.push((format!("{one} and {other} swapped"), swapped.concat()));
        }
        let mut inserted = blocks.clone();
        inserted.insert(one, blocks[one]);
        all.push((format!("{one} twice"), inserted.concat()));
        let mut without = blocks.clone();
        without.remove(one);
        all.push((format!("without {one}"), without.concat()));
    }
    all.retain(|(_, damaged)| damaged != bytes);
    all
}

fn rearrange_everywhere(store: &Store) -> Tally {
    let mut tally = Tally::default();
    let journals = all_journals(store);
    for (name, bytes) in files(&store.memory) {
        let (culprits, states) = without_a_part(store, &name, &journals);
        for size in [64, 512, 4096] {
            if size == 64 && name.ends_with(".seg") {
                continue;
            }
            for (how, damaged) in rearranged(&bytes, size) {
                let image = store.memory.crash(Survivors::Everything);
                image.replace(&name, damaged);
                let what = || format!("{name}, blocks of {size}: {how}");
                let residency = if how.len() % 2 == 0 { PINNED } else { CACHED };
                tally.add(check(&image, &states, residency, &culprits, &what));
            }
        }
    }
    tally
}

#[test]
fn rearranged_blocks_are_harmless_or_named() {
    for is_killed in [false, true] {
        let tally = rearrange_everywhere(&build(is_killed));
        tally.print("blocks rearranged");
        assert!(tally.refused > 50 && tally.partial > 50, "{tally:?}");
    }
}

/// A file that was to replace another, and did not come to it, is of no account and goes.
#[test]
fn what_was_to_replace_a_file_goes() {
    for is_killed in [false, true] {
        let store = build(is_killed);
        let states: Vec<&Model> = store.states.iter().collect();
        let current = store.memory.bytes_of("CURRENT").unwrap();
        let journal = names(&store.memory, ".journal").pop().unwrap();
        let content = store.memory.bytes_of(&journal).unwrap();
        let next = [
            ("CURRENT.next".to_owned(), current),
            (format!("{journal}.next"), content),
        ];
        for (name, whole) in next {
            let flipped = whole.iter().map(|byte| byte ^ 0x10).collect();
            let half = whole[..whole.len() / 2].to_vec();
            for content in [Vec::new(), half, flipped, vec![0; 600], whole] {
                let image = store.memory.crash(Survivors::Everything);
                image.replace(&name, content);
                let what = || format!("{name} is left");
                let outcome = check(&image, &states, PINNED, &[], &what);
                assert_eq!(outcome, Outcome::Right, "{name}");
                assert!(image.bytes_of(&name).is_none(), "{name} stays");
            }
        }
    }
}

/// Which filters are in a filter file, and one of how many of its damages is tried.
#[derive(Clone, Copy, Debug)]
struct Filters {
    has_point: bool,
    has_range: bool,
    stride: usize,
}

const POINT: Filters = Filters {
    has_point: true,
    has_range: false,
    stride: 1,
};

const RANGE: Filters = Filters {
    has_point: false,
    has_range: true,
    stride: 3,
};

/// Pages of the range filter begin at 4096, so the file is long. The zeros before them belong to
/// nobody.
const BOTH: Filters = Filters {
    has_range: true,
    stride: 59,
    ..POINT
};

impl Filters {
    fn builder(self, memory: &Memory) -> Builder {
        let point = match self.has_point {
            true => FilterPolicy::default(),
            false => FilterPolicy::None,
        };
        let range = match self.has_range {
            true => ranges::POLICY,
            false => RangeFilterPolicy::None,
        };
        builder(Arc::new(memory.clone()))
            .filter(point)
            .range_filter(range)
    }
}

/// Two segments, one of them compressed, whose filters are in files of their own.
fn build_with_filter_files(filters: Filters) -> Store {
    let memory = Memory::new();
    let mut model = Model::new();
    for (round, compression) in [Compression::Zstd { level: 3 }, Compression::None]
        .into_iter()
        .enumerate()
    {
        let db = builder(Arc::new(memory.clone()))
            .filter(FilterPolicy::None)
            .compression(compression)
            .open()
            .unwrap();
        write_run(&db, round, &mut model);
        db.flush().unwrap();
        db.close().unwrap();
    }
    let db = filters.builder(&memory).open().unwrap();
    assert_eq!(db.rebuild_filters(.., |_, _| {}).unwrap().rebuilt, 2);
    db.close().unwrap();
    Store {
        memory,
        states: vec![model],
        earlier: Vec::new(),
        last_journal: None,
    }
}

/// Every damage that a filter file can have.
fn damaged_filters(store: &Store) -> Vec<(String, String, Option<Vec<u8>>)> {
    let filters = names(&store.memory, ".filter");
    let mut all = Vec::new();
    for name in &filters {
        let bytes = store.memory.bytes_of(name).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            all.push((name.clone(), format!("bit {bit}"), Some(flipped)));
        }
        for len in 0..bytes.len() {
            let cut = bytes[..len].to_vec();
            all.push((name.clone(), format!("cut to {len}"), Some(cut)));
        }
        for (how, damaged) in rearranged(&bytes, 64) {
            all.push((name.clone(), how, Some(damaged)));
        }
        for other in &filters {
            let foreign = store.memory.bytes_of(other).unwrap();
            if other != name {
                all.push((name.clone(), format!("is {other}"), Some(foreign)));
            }
        }
        all.push((name.clone(), "removed".to_owned(), None));
    }
    all
}

#[test]
fn a_damaged_filter_file_never_fails_a_read() {
    for filters in [POINT, RANGE, BOTH] {
        let store = build_with_filter_files(filters);
        let states: Vec<&Model> = store.states.iter().collect();
        let mut tally = Tally::default();
        let damages = damaged_filters(&store).into_iter().enumerate();
        for (nth, (name, how, damaged)) in damages.step_by(filters.stride) {
            let image = store.memory.crash(Survivors::Everything);
            match damaged {
                Some(damaged) => image.replace(&name, damaged),
                None => image.remove(&name).unwrap(),
            }
            let residency = if nth % 2 == 0 { PINNED } else { CACHED };
            let what = || format!("{filters:?}: {name}, {how}");
            let outcome = check(&image, &states, residency, &[], &what);
            assert_eq!(outcome, Outcome::Right, "{}", what());
            tally.add(outcome);
            let has_gap = filters.has_point && filters.has_range;
            if !has_gap && nth % 53 == 0 {
                show_and_mend(&image, filters, &what());
            }
        }
        tally.print(&format!("damaged filter files, {filters:?}"));
        assert!(tally.right > 2000 / filters.stride as u64, "{tally:?}");
    }
}

/// The damage is found by `verify`, and gone once the filter was built anew.
fn show_and_mend(image: &Memory, filters: Filters, what: &str) {
    let db = filters.builder(image).open().unwrap();
    let findings = db.verify(&mut |_, _| {}).unwrap().findings;
    assert_eq!(findings.len(), 1, "{what}: {findings:?}");
    assert!(db.stats().to_string().contains("DAMAGED"), "{what}");
    assert_eq!(db.rebuild_filters(.., |_, _| {}).unwrap().rebuilt, 1);
    let findings = db.verify(&mut |_, _| {}).unwrap().findings;
    assert!(findings.is_empty(), "{what}: {findings:?}");
}

impl Tally {
    pub(super) fn print(&self, what: &str) {
        let Tally {
            refused,
            partial,
            right,
        } = self;
        let cases = refused + partial + right;
        tell(&format!(
            "damage: {what}: {cases} cases, {refused} refused, {partial} with errors for some keys, \
             {right} right, 0 wrong"
        ));
    }
}
