//! sled, a log-structured B-link tree. Equal: cache; synced puts flush its log. Not equal: unsynced
//! puts are in memory of the process for up to half a second (its default), so a kill loses them,
//! where the others have made a system call or written to a mapped file. No filters, no compression
//! (its Zstandard would link another copy of the library that criba links), pages as it likes them.

use std::path::Path;
use std::time::Instant;

use sled::{Db, IVec};

use crate::engine::{Engine, OnEntry, OnValue, Read, Result, Settings};

struct Sled {
    db: Db,
    sync: bool,
}

pub fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    let db = sled::Config::new()
        .path(dir)
        .cache_capacity(settings.cache_bytes)
        .open()?;
    Ok(Box::new(Sled {
        db,
        sync: settings.sync,
    }))
}

impl Sled {
    fn synced(&self) -> Result<()> {
        if self.sync {
            self.db.flush()?;
        }
        Ok(())
    }
}

impl Read for Sled {
    fn get(&self, key: &[u8], on_value: OnValue<'_>) -> Result<bool> {
        let value = self.db.get(key)?;
        if let Some(value) = &value {
            on_value(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], limit: usize, on_entry: OnEntry<'_>) -> Result<usize> {
        each(self.db.range(from..).take(limit), on_entry)
    }

    fn prefix(&self, prefix: &[u8], on_entry: OnEntry<'_>) -> Result<usize> {
        each(self.db.scan_prefix(prefix), on_entry)
    }
}

fn each(
    entries: impl Iterator<Item = sled::Result<(IVec, IVec)>>,
    on_entry: OnEntry<'_>,
) -> Result<usize> {
    let mut count = 0;
    for entry in entries {
        let (key, value) = entry?;
        on_entry(&key, &value);
        count += 1;
    }
    Ok(count)
}

impl Engine for Sled {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.insert(key, value)?;
        self.synced()
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db.remove(key)?;
        self.synced()
    }

    fn settle(&self) -> Result<Instant> {
        self.db.flush()?;
        Ok(Instant::now())
    }

    fn reader(&self) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(Sled {
            db: self.db.clone(),
            sync: self.sync,
        }))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.flush()?;
        Ok(())
    }
}
