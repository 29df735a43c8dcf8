//! One journal: cuts, flips, lost sectors.

use super::*;
use crate::format::journal::HEADER_BYTES;

/// P5: a torn tail is dropped and counted, never an error.
#[test]
fn every_truncation_leaves_a_prefix() {
    let memory = memory();
    let storage = shared(&memory);
    let mut writer = begin(&storage, 1, 0, Point::initial(STORE));
    let mut ends = vec![writer.file_bytes()];
    for _ in 0..4 {
        fill(&mut writer, 1, 0);
        ends.push(writer.file_bytes());
    }
    let bytes = memory.bytes_of(&file_name(1)).unwrap();
    for survivors in [Survivors::Everything, Survivors::Ordered] {
        for len in 0..=bytes.len() {
            let image = memory.crash(survivors);
            image.replace(&file_name(1), &bytes[..len]);
            let (recovered, applied) = replay(&shared(&image), &expect()).unwrap();
            let whole = ends.iter().filter(|&&end| end <= len as u64).count();
            assert_eq!(applied.len(), whole.saturating_sub(1), "cut at {len}");
            let kept = if whole == 0 { 0 } else { ends[whole - 1] };
            let torn: Vec<u64> = recovered
                .torn
                .iter()
                .map(|torn| torn.dropped_bytes)
                .collect();
            let dropped = len as u64 - kept;
            assert_eq!(
                torn,
                if dropped == 0 { vec![] } else { vec![dropped] },
                "cut at {len}"
            );

            // The next journal goes on there, and what was dropped is not dropped again.
            let mut next = go_on(&shared(&image), &recovered);
            fill(&mut next, 2, 0);
            let (again, more) = replay(&shared(&image), &expect()).unwrap();
            assert_eq!(
                (again.point, again.torn.len()),
                (next.point(), 0),
                "cut at {len}"
            );
            assert_eq!(more.len(), applied.len() + 2);
        }
    }
}

/// P6: a hole below the durable watermark is an error, never a loss.
#[test]
fn flips_below_a_watermark_are_found_after_power_loss() {
    let memory = memory();
    let storage = shared(&memory);
    let mut writer = begin(&storage, 1, 0, Point::initial(STORE));
    fill(&mut writer, 5, 0);
    writer
        .append(1, b"unacknowledged", writer.point().last())
        .unwrap();
    writer.write_out().unwrap();
    check_flips(&memory, Survivors::Ordered, writer.point().next.0 - 1);
}

/// A record that only carries its watermark, written when idle, protects the last sync too.
#[test]
fn an_idle_watermark_protects_everything() {
    let memory = memory();
    let storage = shared(&memory);
    let mut writer = begin(&storage, 1, 0, Point::initial(STORE));
    fill(&mut writer, 5, 0);
    writer.append(0, b"", writer.point().last()).unwrap();
    writer.write_out().unwrap();
    check_flips(&memory, Survivors::Ordered, writer.point().next.0);
}

/// After a kill the system still has all that was written: no flip can be a torn tail.
#[test]
fn flips_after_a_kill_are_found_without_a_watermark() {
    let memory = memory();
    let storage = shared(&memory);
    let mut writer = begin(&storage, 1, 0, Point::initial(STORE));
    fill(&mut writer, 6, 0);
    check_flips(&memory, Survivors::Everything, writer.point().next.0);
}

#[test]
fn flips_after_a_clean_close_are_found() {
    let memory = memory();
    let storage = shared(&memory);
    let mut writer = begin(&storage, 1, 0, Point::initial(STORE));
    fill(&mut writer, 6, 0);
    let image = restarted(&memory);
    let clean_at = Some(writer.point().last());
    flip_each(&image, 1, &|storage, at| {
        assert!(
            replay(
                storage,
                &Expect {
                    clean_at,
                    ..expect()
                }
            )
            .is_err(),
            "bit {at}"
        );
    });
    assert!(
        replay(
            &shared(&image),
            &Expect {
                clean_at,
                ..expect()
            }
        )
        .is_ok()
    );
    for wrong in [0, writer.point().last().0 - 1, writer.point().last().0 + 1] {
        let clean_at = Some(Sequence(wrong));
        assert!(
            replay(
                &shared(&image),
                &Expect {
                    clean_at,
                    ..expect()
                }
            )
            .is_err()
        );
    }
}

fn flip_each(image: &Memory, id: u64, check: &dyn Fn(&Arc<dyn Storage>, usize)) {
    let name = file_name(id);
    let bytes = image.bytes_of(&name).unwrap();
    let storage = shared(image);
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        image.replace(&name, changed);
        check(&storage, bit);
    }
    image.replace(&name, bytes);
}

/// With any one bit changed, all operations before `promised` come back unchanged or there is an
/// error.
fn check_flips(memory: &Memory, survivors: Survivors, promised: u64) {
    let image = match survivors {
        Survivors::Everything => memory.crash(survivors),
        _ => restarted(memory),
    };
    let (_, all) = replay(&shared(&image), &expect()).unwrap();
    flip_each(
        &image,
        1,
        &|storage, bit| match replay(storage, &expect()) {
            Ok((recovered, applied)) => {
                assert!(
                    recovered.point.next.0 >= promised,
                    "bit {bit}: {recovered:?}"
                );
                assert!(all.starts_with(&applied), "bit {bit}");
            }
            Err(Error::Corrupt(_)) => {}
            Err(error) => panic!("bit {bit}: {error}"),
        },
    );
}

