//! SuRF with real suffixes (Zhang, Lim, Leis, Andersen, Kaminsky, Keeton, Pavlo 2018, "SuRF: Practical
//! Range Query Filtering with Fast Succinct Tries", sections 2 and 3).
//!
//! A trie of bytes holds of each key the bytes that distinguish it from all others, and so many bits
//! behind them. Bits are counted as LOUDS-Sparse takes them: 10 for each node, which is a byte
//! of label, a bit for children and one for the last sibling, beside the suffixes. LOUDS-Dense for the
//! upper levels would take about the same; directories are not counted.

use super::{KeyRange, RangeSet, mask};

const BITS_PER_NODE: f64 = 10.0;

/// What is kept of a key.
struct Leaf {
    key: Vec<u8>,
    /// Of these bits, filled up with zeros; `None` for the whole key, which others continue.
    bits: Option<usize>,
}

/// The leaves of the trie, in their order.
pub(crate) struct Surf {
    leaves: Vec<Leaf>,
    nodes: usize,
    suffix_bits: u32,
}

fn shared(one: &[u8], other: &[u8]) -> usize {
    let pairs = one.iter().zip(other);
    pairs.take_while(|(one, other)| one == other).count()
}

impl Surf {
    /// For sorted keys, with as many suffix bits as there is room for; `None` if the trie alone takes more.
    pub(crate) fn new(keys: &[Vec<u8>], bits_per_key: f64) -> Option<Surf> {
        let mut nodes = 0;
        let mut depths = Vec::with_capacity(keys.len());
        for (at, key) in keys.iter().enumerate() {
            let before = at.checked_sub(1).map_or(0, |at| shared(&keys[at], key));
            let behind = keys.get(at + 1).map_or(0, |next| shared(key, next));
            // A key that the next one continues has a node for its end.
            let depth = before.max(behind) + 1;
            nodes += depth - before;
            depths.push(depth);
        }
        let count = keys.len() as f64;
        let left = bits_per_key - nodes as f64 * BITS_PER_NODE / count;
        if left < 0.0 {
            return None;
        }
        let suffix_bits = left.floor() as u32;
        let leaf = |(key, &depth): (&Vec<u8>, &usize)| {
            let bits = (depth <= key.len()).then_some(depth * 8 + suffix_bits as usize);
            let kept = bits.map_or(key.len(), |bits| bits.div_ceil(8));
            let mut key = key.clone();
            key.resize(kept, 0);
            if let (Some(bits), Some(last)) = (bits, key.last_mut()) {
                *last &= mask(bits);
            }
            Leaf { key, bits }
        };
        Some(Surf {
            leaves: keys.iter().zip(&depths).map(leaf).collect(),
            nodes,
            suffix_bits,
        })
    }
}

impl Leaf {
    /// How the first bits of a key stand to this leaf.
    fn order_of(&self, key: &[u8]) -> std::cmp::Ordering {
        let Some(bits) = self.bits else {
            return key.cmp(&self.key);
        };
        let byte = |at: usize| {
            let byte = key.get(at).copied().unwrap_or(0);
            if at + 1 == self.key.len() {
                byte & mask(bits)
            } else {
                byte
            }
        };
        (0..self.key.len()).map(byte).cmp(self.key.iter().copied())
    }
}

impl RangeSet for Surf {
    fn may_hold(&self, (lower, upper): &KeyRange) -> bool {
        let from = self
            .leaves
            .partition_point(|leaf| leaf.order_of(lower).is_gt());
        self.leaves
            .get(from)
            .is_some_and(|leaf| leaf.order_of(upper).is_ge())
    }

    fn bits(&self) -> f64 {
        let suffixes = self.leaves.len() as f64 * f64::from(self.suffix_bits);
        self.nodes as f64 * BITS_PER_NODE + suffixes
    }
}
