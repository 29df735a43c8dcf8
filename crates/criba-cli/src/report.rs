//! `inspect` and `explain`: what a store says about a segment and a lookup, for people and as JSON.

use criba::{BlockInfo, Error, Inspection, Keyspace, SegmentStats};
use serde_json::Value;

use crate::args::{ExplainArgs, InspectArgs};
use crate::describe::{explanation, segment};
use crate::escape::Escaped;
use crate::exit::{Exit, Failure};
use crate::json::Object;
use crate::keyspaces::{self, Name, quoted};
use crate::output::Output;
use crate::point::argument;
use crate::store;
use crate::what_if;

/// Longest key that is shown whole in a table, in characters.
const KEY_WIDTH: usize = 60;

pub(crate) fn inspect(args: &InspectArgs) -> Result<Exit, Failure> {
    let id = segment_number(&args.segment)?;
    let name = Name::given(&args.place, &args.unescape)?;
    let db = store::open_to_read(&args.store)?;
    let searched = if args.place.keyspace.is_some() {
        keyspaces::check_there(&db, &name)?;
        vec![keyspaces::open(&db, &name, None)?]
    } else {
        keyspaces::open_all(&db)?
    };
    let Some((keyspace, inspection)) = find_segment(&searched, id)? else {
        return Err(no_such_segment(&searched, id));
    };
    // After the inspection: its reads are counted too.
    let stats = keyspace.stats();
    let Some(stats) = stats.segments().find(|segment| segment.id == id) else {
        return Err(no_such_segment(&searched, id));
    };
    let mut output = Output::stdout();
    if args.json {
        let object = segment(stats).field("keyspace", keyspace.name());
        write_json(object, &inspection, args.blocks, &mut output)?;
    } else {
        writeln!(output, "keyspace {}", quoted(keyspace.name().as_bytes()))?;
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

/// Segments have numbers of their own in the whole store, so one keyspace has it at most.
fn find_segment(
    searched: &[Keyspace],
    id: u64,
) -> Result<Option<(&Keyspace, Inspection)>, Failure> {
    for keyspace in searched {
        match keyspace.inspect(id) {
            Ok(inspection) => return Ok(Some((keyspace, inspection))),
            // It is not in this one.
            Err(Error::Invalid(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn no_such_segment(searched: &[Keyspace], id: u64) -> Failure {
    let [keyspace] = searched else {
        return Failure::usage(format!(
            "there is no segment {id:06} in any keyspace; see criba stats STORE --keyspace NAME"
        ));
    };
    let stats = keyspace.stats();
    let mut ids: Vec<u64> = stats.segments().map(|segment| segment.id).collect();
    ids.sort_unstable();
    let name = quoted(keyspace.name().as_bytes());
    let advice = match (ids.first(), ids.last()) {
        (Some(first), Some(last)) => {
            format!(
                "the keyspace {name} has {} segments, {first:06} to {last:06}; see criba stats",
                ids.len()
            )
        }
        _ => format!("the keyspace {name} has none yet"),
    };
    Failure::usage(format!("there is no segment {id:06}: {advice}"))
}

fn write_json(
    segment: Object,
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
    segment.field("regions", regions).write(output)?;
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
    let name = Name::given(&args.place, &args.unescape)?;
    let (db, keyspace) = store::read_in(&args.store, &name)?;
    let account = keyspace.explain(&key)?;
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
