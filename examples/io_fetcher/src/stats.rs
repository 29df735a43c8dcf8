//! `stats`: what the store holds, what the filters saved, and what suits this load.

use criba::Stats;
use serde_json::{Value, json};

use indicatif::HumanBytes;

use crate::account::{self, Account};
use crate::archive::Archive;
use crate::args::StatsArgs;
use crate::exit::{self, Exit, Failure};
use crate::keys::{self, Table};
use crate::list;
use crate::pack::Packs;
use crate::record::What;
use crate::report::Totals;

/// What is counted by walking over all names.
#[derive(Default)]
struct Held {
    files: u64,
    bytes: u64,
    gone: u64,
    links: u64,
    directories: u64,
    urls: u64,
}

pub(crate) fn run(args: &StatsArgs) -> Result<Exit, Failure> {
    let archive = Archive::open_to_read(&args.store.store)?;
    if let Some(path) = &args.explain {
        let path = path
            .canonicalize()
            .map_err(|error| Failure::usage(format!("cannot find {}: {error}", path.display())))?;
        let directory = match path.is_dir() {
            true => &path,
            false => path.parent().unwrap_or(&path),
        };
        let names = &archive.tables[Table::Directory];
        let lookup = names.explain(keys::directory(directory))?;
        exit::say(format!("{lookup}\n").as_bytes())?;
        return Ok(Exit::Done);
    }
    let mut held = Held::default();
    list::each(&archive, &[], |named| {
        match named.what {
            What::Directory => held.directories += 1,
            What::Link { .. } => held.links += 1,
            What::File { .. } if named.is_gone => held.gone += 1,
            What::File { .. } => {
                held.urls += u64::from(named.is_url);
                held.files += u64::from(!named.is_url);
                held.bytes += named.size;
            }
        }
        Ok(())
    })?;
    let object = json(&archive, &held);
    let text = match args.store.json {
        true => object.to_string(),
        false => text(&archive, &held, &object),
    };
    exit::say(format!("{text}\n").as_bytes())?;
    Ok(Exit::Done)
}

fn json(archive: &Archive, held: &Held) -> Value {
    let (mut keys, mut index, mut filters) = (0, 0, 0);
    let stats = archive.stats();
    for segment in stats.iter().flat_map(Stats::segments) {
        keys += segment.keys;
        index += segment.file_bytes;
        filters += segment
            .filter
            .as_ref()
            .map_or(0, |filter| filter.disk_bytes);
    }
    let totals = &archive.totals;
    let tables = accounts(totals).map(|(name, account)| (name.to_owned(), account.json()));
    json!({
        "files": held.files,
        "bytes": held.bytes,
        "urls": held.urls,
        "links": held.links,
        "directories": held.directories,
        "gone": held.gone,
        "contents": archive.next_document - 1,
        "index_only": archive.is_index_only,
        "index_keys": keys,
        "index_bytes": index,
        "filter_bytes": filters,
        "sorted_runs": stats.iter().map(|table| table.runs.len()).sum::<usize>(),
        "pack_bytes": Packs::bytes_on_disk(&archive.packs_folder()),
        "ingests": totals.runs,
        "reads_avoided_by_filters": totals.reads_avoided,
        "false_positives": totals.false_positives,
        "source_bytes_seen": totals.source_bytes_seen,
        "source_bytes_read": totals.source_bytes_read,
        "lookups": Value::Object(tables.collect()),
    })
}

/// The lookups of each table in all runs, with its name.
fn accounts(totals: &Totals) -> impl Iterator<Item = (&'static str, Account)> {
    Table::ALL
        .iter()
        .map(|(_, name)| *name)
        .zip(totals.accounts)
}

fn text(archive: &Archive, held: &Held, object: &Value) -> String {
    let number = |name: &str| object[name].as_u64().unwrap_or(0);
    let bytes = |name: &str| HumanBytes(number(name));
    let totals = &archive.totals;
    let mut lines = vec![
        format!(
            "{} files, {} URLs with {}; {} links, {} directories, {} files that are gone",
            held.files,
            held.urls,
            HumanBytes(held.bytes),
            held.links,
            held.directories,
            held.gone
        ),
        format!(
            "{} contents, {} in packs",
            number("contents"),
            bytes("pack_bytes")
        ),
        format!(
            "index: {} keys, {}, of that {} filters, in {} sorted runs",
            number("index_keys"),
            bytes("index_bytes"),
            bytes("filter_bytes"),
            number("sorted_runs")
        ),
        format!(
            "{} ingests that changed something read {} of the {} they saw",
            totals.runs,
            HumanBytes(totals.source_bytes_read),
            HumanBytes(totals.source_bytes_seen)
        ),
        format!(
            "filters avoided {} reads of the index, {} were in vain",
            totals.reads_avoided, totals.false_positives
        ),
    ];
    lines.extend(account::table(accounts(totals)));
    lines.join("\n")
}
