//! The laws of the operators that are ready, and the checker that finds who breaks them.

use criba::operator::{Add, Append, Max, MergeOperator, Merged, Min, check_laws};
use criba::sketch;
use criba_filters::{
    CountMin, CountingBloom, HyperLogLog, Insert as _, Membership as _, Sketch as _, Update,
};
use proptest::prelude::*;

type Bytes = Vec<u8>;

/// Operands for numbers: mostly of eight bytes.
fn numbers() -> impl Strategy<Value = Vec<Bytes>> {
    let one = prop_oneof![
        20 => any::<[u8; 8]>().prop_map(Vec::from),
        4 => prop::sample::select(vec![0, 1, -1, i64::MAX, i64::MIN])
            .prop_map(|n| n.to_le_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(one, 0..9)
}

fn texts() -> impl Strategy<Value = Vec<Bytes>> {
    let one = prop::collection::vec(prop::sample::select(&b"ab,\0\xff"[..]), 0..5);
    prop::collection::vec(one, 0..9)
}

/// The items of a sketch.
fn items() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..60)
}

/// Items by themselves, sketches as `of` makes them, and sometimes bytes that are neither.
fn sketches(of: fn(&[u8]) -> Bytes) -> impl Strategy<Value = Vec<Bytes>> {
    let one = prop_oneof![
        10 => any::<u8>().prop_map(|item| sketch::item([item]).to_vec()),
        5 => items().prop_map(move |items| of(&items)),
        1 => (items(), any::<(usize, u8)>()).prop_map(move |(items, (at, change))| {
            let mut bytes = of(&items);
            let at = at % bytes.len();
            bytes[at] ^= change;
            bytes
        }),
        1 => (items(), any::<usize>()).prop_map(move |(items, len)| {
            let mut bytes = of(&items);
            bytes.truncate(len % (bytes.len() + 1));
            bytes
        }),
    ];
    prop::collection::vec(one, 0..9)
}

fn hyperloglog(items: &[u8]) -> Bytes {
    let mut sketch = HyperLogLog::with_index_bits(4).unwrap();
    items.iter().for_each(|item| sketch.insert(&[*item]));
    sketch.to_bytes()
}

fn count_min(items: &[u8]) -> Bytes {
    let mut sketch = CountMin::with_shape(40, 2).unwrap();
    items.iter().for_each(|item| sketch.insert(&[*item]));
    sketch.to_bytes()
}

fn counting(items: &[u8]) -> Bytes {
    let members = sketch::Members::with_rate(60, 0.1).unwrap();
    let (cells, probes) = members.sketch(b"CRBL").unwrap().shape();
    let mut filter = CountingBloom::with_shape(cells, probes).unwrap();
    items
        .iter()
        .for_each(|item| filter.insert(&[*item]).unwrap());
    filter.to_bytes()
}

