//! What is said at the end of an ingest.

use std::sync::atomic::Ordering;

use criba::storage::ReadCause;
use indicatif::HumanBytes;
use serde_json::{Value, json};

use crate::ingest::Run;
use crate::keys::Table;
use crate::report::{self, Totals};

/// Numbers of the store itself.
struct Store {
    index_read: u64,
    data_reads: u64,
    index_written: u64,
    pack_read: u64,
    pack_written: u64,
}

impl Store {
    fn of(run: &Run<'_>) -> Store {
        let stats = run.archive.db.stats();
        let packs = &run.archive.packs;
        Store {
            index_read: stats.reads.sum().bytes,
            data_reads: stats.reads.get(ReadCause::Data).calls,
            index_written: stats.written_bytes,
            pack_read: packs.read_bytes.load(Ordering::Relaxed),
            pack_written: packs.written_bytes.load(Ordering::Relaxed),
        }
    }
}

/// What a run did, as it was asked for.
pub(crate) fn of(run: &mut Run<'_>, totals: &Totals) -> String {
    match run.args.store.json {
        true => format!("{}\n", json(run, totals)),
        false => text(run, totals),
    }
}

fn json(run: &mut Run<'_>, totals: &Totals) -> Value {
    let filters = run.ledger.filters();
    let levels = Table::LEVELS.iter().map(|&(level, name)| {
        let asked = run.ledger.asked(level);
        let counts = json!({ "asked": asked.asked, "certainly_new": asked.new });
        (name.to_owned(), counts)
    });
    let store = Store::of(run);
    let mut object = run.counts.json();
    object["source_bytes_read"] = json!(run.sources.bytes.load(Ordering::Relaxed));
    object["asked"] = Value::Object(levels.collect());
    object["reads_avoided_by_filters"] = json!(filters.reads_avoided);
    object["false_positives"] = json!(filters.false_positives);
    object["index_bytes_read"] = json!(store.index_read);
    object["index_data_reads"] = json!(store.data_reads);
    object["index_bytes_written"] = json!(store.index_written);
    object["pack_bytes_read"] = json!(store.pack_read);
    object["pack_bytes_written"] = json!(store.pack_written);
    object["bits_per_key_next"] = json!(totals.bits_per_key);
    object["peak_memory_bytes"] = json!(common::memory::peak_bytes());
    object["process_io"] = report::process_io();
    object
}

fn text(run: &mut Run<'_>, totals: &Totals) -> String {
    let filters = run.ledger.filters();
    let (counts, store) = (run.counts, Store::of(run));
    let read = run.sources.bytes.load(Ordering::Relaxed);
    let asked = Table::LEVELS
        .iter()
        .fold((0, 0), |(asked, new), (level, _)| {
            let level = run.ledger.asked(*level);
            (asked + level.asked, new + level.new)
        });
    let mut lines = vec![
        format!(
            "{} documents in {} directories, {}",
            counts.documents,
            counts.directories,
            HumanBytes(counts.document_bytes)
        ),
        format!(
            "  unchanged {}, new {}, changed {}, gone {}, skipped {}",
            counts.unchanged, counts.new, counts.changed, counts.gone, counts.troubles
        ),
        format!(
            "  contents: {} new ({}), {} there already ({})",
            counts.stored,
            HumanBytes(counts.stored_bytes),
            counts.duplicates,
            HumanBytes(counts.duplicate_bytes)
        ),
        format!(
            "  asked the index {} times, {} certainly new; {} first blocks compared, {} of them other; {} hashed whole",
            asked.0, asked.1, counts.verified, counts.refuted, counts.hashed
        ),
        format!(
            "  filters avoided {} reads of the index, {} read in vain",
            filters.reads_avoided, filters.false_positives
        ),
        format!(
            "  read {} of sources, {} of the index, {} of content; wrote {} index, {} content",
            HumanBytes(read),
            HumanBytes(store.index_read),
            HumanBytes(store.pack_read),
            HumanBytes(store.index_written),
            HumanBytes(store.pack_written)
        ),
    ];
    if counts.pieces > 0 {
        lines.push(format!(
            "  pieces: {} looked up, {} there already ({})",
            counts.pieces,
            counts.pieces_found,
            HumanBytes(counts.pieces_found_bytes)
        ));
    }
    if counts.repaired > 0 {
        lines.push(format!(
            "  {} damaged contents stored again",
            counts.repaired
        ));
    }
    if let Some(bits) = totals.bits_per_key {
        lines.push(format!("  the next run's filters get {bits} bits per key"));
    }
    lines.join("\n") + "\n"
}
