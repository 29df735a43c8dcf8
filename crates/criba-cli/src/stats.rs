//! `stats`: what a store says about itself, level by level and segment by segment, for people, as
//! JSON and as a page.

use std::path::Path;

use criba::{CacheStats, RunStats, SegmentStats, Stats};
use serde_json::Value;

use crate::args::StatsArgs;
use crate::describe::stats as stats_object;
use crate::escape::Escaped;
use crate::exit::{Exit, Failure};
use crate::files;
use crate::grid::{NONE, Table, number, rate, small, thousands};
use crate::keyspaces::{self, Name, Size, quoted};
use crate::levels::{Level, expected_wasted_reads, levels};
use crate::output::Output;
use crate::page::{self, figure};
use crate::plot::{self, LogBars};
use crate::store;

/// Longest key that is shown whole on a page, in characters.
const KEY_WIDTH: usize = 40;

pub(crate) fn stats(args: &StatsArgs) -> Result<Exit, Failure> {
    let name = Name::given(&args.place, &args.unescape)?;
    if let Some(path) = &args.html {
        files::check_report(path)?;
    }
    let (db, keyspace) = store::read_in(&args.store, &name)?;
    let (stats, live_keys) = (keyspace.stats(), keyspace.approximate_len());
    let keyspaces = match (&args.place.keyspace, db.keyspaces().len()) {
        (Some(_), _) => Vec::new(),
        (None, 1) => Size::all(&db)?,
        // A second reader, and no writer between the two.
        (None, _) => Size::all(&store::open_to_list(&args.store)?)?,
    };
    if let Some(path) = &args.html {
        files::write_report(path, &html(&stats, live_keys, &keyspaces, &args.store)?)?;
    }
    let mut output = Output::stdout();
    if args.json {
        let mut object = stats_object(&stats, live_keys);
        if args.place.keyspace.is_none() {
            let sizes = keyspaces.iter().map(|size| size.object().into());
            object = object.field("keyspaces", sizes.collect::<Vec<Value>>());
        }
        object.write(&mut output)?;
    } else {
        write_text(&stats, live_keys, &keyspaces, &mut output)?;
    }
    output.finish()?;
    db.close()?;
    Ok(Exit::Done)
}

fn write_text(
    stats: &Stats,
    live_keys: u64,
    keyspaces: &[Size],
    output: &mut Output,
) -> Result<(), Failure> {
    writeln!(output, "keyspace {}", quoted(stats.keyspace.as_bytes()))?;
    write!(output, "{stats}")?;
    write_recovery(stats, output)?;
    write!(output, "\n{}", level_table(&levels(stats)).whole(1))?;
    for line in totals(stats, live_keys) {
        writeln!(output, "  {line}")?;
    }
    if keyspaces.len() > 1 {
        // The line of groups is empty.
        write!(output, "{}", keyspaces::table(keyspaces).whole(1))?;
    }
    Ok(())
}

fn level_table(levels: &[Level]) -> Table {
    let cells = |level: &Level| {
        vec![
            level.level.to_string(),
            level.runs.to_string(),
            level.segments.to_string(),
            thousands(level.keys),
            thousands(level.entries),
            thousands(level.file_bytes),
            number(level.space_amplification(), 2),
            level.kinds(),
            number(level.r_bits(), 2),
            number(level.bits_per_key(), 2),
            rate(level.designed_rate()),
            rate(level.measured_rate()),
            small(level.reads_per_lookup.unwrap_or(f64::NAN)),
            thousands(level.negatives),
            thousands(level.false_positives),
        ]
    };
    Table {
        groups: vec![
            ("", 7),
            ("filters, bits per key", 3),
            ("false positives of a run", 2),
            ("block reads", 3),
        ],
        heads: vec![
            "level",
            "runs",
            "segments",
            "keys",
            "entries",
            "bytes",
            "space",
            "kind",
            "r",
            "memory",
            "designed",
            "measured",
            "per lookup",
            "saved",
            "wasted",
        ],
        rows: levels.iter().map(cells).collect(),
    }
}

fn segment_table(stats: &Stats) -> Table {
    let mut rows = Vec::new();
    for (ordinal, run) in stats.runs.iter().enumerate() {
        for segment in &run.segments {
            rows.push(segment_cells(segment, run.level, ordinal));
        }
    }
    Table {
        groups: vec![("", 8), ("filter", 6)],
        heads: vec![
            "segment",
            "level",
            "run",
            "keys",
            "tombstones",
            "bytes",
            "first key",
            "last key",
            "kind",
            "r",
            "designed",
            "measured",
            "saved",
            "wasted",
        ],
        rows,
    }
}

