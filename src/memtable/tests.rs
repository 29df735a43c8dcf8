//! What the store asks of a memtable, and the tree against sorted lists.

mod entries;
mod model;
mod node;
mod pool;

use super::*;
use crate::cursor::Cursor as _;
use crate::key::MAX_KEY_BYTES;
use criba_filters::hash_key;

/// Keys of a great table, and lookups of one. Miri takes a thousand times as long for each.
const MANY: u64 = if cfg!(miri) { 100 } else { 3000 };
const ASKED: u64 = if cfg!(miri) { 2 } else { 200 };

fn table(entries: &[(&str, u64, &str)]) -> Arc<Memtable> {
    let table = Memtable::new(1 << 16);
    for (key, sequence, value) in entries {
        let hash = hash_key(1, key.as_bytes());
        let value = value.as_bytes();
        table.insert(
            hash,
            (key.as_bytes(), Sequence(*sequence), Kind::Value, value),
        );
    }
    Arc::new(table)
}

fn get(table: &Memtable, key: &str, sequence: u64) -> Option<Slice> {
    let hash = hash_key(1, key.as_bytes());
    table
        .get(hash, key.as_bytes(), Sequence(sequence))
        .map(|(_, value)| value)
}

fn walk(table: &Arc<Memtable>, direction: Direction, from: Bound<&str>) -> Vec<String> {
    let mut walk = table.walk(direction, from.map(Slice::from));
    std::iter::from_fn(|| walk.next().unwrap())
        .map(|item| format!("{}{}", item.key.escape_ascii(), item.sequence))
        .collect()
}

#[test]
fn the_newest_visible_entry_is_found() {
    let table = table(&[
        ("a", 1, "one"),
        ("b", 2, "two"),
        ("a", 5, "five"),
        ("", 6, "empty"),
    ]);
    assert_eq!(get(&table, "a", 4).unwrap(), "one");
    assert_eq!(get(&table, "a", 5).unwrap(), "five");
    assert_eq!(get(&table, "a", 0), None);
    assert_eq!(get(&table, "", 9).unwrap(), "empty");
    assert_eq!(get(&table, "c", 9), None);
    assert!(table.bytes() > 15 + 4 * 10);
}

#[test]
fn keys_are_counted_by_their_newest_entry() {
    let table = Memtable::new(1 << 16);
    let add = |key: &'static str, sequence, kind| {
        let hash = hash_key(1, key.as_bytes());
        table.insert(hash, (key.as_bytes(), Sequence(sequence), kind, b""));
        (table.key_count(), table.value_count())
    };
    assert_eq!(add("b", 1, Kind::Value), (1, 1));
    assert_eq!(add("a", 2, Kind::Tombstone), (2, 1));
    assert_eq!(add("b", 3, Kind::Tombstone), (2, 0));
    assert_eq!(add("b", 4, Kind::Tombstone), (2, 0));
    assert_eq!(add("bb", 5, Kind::Value), (3, 1));
    assert_eq!(add("a", 6, Kind::Value), (3, 2));
    let bound = |key: &'static str| Slice::from(key);
    let counts = |lower, upper| {
        let (keys, values) = table.counts_in(&(lower, upper));
        (keys as u64, values as u64)
    };
    use Bound::{Excluded, Included, Unbounded};
    assert_eq!(counts(Unbounded, Unbounded), (3, 2));
    assert_eq!(counts(Included(bound("b")), Unbounded), (2, 1));
    assert_eq!(counts(Excluded(bound("b")), Unbounded), (1, 1));
    assert_eq!(counts(Unbounded, Included(bound("b"))), (2, 1));
    assert_eq!(counts(Unbounded, Excluded(bound("b"))), (1, 1));
    assert_eq!(counts(Included(bound("c")), Excluded(bound("a"))), (0, 0));
    assert_eq!(table.key_range(), Some((bound("a"), bound("bb"))));
}

/// More than are counted one by one: four deviations, for keys that lie unevenly.
#[test]
#[cfg_attr(miri, ignore = "a sample needs more keys than Miri can insert")]
fn many_keys_of_a_range_are_counted_by_a_sample() {
    let table = Memtable::new(1 << 24);
    let keys = 60_000_u64;
    for n in 0..keys {
        let name = format!("{:010}", n * n);
        let kind = if n % 3 == 0 {
            Kind::Tombstone
        } else {
            Kind::Value
        };
        let hash = hash_key(1, name.as_bytes());
        table.insert(hash, (name.as_bytes(), Sequence(n + 1), kind, b""));
    }
    for (from, to) in [
        (0, 20_000),
        (10_000, 50_000),
        (100, 59_999),
        (59_000, 60_000),
    ] {
        let key = |n: u64| Slice::from(format!("{:010}", n * n).into_bytes());
        let (found, values) =
            table.counts_in(&(Bound::Included(key(from)), Bound::Excluded(key(to))));
        let exact = (to - from) as f64;
        let bound = 4.0 * 8.0 * exact.sqrt();
        let name = format!("{from} to {to}: {found} and {values}");
        assert!((found - exact).abs() < bound, "{name}");
        assert!((values - exact * 2.0 / 3.0).abs() < bound, "{name}");
    }
    let all = (Bound::Unbounded, Bound::Unbounded);
    assert_eq!(table.counts_in(&all), (60_000.0, 40_000.0));
}