fn check(operator: &impl MergeOperator, base: Option<&Bytes>, operands: &[Bytes]) {
    check_laws(operator, b"key", base.map(Vec::as_slice), operands)
        .unwrap_or_else(|violation| panic!("{violation}"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn sums_are_associative(operands in numbers(), is_based in any::<bool>()) {
        for operator in [Add::i64(), Add::u64()] {
            match operands.split_first() {
                Some((base, operands)) if is_based => check(&operator, Some(base), operands),
                _ => check(&operator, None, &operands),
            }
        }
    }

    #[test]
    fn extremes_and_lists_are_associative(operands in texts(), is_based in any::<bool>()) {
        let (base, operands) = match operands.split_first() {
            Some((base, operands)) if is_based => (Some(base), operands),
            _ => (None, &operands[..]),
        };
        check(&Min, base, operands);
        check(&Max, base, operands);
        check(&Append::new(), base, operands);
        check(&Append::with_delimiter(","), base, operands);
    }

    #[test]
    fn unions_of_sketches_are_associative(
        distinct in sketches(hyperloglog),
        counts in sketches(count_min),
        members in sketches(counting),
        is_based in any::<bool>(),
    ) {
        fn check_both(operator: &impl MergeOperator, operands: &[Bytes], is_based: bool) {
            match operands.split_first() {
                Some((base, operands)) if is_based => check(operator, Some(base), operands),
                _ => check(operator, None, operands),
            }
        }
        check_both(&sketch::Distinct::with_index_bits(4).unwrap(), &distinct, is_based);
        check_both(&frequencies(), &counts, is_based);
        check_both(&sketch::Members::with_rate(60, 0.1).unwrap(), &members, is_based);
    }

    /// Whatever the bytes: a refusal at worst.
    #[test]
    fn any_bytes_are_read_or_refused(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        magic in prop::sample::select(vec![&b""[..], b"CRBL", b"CRBS", b"CRBSHYLL", b"CRBSCMIN"]),
    ) {
        bytes.splice(..0, magic.iter().copied());
        let distinct = sketch::Distinct::with_error(0.1).unwrap();
        let members = sketch::Members::with_rate(60, 0.1).unwrap();
        let operators: [&dyn MergeOperator; 3] = [&distinct, &frequencies(), &members];
        for operator in operators {
            if let Ok(merged) = operator.merge(b"", None, &[&bytes]) {
                let again = operator.merge(b"", None, &[&merged]).unwrap();
                prop_assert_eq!(again, merged);
            }
        }
    }
}

/// As wide as the sketches above: 40 counters in 2 rows.
fn frequencies() -> sketch::Frequencies {
    let operator = sketch::Frequencies::with_error(std::f64::consts::E / 40.0 + 1e-9, 0.2).unwrap();
    assert_eq!(operator.name(), "frequencies 40x2");
    operator
}

#[test]
fn sketches_count_what_was_merged() {
    let item = |n: u32| sketch::item(n.to_string());
    let merge = |operator: &dyn MergeOperator, count: u32| {
        let mut value: Option<Bytes> = None;
        for n in 0..count {
            value = Some(
                operator
                    .merge(b"", value.as_deref(), &[&item(n % 500)])
                    .unwrap(),
            );
        }
        value.unwrap()
    };
    let distinct = sketch::Distinct::with_error(0.02).unwrap();
    assert_eq!(distinct.name(), "distinct 12");
    let few = merge(&distinct, 3);
    assert_eq!(
        (distinct.estimate(&few).unwrap().round() as u32, few.len()),
        (3, 26 + 9)
    );
    let about = distinct.estimate(&merge(&distinct, 1000)).unwrap();
    assert!((about - 500.0).abs() < 10.0, "{about}");
    let frequencies = sketch::Frequencies::with_error(0.001, 0.01).unwrap();
    let value = merge(&frequencies, 1250);
    assert!(value.len() < 500 * 16 + 10, "a list: {} bytes", value.len());
    assert_eq!(frequencies.estimate(&value, "7").unwrap(), 3);
    assert_eq!(frequencies.estimate(&value, "300").unwrap(), 2);
    assert_eq!(frequencies.estimate(&value, "500").unwrap(), 0);
    assert_eq!(frequencies.sketch(&value).unwrap().total(), 1250);
    let members = sketch::Members::with_rate(1000, 0.01).unwrap();
    for count in [20, 800] {
        let value = merge(&members, count);
        assert_eq!(members.sketch(&value).unwrap().len(), u64::from(count));
        assert!((0..count.min(500)).all(|n| members.may_contain(&value, n.to_string()).unwrap()));
        let absent = (1000..2000).filter(|n| members.may_contain(&value, n.to_string()).unwrap());
        assert!(absent.count() < 30);
    }
}

#[test]
fn sketches_of_another_shape_are_refused() {
    let refused = |operator: &dyn MergeOperator, bytes: Bytes, what: &str| {
        let error = operator
            .merge(b"", None, &[&bytes])
            .unwrap_err()
            .to_string();
        assert!(error.contains(what), "{error}");
    };
    let distinct = sketch::Distinct::with_index_bits(5).unwrap();
    refused(&distinct, hyperloglog(&[1]), "registers cannot be merged");
    refused(&distinct, b"CRBL".to_vec(), "neither");
    let frequencies = frequencies();
    let conservative = CountMin::with_shape(40, 2)
        .unwrap()
        .with_update(Update::Conservative);
    refused(&frequencies, conservative.to_bytes(), "cannot be merged");
    refused(
        &frequencies,
        CountMin::with_shape(41, 2).unwrap().to_bytes(),
        "cannot be merged",
    );
    refused(&frequencies, hyperloglog(&[1]), "neither");
    let members = sketch::Members::with_rate(60, 0.1).unwrap();
    refused(
        &members,
        CountingBloom::with_shape(41, 2).unwrap().to_bytes(),
        "cannot be merged",
    );
    // A few bytes that would take long to be counted.
    let forever = [&b"CRBL"[..], &[7; 8], &[0xff; 8]].concat();
    refused(&members, forever, "longer than any");
    assert!(members.may_contain(b"nonsense!", "x").is_err());
}

/// Adds, and breaks a law in one of several ways.
#[derive(Debug)]
enum Broken {
    /// Stops at the limits.
    Saturates,
    /// Keeps a mean.
    Means,
    /// Refuses more than three at once.
    Limits,
    /// Counts how often it was called.
    Counts(std::sync::atomic::AtomicU8),
    /// Looks at whether there is a base.
    Based,
    /// Panics for one grouping.
    Panics,
}

impl MergeOperator for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    fn merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Merged {
        let all = base.into_iter().chain(operands.iter().copied());
        let all: Vec<i64> = all.map(|bytes| Add::to_i64(bytes).unwrap()).collect();
        let sum = all.iter().fold(0_i64, |sum, n| sum.wrapping_add(*n));
        let result = match self {
            Broken::Saturates => all.iter().fold(0_i64, |sum, n| sum.saturating_add(*n)),
            Broken::Means => sum / all.len() as i64,
            Broken::Limits if operands.len() > 3 => return Err("more than three".into()),
            Broken::Limits => sum,
            Broken::Counts(calls) => {
                let calls = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                sum.wrapping_add(i64::from(calls))
            }
            Broken::Based => sum.wrapping_add(i64::from(base.is_some())),
            Broken::Panics => {
                assert!(operands.len() != 2, "two");
                sum
            }
        };
        Ok(result.to_le_bytes().to_vec())
    }
}

#[test]
fn operators_that_break_a_law_are_found() {
    let numbers = [8, 20, i64::MAX, 1, -1].map(i64::to_le_bytes);
    for broken in [
        Broken::Saturates,
        Broken::Means,
        Broken::Limits,
        Broken::Counts(Default::default()),
        Broken::Based,
        Broken::Panics,
    ] {
        let violation = check_laws(&broken, b"key", Some(&numbers[4]), &numbers).unwrap_err();
        assert_eq!(violation.name, "broken");
        let text = violation.to_string();
        assert!(
            text.contains("not associative") && text.contains("key"),
            "{broken:?}: {text}"
        );
    }
    // As a user's property test finds it, with what it is made of.
    let violation = check_laws(&Broken::Saturates, b"k", None, &numbers).unwrap_err();
    let expected =
        "the operator \"broken\" is not associative: for key \"k\", base none and operands";
    assert!(violation.to_string().starts_with(expected), "{violation}");
    // Many operands take no longer than few.
    check_laws(&Add::i64(), b"k", None, &vec![[0; 8]; 10_000]).unwrap();
}
