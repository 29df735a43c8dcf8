//! `forget`: names go, whether they are still there or not. Their contents stay until `gc`.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::archive::Archive;
use crate::args::ForgetArgs;
use crate::changes::Changes;
use crate::exit::{self, Exit, Failure};
use crate::keys::{self, Table};
use crate::ledger::malformed;
use crate::record::{self, Entry, What};
use crate::sources::Source;

pub(crate) fn run(args: &ForgetArgs) -> Result<Exit, Failure> {
    let archive = Archive::open_to_change(&args.store.store)?;
    let mut forgotten = 0;
    for name in &args.names {
        let names = match Source::new(name.clone()) {
            Source::Url(url) => forget_url(&archive, &url)?,
            Source::Path(path) => forget_path(&archive, &path)?,
        };
        if names == 0 {
            return Err(Failure::usage(format!(
                "{} is no name in this store; see `list`. Names before it are forgotten",
                name.display()
            )));
        }
        forgotten += names;
    }
    archive.db.close()?;
    let text = match args.store.json {
        true => format!("{}\n", json!({ "forgotten": forgotten })),
        false => format!("{forgotten} names forgotten; `gc` gives back their space\n"),
    };
    exit::say(text.as_bytes())?;
    Ok(Exit::Done)
}

fn forget_url(archive: &Archive, url: &str) -> Result<u64, Failure> {
    let forgotten = archive.tables[Table::Url].take(url)?;
    Ok(u64::from(forgotten.is_some()))
}

/// Forgets a name, and all below it; how many there were.
fn forget_path(archive: &Archive, path: &Path) -> Result<u64, Failure> {
    // Without a slash at its end.
    let path: PathBuf = path.components().collect();
    let mut changes = Changes::new(archive);
    let mut names = forget_below(archive, &path, &mut changes)?;
    if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
        let key = keys::directory(parent);
        if let Some(value) = archive.tables[Table::Directory].get(&key)? {
            let mut entries = decode(parent, &value)?;
            let before = entries.len();
            let is_it = |entry: &Entry| entry.name == name.as_bytes();
            names += entries
                .iter()
                .filter(|entry| is_it(entry) && is_name(entry))
                .count() as u64;
            entries.retain(|entry| !is_it(entry));
            if entries.len() < before {
                changes.put(
                    Table::Directory,
                    &key,
                    &record::encode_directory(entries.iter()),
                )?;
            }
        }
    }
    changes.commit()?;
    Ok(names)
}

fn forget_below(archive: &Archive, path: &Path, changes: &mut Changes<'_>) -> Result<u64, Failure> {
    let here = keys::directory(path);
    // All below the root begin with the root's own key.
    let end: &[u8] = if path.parent().is_some() { &[0] } else { &[] };
    let below = [&here[..], end].concat();
    let directories = &archive.tables[Table::Directory];
    let own = directories.range(&here[..]..=&here[..]);
    let mut names = 0;
    for record in own.chain(directories.prefix(&below)) {
        let (key, value) = record?;
        let entries = decode(&keys::directory_path(&key), &value)?;
        names += entries.iter().filter(|entry| is_name(entry)).count() as u64;
        changes.delete(Table::Directory, &key)?;
    }
    Ok(names)
}

/// Directories are counted by what is in them.
fn is_name(entry: &Entry) -> bool {
    entry.what != What::Directory
}

fn decode(path: &Path, value: &[u8]) -> Result<Vec<Entry>, Failure> {
    record::decode_directory(value).map_err(malformed(&path.display().to_string()))
}
