//! Opens the store of a crawl, or makes one, and refuses one that is something else.

use std::path::Path;

use common::codec::{Malformed, Reader, put_number};
use criba::{
    BloomierBits, Compression, Db, FilterPolicy, FilterResidency, Keyspace, KeyspaceOptions,
};

use crate::error::Error;
use crate::keys::{self, Partition};

/// Layout and version of keys and values; the partition follows.
const LAYOUT: &str = "crawl 2 ";
/// The key of the layout.
const FORMAT: &[u8] = b"format";
/// The key of the totals.
const TOTALS: &[u8] = b"totals";

/// Building a segment's filter takes tens of bytes of memory for each key, and addresses take so
/// little room on disk that a segment of usual size would have millions.
const SEGMENT_BYTES: u64 = 2 << 20;

/// A crawl waits for its disk rather than filling memory with what is not written yet.
const SEALED_MAX: usize = 1;

/// How the store is opened.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The order of the seen set. It is fixed when the store is made.
    pub partition: Partition,
    /// The filter of the seen set.
    pub filter: FilterPolicy,
    /// Bytes for the cache of blocks, of all keyspaces together.
    pub cache_bytes: u64,
    /// Bytes of a memtable, of all keyspaces together. Two may be in memory.
    pub memtable_bytes: u64,
    /// Bytes for filters, which are then read by the page; `None` keeps them in memory whole.
    pub filter_bytes: Option<u64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            partition: Partition::default(),
            filter: FilterPolicy::Bloomier(BloomierBits::Slot),
            cache_bytes: 4 << 20,
            memtable_bytes: 4 << 20,
            filter_bytes: None,
        }
    }
}

/// Counts that go on from run to run. Every batch writes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Addresses discovered; also the number of the next one.
    pub urls: u64,
    /// Addresses in the frontier.
    pub waiting: u64,
    /// The latest time at which an address was discovered, in milliseconds since 1970.
    pub latest: u64,
}

impl Totals {
    fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(20);
        for number in [self.urls, self.waiting, self.latest] {
            put_number(&mut out, number);
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Totals, Malformed> {
        let mut reader = Reader(bytes);
        Ok(Totals {
            urls: reader.number()?,
            waiting: reader.number()?,
            latest: reader.number()?,
        })
    }
}

/// A crawl's store, its keyspaces, and where the crawl stands.
#[derive(Debug, Clone)]
pub struct Store {
    db: Db,
    pub(crate) seen: Keyspace,
    pub(crate) frontier: Keyspace,
    pub(crate) partition: Partition,
    pub(crate) totals: Totals,
}

impl Store {
    /// Opens the store in a directory, or makes it.
    ///
    /// The seen set has the filter of the settings, as most of its lookups are for addresses that
    /// are new, and small groups, so that a lookup reads little. The frontier is only scanned, so a
    /// filter would be of no use to it.
    ///
    /// # Errors
    ///
    /// [`Error::NotOurs`] when the directory holds something else, [`Error::Partition`] when it holds
    /// a crawl with another order of the seen set, [`Error::Store`] when it cannot be opened.
    pub fn open(path: &Path, settings: Settings) -> Result<Store, Error> {
        let partition = settings.partition;
        let db = Db::builder(path)
            .filter(FilterPolicy::None)
            .cache_bytes(settings.cache_bytes)
            .memtable_bytes(settings.memtable_bytes)
            .sealed_memtables_max(SEALED_MAX)
            .segment_bytes(SEGMENT_BYTES)
            .filter_residency(match settings.filter_bytes {
                Some(bytes) => FilterResidency::Cached { bytes },
                None => FilterResidency::Pinned,
            })
            .compression(Compression::Zstd { level: 1 })
            .open()?;
        check_layout(&db, path, partition)?;
        let of_seen = |options: KeyspaceOptions| {
            let options = options.filter(settings.filter);
            options.entries_per_group(16)
        };
        let totals = db.get(TOTALS)?.map(|value| Totals::decode(&value));
        Ok(Store {
            seen: db.keyspace_with("seen", of_seen)?,
            frontier: db.keyspace("frontier")?,
            partition,
            totals: totals.transpose()?.unwrap_or_default(),
            db,
        })
    }

