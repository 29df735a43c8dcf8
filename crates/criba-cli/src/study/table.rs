//! The results for a person at a terminal: an aligned table, its legend, and what follows from it.

use super::conclusion;
use super::row::{Row, Setup, per};
use crate::choice::{bytes_name, residency_name};
use crate::clock::{median, spread};
use crate::escape::Escaped;
use crate::grid::{NONE, Table, number, rate, thousands};

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
    let filtered = !row.choice.is_none();
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
    let mut text = format!(
        "{}\n\n{}\n",
        heading(rows, setup),
        table.in_halves(1, UPPER_GROUPS)
    );
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::row::tests::example;

    #[test]
    fn columns_are_aligned() {
        let rows = [example("none", 4000), example("bloom:10", 40)];
        let text = table(&rows).in_halves(1, UPPER_GROUPS);
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
