//! What has changed in a directory: its record beside what is there now. Pure.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use crate::args::{IngestArgs, QuickCheck};
use crate::ingest::Work;
use crate::record::{Entry, Stamp, What};
use crate::walk::{Found, Kind, Listing};

/// Clocks of file systems go in steps of up to so many nanoseconds: what was changed less than
/// that before it was looked at could be changed again without a trace in its stamp.
const TICK_NANOS: i64 = 20_000_000;

/// A directory as it will be written, once its documents are known.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    pub(crate) entries: Vec<Option<Entry>>,
    pub(crate) is_changed: bool,
}

/// What is to be done about a directory.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    pub(crate) directory: Directory,
    pub(crate) works: Vec<Work>,
    pub(crate) gone_directories: Vec<PathBuf>,
    pub(crate) files: u64,
    pub(crate) file_bytes: u64,
    pub(crate) unchanged: u64,
    /// Their places among the entries, if a line of each is wanted.
    pub(crate) unchanged_at: Vec<usize>,
    pub(crate) links: u64,
    /// Files that are no longer there.
    pub(crate) gone: Vec<PathBuf>,
    /// Names of files with several names.
    pub(crate) hard_linked: u64,
    /// Names that belong to others.
    pub(crate) foreign: u64,
}

/// Compares a directory's record, if there is one, with what was found. `slot` is the number of
/// the directory among those that are settled together.
pub(crate) fn compare(
    old: Option<Vec<Entry>>,
    listing: Listing,
    args: &IngestArgs,
    slot: usize,
) -> Difference {
    let mut difference = Difference::default();
    difference.directory.path = listing.path;
    difference.directory.is_changed = old.is_none();
    let (at, is_whole) = (listing.at, listing.is_whole);
    let mut old = old.unwrap_or_default().into_iter().peekable();
    for found in listing.found {
        while let Some(entry) = old.next_if(|entry| entry.name < found.name) {
            difference.missing(entry, is_whole, args.prune);
        }
        let entry = old.next_if(|entry| entry.name == found.name);
        difference.found(entry.as_ref(), found, at, (args, slot));
    }
    for entry in old {
        difference.missing(entry, is_whole, args.prune);
    }
    difference
}

impl Difference {
    /// A name that was not found; what it held is kept.
    fn missing(&mut self, mut entry: Entry, is_whole: bool, is_pruned: bool) {
        if is_whole && (is_pruned || !entry.is_gone) {
            self.directory.is_changed = true;
            self.left(&entry);
            entry.is_gone = true;
            if is_pruned {
                return;
            }
        }
        self.directory.entries.push(Some(entry));
    }

    /// A name no longer stands for what it did.
    fn left(&mut self, entry: &Entry) {
        let path = || self.directory.path.join(OsStr::from_bytes(&entry.name));
        match entry.what {
            What::File { .. } if !entry.is_gone => self.gone.push(path()),
            What::Directory => self.gone_directories.push(path()),
            _ => {}
        }
    }

    fn found(
        &mut self,
        old: Option<&Entry>,
        found: Found,
        at: i64,
        (args, slot): (&IngestArgs, usize),
    ) {
        if let Some(old) = old
            && matches!(old.what, What::Directory) != matches!(found.kind, Kind::Directory)
            && !old.is_gone
        {
            self.left(old);
        }
        let is_file = matches!(found.kind, Kind::File);
        let mut entry = Entry {
            what: match &found.kind {
                Kind::File => What::File { document: 0 },
                Kind::Directory => What::Directory,
                Kind::Link { target } => What::Link {
                    target: target.clone(),
                },
            },
            // A directory or a link gets only its time back.
            stamp: match is_file {
                true => found.stamp,
                false => Stamp {
                    mtime: found.stamp.mtime,
                    ..Stamp::default()
                },
            },
            mode: found.mode,
            is_gone: false,
            is_racy: is_file && found.stamp.ctime.saturating_add(TICK_NANOS) >= at,
            is_dense: found.is_dense,
            name: found.name,
        };
        self.foreign += u64::from(found.is_foreign);
        self.hard_linked += u64::from(is_file && found.links > 1);
        if is_file {
            self.file(old, &mut entry, args, (found.device, found.links, slot));
        } else {
            self.links += u64::from(matches!(entry.what, What::Link { .. }));
        }
        self.directory.is_changed |= old != Some(&entry);
        self.directory.entries.push(Some(entry));
    }

    /// A file either is as it was, or has to be looked at.
    fn file(
        &mut self,
        old: Option<&Entry>,
        entry: &mut Entry,
        args: &IngestArgs,
        (device, links, slot): (u64, u64, usize),
    ) {
        self.files += 1;
        self.file_bytes += entry.stamp.size;
        let same = old.and_then(|old| match old.what {
            What::File { document } if is_same(old, &entry.stamp, args.quick_check) => {
                Some(document)
            }
            _ => None,
        });
        if let Some(document) = same {
            entry.what = What::File { document };
            // It has stayed as it was for long enough since.
            if !args.paranoid || document == 0 {
                entry.is_racy = false;
                self.unchanged += 1;
                if args.store.json {
                    self.unchanged_at.push(self.directory.entries.len());
                }
                return;
            }
        }
        self.works.push(Work {
            path: self.directory.path.join(OsStr::from_bytes(&entry.name)),
            stamp: entry.stamp,
            device,
            links,
            slot: (slot, self.directory.entries.len()),
            old: old.cloned(),
            verify: same.filter(|&document| document != 0),
        });
    }
}

fn is_same(old: &Entry, now: &Stamp, check: QuickCheck) -> bool {
    let is_same = match check {
        QuickCheck::Inode => old.stamp == *now,
        QuickCheck::Mtime => old.stamp.size == now.size && old.stamp.mtime == now.mtime,
        QuickCheck::Off => false,
    };
    is_same && !old.is_racy
}