fn segment_cells(segment: &SegmentStats, level: u32, run: usize) -> Vec<String> {
    let mut cells = vec![
        format!("{:06}", segment.id),
        level.to_string(),
        run.to_string(),
        thousands(segment.keys),
        thousands(segment.tombstones),
        thousands(segment.file_bytes),
        shortened(&segment.first_key),
        shortened(&segment.last_key),
    ];
    if segment.damage.is_some() {
        cells.push("DAMAGED".into());
    }
    match segment.filter.as_ref().filter(|_| segment.damage.is_none()) {
        None => cells.resize(14, NONE.into()),
        Some(filter) => {
            let kind = match &filter.damage {
                Some(_) => "DAMAGED",
                None => filter.kind,
            };
            cells.extend([
                kind.into(),
                number(filter.r_bits, 2),
                rate(filter.designed_rate),
                rate(filter.measured_rate().unwrap_or(f64::NAN)),
                thousands(filter.negatives),
                thousands(filter.false_positives),
            ]);
        }
    }
    cells
}

fn shortened(key: &[u8]) -> String {
    let mut text = Escaped(key).to_string();
    if text.len() > KEY_WIDTH {
        text.truncate(KEY_WIDTH);
        text.push_str("...");
    }
    text
}

/// What holds for the tree as a whole, a line each.
fn totals(stats: &Stats, live_keys: u64) -> Vec<String> {
    let levels = levels(stats);
    let bytes: u64 = levels.iter().map(|level| level.file_bytes).sum();
    let keys: u64 = levels.iter().map(|level| level.keys).sum();
    let saved: u64 = levels.iter().map(|level| level.negatives).sum();
    let damaged: u64 = levels.iter().map(|level| level.damaged).sum();
    let mut lines = vec![
        format!(
            "an absent lookup is expected to read {} blocks in vain, by calculation from the filters",
            small(expected_wasted_reads(&levels))
        ),
        format!(
            "filters have saved {} block reads: lookups of a segment answered without one",
            thousands(saved)
        ),
    ];
    lines.extend(amplification(stats));
    lines.push(format!(
        "about {} keys are live, by estimate; segments hold {}, {} of each live one, in {} bytes",
        thousands(live_keys),
        thousands(keys),
        number(keys as f64 / live_keys as f64, 2),
        thousands(bytes)
    ));
    if damaged > 0 {
        lines.push(format!(
            "{damaged} segments are damaged, or their filters are"
        ));
    }
    lines
}

/// What the tree costs for each byte and each lookup.
fn amplification(stats: &Stats) -> [String; 3] {
    let (compactions, lookups) = (&stats.compactions, &stats.lookups);
    let known = |value: Option<f64>, text: fn(f64) -> String| value.map_or("unknown".into(), text);
    let two = |value| number(value, 2);
    let sum = |bytes: fn(&RunStats) -> u64| thousands(stats.runs.iter().map(bytes).sum());
    [
        format!(
            "space amplification {}: {} bytes of segment files, of which live entries take about {}",
            known(stats.space_amplification(), two),
            sum(RunStats::file_bytes),
            sum(|run| run.live_bytes)
        ),
        format!(
            "read amplification {} blocks from storage for each lookup, in all sessions; \
             {} for each hit and {} for each absent key since open",
            known(stats.read_amplification(), small),
            known(lookups.reads_per_hit(), small),
            known(lookups.reads_per_absent(), small)
        ),
        format!(
            "write amplification {} in all sessions: {} bytes flushed and {} merged for {} committed",
            known(compactions.write_amplification(), two),
            thousands(compactions.flushed_bytes),
            thousands(compactions.merged_bytes),
            thousands(compactions.user_bytes)
        ),
    ]
}

/// What the store did since it was opened, for the page; as text, the library says it.
fn work(stats: &Stats) -> Vec<String> {
    let (compactions, stalls) = (&stats.compactions, &stats.stalls);
    vec![
        format!(
            "compactions since open: {} merges in {} parts, {} moves, {} segments dropped; {} bytes wait",
            compactions.merges,
            compactions.parts,
            compactions.moves,
            compactions.dropped,
            thousands(compactions.debt_bytes)
        ),
        cache("blocks", &stats.block_cache),
        cache("entries", &stats.entry_cache),
        cache("filter pages", &stats.filter_cache),
        format!(
            "stalls since open: {} writes slowed for {:?}, {} stopped for {:?}",
            stalls.slowed, stalls.slowed_time, stalls.stopped, stalls.stopped_time
        ),
    ]
}

