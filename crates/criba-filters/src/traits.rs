//! What structures have in common: sets, maps, sketches, merging.
//!
//! Each method that takes a key takes anything that becomes a [`KeyHash`]: bytes, a string, or a
//! hash made before. Beside it stands one that takes the hash alone; implementations have only
//! that, and a `dyn Membership` has it too.

use crate::{KeyHash, Result};

/// An approximate set of keys.
///
/// ```
/// use criba_filters::{Classic, Design, Insert, KeyHash, Membership, Quotient};
///
/// let mut sets: [Box<dyn Insert>; 2] = [
///     Box::new(Classic::new(Design::for_rate(1_000, 0.01)?)?),
///     Box::new(Quotient::new(1_000, 0.01)?),
/// ];
/// for set in &mut sets {
///     set.insert_hash(KeyHash::from("apple"))?;
///     assert!(set.may_contain_hash(KeyHash::from("apple")) && set.len() == 1);
/// }
/// # Ok::<(), criba_filters::Error>(())
/// ```
pub trait Membership {
    /// [`may_contain`](Self::may_contain) for a key that is hashed already.
    fn may_contain_hash(&self, hash: KeyHash) -> bool;

    /// Whether the key may be in the set; `false` is certain.
    #[inline]
    fn may_contain(&self, key: impl Into<KeyHash>) -> bool
    where
        Self: Sized,
    {
        self.may_contain_hash(key.into())
    }

    /// Keys in the set; each structure says whether a key that is put in twice counts twice.
    fn len(&self) -> u64;

    /// Whether no key is in the set.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of what is stored, in bits, without the few fields of fixed size.
    fn bits(&self) -> u64;

    /// Probability that an absent key passes, by theory: from sizes and number of keys alone.
    fn expected_rate(&self) -> f64;

    /// Probability that an absent key passes, from what is stored now: from the bits that are set,
    /// or the cells in use.
    fn current_rate(&self) -> f64;

    /// The whole structure as bytes, with kind, version and checksum.
    fn to_bytes(&self) -> Vec<u8>;

    /// The structure from its bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`](crate::Error::Unreadable), which says why, for bytes that
    /// [`to_bytes`](Self::to_bytes) of this structure did not write.
    fn from_bytes(bytes: &[u8]) -> Result<Self>
    where
        Self: Sized;
}

/// A set that takes keys one by one.
///
/// ```
/// use criba_filters::{Cuckoo, Insert};
///
/// fn fill(set: &mut impl Insert, words: &str) -> criba_filters::Result<()> {
///     words.split(' ').try_for_each(|word| set.insert(word))
/// }
///
/// let mut set = Cuckoo::new(100, 0.01)?;
/// fill(&mut set, "the quick brown fox")?;
/// # Ok::<(), criba_filters::Error>(())
/// ```
pub trait Insert: Membership {
    /// [`insert`](Self::insert) for a key that is hashed already.
    ///
    /// # Errors
    ///
    /// As there.
    fn insert_hash(&mut self, hash: KeyHash) -> Result<()>;

    /// Puts a key in.
    ///
    /// # Errors
    ///
    /// [`Error::Full`](crate::Error::Full) when there is no room: the set is then as it was before.
    /// Filters of bits always have room, their rate rises.
    #[inline]
    fn insert(&mut self, key: impl Into<KeyHash>) -> Result<()>
    where
        Self: Sized,
    {
        self.insert_hash(key.into())
    }
}

/// A set from which keys can be taken.
///
/// ```
/// use criba_filters::{Delete, Insert, Membership, Quotient};
///
/// let mut open = Quotient::new(1_000, 0.01)?;
/// open.insert("session/17")?;
/// assert!(open.remove("session/17") && open.is_empty());
/// # Ok::<(), criba_filters::Error>(())
/// ```
pub trait Delete: Insert {
    /// [`remove`](Self::remove) for a key that is hashed already.
    fn remove_hash(&mut self, hash: KeyHash) -> bool;

    /// Takes out a key that was put in; `false` when it certainly was not.
    ///
    /// To take out a key that was *not* put in may take out another one, which is then denied:
    /// only the caller can know.
    #[inline]
    fn remove(&mut self, key: impl Into<KeyHash>) -> bool
    where
        Self: Sized,
    {
        self.remove_hash(key.into())
    }
}

/// A function from keys to values, built once.
///
/// ```
/// use criba_filters::{Fuse, Lookup};
///
/// let prices = Fuse::build([("apple", 30), ("melon", 250)], 8, 6)?;
/// assert_eq!(prices.get("melon"), Some(250));
/// # Ok::<(), criba_filters::Error>(())
/// ```
pub trait Lookup: Membership {
    /// [`get`](Self::get) for a key that is hashed already.
    fn get_hash(&self, hash: KeyHash) -> Option<u64>;

    /// The value of a key. For an absent key `None`, or at the rate of the structure any value.
    #[inline]
    fn get(&self, key: impl Into<KeyHash>) -> Option<u64>
    where
        Self: Sized,
    {
        self.get_hash(key.into())
    }
}

/// A summary of a stream of keys in little memory. What it estimates differs, and is a method of
/// its own.
///
/// ```
/// use criba_filters::{CountMin, HyperLogLog, Sketch};
///
/// fn read(sketch: &mut impl Sketch, words: &str) {
///     words.split(' ').for_each(|word| sketch.insert(word));
/// }
///
/// let mut often = CountMin::with_error(0.01, 0.01)?;
/// let mut distinct = HyperLogLog::with_error(0.02)?;
/// read(&mut often, "to be or not to be");
/// read(&mut distinct, "to be or not to be");
/// assert_eq!(often.estimate("to"), 2);
/// assert_eq!(distinct.estimate().round(), 4.0);
/// # Ok::<(), criba_filters::Error>(())
/// ```
pub trait Sketch {
    /// [`insert`](Self::insert) for a key that is hashed already.
    fn insert_hash(&mut self, hash: KeyHash);

    /// Adds the next key of the stream.
    #[inline]
    fn insert(&mut self, key: impl Into<KeyHash>)
    where
        Self: Sized,
    {
        self.insert_hash(key.into());
    }

    /// Bytes of memory, all of them.
    fn memory_bytes(&self) -> usize;

    /// The sketch as bytes, with kind, version and checksum.
    fn to_bytes(&self) -> Vec<u8>;

    /// The sketch from its bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`](crate::Error::Unreadable), which says why, for bytes that
    /// [`to_bytes`](Self::to_bytes) of this structure did not write.
    fn from_bytes(bytes: &[u8]) -> Result<Self>
    where
        Self: Sized;
}

/// Two structures of one kind made one.
///
/// Each structure says what it promises of the keys of both together. Both must have hashed their
/// keys with one seed, which they cannot check.
///
/// ```
/// use criba_filters::{HyperLogLog, Merge, Sketch};
///
/// let (mut left, mut right) = (HyperLogLog::with_error(0.02)?, HyperLogLog::with_error(0.02)?);
/// ["apple", "melon"].map(|key| left.insert(key));
/// ["melon", "quince"].map(|key| right.insert(key));
/// left.merge(&right)?;
/// assert_eq!(left.estimate().round(), 3.0);
/// assert!(left.merge(&HyperLogLog::with_error(0.1)?).is_err());
/// # Ok::<(), criba_filters::Error>(())
/// ```
pub trait Merge {
    /// Adds all that the other one holds.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](crate::Error::Invalid) if they differ in shape,
    /// [`Error::Full`](crate::Error::Full) where there is no room for all keys. This one is then as
    /// it was before.
    fn merge(&mut self, other: &Self) -> Result<()>;
}
