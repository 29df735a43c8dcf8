//! What was read stays in memory within a budget of bytes.

use std::fmt;
use std::num::NonZero;
use std::thread;

use quick_cache::sync::{Cache as QuickCache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::sharded_counter::ShardedCounter;

/// Segment and offset in its file.
pub(crate) type CacheKey = (u64, u64);

/// Knows how much memory it holds.
pub(crate) trait Weigh {
    /// Bytes charged to the budget.
    fn weight_bytes(&self) -> u64;
}

/// A concurrent cache. With a budget of zero it holds nothing and costs nothing.
pub(crate) struct Cache<V> {
    inner: Option<QuickCache<CacheKey, V, ByWeight>>,
    /// Lookups that found something, and that did not.
    outcomes: ShardedCounter<2>,
}

#[derive(Clone, Copy)]
struct ByWeight;

impl<V: Weigh> Weighter<CacheKey, V> for ByWeight {
    fn weight(&self, _: &CacheKey, value: &V) -> u64 {
        // Nothing weighs zero, or it would never be evicted.
        value.weight_bytes().max(1)
    }
}

impl<V> fmt::Debug for Cache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

const HIT: usize = 0;
const MISS: usize = 1;

/// Bytes of a usual item, from which the number of items is estimated.
const USUAL_ITEM_BYTES: u64 = 4096;

/// Of the budget, what is for items that were found again; the rest is for new ones until they are.
const HOT_PART: f64 = 0.8;

/// Parts for each processor: threads that use different parts do not wait for each other.
const PARTS_PER_PROCESSOR: usize = 4;

/// Items of a part, at least, unless the cache has fewer. Each part has its share of the budget, whichever
/// items are its own, and of few items one part has many more than another.
const PART_ITEMS_MIN: usize = 256;

/// Parts of a cache of so many items: a power of two.
fn parts_of(items: usize) -> usize {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let most = processors.saturating_mul(PARTS_PER_PROCESSOR);
    1 << (items / PART_ITEMS_MIN).clamp(1, most).ilog2()
}

impl<V: Weigh + Clone> Cache<V> {
    pub(crate) fn new(capacity_bytes: u64) -> Cache<V> {
        Cache::of_items(capacity_bytes, USUAL_ITEM_BYTES)
    }

    /// With items that usually take so many bytes.
    pub(crate) fn of_items(capacity_bytes: u64, item_bytes: u64) -> Cache<V> {
        let items = usize::try_from(capacity_bytes / item_bytes.max(1)).unwrap_or(usize::MAX);
        let items = items.clamp(16, 1 << 24);
        let options = OptionsBuilder::new()
            .shards(parts_of(items))
            .estimated_items_capacity(items)
            .weight_capacity(capacity_bytes)
            .hot_allocation(HOT_PART)
            .build();
        let inner = options.ok().filter(|_| capacity_bytes > 0).map(|options| {
            let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
            QuickCache::with_options(options, ByWeight, hasher, lifecycle)
        });
        Cache {
            inner,
            outcomes: ShardedCounter::default(),
        }
    }

    pub(crate) fn get(&self, key: CacheKey) -> Option<V> {
        let found = self.inner.as_ref().and_then(|cache| cache.get(&key));
        let outcome = if found.is_some() { HIT } else { MISS };
        self.outcomes.mine().add(outcome, 1);
        found
    }

    /// Whether it can hold anything.
    pub(crate) fn has_budget(&self) -> bool {
        self.inner.is_some()
    }

    pub(crate) fn insert(&self, key: CacheKey, value: V) {
        if let Some(cache) = &self.inner {
            cache.insert(key, value);
        }
    }

    /// Another budget; what has no room any more is let go. One that was made without any stays so.
    pub(crate) fn set_capacity(&self, capacity_bytes: u64) {
        if let Some(cache) = &self.inner
            && cache.capacity() != capacity_bytes
        {
            cache.set_capacity(capacity_bytes);
        }
    }

    /// Lookups that found something, and that did not.
    pub(crate) fn hits_and_misses(&self) -> (u64, u64) {
        let [hits, misses] = self.outcomes.sums();
        (hits, misses)
    }

    /// Bytes held, and the budget.
    pub(crate) fn bytes_and_capacity(&self) -> (u64, u64) {
        self.inner
            .as_ref()
            .map_or((0, 0), |cache| (cache.weight(), cache.capacity()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Debug)]
    struct Heavy(u64);

    impl Weigh for Heavy {
        fn weight_bytes(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn holds_at_most_its_budget() {
        let cache = Cache::new(1 << 20);
        for n in 0..1000 {
            cache.insert((1, n), Heavy(4096));
            assert!(cache.bytes_and_capacity().0 <= 1 << 20);
        }
        assert_eq!(cache.get((2, 0)), None);
        assert_eq!(cache.hits_and_misses(), (0, 1));
    }

    #[test]
    fn a_small_cache_holds_what_fits_whatever_the_hashes() {
        for _ in 0..20 {
            let cache = Cache::new(256 * 4096);
            let keys = || (0..250).map(|n| (1, n));
            keys().for_each(|key| cache.insert(key, Heavy(4096)));
            assert_eq!(keys().filter(|key| cache.get(*key).is_some()).count(), 250);
        }
    }

    #[test]
    fn without_a_budget_it_holds_nothing() {
        let cache = Cache::new(0);
        cache.insert((1, 1), Heavy(1));
        assert_eq!(cache.get((1, 1)), None);
        assert_eq!(cache.bytes_and_capacity(), (0, 0));
    }
}
