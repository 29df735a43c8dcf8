//! What holds for every structure of the family: no key denied, the rate that theory tells, bytes
//! that come back and damage that is found. What is special to one is in the files beside.

mod bloom;
mod exact;
mod layered;
mod merge;
mod shapes;
mod tables;

use super::frame::{decode, encode};
use crate::{
    Blocked, Classic, Compressed, Cuckoo, Design, Ensemble, Fuse, Growth, Hashing, Hierarchical,
    Hybrid, Insert, Map, Membership, Partitioned, Peeled, Quotient, Scalable,
};

/// The `i`-th key that is put in.
fn present(i: u64) -> [u8; 8] {
    i.to_le_bytes()
}

/// The `i`-th key that is not.
fn absent(i: u64) -> [u8; 8] {
    (i | 1 << 63).to_le_bytes()
}

fn keys(count: u64) -> Vec<[u8; 8]> {
    (0..count).map(present).collect()
}

fn fill(filter: &mut impl Insert, count: u64) {
    fill_from(filter, 0, count);
}

/// Puts so many keys in from a number on: filters that are to differ get other keys.
fn fill_from(filter: &mut impl Insert, first: u64, count: u64) {
    for i in first..first + count {
        filter.insert(&present(i)).unwrap();
    }
}

fn assert_none_denied(filter: &impl Membership, count: u64) {
    for i in 0..count {
        assert!(filter.may_contain(&present(i)), "key {i} is denied");
    }
}

/// Absent keys of so many that pass.
fn passes(filter: &impl Membership, trials: u64) -> u64 {
    passes_from(filter, 0, trials)
}

/// The same for absent keys from a number on.
fn passes_from(filter: &impl Membership, first: u64, trials: u64) -> u64 {
    (first..first + trials)
        .filter(|i| filter.may_contain(&absent(*i)))
        .count() as u64
}

/// Five standard deviations of the number of passes.
fn five_sigma(rate: f64, trials: u64) -> f64 {
    5.0 * (rate * (1.0 - rate) * trials as f64).sqrt()
}

/// The measured rate is the one told by theory and by the filter's own fill.
fn check_rate(filter: &impl Membership, trials: u64) {
    let hits = passes(filter, trials) as f64;
    for rate in [filter.expected_rate(), filter.current_rate()] {
        let mean = rate * trials as f64;
        assert!(
            (hits - mean).abs() <= five_sigma(rate, trials) + 1.0,
            "{hits} of {trials} pass where {mean:.1} should"
        );
    }
}

/// Its bytes give the same again, and nothing else does.
fn check_bytes<T: Membership>(filter: &T, count: u64) {
    let bytes = filter.to_bytes();
    let again = T::from_bytes(&bytes).unwrap();
    assert_eq!(again.to_bytes(), bytes);
    assert_eq!((again.len(), again.bits()), (filter.len(), filter.bits()));
    assert_none_denied(&again, count);
    for i in 0..1000 {
        let key = absent(i);
        assert_eq!(again.may_contain(&key), filter.may_contain(&key));
    }
}

/// Each damaged byte and each cut is an error; what has a right checksum but other content is an
/// error or some other filter, never a panic.
fn check_damage<T: Membership>(filter: &T) {
    let bytes = filter.to_bytes();
    for at in 0..bytes.len() {
        for change in [1, 0x10, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            assert!(T::from_bytes(&damaged).is_err(), "byte {at}");
        }
        assert!(T::from_bytes(&bytes[..at]).is_err(), "cut at {at}");
    }
    let (header, payload) = bytes.split_at(24);
    let kind = *header[4..].first_chunk::<4>().unwrap();
    for at in 0..payload.len() {
        for change in [1, 0x80, 0xff] {
            let mut forged = payload.to_vec();
            forged[at] ^= change;
            check_forged::<T>(&encode(kind, header[8], &forged));
        }
        check_forged::<T>(&encode(kind, header[8], &payload[..at]));
    }
    assert!(decode(*b"NONE", 1, &bytes).is_err());
    assert!(T::from_bytes(&encode(*b"NONE", 1, payload)).is_err());
    assert!(T::from_bytes(&encode(kind, header[8] + 1, payload)).is_err());
}

fn check_forged<T: Membership>(bytes: &[u8]) {
    if let Ok(filter) = T::from_bytes(bytes) {
        let hits = passes(&filter, 20) + filter.len().min(1);
        assert!(hits <= 21 && filter.bits() > 0);
        assert!((0.0..=1.0).contains(&filter.expected_rate()));
        assert!((0.0..=1.0).contains(&filter.current_rate()));
    }
}

/// All of the above for a structure that takes keys, made for 1 and for `count` of them.
fn check_growing<T: Insert>(new: impl Fn(u64) -> T, count: u64) {
    let mut empty = new(0);
    assert!(empty.is_empty() && passes(&empty, 1000) == 0);
    assert!(empty.expected_rate() <= 0.0 && empty.current_rate() <= 0.0);
    check_bytes(&empty, 0);
    check_damage(&empty);
    // What was made for no key takes one nevertheless.
    fill(&mut empty, 1);
    check_bytes(&empty, 1);

    let mut small = new(9);
    fill(&mut small, 9);
    check_bytes(&small, 9);
    check_damage(&small);

    let mut large = new(count);
    fill(&mut large, count);
    assert_none_denied(&large, count);
    // Keys that a growing filter answers with yes already are not counted.
    let missed = count - large.len();
    assert!(missed as f64 <= 0.02 * count as f64, "{missed}");
    check_rate(&large, 100_000);
    check_bytes(&large, count);
}

