//! Bytes that keep their memory alive: a cheap handle into a block, a map or the memtable.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::arena::Chunk;

/// A read-only piece of bytes that is cheap to clone and keeps the memory it lies in alive.
///
/// A value returned by a lookup is a `Slice` into its data block, if the block stays in the cache
/// or a map anyway, or is not much longer than the value. Then nothing is copied, and the whole
/// block (4 KiB by default) stays in memory as long as the slice does. Use `to_vec()` to keep a
/// small value for long.
///
/// ```
/// use criba::Slice;
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// let value: Slice = db.get("apple")?.unwrap();
/// assert_eq!(value, "red");
/// // It is a slice of bytes: all methods of these are there.
/// assert!(value.starts_with(b"r"));
/// let copy: Vec<u8> = value.to_vec();
/// assert_eq!(format!("{value:?}"), r#""red""#);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Slice {
    owner: Owner,
    // Invariant: start <= end, within the bytes of the owner.
    start: usize,
    end: usize,
}

#[derive(Clone)]
enum Owner {
    Heap(Arc<[u8]>),
    Buffer(Arc<Vec<u8>>),
    Map(Arc<Mapping>),
    Chunk(Arc<Chunk>),
}

/// A map, with references of its own to count. On cache lines of their own: threads that count
/// theirs shall not disturb each other.
#[repr(align(64))]
struct Mapping(Arc<memmap2::Mmap>);

impl Owner {
    fn of_map(map: &Arc<memmap2::Mmap>) -> Owner {
        Owner::Map(Arc::new(Mapping(Arc::clone(map))))
    }
}

impl Slice {
    pub(crate) fn from_map(map: &Arc<memmap2::Mmap>, range: Range<usize>) -> Option<Slice> {
        let valid = range.start <= range.end && range.end <= map.len();
        valid.then(|| Slice {
            owner: Owner::of_map(map),
            start: range.start,
            end: range.end,
        })
    }

    /// The same bytes; of a map the references to this slice and to its parts are counted apart from
    /// those to the other.
    pub(crate) fn counted_apart(&self) -> Slice {
        let owner = match &self.owner {
            Owner::Map(mapping) => Owner::of_map(&mapping.0),
            owner => owner.clone(),
        };
        Slice {
            owner,
            start: self.start,
            end: self.end,
        }
    }

    /// Bytes that were appended to a chunk.
    pub(crate) fn from_chunk(chunk: Arc<Chunk>, range: Range<usize>) -> Slice {
        Slice {
            owner: Owner::Chunk(chunk),
            start: range.start,
            end: range.end,
        }
    }

    /// So many bytes, which `fill` fills in: all of them, as they may be those of something else before.
    ///
    /// Usual sizes lie beside the count of their references: who looks at them need not first look up
    /// where they are.
    pub(crate) fn filled<E>(
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Slice, E> {
        let mut slice = Slice::zeroed(len);
        // Nobody else has it.
        if let Some(bytes) = slice.alone_mut() {
            fill(bytes)?;
        }
        Ok(slice)
    }

    /// So many zeros, to be written over.
    pub(crate) fn zeroed(len: usize) -> Slice {
        static ZEROS: [u8; USUAL_BYTES_MAX] = [0; USUAL_BYTES_MAX];
        match ZEROS.get(..len) {
            Some(zeros) => Slice::from(zeros),
            None => Slice::from(vec![0; len]),
        }
    }

    /// The bytes, to be written to, if nobody else has the memory that they lie in.
    pub(crate) fn alone_mut(&mut self) -> Option<&mut [u8]> {
        let range = self.start..self.end;
        match &mut self.owner {
            Owner::Heap(bytes) => Arc::get_mut(bytes)?.get_mut(range),
            Owner::Buffer(bytes) => Arc::get_mut(bytes)?.get_mut(range),
            Owner::Map(_) | Owner::Chunk(_) => None,
        }
    }

    /// A part of this slice that shares its memory.
    ///
    /// ```
    /// use criba::Slice;
    ///
    /// let whole = Slice::from("user/alice");
    /// let name = whole.slice(5..whole.len());
    /// assert_eq!(name, "alice");
    /// assert_eq!(name.as_ptr(), whole[5..].as_ptr());
    /// ```
    ///
    /// # Panics
    ///
    /// If the range does not lie within the slice, as indexing does.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Slice {
        self.clone().into_part(range)
    }

