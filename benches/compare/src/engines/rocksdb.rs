//! RocksDB. Equal: cache, memtable (four of them), block size, bits of the filter, one log write for
//! each put, fsync on demand, a thread that flushes and two that compact, which may share a merge, the
//! size of the first level. Filters and index are in memory outside of the cache, its default; where they are starved
//! they are partitioned and in the cache, as its documentation advises. The cache is its default, LRU in
//! 64 shards. Compression is LZ4: Zstandard would link another copy of the library that
//! criba links. `rocksdb-ribbon` has the Ribbon filter of the same rate, in less memory.

use std::path::Path;
use std::time::{Duration, Instant};

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DB, DBCompressionType, FlushOptions, Options,
    WriteOptions,
};

use crate::engine::{Counters, Engine, OnEntry, OnValue, Read, Result, Settings};

struct Rocks {
    db: DB,
    write: WriteOptions,
}

#[derive(Clone, Copy)]
enum Filter {
    Bloom,
    Ribbon,
}

pub fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    opened(dir, settings, Filter::Bloom)
}

pub fn open_ribbon(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    opened(dir, settings, Filter::Ribbon)
}

fn opened(dir: &Path, settings: &Settings, filter: Filter) -> Result<Box<dyn Engine>> {
    Ok(Box::new(rocks(dir, settings, filter, |_| ())?))
}

fn rocks(
    dir: &Path,
    settings: &Settings,
    filter: Filter,
    more: impl FnOnce(&mut Options),
) -> Result<Rocks> {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(settings.memtable_bytes as usize);
    options.set_max_write_buffer_number(4);
    // A quarter of them flushes, at least one.
    options.set_max_background_jobs(3);
    options.set_max_subcompactions(2);
    options.set_max_bytes_for_level_base(256 << 20);
    options.set_compression_type(match settings.compression {
        true => DBCompressionType::Lz4,
        false => DBCompressionType::None,
    });
    options.set_block_based_table_factory(&table(settings, filter));
    let mut write = WriteOptions::default();
    write.set_sync(settings.sync);
    more(&mut options);
    Ok(Rocks {
        db: DB::open(&options, dir)?,
        write,
    })
}

fn table(settings: &Settings, filter: Filter) -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.set_block_size(settings.block_bytes as usize);
    table.set_block_cache(&Cache::new_lru_cache(settings.cache_bytes as usize));
    match filter {
        Filter::Bloom => table.set_bloom_filter(settings.filter_bits, false),
        Filter::Ribbon => table.set_ribbon_filter(settings.filter_bits),
    }
    if settings.starved {
        table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        table.set_partition_filters(true);
        table.set_metadata_block_size(settings.block_bytes as usize);
        table.set_cache_index_and_filter_blocks(true);
    }
    table
}

/// What says that something is left to do.
const BUSY: [&str; 4] = [
    "rocksdb.mem-table-flush-pending",
    "rocksdb.num-running-flushes",
    "rocksdb.compaction-pending",
    "rocksdb.num-running-compactions",
];

impl Rocks {
    fn is_busy(&self) -> Result<bool> {
        for property in BUSY {
            if self.db.property_int_value(property)? != Some(0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn walk(
        &self,
        from: &[u8],
        limit: usize,
        is_wanted: impl Fn(&[u8]) -> bool,
        on_entry: OnEntry<'_>,
    ) -> Result<usize> {
        let mut entries = self.db.raw_iterator();
        entries.seek(from);
        let mut count = 0;
        while count < limit {
            let Some((key, value)) = entries.item() else {
                break;
            };
            if !is_wanted(key) {
                break;
            }
            on_entry(key, value);
            count += 1;
            entries.next();
        }
        entries.status()?;
        Ok(count)
    }
}

impl Read for Rocks {
    fn get(&self, key: &[u8], on_value: OnValue<'_>) -> Result<bool> {
        let value = self.db.get_pinned(key)?;
        if let Some(value) = &value {
            on_value(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], limit: usize, on_entry: OnEntry<'_>) -> Result<usize> {
        self.walk(from, limit, |_| true, on_entry)
    }

    fn prefix(&self, prefix: &[u8], on_entry: OnEntry<'_>) -> Result<usize> {
        self.walk(prefix, usize::MAX, |key| key.starts_with(prefix), on_entry)
    }
}

impl Read for &Rocks {
    fn get(&self, key: &[u8], on_value: OnValue<'_>) -> Result<bool> {
        Read::get(&**self, key, on_value)
    }

    fn scan(&self, from: &[u8], limit: usize, on_entry: OnEntry<'_>) -> Result<usize> {
        (**self).scan(from, limit, on_entry)
    }

    fn prefix(&self, prefix: &[u8], on_entry: OnEntry<'_>) -> Result<usize> {
        (**self).prefix(prefix, on_entry)
    }
}

impl Engine for Rocks {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put_opt(key, value, &self.write)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.db.delete_opt(key, &self.write)?)
    }

    fn settle(&self) -> Result<Instant> {
        self.db.flush_opt(&FlushOptions::default())?;
        while self.is_busy()? {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Instant::now())
    }

    fn reader(&self) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(self))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// The crate names this function, which RocksDB has had since version 8; nothing here calls it.
#[cfg(feature = "rocksdb-7")]
#[unsafe(no_mangle)]
extern "C" fn rocksdb_write_buffer_manager_destroy(_: *mut libc::c_void) {}

/// With an associative merge operator of the same meaning.
pub fn open_counters(dir: &Path, settings: &Settings) -> Result<Box<dyn Counters>> {
    let counters = rocks(dir, settings, Filter::Bloom, |options| {
        options.set_merge_operator_associative("add u64", |_, base, operands| {
            let operands = operands.iter().map(number);
            let sum = operands.fold(base.map_or(0, number), u64::wrapping_add);
            Some(sum.to_le_bytes().to_vec())
        });
    })?;
    Ok(Box::new(counters))
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

impl Counters for Rocks {
    fn add(&self, key: &[u8]) -> Result<()> {
        Ok(self.db.merge_opt(key, 1_u64.to_le_bytes(), &self.write)?)
    }

    fn add_by_reading(&self, key: &[u8]) -> Result<()> {
        let more = Counters::get(self, key)? + 1;
        Ok(self.db.put_opt(key, more.to_le_bytes(), &self.write)?)
    }

    fn get(&self, key: &[u8]) -> Result<u64> {
        Ok(self.db.get_pinned(key)?.map_or(0, |value| number(&value)))
    }
}
