//! The filters of the literature as filters of segments, to see what they save in a store.
//!
//! A store brings its own two, which are better there: they are read by single pages, and one of
//! them says where a key is. These are in memory as a whole.

use std::f64::consts::LN_2;

use super::{
    Agreeing, Classic, Compressed, Cuckoo, Design, Ensemble, Fuse, Hierarchical, Hybrid,
    Partitioned, Peeled, Quotient, fuse_cells_for, peeled_cells_for,
};
use crate::segment::{CustomFilter, OpenFilter};
use crate::{Insert, KeyHash, Membership, Result};

/// A structure that a segment can carry.
///
/// ```
/// use criba_filters::segment::CustomFilter;
/// use criba_filters::{KeyHash, Shape};
///
/// let filter = Shape::Cuckoo.filter(12.0);
/// let bytes = filter.build(&[KeyHash::from("apple"), KeyHash::from("melon")])?;
/// assert!(filter.open("12 bits", &bytes)?.may_contain(KeyHash::from("apple")));
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Shape {
    /// A Bloom filter without blocks: [`Classic`].
    Classic,
    /// A Bloom filter with a part for each probe: [`Partitioned`].
    Partitioned,
    /// Three random cells for each key, solved by peeling: [`Peeled`].
    Peeled,
    /// Three neighbouring cells for each key: [`Fuse`].
    Fuse,
    /// Two Bloom filters that must agree: [`Ensemble`].
    Ensemble,
    /// A Bloom filter in front of another: [`Hierarchical`].
    Hierarchical,
    /// A Bloom filter with so few bits set that its bytes can be compressed: [`Compressed`].
    Compressed,
    /// Two compressed filters that must agree: [`Hybrid`].
    Hybrid,
    /// Fingerprints in buckets of four: [`Cuckoo`].
    Cuckoo,
    /// A sorted list of fingerprints: [`Quotient`].
    Quotient,
}

impl Shape {
    /// All of them.
    pub const ALL: [Shape; 10] = [
        Self::Classic,
        Self::Partitioned,
        Self::Peeled,
        Self::Fuse,
        Self::Ensemble,
        Self::Hierarchical,
        Self::Compressed,
        Self::Hybrid,
        Self::Cuckoo,
        Self::Quotient,
    ];

    /// Its name, in lower case; also that of its filters in segments.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Partitioned => "partitioned",
            Self::Peeled => "peeled",
            Self::Fuse => "fuse",
            Self::Ensemble => "ensemble",
            Self::Hierarchical => "hierarchical",
            Self::Compressed => "compressed",
            Self::Hybrid => "hybrid",
            Self::Cuckoo => "cuckoo",
            Self::Quotient => "quotient",
        }
    }

    /// The filter of a segment with this structure and about this many bits for each key, 1 to 64.
    /// Structures with a power of two of cells take at most that, unless it is less than their
    /// least.
    #[must_use]
    pub fn filter(self, bits_per_key: f64) -> ShapeFilter {
        ShapeFilter {
            shape: self,
            bits_per_key: bits_per_key.clamp(1.0, 64.0),
        }
    }
}

/// A [`Shape`] as [`CustomFilter`]; see [`Shape::filter`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ShapeFilter {
    shape: Shape,
    bits_per_key: f64,
}

impl ShapeFilter {
    /// Its structure.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Bits for each key.
    #[must_use]
    pub fn bits_per_key(&self) -> f64 {
        self.bits_per_key
    }

    /// An empty one, of those that take keys one by one.
    fn empty(&self, keys: u64) -> Result<Box<dyn Insert>> {
        let bits = |part: f64| (keys as f64 * self.bits_per_key * part).ceil() as u64;
        // One Bloom filter of that memory has this rate; two of half of it have its root.
        let rate = (-self.bits_per_key * LN_2 * LN_2).exp();
        Ok(match self.shape {
            Shape::Partitioned => Box::new(Partitioned::new(keys, rate)?),
            Shape::Ensemble => Box::new(Ensemble::new(keys, rate.sqrt(), rate)?),
            Shape::Hierarchical => Box::new(Hierarchical::new(keys, rate.sqrt(), rate)?),
            Shape::Compressed => Box::new(Compressed::with_bits(keys, bits(1.0))?),
            Shape::Hybrid => {
                let member = |number| Compressed::salted(number, keys, bits(0.5));
                let filters = vec![member(0)?, member(1)?];
                Box::new(Agreeing { filters })
            }
            Shape::Cuckoo => Box::new(Cuckoo::within(keys, bits(1.0))?),
            Shape::Quotient => Box::new(Quotient::within(keys, bits(1.0))?),
            Shape::Classic | Shape::Peeled | Shape::Fuse => {
                Box::new(Classic::new(Design::for_bits(keys, bits(1.0))?)?)
            }
        })
    }

    /// Bits of a cell, of those that are built at once.
    fn cell_bits(&self, keys: u64, cells: u64) -> u32 {
        let bits = self.bits_per_key * keys as f64 / cells.max(1) as f64;
        bits.floor().clamp(1.0, 64.0) as u32
    }
}

impl CustomFilter for ShapeFilter {
    fn name(&self) -> &str {
        self.shape.name()
    }

    fn parameters(&self) -> String {
        format!("{} bits", self.bits_per_key)
    }

    fn build(&self, hashes: &[KeyHash]) -> Result<Vec<u8>> {
        let mut all = hashes.to_vec();
        all.sort_unstable();
        all.dedup();
        let count = all.len().max(1) as u64;
        match self.shape {
            Shape::Peeled => {
                let bits = self.cell_bits(count, peeled_cells_for(count));
                Ok(Peeled::set(&all, bits)?.to_bytes())
            }
            Shape::Fuse => {
                let bits = self.cell_bits(count, fuse_cells_for(count));
                Ok(Fuse::set(&all, bits)?.to_bytes())
            }
            _ => {
                let mut filter = self.empty(count)?;
                all.iter().try_for_each(|hash| filter.insert_hash(*hash))?;
                Ok(filter.to_bytes())
            }
        }
    }

    fn open(&self, _: &str, bytes: &[u8]) -> Result<Box<dyn OpenFilter>> {
        fn open<M: Membership + Send + Sync + 'static>(
            bytes: &[u8],
        ) -> Result<Box<dyn OpenFilter>> {
            Ok(Box::new(Opened(M::from_bytes(bytes)?)))
        }
        match self.shape {
            Shape::Classic => open::<Classic>(bytes),
            Shape::Partitioned => open::<Partitioned>(bytes),
            Shape::Peeled => open::<Peeled>(bytes),
            Shape::Fuse => open::<Fuse>(bytes),
            Shape::Ensemble => open::<Ensemble>(bytes),
            Shape::Hierarchical => open::<Hierarchical>(bytes),
            Shape::Compressed => open::<Compressed>(bytes),
            Shape::Hybrid => open::<Hybrid>(bytes),
            Shape::Cuckoo => open::<Cuckoo>(bytes),
            Shape::Quotient => open::<Quotient>(bytes),
        }
    }
}

struct Opened<M>(M);

impl<M: Membership + Send + Sync> OpenFilter for Opened<M> {
    fn may_contain(&self, hash: KeyHash) -> bool {
        self.0.may_contain_hash(hash)
    }

    fn memory_bytes(&self) -> usize {
        (self.0.bits() / 8) as usize
    }

    fn expected_rate(&self) -> Option<f64> {
        Some(self.0.expected_rate())
    }
}
