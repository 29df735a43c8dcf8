//! The tables of the index, a keyspace each, and their keys. The default keyspace has the records of
//! the store itself.

use std::ffi::OsStr;
use std::ops::Index;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use criba::{Db, FilterPolicy, Keyspace};

use crate::exit::Failure;

/// The kind of the store: format, index only or with content.
pub(crate) const META: &[u8] = b"M";
/// Next document number, end of the packs: written with every batch.
pub(crate) const NEXT: &[u8] = b"N";
/// Counters of all runs. Until 2026-11-26 they were under `T`, and another record.
pub(crate) const TOTALS: &[u8] = b"C";

/// What the index knows. URLs, fingerprints and hashes are their own keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Table {
    /// Path to names, stamps, document numbers.
    Directory,
    /// Device and inode to the content of a file with several names.
    Inode,
    /// Index only: size to the one document of this size, or "several".
    Size,
    /// Fingerprint of size and first block to a document; 0 stands for several, told apart by hash.
    FirstBlock,
    /// Hash to the document with this content.
    Whole,
    /// Fingerprint of a block or line to where it is stored.
    Piece,
    /// URL to what was fetched: validators, document number.
    Url,
    /// Number to size, hash, and where the content is.
    Document,
}

impl Table {
    /// The table with this name; nothing for `none`.
    pub(crate) fn named(name: &str) -> Result<Option<Table>, String> {
        let names = Table::ALL.map(|(_, name)| name).join(", ");
        let found = Table::ALL.into_iter().find(|(_, table)| *table == name);
        match found {
            Some((table, _)) => Ok(Some(table)),
            None if name == "none" => Ok(None),
            None => Err(format!("the tables are {names}; none for no table")),
        }
    }

    /// All in their order, with the names of their keyspaces.
    pub(crate) const ALL: [(Table, &str); 8] = [
        (Table::Directory, "directory"),
        (Table::Inode, "inode"),
        (Table::Size, "size"),
        (Table::FirstBlock, "first_block"),
        (Table::Whole, "whole"),
        (Table::Piece, "piece"),
        (Table::Url, "url"),
        (Table::Document, "document"),
    ];
}

/// The filters of the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filters {
    /// Bits for each key; those of the store's own choice, if none are given.
    pub(crate) bits_per_key: Option<u8>,
    /// Tables whose new segments get one.
    pub(crate) with: [bool; Table::ALL.len()],
}

impl Filters {
    pub(crate) fn new(tables: &[Table], bits_per_key: Option<u8>) -> Filters {
        Filters {
            bits_per_key,
            with: Table::ALL.map(|(table, _)| tables.contains(&table)),
        }
    }

    fn of(&self, table: Table) -> FilterPolicy {
        match self.bits_per_key {
            _ if !self.with[table as usize] => FilterPolicy::None,
            None => FilterPolicy::default(),
            Some(bits) => FilterPolicy::Budget {
                bits_per_key: f64::from(bits),
            },
        }
    }
}

impl Default for Filters {
    /// Most of what these are asked for is new. The others are mostly asked for what is there, so
    /// that a filter costs more to read than it saves: `docs/io-fetcher.md` has the measurement.
    fn default() -> Filters {
        Filters::new(&[Table::FirstBlock, Table::Piece], None)
    }
}

/// All tables of a store.
#[derive(Debug)]
pub(crate) struct Tables(Vec<Keyspace>);

impl Tables {
    /// Opens them, or makes those that are not there.
    pub(crate) fn open(db: &Db, filters: &Filters) -> Result<Tables, Failure> {
        let open = |(table, name)| {
            let filter = filters.of(table);
            db.keyspace_with(name, |options| options.filter(filter))
        };
        let tables = Table::ALL.into_iter().map(open);
        Ok(Tables(tables.collect::<criba::Result<_>>()?))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Keyspace> {
        self.0.iter()
    }
}

impl Index<Table> for Tables {
    type Output = Keyspace;

    fn index(&self, table: Table) -> &Keyspace {
        &self.0[table as usize]
    }
}

/// With content, in place of a document number for a first block: ask for the whole hash. (The
/// empty document, whose number this is, has no first block.)
pub(crate) const SEVERAL: u64 = 0;

/// Bytes of a fingerprint: no two contents share one unless someone does 2^80 work for it.
pub(crate) const FINGERPRINT_BYTES: usize = 20;

/// A truncated hash of a first block, a block or a line.
pub(crate) type Fingerprint = [u8; FINGERPRINT_BYTES];

/// The hash of a whole document.
pub(crate) type Hash = [u8; 32];

/// Keys have at most 65,535 bytes; paths and URLs beyond are refused by the caller.
pub(crate) const NAME_BYTES_MAX: usize = 65_000;

/// A slash becomes a zero byte, which no name has: so keys are in the order of a sorted walk.
pub(crate) fn directory(path: &Path) -> Vec<u8> {
    swapped(path.as_os_str().as_bytes(), b'/', 0)
}

/// Undoes [`directory`].
pub(crate) fn directory_path(key: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&swapped(key, 0, b'/')))
}

fn swapped(bytes: &[u8], from: u8, to: u8) -> Vec<u8> {
    let swap = |&byte| if byte == from { to } else { byte };
    bytes.iter().map(swap).collect()
}

pub(crate) fn inode(device: u64, inode: u64) -> Vec<u8> {
    [device.to_le_bytes(), inode.to_le_bytes()].concat()
}

/// Most significant byte first, so that documents are in the order of their numbers.
pub(crate) fn document(number: u64) -> [u8; 8] {
    std::array::from_fn(|at| (number >> (56 - 8 * at)) as u8)
}

/// Undoes [`document`].
pub(crate) fn document_number(key: &[u8]) -> u64 {
    key.iter()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_at_its_place() {
        for (at, (table, name)) in Table::ALL.into_iter().enumerate() {
            assert_eq!(table as usize, at, "{name}");
        }
    }

    #[test]
    fn directories_sort_as_they_are_walked() {
        let paths = ["/a", "/a/b", "/a/b/c", "/a.b", "/a0"];
        let keys: Vec<_> = paths
            .iter()
            .map(|path| directory(Path::new(path)))
            .collect();
        assert!(keys.is_sorted(), "{keys:?}");
        for (key, path) in keys.iter().zip(paths) {
            assert_eq!(directory_path(key), Path::new(path));
        }
    }

    #[test]
    fn documents_sort_by_number() {
        for number in [0, 1, 255, 256, u64::MAX] {
            assert_eq!(document_number(&document(number)), number);
        }
        assert!(document(255) < document(256));
    }
}
