//! Keys inside the store: user key ascending, then newest first.

use std::cmp::Ordering;
use std::fmt;

/// Longest key, in bytes. The empty key is a key.
///
/// ```
/// use criba::{Error, MAX_KEY_BYTES};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put([b'k'; MAX_KEY_BYTES], "value")?;
/// let refused = db.put([b'k'; MAX_KEY_BYTES + 1], "value");
/// assert!(matches!(refused, Err(Error::Invalid(_))));
/// # Ok(())
/// # }
/// ```
pub const MAX_KEY_BYTES: usize = 65_535;

/// Longest value, in bytes: 1 GiB.
///
/// ```
/// use criba::MAX_VALUE_BYTES;
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// let upload = vec![0; 5_000_000];
/// if upload.len() <= MAX_VALUE_BYTES {
///     db.put("upload", &upload)?;
/// }
/// assert_eq!(db.get("upload")?.unwrap().len(), 5_000_000);
/// # Ok(())
/// # }
/// ```
pub const MAX_VALUE_BYTES: usize = 1 << 30;

/// The number of a write. Every operation of every batch gets the next one, without gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Sequence(pub(crate) u64);

impl Sequence {
    /// Above every real sequence: six bits remain for what a later format may want to pack.
    pub(crate) const MAX: Sequence = Sequence((1 << 58) - 1);

    /// The sequence `count` writes later.
    pub(crate) fn after(self, count: u64) -> Sequence {
        Sequence(self.0.saturating_add(count))
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a keyspace. It is given once and never again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct KeyspaceId(pub(crate) u32);

impl KeyspaceId {
    /// The keyspace that every store has, and that a [`Db`](crate::Db) is a handle of.
    pub(crate) const DEFAULT: KeyspaceId = KeyspaceId(0);
}

impl fmt::Display for KeyspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What an entry does to its key.
///
/// These numbers are written to disk and must not be changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    /// The key was deleted: older entries of it are hidden.
    Tombstone = 0,
    /// The key has a value.
    Value = 1,
    /// What a merge operator combines with the older entries of the key.
    Operand = 2,
}

impl Kind {
    pub(crate) fn to_u8(self) -> u8 {
        self as u8
    }

    /// Whether bytes come with it.
    pub(crate) fn has_value(self) -> bool {
        self != Kind::Tombstone
    }

    pub(crate) fn from_u8(byte: u8) -> Option<Kind> {
        match byte {
            0 => Some(Kind::Tombstone),
            1 => Some(Kind::Value),
            2 => Some(Kind::Operand),
            _ => None,
        }
    }
}

/// The first eight bytes as a number that orders as they do: of two keys with different heads, the one
/// with the smaller head comes first.
#[inline]
pub(crate) fn head(key: &[u8]) -> u64 {
    u64::from_le_bytes(first_bytes(key)).swap_bytes()
}

/// The same of the first sixteen bytes.
#[inline]
pub(crate) fn long_head(key: &[u8]) -> u128 {
    u128::from_le_bytes(first_bytes(key)).swap_bytes()
}

/// Of a shorter key what is missing counts as zeros.
#[inline]
fn first_bytes<const N: usize>(key: &[u8]) -> [u8; N] {
    key.first_chunk().copied().unwrap_or_else(|| {
        let mut bytes = [0; N];
        bytes[..key.len()].copy_from_slice(key);
        bytes
    })
}

/// The order of entries: user key ascending, then sequence descending (newest first).
pub(crate) fn compare(left: (&[u8], Sequence), right: (&[u8], Sequence)) -> Ordering {
    left.0.cmp(right.0).then(right.1.cmp(&left.1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn heads_order_as_keys() {
        let mut keys: Vec<&[u8]> =
            vec![b"", b"\0", b"a", b"a\0", b"abcdefgh", b"abcdefghi", b"\xff"];
        keys.extend([
            &b"abcdefghijklmnop"[..],
            b"abcdefghijklmnopq",
            b"abcdefghijklmno\0",
        ]);
        keys.sort_unstable();
        assert!(keys.is_sorted_by_key(|key| head(key)));
        assert!(keys.is_sorted_by_key(|key| long_head(key)));
        let distinct: BTreeSet<u128> = keys.iter().map(|key| long_head(key)).collect();
        // "" and "\0", "a" and "a\0", and what has the same sixteen bytes are not told apart.
        assert_eq!(distinct.len(), keys.len() - 3);
    }

    #[test]
    fn newest_first_within_a_key() {
        let entry = |key: &'static str, sequence| (key.as_bytes(), Sequence(sequence));
        assert_eq!(compare(entry("a", 1), entry("b", 9)), Ordering::Less);
        assert_eq!(compare(entry("a", 9), entry("a", 1)), Ordering::Less);
        assert_eq!(compare(entry("a", 1), entry("a", 1)), Ordering::Equal);
        assert_eq!(compare(entry("", 1), entry("a", 1)), Ordering::Less);
    }

    #[test]
    fn kinds_survive_their_byte() {
        for kind in [Kind::Tombstone, Kind::Value, Kind::Operand] {
            assert_eq!(Kind::from_u8(kind.to_u8()), Some(kind));
        }
        assert_eq!(Kind::from_u8(3), None);
    }
}
