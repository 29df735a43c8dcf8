//! A walk over the sources, in a thread of its own: directories in key order, each with the stamps
//! of its files.

use std::ffi::OsStr;
use std::fs::{DirEntry, Metadata};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::mpsc::SyncSender;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::exit::Failure;
use crate::keys::NAME_BYTES_MAX;
use crate::read;
use crate::record::Stamp;
use crate::sources::Source;

/// Files named one by one that are looked at together if they are in one directory.
const TOGETHER_MAX: usize = 1024;

/// User and group of this process: what it extracts is theirs.
static OWN: LazyLock<(u32, u32)> = LazyLock::new(|| {
    use rustix::process::{getegid, geteuid};
    (geteuid().as_raw(), getegid().as_raw())
});

/// Something that was found in a directory.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) stamp: Stamp,
    pub(crate) mode: u32,
    pub(crate) device: u64,
    /// Names that the file has in all.
    pub(crate) links: u64,
    /// It takes as much space as its content: it has no holes.
    pub(crate) is_dense: bool,
    /// It belongs to another user or group than those of this process.
    pub(crate) is_foreign: bool,
}

#[derive(Debug)]
pub(crate) enum Kind {
    File,
    Directory,
    Link { target: Vec<u8> },
}

/// What was found in a directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) path: PathBuf,
    /// Whether it is all there is; otherwise these are files named one by one.
    pub(crate) is_whole: bool,
    /// In the order of their names.
    pub(crate) found: Vec<Found>,
    /// When the stamps were taken at the earliest, in nanoseconds since 1970.
    pub(crate) at: i64,
    /// Names of sockets, pipes and devices.
    pub(crate) specials: Vec<Vec<u8>>,
    /// Directories left out because they are on another file system.
    pub(crate) other_file_systems: u64,
    /// What could not be looked at, and why.
    pub(crate) troubles: Vec<(PathBuf, String)>,
}

/// What the walk has to say.
#[derive(Debug)]
pub(crate) enum Message {
    Listing(Listing),
    Url(String),
    /// The list of sources could not be read.
    Failed(Failure),
}

#[derive(Clone, Debug)]
pub(crate) struct WalkOptions {
    pub(crate) one_file_system: bool,
    /// Device and inode of the store itself, which is not fetched into itself.
    pub(crate) store: (u64, u64),
}

/// Walks all sources; ends early when nobody listens any more.
pub(crate) fn walk(
    sources: impl Iterator<Item = Result<Source, Failure>>,
    options: &WalkOptions,
    out: &SyncSender<Message>,
) {
    let mut named = Named::default();
    for source in sources {
        let sent = match source {
            Ok(Source::Path(path)) => named.take(&path, options, out),
            Ok(Source::Url(url)) => out.send(Message::Url(url)).is_ok(),
            Err(failure) => out.send(Message::Failed(failure)).is_ok(),
        };
        if !sent {
            return;
        }
    }
    named.send(out);
}

/// Files named one by one.
#[derive(Default)]
struct Named {
    listing: Listing,
    /// The last parent, as it was named and as it is.
    parent: Option<(PathBuf, PathBuf)>,
}

impl Named {
    fn take(&mut self, path: &Path, options: &WalkOptions, out: &SyncSender<Message>) -> bool {
        match std::fs::metadata(path) {
            // A link to a directory that was named by hand is meant.
            Ok(meta) if meta.is_dir() => match path.canonicalize() {
                Ok(path) => self.send(out) && directories(path, options, out),
                Err(error) => self.trouble(path, error.to_string()),
            },
            _ => self.file(path, out),
        }
    }

    fn trouble(&mut self, path: &Path, what: String) -> bool {
        self.listing.troubles.push((path.to_owned(), what));
        true
    }

    fn file(&mut self, path: &Path, out: &SyncSender<Message>) -> bool {
        let Some(name) = path.file_name() else {
            return self.trouble(path, "it has no name".into());
        };
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let known = self.parent.take().filter(|(named, _)| named == parent);
        let real = match known
            .map(|(_, real)| real)
            .map_or_else(|| parent.canonicalize(), Ok)
        {
            Ok(real) => real,
            Err(error) => return self.trouble(path, error.to_string()),
        };
        let is_other = real != self.listing.path || self.listing.found.len() >= TOGETHER_MAX;
        if is_other && !self.send(out) {
            return false;
        }
        self.parent = Some((parent.to_owned(), real.clone()));
        if self.listing.found.is_empty() {
            self.listing.at = now();
        }
        self.listing.path = real;
        let whole = self.listing.path.join(name);
        match std::fs::symlink_metadata(&whole) {
            Ok(meta) => add(&mut self.listing, name, &meta),
            Err(error) => self
                .listing
                .troubles
                .push((path.to_owned(), error.to_string())),
        }
        true
    }

