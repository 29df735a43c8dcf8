//! `inspect` and `explain`: what a store says about a segment and a lookup, for people and as JSON.

use criba::{BlockInfo, Inspection, SegmentStats, Stats};
use serde_json::Value;

use crate::args::{ExplainArgs, InspectArgs};
use crate::describe::{explanation, segment};
use crate::escape::Escaped;
use crate::exit::{Exit, Failure};
use crate::json::Object;
use crate::output::Output;
use crate::point::argument;
use crate::store;
use crate::what_if;

/// Longest key that is shown whole in a table, in characters.
const KEY_WIDTH: usize = 60;

pub(crate) fn inspect(args: &InspectArgs) -> Result<Exit, Failure> {
    let id = segment_number(&args.segment)?;
    let db = store::open_to_read(&args.store)?;
    let inspection = if db.stats().segments().any(|segment| segment.id == id) {
        db.inspect(id)?
    } else {
        return Err(no_such_segment(&db.stats(), id));
    };
    // After the inspection: its reads are counted too.
    let stats = db.stats();
    let Some(stats) = stats.segments().find(|segment| segment.id == id) else {
        return Err(no_such_segment(&stats, id));
    };
    let mut output = Output::stdout();
    if args.json {
        write_json(stats, &inspection, args.blocks, &mut output)?;
    } else {
        write_text(stats, &inspection, args.blocks, &mut output)?;
    }
    output.finish()?;
    let damaged = stats
        .filter
        .as_ref()
        .is_some_and(|filter| filter.damage.is_some());
    db.close()?;
    // Lookups go on without the filter, but whoever inspects wants to know.
    Ok(if damaged { Exit::Damaged } else { Exit::Done })
}

/// `12`, `000012` or `000012.seg`.
fn segment_number(text: &str) -> Result<u64, Failure> {
    let number = text.strip_suffix(".seg").unwrap_or(text);
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| digits).ok_or_else(|| {
        Failure::usage(format!(
            "{text} is no segment; give its number or file, 12 or 000012.seg"
        ))
    })
}

fn no_such_segment(stats: &Stats, id: u64) -> Failure {
    let mut ids: Vec<u64> = stats.segments().map(|segment| segment.id).collect();
    ids.sort_unstable();
    let advice = match (ids.first(), ids.last()) {
        (Some(first), Some(last)) => {
            format!(
                "the store has {} segments, {first:06} to {last:06}; see criba stats",
                ids.len()
            )
        }
        _ => "the store has none yet".into(),
    };
    Failure::usage(format!("there is no segment {id:06}: {advice}"))
}

fn write_json(
    stats: &SegmentStats,
    inspection: &Inspection,
    blocks: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let regions: Vec<Value> = inspection
        .regions
        .iter()
        .map(|region| {
            Object::new()
                .field("name", region.name)
                .field("offset", region.offset)
                .field("bytes", region.bytes)
                .into()
        })
        .collect();
    segment(stats).field("regions", regions).write(output)?;
    for block in inspection.blocks.iter().filter(|_| blocks) {
        Object::new()
            .field("block", block.ordinal)
            .field("offset", block.offset)
            .field("stored_bytes", block.stored_bytes)
            .field("payload_bytes", block.payload_bytes)
            .field("entries", block.entries)
            .field("groups", block.groups)
            .bytes("first_key", &block.first_key)
            .write(output)?;
    }
    Ok(())
}

fn write_text(
    stats: &SegmentStats,
    inspection: &Inspection,
    blocks: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    writeln!(output, "{stats}\nevery data block is intact")?;
    write_traffic(stats, output)?;
    writeln!(
        output,
        "\n{:<14} {:>14} {:>14}",
        "region", "offset", "bytes"
    )?;
    for region in &inspection.regions {
        writeln!(
            output,
            "{:<14} {:>14} {:>14}",
            region.name, region.offset, region.bytes
        )?;
    }
    let groups = inspection
        .blocks
        .iter()
        .map(|block| u64::from(block.groups))
        .max()
        .unwrap_or(1);
    writeln!(output, "\nwhat a filter would cost here, by calculation:")?;
    writeln!(
        output,
        "{:<14} {:>14} {:>28}",
        "filter", "bytes", "reads in vain for each absent"
    )?;
    for choice in what_if::choices(stats.keys, stats.blocks, groups) {
        writeln!(
            output,
            "{:<14} {:>14.0} {:>29.6}",
            choice.name, choice.bytes, choice.rate
        )?;
    }
    if !blocks {
        return Ok(());
    }
    writeln!(
        output,
        "\n{:>8} {:>12} {:>8} {:>8} {:>8} {:>7}  first key",
        "block", "offset", "bytes", "payload", "entries", "groups"
    )?;
    for block in &inspection.blocks {
        write_block(block, output)?;
    }
    Ok(())
}

/// What lookups met here, in all sessions.
fn write_traffic(stats: &SegmentStats, output: &mut Output) -> Result<(), Failure> {
    if let Some(filter) = &stats.filter {
        writeln!(
            output,
            "of {} lookups that asked the filter {} were answered without a block, {} found the key, \
             {} read a block in vain",
            filter.probes, filter.negatives, filter.true_positives, filter.false_positives
        )?;
    }
    writeln!(
        output,
        "{} lookups went on to the segments while this one was live; here they read {} blocks, {} bytes",
        stats.lookups, stats.block_reads, stats.block_bytes
    )
}

fn write_block(block: &BlockInfo, output: &mut Output) -> Result<(), Failure> {
    let mut key = Escaped(&block.first_key).to_string();
    if key.len() > KEY_WIDTH {
        key.truncate(KEY_WIDTH);
        key.push_str("...");
    }
    writeln!(
        output,
        "{:>8} {:>12} {:>8} {:>8} {:>8} {:>7}  {key}",
        block.ordinal,
        block.offset,
        block.stored_bytes,
        block.payload_bytes,
        block.entries,
        block.groups
    )
}

pub(crate) fn explain(args: &ExplainArgs) -> Result<Exit, Failure> {
    let key = argument("KEY", &args.key, args.unescape.unescape)?;
    let db = store::open_to_read(&args.store)?;
    let account = db.explain(&key)?;
    let mut output = Output::stdout();
    if args.json {
        explanation(&account).write(&mut output)?;
    } else {
        writeln!(output, "{account}")?;
    }
    output.finish()?;
    db.close()?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_named_either_way() {
        for text in ["12", "000012", "000012.seg"] {
            assert_eq!(segment_number(text).unwrap(), 12);
        }
        for text in [
            "",
            ".seg",
            "12.journal",
            "+12",
            "-1",
            "1 2",
            "99999999999999999999999",
        ] {
            assert!(segment_number(text).is_err(), "{text}");
        }
    }
}
