//! The filter in front of the store: for a list that stays, and for one that changes.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock};

use applications::networks::{Lengths, Network};
use applications::watch::Bans;
use applications::{Cell, Error, Random, Result, Rounds};
use criba::{Access, Db, FilterPolicy};
use criba_filters::{Blocked, CountingBloom, Delete, Insert, KeyHash, hash_key};

/// Bits of the filter for each entry, where the bits are not what is studied.
pub(crate) const BITS: f64 = 12.0;

/// The filter in memory, and the prefix lengths that it has to be asked for.
pub(crate) struct Front<F> {
    pub(crate) filter: F,
    pub(crate) lengths: Lengths,
    /// Secret in a real firewall: who knows it can choose addresses that the filter lets to the store.
    seed: u64,
}

/// What lookups cost.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) probes: u64,
    /// "Maybe" of the filter, each of which is a lookup in the store.
    pub(crate) maybe: u64,
    /// Blocks that the store read for these.
    pub(crate) reads: u64,
}

impl<F: Insert> Front<F> {
    pub(crate) fn new(filter: F, seed: u64, networks: &[Network]) -> Result<Front<F>> {
        let lengths = Lengths::default();
        let mut front = Front {
            filter,
            lengths,
            seed,
        };
        networks.iter().try_for_each(|network| front.add(network))?;
        Ok(front)
    }

    fn add(&mut self, network: &Network) -> Result<()> {
        self.lengths.add(network);
        Ok(self.filter.insert(self.hash(network))?)
    }

    #[inline]
    fn hash(&self, network: &Network) -> KeyHash {
        hash_key(self.seed, network.key().as_ref())
    }

    /// The fast path: `false` is certain, and the packet passes.
    #[inline]
    pub(crate) fn may_be_banned(&self, address: IpAddr) -> bool {
        let is_in = |length: &u8| {
            self.filter
                .may_contain(self.hash(&Network::of(address, *length)))
        };
        self.lengths.of(address).iter().any(is_in)
    }

