//! What is said at the end of an ingest.

use std::sync::atomic::Ordering;

use criba::storage::ReadCause;
use indicatif::HumanBytes;
use serde_json::{Value, json};

use crate::account::{self, Account};
use crate::ingest::Run;
use crate::keys::Table;
use crate::report;

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
#[derive(Debug)]
pub(crate) enum Summary {
    Json(Value),
    Text(String),
}

pub(crate) fn of(run: &Run<'_>) -> Summary {
    match run.args.store.json {
        true => Summary::Json(json(run)),
        false => Summary::Text(text(run)),
    }
}

/// The lookups of each table, with its name.
fn accounts(run: &Run<'_>) -> impl Iterator<Item = (&'static str, Account)> {
    let names = Table::ALL.iter().map(|(_, name)| *name);
    names.zip(run.ledger.accounts())
}

fn json(run: &Run<'_>) -> Value {
    let mut all = Account::default();
    accounts(run).for_each(|(_, account)| all += account);
    let tables = accounts(run).map(|(name, account)| (name.to_owned(), account.json()));
    let store = Store::of(run);
    let mut object = run.counts.json();
    object["source_bytes_read"] = json!(run.sources.bytes.load(Ordering::Relaxed));
    object["lookups"] = Value::Object(tables.collect());
    object["reads_avoided_by_filters"] = json!(all.reads_avoided);
    object["false_positives"] = json!(all.false_positives);
    object["index_bytes_read"] = json!(store.index_read);
    object["index_data_reads"] = json!(store.data_reads);
    object["index_bytes_written"] = json!(store.index_written);
    object["pack_bytes_read"] = json!(store.pack_read);
    object["pack_bytes_written"] = json!(store.pack_written);
    object["peak_memory_bytes"] = json!(common::memory::peak_bytes());
    object["process_io"] = report::process_io();
    object
}

fn text(run: &Run<'_>) -> String {
    let (counts, store) = (run.counts, Store::of(run));
    let read = run.sources.bytes.load(Ordering::Relaxed);
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
            "  {} first blocks compared, {} of them other; {} hashed whole",
            counts.verified, counts.refuted, counts.hashed
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
    lines.extend(counts.not_kept());
    lines.extend(account::table(accounts(run)));
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
    lines.join("\n") + "\n"
}
