//! Bytes whose checksum is right but that no sketch has written: an error, or some other sketch
//! that can be used; never a panic, never more memory than there are bytes.

use criba_filters::{
    AdaptiveCounting, CountMin, CountSketch, CountingBloom, Delete, HyperLogLog, Insert,
    LayeredBloom, LogLog, Membership, Merge, MisraGries, Sketch, SpaceSaving, SpectralBloom,
    TugOfWar,
};

use super::{SplitMix, hash};

/// Where the frame has its checksum, the length of the payload, and the payload.
const CHECKSUM: usize = 12;
const LENGTH: usize = 16;
const PAYLOAD: usize = 24;

/// Makes length and checksum right again.
fn seal(bytes: &mut [u8]) {
    let length = (bytes.len() - PAYLOAD) as u64;
    bytes[LENGTH..PAYLOAD].copy_from_slice(&length.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..CHECKSUM]);
    hasher.update(&bytes[LENGTH..]);
    bytes[CHECKSUM..LENGTH].copy_from_slice(&hasher.finalize().to_le_bytes());
}

fn check<T>(
    bytes: &[u8],
    from_bytes: impl Fn(&[u8]) -> criba_filters::Result<T>,
    to_bytes: impl Fn(&T) -> Vec<u8>,
    exercise: impl Fn(&mut T),
) {
    let mut random = SplitMix(bytes.len() as u64);
    let (mut read, mut refused) = (0, 0);
    for round in 0..3000 {
        let mut changed = bytes.to_vec();
        match round % 3 {
            0 => changed.truncate(PAYLOAD + random.next() as usize % (bytes.len() - PAYLOAD)),
            1 => changed.extend((0..1 + random.next() % 9).map(|byte| byte as u8)),
            _ => {}
        }
        // Most fields are at the beginning.
        let span = if random.next().is_multiple_of(2) {
            32
        } else {
            changed.len() - PAYLOAD
        };
        for _ in 0..random.next() % 3 {
            let at = PAYLOAD + random.next() as usize % span.max(1);
            if let Some(byte) = changed.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
        seal(&mut changed);
        match from_bytes(&changed) {
            Err(_) => refused += 1,
            Ok(mut sketch) => {
                assert_eq!(to_bytes(&sketch), changed, "one form for one sketch");
                exercise(&mut sketch);
                read += 1;
            }
        }
    }
    assert!(
        read > 100 && refused > 500,
        "{read} read, {refused} refused"
    );
}

#[test]
fn filters_that_count() {
    let hashes: Vec<_> = (0..300).map(|key| hash(1, key)).collect();
    let mut sketch = CountingBloom::with_shape(701, 5).unwrap();
    for hash in &hashes {
        sketch.insert(hash).unwrap();
    }
    let exercise = |sketch: &mut CountingBloom| {
        sketch.insert(hashes[0]).unwrap();
        assert!(sketch.remove(hashes[0]) && sketch.fill() <= 1.0);
    };
    check(
        &sketch.to_bytes(),
        CountingBloom::from_bytes,
        CountingBloom::to_bytes,
        exercise,
    );
    let mut sketch = SpectralBloom::with_shape(701, 5).unwrap();
    hashes.iter().for_each(|hash| sketch.insert(*hash));
    let exercise = |sketch: &mut SpectralBloom| {
        sketch.insert(hashes[0]);
        assert!(sketch.may_contain(hashes[0]));
    };
    check(
        &sketch.to_bytes(),
        SpectralBloom::from_bytes,
        SpectralBloom::to_bytes,
        exercise,
    );
    let mut sketch = LayeredBloom::with_rate(0.1, &[300, 30, 3]).unwrap();
    hashes
        .iter()
        .for_each(|hash| assert!(sketch.increment(hash) <= 3));
    let exercise = |sketch: &mut LayeredBloom| {
        sketch.insert(hashes[0]);
        assert!(sketch.estimate(hashes[0]) > 0);
    };
    check(
        &sketch.to_bytes(),
        LayeredBloom::from_bytes,
        LayeredBloom::to_bytes,
        exercise,
    );
}

#[test]
fn frequencies() {
    let hashes: Vec<_> = (0..300).map(|key| hash(1, key)).collect();
    let mut sketch = CountMin::with_shape(50, 3).unwrap();
    hashes.iter().for_each(|hash| sketch.insert(*hash));
    let exercise = |sketch: &mut CountMin| {
        sketch.insert(hashes[0]);
        assert!(sketch.estimate(hashes[0]) > 0);
    };
    check(
        &sketch.to_bytes(),
        CountMin::from_bytes,
        CountMin::to_bytes,
        exercise,
    );
    let mut sketch = CountSketch::with_shape(50, 3).unwrap();
    hashes.iter().for_each(|hash| sketch.insert(*hash));
    let exercise = |sketch: &mut CountSketch| {
        sketch.insert(hashes[0]);
        assert!(sketch.estimate(hashes[0]) != i64::MAX);
        assert!(sketch.second_moment().is_finite());
    };
    check(
        &sketch.to_bytes(),
        CountSketch::from_bytes,
        CountSketch::to_bytes,
        exercise,
    );
    let mut sketch = TugOfWar::with_shape(50, 3).unwrap();
    hashes.iter().for_each(|hash| sketch.insert(*hash));
    let exercise = |sketch: &mut TugOfWar| {
        sketch.insert(hashes[0]);
        assert!(sketch.estimate().is_finite());
    };
    check(
        &sketch.to_bytes(),
        TugOfWar::from_bytes,
        TugOfWar::to_bytes,
        exercise,
    );
}

#[test]
fn keys() {
    let mut sketch = SpaceSaving::with_counters(40).unwrap();
    (0..100_u64).for_each(|key| sketch.insert(key.to_le_bytes()));
    let bytes = sketch.to_bytes();
    let mut random = SplitMix(5);
    for _ in 0..3000 {
        let mut changed = bytes.clone();
        for _ in 0..1 + random.next() % 3 {
            let at = PAYLOAD + random.next() as usize % (bytes.len() - PAYLOAD);
            changed[at] = random.next() as u8;
        }
        changed.truncate(PAYLOAD + random.next() as usize % (2 * bytes.len()));
        seal(&mut changed);
        // Keys of one count may be written in another order.
        if let Ok(mut sketch) = SpaceSaving::from_bytes(&changed) {
            assert_eq!(sketch.to_bytes().len(), changed.len());
            (0..100_u64).for_each(|key| sketch.insert(key.to_le_bytes()));
            assert!(sketch.top(100).len() <= sketch.counters());
        }
    }
    let mut sketch = MisraGries::with_counters(40).unwrap();
    (0..100_u64).for_each(|key| sketch.add(key.to_le_bytes(), 3 * key + 1));
    let exercise = |sketch: &mut MisraGries| {
        (0..100_u64).for_each(|key| sketch.insert(key.to_le_bytes()));
        sketch.add(b"", u64::MAX);
        let mut other = sketch.clone();
        other.merge(sketch).unwrap();
        assert!(other.top(100).len() <= sketch.counters());
    };
    check(
        &sketch.to_bytes(),
        MisraGries::from_bytes,
        MisraGries::to_bytes,
        exercise,
    );
}

/// Each rule of the bytes of Misra-Gries, broken by itself under a right checksum.
#[test]
fn misra_gries_refuses_what_it_cannot_have_written() {
    let bytes = |head: [u64; 4], keys: &[(u64, &[u8])]| {
        let mut bytes = MisraGries::with_counters(1).unwrap().to_bytes();
        bytes.truncate(PAYLOAD);
        bytes.extend(head.iter().flat_map(|field| field.to_le_bytes()));
        for (count, key) in keys {
            bytes.extend(count.to_le_bytes());
            bytes.extend((key.len() as u64).to_le_bytes());
            bytes.extend(*key);
        }
        seal(&mut bytes);
        bytes
    };
    let read = |head, keys: &[(u64, &[u8])]| MisraGries::from_bytes(&bytes(head, keys));
    // Counters, total, error, keys.
    assert!(read([2, 9, 1, 2], &[(4, b"a"), (2, b"b")]).is_ok());
    assert!(read([2, u64::MAX, 1, 1], &[(u64::MAX, b"a")]).is_ok());
    for (head, keys, reason) in [
        ([0, 0, 0, 0], &[][..], "out of bounds"),
        ([1, 9, 0, 2], &[(4, &b"a"[..]), (2, b"b")], "more keys"),
        ([2, 9, 1, 2], &[(4, b"a"), (0, b"b")], "a count is 0"),
        ([2, 9, 1, 2], &[(2, b"a"), (4, b"b")], "not in their order"),
        ([2, 9, 1, 2], &[(2, b"b"), (2, b"a")], "not in their order"),
        ([2, 9, 1, 2], &[(4, b"a"), (2, b"a")], "there twice"),
        (
            [2, 8, 1, 2],
            &[(4, b"a"), (2, b"b")],
            "more than the stream",
        ),
        ([2, 9, u64::MAX, 0], &[], "more than the stream"),
        ([2, 9, 1, 2], &[(4, b"a")], "cut short"),
        ([2, 9, 1, 0], &[(4, b"a")], "after the last field"),
    ] {
        let error = read(head, keys).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}, {reason}");
    }
}

