//! Caches with a capacity in bytes: LRU and LFU, written plainly, and one of a crate.
//!
//! LRU and LFU keep the objects in a map, and in a second one in the order in which they leave. Fast caches
//! do without the second map, at the price of longer programs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};

/// A cache of objects that are numbers with a size. The bytes themselves are not kept.
pub trait Cache {
    /// Whether the object is there. If it is, that is a use of it.
    fn get(&mut self, object: u64) -> bool;

    /// Puts in an object that is not there, and removes others until there is room. Returns `false` if it was
    /// not kept, for example because it is larger than the cache.
    fn insert(&mut self, object: u64, size: u64) -> bool;

    /// The size of all objects in it.
    fn bytes(&self) -> u64;

    /// The size that it must not exceed.
    fn capacity(&self) -> u64;
}

/// Removes the object that was not used for the longest time.
#[derive(Debug)]
pub struct Lru {
    capacity: u64,
    bytes: u64,
    /// Counts the uses.
    now: u64,
    /// The size of each object, and when it was last used.
    objects: HashMap<u64, (u64, u64)>,
    /// The objects by their last use.
    order: BTreeMap<u64, u64>,
}

impl Lru {
    /// An empty cache of a capacity in bytes.
    pub fn new(capacity: u64) -> Lru {
        Lru {
            capacity,
            bytes: 0,
            now: 0,
            objects: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    /// Whether the object is there. That is no use of it.
    pub fn contains(&self, object: u64) -> bool {
        self.objects.contains_key(&object)
    }

    /// The objects, the one that leaves next first.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.order.values().copied()
    }

    /// Removes the objects that must leave for one of this size, and returns them.
    pub fn make_room(&mut self, size: u64) -> Vec<u64> {
        let mut removed = Vec::new();
        while self.bytes + size > self.capacity {
            let Some((_, object)) = self.order.pop_first() else {
                break;
            };
            if let Some((size, _)) = self.objects.remove(&object) {
                self.bytes -= size;
            }
            removed.push(object);
        }
        removed
    }
}

impl Cache for Lru {
    fn get(&mut self, object: u64) -> bool {
        let Some((_, last)) = self.objects.get_mut(&object) else {
            return false;
        };
        self.now += 1;
        self.order.remove(last);
        self.order.insert(self.now, object);
        *last = self.now;
        true
    }

    fn insert(&mut self, object: u64, size: u64) -> bool {
        if size > self.capacity || self.contains(object) {
            return false;
        }
        self.make_room(size);
        self.now += 1;
        self.bytes += size;
        self.objects.insert(object, (size, self.now));
        self.order.insert(self.now, object);
        true
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn capacity(&self) -> u64 {
        self.capacity
    }
}

/// Removes the object with the fewest uses since it came in, and of several the one that was not used for
/// the longest time. Uses before an object came in do not count.
#[derive(Debug)]
pub struct Lfu {
    capacity: u64,
    bytes: u64,
    now: u64,
    /// The size of each object, its number of uses, and when it was last used.
    objects: HashMap<u64, (u64, u64, u64)>,
    /// Number of uses, last use, object.
    order: BTreeSet<(u64, u64, u64)>,
}

impl Lfu {
    /// An empty cache of a capacity in bytes.
    pub fn new(capacity: u64) -> Lfu {
        Lfu {
            capacity,
            bytes: 0,
            now: 0,
            objects: HashMap::new(),
            order: BTreeSet::new(),
        }
    }
}

impl Cache for Lfu {
    fn get(&mut self, object: u64) -> bool {
        let Some((_, uses, last)) = self.objects.get_mut(&object) else {
            return false;
        };
        self.now += 1;
        self.order.remove(&(*uses, *last, object));
        (*uses, *last) = (*uses + 1, self.now);
        self.order.insert((*uses, *last, object));
        true
    }

