//! redb, a copy-on-write B+tree. Equal: cache; each put is a transaction of its own; synced puts
//! commit with `Durability::Immediate`. Not equal: it has no way to survive a kill without an fsync,
//! so unsynced puts commit with `Durability::None` and every thousandth with `Immediate`: a kill loses
//! up to 999 puts, a little less than what the others promise. Threads that only read keep one
//! transaction open. No filters, no compression, blocks are its own pages of 4 KiB.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use redb::{
    Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition,
    WriteTransaction,
};

use crate::engine::{Bank, Change, Engine, OnEntry, OnValue, Pair, Read, Result, Settings};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("compare");
const PUTS_PER_SYNC: u64 = 1000;

struct Redb {
    db: Database,
    sync: bool,
    writes: AtomicU64,
}

struct Reader {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

pub fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    Ok(Box::new(opened(dir, settings)?))
}

pub fn open_bank(dir: &Path, settings: &Settings) -> Result<Box<dyn Bank>> {
    Ok(Box::new(opened(dir, settings)?))
}

fn opened(dir: &Path, settings: &Settings) -> Result<Redb> {
    let db = Database::builder()
        .set_cache_size(settings.cache_bytes as usize)
        .create(dir.join("data.redb"))?;
    let transaction = db.begin_write()?;
    transaction.open_table(TABLE)?;
    transaction.commit()?;
    Ok(Redb {
        db,
        sync: settings.sync,
        writes: AtomicU64::new(0),
    })
}

impl Redb {
    fn now(&self) -> Result<Reader> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        Ok(Reader { table })
    }

    fn begin(&self) -> Result<WriteTransaction> {
        let mut transaction = self.db.begin_write()?;
        let nth = self.writes.fetch_add(1, Ordering::Relaxed);
        if !self.sync && !nth.is_multiple_of(PUTS_PER_SYNC) {
            transaction.set_durability(Durability::None)?;
        }
        Ok(transaction)
    }
}

impl Read for Reader {
    fn get(&self, key: &[u8], on_value: OnValue<'_>) -> Result<bool> {
        let value = self.table.get(key)?;
        if let Some(value) = &value {
            on_value(value.value());
        }
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], limit: usize, on_entry: OnEntry<'_>) -> Result<usize> {
        let mut count = 0;
        for entry in self.table.range(from..)?.take(limit) {
            let (key, value) = entry?;
            on_entry(key.value(), value.value());
            count += 1;
        }
        Ok(count)
    }

    fn prefix(&self, prefix: &[u8], on_entry: OnEntry<'_>) -> Result<usize> {
        let mut count = 0;
        for entry in self.table.range(prefix..)? {
            let (key, value) = entry?;
            if !key.value().starts_with(prefix) {
                break;
            }
            on_entry(key.value(), value.value());
            count += 1;
        }
        Ok(count)
    }
}

impl Read for Redb {
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

impl Engine for Redb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let transaction = self.begin()?;
        transaction.open_table(TABLE)?.insert(key, value)?;
        Ok(transaction.commit()?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let transaction = self.begin()?;
        transaction.open_table(TABLE)?.remove(key)?;
        Ok(transaction.commit()?)
    }

    fn settle(&self) -> Result<Instant> {
        self.db.begin_write()?.commit()?;
        Ok(Instant::now())
    }

    fn reader(&self) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(self.now()?))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.settle().map(drop)
    }
}

/// One transaction writes at a time: the others wait, and none has a conflict.
impl Bank for Redb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Engine::put(self, key, value)
    }

    fn get(&self, key: &[u8], on_value: OnValue<'_>) -> Result<bool> {
        Read::get(self, key, on_value)
    }

    fn transact(&self, keys: Pair<'_>, change: Change<'_>) -> Result<bool> {
        let transaction = self.begin()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            let new = {
                let (one, other) = (table.get(keys[0])?, table.get(keys[1])?);
                let value = |found: &Option<redb::AccessGuard<'_, &[u8]>>| {
                    found
                        .as_ref()
                        .map_or_else(Vec::new, |found| found.value().to_vec())
                };
                let (one, other) = (value(&one), value(&other));
                change([&one, &other])
            };
            for (key, value) in keys.iter().zip(new) {
                table.insert(*key, &*value)?;
            }
        }
        transaction.commit()?;
        Ok(true)
    }
}
