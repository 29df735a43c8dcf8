//! The bytes of each sketch are those of `docs/format.md`, "Sketches by themselves": checksums of
//! frames that were made by another program after that page. They change only with the format.

use criba_filters::KeyHash;
use criba_filters::{
    AdaptiveCounting, CountMin, CountSketch, CountingBloom, HyperLogLog, Insert, LayeredBloom,
    LogLog, Membership, MisraGries, Sketch, SpaceSaving, SpectralBloom, TugOfWar,
};

/// 50 hashes, each once, twice or three times.
fn stream() -> impl Iterator<Item = KeyHash> {
    let hash = |number: u64| KeyHash(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (0..50).flat_map(move |number| (0..=number % 3).map(move |_| hash(number + 1)))
}

#[track_caller]
fn check(bytes: &[u8], kind: &str, length: usize, checksum: u32) {
    assert_eq!(bytes[4..8], *kind.as_bytes());
    assert_eq!(bytes.len(), length, "{kind}");
    let found = u32::from_le_bytes(bytes[12..16].try_into().unwrap());
    assert_eq!(found, checksum, "{kind}: {found:#x}");
}

#[test]
fn bytes_are_those_of_the_format() {
    let mut counting = CountingBloom::with_shape(101, 3).unwrap();
    let mut spectral = SpectralBloom::with_shape(101, 3).unwrap();
    let mut layered = LayeredBloom::with_rate(0.1, &[50, 20, 5]).unwrap();
    let mut count_min = CountMin::with_shape(20, 3).unwrap();
    let mut count_sketch = CountSketch::with_shape(20, 3).unwrap();
    let mut tug = TugOfWar::with_shape(70, 1).unwrap();
    let mut loglog = LogLog::with_index_bits(4).unwrap();
    let mut adaptive = AdaptiveCounting::with_index_bits(9).unwrap();
    let mut hyper = HyperLogLog::with_index_bits(9).unwrap();
    for hash in stream() {
        counting.insert(hash).unwrap();
        spectral.insert(hash);
        layered.insert(hash);
        count_min.insert(hash);
        count_sketch.insert(hash);
        tug.insert(hash);
        loglog.insert(hash);
        adaptive.insert(hash);
        hyper.insert(hash);
    }
    let mut top = SpaceSaving::with_counters(4).unwrap();
    for key in ["often", "b", "often", "a", "often"] {
        top.insert(key.as_bytes());
    }
    let mut below = MisraGries::with_counters(2).unwrap();
    for key in ["often", "b", "often", "a", "often", "b"] {
        below.insert(key.as_bytes());
    }
    check(&counting.to_bytes(), "CBLM", 92, 0x1263_78e7);
    check(&spectral.to_bytes(), "SPEC", 445, 0x3426_c6d7);
    check(&layered.to_bytes(), "LAYR", 109, 0x409b_585b);
    check(&count_min.to_bytes(), "CMIN", 522, 0x30d2_ff69);
    check(&count_sketch.to_bytes(), "CSKT", 513, 0xa24c_2b45);
    check(&tug.to_bytes(), "TUGW", 593, 0x2017_be22);
    check(&top.to_bytes(), "SPSV", 127, 0x7e74_7252);
    check(&below.to_bytes(), "MIGR", 94, 0xe330_bac1);
    check(&loglog.to_bytes(), "LOGL", 42, 0x4745_9cc1);
    check(&adaptive.to_bytes(), "ADAP", 176, 0x3474_d3ff);
    check(&hyper.to_bytes(), "HYLL", 176, 0xa1a6_0e12);
}
