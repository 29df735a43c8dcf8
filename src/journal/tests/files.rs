//! Several journals: lost ends, missing files, what continues and what does not.

use super::*;

/// Two journals, the first without its last record.
fn lost_tail(watermark: u64, survivors: Survivors) -> (Memory, u64) {
    let memory = memory();
    let storage = shared(&memory);
    let mut first = begin(&storage, 1, 0, Point::initial(STORE));
    fill(&mut first, 3, 0);
    let end = first.file_bytes();
    fill(&mut first, 1, 0);
    let mut second = rotate(&storage, &mut first);
    fill(&mut second, 2, watermark);
    let image = match survivors {
        Survivors::Everything => memory.crash(survivors),
        _ => restarted(&memory),
    };
    change(&image, 1, |bytes| bytes.truncate(end as usize));
    (image, end)
}

/// P3: what follows unsynced writes that were lost is lost too, in the next journal as well.
#[test]
fn a_journal_behind_a_lost_tail_is_dropped() {
    let (image, end) = lost_tail(6, Survivors::Ordered);
    let (recovered, applied) = replay(&shared(&image), &expect()).unwrap();
    assert_eq!((applied.len(), recovered.last), (3, Some(2)));
    assert_eq!(recovered.torn.len(), 1);
    assert_eq!(recovered.torn[0].offset, 80);

    let clean_at = Some(recovered.point.last());
    let clean = Expect {
        clean_at,
        ..expect()
    };
    assert_corrupt(replay(&shared(&image), &clean), 2, 80);

    // The next journal takes its place: nothing is dropped again.
    let storage = shared(&image);
    let mut third = go_on(&storage, &recovered);
    assert_eq!((third.id(), third.point()), (3, recovered.point));
    fill(&mut third, 4, 6);
    let (again, applied) = replay(&storage, &expect()).unwrap();
    assert_eq!(
        (again.point, again.torn.len(), applied.len()),
        (third.point(), 0, 7)
    );

    // A watermark in the dropped journal that knows more is a promise broken.
    let (image, end_of_first) = lost_tail(7, Survivors::Ordered);
    assert_eq!(end, end_of_first);
    assert_corrupt(replay(&shared(&image), &expect()), 1, end);
    // Without a restart the tail cannot have been lost at all.
    let (image, _) = lost_tail(0, Survivors::Everything);
    assert_corrupt(replay(&shared(&image), &expect()), 1, end);
}

#[test]
fn a_sealed_journal_is_followed_by_the_one_it_names() {
    let memory = memory();
    let storage = shared(&memory);
    let mut first = begin(&storage, 1, 0, Point::initial(STORE));
    fill(&mut first, 3, 0);
    let second = rotate(&storage, &mut first);
    assert_eq!(second.point(), first.point());
    assert!(replay(&storage, &expect()).is_ok());
    for len in [0, 10, 79] {
        let image = restarted(&memory);
        change(&image, 2, |bytes| bytes.truncate(len));
        assert_corrupt(replay(&shared(&image), &expect()), 2, 0);
    }
    memory.remove(&file_name(2)).unwrap();
    assert_missing(replay(&storage, &expect()), 2);
}

#[test]
fn a_seal_cannot_name_an_earlier_journal() {
    let memory = memory();
    let storage = shared(&memory);
    let mut first = begin(&storage, 1, 0, Point::initial(STORE));
    let second = rotate(&storage, &mut first);
    change(&memory, 2, |bytes| {
        let seal = Record::seal(second.point(), Sequence(0), false);
        let payload = seal_payload(1);
        let identity = xxh3_64_with_seed(&STORE.to_le_bytes(), 2);
        let (header, _) = seal.encode(identity, 80, &payload).unwrap();
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&payload);
    });
    assert_corrupt(replay(&storage, &expect()), 2, 80);
}

