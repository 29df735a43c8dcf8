//! What follows from the numbers, in a sentence for each strategy. Every figure in it was measured.

use super::row::Row;
use crate::grid::{small, thousands};

/// Budget against the uniform Bloom filter.
pub(super) fn sentence(rows: &[Row]) -> String {
    let sentences: Vec<String> = rows.iter().filter_map(of_budget).collect();
    if sentences.is_empty() {
        return "There is nothing to compare: choose bloom and budget for one strategy.".into();
    }
    sentences.join(" ")
}

fn of_budget(row: &Row) -> Option<String> {
    let ratio = row
        .ratio_to_bloom
        .filter(|_| row.allocation() == "budget")?;
    let expected = row.expected_ratio_to_bloom?;
    Some(format!(
        "{}, {} runs of {} keys: with a budget an absent lookup reads {} blocks in vain at {:.2} bits per key, {} of \
         the uniform Bloom filter's ({} by calculation).",
        row.strategy_name(),
        row.runs(),
        thousands(row.keys),
        small(row.wasted_reads()),
        row.bits_per_key(),
        part(ratio),
        part(expected)
    ))
}

/// 0.05 as 1/20.0.
pub(super) fn part(ratio: f64) -> String {
    if ratio == 0.0 {
        return "none".into();
    }
    if ratio > 0.95 {
        return format!("{ratio:.2}");
    }
    format!("1/{:.1}", 1.0 / ratio)
}

#[cfg(test)]
mod tests {
    use super::super::row::rows_with_ratios;
    use super::super::row::tests::example;
    use super::*;

    #[test]
    fn ratios_are_those_of_the_counts() {
        let rows = rows_with_ratios(vec![
            example("leveled", "bloom", 8000),
            example("leveled", "budget", 400),
            example("lazy-leveled", "budget", 400),
        ]);
        let text = sentence(&rows);
        assert!(
            text.contains("reads 0.00200 blocks in vain at 10.40 bits"),
            "{text}"
        );
        assert!(text.contains("1/20.0 of the uniform"), "{text}");
        assert!(!text.contains("lazy"), "{text}");
        assert!(sentence(&rows[..1]).contains("nothing to compare"));
        assert_eq!(
            [0.0, 1.0, 1.5, 0.02].map(part),
            ["none", "1.00", "1.50", "1/50.0"]
        );
    }
}
