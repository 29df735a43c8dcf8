//! Keys that count what is done to them: counts repeat exactly, where times do not.

use std::cell::Cell;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Adds steps that the key does not see, such as elements that move.
pub fn add_steps(count: usize) {
    STEPS.set(STEPS.get() + count as u64);
}

/// Steps of this thread since [`reset`].
pub fn steps() -> u64 {
    STEPS.get()
}

/// Begins to count from zero.
pub fn reset() {
    STEPS.set(0);
}

/// A key of which each comparison and each hash is a step.
#[derive(Debug, Clone)]
pub struct Counted(pub String);

impl PartialEq for Counted {
    fn eq(&self, other: &Counted) -> bool {
        add_steps(1);
        self.0 == other.0
    }
}

impl Eq for Counted {}

impl PartialOrd for Counted {
    fn partial_cmp(&self, other: &Counted) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Counted {
    fn cmp(&self, other: &Counted) -> Ordering {
        add_steps(1);
        self.0.cmp(&other.0)
    }
}

impl Hash for Counted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        add_steps(1);
        self.0.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comparison_and_hash_counts() {
        let keys = ["b", "a", "c"].map(|key| Counted(key.into()));
        reset();
        assert!(keys[0] > keys[1] && keys[0] != keys[2]);
        assert_eq!(steps(), 2);
        let set = std::collections::HashSet::from(keys);
        assert!(steps() >= 5 && set.len() == 3);
    }
}