#[test]
fn walks_both_ways_from_every_bound() {
    let table = table(&[("a", 1, ""), ("b", 2, ""), ("b", 3, ""), ("c", 4, "")]);
    let forward = |from| walk(&table, Direction::Forward, from);
    let backward = |from| walk(&table, Direction::Backward, from);
    assert_eq!(forward(Bound::Unbounded), ["a1", "b3", "b2", "c4"]);
    assert_eq!(forward(Bound::Included("b")), ["b3", "b2", "c4"]);
    assert_eq!(forward(Bound::Excluded("b")), ["c4"]);
    assert_eq!(backward(Bound::Unbounded), ["c4", "b2", "b3", "a1"]);
    assert_eq!(backward(Bound::Included("b")), ["b2", "b3", "a1"]);
    assert_eq!(backward(Bound::Excluded("b")), ["a1"]);
}

#[test]
fn chunks_join_without_a_seam() {
    let count = if cfg!(miri) { 300 } else { 1000 };
    let names: Vec<String> = (0..count).map(|n| format!("{n:04}")).collect();
    let entries: Vec<_> = names.iter().map(|name| (name.as_str(), 7, "")).collect();
    let table = table(&entries);
    let mut expected: Vec<String> = names.iter().map(|name| format!("{name}7")).collect();
    assert_eq!(walk(&table, Direction::Forward, Bound::Unbounded), expected);
    expected.reverse();
    assert_eq!(
        walk(&table, Direction::Backward, Bound::Unbounded),
        expected
    );
}

