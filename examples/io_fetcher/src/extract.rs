//! `extract`: documents back as files, each verified by its hash before it gets its name.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::escape::{Escaped, Plain};
use serde_json::json;

use crate::archive::Archive;
use crate::args::ExtractArgs;
use crate::exit::{Exit, Failure};
use crate::holes::Holes;
use crate::list::{self, Named};
use crate::progress::Progress;
use crate::record::{Document, What};
use crate::tree::Tree;

/// Bits of a mode by which a program runs as the owner or the group of its file.
const SETUID_BITS: u32 = 0o6000;

/// The longest name of a file.
const FILE_NAME_BYTES_MAX: usize = 255;

/// Hexadecimal digits of the hash that ends the name of a long URL.
const URL_HASH_DIGITS: usize = 32;

/// What was written, and what not.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    files: u64,
    bytes: u64,
    links: u64,
    damaged: u64,
    pub(crate) refused: u64,
    /// Files and directories without the setuid or setgid bits that they had.
    pub(crate) without_setuid: u64,
}

/// An extraction under way.
struct Extraction<'a> {
    archive: &'a Archive,
    tree: Tree,
    /// Bits of a mode that are kept.
    kept: u32,
    tally: Tally,
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
    let tally = extract(&archive, to, args)?;
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

/// Writes the documents that `args` names below `to`.
pub(crate) fn extract(archive: &Archive, to: &Path, args: &ExtractArgs) -> Result<Tally, Failure> {
    Tree::check(to).map_err(|error| {
        let what = format!(
            "cannot write below {}; name another directory with --to",
            to.display()
        );
        match error.kind() {
            io::ErrorKind::NotADirectory => Failure::usage(format!("{what}: {error}")),
            _ => Failure::io(what, &error),
        }
    })?;
    let mut extraction = Extraction {
        archive,
        tree: Tree::new(to),
        kept: if args.setuid {
            0o7777
        } else {
            0o7777 & !SETUID_BITS
        },
        tally: Tally::default(),
    };
    let progress = Progress::new(None);
    list::each(archive, &args.names, |named| {
        extraction.take(&named)?;
        let tally = &extraction.tally;
        progress.show(tally.files, archive_read(archive), tally.bytes);
        Ok(())
    })?;
    let Extraction {
        tree, mut tally, ..
    } = extraction;
    tree.close(|path, error| {
        tally.refused += 1;
        let path = Escaped(path.as_os_str().as_bytes());
        eprintln!("the mode or time of {path} is not what it was: {error}");
    });
    Ok(tally)
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
            "without_setuid": tally.without_setuid,
        });
        println!("{object}");
        return;
    }
    println!(
        "{} files with {} bytes and {} links written, {} damaged, {} refused",
        tally.files, tally.bytes, tally.links, tally.damaged, tally.refused
    );
    if tally.without_setuid > 0 {
        println!(
            "{} without the setuid or setgid bits that they had; see --setuid",
            tally.without_setuid
        );
    }
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