    /// The whole answer, which is never wrong: each "maybe" is looked up.
    pub(crate) fn is_banned(&self, db: &Db, address: IpAddr, tally: &mut Tally) -> Result<bool> {
        for &length in self.lengths.of(address) {
            let network = Network::of(address, length);
            tally.probes += 1;
            if self.filter.may_contain(self.hash(&network)) {
                tally.maybe += 1;
                if db.contains_key(network.key())? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Probability that an address that is not banned is looked up all the same, by theory.
    pub(crate) fn expected_rate(&self, addresses: &[IpAddr]) -> f64 {
        let pass = 1.0 - self.filter.expected_rate();
        let rate = |address: &IpAddr| 1.0 - pass.powi(self.lengths.of(*address).len() as i32);
        addresses.iter().map(rate).sum::<f64>() / addresses.len().max(1) as f64
    }

    /// The share of these addresses, none of them banned, for which the filter says "maybe".
    pub(crate) fn measured_rate(&self, addresses: &[IpAddr]) -> f64 {
        let maybe = addresses
            .iter()
            .filter(|address| self.may_be_banned(**address));
        maybe.count() as f64 / addresses.len().max(1) as f64
    }

    /// Addresses a second in the fast path, by one thread.
    pub(crate) fn speed(&self, addresses: &[IpAddr]) -> Rounds {
        // About half a millisecond each, with one prefix length or with many.
        let probes = addresses
            .first()
            .map_or(1, |address| self.lengths.of(*address).len());
        Rounds::of(addresses, 10_000 / probes.max(1), |some| {
            let maybe = some.iter().filter(|address| self.may_be_banned(**address));
            std::hint::black_box(maybe.count());
        })
    }
}

/// The list on disk, opened as on the next day: lookups go to the segments.
pub(crate) fn store(path: &Path, networks: &[Network], policy: FilterPolicy) -> Result<Db> {
    let db = Db::builder(path).filter(policy).open()?;
    for some in networks.chunks(1_000) {
        let mut batch = db.batch();
        for network in some {
            batch.put(network.key(), "");
        }
        batch.commit()?;
    }
    db.flush()?;
    db.compact_all()?.wait()?;
    db.close()?;
    Ok(Db::builder(path)
        .access(Access::ReadOnly)
        .cache_bytes(0)
        .open()?)
}

fn block_reads(db: &Db) -> u64 {
    let lookups = db.stats().lookups;
    lookups.absent_block_reads + lookups.hit_block_reads
}

/// Bytes on disk, and those of filters and index in memory.
pub(crate) fn store_bytes(db: &Db) -> Result<[Cell; 2]> {
    let stats = db.stats();
    let memory = stats.segments().map(|segment| {
        segment.index_bytes
            + segment
                .filter
                .as_ref()
                .map_or(0, |filter| filter.pinned_bytes)
    });
    Ok([Cell::Bytes(db.disk_bytes()?), Cell::Bytes(memory.sum())])
}

/// Each network must be banned, in the store too for one of `sample`.
pub(crate) fn check_banned<F: Insert>(
    front: &Front<F>,
    db: &Db,
    (networks, sample): (&[Network], usize),
    random: &mut Random,
) -> Result<()> {
    for (at, network) in networks.iter().enumerate() {
        for address in [
            network.first(),
            network.last(),
            network.random_address(random),
        ] {
            let mut is_banned = front.may_be_banned(address);
            if at.is_multiple_of(sample) {
                is_banned &= front.is_banned(db, address, &mut Tally::default())?;
            }
            if !is_banned {
                return Err(Error::Wrong(format!(
                    "{address} passes, and {network} is banned"
                )));
            }
        }
    }
    Ok(())
}

/// None of these addresses is banned, so all must pass. Returns what that cost.
pub(crate) fn pass_all<F: Insert>(front: &Front<F>, db: &Db, outside: &[IpAddr]) -> Result<Tally> {
    let mut tally = Tally::default();
    let before = block_reads(db);
    for &address in outside {
        if front.is_banned(db, address, &mut tally)? {
            return Err(Error::Wrong(format!(
                "{address} is not banned, and does not pass"
            )));
        }
    }
    tally.reads = block_reads(db) - before;
    Ok(tally)
}

/// A filter of a list that changes.
pub(crate) trait Keeper: Insert + Send + Sync + Sized {
    /// For so many entries.
    fn new(entries: u64) -> Result<Self>;
    /// Takes an entry out that is in it, if it can.
    fn forget(&mut self, hash: KeyHash);
}

impl Keeper for Blocked {
    fn new(entries: u64) -> Result<Blocked> {
        Ok(Blocked::new(entries, BITS)?)
    }

    /// The bits of the entry may be those of others: it stays until the filter is built anew.
    fn forget(&mut self, _: KeyHash) {}
}

impl Keeper for CountingBloom {
    /// Of the rate that the plain filter has.
    fn new(entries: u64) -> Result<CountingBloom> {
        // A filter of hardly any entries has a rate of nearly nothing.
        let entries = entries.max(64);
        let rate = Blocked::rate_for(entries, BITS);
        Ok(CountingBloom::with_rate(entries, rate)?)
    }

    fn forget(&mut self, hash: KeyHash) {
        self.remove_hash(hash);
    }
}

/// The list while it changes, for any number of threads.
pub(crate) struct Live<F> {
    pub(crate) db: Db,
    pub(crate) front: RwLock<Front<F>>,
    /// Bans since a rebuild began, while one is under way. A thread that changes the list holds it.
    log: Mutex<Option<Vec<KeyHash>>>,
}

impl<F: Keeper> Live<F> {
    pub(crate) fn open(path: &Path, networks: &[Network], seed: u64) -> Result<Live<F>> {
        store(path, networks, FilterPolicy::default())?.close()?;
        let front = Front::new(F::new(networks.len() as u64)?, seed, networks)?;
        let (front, log) = (RwLock::new(front), Mutex::new(None));
        Ok(Live {
            db: Db::open(path)?,
            front,
            log,
        })
    }
}

impl<F: Keeper> Bans for Live<F> {
    /// A network that is banned already must not be put into a counting filter again: it is taken out
    /// only once.
    fn ban(&self, network: &Network) -> Result<()> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if self.db.contains_key(network.key())? {
            return Ok(());
        }
        self.db.put(network.key(), "")?;
        let mut front = self.front.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = &mut *log {
            log.push(front.hash(network));
        }
        front.add(network)
    }

    /// A network that is not banned must not be taken out of a counting filter: others would go with it.
    fn unban(&self, network: &Network) -> Result<()> {
        let _one_at_a_time = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if self.db.take(network.key())?.is_some() {
            let mut front = self.front.write().unwrap_or_else(PoisonError::into_inner);
            let hash = front.hash(network);
            front.lengths.remove(network);
            front.filter.forget(hash);
        }
        Ok(())
    }

    fn is_banned(&self, address: IpAddr) -> Result<bool> {
        let front = self.front.read().unwrap_or_else(PoisonError::into_inner);
        front.is_banned(&self.db, address, &mut Tally::default())
    }

    /// Builds the filter anew from the store. Bans go on meanwhile, into the old filter and into the log.
    fn rebuild(&self, before_swap: &mut dyn FnMut()) -> Result<()> {
        let (snapshot, entries, seed) = {
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            *log = Some(Vec::new());
            let front = self.front.read().unwrap_or_else(PoisonError::into_inner);
            (self.db.snapshot(), front.lengths.total(), front.seed)
        };
        let mut filter = F::new(entries)?;
        for key in snapshot.iter().keys() {
            filter.insert(hash_key(seed, &key?))?;
        }
        before_swap();
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        for hash in log.take().unwrap_or_default() {
            filter.insert(hash)?;
        }
        self.front
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .filter = filter;
        Ok(())
    }
}
