//! What recovery makes of journals that a crash, a disk or a person has cut and changed.

mod crashes;
mod damage;
mod files;

use std::io::ErrorKind;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::*;
use crate::sim::{Memory, Survivors};
use crate::storage::{Disk, Io};

const STORE: u128 = 0x00c0_ffee;

/// A record as recovery hands it out: journal, first sequence, count, payload.
type Applied = (u64, u64, u32, Vec<u8>);

fn expect() -> Expect<'static> {
    Expect {
        store_id: STORE,
        floor: None,
        required: &[],
        clean_at: None,
        durable: Sequence(0),
    }
}

fn shared(memory: &Memory) -> Arc<dyn Storage> {
    Arc::new(memory.clone())
}

fn memory() -> Memory {
    let memory = Memory::new();
    memory.create_dir().unwrap();
    memory
}

fn begin(storage: &Arc<dyn Storage>, id: u64, previous: u64, start: Point) -> Writer {
    Writer::create(storage, after(id, previous), start).unwrap()
}

fn after(id: u64, previous: u64) -> NewJournal {
    NewJournal {
        id,
        store_id: STORE,
        previous,
        reserve: true,
    }
}

/// The next journal, made ready before the old one is sealed.
fn rotate(storage: &Arc<dyn Storage>, old: &mut Writer) -> Writer {
    let ready = Ready::create(storage, after(old.id() + 1, old.id())).unwrap();
    let next = ready.begin(old.point());
    old.seal(next.id()).unwrap();
    next
}

fn ids(storage: &Arc<dyn Storage>) -> Vec<u64> {
    let mut ids: Vec<u64> = storage
        .list()
        .unwrap()
        .iter()
        .filter_map(|name| parse_name(name))
        .collect();
    ids.sort_unstable();
    ids
}

fn replay(storage: &Arc<dyn Storage>, expect: &Expect<'_>) -> Result<(Recovered, Vec<Applied>)> {
    let mut applied = Vec::new();
    let recovered = recover(
        storage,
        &ids(storage),
        expect,
        &mut |id, first, count, payload| {
            applied.push((id, first.0, count, payload.to_vec()));
            Ok(())
        },
    )?;
    let mut next = expect.floor.map_or(1, |(_, start)| start.next.0);
    for (_, first, count, _) in &applied {
        assert_eq!(*first, next, "records arrive without gaps");
        next += u64::from(*count);
    }
    assert_eq!(recovered.point.next.0, next.max(expect.durable.0 + 1));
    Ok((recovered, applied))
}

/// Goes on after a recovery as the engine does.
fn go_on(storage: &Arc<dyn Storage>, recovered: &Recovered) -> Writer {
    make_durable(storage, &ids(storage)).unwrap();
    let last = recovered.last.unwrap_or(0);
    begin(storage, last + 1, last, recovered.point)
}

/// Appends `count` records of some bytes each and writes them out.
fn fill(writer: &mut Writer, count: u32, watermark: u64) {
    for n in 0..count {
        let payload = format!("record {n} after {}", writer.point().next);
        writer
            .append(1 + n % 3, payload.as_bytes(), Sequence(watermark))
            .unwrap();
    }
    writer.write_out().unwrap();
}

/// All files survive, but the system does not.
fn restarted(memory: &Memory) -> Memory {
    let image = memory.crash(Survivors::Ordered);
    for name in memory.list().unwrap() {
        image.replace(&name, memory.bytes_of(&name).unwrap());
    }
    image
}

fn change(image: &Memory, id: u64, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = image.bytes_of(&file_name(id)).unwrap();
    change(&mut bytes);
    image.replace(&file_name(id), bytes);
}

#[track_caller]
fn assert_corrupt(result: Result<(Recovered, Vec<Applied>)>, file: u64, offset: u64) {
    match result {
        Err(Error::Corrupt(corruption)) => {
            assert!(corruption.path.ends_with(file_name(file)), "{corruption}");
            assert_eq!(corruption.offset, offset, "{corruption}");
        }
        other => panic!("not corrupt: {other:?}"),
    }
}

#[track_caller]
fn assert_missing(result: Result<(Recovered, Vec<Applied>)>, file: u64) {
    match result {
        Err(Error::Missing { path }) => assert!(path.ends_with(file_name(file)), "{path:?}"),
        other => panic!("not missing: {other:?}"),
    }
}