    fn send(&mut self, out: &SyncSender<Message>) -> bool {
        let mut listing = std::mem::take(&mut self.listing);
        if listing.found.is_empty() && listing.troubles.is_empty() && listing.specials.is_empty() {
            return true;
        }
        listing.found.sort_by(|a, b| a.name.cmp(&b.name));
        listing.found.dedup_by(|a, b| a.name == b.name);
        read_links(&mut listing);
        out.send(Message::Listing(listing)).is_ok()
    }
}

/// A directory and all below it, in key order.
fn directories(root: PathBuf, options: &WalkOptions, out: &SyncSender<Message>) -> bool {
    let device = std::fs::metadata(&root).map(|meta| meta.dev()).ok();
    let mut waiting = vec![root];
    while let Some(path) = waiting.pop() {
        let mut listing = list(path);
        let mut others = 0;
        listing.found.retain(|found| {
            let is_directory = matches!(found.kind, Kind::Directory);
            let is_store = (found.device, found.stamp.inode) == options.store;
            let is_other = options.one_file_system && Some(found.device) != device;
            others += u64::from(is_directory && is_other);
            !(is_directory && (is_store || is_other))
        });
        listing.other_file_systems = others;
        let below = listing.found.iter().rev();
        let below = below.filter(|found| matches!(found.kind, Kind::Directory));
        waiting.extend(below.map(|found| listing.path.join(OsStr::from_bytes(&found.name))));
        if out.send(Message::Listing(listing)).is_err() {
            return false;
        }
    }
    true
}

/// One directory. If it cannot be read to its end, it is not whole: nothing is taken for gone.
fn list(path: PathBuf) -> Listing {
    let mut listing = Listing {
        is_whole: true,
        at: now(),
        ..Listing::default()
    };
    match std::fs::read_dir(&path) {
        _ if path.as_os_str().len() > NAME_BYTES_MAX => {
            listing.is_whole = false;
            let what = "its path is too long for a key";
            listing.troubles.push((path.clone(), what.into()));
        }
        Ok(entries) => {
            for entry in entries {
                if let Err((name, error)) = entry
                    .map_err(|error| (path.clone(), error))
                    .and_then(|entry| look_at(&mut listing, &entry))
                {
                    listing.is_whole = false;
                    listing.troubles.push((name, error.to_string()));
                }
            }
        }
        Err(error) => {
            listing.is_whole = false;
            listing.troubles.push((path.clone(), error.to_string()));
        }
    }
    listing.found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    listing.path = path;
    read_links(&mut listing);
    listing
}

fn read_links(listing: &mut Listing) {
    for found in &mut listing.found {
        if let Kind::Link { target } = &mut found.kind {
            let whole = listing.path.join(OsStr::from_bytes(&found.name));
            match std::fs::read_link(&whole) {
                Ok(to) => *target = to.into_os_string().into_vec(),
                Err(error) => listing.troubles.push((whole, error.to_string())),
            }
        }
    }
}

fn look_at(listing: &mut Listing, entry: &DirEntry) -> Result<(), (PathBuf, std::io::Error)> {
    match entry.metadata() {
        Ok(meta) => {
            add(listing, &entry.file_name(), &meta);
            Ok(())
        }
        // Removed since the directory was read.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err((entry.path(), error)),
    }
}

fn add(listing: &mut Listing, name: &OsStr, meta: &Metadata) {
    let kind = match meta.file_type() {
        kind if kind.is_file() => Kind::File,
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_symlink() => Kind::Link { target: Vec::new() },
        _ => {
            listing.specials.push(name.as_bytes().to_vec());
            return;
        }
    };
    listing.found.push(Found {
        name: name.as_bytes().to_vec(),
        kind,
        stamp: read::stamp(meta),
        mode: meta.mode(),
        device: meta.dev(),
        links: meta.nlink(),
        is_dense: meta.is_file() && meta.blocks().saturating_mul(512) >= meta.len(),
        is_foreign: (meta.uid(), meta.gid()) != *OWN,
    });
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    })
}
