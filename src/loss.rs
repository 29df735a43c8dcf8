//! What could not be saved of damaged files.

use std::fmt;
use std::path::PathBuf;

use crate::slice::Slice;

/// Bytes of a damaged file that were given up: see [`Recovery`](crate::Recovery) and
/// [`Builder::repair`](crate::Builder::repair).
///
/// ```
/// use criba::{Db, Recovery};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// # let db = Db::open(&path)?;
/// # for key in ["apple", "banana", "cherry"] {
/// #     db.put(key, [b'x'; 1000])?;
/// # }
/// # let mut files = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
/// # let is_journal = |file: &std::path::PathBuf| file.extension().is_some_and(|e| e == "journal");
/// # let journal = files.find(is_journal).unwrap();
/// # db.close()?;
/// # let mut bytes = std::fs::read(&journal).unwrap();
/// # let at = bytes.windows(6).position(|bytes| bytes == b"banana").unwrap();
/// # bytes[at] ^= 1;
/// # std::fs::write(&journal, bytes).unwrap();
/// // A journal is damaged in its second of three records.
/// let db = Db::builder(&path).recovery(Recovery::TolerateTail).open()?;
/// let loss = &db.stats().recovery.lost[0];
/// println!("{loss}");
/// assert!(loss.path.starts_with(&path));
/// assert!(loss.offset > 1000 && loss.what.contains("damaged"));
/// assert!(db.contains_key("apple")? && !db.contains_key("banana")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The file.
    pub path: PathBuf,
    /// Where the lost part begins, in bytes.
    pub offset: u64,
    /// Its length; 0 when the bytes are gone or their number is unknown.
    pub bytes: u64,
    /// The lost part, or why it was given up, in words.
    pub what: String,
    /// All keys that the lost part may have held lie between these two, ends included. `None` when
    /// no such bounds are known.
    pub keys: Option<(Slice, Slice)>,
}

impl Loss {
    pub(crate) fn new(path: PathBuf, offset: u64, bytes: u64, what: impl Into<String>) -> Loss {
        Loss {
            path,
            offset,
            bytes,
            what: what.into(),
            keys: None,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} bytes are lost at byte {}: {}",
            self.path.display(),
            self.bytes,
            self.offset,
            self.what
        )
    }
}