/// Numbers in no order.
fn scrambled(n: u64) -> u64 {
    let x = (n ^ (n >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 7
}

/// Keys that share prefixes of many lengths, that end where others go on, and that hold zeros.
fn odd_key(n: u64) -> Vec<u8> {
    let x = scrambled(n);
    match x % 5 {
        0 => vec![0; (x / 5 % 20) as usize],
        1 => format!("user{:012}", x / 5 % 3000).into_bytes(),
        2 => format!("user{:012}", x / 5 % 3000).into_bytes()[..(x / 7 % 16) as usize].to_vec(),
        3 => [vec![b'a'; (x / 5 % 40) as usize], vec![0, (x / 200) as u8]].concat(),
        _ => x.to_le_bytes()[..(x / 5 % 9) as usize].to_vec(),
    }
}

/// The table and the sorted list agree on everything: lookups, walks from everywhere, counts.
fn compare_with_list(keys: impl Iterator<Item = Vec<u8>>) -> Arc<Memtable> {
    compare_where(keys, (0..ASKED).map(|n| odd_key(scrambled(n) % (2 * MANY))))
}

/// The same, with lookups of these keys and walks from there.
fn compare_where(
    keys: impl Iterator<Item = Vec<u8>>,
    asked: impl Iterator<Item = Vec<u8>>,
) -> Arc<Memtable> {
    let table = Arc::new(Memtable::new(1 << 16));
    let mut list: Vec<(Vec<u8>, std::cmp::Reverse<u64>)> = Vec::new();
    for (n, key) in (1_u64..).zip(keys) {
        let kind = if n % 7 == 0 {
            Kind::Tombstone
        } else {
            Kind::Value
        };
        let value = n.to_le_bytes();
        table.insert(hash_key(1, &key), (&key, Sequence(n), kind, &value));
        list.push((key, std::cmp::Reverse(n)));
    }
    list.sort();
    let all = |direction, from: Bound<Slice>| {
        let mut walk = table.walk(direction, from);
        std::iter::from_fn(move || walk.next().unwrap())
            .map(|item| {
                assert_eq!(item.value, item.sequence.0.to_le_bytes());
                (item.key.to_vec(), std::cmp::Reverse(item.sequence.0))
            })
            .collect::<Vec<_>>()
    };
    assert!(all(Direction::Forward, Bound::Unbounded) == list);
    let mut backward = list.clone();
    backward.reverse();
    assert!(all(Direction::Backward, Bound::Unbounded) == backward);
    for (n, key) in (0..).zip(asked) {
        let sequence = scrambled(n) % (list.len() as u64 + 2);
        let found = table.get(hash_key(1, &key), &key, Sequence(sequence));
        let expected = list.iter().find(|(k, s)| *k == key && s.0 <= sequence);
        assert_eq!(
            found.map(|(_, value)| value.to_vec()),
            expected.map(|(_, s)| s.0.to_le_bytes().to_vec())
        );
        let slice = Slice::from(key.as_slice());
        let after = all(Direction::Forward, Bound::Excluded(slice.clone()));
        assert!(after == list[list.partition_point(|(k, _)| *k <= key)..]);
        let mut before = all(Direction::Backward, Bound::Included(slice));
        before.reverse();
        assert!(before == list[..list.partition_point(|(k, _)| *k <= key)]);
    }
    list.dedup_by(|one, other| one.0 == other.0);
    assert_eq!(table.key_count(), list.len() as u64);
    let values = list.iter().filter(|(_, s)| s.0 % 7 != 0).count();
    assert_eq!(table.value_count(), values as u64);
    table
}

#[test]
fn a_tree_is_a_sorted_list() {
    for count in [0, 1, 14, 15, 16, 17, 31, MANY.min(200), MANY] {
        compare_with_list((0..count).map(odd_key));
    }
}

/// Keys of up to the greatest length that share this many bytes: 60 of them, then 20 versions of the
/// last, so that some nodes lie between two separators of the same key.
fn alike(shared: usize) -> Vec<Vec<u8>> {
    let key = |n: u8| {
        let end = vec![n; 1 + usize::from(n) % 5 * 16];
        let mut key = [vec![b'k'; shared], end].concat();
        key.truncate(MAX_KEY_BYTES);
        key
    };
    (0..80).map(|n| key(n.min(60))).collect()
}

/// Bug: a node kept at most 32,767 as the length of its prefix. Heads were made behind the real prefix
/// and looked for behind the shorter one, so most of these keys were not found.
#[test]
#[cfg_attr(miri, ignore = "Miri looks at every byte of a chunk that is touched")]
fn keys_may_share_as_much_as_they_have() {
    for shared in [32_766, 32_767, 32_768, 32_769, 40_000, 65_530, 65_533] {
        let ascending = alike(shared);
        let descending: Vec<_> = ascending.iter().rev().cloned().collect();
        let shuffled = (0..80).map(|n| ascending[n * 37 % 80].clone()).collect();
        for keys in [ascending.clone(), descending, shuffled] {
            // Keys that are there, keys that may be, and keys before and behind all.
            let beside = |key: &[u8]| [key, &key[..key.len() - 1]].map(<[u8]>::to_vec);
            let asked = [0, 30, 60].iter().flat_map(|n| beside(&ascending[*n]));
            let ends = [
                vec![b'k'; shared / 2],
                vec![b'k'; MAX_KEY_BYTES],
                vec![b'l'],
            ];
            compare_where(keys.into_iter(), asked.chain(ends));
        }
    }
}

/// The nodes at the edges are made anew for each of the late ones, at both ends and in turns.
#[test]
fn keys_that_begin_otherwise_may_come_late() {
    let common = b"tenants/0017/users/";
    let like = |n: u64| [&common[..], &scrambled(n).to_le_bytes()].concat();
    let unlike = |n: u64| {
        let shared = &common[..common.len() - 1 - n as usize];
        let end: &[u8] = if n.is_multiple_of(2) { b"\xff" } else { b"" };
        [shared, end].concat()
    };
    for count in [1, 14, 15, MANY] {
        let late = (0..common.len() as u64).flat_map(|n| [unlike(n), like(count + n)]);
        let table = compare_with_list((0..count).map(like).chain(late));
        // Of all leaves only the first and the last are replaced, and these are used again.
        let bytes = lock(&table.inserter).node_bytes();
        let alike = compare_with_list((0..count).map(like));
        let without = lock(&alike.inserter).node_bytes();
        assert!(bytes < without + 4096, "{bytes} and {without} for {count}");
    }
}

#[test]
fn ascending_keys_fill_their_leaves() {
    let key = |n: u64| format!("key{n:08}").into_bytes();
    let count = 2 * MANY;
    let ascending = compare_with_list((0..count).map(key));
    let descending = compare_with_list((0..count).rev().map(key));
    let mixed = compare_with_list((0..count).map(|n| key(n * 3331 % count)));
    let nodes = |table: &Memtable| lock(&table.inserter).node_bytes() / count;
    // A slot takes 9 bytes in a full leaf. In other orders leaves are not full. Of a few keys, as under
    // Miri, the last leaf weighs too much.
    let all = [nodes(&ascending), nodes(&descending), nodes(&mixed)];
    assert!(cfg!(miri) || all == [10, 20, 15], "{all:?}");
}

/// What `docs/notes/performance-2026-11.md` says of the memory of an entry beside its key and value.
#[test]
#[cfg_attr(miri, ignore = "a mean needs more entries than Miri can insert")]
fn entries_in_random_order_cost_little_more_than_themselves() {
    let table = Memtable::new(32 << 20);
    for n in 0..150_000 {
        let key = scrambled(n).to_le_bytes();
        let value = &[0; 22][..];
        let entry = (&key[..], Sequence(n + 1), Kind::Value, value);
        table.insert(KeyHash(scrambled(n)), entry);
    }
    let overhead = table.bytes() as f64 / 150_000.0 - 30.0;
    assert!((24.0..29.0).contains(&overhead), "{overhead}");
}

#[test]
fn readers_beside_the_writer_miss_nothing() {
    let table = Arc::new(Memtable::new(1 << 20));
    let count = if cfg!(miri) { 300 } else { 60_000_u64 };
    let visible = AtomicU64::new(0);
    // The later a key comes, the less does it have in common with those before.
    let common = "tenants/7/";
    let key = |n: u64| {
        let shared = &common[..(common.len() as u64 * (count - n) / count) as usize];
        format!("{shared}{:05}", scrambled(n) % 20_000).into_bytes()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..=count {
                let (key, value) = (key(n), n.to_le_bytes());
                let entry = (&key[..], Sequence(n), Kind::Value, &value[..]);
                table.insert(hash_key(1, &key), entry);
                visible.store(n, Memory::Release);
            }
        });
        scope.spawn(|| {
            let mut round = 0;
            while visible.load(Memory::Acquire) < count {
                round += 1;
                let seen = visible.load(Memory::Acquire);
                for n in seen.saturating_sub(30).max(1)..=seen {
                    let key = key(n);
                    let (_, value) = table.get(hash_key(1, &key), &key, Sequence(seen)).unwrap();
                    let newest = u64::from_le_bytes(value[..].try_into().unwrap());
                    assert!((n..=seen).contains(&newest), "{n} of {seen}: {newest}");
                }
                if round % 64 == 0 {
                    for direction in [Direction::Forward, Direction::Backward] {
                        all_are_seen(&table, direction, seen);
                    }
                }
            }
        });
    });
}

