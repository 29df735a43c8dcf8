//! criba as it comes, but for what is held equal: cache, memtable (of which four may be full, as
//! everywhere here), block size, compression (LZ4). Each write is handed to the system
//! (`Durability::Process`) or synced. The default filter is Bloomier with the slot, up to 18 bits for
//! each key and not the 10 of the others: `criba-bloom` and `criba-10` are criba with 10 bits.
//! `criba-mmap` reads its files through memory maps, as LMDB does, and caches no blocks. Where
//! filters are starved, their pages share the cache with data (`FilterResidency::Shared`); the index,
//! a short key for each block, is in memory always.

use std::path::Path;
use std::time::{Duration, Instant};

use criba::{
    BloomierBits, Builder, Compression, Db, Durability, Error, FilterPolicy, FilterResidency, Io,
    Iter, Keyspace, operator::Add,
};

use crate::engine::{
    Bank, Change, Counters, Engine, OnEntry, OnValue, Pair, Read, Result, Settings, Tenants,
};

struct Criba {
    db: Db,
}

pub fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    opened(builder(dir, settings))
}

pub fn open_mapped(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    opened(builder(dir, settings).io(Io::Mmap))
}

pub fn open_bloom(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    let bits_per_key = settings.filter_bits;
    opened(builder(dir, settings).filter(FilterPolicy::Bloom { bits_per_key }))
}

pub fn open_ten_bits(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    let bits = BloomierBits::BitsPerKey(settings.filter_bits);
    opened(builder(dir, settings).filter(FilterPolicy::Bloomier(bits)))
}

pub fn open_bank(dir: &Path, settings: &Settings) -> Result<Box<dyn Bank>> {
    Ok(Box::new(Criba {
        db: builder(dir, settings).open()?,
    }))
}

fn opened(builder: Builder) -> Result<Box<dyn Engine>> {
    Ok(Box::new(Criba {
        db: builder.open()?,
    }))
}

fn builder(dir: &Path, settings: &Settings) -> Builder {
    let builder = Db::builder(dir)
        .block_bytes(settings.block_bytes)
        .memtable_bytes(settings.memtable_bytes)
        .durability(match settings.sync {
            true => Durability::Sync,
            false => Durability::Process,
        })
        .compression(match settings.compression {
            true => Compression::Lz4,
            false => Compression::None,
        });
    let builder = builder.cache_bytes(settings.cache_bytes);
    match settings.starved {
        true => builder.filter_residency(FilterResidency::Shared),
        false => builder,
    }
}

impl Read for Criba {
    fn get(&self, key: &[u8], on_value: OnValue<'_>) -> Result<bool> {
        let value = self.db.get(key)?;
        if let Some(value) = &value {
            on_value(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], limit: usize, on_entry: OnEntry<'_>) -> Result<usize> {
        each(self.db.range(from..), limit, on_entry)
    }

    fn prefix(&self, prefix: &[u8], on_entry: OnEntry<'_>) -> Result<usize> {
        each(self.db.prefix(prefix), usize::MAX, on_entry)
    }
}

fn each(mut entries: Iter, limit: usize, on_entry: OnEntry<'_>) -> Result<usize> {
    let mut count = 0;
    while count < limit
        && let Some(entry) = entries.next_ref()
    {
        let (key, value) = entry?;
        on_entry(key, value);
        count += 1;
    }
    Ok(count)
}

impl Engine for Criba {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put(key, value)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.db.delete(key)?)
    }

    fn settle(&self) -> Result<Instant> {
        self.db.flush()?;
        while !self.db.stats().compactions.is_settled {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Instant::now())
    }

    fn reader(&self) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(Criba {
            db: self.db.clone(),
        }))
    }

    fn runs_asked(&self, absent: &[u8]) -> Result<Option<u64>> {
        Ok(Some(self.db.explain(absent)?.blocks_without_filters))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

impl Bank for Criba {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Engine::put(self, key, value)
    }

    fn get(&self, key: &[u8], on_value: OnValue<'_>) -> Result<bool> {
        Read::get(self, key, on_value)
    }

    fn transact(&self, keys: Pair<'_>, change: Change<'_>) -> Result<bool> {
        let mut tx = self.db.transaction();
        let (one, other) = (tx.get(keys[0])?, tx.get(keys[1])?);
        let new = change([one.as_deref(), other.as_deref()].map(Option::unwrap_or_default));
        tx.put(keys[0], &new[0])?;
        tx.put(keys[1], &new[1])?;
        match tx.commit() {
            Ok(()) => Ok(true),
            Err(Error::Conflict(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

pub fn open_counters(dir: &Path, settings: &Settings) -> Result<Box<dyn Counters>> {
    let builder = builder(dir, settings).operator(Add::u64());
    Ok(Box::new(Criba {
        db: builder.open()?,
    }))
}

impl Counters for Criba {
    fn add(&self, key: &[u8]) -> Result<()> {
        Ok(self.db.merge(key, 1_u64.to_le_bytes())?)
    }

    fn add_by_reading(&self, key: &[u8]) -> Result<()> {
        let more = Counters::get(self, key)? + 1;
        Ok(self.db.put(key, more.to_le_bytes())?)
    }

    fn get(&self, key: &[u8]) -> Result<u64> {
        let value = self.db.get(key)?;
        let number = value.and_then(|value| value.first_chunk().copied());
        Ok(number.map_or(0, u64::from_le_bytes))
    }
}

struct OfTenants {
    db: Db,
    all: Vec<Keyspace>,
}

pub fn open_tenants(dir: &Path, settings: &Settings, count: usize) -> Result<Box<dyn Tenants>> {
    let db = builder(dir, settings).open()?;
    let name = |tenant: usize| db.keyspace(&format!("tenant-{tenant}"));
    let all = (0..count).map(name);
    let all = all.collect::<std::result::Result<_, _>>()?;
    Ok(Box::new(OfTenants { all, db }))
}

impl Tenants for OfTenants {
    fn put(&self, tenant: usize, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.all[tenant].put(key, value)?)
    }

    fn settle(&self) -> Result<()> {
        self.db.flush()?;
        while !self.db.stats().compactions.is_settled {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn get(&self, tenant: usize, key: &[u8]) -> Result<bool> {
        Ok(self.all[tenant].contains_key(key)?)
    }
}