#[test]
fn registers() {
    for keys in [5, 2000] {
        let mut sketch = HyperLogLog::with_index_bits(8).unwrap();
        let mut other = LogLog::with_index_bits(8).unwrap();
        let mut third = AdaptiveCounting::with_index_bits(8).unwrap();
        for key in 0..keys {
            sketch.insert(hash(1, key));
            other.insert(hash(1, key));
            third.insert(hash(1, key));
        }
        let exercise = |sketch: &mut HyperLogLog| {
            sketch.insert(hash(2, 1));
            assert!(sketch.estimate() > 0.0 && sketch.estimate_2007() > 0.0);
        };
        check(
            &sketch.to_bytes(),
            HyperLogLog::from_bytes,
            HyperLogLog::to_bytes,
            exercise,
        );
        let exercise = |sketch: &mut LogLog| {
            sketch.insert(hash(2, 1));
            assert!(sketch.estimate().is_finite());
        };
        check(
            &other.to_bytes(),
            LogLog::from_bytes,
            LogLog::to_bytes,
            exercise,
        );
        let exercise = |sketch: &mut AdaptiveCounting| {
            sketch.insert(hash(2, 1));
            assert!(sketch.estimate().is_finite() && sketch.estimate() > 0.0);
        };
        check(
            &third.to_bytes(),
            AdaptiveCounting::from_bytes,
            AdaptiveCounting::to_bytes,
            exercise,
        );
    }
}
