//! The results for a person at a terminal.

use super::conclusion::{part, sentence};
use super::keys::KEY_BYTES;
use super::load::{base_bytes, run_keys};
use super::row::Row;
use crate::choice::bytes_name;
use crate::grid::{NONE, Table, number, small, thousands};
use crate::study::args::StudyArgs;

/// Groups that name a row, and those of the upper half: the tree and its memory, the wasted reads.
const NAME_GROUPS: usize = 1;
const UPPER_GROUPS: usize = 3;

pub(super) fn table(rows: &[Row], args: &StudyArgs) -> Table {
    Table {
        groups: vec![
            ("", 2),
            ("tree", 4),
            ("bits per key", 2),
            ("wasted reads per absent lookup", 4),
            ("present", 1),
            ("amplification", 2),
            ("build", 1),
        ],
        heads: vec![
            "strategy",
            "filter",
            "keys",
            "levels",
            "runs",
            "segs",
            "r",
            "memory",
            "calculated",
            "measured",
            "counted",
            "/ bloom",
            "reads",
            "write",
            "space",
            "s",
        ],
        rows: rows.iter().map(|row| cells(row, args)).collect(),
    }
}

fn cells(row: &Row, args: &StudyArgs) -> Vec<String> {
    vec![
        row.strategy_name().into(),
        row.filter.name(),
        thousands(row.keys),
        row.levels.len().to_string(),
        row.runs().to_string(),
        row.memory.segments.to_string(),
        number(row.memory.r_bits, 2),
        number(row.bits_per_key(), 2),
        small(row.expected_wasted_reads()),
        small(row.wasted_reads()),
        row.counts.absent.data.calls.to_string(),
        row.ratio_to_bloom.map_or_else(|| NONE.into(), part),
        number(row.reads_per_present(), 4),
        number(row.write_amplification, 1),
        number(row.space_amplification(live_bytes(row.keys, args)), 3),
        number(row.load_time.as_secs_f64(), 1),
    ]
}

/// Level by level: how many runs share how many keys, with how many bits, and what they let
/// through.
pub(super) fn level_table(rows: &[Row]) -> Table {
    let cells = rows.iter().flat_map(|row| {
        row.levels.iter().map(|level| {
            vec![
                row.strategy_name().into(),
                row.filter.name(),
                thousands(row.keys),
                level.level.to_string(),
                level.runs.to_string(),
                thousands(level.keys),
                number(level.r_bits(), 2),
                small(level.designed),
                small(row.wasted_in(level)),
            ]
        })
    });
    Table {
        groups: vec![("", 3), ("", 4), ("wasted reads per absent", 2)],
        heads: vec![
            "strategy",
            "filter",
            "loaded",
            "level",
            "runs",
            "keys",
            "r",
            "calculated",
            "measured",
        ],
        rows: cells.collect(),
    }
}

/// Bytes of the keys and values that are there.
pub(super) fn live_bytes(keys: u64, args: &StudyArgs) -> u64 {
    keys * (KEY_BYTES as u64 + args.value_bytes)
}

/// The lines above the table: what was loaded, and how it was looked up.
pub(super) fn heading(rows: &[Row], args: &StudyArgs) -> String {
    let lookups = rows.iter().map(|row| row.counts.absent.lookups);
    let (least, most) = (lookups.clone().min(), lookups.max());
    let absent = match (least.unwrap_or(0), most.unwrap_or(0)) {
        (least, most) if least == most => thousands(least),
        (least, most) => format!("{} to {}", thousands(least), thousands(most)),
    };
    format!(
        "input generated: {} keys in random order, values of {} bytes; a run is flushed every \
         {} keys (memtable {}), first level {}, ratio {}\n{absent} lookups of absent keys, each another one, and {} of present ones after \
         compaction, all answers right; filters pinned, block cache off, seed {}",
        thousands(args.keys),
        args.value_bytes,
        thousands(run_keys(args)),
        bytes_name(args.memtable_bytes),
        bytes_name(base_bytes(args)),
        args.ratio,
        thousands(args.lookups),
        args.seed
    )
}

/// What the columns mean, a line for each.
pub(super) fn legend() -> Vec<String> {
    let lines = [
        "bloom, bloomier-uniform: the same bits for every key; budget: Bloomier filters that share \
         the same bits of memory out over the runs. The tree is the same, of the same files: it \
         was written with the budget, the uniform filters were then built over it",
        "levels: that hold runs, level 0 among them; r: payload bits of a key, the mean over all \
         keys; memory: bits a key takes in memory, overhead included",
        "calculated: the sum of the designed rates of the runs, each weighted by keys over its \
         segments; a calculation from the filters that are there",
        "measured: data blocks read in vain, counted by the storage, for each absent lookup; \
         counted: how many these were in all",
        "/ bloom: measured, beside the uniform Bloom filter with the same strategy",
        "reads: of any cause for each present lookup",
        "write: bytes written to segments for each byte committed; space: bytes of segments for \
         each byte of live keys and values (nothing was overwritten)",
        "build: seconds to load and to settle",
    ];
    lines.map(str::to_owned).into()
}

/// Everything that is printed.
pub(super) fn text(rows: &[Row], args: &StudyArgs) -> String {
    let mut text = format!(
        "{}\n\n{}\n{}\n",
        heading(rows, args),
        table(rows, args).in_halves(NAME_GROUPS, 1 + UPPER_GROUPS),
        level_table(rows).whole(NAME_GROUPS + 1)
    );
    for line in legend() {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str(&format!("\n{}\n", sentence(rows)));
    text
}

#[cfg(test)]
mod tests {
    use super::super::row::rows_with_ratios;
    use super::super::row::tests::{example, small_args};
    use super::*;

    #[test]
    fn everything_is_said() {
        let rows = rows_with_ratios(vec![
            example("leveled", "bloom", 8000),
            example("leveled", "budget", 400),
            example("tiered", "budget", 40),
        ]);
        let args = small_args();
        let text = text(&rows, &args);
        for expected in [
            "1/20.0",
            "0.00200",
            "lazy",
            "calculated",
            "all answers right",
        ] {
            let is_there = text.contains(expected);
            assert_eq!(is_there, expected != "lazy", "{expected} in {text}");
        }
        for table in [table(&rows, &args), level_table(&rows)] {
            assert!(table.rows.iter().all(|row| row.len() == table.heads.len()));
            let spans = table.groups.iter().map(|group| group.1).sum::<usize>();
            assert_eq!(spans, table.heads.len());
        }
        let tables = text.lines().filter(|line| line.starts_with("leveled "));
        assert!(tables.clone().count() == 8);
        assert!(tables.into_iter().all(|line| line.len() <= 110), "{text}");
    }
}
