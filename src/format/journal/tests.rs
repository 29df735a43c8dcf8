//! What the bytes of a journal are, and what damaged ones are.

use std::ops::Range;

use super::*;

const HEADER: FileHeader = FileHeader {
    id: 9,
    store_id: 0xfeed,
    previous: 8,
    start: Some(START),
    boot_id: 3,
};

const START: Point = Point {
    next: Sequence(100),
    chain: 5,
};

fn push(bytes: &mut Vec<u8>, record: Record, payload: &[u8]) -> Point {
    let offset = bytes.len() as u64;
    let encoded = record.encode(HEADER.identity(), offset, payload);
    let (header, point) = encoded.unwrap();
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(payload);
    point
}

fn record(count: u32, at: Point, watermark: u64) -> Record {
    Record {
        count,
        first: at.next,
        watermark: Sequence(watermark),
        chain: at.chain,
        begins_append: true,
    }
}

/// Three records of one operation each; the last knows the first durable.
fn sample() -> (Vec<u8>, [usize; 3]) {
    let mut bytes = HEADER.encode();
    let mut point = START;
    let mut starts = [0; 3];
    for (start, watermark) in starts.iter_mut().zip([0, 0, 100]) {
        *start = bytes.len();
        point = push(&mut bytes, record(1, point, watermark), &[0xab; 600]);
    }
    (bytes, starts)
}

/// The bytes that `docs/format.md` explains.
#[test]
fn bytes_do_not_change() {
    let mut bytes = HEADER.encode();
    let point = push(&mut bytes, record(2, START, 98), b"criba-kv");
    push(
        &mut bytes,
        Record::seal(point, Sequence(98), true),
        &seal_payload(10),
    );
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let rows: Vec<String> = hex.chunks(16).map(|row| row.join(" ")).collect();
    assert_eq!(
        rows,
        [
            "63 72 69 62 61 6a 6e 6c 02 00 00 00 f9 6b 4d a5",
            "09 00 00 00 00 00 00 00 08 00 00 00 00 00 00 00",
            "64 00 00 00 00 00 00 00 05 00 00 00 00 00 00 00",
            "ed fe 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
            "03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
            "e7 72 88 8b 4a 48 a0 53 08 00 00 00 02 00 00 80",
            "64 00 00 00 00 00 00 00 02 00 00 00 05 00 00 00",
            "63 72 69 62 61 2d 6b 76 91 2c dc 6c e5 8f b6 c3",
            "08 00 00 00 ff ff ff ff 66 00 00 00 00 00 00 00",
            "04 00 00 00 5e f6 75 2a 0a 00 00 00 00 00 00 00",
        ]
    );
}

#[test]
fn headers_come_back_or_are_refused() {
    let bytes = HEADER.encode();
    assert_eq!(bytes.len(), HEADER_BYTES);
    assert_eq!(header::decode(&bytes, 9), Ok(HEADER));
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(
            matches!(header::decode(&changed, 9), Err(BadHeader::Damaged(_))),
            "bit {bit}"
        );
    }
    assert!(header::decode(&bytes, 10).is_err());
    for unborn in [&bytes[..0], &bytes[..79], &[0; 80][..]] {
        assert_eq!(header::decode(unborn, 9), Err(BadHeader::Unborn));
    }
    assert!(matches!(
        header::decode(&[0; 81], 9),
        Err(BadHeader::Damaged(_))
    ));
}

/// What a header leaves open, the first record tells.
#[test]
fn an_open_start_is_that_of_the_first_record() {
    let open = FileHeader {
        start: None,
        ..HEADER
    };
    let mut bytes = open.encode();
    assert_eq!(bytes[32..48], [0; 16]);
    assert_eq!(header::decode(&bytes, 9), Ok(open));
    let start = |bytes: &[u8]| Journal::new(bytes, 9).unwrap().start();
    assert_eq!(start(&bytes), None);
    push(&mut bytes, record(1, START, 0), &[7; 100]);
    assert_eq!(start(&bytes), Some(START));
    // The header of the record is enough.
    assert_eq!(start(&bytes[..bytes.len() - 1]), Some(START));
    bytes[HEADER_BYTES] ^= 1;
    assert_eq!(start(&bytes), None);

    // A chain without a sequence is no start.
    let wrong = FileHeader {
        start: Some(Point {
            next: Sequence(0),
            chain: 5,
        }),
        ..HEADER
    };
    assert!(matches!(
        header::decode(&wrong.encode(), 9),
        Err(BadHeader::Damaged(_))
    ));
}

