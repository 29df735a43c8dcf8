//! A replica: a keyspace whose entries have versions, so that the last write wins everywhere.
//!
//! A version is a counter and the number of the replica that wrote. The counter is that of Lamport ("Time,
//! clocks, and the ordering of events in a distributed system", 1978): greater than all that the replica
//! has seen. Versions of one key are never equal, and each replica puts them into the same order. A
//! deletion is a version too: an entry that says that there is no value.

use criba::{Db, Keyspace};
use criba_filters::{KeyHash, hash_key, mix};

use crate::Result;
use crate::wire::{Malformed, Reader, malformed, put_bytes, put_number};

/// One version of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// Which write it is: the greater one wins.
    pub version: u64,
    /// The value, or nothing if the key was deleted.
    pub value: Option<Vec<u8>>,
}

/// Bits of a version that are the number of the replica.
const SITE_BITS: u32 = 8;
/// Most that a counter may be: no message can bring a counter to its end.
const COUNTER_MAX: u64 = 1 << 48;

/// An element that two replicas compare: the hash of a key and its version.
#[derive(Debug, Clone)]
pub struct Element {
    /// The hash.
    pub hash: u64,
    /// The key.
    pub key: Vec<u8>,
}

/// A keyspace with versions.
#[derive(Debug)]
pub struct Replica {
    db: Db,
    keyspace: Keyspace,
    site: u8,
    counter: u64,
}

impl Replica {
    /// An empty replica in a keyspace of its own. `site` is its number, which no other one has.
    ///
    /// # Errors
    ///
    /// If the store refuses.
    pub fn new(db: &Db, site: u8) -> Result<Replica> {
        let name = format!("replica {}", db.keyspaces().len());
        Ok(Replica {
            keyspace: db.keyspace(&name)?,
            db: db.clone(),
            site,
            counter: 0,
        })
    }

    /// A new replica in the same store, as if this one had lost everything.
    ///
    /// # Errors
    ///
    /// If the store refuses.
    pub fn emptied(&self) -> Result<Replica> {
        Replica::new(&self.db, self.site)
    }

    /// Brings all writes from memory to segments, which are faster to walk.
    ///
    /// # Errors
    ///
    /// If the store refuses.
    pub fn flush(&self) -> Result<()> {
        Ok(self.db.flush()?)
    }

    /// Writes a new version of a key; without a value, it is deleted.
    ///
    /// # Errors
    ///
    /// If the store refuses.
    pub fn write(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.counter += 1;
        let version = (self.counter << SITE_BITS) | u64::from(self.site);
        self.keyspace.put(key, stored(version, value))?;
        Ok(())
    }

    /// Takes an entry of another replica if it is newer than the own one, and says so.
    ///
    /// # Errors
    ///
    /// If the store refuses.
    pub fn merge(&mut self, entry: &Entry) -> Result<bool> {
        let own = self.keyspace.get(&entry.key)?;
        if own.is_some_and(|own| version_of(&own) >= entry.version) {
            return Ok(false);
        }
        self.counter = self.counter.max(entry.version >> SITE_BITS);
        let stored = stored(entry.version, entry.value.as_deref());
        self.keyspace.put(&entry.key, stored)?;
        Ok(true)
    }

    /// All versions with their hashes, in the order of keys.
    ///
    /// # Errors
    ///
    /// If the store refuses.
    pub fn elements(&self, seed: u64) -> Result<Vec<Element>> {
        let mut elements = Vec::new();
        self.scan(|key, stored| {
            elements.push(Element {
                hash: hash_of(seed, key, version_of(stored)),
                key: key.to_vec(),
            });
        })?;
        Ok(elements)
    }

    fn scan(&self, mut see: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let mut rows = self.keyspace.iter();
        while let Some(row) = rows.next_ref() {
            let (key, stored) = row?;
            see(key, stored);
        }
        Ok(())
    }