#[test]
fn names_are_only_those_it_makes() {
    assert_eq!(file_name(7), "000007.journal");
    assert_eq!(parse_name("000007.journal"), Some(7));
    assert_eq!(parse_name(&file_name(u64::MAX)), Some(u64::MAX));
    for name in [
        "7.journal",
        "0000007.journal",
        "+00007.journal",
        "000007.seg",
        ".journal",
        "",
    ] {
        assert_eq!(parse_name(name), None, "{name}");
    }
}

#[test]
fn what_is_appended_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let disk = |io, name| Arc::new(Disk::new(directory.path().join(name), io)) as Arc<dyn Storage>;
    for storage in [
        disk(Io::Pread, "pread"),
        disk(Io::Mmap, "mmap"),
        shared(&memory()),
    ] {
        storage.create_dir().unwrap();
        let mut expected = Vec::new();
        let mut writer = begin(&storage, 3, 0, Point::initial(STORE));
        for (count, len) in [
            (1, 1),
            (7, 64 << 10),
            (2, 200_000),
            (0, 0),
            (3, 30_000),
            (1, 50_000),
        ] {
            let payload: Vec<u8> = (0..len).map(|n: usize| (n % 251) as u8).collect();
            let first = writer.append(count, &payload, Sequence(0)).unwrap();
            if count > 0 {
                expected.push((writer.id(), first.0, count, payload));
            }
            if count == 2 {
                writer = rotate(&storage, &mut writer);
            }
        }
        writer.write_out().unwrap();
        writer.syncer().sync().unwrap();
        let (recovered, applied) = replay(&storage, &expect()).unwrap();
        assert!(applied == expected, "{} records", applied.len());
        assert_eq!(recovered.point, writer.point());
        assert_eq!(
            (recovered.last, recovered.records, recovered.operations),
            (Some(4), 6, 14)
        );
        assert_eq!(recovered.torn, []);
        let bytes = writer.file_bytes();
        assert!(storage.open(&file_name(4)).unwrap().len() >= bytes);
        drop(writer);
        assert_eq!(storage.open(&file_name(4)).unwrap().len(), bytes);
    }
}

#[test]
fn nothing_at_all_is_a_fresh_store() {
    let (recovered, _) = replay(&shared(&memory()), &expect()).unwrap();
    assert_eq!(
        (recovered.point, recovered.last),
        (Point::initial(STORE), None)
    );
    let clean = Expect {
        clean_at: Some(Sequence(4)),
        ..expect()
    };
    assert!(matches!(
        replay(&shared(&memory()), &clean),
        Err(Error::Corrupt(_))
    ));
}

/// P9: after a failed write nothing more is written, also when the disk works again.
#[test]
fn a_failed_write_ends_the_journal() {
    for nth in 1..4 {
        let memory = memory();
        let mut writer = begin(&shared(&memory), 1, 0, Point::initial(STORE));
        fill(&mut writer, 2, 0);
        let before = memory.bytes_of(&file_name(1)).unwrap().len();
        memory.fail_after(nth, ErrorKind::StorageFull);
        let mut failure = None;
        while failure.is_none() {
            failure = writer.append(2, &[9; 100_000], Sequence(0)).err();
        }
        assert!(failure.unwrap().is_disk_full());
        memory.heal();
        let torn = memory.bytes_of(&file_name(1)).unwrap();
        assert!(torn.len() > before);
        assert!(
            writer
                .append(1, b"a", Sequence(0))
                .unwrap_err()
                .is_disk_full()
        );
        assert!(writer.write_out().unwrap_err().is_disk_full());
        assert!(writer.seal(2).unwrap_err().is_disk_full());
        assert_eq!(memory.bytes_of(&file_name(1)).unwrap(), torn);
        let (recovered, applied) = replay(&shared(&memory), &expect()).unwrap();
        assert_eq!((applied.len() as u64, recovered.torn.len()), (1 + nth, 1));
    }
}

#[test]
fn limits_are_errors() {
    let memory = memory();
    let start = Point {
        next: Sequence(Sequence::MAX.0 - 2),
        chain: 0,
    };
    let mut writer = begin(&shared(&memory), 1, 0, start);
    assert!(matches!(
        writer.append(3, b"abc", Sequence(0)),
        Err(Error::Invalid(_))
    ));
    assert!(writer.append(2, b"ab", Sequence(0)).is_ok());
    writer.write_out().unwrap();
    let floor = Some((1, start));
    assert!(replay(&shared(&memory), &Expect { floor, ..expect() }).is_ok());
}
