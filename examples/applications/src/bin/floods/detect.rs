//! Sliding windows of sketches: a ring of panes, each with a sketch of its own.
//!
//! The estimate for the window is the sum of those of its panes. No sketch here says too little, so no sum
//! does. A source with `limit` packets in a window has at least `limit / panes` in one of its panes, so it is
//! enough to keep the names that get that far in a pane.

use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;

use applications::Result;
use applications::networks::Network;
use applications::sliding::Window;
use criba_filters::{CountMin, KeyHash, Merge, Sketch, SpaceSaving, Update, hash_key};

/// What finds sources above a rate.
pub(crate) trait Detector {
    fn name(&self) -> &'static str;
    fn add(&mut self, source: IpAddr) -> Result<()>;
    /// Begins a pane.
    fn turn(&mut self) -> Result<()>;
    /// Called before estimates are asked for.
    fn end(&mut self) -> Result<()> {
        Ok(())
    }
    /// Names that may be above the rate.
    fn candidates(&self) -> HashSet<IpAddr>;
    /// Packets in the window: at least, and at most.
    fn estimate(&self, source: IpAddr) -> (u64, u64);
    /// Whether every source above the rate is among the candidates, by theory.
    fn misses_nothing(&self) -> bool;
    /// By how much the second one exceeds the count at most; for count-min with a probability of
    /// `1 - e^-rows`.
    fn bound(&self) -> f64;
    fn memory_bytes(&self) -> u64;
}

/// Rows of a count-min sketch.
pub(crate) const ROWS: u8 = 5;
/// Bytes of a counter of space-saving, about.
const COUNTER_BYTES: u64 = 128;

/// Count-min in each pane.
pub(crate) struct CountPanes {
    window: Window,
    seed: u64,
    empty: CountMin,
    panes: VecDeque<CountMin>,
    /// Names that got far enough in a pane.
    names: VecDeque<HashSet<IpAddr>>,
    /// With plain update: the panes as one sketch.
    merged: Option<CountMin>,
}

impl CountPanes {
    /// Of so many bytes in each pane. With plain update the panes are merged.
    pub(crate) fn new(bytes: u64, update: Update, window: Window, seed: u64) -> Result<CountPanes> {
        let width = (bytes / (8 * u64::from(ROWS))).max(1);
        let empty = CountMin::with_shape(width, ROWS)?.with_update(update);
        Ok(CountPanes {
            window,
            seed,
            panes: VecDeque::from([empty.clone()]),
            names: VecDeque::from([HashSet::new()]),
            merged: (update == Update::Plain).then(|| empty.clone()),
            empty,
        })
    }

    fn hash(&self, source: IpAddr) -> KeyHash {
        hash_key(self.seed, Network::single(source).key().as_ref())
    }
}

impl Detector for CountPanes {
    fn name(&self) -> &'static str {
        match self.merged {
            Some(_) => "count-min, plain, merged",
            None => "count-min, conservative, summed",
        }
    }

    fn add(&mut self, source: IpAddr) -> Result<()> {
        let hash = self.hash(source);
        if let (Some(pane), Some(names)) = (self.panes.back_mut(), self.names.back_mut()) {
            pane.insert_hash(hash);
            if pane.estimate(hash).saturating_mul(self.window.panes as u64) >= self.window.limit {
                names.insert(source);
            }
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<()> {
        self.panes.push_back(self.empty.clone());
        self.names.push_back(HashSet::new());
        if self.panes.len() > self.window.panes {
            self.panes.pop_front();
            self.names.pop_front();
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        if let Some(merged) = &mut self.merged {
            *merged = self.empty.clone();
            self.panes.iter().try_for_each(|pane| merged.merge(pane))?;
        }
        Ok(())
    }

    fn candidates(&self) -> HashSet<IpAddr> {
        self.names.iter().flatten().copied().collect()
    }

    /// The sum of the panes' estimates is at most the estimate of plain panes merged into one: all panes
    /// have the same hash functions, and the least of sums is not below the sum of the least. So the bound of
    /// one count-min sketch of the whole window holds for the sum.
    fn estimate(&self, source: IpAddr) -> (u64, u64) {
        let hash = self.hash(source);
        let most = match &self.merged {
            Some(merged) => merged.estimate(hash),
            None => self.panes.iter().map(|pane| pane.estimate(hash)).sum(),
        };
        (0, most)
    }

    fn misses_nothing(&self) -> bool {
        true
    }

    fn bound(&self) -> f64 {
        self.panes.iter().map(CountMin::error_bound).sum()
    }

    fn memory_bytes(&self) -> u64 {
        let sketches: usize = self.panes.iter().map(Sketch::memory_bytes).sum();
        let names: usize = self.names.iter().map(HashSet::capacity).sum();
        // A table has a byte of control for each place.
        (sketches + names * (size_of::<IpAddr>() + 1)) as u64
    }
}

/// Space-saving in each pane.
pub(crate) struct TopPanes {
    window: Window,
    counters: usize,
    panes: VecDeque<SpaceSaving>,
}

impl TopPanes {
    /// Of about so many bytes in each pane.
    pub(crate) fn new(bytes: u64, window: Window) -> Result<TopPanes> {
        let counters = (bytes / COUNTER_BYTES).max(1) as usize;
        let panes = VecDeque::from([SpaceSaving::with_counters(counters)?]);
        Ok(TopPanes {
            window,
            counters,
            panes,
        })
    }
}

impl Detector for TopPanes {
    fn name(&self) -> &'static str {
        "space-saving"
    }

    fn add(&mut self, source: IpAddr) -> Result<()> {
        if let Some(pane) = self.panes.back_mut() {
            pane.insert(Network::single(source).key());
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<()> {
        self.panes
            .push_back(SpaceSaving::with_counters(self.counters)?);
        if self.panes.len() > self.window.panes {
            self.panes.pop_front();
        }
        Ok(())
    }

    fn candidates(&self) -> HashSet<IpAddr> {
        let counters = self.panes.iter().flat_map(|pane| pane.top(pane.counters()));
        counters
            .filter_map(|counter| Network::from_key(&counter.key))
            .map(|one| one.first())
            .collect()
    }

    fn estimate(&self, source: IpAddr) -> (u64, u64) {
        let key = Network::single(source).key();
        self.panes
            .iter()
            .map(|pane| pane.estimate(key))
            .fold((0, 0), |(least, most), (count, error)| {
                (least + (count - error), most + count)
            })
    }

    /// A source without a counter in any pane has at most the least counter in each.
    fn misses_nothing(&self) -> bool {
        self.window.limit as f64 > self.bound()
    }

    /// The sum of the least counters, each of which is at most a share of its pane.
    fn bound(&self) -> f64 {
        self.panes
            .iter()
            .map(|pane| pane.total() as f64 / self.counters as f64)
            .sum()
    }

    fn memory_bytes(&self) -> u64 {
        self.panes
            .iter()
            .map(SpaceSaving::memory_bytes)
            .sum::<usize>() as u64
    }
}
