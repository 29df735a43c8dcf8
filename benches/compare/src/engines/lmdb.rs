//! LMDB (through `heed`), a B+tree in one memory-mapped file. Equal: each put is a transaction of its
//! own; unsynced ones use `MDB_NOSYNC` and `MDB_WRITEMAP`, which survive a kill, as they are in the
//! page cache. Not equal: there is no cache to limit, the page cache is all it has, so its reads
//! never leave memory here; after power loss an unsynced store may be corrupt, not only shorter.
//! Threads that only read keep one transaction open. No filters, no compression, its own pages of
//! 4 KiB. Read-ahead is off (`MDB_NORDAHEAD`) where the cache is small, as its documentation advises.

use std::path::Path;
use std::time::Instant;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithoutTls};

use crate::engine::{Engine, OnEntry, OnValue, Read, Result, Settings};

/// A limit of the file; only what is written is allocated.
const MAP_BYTES: usize = 64 << 30;
const SMALL_CACHE_BYTES: u64 = 16 << 20;

struct Lmdb {
    env: Env<WithoutTls>,
    keys: Database<Bytes, Bytes>,
}

struct Reader<'a> {
    keys: Database<Bytes, Bytes>,
    transaction: RoTxn<'a, WithoutTls>,
}

pub fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    let mut flags = EnvFlags::empty();
    if !settings.sync {
        flags |= EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP;
    }
    if settings.cache_bytes < SMALL_CACHE_BYTES {
        flags |= EnvFlags::NO_READ_AHEAD;
    }
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(MAP_BYTES);
    // SAFETY: the directory belongs to this process alone, which opens it once at a time; weaker
    // durability is what is compared.
    let env = unsafe { options.flags(flags).open(dir)? };
    let mut transaction = env.write_txn()?;
    let keys = env.create_database(&mut transaction, None)?;
    transaction.commit()?;
    Ok(Box::new(Lmdb { env, keys }))
}

impl Lmdb {
    fn now(&self) -> Result<Reader<'_>> {
        Ok(Reader {
            keys: self.keys,
            transaction: self.env.read_txn()?,
        })
    }
}

impl Read for Reader<'_> {
    fn get(&self, key: &[u8], on_value: OnValue<'_>) -> Result<bool> {
        let value = self.keys.get(&self.transaction, key)?;
        if let Some(value) = value {
            on_value(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], limit: usize, on_entry: OnEntry<'_>) -> Result<usize> {
        let from = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        let mut count = 0;
        for entry in self.keys.range(&self.transaction, &from)?.take(limit) {
            let (key, value) = entry?;
            on_entry(key, value);
            count += 1;
        }
        Ok(count)
    }

    fn prefix(&self, prefix: &[u8], on_entry: OnEntry<'_>) -> Result<usize> {
        let mut count = 0;
        for entry in self.keys.prefix_iter(&self.transaction, prefix)? {
            let (key, value) = entry?;
            on_entry(key, value);
            count += 1;
        }
        Ok(count)
    }
}

impl Read for Lmdb {
    fn get(&self, key: &[u8], on_value: OnValue<'_>) -> Result<bool> {
        self.now()?.get(key, on_value)
    }

    fn scan(&self, from: &[u8], limit: usize, on_entry: OnEntry<'_>) -> Result<usize> {
        self.now()?.scan(from, limit, on_entry)
    }

    fn prefix(&self, prefix: &[u8], on_entry: OnEntry<'_>) -> Result<usize> {
        self.now()?.prefix(prefix, on_entry)
    }
}

impl Engine for Lmdb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        self.keys.put(&mut transaction, key, value)?;
        Ok(transaction.commit()?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        self.keys.delete(&mut transaction, key)?;
        Ok(transaction.commit()?)
    }

    fn settle(&self) -> Result<Instant> {
        self.env.force_sync()?;
        Ok(Instant::now())
    }

    fn reader(&self) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(self.now()?))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.force_sync()?;
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