impl Extraction<'_> {
    /// Writes one document, link or directory, or reports why not.
    fn take(&mut self, named: &Named) -> Result<(), Failure> {
        let result = match place(named) {
            Some(target) => self.write(&target, named),
            None => Err(Trouble::Refused(
                "its name would lead out of the directory".into(),
            )),
        };
        let tally = &mut self.tally;
        let what = match (result, &named.what) {
            (Ok(()), What::File { .. }) => {
                tally.files += 1;
                tally.bytes += named.size;
                return Ok(());
            }
            (Ok(()), What::Link { .. }) => {
                tally.links += 1;
                return Ok(());
            }
            (Ok(()), What::Directory) => return Ok(()),
            (Err(Trouble::Ended(failure)), _) => return Err(failure),
            (Err(Trouble::Damaged(what)), _) => {
                tally.damaged += 1;
                what
            }
            (Err(Trouble::Refused(what)), _) => {
                tally.refused += 1;
                what
            }
        };
        let (name, what) = (Escaped(&named.name), Plain(&what));
        eprintln!("not extracted {name}: {what}");
        Ok(())
    }

    fn write(&mut self, target: &Path, named: &Named) -> Result<(), Trouble> {
        let mode = named.mode & self.kept;
        // Older stores have no times of links and directories.
        let mtime = (named.mtime != 0).then_some(named.mtime);
        // The bits that the extracted file or directory has.
        let has = match &named.what {
            What::Link { target: to } => return Ok(self.tree.link(target, to, mtime)?),
            What::Directory => match self.tree.directory(target, mode, mtime)? {
                true => mode,
                false => return Ok(()),
            },
            What::File { document } => {
                let document = self
                    .archive
                    .document(*document)
                    .map_err(|failure| Trouble::Damaged(failure.to_string()))?;
                let archive = self.archive;
                self.tree.file(target, |out| {
                    content(archive, &document, (out, named.is_dense))?;
                    out.set_permissions(Permissions::from_mode(mode))?;
                    out.set_modified(time(named.mtime))?;
                    // The system may leave out what we may not set.
                    Ok::<_, Trouble>(out.metadata()?.permissions().mode())
                })?
            }
        };
        self.tally.without_setuid += u64::from(named.mode & SETUID_BITS & !has != 0);
        Ok(())
    }
}

/// A time in nanoseconds after 1970, or before.
fn time(nanos: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanos.unsigned_abs());
    let time = match nanos {
        0.. => UNIX_EPOCH.checked_add(distance),
        _ => UNIX_EPOCH.checked_sub(distance),
    };
    time.unwrap_or(UNIX_EPOCH)
}

enum Trouble {
    Damaged(String),
    Refused(String),
    /// Nothing else can be written either.
    Ended(Failure),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        match error.kind() {
            StorageFull | QuotaExceeded | ReadOnlyFilesystem => Trouble::Ended(Failure::io(
                "cannot write what is extracted; when there is room, the same command writes what is \
                 missing",
                &error,
            )),
            _ => Trouble::Refused(error.to_string()),
        }
    }
}

/// Where a document goes below the directory: never outside of it, whatever the store says its name
/// is.
fn place(named: &Named) -> Option<PathBuf> {
    if named.is_url {
        return Some(url_name(&named.name).into());
    }
    let mut target = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(&named.name)).components() {
        match part {
            Component::RootDir => {}
            Component::Normal(part) => target.push(part),
            _ => return None,
        }
    }
    Some(target)
}

/// One name of printable characters, since a slash would make directories. The name of a long URL
/// is cut and ends with a backslash, which stands before an `x` everywhere else, and its hash.
fn url_name(url: &[u8]) -> String {
    let mut name = Escaped(url).to_string().replace('/', "\\x2f");
    if name.len() > FILE_NAME_BYTES_MAX {
        let mut end = FILE_NAME_BYTES_MAX - 1 - URL_HASH_DIGITS;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let hash = blake3::hash(url).to_hex();
        name.replace_range(end.., &format!("\\{}", &hash[..URL_HASH_DIGITS]));
    }
    name
}

/// Writes the content, and refuses it if its hash is not right.
fn content(
    archive: &Archive,
    document: &Document,
    (out, is_dense): (&File, bool),
) -> Result<(), Trouble> {
    let mut hasher = blake3::Hasher::new();
    let mut out = Holes::new(out, is_dense);
    let mut written = Ok(());
    archive
        .read(document, |part| {
            hasher.update(part);
            written = out.write(part);
            written.is_ok()
        })
        .map_err(Trouble::Damaged)?;
    written?;
    out.finish()?;
    if *hasher.finalize().as_bytes() != document.hash {
        let what = "the stored content is not what was put in";
        return Err(Trouble::Damaged(what.into()));
    }
    Ok(())
}