    /// The entry of an element, if no newer one has come since.
    ///
    /// # Errors
    ///
    /// If the store refuses.
    pub fn entry(&self, seed: u64, element: &Element) -> Result<Option<Entry>> {
        let entry = self.keyspace.get(&element.key)?;
        let entry = entry.map(|stored| entry_of(&element.key, &stored));
        let is_it = |entry: &Entry| hash_of(seed, &entry.key, entry.version) == element.hash;
        Ok(entry.filter(is_it))
    }

    /// All entries, in the order of keys.
    ///
    /// # Errors
    ///
    /// If the store refuses.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        self.scan(|key, stored| entries.push(entry_of(key, stored)))?;
        Ok(entries)
    }

    /// Whether these are all entries, in the order of keys.
    ///
    /// # Errors
    ///
    /// If the store refuses.
    pub fn has_exactly(&self, entries: &[Entry]) -> Result<bool> {
        let (mut rest, mut equal) = (entries.iter(), true);
        self.scan(|key, stored| {
            let is_own = |entry: &Entry| {
                let version = (entry.version, entry.value.as_deref());
                entry.key == key && version == (version_of(stored), value_of(stored))
            };
            equal &= rest.next().is_some_and(is_own);
        })?;
        Ok(equal && rest.next().is_none())
    }

    /// Number of keys with a version, deleted ones too.
    ///
    /// # Errors
    ///
    /// If the store refuses.
    pub fn len(&self) -> Result<u64> {
        Ok(self.keyspace.len()?)
    }

    /// Whether no key has a version.
    ///
    /// # Errors
    ///
    /// If the store refuses.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.keyspace.is_empty()?)
    }

    /// Number of keys with a value.
    ///
    /// # Errors
    ///
    /// If the store refuses.
    pub fn values(&self) -> Result<u64> {
        let mut values = 0;
        self.scan(|_, stored| values += u64::from(has_value(stored)))?;
        Ok(values)
    }

    /// Whether a key has a version here, if only a deletion, and whether it has a value.
    ///
    /// # Errors
    ///
    /// If the store refuses.
    pub fn has(&self, key: &[u8]) -> Result<(bool, bool)> {
        let stored = self.keyspace.get(key)?;
        let has_value = stored.as_deref().is_some_and(has_value);
        Ok((stored.is_some(), has_value))
    }
}

/// The sum of the hashes: equal for equal content, whatever the order.
pub fn digest(elements: &[Element]) -> u64 {
    let hashes = elements.iter().map(|element| element.hash);
    hashes.fold(0, u64::wrapping_add)
}

/// The version is part of the seed: nothing is copied.
fn hash_of(seed: u64, key: &[u8], version: u64) -> u64 {
    hash_key(mix(KeyHash(version), seed), key).0
}

/// The version, whether there is a value, and the value.
fn stored(version: u64, value: Option<&[u8]>) -> Vec<u8> {
    let mut stored = version.to_le_bytes().to_vec();
    stored.push(u8::from(value.is_some()));
    stored.extend(value.unwrap_or_default());
    stored
}

fn version_of(stored: &[u8]) -> u64 {
    let version = stored.first_chunk().copied();
    u64::from_le_bytes(version.unwrap_or_default())
}

fn has_value(stored: &[u8]) -> bool {
    stored.get(8) == Some(&1)
}

fn value_of(stored: &[u8]) -> Option<&[u8]> {
    match stored.get(8..) {
        Some([1, value @ ..]) => Some(value),
        _ => None,
    }
}

fn entry_of(key: &[u8], stored: &[u8]) -> Entry {
    Entry {
        key: key.to_vec(),
        version: version_of(stored),
        value: value_of(stored).map(<[u8]>::to_vec),
    }
}

