use super::*;
use crate::key::MAX_KEY_BYTES;

type Owned = (Vec<u8>, u64, Kind, Vec<u8>);

fn build(entries: &[Owned], group: u32) -> Vec<u8> {
    let mut builder = Builder::new(Sequence(1), group);
    for (key, sequence, kind, value) in entries {
        let entry = Entry {
            key,
            sequence: Sequence(*sequence),
            kind: *kind,
            value,
        };
        let bound = builder.len_with(&entry);
        builder.add(&entry);
        assert!(builder.payload.len() + 2 * builder.offsets.len() <= bound);
    }
    builder.finish().to_vec()
}

fn sample() -> Vec<Owned> {
    let mut entries = vec![(b"".to_vec(), 3, Kind::Value, b"empty key".to_vec())];
    for number in 0..50_u64 {
        let key = format!("key{:03}", number * 2).into_bytes();
        entries.push((
            key.clone(),
            100 + number,
            Kind::Value,
            vec![number as u8; 7],
        ));
        if number % 5 == 0 {
            entries.push((key.clone(), 50, Kind::Tombstone, Vec::new()));
            entries.push((key, 2, Kind::Value, b"old".to_vec()));
        }
    }
    entries.push((vec![0xff; 300], 9, Kind::Value, vec![1; 1000]));
    entries
}

/// Keys of up to the greatest length that share nearly all of it, each with two versions.
fn long_sample() -> Vec<Owned> {
    let mut entries = vec![(b"a".to_vec(), 3, Kind::Value, Vec::new())];
    for shared in [MAX_KEY_BYTES - 1, 40_000, 32_769, 32_768] {
        for last in 0..20 {
            let key = [&vec![b'k'; shared][..], &[last]].concat();
            entries.push((key.clone(), 100, Kind::Value, vec![last; 5]));
            entries.push((key, 50, Kind::Tombstone, Vec::new()));
        }
    }
    entries.push((b"z".to_vec(), 3, Kind::Value, Vec::new()));
    entries.sort_by(|left, right| left.0.cmp(&right.0).then(right.1.cmp(&left.1)));
    entries
}

#[test]
fn search_agrees_with_a_scan_from_any_start() {
    let keys: Vec<_> = (0..102)
        .map(|n| format!("key{n:03}").into_bytes())
        .collect();
    search_agrees_with_a_scan(&sample(), &keys);
    let entries = long_sample();
    let mut keys: Vec<_> = entries.iter().map(|entry| entry.0.clone()).collect();
    keys.dedup();
    let absent = |len: usize| vec![b'k'; len];
    keys.extend([1, 32_768, 50_000, MAX_KEY_BYTES].map(absent));
    search_agrees_with_a_scan(&entries, &keys);
}

fn search_agrees_with_a_scan(entries: &[Owned], keys: &[Vec<u8>]) {
    for group in [1, 2, 4, 16, 256] {
        let payload = build(entries, group);
        let shape = Shape::parse(&payload).unwrap();
        for (number, key) in keys.iter().enumerate() {
            for sequence in [0, 1, 2, 49, 50, 99, 1000] {
                let expected = entries
                    .iter()
                    .find(|(k, s, ..)| k == key && *s <= sequence)
                    .map(|(_, s, kind, value)| (*s, *kind, value.clone()));
                let found = shape
                    .search(&payload, key, Sequence(sequence), None)
                    .unwrap();
                let found = match found {
                    Found::Entry {
                        kind,
                        sequence,
                        value,
                    } => Some((sequence.0, kind, payload[value.0..value.1].to_vec())),
                    Found::Absent | Found::Beyond => None,
                };
                assert_eq!(found, expected, "{number} at {sequence}, groups of {group}");
                let newest = entries.iter().position(|(k, ..)| k == key);
                let Some(newest) = newest else { continue };
                let slot = newest as u32 / group;
                let by_slot = shape
                    .search(&payload, key, Sequence(sequence), Some(slot))
                    .unwrap();
                assert_eq!(matches!(by_slot, Found::Entry { .. }), expected.is_some());
            }
        }
    }
}

#[test]
fn a_key_that_goes_on_in_the_next_block_is_beyond() {
    let payload = build(
        &[
            (b"a".to_vec(), 9, Kind::Value, Vec::new()),
            (b"b".to_vec(), 9, Kind::Value, Vec::new()),
            (b"b".to_vec(), 8, Kind::Value, Vec::new()),
        ],
        2,
    );
    let shape = Shape::parse(&payload).unwrap();
    assert_eq!(
        shape.search(&payload, b"b", Sequence(7), None).unwrap(),
        Found::Beyond
    );
    assert_eq!(
        shape.search(&payload, b"a", Sequence(7), None).unwrap(),
        Found::Absent
    );
    assert_eq!(
        shape.search(&payload, b"c", Sequence(7), None).unwrap(),
        Found::Absent
    );
}

#[test]
fn groups_decode_to_what_was_added() {
    for entries in [sample(), long_sample()] {
        groups_decode_to(&entries);
    }
}

fn groups_decode_to(entries: &[Owned]) {
    for group in [1, 3, 16] {
        let payload = build(entries, group);
        let shape = Shape::parse(&payload).unwrap();
        let mut decoded: Vec<Owned> = Vec::new();
        for ordinal in 0..shape.group_count() {
            let mut group = Group::default();
            shape.decode_group(&payload, ordinal, &mut group).unwrap();
            decoded.extend(group.entries.iter().map(|entry| {
                let value = payload[entry.value.0..entry.value.1].to_vec();
                let key = group.key(entry).to_vec();
                (key, entry.sequence.0, entry.kind, value)
            }));
        }
        assert_eq!(decoded, entries);
        assert_eq!(shape.entry_count() as usize, entries.len());
    }
}

#[test]
fn a_value_longer_than_two_bytes_can_count() {
    let entries = [
        (b"a".to_vec(), 1, Kind::Value, vec![7; 70_000]),
        (b"b".to_vec(), 2, Kind::Value, b"x".to_vec()),
    ];
    let payload = build(&entries, 1);
    let shape = Shape::parse(&payload).unwrap();
    let found = shape.search(&payload, b"b", Sequence(9), Some(1)).unwrap();
    assert!(matches!(found, Found::Entry { .. }));
}

/// Bug: the age of such an entry was written as 0, and so it got another sequence.
#[test]
#[should_panic(expected = "its least sequence")]
fn an_entry_below_the_base_is_not_encoded() {
    let mut builder = Builder::new(Sequence(5), 4);
    builder.add(&Entry {
        key: b"k",
        sequence: Sequence(4),
        kind: Kind::Value,
        value: b"",
    });
}

/// The checksum stands before all this; still, no bytes whatever may cause a panic.
#[test]
fn damaged_payloads_do_not_panic() {
    let payload = build(&sample(), 4);
    for bit in 0..payload.len() * 8 {
        let mut damaged = payload.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        exercise(&damaged);
    }
    for len in 0..payload.len() {
        exercise(&payload[..len]);
    }
}

fn exercise(payload: &[u8]) {
    let Ok(shape) = Shape::parse(payload) else {
        return;
    };
    for group in 0..shape.group_count().min(40) {
        let mut decoded = Group::default();
        if shape.decode_group(payload, group, &mut decoded).is_err() {
            break;
        }
    }
    for key in [&b""[..], b"key050", b"zzz"] {
        drop(shape.search(payload, key, Sequence(60), None));
    }
}
