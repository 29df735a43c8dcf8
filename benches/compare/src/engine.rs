//! What every store must be able to do here, and what is held equal among them.

use std::path::Path;
use std::time::Instant;

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Sees a value without owning it.
pub type OnValue<'a> = &'a mut dyn FnMut(&[u8]);
/// Sees a key and its value without owning them.
pub type OnEntry<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// What is held equal. What a store cannot be told is said in its file.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Budget of the cache of data blocks or pages.
    pub cache_bytes: u64,
    /// Size at which a memtable is flushed.
    pub memtable_bytes: u64,
    pub filter_bits: f64,
    pub block_bytes: u32,
    pub compression: bool,
    /// Every write survives power loss; else a kill of the process.
    pub sync: bool,
    /// Filters compete with data for the cache, instead of being always in memory.
    pub starved: bool,
}

/// Reads, either of the newest state or of one moment.
pub trait Read {
    /// Whether the key is there.
    fn get(&self, key: &[u8], on_value: OnValue<'_>) -> Result<bool>;

    /// At most `limit` entries from `from` on, in order; how many there were.
    fn scan(&self, from: &[u8], limit: usize, on_entry: OnEntry<'_>) -> Result<usize>;

    /// All entries whose keys begin with `prefix`; how many there were.
    fn prefix(&self, prefix: &[u8], on_entry: OnEntry<'_>) -> Result<usize>;
}

/// A store, opened.
pub trait Engine: Read + Send + Sync {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Waits until nothing is left to do in the background, memory included; when that was.
    fn settle(&self) -> Result<Instant>;

    /// What a thread that only reads would use: a transaction kept open where the store has them.
    fn reader(&self) -> Result<Box<dyn Read + '_>>;

    /// Sorted runs that a lookup of an absent key asks, where the store can tell.
    fn runs_asked(&self, _absent: &[u8]) -> Result<Option<u64>> {
        Ok(None)
    }

    fn close(self: Box<Self>) -> Result<()>;
}

/// Two values, by the keys of which a transaction reads and writes them.
pub type Pair<'a> = [&'a [u8]; 2];
/// Makes new values of two.
pub type Change<'a> = &'a mut dyn FnMut(Pair<'_>) -> [Vec<u8>; 2];

/// A store at transactions: each reads two keys and writes both.
pub trait Bank: Send + Sync {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Whether the key is there.
    fn get(&self, key: &[u8], on_value: OnValue<'_>) -> Result<bool>;

    /// Tries it once: whether it was committed, and not another one that came between. Others may run at the
    /// same time, and all have the effect that they would have one after the other.
    fn transact(&self, keys: Pair<'_>, change: Change<'_>) -> Result<bool>;
}

/// A store of counters: numbers of 8 bytes, little-endian, that only grow.
pub trait Counters: Send + Sync {
    /// Adds one, without a read.
    fn add(&self, key: &[u8]) -> Result<()>;

    /// Reads, and puts one more.
    fn add_by_reading(&self, key: &[u8]) -> Result<()>;

    /// 0 for one that is not there.
    fn get(&self, key: &[u8]) -> Result<u64>;
}

/// A store with a map of keys for each tenant.
pub trait Tenants: Send + Sync {
    fn put(&self, tenant: usize, key: &[u8], value: &[u8]) -> Result<()>;

    /// Waits until nothing is left to do in the background, memory included.
    fn settle(&self) -> Result<()>;

    fn get(&self, tenant: usize, key: &[u8]) -> Result<bool>;
}

type Open = fn(&Path, &Settings) -> Result<Box<dyn Engine>>;
type OpenCounters = fn(&Path, &Settings) -> Result<Box<dyn Counters>>;
type OpenTenants = fn(&Path, &Settings, usize) -> Result<Box<dyn Tenants>>;
type OpenBank = fn(&Path, &Settings) -> Result<Box<dyn Bank>>;

/// A store by its name.
#[derive(Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    /// Only asked for in the groups that compare filters.
    pub is_filter_variant: bool,
    pub open: Open,
    /// Where several threads can have a transaction each, serializable.
    pub open_bank: Option<OpenBank>,
    /// Where writes can be merged with what is there.
    pub open_counters: Option<OpenCounters>,
    /// Where one store has several maps of keys, and they may be many.
    pub open_tenants: Option<OpenTenants>,
}

const fn bank(kind: Kind, open: OpenBank) -> Kind {
    Kind {
        open_bank: Some(open),
        ..kind
    }
}

const fn counters(kind: Kind, open: OpenCounters) -> Kind {
    Kind {
        open_counters: Some(open),
        ..kind
    }
}

const fn tenants(kind: Kind, open: OpenTenants) -> Kind {
    Kind {
        open_tenants: Some(open),
        ..kind
    }
}

const fn store(name: &'static str, open: Open) -> Kind {
    Kind {
        name,
        is_filter_variant: false,
        open,
        open_bank: None,
        open_counters: None,
        open_tenants: None,
    }
}

const fn variant(name: &'static str, open: Open) -> Kind {
    Kind {
        name,
        is_filter_variant: true,
        open,
        open_bank: None,
        open_counters: None,
        open_tenants: None,
    }
}

/// All that this program was built with.
pub const KINDS: &[Kind] = &[
    tenants(
        counters(
            bank(
                store("criba", crate::engines::criba::open),
                crate::engines::criba::open_bank,
            ),
            crate::engines::criba::open_counters,
        ),
        crate::engines::criba::open_tenants,
    ),
    store("criba-mmap", crate::engines::criba::open_mapped),
    variant("criba-bloom", crate::engines::criba::open_bloom),
    variant("criba-10", crate::engines::criba::open_ten_bits),
    #[cfg(feature = "fjall")]
    tenants(
        bank(
            store("fjall", crate::engines::fjall::open),
            crate::engines::fjall::open_bank,
        ),
        crate::engines::fjall::open_tenants,
    ),
    #[cfg(feature = "coordinode")]
    store("coordinode", crate::engines::coordinode::open),
    #[cfg(feature = "rocksdb")]
    counters(
        store("rocksdb", crate::engines::rocksdb::open),
        crate::engines::rocksdb::open_counters,
    ),
    #[cfg(feature = "rocksdb")]
    variant("rocksdb-ribbon", crate::engines::rocksdb::open_ribbon),
    #[cfg(feature = "redb")]
    bank(
        store("redb", crate::engines::redb::open),
        crate::engines::redb::open_bank,
    ),
    #[cfg(feature = "lmdb")]
    store("lmdb", crate::engines::lmdb::open),
    #[cfg(feature = "sled")]
    store("sled", crate::engines::sled::open),
];

/// # Errors
///
/// Names the stores that there are.
pub fn find(name: &str) -> Result<Kind> {
    let kind = KINDS.iter().find(|kind| kind.name == name).copied();
    kind.ok_or_else(|| {
        let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        format!(
            "no store {name}; built in are {} (see [features] in Cargo.toml)",
            names.join(", ")
        )
        .into()
    })
}