    /// The store, for keyspaces of the program. Its default keyspace is free for keys other than
    /// `format` and `totals`.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// The seen set: address to number.
    pub fn seen(&self) -> &Keyspace {
        &self.seen
    }

    /// The frontier.
    pub fn frontier(&self) -> &Keyspace {
        &self.frontier
    }

    /// The order of the seen set.
    pub fn partition(&self) -> Partition {
        self.partition
    }

    /// Where the crawl stands.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The number of an address, if it was discovered. No account is kept of this lookup.
    ///
    /// # Errors
    ///
    /// When the store refuses to read.
    pub fn number_of(&self, address: &str) -> Result<Option<u64>, Error> {
        let mut key = Vec::new();
        self.partition.seen_key(address, &mut key);
        let value = self.seen.get(&key)?;
        value.map(|value| read_id(&value)).transpose()
    }

    /// Writes the totals in a batch.
    pub(crate) fn put_totals(batch: &mut criba::Batch, totals: Totals) {
        batch.put(TOTALS, totals.encode());
    }

    /// Puts addresses into the frontier again, so that they are fetched once more. The addresses
    /// are known already; `entries` are their numbers and what to fetch. Killed half-way, the next
    /// run goes on with those that were put there.
    ///
    /// # Errors
    ///
    /// When the store refuses, or an entry's address is none.
    pub fn enter_again(
        &mut self,
        entries: impl IntoIterator<Item = Result<(u64, crate::Entry), Error>>,
        now_ms: u64,
    ) -> Result<u64, Error> {
        const TOGETHER: usize = 1000;
        let due = now_ms.max(self.totals.latest);
        let (mut entered, mut entries) = (0, entries.into_iter().peekable());
        while entries.peek().is_some() {
            let mut batch = self.db.batch();
            for entry in entries.by_ref().take(TOGETHER) {
                let (id, mut entry) = entry?;
                entry.again = true;
                let url = crate::entry::parsed(&entry.url)?;
                let place = keys::Place { due, id };
                let key = keys::waiting(keys::origin(&url), place);
                batch.keyspace(&self.frontier).put(key, entry.encode());
            }
            entered += batch.len() as u64;
            self.totals.waiting += batch.len() as u64;
            self.totals.latest = due;
            Store::put_totals(&mut batch, self.totals);
            batch.commit()?;
        }
        Ok(entered)
    }
}

fn check_layout(db: &Db, path: &Path, partition: Partition) -> Result<(), Error> {
    let layout = format!("{LAYOUT}{}", partition.name());
    let not_ours = |holds: String| {
        let path = path.to_owned();
        Err(Error::NotOurs { path, holds })
    };
    match db.get(FORMAT)? {
        Some(found) if found == layout.as_bytes() => Ok(()),
        Some(found) if found.starts_with(LAYOUT.as_bytes()) => {
            let found = String::from_utf8_lossy(&found[LAYOUT.len()..]).into_owned();
            Err(Error::Partition { found })
        }
        Some(_) => not_ours("a crawl of another version".into()),
        None if !db.is_empty()? || db.keyspaces().len() > 1 => not_ours("something else".into()),
        None => Ok(db.put(FORMAT, layout)?),
    }
}

/// A number as it stands in the seen set.
pub(crate) fn read_id(value: &[u8]) -> Result<u64, Error> {
    Ok(Reader(value).number()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_come_back() {
        let totals = Totals {
            urls: 1 << 40,
            waiting: 3,
            latest: 9,
        };
        assert_eq!(Totals::decode(&totals.encode()).unwrap(), totals);
        assert!(Totals::decode(b"\x01").is_err());
    }

    #[test]
    fn a_store_of_something_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("other");
        Db::open(&path).unwrap().put("key", "value").unwrap();
        let refused = Store::open(&path, Settings::default()).unwrap_err();
        assert!(refused.to_string().contains("something else"), "{refused}");
        let ours = dir.path().join("ours");
        drop(Store::open(&ours, Settings::default()).unwrap());
        let settings = Settings {
            partition: Partition::None,
            ..Settings::default()
        };
        let refused = Store::open(&ours, settings).unwrap_err().to_string();
        assert!(refused.contains("partition `host`"), "{refused}");
    }
}
