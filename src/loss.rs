//! What could not be saved of damaged files.

use std::fmt;
use std::path::PathBuf;

use crate::slice::Slice;

/// Bytes of a damaged file that were given up: see [`Recovery`](crate::Recovery) and
/// [`Builder::repair`](crate::Builder::repair).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The file.
    pub path: PathBuf,
    /// Where the lost part begins, in bytes.
    pub offset: u64,
    /// How long it is; 0 when the bytes are not there any more, or it is unknown how many.
    pub bytes: u64,
    /// What is lost, or why.
    pub what: String,
    /// Keys that the lost part may have held lie between these two, ends included; `None` when
    /// that is unknown.
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