/// P11: a missing file is an error that names it.
#[test]
fn a_missing_journal_is_named() {
    let memory = memory();
    let storage = shared(&memory);
    let mut first = begin(&storage, 1, 0, Point::initial(STORE));
    fill(&mut first, 3, 0);
    let floor = Some((1, Point::initial(STORE)));
    let middle = rotate(&storage, &mut first).point();
    let last = begin(&storage, 3, 2, middle);
    let image = restarted(&memory);
    image.remove(&file_name(1)).unwrap();
    assert_missing(replay(&shared(&image), &expect()), 1);
    assert_missing(replay(&shared(&image), &Expect { floor, ..expect() }), 1);
    let above = Some((2, middle));
    let (recovered, _) = replay(
        &shared(&image),
        &Expect {
            floor: above,
            ..expect()
        },
    )
    .unwrap();
    assert_eq!(recovered.point, last.point());
    image.remove(&file_name(2)).unwrap();
    let above = Some((3, middle));
    assert!(
        replay(
            &shared(&image),
            &Expect {
                floor: above,
                ..expect()
            }
        )
        .is_ok()
    );
    image.remove(&file_name(3)).unwrap();
    let required = &[3];
    assert_missing(
        replay(
            &shared(&image),
            &Expect {
                required,
                ..expect()
            },
        ),
        3,
    );
    image.replace(&file_name(3), vec![0; 80]);
    assert!(
        replay(&shared(&image), &expect()).is_ok(),
        "a crash while it was created"
    );
    assert_corrupt(
        replay(
            &shared(&image),
            &Expect {
                required,
                ..expect()
            },
        ),
        3,
        0,
    );
    image.replace(&file_name(3), vec![0; 81]);
    assert_corrupt(replay(&shared(&image), &expect()), 3, 0);
}

/// The header of a journal was durable before the next one began.
#[test]
fn a_lost_header_between_journals_is_found() {
    let memory = memory();
    let storage = shared(&memory);
    let mut first = begin(&storage, 1, 0, Point::initial(STORE));
    fill(&mut first, 1, 0);
    let mut second = begin(&storage, 2, 1, first.point());
    fill(&mut second, 1, 0);
    let image = restarted(&memory);
    change(&image, 2, |bytes| bytes.truncate(10));
    assert!(
        replay(&shared(&image), &expect()).is_ok(),
        "the limit that the docs state"
    );
    fill(&mut begin(&storage, 3, 2, second.point()), 1, 0);
    let image = restarted(&memory);
    change(&image, 2, |bytes| bytes.truncate(10));
    assert_corrupt(replay(&shared(&image), &expect()), 2, 0);
}

#[test]
fn a_needed_journal_begins_where_it_should() {
    let memory = memory();
    let storage = shared(&memory);
    let mut first = begin(&storage, 1, 0, Point::initial(STORE));
    fill(&mut first, 1, 0);
    let elsewhere = Point {
        chain: 0,
        ..first.point()
    };
    begin(&storage, 2, 1, elsewhere);
    assert!(replay(&shared(&restarted(&memory)), &expect()).is_ok());
    first.seal(2).unwrap();
    assert_corrupt(replay(&shared(&restarted(&memory)), &expect()), 2, 0);
    let floor = Some((2, first.point()));
    memory.remove(&file_name(1)).unwrap();
    assert_corrupt(replay(&storage, &Expect { floor, ..expect() }), 2, 0);
    let floor = Some((2, elsewhere));
    assert!(replay(&storage, &Expect { floor, ..expect() }).is_ok());
}

/// A journal that was made ready before it was known where it starts.
#[test]
fn a_ready_journal_starts_with_its_first_record() {
    let memory = memory();
    let storage = shared(&memory);
    let mut first = begin(&storage, 1, 0, Point::initial(STORE));
    fill(&mut first, 2, 0);
    let ready = Ready::create(&storage, after(2, 1)).unwrap();

    // Not begun, it is passed over, by a clean close and by the next journal as well.
    let clean_at = Some(first.point().last());
    let clean = Expect {
        clean_at,
        ..expect()
    };
    let (recovered, applied) = replay(&storage, &clean).unwrap();
    assert_eq!((applied.len(), recovered.last), (2, Some(2)));
    assert_eq!(recovered.point, first.point());
    let killed = memory.crash(Survivors::Everything);
    let mut third = go_on(&shared(&killed), &recovered);
    fill(&mut third, 3, 0);
    let (recovered, applied) = replay(&shared(&killed), &expect()).unwrap();
    assert_eq!((applied.len(), recovered.point), (5, third.point()));

    // Begun where the records do not end, it does not continue.
    let elsewhere = Point {
        chain: 0,
        ..first.point()
    };
    let mut second = ready.begin(elsewhere);
    first.seal(2).unwrap();
    assert!(replay(&shared(&restarted(&memory)), &expect()).is_ok());
    fill(&mut second, 1, 0);
    assert_corrupt(replay(&shared(&restarted(&memory)), &expect()), 2, 0);
}