    fn insert(&mut self, object: u64, size: u64) -> bool {
        if size > self.capacity || self.objects.contains_key(&object) {
            return false;
        }
        while self.bytes + size > self.capacity {
            let Some((_, _, removed)) = self.order.pop_first() else {
                break;
            };
            if let Some((size, _, _)) = self.objects.remove(&removed) {
                self.bytes -= size;
            }
        }
        self.now += 1;
        self.bytes += size;
        self.objects.insert(object, (size, 1, self.now));
        self.order.insert((1, self.now, object));
        true
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn capacity(&self) -> u64 {
        self.capacity
    }
}

/// The crate `quick_cache`, which keeps an object more firmly when it was used again.
#[derive(Debug)]
pub struct Quick(quick_cache::unsync::Cache<u64, u64, Size, Hasher>);

// Its own hasher is seeded at random: no two runs would be equal.
type Hasher = BuildHasherDefault<DefaultHasher>;

#[derive(Debug, Clone)]
struct Size;

impl quick_cache::Weighter<u64, u64> for Size {
    fn weight(&self, _: &u64, size: &u64) -> u64 {
        *size
    }
}

impl Quick {
    /// An empty cache of a capacity in bytes, for objects of about this size.
    pub fn new(capacity: u64, mean_size: u64) -> Quick {
        let objects = (capacity / mean_size.max(1)).max(1) as usize;
        let (hasher, lifecycle) = (Hasher::default(), Default::default());
        Quick(quick_cache::unsync::Cache::with(
            objects, capacity, Size, hasher, lifecycle,
        ))
    }
}

impl Cache for Quick {
    fn get(&mut self, object: u64) -> bool {
        self.0.get(&object).is_some()
    }

    fn insert(&mut self, object: u64, size: u64) -> bool {
        self.0.insert(object, size);
        self.0.peek(&object).is_some()
    }

    fn bytes(&self) -> u64 {
        self.0.weight()
    }

    fn capacity(&self) -> u64 {
        self.0.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn lru_removes_what_was_not_used_longest() {
        let mut cache = Lru::new(3);
        assert!([1, 2, 3].iter().all(|&object| cache.insert(object, 1)));
        assert!(cache.get(1) && !cache.get(4));
        assert!(!cache.insert(9, 4), "larger than the cache");
        assert!(!cache.insert(1, 1), "it is there already");
        assert!(cache.insert(4, 2));
        assert_eq!(cache.iter().collect::<Vec<_>>(), [1, 4]);
        assert_eq!((cache.bytes(), cache.make_room(2)), (3, vec![1, 4]));
    }

    #[test]
    fn lfu_removes_what_was_used_least() {
        let mut cache = Lfu::new(3);
        assert!([1, 2, 3].iter().all(|&object| cache.insert(object, 1)));
        assert!(cache.get(1) && cache.get(1) && cache.get(3));
        assert!(cache.insert(4, 1) && !cache.get(2));
        assert!(cache.insert(5, 1) && !cache.get(4));
        assert!(cache.get(1) && cache.get(3) && cache.get(5));
        assert_eq!(cache.bytes(), 3);
        assert!(!cache.insert(9, 4));
    }

    /// Both beside lists that are searched from end to end.
    #[test]
    fn both_are_what_slow_caches_are() {
        let mut random = Random::new(1, 0);
        let (mut lru, mut lfu) = (Lru::new(50), Lfu::new(50));
        // Object, size, uses, last use.
        let (mut slow_lru, mut slow_lfu) = (Vec::new(), Vec::new());
        for now in 0..3_000_u64 {
            let object = random.below(8) * random.below(8);
            let size = 1 + object % 9;
            let hit = slow(&mut slow_lru, (object, size, now), |entry| (0, entry.3));
            assert_eq!(lru.get(object), hit);
            assert_eq!(lru.insert(object, size), !hit);
            let hit = slow(&mut slow_lfu, (object, size, now), |entry| {
                (entry.2, entry.3)
            });
            assert_eq!(lfu.get(object), hit);
            assert_eq!(lfu.insert(object, size), !hit);
        }
    }

    type Entry = (u64, u64, u64, u64);

    fn slow(
        entries: &mut Vec<Entry>,
        (object, size, now): (u64, u64, u64),
        leaves_first: fn(&Entry) -> (u64, u64),
    ) -> bool {
        if let Some(entry) = entries.iter_mut().find(|entry| entry.0 == object) {
            (entry.2, entry.3) = (entry.2 + 1, now);
            return true;
        }
        while entries.iter().map(|entry| entry.1).sum::<u64>() + size > 50 {
            let first = entries.iter().map(leaves_first).min().unwrap();
            entries.retain(|entry| leaves_first(entry) != first);
        }
        entries.push((object, size, 1, now));
        false
    }
}
