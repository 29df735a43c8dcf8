//! The results for a person at a terminal: an aligned table, its legend, and what follows from it.

use criba::FilterPolicy;

use super::conclusion;
use super::cpu::{median, spread};
use super::row::{Row, Setup, per};
use crate::choice::{bytes_name, residency_name};
use crate::escape::Escaped;

/// What a table has in common with the page: heads and cells, as text.
pub(crate) struct Table {
    /// Two lines of heads, the upper one over groups.
    pub(crate) groups: Vec<(&'static str, usize)>,
    pub(crate) heads: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// What stands where a setting has no number.
const NONE: &str = "-";

pub(crate) fn table(rows: &[Row]) -> Table {
    Table {
        groups: vec![
            ("", 1),
            ("bits per key", 2),
            ("present lookup", 3),
            ("absent lookup", 3),
            ("false positives", 2),
            ("build", 1),
            ("CPU / none", 2),
        ],
        heads: vec![
            "setting", "r", "memory", "reads", "in run", "bytes", "reads", "bytes", "/probe",
            "measured", "designed", "ns/key", "present", "absent",
        ],
        rows: rows.iter().map(cells).collect(),
    }
}

fn cells(row: &Row) -> Vec<String> {
    let (present, absent) = (&row.counts.present, &row.counts.absent);
    let filtered = row.policy != FilterPolicy::None;
    let if_filtered = |text: String| if filtered { text } else { NONE.into() };
    vec![
        row.setting.clone(),
        if_filtered(number(row.memory.r_bits, 2)),
        number(row.bits_per_key(), 2),
        number(per(present.reads.calls, present.lookups), 4),
        number(row.holder_reads(), 4),
        number(per(present.reads.bytes, present.lookups), 0),
        number(per(absent.reads.calls, absent.lookups), 5),
        number(per(absent.reads.bytes, absent.lookups), 0),
        number(per(absent.reads.bytes, absent.probes), 1),
        rate(row.false_positive_rate),
        rate(row.designed_rate),
        if_filtered(number(row.build_ns_per_key(), 0)),
        number(median(&row.cpu.present), 2),
        number(median(&row.cpu.absent), 2),
    ]
}

fn number(value: f64, decimals: usize) -> String {
    if value.is_finite() {
        format!("{value:.decimals$}")
    } else {
        NONE.into()
    }
}

/// A probability in percent, with at least three digits that count.
fn rate(value: f64) -> String {
    let percent = value * 100.0;
    let decimals = match percent {
        _ if percent >= 10.0 => 1,
        _ if percent >= 1.0 => 2,
        _ if percent >= 0.1 => 3,
        _ if percent >= 0.01 || percent == 0.0 => 4,
        _ => 5,
    };
    if percent.is_finite() {
        format!("{percent:.decimals$}%")
    } else {
        NONE.into()
    }
}

/// The lines above the table: what was loaded, and how it was looked up.
pub(crate) fn heading(rows: &[Row], setup: &Setup<'_>) -> String {
    let (args, work) = (setup.args, setup.work);
    let lookups = rows.first().map_or(0, |row| row.counts.present.lookups);
    let blocks = rows.first().map_or(0, |row| row.memory.blocks);
    let mut text = format!(
        "input {}: {} keys in {} runs ({} data blocks of about {} bytes), values of {} bytes",
        Escaped(work.name.as_bytes()),
        thousands(work.present.len() as u64),
        work.parts.len(),
        thousands(blocks),
        args.block_bytes,
        args.value_bytes
    );
    if work.skipped_long > 0 {
        text.push_str(&format!(
            "; {} lines too long for keys",
            thousands(work.skipped_long)
        ));
    }
    text.push_str(&format!(
        "\n{} lookups of present and as many of {} absent keys{}, all answers right; filters {}, block \
         cache {}, seed {}",
        thousands(lookups),
        thousands(work.absent.len() as u64),
        match lookups.div_ceil(work.absent.len() as u64) {
            0 | 1 => String::new(),
            times => format!(" (up to {} times each)", thousands(times)),
        },
        residency_name(args.residency),
        if args.cache_bytes == 0 { "off".into() } else { bytes_name(args.cache_bytes) },
        args.seed
    ));
    text
}

/// What the columns mean, a line for each.
pub(crate) fn legend(rows: &[Row], setup: &Setup<'_>) -> Vec<String> {
    let spreads = rows
        .iter()
        .flat_map(|row| [spread(&row.cpu.present), spread(&row.cpu.absent)]);
    let widest = spreads
        .filter(|spread| spread.is_finite())
        .fold(0.0, f64::max);
    vec![
        "r: payload bits of a key; memory: bits a key takes in memory, overhead included".into(),
        "reads: reads of data blocks and filter pages for each lookup, counted by the storage"
            .into(),
        "in run: of these, data blocks in the run that has the key; a lookup stops at the first"
            .into(),
        "/probe: bytes for each run that an absent lookup asks".into(),
        "false positives: data blocks read in vain, of all filters asked for an absent key".into(),
        format!(
            "CPU / none: {} time of a lookup beside no filter, median of rounds that take turns; \
             middle half within {:.0} %",
            setup.clock.name(),
            widest * 100.0
        ),
    ]
}

/// Everything that is printed.
pub(crate) fn text(rows: &[Row], setup: &Setup<'_>) -> String {
    let table = table(rows);
    let mut text = format!("{}\n\n{}\n", heading(rows, setup), align(&table));
    for line in legend(rows, setup) {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str(&format!(
        "\n{}\n",
        conclusion::sentence(rows, setup.args.residency)
    ));
    text
}

/// Groups of the upper half: what is read. The rest goes below, so that a line fits a terminal.
const UPPER_GROUPS: usize = 4;

fn align(table: &Table) -> String {
    let spans = |groups: &[(&str, usize)]| groups.iter().map(|group| group.1).sum::<usize>();
    let (upper, lower) = table.groups.split_at(UPPER_GROUPS);
    let middle = spans(upper);
    let mut columns: Vec<usize> = (0..middle).collect();
    let text = align_part(table, upper, &columns);
    let lower: Vec<_> = table.groups.iter().take(1).chain(lower).copied().collect();
    columns = std::iter::once(0)
        .chain(middle..table.heads.len())
        .collect();
    format!("{text}\n{}", align_part(table, &lower, &columns))
}

fn align_part(table: &Table, groups: &[(&str, usize)], columns: &[usize]) -> String {
    let heads: Vec<String> = table.heads.iter().map(|head| (*head).to_owned()).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&heads).chain(&table.rows).collect();
    let widths: Vec<usize> = columns
        .iter()
        .map(|&column| {
            lines
                .iter()
                .map(|line| line[column].len() + 2)
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    let mut rest = widths.as_slice();
    for &(name, span) in groups {
        let (own, after) = rest.split_at(span.min(rest.len()));
        text.push_str(&format!(
            "{name:>width$}",
            width = own.iter().sum::<usize>()
        ));
        rest = after;
    }
    for line in lines {
        text.push('\n');
        for (place, (&column, &width)) in columns.iter().zip(&widths).enumerate() {
            let cell = &line[column];
            match place {
                0 => text.push_str(&format!("{cell:<width$}")),
                _ => text.push_str(&format!("{cell:>width$}")),
            }
        }
    }
    text.lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// 1234567 as 1,234,567.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::row::tests::example;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            ["0", "999", "1,000", "12,345,678"],
            [0, 999, 1000, 12_345_678].map(thousands)
        );
        assert_eq!(rate(0.0), "0.0000%");
        assert_eq!(rate(0.00949), "0.949%");
        assert_eq!(rate(0.000_244), "0.0244%");
        assert_eq!(rate(0.000_030_5), "0.00305%");
        assert_eq!(rate(1.0), "100.0%");
        assert_eq!(rate(f64::NAN), "-");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [example("none", 4000), example("bloom:10", 40)];
        let text = align(&table(&rows));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 * 4 + 1);
        for half in lines.split(|line| line.is_empty()) {
            assert!(
                half[1..].iter().all(|line| line.len() == half[1].len()),
                "{text}"
            );
        }
        assert!(lines.iter().all(|line| line.len() <= 80), "{text}");
        let table = table(&rows);
        assert!(table.rows.iter().all(|row| row.len() == table.heads.len()));
        assert_eq!(
            table.groups.iter().map(|group| group.1).sum::<usize>(),
            table.heads.len()
        );
    }
}
