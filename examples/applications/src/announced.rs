//! The content of a cache beside its digest, without a filter.

use std::collections::HashSet;

/// The objects that a cache held when it last sent its digest.
#[derive(Debug, Default)]
pub struct Announced {
    objects: HashSet<u64>,
    /// How many objects are in the cache now that were not announced.
    pub new: u64,
}

impl Announced {
    /// An object has come into the cache.
    pub fn came(&mut self, object: u64) {
        self.new += u64::from(!self.has(object));
    }

    /// An object has left the cache.
    pub fn left(&mut self, object: u64) {
        self.new -= u64::from(!self.has(object));
    }

    /// The cache sends a digest of these objects, which are all that it holds.
    pub fn send(&mut self, objects: impl Iterator<Item = u64>) {
        self.objects = objects.collect();
        self.new = 0;
    }

    /// Whether the object was announced.
    pub fn has(&self, object: u64) -> bool {
        self.objects.contains(&object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_new_until_they_are_announced() {
        let mut announced = Announced::default();
        announced.came(1);
        announced.came(2);
        assert_eq!((announced.new, announced.has(1)), (2, false));
        announced.send([1, 2].into_iter());
        assert_eq!((announced.new, announced.has(1)), (0, true));
        // A stale object is no new one when it comes back.
        announced.left(1);
        announced.came(1);
        assert_eq!(announced.new, 0);
        announced.came(3);
        announced.left(3);
        assert_eq!(announced.new, 0);
    }
}
