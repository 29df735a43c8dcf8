//! `list`: what is stored, name by name, or the documents that are there more than once.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use common::codec::Malformed;
use common::escape::Escaped;
use serde_json::json;

use crate::archive::Archive;
use crate::args::ListArgs;
use crate::exit::{Exit, Failure};
use crate::keys::{self, Table};
use crate::ledger::malformed;
use crate::lines;
use crate::record::{self, Entry, Fetched, What};

/// Something that has a name.
#[derive(Debug)]
pub(crate) struct Named {
    /// A path, or a URL.
    pub(crate) name: Vec<u8>,
    pub(crate) what: What,
    pub(crate) size: u64,
    pub(crate) mtime: i64,
    pub(crate) mode: u32,
    /// It has no holes.
    pub(crate) is_dense: bool,
    pub(crate) is_gone: bool,
    pub(crate) is_url: bool,
}

/// Everything below these names (all, if there are none), directory by directory in key order,
/// then URLs.
pub(crate) fn each(
    archive: &Archive,
    below: &[PathBuf],
    mut take: impl FnMut(Named) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for record in &archive.tables[Table::Directory] {
        let (key, value) = record?;
        let path = keys::directory_path(&key);
        if !may_hold(&path, below) {
            continue;
        }
        let entries =
            record::decode_directory(&value).map_err(malformed(&path.display().to_string()))?;
        for entry in entries {
            let named = named(&path, entry);
            if is_below(&named.name, below) {
                take(named)?;
            }
        }
    }
    for record in &archive.tables[Table::Url] {
        let (url, value) = record?;
        if is_below(&url, below) {
            take(fetched(&url, &value).map_err(malformed("a URL"))?)?;
        }
    }
    Ok(())
}

fn named(directory: &Path, entry: Entry) -> Named {
    let path = directory.join(std::ffi::OsStr::from_bytes(&entry.name));
    Named {
        name: path.into_os_string().into_vec(),
        what: entry.what,
        size: entry.stamp.size,
        mtime: entry.stamp.mtime,
        mode: entry.mode,
        is_dense: entry.is_dense,
        is_gone: entry.is_gone,
        is_url: false,
    }
}

fn fetched(url: &[u8], record: &[u8]) -> Result<Named, Malformed> {
    let fetched = Fetched::decode(record)?;
    Ok(Named {
        name: url.to_vec(),
        what: What::File {
            document: fetched.document,
        },
        size: fetched.size,
        mtime: i64::try_from(fetched.at)
            .unwrap_or(0)
            .saturating_mul(1_000_000_000),
        mode: 0o100_644,
        is_dense: true,
        is_gone: false,
        is_url: true,
    })
}

/// Whether anything in this directory can be below one of the names.
fn may_hold(directory: &Path, below: &[PathBuf]) -> bool {
    let is_one = |name: &PathBuf| directory.starts_with(name) || name.parent() == Some(directory);
    below.is_empty() || below.iter().any(is_one)
}

fn is_below(name: &[u8], below: &[PathBuf]) -> bool {
    let path = Path::new(std::ffi::OsStr::from_bytes(name));
    let is_one =
        |prefix: &PathBuf| path.starts_with(prefix) || name == prefix.as_os_str().as_bytes();
    below.is_empty() || below.iter().any(is_one)
}

pub(crate) fn run(args: &ListArgs) -> Result<Exit, Failure> {
    let archive = Archive::open_to_read(&args.store.store)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let written = match args.duplicates {
        true => duplicates(&archive, args, &mut out),
        false => each(&archive, &args.names, |named| line(&named, args, &mut out)),
    };
    written?;
    out.flush().map_err(|error| Failure::output(&error))?;
    Ok(Exit::Done)
}

fn line(named: &Named, args: &ListArgs, out: &mut impl Write) -> Result<(), Failure> {
    let written = if args.store.json {
        writeln!(out, "{}", as_json(named))
    } else if args.raw {
        out.write_all(&named.name)
            .and_then(|()| out.write_all(b"\n"))
    } else {
        let gone = if named.is_gone { " (gone)" } else { "" };
        let name = Escaped(&named.name);
        match &named.what {
            What::File { .. } => writeln!(out, "{:>12} {name}{gone}", named.size),
            What::Directory => writeln!(out, "{:>12} {name}{gone}", "directory"),
            What::Link { target } => {
                writeln!(out, "{:>12} {name}{gone} -> {}", "link", Escaped(target))
            }
        }
    };
    written.map_err(|error| Failure::output(&error))
}

fn as_json(named: &Named) -> serde_json::Value {
    let kind = match &named.what {
        _ if named.is_url => "url",
        What::File { .. } => "file",
        What::Directory => "directory",
        What::Link { .. } => "link",
    };
    let mut object = json!({
        "kind": kind,
        "size": named.size,
        "mtime_ns": named.mtime,
        "mode": named.mode,
        "gone": named.is_gone,
    });
    lines::put_name(&mut object, &named.name);
    match &named.what {
        What::File { document } => object["document"] = json!(document),
        What::Link { target } => object["target"] = json!(Escaped(target).to_string()),
        What::Directory => {}
    }
    object
}

/// Documents that are there more than once; those of no bytes are not counted. Memory: a number for
/// each document, and the names that are printed.
fn duplicates(archive: &Archive, args: &ListArgs, out: &mut impl Write) -> Result<(), Failure> {
    let mut count: Vec<u32> = Vec::new();
    let document_of = |named: &Named| match named.what {
        What::File { document } if document != 0 && !named.is_gone => Some(document),
        _ => None,
    };
    each(archive, &args.names, |named| {
        if let Some(document) = document_of(&named).filter(|&one| one < archive.next_document) {
            let at = document as usize;
            if count.len() <= at {
                count.resize(at + 1, 0);
            }
            count[at] += 1;
        }
        Ok(())
    })?;
    let mut groups: BTreeMap<u64, Vec<Named>> = BTreeMap::new();
    each(archive, &args.names, |named| {
        let document = document_of(&named);
        let is_many = |document: u64| count.get(document as usize).is_some_and(|&n| n > 1);
        if let Some(document) = document.filter(|&document| is_many(document)) {
            groups.entry(document).or_default().push(named);
        }
        Ok(())
    })?;
    for group in groups.values() {
        for named in group {
            line(named, args, out)?;
        }
        if !args.store.json {
            writeln!(out).map_err(|error| Failure::output(&error))?;
        }
    }
    Ok(())
}
