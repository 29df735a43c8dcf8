//! Opens the store of a crawl, or makes one, and refuses one that is something else.

use std::path::Path;

use criba::{BloomierBits, Compression, Db, FilterPolicy, FilterResidency};

use crate::failure::Failure;
use crate::keys::{self, Partition};
use crate::record::{Entry, Kind, Record, State, Totals};

/// Layout and version of the keys and values; the partition follows.
const FORMAT: &str = "crawler 1 ";

/// Which filter the segments carry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FilterChoice {
    /// Where, not only whether: the store's default.
    Bloomier,
    /// A Bloom filter with so many bits for each key.
    Bloom(f64),
    None,
}

impl std::str::FromStr for FilterChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<FilterChoice, String> {
        let bits = text
            .strip_prefix("bloom:")
            .and_then(|bits| bits.parse().ok());
        match (text, bits) {
            ("bloomier", _) => Ok(FilterChoice::Bloomier),
            ("none", _) => Ok(FilterChoice::None),
            (_, Some(bits)) => Ok(FilterChoice::Bloom(bits)),
            _ => Err("write `bloomier`, `bloom:BITS` or `none`".into()),
        }
    }
}

impl FilterChoice {
    fn policy(self) -> FilterPolicy {
        match self {
            FilterChoice::Bloomier => FilterPolicy::Bloomier(BloomierBits::Slot),
            FilterChoice::Bloom(bits_per_key) => FilterPolicy::Bloom { bits_per_key },
            FilterChoice::None => FilterPolicy::None,
        }
    }
}

/// How the store is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) partition: Partition,
    pub(crate) filter: FilterChoice,
    pub(crate) cache_bytes: u64,
    pub(crate) memtable_bytes: u64,
    /// Memory for filters, which are read by the page then; `None` keeps them whole in memory.
    pub(crate) filter_bytes: Option<u64>,
}

/// A segment's filter is built in memory, tens of bytes for each of its keys, and a URL takes so
/// few bytes on disk that a segment of usual size would have millions.
const SEGMENT_BYTES: u64 = 2 << 20;

/// A crawl waits for its disk rather than to fill the memory with what was not written yet.
const SEALED_MAX: usize = 1;

/// A crawl's store and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub(crate) db: Db,
    pub(crate) totals: Totals,
}

impl Store {
    /// Opens it. URLs compress to a few bytes in blocks that share prefixes over many entries.
    pub(crate) fn open(path: &Path, settings: Settings) -> Result<Store, Failure> {
        let db = Db::builder(path)
            .filter(settings.filter.policy())
            .cache_bytes(settings.cache_bytes)
            .memtable_bytes(settings.memtable_bytes)
            .sealed_memtables_max(SEALED_MAX)
            .segment_bytes(SEGMENT_BYTES)
            .filter_residency(match settings.filter_bytes {
                Some(bytes) => FilterResidency::Cached { bytes },
                None => FilterResidency::Pinned,
            })
            .entries_per_group(16)
            .compression(Compression::Zstd { level: 1 })
            .open()?;
        let format = format!("{FORMAT}{}", settings.partition.name());
        match db.get(keys::FORMAT)? {
            Some(found) if found == format.as_bytes() => {}
            Some(found) if found.starts_with(FORMAT.as_bytes()) => {
                let found = String::from_utf8_lossy(&found[FORMAT.len()..]).into_owned();
                return Err(Failure::Usage(format!(
                    "this store was made with --partition {found}; say so again, or choose another \
                     --store"
                )));
            }
            Some(_) => return Err(not_ours(path, "a crawl of another version")),
            None if db.iter().next().is_some() => return Err(not_ours(path, "something else")),
            None => db.put(keys::FORMAT, &format)?,
        }
        let totals = db
            .get(keys::TOTALS)?
            .map(|value| Totals::decode(&value))
            .transpose()?;
        Ok(Store {
            db,
            totals: totals.unwrap_or_default(),
        })
    }

    /// Puts all fetched pages into the frontier again, and returns how many. Killed half-way, the
    /// next start goes on with those that were put there.
    pub(crate) fn enter_again(&mut self, now: u64) -> Result<u64, Failure> {
        let mut entered = 0;
        let mut batch = self.db.batch();
        for entry in self.db.snapshot().prefix(keys::PAGES) {
            let (key, value) = entry?;
            let record = Record::decode(&value)?;
            let (Some(id), Ok(url)) = (keys::page_id(&key), url::Url::parse(&record.url)) else {
                return Err(Failure::Damaged("a page without a URL".into()));
            };
            let again = Entry {
                url: record.url,
                depth: record.depth,
                hops: 0,
                attempts: 0,
                kind: match record.state {
                    State::Sitemap => Kind::Sitemap,
                    _ => Kind::Page,
                },
                again: true,
            };
            let place = keys::Place { due: now, id };
            batch.put(keys::waiting(keys::origin(&url), place), again.encode());
            entered += 1;
            if batch.len() >= 1000 {
                self.add_waiting(batch, now)?;
                batch = self.db.batch();
            }
        }
        self.add_waiting(batch, now)?;
        Ok(entered)
    }

    fn add_waiting(&mut self, mut batch: criba::Batch, now: u64) -> Result<(), Failure> {
        self.totals.waiting += batch.len() as u64;
        self.totals.latest = now;
        batch.put(keys::TOTALS, self.totals.encode());
        Ok(batch.commit()?)
    }
}

fn not_ours(path: &Path, what: &str) -> Failure {
    Failure::Usage(format!(
        "{} holds {what}; choose another directory with --store",
        path.display()
    ))
}
