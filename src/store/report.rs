//! The report of `open`.

use std::path::PathBuf;

use crate::loss::Loss;

/// The report of `open`: what it found, and what it did.
///
/// ```
/// use criba::Db;
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// let db = Db::open(&path)?;
/// db.put("apple", "red")?;
/// db.close()?;
/// # std::fs::write(path.join("notes.txt"), "").unwrap();
/// let report = Db::open(&path)?.stats().recovery;
/// assert!(report.clean && report.lost.is_empty());
/// assert_eq!((report.batches, report.operations), (1, 1));
/// // Somebody has put a file there.
/// assert_eq!(report.unknown_files, ["notes.txt"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Whether the last user closed the store.
    pub clean: bool,
    /// Batches replayed from journals.
    pub batches: u64,
    /// Operations in them.
    pub operations: u64,
    /// Torn tails that were dropped: writes that were never acknowledged as durable.
    pub torn: Vec<TornTail>,
    /// Bytes that were given up and whose damage no crash explains: see
    /// [`Recovery`](crate::Recovery). Empty when nothing was damaged.
    pub lost: Vec<Loss>,
    /// Files that were kept under these names because they are damaged.
    pub quarantined: Vec<String>,
    /// Files that are not the store's. They are left alone.
    pub unknown_files: Vec<String>,
    /// Files of the store that nothing refers to any more, removed by `open`.
    pub removed_files: Vec<String>,
}

/// A torn tail of a journal.
///
/// ```
/// use criba::Db;
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// # let db = Db::builder(&path).map_journal(false).open()?;
/// # db.put("apple", "red")?;
/// # db.put("banana", "yellow")?;
/// # let copy = dir.path().join("copy");
/// # std::fs::create_dir(&copy).unwrap();
/// # for entry in std::fs::read_dir(&path).unwrap() {
/// #     let file = entry.unwrap();
/// #     std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
/// #     if file.path().extension().is_some_and(|end| end == "journal") {
/// #         let copy = std::fs::OpenOptions::new().write(true).open(copy.join(file.file_name()));
/// #         copy.unwrap().set_len(file.metadata().unwrap().len() - 1).unwrap();
/// #     }
/// # }
/// # let path = copy;
/// // A crash has cut the last write short, which was not synced.
/// let db = Db::open(&path)?;
/// let torn = &db.stats().recovery.torn[0];
/// assert!(torn.dropped_bytes > 0);
/// assert!(db.contains_key("apple")? && !db.contains_key("banana")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornTail {
    /// The journal.
    pub path: PathBuf,
    /// Where the intact part ends, in bytes.
    pub offset: u64,
    /// Bytes dropped.
    pub dropped_bytes: u64,
}