#[test]
fn steps_say_what_is_wrong() {
    let (bytes, [first, second, third]) = sample();
    let journal = Journal::new(&bytes, 9).unwrap();
    let Step::Record {
        record,
        payload,
        end,
        after,
    } = journal.step(first)
    else {
        panic!()
    };
    assert_eq!(
        (record.first, payload.len(), end),
        (Sequence(100), 600, second)
    );
    assert_eq!(journal.step(second).record().unwrap().chain, after.chain);
    assert_eq!(journal.step(bytes.len()), Step::End);
    assert_eq!(journal.step(third + 1), Step::BadHeader);

    let step = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        format!("{:?}", Journal::new(&bytes, 9).unwrap().step(third))
    };
    assert_eq!(step(&|bytes| bytes.truncate(third + 31)), "Short");
    assert!(step(&|bytes| bytes.truncate(third + 32)).starts_with("Cut("));
    assert!(step(&|bytes| bytes[third + 32] ^= 1).starts_with("BadPayload("));
    assert_eq!(step(&|bytes| bytes[third + 31] ^= 1), "BadHeader");
    assert_eq!(step(&|bytes| bytes[third..].fill(0)), "End");
}

#[test]
fn impossible_records_are_not_intact() {
    let at = START;
    let beyond = Point {
        next: Sequence::MAX,
        chain: 5,
    };
    for (record, len) in [
        (record(0, at, 0), 1),
        (record(3, at, 0), 2),
        (record(MAX_OPERATIONS + 1, at, 0), 2),
        (record(1, beyond, 0), 1),
        (Record::seal(at, Sequence(0), true), 7),
    ] {
        let mut bytes = HEADER.encode();
        push(&mut bytes, record, &vec![1; len]);
        let journal = Journal::new(&bytes, 9).unwrap();
        assert_eq!(journal.step(HEADER_BYTES), Step::BadHeader, "{record:?}");
    }
}

