//! Iterators over a range of keys.

use crate::bounds::Bounds;
use crate::cursor::Direction;
use crate::error::{Error, Result};
use crate::key::Sequence;
use crate::origin::Origin;
use crate::slice::Slice;
use crate::store::Store;
use crate::tree::{Scan, Tree};

/// Keys and values in key order, from both ends.
///
/// It sees the store as it was when the iterator was made, and can be sent to another thread. It
/// holds on to the files and memtables of that moment, so drop it when it is no longer needed.
/// Reads one data block for each block's worth of entries.
///
/// After an error it ends, unless the error is about the operands of one key
/// ([`Error::Operator`], [`Error::NoOperator`]): then it goes on behind that key.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
///     db.put(key, value)?;
/// }
/// let mut entries = db.iter();
/// // It sees nothing that is written later.
/// db.delete("c")?;
/// let (first, _) = entries.next().unwrap()?;
/// let (last, _) = entries.next_back().unwrap()?;
/// assert_eq!(first, "a");
/// assert_eq!(last, "c");
/// assert_eq!(entries.count(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Iter {
    origin: Origin,
    scan: Scan,
    /// Why there is nothing to read: the one thing that is returned.
    refused: Option<Error>,
    ended: bool,
}

impl Iter {
    pub(super) fn new(store: &Store, tree: &Tree, at: Option<Sequence>, bounds: Bounds) -> Iter {
        let scan = Scan::new(tree, || store.visible(), at, bounds);
        Iter {
            origin: store.monitor().origin().clone(),
            refused: scan.is_of_dropped().then(|| tree.gone()),
            scan,
            ended: false,
        }
    }

    /// An iterator that returns the error, if there is one, and nothing else.
    pub(super) fn refused_by(mut self, check: Result<()>) -> Iter {
        self.refused = check.err().or(self.refused.take());
        self
    }

    /// Stands at the next entry of a direction; `false` at the end, and ever after.
    fn advance(&mut self, direction: Direction) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let found = match self.origin.check() {
            Ok(()) => match self.refused.take() {
                Some(error) => Err(error),
                None => self.scan.advance(direction),
            },
            Err(forked) => Err(forked),
        };
        self.ended = match &found {
            Ok(found) => !found,
            Err(error) => !error.is_of_operands(),
        };
        found
    }

    /// Walks to the end and counts, without a copy of any entry.
    pub(super) fn count_entries(mut self) -> Result<u64> {
        let mut count = 0;
        while let Some(entry) = self.next_ref() {
            entry?;
            count += 1;
        }
        Ok(count)
    }

    /// The next entry of a direction, to be kept.
    fn take(&mut self, direction: Direction) -> Option<Result<(Slice, Slice)>> {
        match self.advance(direction) {
            Ok(true) => self.scan.owned_entry(direction).map(Ok),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// The next key and value from the front, borrowed until the next call.
    ///
    /// As [`Iterator::next`], for a program that looks at many entries and keeps few: no entry is
    /// copied, and no reference to its block is counted. Both may be called in turn.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// # db.put("a", "12")?;
    /// # db.put("b", "345")?;
    /// let mut bytes = 0;
    /// let mut entries = db.iter();
    /// while let Some(entry) = entries.next_ref() {
    ///     let (_key, value) = entry?;
    ///     bytes += value.len();
    /// }
    /// assert_eq!(bytes, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn next_ref(&mut self) -> Option<Result<(&[u8], &[u8])>> {
        match self.advance(Direction::Forward) {
            Ok(true) => self.scan.entry(Direction::Forward).map(Ok),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl Iter {
    /// The keys alone.
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// # db.put("a", "1")?;
    /// let keys = db.prefix("a").keys().collect::<criba::Result<Vec<_>>>()?;
    /// assert_eq!(keys, ["a"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn keys(self) -> impl DoubleEndedIterator<Item = Result<Slice>> {
        self.map(|entry| Ok(entry?.0))
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        if self.origin.is_elsewhere() {
            // The files that only the view needs are the parent's.
            self.scan.leak();
        }
    }
}

impl Iterator for Iter {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take(Direction::Forward)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take(Direction::Backward)
    }
}

impl std::iter::FusedIterator for Iter {}