/// Entries as a message.
pub fn message_of(entries: &[Entry]) -> Vec<u8> {
    let mut message = Vec::new();
    for entry in entries {
        put_bytes(&mut message, &entry.key);
        put_number(&mut message, entry.version);
        message.push(u8::from(entry.value.is_some()));
        if let Some(value) = &entry.value {
            put_bytes(&mut message, value);
        }
    }
    message
}

/// The entries of a message.
///
/// # Errors
///
/// If the bytes are no entries.
pub fn entries_of(message: &[u8]) -> Result<Vec<Entry>> {
    let (mut reader, mut entries) = (Reader(message), Vec::new());
    while !reader.0.is_empty() {
        entries.push(next_entry(&mut reader).map_err(malformed)?);
    }
    Ok(entries)
}

fn next_entry(reader: &mut Reader<'_>) -> std::result::Result<Entry, Malformed> {
    let key = reader.bytes()?.to_vec();
    let version = reader.number()?;
    if version >> SITE_BITS > COUNTER_MAX {
        return Err(Malformed);
    }
    let value = match reader.byte()? {
        0 => None,
        1 => Some(reader.bytes()?.to_vec()),
        _ => return Err(Malformed),
    };
    Ok(Entry {
        key,
        version,
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty replica in a store of its own.
    fn replica(site: u8) -> (tempfile::TempDir, Replica) {
        let folder = tempfile::tempdir().unwrap();
        let db = Db::open(folder.path()).unwrap();
        (folder, Replica::new(&db, site).unwrap())
    }

    #[test]
    fn the_last_write_wins_on_both_sides() {
        let [(_one, mut left), (_two, mut right)] = [1, 2].map(replica);
        left.write(b"a", Some(b"left")).unwrap();
        right.write(b"a", Some(b"right")).unwrap();
        // Both counters are 1, so that the number of the replica decides.
        let (of_left, of_right) = (left.entries().unwrap(), right.entries().unwrap());
        assert!(left.merge(&of_right[0]).unwrap());
        assert!(!right.merge(&of_left[0]).unwrap());
        assert_eq!(left.entries().unwrap(), of_right);
        assert!(left.has_exactly(&of_right).unwrap());
        let twice = [&of_right[..], &of_right].concat();
        for others in [&of_left[..], &[], &twice] {
            assert!(!left.has_exactly(others).unwrap());
        }
        // A deletion after the merge is newer than what was merged.
        left.write(b"a", None).unwrap();
        assert!(right.merge(&left.entries().unwrap()[0]).unwrap());
        assert_eq!(right.has(b"a").unwrap(), (true, false));
        assert_eq!(right.has(b"b").unwrap(), (false, false));
        let [left, right] = [left, right].map(|replica| digest(&replica.elements(5).unwrap()));
        assert_eq!(left, right);
    }

    #[test]
    fn elements_are_found_until_a_newer_version_comes() {
        let (_folder, mut replica) = replica(1);
        replica.write(b"a", Some(b"1")).unwrap();
        let element = replica.elements(9).unwrap().remove(0);
        assert_ne!(replica.elements(8).unwrap()[0].hash, element.hash);
        assert_eq!(
            replica.entry(9, &element).unwrap().unwrap().value,
            Some(b"1".to_vec())
        );
        replica.write(b"a", None).unwrap();
        assert_eq!(replica.entry(9, &element).unwrap(), None);
    }

    #[test]
    fn entries_come_back_from_a_message() {
        let entry = |value: Option<&[u8]>| Entry {
            key: b"key".to_vec(),
            version: 1 << 20,
            value: value.map(Into::into),
        };
        let entries = [entry(Some(b"value")), entry(None), entry(Some(b""))];
        let message = message_of(&entries);
        assert_eq!(entries_of(&message).unwrap(), entries);
        assert!(entries_of(&message[..message.len() - 1]).is_err());
        let far = Entry {
            version: u64::MAX,
            ..entry(None)
        };
        assert!(entries_of(&message_of(&[far])).is_err());
    }
}
