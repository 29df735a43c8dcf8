//! fjall. Equal: cache, memtable, block size, bits of the filter, one journal write for each put,
//! fsync on demand, three background threads. Filters and index are pinned unless starved, because its
//! default pins only those of the first levels. Compression is LZ4 (it has no other). Not equal: its
//! cache also holds filters and index where they are not pinned, and what its workers leave
//! uncompacted when they go idle is not counted as debt, because it has no way to ask for it. Transactions
//! are its optimistic ones; each commit is handed to the system.

use std::path::Path;
use std::time::{Duration, Instant};

use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PartitioningPolicy, PinningPolicy,
};
use fjall::{
    CompressionType, Database, Guard, Keyspace, KeyspaceCreateOptions, OptimisticTxDatabase,
    OptimisticTxKeyspace, PersistMode, Readable,
};

use crate::engine::{
    Bank, Change, Engine, OnEntry, OnValue, Pair, Read, Result, Settings, Tenants,
};

struct Fjall {
    db: Database,
    keys: Keyspace,
    sync: bool,
}

pub fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    let db = Database::builder(dir)
        .cache_size(settings.cache_bytes)
        .journal_compression(CompressionType::None)
        .worker_threads(3)
        .open()?;
    let keys = db.keyspace("compare", || options(settings))?;
    Ok(Box::new(Fjall {
        db,
        keys,
        sync: settings.sync,
    }))
}

fn options(settings: &Settings) -> KeyspaceCreateOptions {
    let bits = BloomConstructionPolicy::BitsPerKey(settings.filter_bits as f32);
    let options = KeyspaceCreateOptions::default()
        .max_memtable_size(settings.memtable_bytes)
        .data_block_size_policy(BlockSizePolicy::all(settings.block_bytes))
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(bits)))
        .data_block_compression_policy(CompressionPolicy::all(match settings.compression {
            true => CompressionType::Lz4,
            false => CompressionType::None,
        }));
    options
        .filter_block_pinning_policy(PinningPolicy::all(!settings.starved))
        .index_block_pinning_policy(PinningPolicy::all(!settings.starved))
        .filter_block_partitioning_policy(PartitioningPolicy::all(settings.starved))
        .index_block_partitioning_policy(PartitioningPolicy::all(settings.starved))
}

impl Fjall {
    fn is_idle(&self) -> bool {
        self.db.outstanding_flushes() == 0
            && self.keys.sealed_memtable_count() == 0
            && self.db.active_compactions() == 0
    }

    fn synced(&self) -> Result<()> {
        if self.sync {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }
}

impl Read for Fjall {
    fn get(&self, key: &[u8], on_value: OnValue<'_>) -> Result<bool> {
        let value = self.keys.get(key)?;
        if let Some(value) = &value {
            on_value(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], limit: usize, on_entry: OnEntry<'_>) -> Result<usize> {
        each(self.keys.range(from..).take(limit), on_entry)
    }

    fn prefix(&self, prefix: &[u8], on_entry: OnEntry<'_>) -> Result<usize> {
        each(self.keys.prefix(prefix), on_entry)
    }
}

fn each(entries: impl Iterator<Item = Guard>, on_entry: OnEntry<'_>) -> Result<usize> {
    let mut count = 0;
    for entry in entries {
        let (key, value) = entry.into_inner()?;
        on_entry(&key, &value);
        count += 1;
    }
    Ok(count)
}

impl Engine for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keys.insert(key, value)?;
        self.synced()
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.keys.remove(key)?;
        self.synced()
    }

    /// Idle for a tenth of a second, which is not counted, is done.
    fn settle(&self) -> Result<Instant> {
        self.keys.rotate_memtable_and_wait()?;
        let mut idle_since = Instant::now();
        let mut completed = self.db.compactions_completed();
        while idle_since.elapsed() < Duration::from_millis(100) {
            std::thread::sleep(Duration::from_millis(2));
            let now = self.db.compactions_completed();
            if now != completed || !self.is_idle() {
                completed = now;
                idle_since = Instant::now();
            }
        }
        Ok(idle_since)
    }

    fn reader(&self) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(Fjall {
            db: self.db.clone(),
            keys: self.keys.clone(),
            sync: self.sync,
        }))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }
}

struct Optimistic {
    db: OptimisticTxDatabase,
    keys: OptimisticTxKeyspace,
    persist: PersistMode,
}

pub fn open_bank(dir: &Path, settings: &Settings) -> Result<Box<dyn Bank>> {
    let db = OptimisticTxDatabase::builder(dir)
        .cache_size(settings.cache_bytes)
        .journal_compression(CompressionType::None)
        .worker_threads(3)
        .open()?;
    let keys = db.keyspace("compare", || options(settings))?;
    let persist = match settings.sync {
        true => PersistMode::SyncData,
        false => PersistMode::Buffer,
    };
    Ok(Box::new(Optimistic { db, keys, persist }))
}

impl Bank for Optimistic {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.keys.insert(key, value)?)
    }

    fn get(&self, key: &[u8], on_value: OnValue<'_>) -> Result<bool> {
        let value = self.keys.get(key)?;
        if let Some(value) = &value {
            on_value(value);
        }
        Ok(value.is_some())
    }

    fn transact(&self, keys: Pair<'_>, change: Change<'_>) -> Result<bool> {
        let mut tx = self.db.write_tx()?.durability(Some(self.persist));
        let (one, other) = (tx.get(&self.keys, keys[0])?, tx.get(&self.keys, keys[1])?);
        let new = change([one.as_deref(), other.as_deref()].map(Option::unwrap_or_default));
        for (key, value) in keys.iter().zip(new) {
            tx.insert(&self.keys, *key, value);
        }
        Ok(tx.commit()?.is_ok())
    }
}

struct OfTenants {
    db: Database,
    all: Vec<Keyspace>,
}

/// Its keyspaces have a bound for their memtables each; the journal bounds them together.
pub fn open_tenants(dir: &Path, settings: &Settings, count: usize) -> Result<Box<dyn Tenants>> {
    let db = Database::builder(dir)
        .cache_size(settings.cache_bytes)
        .journal_compression(CompressionType::None)
        .worker_threads(3)
        .open()?;
    let name = |tenant: usize| db.keyspace(&format!("tenant-{tenant}"), || options(settings));
    let all = (0..count).map(name);
    let all = all.collect::<std::result::Result<_, _>>()?;
    Ok(Box::new(OfTenants { all, db }))
}

impl Tenants for OfTenants {
    fn put(&self, tenant: usize, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.all[tenant].insert(key, value)?)
    }

    fn settle(&self) -> Result<()> {
        for keyspace in &self.all {
            keyspace.rotate_memtable_and_wait()?;
        }
        let mut idle_since = Instant::now();
        while idle_since.elapsed() < Duration::from_millis(500) {
            std::thread::sleep(Duration::from_millis(20));
            if self.db.outstanding_flushes() > 0 || self.db.active_compactions() > 0 {
                idle_since = Instant::now();
            }
        }
        Ok(())
    }

    fn get(&self, tenant: usize, key: &[u8]) -> Result<bool> {
        Ok(self.all[tenant].contains_key(key)?)
    }
}