/// A journal of eight records of 1000 bytes each, and where they start.
fn long_journal(watermark: u64) -> (Memory, Vec<u64>) {
    let memory = memory();
    let mut writer = begin(&shared(&memory), 1, 0, Point::initial(STORE));
    let mut starts = Vec::new();
    for _ in 0..8 {
        starts.push(writer.file_bytes());
        writer
            .append(
                1,
                &[7; 1000],
                Sequence(watermark.min(writer.point().last().0)),
            )
            .unwrap();
    }
    writer.write_out().unwrap();
    (memory, starts)
}

#[test]
fn sectors_lost_out_of_order_are_a_torn_tail_only_if_unsynced() {
    for (watermark, survives) in [(0, true), (2, true), (3, false), (7, false)] {
        let (memory, starts) = long_journal(watermark);
        for run in [memory.crash(Survivors::Everything), restarted(&memory)] {
            // The third record loses a sector; those behind it are intact.
            change(&run, 1, |bytes| bytes[2560..3072].fill(0));
            let result = replay(&shared(&run), &expect());
            if !survives {
                assert_corrupt(result, 1, starts[2]);
                continue;
            }
            let (recovered, applied) = result.unwrap();
            assert_eq!(applied.len(), 2);
            let dropped_bytes = run.bytes_of(&file_name(1)).unwrap().len() as u64 - starts[2];
            let path = run.path_of(&file_name(1));
            assert_eq!(
                recovered.torn,
                [Torn {
                    path,
                    offset: starts[2],
                    dropped_bytes
                }]
            );
        }
    }
}

#[test]
fn damage_that_no_crash_explains_is_found_while_the_system_runs() {
    let (memory, starts) = long_journal(0);
    for at in [
        starts[2],
        starts[2] + 3,
        starts[2] + 500,
        starts[7],
        starts[7] + 1031,
    ] {
        let damage = |bytes: &mut Vec<u8>| bytes[at as usize] ^= 1;
        let kill = memory.crash(Survivors::Everything);
        change(&kill, 1, damage);
        let start = starts.iter().rev().find(|&&start| start <= at).unwrap();
        assert_corrupt(replay(&shared(&kill), &expect()), 1, *start);
        let power = restarted(&memory);
        change(&power, 1, damage);
        assert!(
            replay(&shared(&power), &expect()).is_ok(),
            "the limit that the docs state"
        );
    }
}

#[test]
fn zeros_behind_the_records_are_no_tail() {
    for len in [1, 31, 32, 100, 10_000] {
        let (memory, _) = long_journal(7);
        change(&memory, 1, |bytes| bytes.resize(bytes.len() + len, 0));
        let (recovered, applied) = replay(&shared(&memory), &expect()).unwrap();
        assert_eq!((applied.len(), recovered.torn.len()), (8, 0), "{len}");
    }
}

/// A journal of an append of five records and one of as many more; where each append begins and
/// the second one ends.
fn two_appends() -> (Memory, Writer, [usize; 3]) {
    let memory = memory();
    let mut writer = begin(&shared(&memory), 1, 0, Point::initial(STORE));
    fill(&mut writer, 5, 0);
    let middle = writer.file_bytes() as usize;
    fill(&mut writer, 5, 0);
    let end = writer.file_bytes() as usize;
    (memory, writer, [HEADER_BYTES, middle, end])
}

fn with_reserve(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0; crate::storage::RESERVE_MIN]].concat()
}

/// A process that is killed while it copies an append to a map leaves any part of it without the
/// first byte, maybe with whole records, and the zeros of the reserve behind.
#[test]
fn an_append_that_was_copied_in_part_is_a_torn_tail() {
    let (memory, _writer, [_, start, end]) = two_appends();
    let name = file_name(1);
    let whole = memory.bytes_of(&name).unwrap();
    let mut parts = Vec::new();
    for at in start + 1..=end {
        let mut front = whole.clone();
        front[at..].fill(0);
        let mut back = whole.clone();
        back[start..at].fill(0);
        let mut words = whole.clone();
        for word in words[start..].chunks_mut(8).step_by(1 + at % 5) {
            word.fill(0);
        }
        parts.extend([front, back, words]);
    }
    for mut part in parts {
        part[start] = 0;
        memory.replace(&name, with_reserve(&part));
        let (recovered, applied) = replay(&shared(&memory), &expect()).unwrap();
        assert_eq!(applied.len(), 5);
        assert_eq!(
            recovered.torn.len(),
            usize::from(part[start..] != vec![0; end - start])
        );
    }
}

/// The first byte comes last: where it is there, nothing else can be missing because of a kill.
#[test]
fn damage_of_an_append_that_was_made_is_found_under_a_reserve() {
    let (memory, _writer, [first, start, end]) = two_appends();
    let name = file_name(1);
    let whole = memory.bytes_of(&name).unwrap();
    for at in start + 1..end {
        let mut front = whole.clone();
        front[at..].fill(0);
        memory.replace(&name, with_reserve(&front));
        let result = replay(&shared(&memory), &expect());
        // All up to the end of a record is as if the others had not been made.
        let is_cut_between = result.as_ref().is_ok_and(|(_, applied)| applied.len() > 5);
        assert!(
            is_cut_between || matches!(result, Err(Error::Corrupt(_))),
            "{at}"
        );
    }
    // An append that came before another was finished.
    let mut earlier = whole.clone();
    earlier[first] = 0;
    memory.replace(&name, with_reserve(&earlier));
    assert_corrupt(replay(&shared(&memory), &expect()), 1, first as u64);
}
