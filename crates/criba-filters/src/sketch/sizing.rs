//! How large a sketch has to be for an error and a probability to exceed it.

use crate::error::{Error, Result};

/// Most counters, registers or bits of one structure. What is larger is a mistake more often than a
/// wish, and is refused before memory is asked for.
pub(super) const CELLS_MAX: u64 = 1 << 32;

/// Most hash functions of a Bloom filter, and rows of a sketch. Written to disk as the bounds of
/// fields; must not be lowered.
pub(super) const PROBES_MAX: u8 = 64;
pub(super) const ROWS_MAX: u8 = 64;

/// An error for what lies outside its bounds.
pub(super) fn invalid(what: impl Into<String>) -> Error {
    Error::Invalid(what.into())
}

/// Checks that a number lies strictly between 0 and 1.
pub(super) fn check_open(name: &str, value: f64) -> Result<()> {
    if value > 0.0 && value < 1.0 {
        return Ok(());
    }
    Err(invalid(format!(
        "{name} cannot be {value}: choose a number above 0 and below 1"
    )))
}

/// Checks a number of counters, bits or registers that was given or calculated.
pub(super) fn check_cells(name: &str, count: f64) -> Result<u64> {
    if (1.0..=CELLS_MAX as f64).contains(&count) {
        return Ok(count as u64);
    }
    Err(invalid(format!(
        "{count:.0} {name} cannot be had: ask for 1 to {CELLS_MAX}, with fewer keys or a larger error"
    )))
}

/// Checks a number of hash functions or rows.
pub(super) fn check_few(name: &str, count: u8, most: u8) -> Result<u8> {
    if (1..=most).contains(&count) {
        return Ok(count);
    }
    Err(invalid(format!(
        "{count} {name} cannot be had: ask for 1 to {most}"
    )))
}

/// Cells and probes of a Bloom filter for so many keys (at least one) and this rate of false
/// positives: `m = ceil(-n ln p / ln^2 2)`, `k = ceil(m / n ln 2)` (Bloom 1970, in the form of
/// Mullin 1983).
pub(super) fn bloom(keys: u64, rate: f64) -> Result<(u64, u8)> {
    check_open("the false-positive rate", rate)?;
    let keys = keys.max(1) as f64;
    let ln2 = std::f64::consts::LN_2;
    let cells = check_cells("cells", (-keys * rate.ln() / (ln2 * ln2)).ceil())?;
    let probes = (cells as f64 / keys * ln2).ceil();
    Ok((cells, probes.clamp(1.0, f64::from(PROBES_MAX)) as u8))
}

/// The rate of false positives of a Bloom filter that was dealt so many keys: `(1 - e^(-k n /
/// m))^k`.
pub(super) fn bloom_rate(cells: u64, probes: u8, keys: u64) -> f64 {
    let load = f64::from(probes) * keys as f64 / cells as f64;
    (-(-load).exp_m1()).powi(i32::from(probes))
}

/// How to raise certainty with a median: so many rows, each of which may fail with so much
/// probability, that their median fails with at most `delta`, and that the cost, rows over the
/// probability of failure, is least. A row whose failure has variance `v / width` fails with at
/// most `v / (width x bound^2)` by Chebyshev's inequality, so the width is in inverse proportion to
/// that probability.
///
/// The papers take 1/4 or 1/3 for each row and bound the tail after Chernoff; the tail of the
/// binomial distribution itself asks for less than half of that memory.
pub(super) fn median_of_rows(delta: f64) -> (u8, f64) {
    let cost = |(rows, failure): &(u8, f64)| f64::from(*rows) / failure;
    (1..ROWS_MAX)
        .step_by(2)
        .map(|rows| (rows, most_failure(rows, delta)))
        .min_by(|one, other| cost(one).total_cmp(&cost(other)))
        .unwrap_or((1, delta))
}

/// The greatest probability of failure of a row with which more than half of the rows fail with at
/// most `delta`.
fn most_failure(rows: u8, delta: f64) -> f64 {
    let (mut low, mut high) = (0.0, 0.5);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if most_rows_fail(rows, middle) <= delta {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The probability that more than half of an odd number of rows fail, each with `failure`.
fn most_rows_fail(rows: u8, failure: f64) -> f64 {
    let rows = f64::from(rows);
    let mut weight = (rows * (-failure).ln_1p()).exp();
    let mut sum = 0.0;
    let mut failed = 0.0;
    while failed < rows {
        weight *= (rows - failed) / (failed + 1.0) * failure / (1.0 - failure);
        failed += 1.0;
        if failed > rows / 2.0 {
            sum += weight;
        }
    }
    sum
}

/// The middle one of an odd number of values.
pub(super) fn median<T: Copy + PartialOrd>(values: &mut [T]) -> Option<T> {
    let middle = values.len() / 2;
    let order = |one: &T, other: &T| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal);
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, order).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bloom_filters_are_sized_as_the_textbook_says() {
        assert_eq!(bloom(1000, 0.01).unwrap(), (9586, 7));
        assert_eq!(bloom(0, 0.5).unwrap(), (2, 2));
        let (cells, probes) = bloom(100_000, 1e-3).unwrap();
        let rate = bloom_rate(cells, probes, 100_000);
        assert!((0.000_99..0.001_01).contains(&rate), "{rate}");
        for rate in [0.0, 1.0, -1.0, f64::NAN] {
            assert!(bloom(5, rate).is_err(), "{rate}");
        }
        let message = bloom(u64::MAX, 0.01).unwrap_err().to_string();
        assert!(message.contains("fewer keys"), "{message}");
    }

    /// Three rows of which two must fail: 3 q^2 (1 - q) + q^3.
    #[test]
    fn medians_fail_as_seldom_as_asked() {
        let three = most_rows_fail(3, 0.1);
        assert!((three - 0.028).abs() < 1e-12, "{three}");
        for delta in [0.3, 0.1, 0.01, 1e-4, 1e-9] {
            let (rows, failure) = median_of_rows(delta);
            assert!(
                rows % 2 == 1 && failure > 0.99 * delta,
                "{delta}: {rows} {failure}"
            );
            let reached = most_rows_fail(rows, failure);
            assert!(reached <= delta && reached > 0.99 * delta, "{reached}");
        }
        assert_eq!(median(&mut [3, 1, 2]), Some(2));
        assert_eq!(median::<u8>(&mut []), None);
    }
}
