//! Filters of the family that are held as they are, as filters of segments.

use super::scattered::{build_scattered, parse};
use super::{absent, five_sigma, present};
use crate::segment::{Answer, Built, Filter, FilterKind, Scattered};
use crate::{KeyHash, hash_key};

fn shapes() -> impl Iterator<Item = Scattered> {
    Scattered::ALL.into_iter().filter(|shape| shape.is_held())
}

fn hashes(count: u64) -> Vec<KeyHash> {
    (0..count).map(|i| hash_key(81, &present(i))).collect()
}

fn built(shape: Scattered, bits_per_key: f64, hashes: &[KeyHash]) -> Built {
    build_scattered(shape, bits_per_key, 82, hashes)
}

#[test]
fn no_key_is_denied_and_rates_are_as_designed() {
    for shape in shapes() {
        for (count, bits) in [(1, 8.0), (2, 1.0), (63, 64.0), (1_000, 9.3), (20_000, 12.0)] {
            let hashes = hashes(count);
            let built = built(shape, bits, &hashes);
            let filter = parse(&built);
            assert_eq!((built.kind, filter.kind()), (shape.kind(), shape.kind()));
            assert_eq!((filter.key_count(), built.body.len()), (count, 0));
            for hash in &hashes {
                assert_eq!(filter.ask(*hash, &[]), Answer::Maybe, "{shape:?}");
            }
            // What a rebuild compares with.
            let wanted = shape.value_bits(count, bits);
            assert!((filter.r_bits() - wanted).abs() < 1e-9, "{shape:?}");
            if count < 1_000 {
                continue;
            }
            assert!(wanted <= bits + 0.1, "{shape:?}: {wanted} bits");
            let trials = 100_000;
            let passes = |i: &u64| filter.ask(hash_key(81, &absent(*i)), &[]) == Answer::Maybe;
            let hits = (0..trials).filter(passes).count() as f64;
            let rate = filter.designed_rate();
            assert!((rate - built.designed_rate).abs() < 1e-12);
            let off = (hits - rate * trials as f64).abs();
            // A thousand keys leave the share of set bits some freedom of its own.
            let freedom = 0.1 * rate * trials as f64;
            let allowed = five_sigma(rate, trials) + freedom;
            assert!(off <= allowed, "{shape:?}: {hits}, {rate} by design");
        }
    }
}

#[test]
fn any_hashes_make_a_filter() {
    let crowded: Vec<KeyHash> = (0..500).map(KeyHash).collect();
    let equal = [hashes(300), hashes(100), vec![KeyHash(7); 50]].concat();
    for shape in shapes() {
        let empty = built(shape, 9.0, &[]);
        assert!(empty.designed_rate <= 0.0);
        assert_eq!(parse(&empty).ask(KeyHash(1), &[]), Answer::No);
        for hashes in [&crowded, &equal] {
            let built = built(shape, 9.0, hashes);
            assert!(!built.equal_hashes);
            let filter = parse(&built);
            let ask = |hash: &KeyHash| filter.ask(*hash, &built.body);
            assert!(hashes.iter().all(|hash| ask(hash) == Answer::Maybe));
        }
    }
}

#[test]
fn damaged_headers_do_no_harm() {
    for shape in shapes() {
        let built = built(shape, 9.0, &hashes(200));
        for at in 0..built.header.len() {
            assert!(Filter::parse(built.kind, &built.header[..at], 0).is_err());
            for change in [1, 0x80, 0xff] {
                let mut header = built.header.clone();
                header[at] ^= change;
                match Filter::parse(built.kind, &header, 0) {
                    // Salt and number of keys, which the region's checksum covers.
                    Ok(filter) => {
                        assert!((8..24).contains(&at), "{shape:?}: byte {at}");
                        assert!((0.0..=1.0).contains(&filter.designed_rate()));
                        assert!(!matches!(filter.ask(KeyHash(1), &[]), Answer::At(_)));
                    }
                    Err(damaged) => assert!(damaged.to_string().contains("held header")),
                }
            }
        }
        let longer = [built.header.as_slice(), &[0]].concat();
        assert!(Filter::parse(built.kind, &longer, 0).is_err());
        assert!(Filter::parse(built.kind, &built.header, 1).is_err());
        let other = shapes().find(|other| *other != shape).unwrap();
        assert!(Filter::parse(other.kind(), &built.header, 0).is_err());
    }
}

/// The bytes of version 1: the header before those of the filter, and a checksum of all. Those of
/// compressed ones are another library's.
#[test]
fn bytes_are_those_of_the_format() {
    let own = "010000000000000052000000000000006400000000000000";
    let is_ours = |shape: &Scattered| !matches!(shape, Scattered::Compressed | Scattered::Hybrid);
    let sum = |shape| {
        let header = built(shape, 9.0, &hashes(100)).header;
        let hex = header.iter().take(24).map(|byte| format!("{byte:02x}"));
        assert_eq!(hex.collect::<String>(), own);
        crc32fast::hash(&header)
    };
    let found: Vec<u32> = shapes().filter(is_ours).map(sum).collect();
    assert_eq!(found, GOLDEN);
}
const GOLDEN: [u32; 4] = [3_379_164_351, 71_257_914, 2_157_650_392, 3_286_721_067];

#[test]
fn kinds_have_the_numbers_of_the_format() {
    let numbers: Vec<u8> = shapes().map(|shape| shape.kind().to_u8()).collect();
    assert_eq!(numbers, [7, 8, 9, 10, 11, 12]);
    let kinds = numbers.iter().map(|number| FilterKind::from_u8(*number));
    assert!(
        kinds
            .flatten()
            .zip(shapes())
            .all(|(kind, shape)| kind == shape.kind())
    );
}
