//! A filter of one's own in the segments of a store, and the disk reads that it saves.
//!
//! The page about it is `docs/custom-filters.md`.
#![expect(clippy::print_stdout, reason = "a program prints")]

use criba::storage::ReadCause;
use criba::{Db, FilterPolicy, Result};
use criba_filters::KeyHash;
use criba_filters::segment::{CustomFilter, OpenFilter};

/// One bit for each key: a table of eight bits a key, in which every hash sets one.
#[derive(Debug)]
struct OneBit;

struct Table(Vec<u8>);

impl CustomFilter for OneBit {
    fn name(&self) -> &str {
        "one bit of eight"
    }

    fn build(&self, hashes: &[KeyHash]) -> criba_filters::Result<Vec<u8>> {
        let mut table = vec![0; hashes.len().max(1)];
        for hash in hashes {
            let (byte, bit) = place(*hash, table.len());
            table[byte] |= 1 << bit;
        }
        Ok(table)
    }

    fn open(&self, _: &str, bytes: &[u8]) -> criba_filters::Result<Box<dyn OpenFilter>> {
        Ok(Box::new(Table(bytes.to_vec())))
    }
}

impl OpenFilter for Table {
    fn may_contain(&self, hash: KeyHash) -> bool {
        let (byte, bit) = place(hash, self.0.len());
        self.0[byte] >> bit & 1 == 1
    }

    fn memory_bytes(&self) -> usize {
        self.0.len()
    }
}

fn place(hash: KeyHash, bytes: usize) -> (usize, u64) {
    ((hash.0 >> 3) as usize % bytes, hash.0 & 7)
}

fn main() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("criba-custom-{}", std::process::id()));
    for (name, filter) in [("none", FilterPolicy::None), ("own", FilterPolicy::Custom)] {
        let builder = Db::builder(directory.join(name)).filter(filter);
        let db = builder.custom_filter(OneBit).cache_bytes(0).open()?;
        for n in 0..100_000 {
            db.put(format!("user/{:06}", 2 * n), "value")?;
        }
        db.flush()?;
        for n in 0..10_000 {
            assert!(db.get(format!("user/{:06}", 20 * n + 1))?.is_none());
        }
        let reads = db.stats().reads.get(ReadCause::Data).calls;
        println!("filter {name}: {reads} reads for 10,000 keys that are not there");
        db.close()?;
    }
    std::fs::remove_dir_all(&directory).map_err(|error| criba::Error::Io {
        path: directory,
        source: error.into(),
    })
}