    /// [`Slice::slice`] of one that is not needed any more: its reference is the part's.
    pub(crate) fn into_part(self, range: Range<usize>) -> Slice {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "range {range:?} is outside a slice of {} bytes",
            self.len()
        );
        Slice {
            start: self.start + range.start,
            end: self.start + range.end,
            owner: self.owner,
        }
    }

    /// [`Slice::into_part`], but a copy of the part if nobody else has the rest, which is longer: the
    /// rest does not stay in memory for the part then.
    pub(crate) fn into_part_alone(self, range: Range<usize>) -> Slice {
        if let Owner::Heap(bytes) = &self.owner
            && Arc::strong_count(bytes) == 1
        {
            return self.into_part_passing(range);
        }
        self.into_part(range)
    }

    /// [`Slice::into_part`], but a copy of a part that is at most half as long as the rest of a slice
    /// that is about to be dropped everywhere.
    pub(crate) fn into_part_passing(self, range: Range<usize>) -> Slice {
        match &self.owner {
            Owner::Heap(bytes) if range.len() <= bytes.len() / 2 => Slice::from(&self[range]),
            _ => self.into_part(range),
        }
    }

    /// Whether the bytes lie in a memory map and cost no memory of the process's own.
    pub(crate) fn is_mapped(&self) -> bool {
        matches!(self.owner, Owner::Map(_))
    }
}

/// The most bytes that lie beside the count of their references.
const USUAL_BYTES_MAX: usize = 16 << 10;

impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let range = self.start..self.end;
        match &self.owner {
            Owner::Heap(bytes) => &bytes[range],
            Owner::Buffer(bytes) => &bytes[range],
            Owner::Map(mapping) => &mapping.0[range],
            Owner::Chunk(chunk) => chunk.read(range),
        }
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::borrow::Borrow<[u8]> for Slice {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl Default for Slice {
    fn default() -> Slice {
        Slice::from(Vec::new())
    }
}

impl From<Vec<u8>> for Slice {
    fn from(bytes: Vec<u8>) -> Slice {
        let end = bytes.len();
        Slice {
            owner: Owner::Buffer(Arc::new(bytes)),
            start: 0,
            end,
        }
    }
}

impl From<&[u8]> for Slice {
    fn from(bytes: &[u8]) -> Slice {
        Slice {
            owner: Owner::Heap(Arc::from(bytes)),
            start: 0,
            end: bytes.len(),
        }
    }
}

impl From<&str> for Slice {
    fn from(text: &str) -> Slice {
        Slice::from(text.as_bytes())
    }
}

/// Shows the bytes as escaped ASCII, so that foreign bytes are safe on a terminal.
impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Slice {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for Slice {}

impl PartialOrd for Slice {
    fn partial_cmp(&self, other: &Slice) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slice {
    fn cmp(&self, other: &Slice) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Slice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_memory_and_compares_as_bytes() {
        let whole = Slice::from(b"abcdef".to_vec());
        let part = whole.slice(1..4);
        assert_eq!(part, b"bcd");
        assert_eq!(part, "bcd");
        assert_eq!(part.slice(1..1), b"");
        assert_eq!(part.as_ptr(), whole[1..].as_ptr());
        assert_eq!(whole.cmp(&Slice::from("b")), Ordering::Less);
        assert_eq!(
            format!("{:?}", Slice::from(&b"a\x1b\"\xff"[..])),
            r#""a\x1b\"\xff""#
        );
    }

    #[test]
    fn a_short_part_does_not_keep_the_rest_in_memory() {
        let ones = |bytes: &mut [u8]| {
            bytes.fill(1);
            Ok::<(), ()>(())
        };
        let whole = || Slice::filled(4096, ones).unwrap();
        let block = whole();
        let place = block[10..].as_ptr();
        let part = block.into_part_alone(10..110);
        assert_eq!(part, [1; 100]);
        assert_ne!(part.as_ptr(), place);
        // Somebody else has it, or most of it is wanted.
        let block = whole();
        let part = block.clone().into_part_alone(10..110);
        assert_eq!(part.as_ptr(), block[10..].as_ptr());
        drop(part);
        let place = block.as_ptr();
        let most = block.into_part_alone(0..4000);
        assert_eq!((most.as_ptr(), most.len()), (place, 4000));
    }

    #[test]
    #[should_panic(expected = "outside a slice of 2 bytes")]
    fn refuses_a_range_outside() {
        let part = Slice::from(b"abcdef".to_vec()).slice(0..2);
        drop(part.slice(1..3));
    }
}
