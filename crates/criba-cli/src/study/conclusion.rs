//! What follows from the numbers, in a sentence or two. Every figure in it was measured.

use criba::{FilterPolicy, FilterResidency};

use super::row::{Row, per};
use crate::choice::bytes_name;
use crate::grid::thousands;

/// Compares the best Bloomier filter with the Bloom filter that takes about as much memory, and with
/// no filter.
pub(crate) fn sentence(rows: &[Row], residency: FilterResidency) -> String {
    let none = rows.iter().find(|row| row.choice.is_none());
    let bloomier = best(rows, |row| {
        matches!(row.choice.policy(), FilterPolicy::Bloomier(_))
    });
    let bloom = bloomier.and_then(|bloomier| rival(rows, bloomier));
    let mut sentences = Vec::new();
    if let (FilterResidency::Pinned, Some(bloomier), Some(bloom)) = (residency, bloomier, bloom) {
        sentences.push(against_bloom(bloomier, bloom));
    }
    let filtered = bloomier.or_else(|| best(rows, |row| !row.choice.is_none()));
    if let (Some(row), Some(none)) = (filtered, none) {
        sentences.push(against_none(row, none));
    }
    if let Some(row) = filtered {
        sentences.extend(starved(row, residency));
    }
    if sentences.is_empty() {
        return "There is nothing to compare: choose none or a Bloom filter beside a Bloomier one."
            .into();
    }
    sentences.join(" ")
}

fn against_bloom(bloomier: &Row, bloom: &Row) -> String {
    format!(
        "An absent lookup costs {} reads with {} at {:.1} bits per key, {} with {} at {:.1}: {}.",
        reads(bloomier),
        bloomier.setting,
        bloomier.bits_per_key(),
        reads(bloom),
        bloom.setting,
        bloom.bits_per_key(),
        times_fewer(absent_reads(bloom), absent_reads(bloomier), bloomier)
    )
}

fn against_none(row: &Row, none: &Row) -> String {
    format!(
        "A present lookup costs {:.3} reads with {} and {:.3} without filters; an absent one {} and \
         {:.3}.",
        present_reads(row),
        row.setting,
        present_reads(none),
        reads(row),
        absent_reads(none)
    )
}

fn starved(row: &Row, residency: FilterResidency) -> Option<String> {
    let (present, absent) = (&row.counts.present, &row.counts.absent);
    let filters = thousands(row.memory.filter_bytes);
    let room = match residency {
        FilterResidency::Pinned => return None,
        FilterResidency::Cached { bytes } => {
            format!("{} for filters of {filters} bytes", bytes_name(bytes))
        }
        _ => format!("filters of {filters} bytes in the cache of data"),
    };
    Some(format!(
        "With {room}, a present lookup with {} reads {:.0} bytes, filter pages included, and an absent \
         one {:.0} for each run it asks.",
        row.setting,
        per(present.reads.bytes, present.lookups),
        per(absent.reads.bytes, absent.probes)
    ))
}

fn present_reads(row: &Row) -> f64 {
    per(row.counts.present.reads.calls, row.counts.present.lookups)
}

fn absent_reads(row: &Row) -> f64 {
    per(row.counts.absent.reads.calls, row.counts.absent.lookups)
}

fn reads(row: &Row) -> String {
    let reads = absent_reads(row);
    if reads == 0.0 {
        "no".into()
    } else {
        format!("{reads:.5}")
    }
}

/// The setting with the fewest reads for an absent key; of equals, the one with less memory.
fn best(rows: &[Row], wanted: impl Fn(&Row) -> bool) -> Option<&Row> {
    let order = |left: &&Row, right: &&Row| {
        let reads = |row: &Row| row.counts.absent.reads.calls;
        let memory = left.memory.filter_bytes.cmp(&right.memory.filter_bytes);
        reads(left).cmp(&reads(right)).then(memory)
    };
    rows.iter().filter(|row| wanted(row)).min_by(order)
}

/// The Bloom filter whose memory is nearest.
fn rival<'a>(rows: &'a [Row], bloomier: &Row) -> Option<&'a Row> {
    let distance = |row: &Row| (row.bits_per_key() - bloomier.bits_per_key()).abs();
    rows.iter()
        .filter(|row| matches!(row.choice.policy(), FilterPolicy::Bloom { .. }))
        .min_by(|left, right| distance(left).total_cmp(&distance(right)))
}

fn times_fewer(more: f64, fewer: f64, row: &Row) -> String {
    if fewer == 0.0 {
        return format!("not one in {} lookups", row.counts.absent.lookups);
    }
    let ratio = more / fewer;
    if ratio >= 1.0 {
        format!("{ratio:.1} times fewer")
    } else {
        format!("{:.1} times more", 1.0 / ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::row::tests::example;

    #[test]
    fn ratios_are_those_of_the_counts() {
        let rows = [
            example("none", 4000),
            example("bloom:10", 40),
            example("bloomier:block", 2),
        ];
        let text = sentence(&rows, FilterResidency::Pinned);
        assert!(text.contains("0.00200 reads with bloomier:block"), "{text}");
        assert!(text.contains("20.0 times fewer"), "{text}");
        assert!(
            text.contains("1.001 reads with bloomier:block and 3.000 without"),
            "{text}"
        );
    }

    #[test]
    fn a_starved_cache_is_judged_by_bytes() {
        let rows = [example("none", 4000), example("bloomier:block", 2)];
        let text = sentence(&rows, FilterResidency::Cached { bytes: 1 << 20 });
        assert!(
            text.contains("With 1MiB for filters of 10,020 bytes"),
            "{text}"
        );
        assert!(
            text.contains("reads 4100 bytes") && text.contains("absent one 2 for"),
            "{text}"
        );
        let text = sentence(&rows, FilterResidency::Shared);
        assert!(
            text.contains("With filters of 10,020 bytes in the cache of data"),
            "{text}"
        );
    }

    #[test]
    fn whatever_was_chosen_gives_a_sentence() {
        let none = example("none", 4000);
        let bloom = example("bloom:10", 40);
        let perfect = example("bloomier:slot", 0);
        let pinned = |rows: &[Row]| sentence(rows, FilterResidency::Pinned);
        assert!(pinned(&[bloom.clone(), perfect]).contains("not one in 1000"));
        assert!(pinned(&[none.clone(), bloom]).contains("without filters"));
        assert!(pinned(&[none]).contains("nothing to compare"));
        assert!(pinned(&[]).contains("nothing to compare"));
    }
}
