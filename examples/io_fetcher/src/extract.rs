//! `extract`: documents back as files, each verified by its hash before it gets its name.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::escape::{Escaped, Plain};
use serde_json::{Value, json};

use crate::archive::Archive;
use crate::args::ExtractArgs;
use crate::exit::{self, Exit, Failure, complain};
use crate::holes::Holes;
use crate::lines::{Facts, Lines, Status};
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
    lines: Lines,
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
    let (tally, lines) = extract(&archive, to, args)?;
    let seen = tally.files + tally.links + tally.damaged + tally.refused;
    if seen == 0 && !args.names.is_empty() {
        return Err(Failure::usage("no document has such a name; see `list`"));
    }
    match args.store.json {
        true => lines.end(tally.json())?,
        false => exit::say(tally.text().as_bytes())?,
    }
    Ok(match tally {
        Tally { damaged: 1.., .. } => Exit::Damaged,
        Tally { refused: 1.., .. } => Exit::Partly,
        _ => Exit::Done,
    })
}

/// Writes the documents that `args` names below `to`.
pub(crate) fn extract(
    archive: &Archive,
    to: &Path,
    args: &ExtractArgs,
) -> Result<(Tally, Lines), Failure> {
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
        lines: Lines::new(args.store.json),
    };
    let progress = Progress::new(None);
    list::each(archive, &args.names, |named| {
        extraction.take(&named)?;
        let tally = &extraction.tally;
        progress.show(tally.files, archive_read(archive), tally.bytes);
        Ok(())
    })?;
    let Extraction {
        tree,
        mut tally,
        mut lines,
        ..
    } = extraction;
    tree.close(|path, error| {
        tally.refused += 1;
        let name = path.as_os_str().as_bytes();
        let what = format!("its mode or time is not what it was: {error}");
        let facts = Facts {
            reason: Some(&what),
            ..Facts::default()
        };
        lines.add(name, Status::Refused, &facts);
        complain(format_args!("{}: {what}", Escaped(name)));
    });
    Ok((tally, lines))
}

fn archive_read(archive: &Archive) -> u64 {
    archive
        .packs
        .read_bytes
        .load(std::sync::atomic::Ordering::Relaxed)
}

impl Tally {
    fn json(&self) -> Value {
        json!({
            "files": self.files,
            "bytes": self.bytes,
            "links": self.links,
            "damaged": self.damaged,
            "refused": self.refused,
            "without_setuid": self.without_setuid,
        })
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{} files with {} bytes and {} links written, {} damaged, {} refused\n",
            self.files, self.bytes, self.links, self.damaged, self.refused
        );
        if self.without_setuid > 0 {
            text += &format!(
                "{} without the setuid or setgid bits that they had; see --setuid\n",
                self.without_setuid
            );
        }
        text
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
        let (status, what) = match result {
            Ok(None) => return Ok(()),
            Ok(Some(facts)) => {
                let status = match named.what {
                    What::Link { .. } => {
                        tally.links += 1;
                        Status::Linked
                    }
                    _ => {
                        tally.files += 1;
                        tally.bytes += named.size;
                        Status::Written
                    }
                };
                self.lines.add(&named.name, status, &facts);
                return self.lines.flush();
            }
            Err(Trouble::Damaged(what)) => {
                tally.damaged += 1;
                (Status::Damaged, what)
            }
            Err(Trouble::Refused(what)) => {
                tally.refused += 1;
                (Status::Refused, what)
            }
            Err(Trouble::Ended(failure)) => return Err(failure),
        };
        let facts = Facts {
            size: matches!(named.what, What::File { .. }).then_some(named.size),
            reason: Some(&what),
            ..Facts::default()
        };
        self.lines.add(&named.name, status, &facts);
        let (name, what) = (Escaped(&named.name), Plain(&what));
        complain(format_args!("not extracted {name}: {what}"));
        self.lines.flush()
    }

    /// Writes one document, link or directory. Directories have no line of their own.
    fn write(&mut self, target: &Path, named: &Named) -> Result<Option<Facts<'static>>, Trouble> {
        let mode = named.mode & self.kept;
        // Older stores have no times of links and directories.
        let mtime = (named.mtime != 0).then_some(named.mtime);
        // The bits that the extracted file or directory has.
        let (has, facts) = match &named.what {
            What::Link { target: to } => {
                self.tree.link(target, to, mtime)?;
                return Ok(Some(Facts::default()));
            }
            What::Directory => match self.tree.directory(target, mode, mtime)? {
                true => (mode, None),
                false => return Ok(None),
            },
            What::File { document } => {
                let (has, facts) = self.file(target, named, *document)?;
                (has, Some(facts))
            }
        };
        self.tally.without_setuid += u64::from(named.mode & SETUID_BITS & !has != 0);
        Ok(facts)
    }

    /// Writes a file, and returns its mode.
    fn file(
        &mut self,
        target: &Path,
        named: &Named,
        number: u64,
    ) -> Result<(u32, Facts<'static>), Trouble> {
        let archive = self.archive;
        let document = archive
            .document(number)
            .map_err(|failure| Trouble::Damaged(failure.to_string()))?;
        let before = archive_read(archive);
        let mode = named.mode & self.kept;
        let (has, written) = self.tree.file(target, |out| {
            let written = content(archive, &document, (out, named.is_dense))?;
            out.set_permissions(Permissions::from_mode(mode))?;
            out.set_modified(time(named.mtime))?;
            // The system may leave out what we may not set.
            Ok::<_, Trouble>((out.metadata()?.permissions().mode(), written))
        })?;
        let facts = Facts {
            size: Some(document.size),
            hash: Some(document.hash),
            document: Some(number),
            read: Some(archive_read(archive) - before),
            written: Some(written),
            ..Facts::default()
        };
        Ok((has, facts))
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

/// Writes the content, and refuses it if its hash is not right. Returns the bytes that were written:
/// those of holes are not.
fn content(
    archive: &Archive,
    document: &Document,
    (out, is_dense): (&File, bool),
) -> Result<u64, Trouble> {
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
    let bytes = out.finish()?;
    if *hasher.finalize().as_bytes() != document.hash {
        let what = "the stored content is not what was put in";
        return Err(Trouble::Damaged(what.into()));
    }
    Ok(bytes)
}
