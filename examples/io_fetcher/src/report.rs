//! What a run did, in numbers: for a person, as JSON, and kept in the store for the next run.

use common::codec::{Malformed, Reader, put_number};
use serde_json::{Value, json};

use crate::account::Account;
use crate::ledger::Accounts;

/// What a run did with the documents it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Files and URLs looked at.
    pub(crate) documents: u64,
    pub(crate) document_bytes: u64,
    pub(crate) directories: u64,
    pub(crate) links: u64,
    /// Sockets, pipes and devices, which have no content.
    pub(crate) specials: u64,
    /// Not opened: the stamp was as before.
    pub(crate) unchanged: u64,
    /// Opened because they were new, and because their stamp had changed.
    pub(crate) new: u64,
    pub(crate) changed: u64,
    /// No longer there.
    pub(crate) gone: u64,
    /// Files of no bytes among the new and changed.
    pub(crate) empty: u64,
    /// New or changed, with a content that was there already.
    pub(crate) duplicates: u64,
    pub(crate) duplicate_bytes: u64,
    /// Of these, known to be the same file under another name.
    pub(crate) hard_links: u64,
    /// New contents.
    pub(crate) stored: u64,
    pub(crate) stored_bytes: u64,
    /// Stored candidates whose first block was read to compare it, and that were another content.
    pub(crate) verified: u64,
    pub(crate) refuted: u64,
    /// Documents that were read whole to compare their hash.
    pub(crate) hashed: u64,
    /// Blocks or lines looked up, and of those not new.
    pub(crate) pieces: u64,
    pub(crate) pieces_found: u64,
    pub(crate) pieces_found_bytes: u64,
    /// Times that a source file was opened.
    pub(crate) opened: u64,
    /// Skipped and reported.
    pub(crate) troubles: u64,
    /// Contents found damaged in the store and stored again.
    pub(crate) repaired: u64,
    /// Names of files with several names: each is to come back as a file of its own.
    pub(crate) hard_linked: u64,
    /// Names that belong to another user or group than this process.
    pub(crate) foreign: u64,
    /// New or changed files, and new directories, with access lists or extended attributes.
    pub(crate) attributed: u64,
    /// Directories left out because they are on another file system.
    pub(crate) other_file_systems: u64,
}

impl Counts {
    /// Names for a person what was seen and is not stored.
    pub(crate) fn not_kept(&self) -> Option<String> {
        let parts = [
            (self.specials, "sockets, pipes or devices"),
            (self.foreign, "owners that are not this user"),
            (self.attributed, "access lists or extended attributes"),
            (self.hard_linked, "hard-linked names (each becomes a file)"),
            (self.other_file_systems, "directories on other file systems"),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<_> = parts
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        (!parts.is_empty()).then(|| format!("  not kept: {}", parts.join(", ")))
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "documents": self.documents,
            "document_bytes": self.document_bytes,
            "directories": self.directories,
            "symbolic_links": self.links,
            "unchanged": self.unchanged,
            "new": self.new,
            "changed": self.changed,
            "gone": self.gone,
            "empty": self.empty,
            "duplicates": self.duplicates,
            "duplicate_bytes": self.duplicate_bytes,
            "hard_links": self.hard_links,
            "stored": self.stored,
            "stored_bytes": self.stored_bytes,
            "first_blocks_verified": self.verified,
            "first_blocks_refuted": self.refuted,
            "hashed_whole": self.hashed,
            "pieces": self.pieces,
            "pieces_found": self.pieces_found,
            "pieces_found_bytes": self.pieces_found_bytes,
            "source_files_opened": self.opened,
            "troubles": self.troubles,
            "repaired": self.repaired,
            "not_kept": {
                "special_files": self.specials,
                "owners": self.foreign,
                "extended_attributes": self.attributed,
                "hard_linked_names": self.hard_linked,
                "other_file_systems": self.other_file_systems,
            },
        })
    }
}

/// Counters of all runs that changed something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) runs: u64,
    pub(crate) reads_avoided: u64,
    pub(crate) false_positives: u64,
    pub(crate) source_bytes_read: u64,
    pub(crate) source_bytes_seen: u64,
    /// The lookups of each table.
    pub(crate) accounts: Accounts,
}

impl Totals {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [
            self.runs,
            self.reads_avoided,
            self.false_positives,
            self.source_bytes_read,
            self.source_bytes_seen,
        ] {
            put_number(&mut out, number);
        }
        for account in &self.accounts {
            account.encode(&mut out);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Totals, Malformed> {
        let mut reader = Reader(bytes);
        let mut number = || reader.number();
        let mut totals = Totals {
            runs: number()?,
            reads_avoided: number()?,
            false_positives: number()?,
            source_bytes_read: number()?,
            source_bytes_seen: number()?,
            accounts: Accounts::default(),
        };
        for account in &mut totals.accounts {
            *account = Account::decode(&mut reader)?;
        }
        reader.end()?;
        Ok(totals)
    }
}

/// What the system counted for this process, where it does: bytes of all reads and writes, and of
/// those that reached a disk.
pub(crate) fn process_io() -> Value {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let pairs = text.lines().filter_map(|line| {
        let (name, number) = line.split_once(": ")?;
        Some((name.to_owned(), json!(number.parse::<u64>().ok()?)))
    });
    Value::Object(pairs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_come_back() {
        let totals = Totals {
            runs: 3,
            false_positives: 1 << 40,
            ..Totals::default()
        };
        let bytes = totals.encode();
        assert_eq!(Totals::decode(&bytes), Ok(totals));
        assert_eq!(Totals::decode(&bytes[1..]), Err(Malformed));
    }

    #[test]
    fn the_system_counts() {
        assert!(process_io()["rchar"].as_u64().is_some());
    }
}
