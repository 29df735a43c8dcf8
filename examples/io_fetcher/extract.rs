//! `extract`: documents back as files, each verified by its hash before it gets its name.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;

use crate::archive::Archive;
use crate::args::ExtractArgs;
use crate::escape::Escaped;
use crate::exit::{Exit, Failure};
use crate::list::{self, Named};
use crate::progress::Progress;
use crate::record::{Document, What};

/// What was written, and what not.
#[derive(Default)]
struct Tally {
    files: u64,
    bytes: u64,
    links: u64,
    damaged: u64,
    refused: u64,
}

pub(crate) fn run(args: &ExtractArgs) -> Result<Exit, Failure> {
    let archive = Archive::open_to_read(&args.store.store)?;
    if archive.is_index_only {
        return Err(Failure::usage(
            "this store was made with --index-only and has no content to extract",
        ));
    }
    let Some(to) = &args.to else {
        return print_one(&archive, args);
    };
    let mut tally = Tally::default();
    let progress = Progress::new(None);
    list::each(&archive, &args.names, |named| {
        extract(&archive, to, &named, &mut tally);
        progress.show(tally.files, archive_read(&archive), tally.bytes);
        Ok(())
    })?;
    drop(progress);
    let seen = tally.files + tally.links + tally.damaged + tally.refused;
    if seen == 0 && !args.names.is_empty() {
        return Err(Failure::usage("no document has such a name; see `list`"));
    }
    say(args, &tally);
    Ok(match tally {
        Tally { damaged: 1.., .. } => Exit::Damaged,
        Tally { refused: 1.., .. } => Exit::Partly,
        _ => Exit::Done,
    })
}

fn archive_read(archive: &Archive) -> u64 {
    archive
        .packs
        .read_bytes
        .load(std::sync::atomic::Ordering::Relaxed)
}

fn say(args: &ExtractArgs, tally: &Tally) {
    if args.store.json {
        let object = json!({
            "files": tally.files,
            "bytes": tally.bytes,
            "links": tally.links,
            "damaged": tally.damaged,
            "refused": tally.refused,
        });
        println!("{object}");
        return;
    }
    println!(
        "{} files with {} bytes and {} links written, {} damaged, {} refused",
        tally.files, tally.bytes, tally.links, tally.damaged, tally.refused
    );
}

fn print_one(archive: &Archive, args: &ExtractArgs) -> Result<Exit, Failure> {
    let mut found = Vec::new();
    list::each(archive, &args.names, |named| {
        if matches!(named.what, What::File { .. }) && found.len() < 2 {
            found.push(named);
        }
        Ok(())
    })?;
    let [named] = &found[..] else {
        return Err(Failure::usage("name one document; see `list`"));
    };
    let What::File { document } = named.what else {
        return Err(Failure::usage("this is no document"));
    };
    let document = archive.document(document)?;
    // Twice through it, so that nothing wrong is ever written.
    archive.verify(&document).map_err(Failure::damaged)?;
    let mut out = io::stdout().lock();
    let mut written = Ok(());
    archive
        .read(&document, |part| {
            written = out.write_all(part);
            written.is_ok()
        })
        .map_err(Failure::damaged)?;
    written
        .and_then(|()| out.flush())
        .map_err(|error| Failure::output(&error))?;
    Ok(Exit::Done)
}

fn extract(archive: &Archive, to: &Path, named: &Named, tally: &mut Tally) {
    let result = match place(to, named) {
        Some(target) => write(archive, &target, named),
        None => Err(Trouble::Refused(
            "its name would lead out of the directory".into(),
        )),
    };
    match (result, &named.what) {
        (Ok(()), What::File { .. }) => {
            tally.files += 1;
            tally.bytes += named.size;
        }
        (Ok(()), What::Link { .. }) => tally.links += 1,
        (Ok(()), What::Directory) => {}
        (Err(trouble), _) => {
            let what = match trouble {
                Trouble::Damaged(what) => {
                    tally.damaged += 1;
                    what
                }
                Trouble::Refused(what) => {
                    tally.refused += 1;
                    what
                }
            };
            let (name, what) = (Escaped(&named.name), Escaped(what.as_bytes()));
            eprintln!("not extracted {name}: {what}");
        }
    }
}

enum Trouble {
    Damaged(String),
    Refused(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Refused(error.to_string())
    }
}

/// Where a document goes: never outside of `to`, whatever the store says its name is.
fn place(to: &Path, named: &Named) -> Option<PathBuf> {
    if named.is_url {
        // One name of printable characters; a slash in it would make directories.
        let name = Escaped(&named.name).to_string().replace('/', "\\x2f");
        return Some(to.join(name));
    }
    let mut target = to.to_owned();
    for part in Path::new(OsStr::from_bytes(&named.name)).components() {
        match part {
            Component::RootDir => {}
            Component::Normal(part) => target.push(part),
            _ => return None,
        }
    }
    Some(target)
}

fn write(archive: &Archive, target: &Path, named: &Named) -> Result<(), Trouble> {
    if let What::Directory = named.what {
        return Ok(fs::create_dir_all(target)?);
    }
    let folder = target.parent().unwrap_or(target);
    fs::create_dir_all(folder)?;
    match &named.what {
        What::Link { target: to } => Ok(symlink(OsStr::from_bytes(to), target)?),
        What::File { document } => {
            let document = archive
                .document(*document)
                .map_err(|failure| Trouble::Damaged(failure.to_string()))?;
            file(archive, &document, target, named)
        }
        What::Directory => Ok(()),
    }
}

/// Written under a passing name beside its place and linked to its name only when its hash is
/// right; a link, unlike a renaming, refuses to replace what is there.
fn file(
    archive: &Archive,
    document: &Document,
    target: &Path,
    named: &Named,
) -> Result<(), Trouble> {
    if target.symlink_metadata().is_ok() {
        let what = "something has that name already, and nothing is overwritten";
        return Err(Trouble::Refused(what.into()));
    }
    let mut passing = target.as_os_str().to_owned();
    passing.push(".io_fetcher-part");
    let passing = PathBuf::from(passing);
    let mut options = OpenOptions::new();
    let mut out = match options.write(true).create_new(true).open(&passing) {
        // Left by a run that was killed.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&passing)?;
            options.open(&passing)?
        }
        opened => opened?,
    };
    let written = content(archive, document, &mut out).and_then(|()| {
        out.set_permissions(Permissions::from_mode(named.mode & 0o777))?;
        if let Ok(nanos) = u64::try_from(named.mtime) {
            out.set_modified(UNIX_EPOCH + Duration::from_nanos(nanos))?;
        }
        Ok(fs::hard_link(&passing, target)?)
    });
    fs::remove_file(&passing)?;
    written
}

fn content(archive: &Archive, document: &Document, out: &mut File) -> Result<(), Trouble> {
    let mut hasher = blake3::Hasher::new();
    let mut written = Ok(());
    archive
        .read(document, |part| {
            hasher.update(part);
            written = out.write_all(part);
            written.is_ok()
        })
        .map_err(Trouble::Damaged)?;
    written?;
    if *hasher.finalize().as_bytes() != document.hash {
        let what = "the stored content is not what was put in";
        return Err(Trouble::Damaged(what.into()));
    }
    Ok(())
}