/// Without its first record nobody knows where it starts; what is behind still tells what is lost.
#[test]
fn a_ready_journal_without_its_first_record_ends_there() {
    for (watermark, survivors, is_lost) in [
        (0, Survivors::Ordered, true),
        (6, Survivors::Ordered, true),
        (7, Survivors::Ordered, false),
        (0, Survivors::Everything, false),
    ] {
        let memory = memory();
        let mut first = begin(&shared(&memory), 1, 0, Point::initial(STORE));
        fill(&mut first, 3, 0);
        assert_eq!(first.point().next, Sequence(7));
        let mut second = rotate(&shared(&memory), &mut first);
        fill(&mut second, 1, 0);
        fill(&mut second, 2, watermark);
        let image = match survivors {
            Survivors::Everything => memory.crash(survivors),
            _ => restarted(&memory),
        };
        change(&image, 2, |bytes| bytes[HEADER_BYTES] ^= 1);
        let result = replay(&shared(&image), &expect());
        if is_lost {
            let (recovered, applied) = result.unwrap();
            assert_eq!((applied.len(), recovered.torn[0].offset), (3, 80));
        } else {
            assert_corrupt(result, 2, 80);
        }
        let mut taken = 0;
        let salvaged = salvage(&*shared(&image), &[1, 2], &expect(), &mut |_, _, _, _| {
            taken += 1;
            Ok(())
        });
        assert_eq!((taken, salvaged.unwrap().losses.len()), (5, 1));
    }
}

/// Two histories of the same shape: every checksum is right, the chain is not.
#[test]
fn records_of_another_history_are_found() {
    let history = |payload: &[u8]| {
        let memory = memory();
        let storage = shared(&memory);
        let mut first = begin(&storage, 1, 0, Point::initial(STORE));
        first.append(1, payload, Sequence(0)).unwrap();
        let middle = first.file_bytes();
        first.append(1, payload, Sequence(0)).unwrap();
        fill(&mut rotate(&storage, &mut first), 1, 0);
        (memory, middle)
    };
    let (one, middle) = history(b"one");
    let (two, _) = history(b"two");
    let image = restarted(&one);
    let other = two.bytes_of(&file_name(1)).unwrap();
    change(&image, 1, |bytes| {
        bytes[middle as usize..].copy_from_slice(&other[middle as usize..])
    });
    assert_corrupt(replay(&shared(&image), &expect()), 1, middle);
    let image = restarted(&one);
    image.replace(&file_name(2), two.bytes_of(&file_name(2)).unwrap());
    assert_corrupt(replay(&shared(&image), &expect()), 2, 0);
}

#[test]
fn a_tail_dropped_earlier_does_not_spoil_a_clean_close() {
    let memory = memory();
    let storage = shared(&memory);
    let mut first = begin(&storage, 1, 0, Point::initial(STORE));
    fill(&mut first, 2, 0);
    change(&memory, 1, |bytes| bytes.extend_from_slice(b"torn"));
    memory.replace(&file_name(2), b"unborn".to_vec());
    let (recovered, _) = replay(&storage, &expect()).unwrap();
    let dropped: Vec<u64> = recovered
        .torn
        .iter()
        .map(|torn| torn.dropped_bytes)
        .collect();
    assert_eq!((dropped, recovered.last), (vec![4, 6], Some(2)));
    let clean_at = Some(recovered.point.last());
    let clean = Expect {
        clean_at,
        ..expect()
    };
    assert!(
        matches!(replay(&storage, &clean), Err(Error::Corrupt(_))),
        "a tail"
    );
    let image = memory.crash(Survivors::Everything);
    change(&image, 1, |bytes| bytes.truncate(bytes.len() - 4));
    assert!(
        replay(&shared(&image), &clean).is_ok(),
        "a journal whose creation was cut off holds nothing"
    );
    let third = go_on(&storage, &recovered);
    let (recovered, _) = replay(&storage, &clean).unwrap();
    assert_eq!((recovered.point, recovered.last), (third.point(), Some(3)));
}