/// A walk that began when `seen` was visible meets all of these, in order.
/// Nodes at the end give way to others while readers look for what lies behind all entries.
#[test]
fn nothing_is_found_behind_what_comes_in_order() {
    let table = Arc::new(Memtable::new(1 << 20));
    let count = if cfg!(miri) { 200 } else { 40_000_u64 };
    let key = |n: u64| format!("user{n:08}").into_bytes();
    let visible = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..=count {
                let key = key(n);
                table.insert(hash_key(1, &key), (&key, Sequence(n), Kind::Value, b"v"));
                visible.store(n, Memory::Release);
            }
        });
        scope.spawn(|| {
            while visible.load(Memory::Acquire) < count {
                for behind in ["v", "user5", "user00050"] {
                    let from = Bound::Included(Slice::from(behind));
                    let mut walk = table.walk(Direction::Forward, from);
                    assert!(!walk.advance().unwrap(), "{:?} from {behind}", walk.key());
                }
                let seen = visible.load(Memory::Acquire).max(1);
                let from = Bound::Included(Slice::from(key(seen)));
                let mut walk = table.walk(Direction::Forward, from);
                assert!(seen == 1 || walk.advance().unwrap() && walk.key() == key(seen));
            }
        });
    });
    let all = (1..=count).map(|n| String::from_utf8(key(n)).unwrap());
    let walked = walk(&table, Direction::Forward, Bound::Unbounded);
    assert!(walked.len() as u64 == count && walked.iter().zip(all).all(|(a, b)| a.starts_with(&b)));
}

fn all_are_seen(table: &Arc<Memtable>, direction: Direction, seen: u64) {
    let mut walk = table.walk(direction, Bound::Unbounded);
    let (mut met, mut last) = (0, None::<crate::cursor::Item>);
    while let Some(item) = walk.next().unwrap() {
        met += u64::from(item.sequence.0 <= seen);
        if let Some(last) = &last {
            assert!(direction.compare(&last.entry(), &item.entry()).is_lt());
        }
        last = Some(item);
    }
    assert_eq!(met, seen);
}