fn cache(name: &str, cache: &CacheStats) -> String {
    format!(
        "cache of {name}: {} of {} bytes, {} hits and {} misses since open",
        thousands(cache.bytes),
        thousands(cache.capacity_bytes),
        thousands(cache.hits),
        thousands(cache.misses)
    )
}

fn html(
    stats: &Stats,
    live_keys: u64,
    keyspaces: &[Size],
    store: &Path,
) -> Result<String, Failure> {
    let levels = levels(stats);
    let names: Vec<String> = levels
        .iter()
        .map(|level| format!("level {}", level.level))
        .collect();
    let values = |value: fn(&Level) -> f64| levels.iter().map(value).collect();
    let bars = LogBars {
        series: vec![
            (plot::BLOOM, values(Level::measured_rate)),
            (plot::NONE, values(Level::designed_rate)),
        ],
        names: names.iter().map(String::as_str).collect(),
    };
    let keys = [
        (
            "first",
            "measured: wasted reads of all lookups that asked for an absent key",
        ),
        ("none", "designed: calculated when the filters were built"),
    ];
    let title = "False positives of a run, level by level, log scale";
    let others = match keyspaces {
        [] | [_] => String::new(),
        all => format!(
            "<h2>Keyspaces</h2>\n{}",
            page::table(&keyspaces::table(all))
        ),
    };
    let body = format!(
        "<h1>A store, level by level</h1>\n<p>{store}, keyspace {keyspace}</p>\n\
         {levels}{totals}{figure}<h2>Segments</h2>\n{segments}{others}<p class=\"foot\">criba {version}, \
         <code>criba stats</code>.</p>\n",
        store = page::escape(&store.display().to_string()),
        keyspace = page::escape(&quoted(stats.keyspace.as_bytes())),
        levels = page::table(&level_table(&levels)),
        totals = page::list(&[totals(stats, live_keys), work(stats)].concat()),
        figure = figure(title, &bars.draw()?, &keys),
        segments = page::table(&segment_table(stats)),
        version = env!("CARGO_PKG_VERSION"),
    );
    Ok(page::page("criba stats", &body))
}

fn write_recovery(stats: &Stats, output: &mut Output) -> Result<(), Failure> {
    let recovery = &stats.recovery;
    let end = if recovery.clean {
        "closed"
    } else {
        "not closed"
    };
    writeln!(
        output,
        "opened   last user {end}; {} batches with {} operations replayed",
        recovery.batches, recovery.operations
    )?;
    for torn in &recovery.torn {
        writeln!(
            output,
            "torn     {} from byte {}: {} bytes dropped, never acknowledged as durable",
            torn.path.display(),
            torn.offset,
            torn.dropped_bytes
        )?;
    }
    for name in &recovery.unknown_files {
        writeln!(
            output,
            "unknown  {} is not the store's; left alone",
            Escaped(name.as_bytes())
        )?;
    }
    for name in &recovery.removed_files {
        writeln!(output, "removed  {}", Escaped(name.as_bytes()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::tests::two_runs;

    #[test]
    fn levels_and_segments_are_tables() {
        let db = two_runs(1000);
        for key in 0..100 {
            assert!(db.get(format!("{key:08}x")).unwrap().is_none());
        }
        let stats = db.stats();
        for table in [level_table(&levels(&stats)), segment_table(&stats)] {
            assert!(!table.rows.is_empty());
            assert!(table.rows.iter().all(|row| row.len() == table.heads.len()));
            let spans = table.groups.iter().map(|group| group.1).sum::<usize>();
            assert_eq!(spans, table.heads.len());
        }
        let text = totals(&stats, 2000).join("\n");
        for kind in ["write", "space", "read"] {
            assert!(text.contains(&format!("{kind} amplification ")), "{text}");
        }
        assert!(!text.contains("damaged"), "{text}");
    }

    #[test]
    fn the_page_stands_alone_and_escapes() {
        let db = criba::Db::builder("memory")
            .storage(std::sync::Arc::new(criba::sim::Memory::new()))
            .open()
            .unwrap();
        let empty = html(&db.stats(), 1, &[], Path::new("a<b>")).unwrap();
        assert!(empty.contains("a&lt;b&gt;"));
        db.put("<script>", "value").unwrap();
        db.flush().unwrap();
        let page = html(&db.stats(), 1, &[], Path::new("x")).unwrap();
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
        for foreign in ["src=", "href=", "url(", "@import"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}