/// The same for one that is built from all keys.
fn check_static<T: Membership>(build: impl Fn(&[[u8; 8]]) -> T, count: u64) {
    for some in [0, 1, 2, 3, 10, 100] {
        let filter = build(&keys(some));
        assert_eq!(filter.len(), some);
        assert_none_denied(&filter, some);
        check_bytes(&filter, some);
    }
    assert_eq!(passes(&build(&[]), 1000), 0);
    check_damage(&build(&keys(9)));
    check_damage(&build(&[]));
    let large = build(&keys(count));
    assert_none_denied(&large, count);
    check_rate(&large, 100_000);
    check_bytes(&large, count);
    let repeated = [keys(100), keys(100)].concat();
    assert_none_denied(&build(&repeated), 100);
}

#[test]
fn classic() {
    let new = |keys| Classic::new(Design::for_rate(keys, 0.01).unwrap()).unwrap();
    check_growing(new, 20_000);
}

#[test]
fn blocked() {
    check_growing(|keys| Blocked::new(keys, 10.5).unwrap(), 20_000);
}

#[test]
fn partitioned() {
    check_growing(|keys| Partitioned::new(keys, 0.01).unwrap(), 20_000);
}

#[test]
fn ensemble() {
    check_growing(|keys| Ensemble::new(keys, 0.1, 0.01).unwrap(), 20_000);
}

#[test]
fn compressed() {
    check_growing(|keys| Compressed::new(keys, 0.01).unwrap(), 20_000);
}

#[test]
fn hybrid() {
    check_growing(|keys| Hybrid::new(keys, 0.1, 0.01).unwrap(), 20_000);
}

#[test]
fn scalable() {
    let new = |keys: u64| {
        let growth = Growth {
            first_keys: (keys / 8).max(2),
            first_rate: 0.01,
            growth: 2.0,
            tightening: 0.5,
        };
        Scalable::new(growth).unwrap()
    };
    check_growing(new, 20_000);
}

#[test]
fn hierarchical() {
    check_growing(|keys| Hierarchical::new(keys, 0.2, 0.01).unwrap(), 20_000);
}

#[test]
fn cuckoo() {
    check_growing(|keys| Cuckoo::new(keys, 0.01).unwrap(), 20_000);
}

#[test]
fn quotient() {
    check_growing(|keys| Quotient::new(keys, 0.01).unwrap(), 20_000);
}

#[test]
fn map() {
    check_static(|keys| Map::set(keys, 6.5).unwrap(), 20_000);
}

#[test]
fn peeled() {
    check_static(|keys| Peeled::set(keys, 7).unwrap(), 20_000);
}

#[test]
fn fuse() {
    check_static(|keys| Fuse::set(keys, 7).unwrap(), 20_000);
}

/// Constants, hashes and fields reach stored bytes: a change is a new version. The numbers are the
/// checksums of the bytes, kind by kind. Another program has made those of `CLAS` (but the third),
/// `PART`, `ENSE`, `HIER`, `CUCK` and `QUOT` too, after the page. Not of a ribbon: how much of it
/// each layer takes may change.
#[test]
fn bytes_are_those_of_their_version() {
    fn sum(bytes: &[u8]) -> (String, u32) {
        let kind = String::from_utf8(bytes[4..8].to_vec()).unwrap();
        (
            kind,
            u32::from_le_bytes(*bytes[12..].first_chunk().unwrap()),
        )
    }
    fn filled(mut filter: impl Insert) -> (String, u32) {
        fill(&mut filter, 100);
        sum(&filter.to_bytes())
    }
    let growth = Growth {
        first_keys: 20,
        first_rate: 0.01,
        growth: 2.0,
        tightening: 0.5,
    };
    let design = Design::for_rate(100, 0.01).unwrap();
    let all = keys(100);
    let found = [
        filled(Classic::new(design).unwrap()),
        filled(Classic::new(design.hashed(Hashing::Double)).unwrap()),
        filled(Classic::new(design.hashed(Hashing::Enhanced)).unwrap()),
        filled(Blocked::new(100, 10.0).unwrap()),
        filled(Partitioned::new(100, 0.01).unwrap()),
        filled(Ensemble::new(100, 0.1, 0.01).unwrap()),
        filled(Scalable::new(growth).unwrap()),
        filled(Hierarchical::new(100, 0.1, 0.01).unwrap()),
        filled(Cuckoo::new(100, 0.01).unwrap()),
        filled(Quotient::new(100, 0.01).unwrap()),
        sum(&Peeled::set(&all, 7).unwrap().to_bytes()),
        sum(&Fuse::set(&all, 7).unwrap().to_bytes()),
    ];
    let found: Vec<(&str, u32)> = found
        .iter()
        .map(|(kind, sum)| (kind.as_str(), *sum))
        .collect();
    assert_eq!(found, SUMS);
}
const SUMS: [(&str, u32); 12] = [
    ("CLAS", 1_748_494_042),
    ("CLAS", 4_106_987_397),
    ("CLAS", 3_532_943_859),
    ("BLOC", 2_889_732_998),
    ("PART", 3_342_821_955),
    ("ENSE", 246_243_891),
    ("SCAL", 2_921_804_632),
    ("HIER", 1_060_892_649),
    ("CUCK", 3_080_903_286),
    ("QUOT", 75_618_140),
    ("PEEL", 2_761_416_939),
    ("FUSE", 1_959_239_186),
];