/// The bytes of a record with this lag, whose checksum is right.
fn with_lag(first: Sequence, lag: u32) -> Vec<u8> {
    let mut bytes = HEADER.encode();
    let start = Point {
        next: first,
        chain: 5,
    };
    push(&mut bytes, record(1, start, first.0 - 1), &[1]);
    bytes[HEADER_BYTES + 24..][..4].copy_from_slice(&lag.to_le_bytes());
    let covered = &bytes[HEADER_BYTES + 4..][..28];
    let sum = checksum::at(HEADER.identity(), HEADER_BYTES as u64, &[covered]) | 0x81;
    bytes[HEADER_BYTES..][..4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn a_lag_tells_the_watermark_or_nothing() {
    let read = |bytes: &[u8]| {
        let journal = Journal::new(bytes, 9).unwrap();
        let step = journal.step(HEADER_BYTES);
        step.record().map(|record| record.watermark.0)
    };
    for (lag, watermark) in [(0, Some(0)), (1, Some(99)), (100, Some(0)), (101, None)] {
        assert_eq!(read(&with_lag(Sequence(100), lag)), watermark, "{lag}");
    }
    let far = Sequence(1 << 40);
    for (watermark, told) in [
        (far.0 - 0xffff_ffff, far.0 - 0xffff_ffff),
        (far.0 - (1 << 32), 0),
    ] {
        let mut bytes = HEADER.encode();
        let start = Point {
            next: far,
            chain: 5,
        };
        push(&mut bytes, record(1, start, watermark), &[1]);
        assert_eq!(read(&bytes), Some(told));
    }
}

/// Zeros are the end of a journal, also where their checksum happens to be zero.
#[test]
fn no_header_begins_at_sequence_0() {
    let bytes = with_lag(Sequence(1), 1);
    let read = |first: u64| {
        let mut bytes = bytes.clone();
        bytes[HEADER_BYTES + 16..][..8].copy_from_slice(&first.to_le_bytes());
        bytes[HEADER_BYTES + 24..][..4].fill(0);
        let covered = &bytes[HEADER_BYTES + 4..][..28];
        let sum = checksum::at(HEADER.identity(), HEADER_BYTES as u64, &[covered]) | 0x81;
        bytes[HEADER_BYTES..][..4].copy_from_slice(&sum.to_le_bytes());
        let journal = Journal::new(&bytes, 9).unwrap();
        journal.step(HEADER_BYTES).record().is_some()
    };
    assert_eq!([read(0), read(1)], [false, true]);
}

#[test]
fn a_seal_names_the_next_and_leaves_the_chain() {
    let mut bytes = HEADER.encode();
    let point = push(
        &mut bytes,
        Record::seal(START, Sequence(7), true),
        &seal_payload(12),
    );
    assert_eq!(point, START);
    let journal = Journal::new(&bytes, 9).unwrap();
    let Step::Record {
        record, payload, ..
    } = journal.step(HEADER_BYTES)
    else {
        panic!()
    };
    assert!(record.is_seal());
    assert_eq!((record.operations(), sealed_by(payload)), (0, Some(12)));
    assert_eq!(record.watermark, Sequence(7));
}

#[test]
fn strays_are_found_at_any_offset() {
    let (mut bytes, [_, second, third]) = sample();
    bytes[second + 30] ^= 1;
    let journal = Journal::new(&bytes, 9).unwrap();
    let next = Sequence(101);
    let expected = Strays {
        at: third,
        watermark: Sequence(100),
        watermark_at: third,
        begins_append: true,
    };
    assert_eq!(journal.strays(second + 1, next), Some(expected));
    assert_eq!(journal.strays(third, next), Some(expected));
    assert_eq!(journal.strays(third + 1, next), None);
    assert_eq!(
        journal.strays(second, Sequence(103)),
        None,
        "an earlier sequence"
    );
    // A cut payload does not matter, a cut header does.
    let cut = Journal::new(&bytes[..third + 32], 9).unwrap();
    assert_eq!(cut.strays(second + 1, next), Some(expected));
    let cut = Journal::new(&bytes[..third + 31], 9).unwrap();
    assert_eq!(cut.strays(second + 1, next), None);
    // The same bytes in another journal are nothing.
    let mut other = FileHeader {
        store_id: 1,
        ..HEADER
    }
    .encode();
    other.extend_from_slice(&bytes[HEADER_BYTES..]);
    assert_eq!(
        Journal::new(&other, 9).unwrap().strays(HEADER_BYTES, next),
        None
    );
}

#[test]
fn zero_sectors_are_whole() {
    let mut bytes = HEADER.encode();
    bytes.resize(5000, 1);
    bytes[600..1023].fill(0);
    let zero = |bytes: &[u8], range: Range<usize>| {
        Journal::new(bytes, 9)
            .unwrap()
            .has_zero_sector(range.start, range.end)
    };
    assert!(!zero(&bytes, 80..5000), "not at a sector's bounds");
    bytes[512..1024].fill(0);
    assert!(zero(&bytes, 80..5000));
    assert!(zero(&bytes, 512..1024));
    assert!(!zero(&bytes, 513..5000), "it begins before");
    assert!(zero(&bytes, 80..1023), "it begins there");
    assert!(!zero(&bytes, 80..512), "it begins behind");
    bytes[4096..].fill(0);
    assert!(zero(&bytes, 4096..4100 + 508));
    assert!(zero(&bytes, 1025..4600));
    assert!(
        zero(&bytes[..4600], 1025..4600),
        "a page cut by the end of the file"
    );
    assert!(zero(&bytes[..4097], 4096..4097));
    assert!(!zero(&bytes[..4097], 4097..4097));
    assert!(!zero(&bytes[..4600], 4097..4600), "it begins before");
    bytes[4096] = 1;
    assert!(
        !zero(&bytes[..4700], 1025..4700),
        "a sector cut inside a page"
    );
}
