//! What an ingest counts and tells of each document.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use common::escape::{Escaped, Plain};

use crate::archive::empty_document;
use crate::diff::Difference;
use crate::exit::complain;
use crate::ingest::{Fate, How, Run, Work};
use crate::keys::{self, Hash, Table};
use crate::lines::{Facts, Status};
use crate::read;
use crate::record::{Document, What};
use crate::walk::Listing;

impl Run<'_> {
    /// A document is skipped.
    pub(crate) fn trouble(&mut self, name: &[u8], what: &str) {
        self.counts.troubles += 1;
        let facts = Facts {
            reason: Some(what),
            ..Facts::default()
        };
        self.lines.add(name, Status::Skipped, &facts);
        complain(format_args!("skipped {}: {}", Escaped(name), Plain(what)));
    }

    /// Counts a document that was looked at, and says what became of it.
    pub(crate) fn count(&mut self, work: &Work, fate: Fate) -> Status {
        let counts = &mut self.counts;
        match (&work.old, work.verify) {
            (_, Some(document)) if document == fate.document => {
                counts.unchanged += 1;
                return match fate.how {
                    How::Repaired => Status::Repaired,
                    _ => Status::Verified,
                };
            }
            (Some(_), _) => counts.changed += 1,
            (None, _) => counts.new += 1,
        }
        if fate.how == How::New {
            counts.stored += 1;
            counts.stored_bytes += work.stamp.size;
            return match self.archive.is_index_only {
                true => Status::Indexed,
                false => Status::Stored,
            };
        }
        if work.stamp.size == 0 {
            counts.empty += 1;
            return Status::Empty;
        }
        counts.duplicates += 1;
        counts.duplicate_bytes += work.stamp.size;
        match fate.how {
            How::OtherName => Status::HardLink,
            _ => Status::Duplicate,
        }
    }

    /// Counts what has no content, and what is not to be looked at.
    pub(crate) fn left_out(&mut self, listing: &Listing) {
        self.counts.specials += listing.specials.len() as u64;
        self.counts.other_file_systems += listing.other_file_systems;
        for name in &listing.specials {
            let path = listing.path.join(OsStr::from_bytes(name));
            let name = path.as_os_str().as_bytes();
            self.lines.add(name, Status::Special, &Facts::default());
        }
    }

    /// Counts files and directories with access lists or attributes, which are not kept.
    pub(crate) fn count_attributes<'p>(&mut self, paths: impl Iterator<Item = &'p Path>) {
        if !self.archive.is_index_only {
            let has = paths.filter(|path| read::has_attributes(path));
            self.counts.attributed += has.count() as u64;
        }
    }

    /// Counts what needs no look at any content, and adds its lines.
    pub(crate) fn count_difference(&mut self, difference: &Difference) {
        let counts = &mut self.counts;
        counts.documents += difference.files;
        counts.document_bytes += difference.file_bytes;
        counts.unchanged += difference.unchanged;
        counts.links += difference.links;
        counts.hard_linked += difference.hard_linked;
        counts.foreign += difference.foreign;
        for path in &difference.gone {
            self.gone(path);
        }
        let directory = &difference.directory;
        for &at in &difference.unchanged_at {
            if let Some(entry) = &directory.entries[at]
                && let What::File { document } = entry.what
            {
                let path = directory.path.join(OsStr::from_bytes(&entry.name));
                let name = path.as_os_str().as_bytes();
                self.tell(
                    name,
                    Status::Unchanged,
                    entry.stamp.size,
                    Fate::unread(document),
                );
            }
        }
    }

    /// A file is no longer there.
    pub(crate) fn gone(&mut self, path: &Path) {
        self.counts.gone += 1;
        let status = match self.args.prune {
            true => Status::Pruned,
            false => Status::Gone,
        };
        let name = path.as_os_str().as_bytes();
        self.lines.add(name, status, &Facts::default());
    }

    /// Adds the line of a document.
    pub(crate) fn tell(&mut self, name: &[u8], status: Status, size: u64, fate: Fate) {
        if !self.lines.are_wanted() {
            return;
        }
        let is_duplicate = matches!(status, Status::Duplicate | Status::HardLink);
        let facts = Facts {
            size: Some(size),
            hash: self.hash_of(fate.document),
            document: Some(fate.document),
            duplicate_of: is_duplicate.then_some(fate.document),
            read: Some(fate.cost.read),
            written: Some(fate.cost.written),
            reason: None,
        };
        self.lines.add(name, status, &facts);
    }

    /// The hash of a document, where its record has one.
    fn hash_of(&mut self, document: u64) -> Option<Hash> {
        if document == 0 {
            return Some(empty_document().hash);
        }
        if self.archive.is_index_only {
            return None;
        }
        let key = keys::document(document);
        let record = self.ledger.get(Table::Document, &key).ok()??;
        Some(Document::decode(&record).ok()?.hash)
    }
}