#[test]
fn what_recovery_knows_durable() {
    let memory = memory();
    let storage = shared(&memory);
    let mut first = begin(&storage, 1, 0, Point::initial(STORE));
    fill(&mut first, 3, 0);
    first.append(0, b"", Sequence(2)).unwrap();
    first.write_out().unwrap();
    assert_eq!(
        replay(&storage, &expect()).unwrap().0.watermark,
        Sequence(2)
    );
    let durable = Sequence(4);
    let (recovered, _) = replay(
        &storage,
        &Expect {
            durable,
            ..expect()
        },
    )
    .unwrap();
    assert_eq!(recovered.watermark, durable);
    // The seal repeats the watermark: so far behind its own sequence.
    rotate(&storage, &mut first);
    let bytes = memory.bytes_of(&file_name(1)).unwrap();
    let lag = bytes[bytes.len() - 16..].first_chunk().unwrap();
    assert_eq!(u32::from_le_bytes(*lag), 7 - 2);
}

#[test]
fn a_foreign_or_newer_journal_says_so() {
    let memory = memory();
    let mut writer = begin(&shared(&memory), 1, 0, Point::initial(STORE));
    fill(&mut writer, 1, 0);
    let other = Expect {
        store_id: STORE + 1,
        ..expect()
    };
    let error = replay(&shared(&memory), &other).unwrap_err();
    assert!(
        error.to_string().contains("belongs to another store"),
        "{error}"
    );
    let image = memory.crash(Survivors::Everything);
    change(&image, 1, |bytes| bytes[8] = 3);
    let error = replay(&shared(&image), &expect()).unwrap_err();
    assert!(error.to_string().contains("newer criba"), "{error}");
    memory.rename(&file_name(1), &file_name(2)).unwrap();
    assert!(
        replay(&shared(&memory), &expect()).is_err(),
        "under another name"
    );
}

/// A recovery took the records up to a point for all there are; more of them must not come back,
/// because other records have their sequences.
#[test]
fn records_that_come_back_do_not_hide_later_ones() {
    let memory = memory();
    let storage = shared(&memory);
    let mut first = begin(&storage, 1, 0, Point::initial(STORE));
    fill(&mut first, 2, 0);
    let point = first.point();
    fill(&mut first, 2, 0);
    let mut second = begin(&storage, 2, 1, point);
    assert!(replay(&storage, &expect()).is_ok(), "it has no records yet");
    fill(&mut second, 1, 0);
    assert_corrupt(replay(&shared(&restarted(&memory)), &expect()), 2, 0);
}

/// Segments can be ahead of a journal that was never synced: its loss is none.
#[test]
fn segments_fill_the_gap_of_a_lost_tail() {
    let memory = memory();
    let storage = shared(&memory);
    let mut first = begin(&storage, 1, 0, Point::initial(STORE));
    fill(&mut first, 2, 0);
    let end = first.file_bytes() as usize;
    fill(&mut first, 1, 0);
    let durable = first.point().last();
    fill(&mut first, 1, durable.0);
    let image = restarted(&memory);
    change(&image, 1, |bytes| bytes[end] ^= 1);
    assert_corrupt(replay(&shared(&image), &expect()), 1, end as u64);
    let ahead = Expect {
        durable,
        ..expect()
    };
    let (recovered, applied) = replay(&shared(&image), &ahead).unwrap();
    assert_eq!((recovered.point.last(), applied.len()), (durable, 2));
    let mut second = go_on(&shared(&image), &recovered);
    second.append(1, b"x", durable).unwrap();
    second.write_out().unwrap();
    let mut seen = Vec::new();
    let recovered = recover(&shared(&image), &[1, 2], &ahead, &mut |_, first, _, _| {
        seen.push(first.0);
        Ok(())
    });
    assert_eq!(recovered.unwrap().point, second.point());
    assert_eq!(seen, [1, 2, durable.0 + 1]);

    // With the gap but without the segments the second journal hangs in the air.
    change(&image, 1, |bytes| bytes.truncate(end));
    assert!(replay_quietly(&image, &ahead).is_ok());
    let behind = Expect {
        durable: Sequence(durable.0 - 1),
        ..expect()
    };
    assert!(replay_quietly(&image, &behind).is_err());
}

fn replay_quietly(image: &Memory, expect: &Expect<'_>) -> Result<Recovered> {
    let storage = shared(image);
    recover(&storage, &ids(&storage), expect, &mut |_, _, _, _| Ok(()))
}
