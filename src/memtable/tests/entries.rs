//! Entries where they lie, and their names.

use std::sync::Weak;

use super::super::entries::{Adder, CHUNK_BYTES_MAX, CHUNKS_MAX, Content, Entries, EntryRef, UNIT};
use crate::key::{Kind, Sequence};
use crate::slice::Slice;

#[test]
fn a_name_is_of_one_place() {
    let last = CHUNK_BYTES_MAX - UNIT;
    for (chunk, start) in [
        (0, 0),
        (0, last),
        (CHUNKS_MAX - 1, 0),
        (CHUNKS_MAX - 1, last),
    ] {
        let name = EntryRef::new(chunk, start);
        assert_eq!((name.chunk(), name.start()), (chunk, start));
        assert!(name.some().is_some());
    }
}

#[test]
#[should_panic(expected = "far into a chunk")]
fn a_place_beyond_all_names_gets_none() {
    EntryRef::new(0, CHUNK_BYTES_MAX);
}

#[test]
fn entries_come_back_as_they_were_added() {
    let (entries, mut adder) = (Entries::new(Weak::new()), Adder::default());
    let value = |n: u64| vec![n as u8; (n * n * 37 % 5000) as usize];
    let key = |n: u64| format!("{n:0width$}", width = (n % 50) as usize).into_bytes();
    let kind = |n: u64| {
        let kinds = [Kind::Tombstone, Kind::Value, Kind::Operand];
        kinds[(n % 3) as usize]
    };
    // Some operands have a summary.
    let summary = |n: u64| (n % 9 == 2).then(|| format!("summary {n}"));
    let add = |n| {
        let (value, summary) = (value(n), summary(n));
        let content = Content {
            kind: kind(n),
            value: &value,
            summary: summary.as_deref().map(str::as_bytes),
        };
        entries.add(&mut adder, (&key(n), Sequence(n)), content)
    };
    let count = if cfg!(miri) { 50 } else { 500 };
    let mut names: Vec<EntryRef> = (0..count).map(add).collect();
    let long = vec![7; if cfg!(miri) { 1 << 13 } else { 1 << 20 }];
    names.push(entries.add(
        &mut adder,
        (b"", Sequence::MAX),
        Content::of(Kind::Value, &long),
    ));
    // The long one has not cut short the chunk that was being filled.
    assert!(adder.room() > 0);
    for (n, &name) in (0..count).zip(&names) {
        let entry = entries.get(name);
        assert_eq!(
            (entry.key(), entry.key_slice()),
            (&*key(n), Slice::from(key(n)))
        );
        assert_eq!(entry.value_slice(), value(n));
        assert_eq!((entry.sequence, entry.kind()), (Sequence(n), kind(n)));
        assert_eq!(entry.value(), value(n));
        assert_eq!(entry.summary(), summary(n).as_deref().map(Slice::from));
    }
    let last = entries.get(*names.last().unwrap());
    assert_eq!(
        (last.sequence, last.value_slice().len()),
        (Sequence::MAX, long.len())
    );
}
