//! The cuckoo filter: fingerprints in buckets of four, each in one of two.
//!
//! Fan, Andersen, Kaminsky, Mitzenmacher, "Cuckoo filter: practically better than Bloom" (2014).
//! The other bucket of a fingerprint follows from its bucket and itself, so one that is in the way
//! can be moved without its key.
//!
//! **Memory** `(log2(1/p) + 3) / load` bits per key; the load reaches about 0.95 before it is full,
//! but the number of buckets is a power of two, so it may be half of that. **Cost** two random
//! accesses to look up; insertion moves ever more fingerprints as it fills. **Can** delete, and
//! hold a key up to eight times. **Can** be merged, as far as there is room. **Cannot** take keys
//! when it is full, or grow.

use super::bits::Cells;
use super::design::check_rate;
use super::frame::{self, Kind, require};
use crate::error::{Error, Result};
use crate::hash::{fingerprint, mix, start_of};
use crate::{Delete, Insert, KeyHash, Membership, Merge};

const KIND: Kind = *b"CUCK";
const VERSION: u8 = 2;

/// Fingerprints of a bucket.
const BUCKET_CELLS: u64 = 4;
/// The load a filter is made for.
const LOAD: f64 = 0.95;
/// Fingerprints moved before an insertion gives up, as in the paper.
const MOVES_MAX: u64 = 500;
const BUCKET_BITS_MAX: u32 = 40;
const FINGERPRINT_BITS_MAX: u32 = 56;

/// Bits of a fingerprint for this rate: `ceil(log2(2 b / p))`, where a lookup compares with up to
/// 2 b = 8 fingerprints.
#[must_use]
pub fn fingerprint_bits_for(rate: f64) -> u32 {
    (8.0 / rate).log2().ceil().max(2.0) as u32
}

/// A set of fingerprints.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/cuckoo.md`.
///
/// ```
/// use criba_filters::{Cuckoo, Delete, Insert, Membership};
///
/// let mut open = Cuckoo::new(100_000, 0.001)?;
/// open.insert("session/17")?;
/// assert!(open.remove("session/17")); // only what was put in
/// assert!(open.is_empty());
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cuckoo {
    keys: u64,
    bucket_bits: u32,
    /// Fingerprints, bucket by bucket; 0 is an empty cell.
    cells: Cells,
}

/// As many buckets as keys need at the load limit, a power of two.
fn bucket_bits_for(keys: u64) -> u32 {
    let buckets = keys.max(1) as f64 / LOAD / BUCKET_CELLS as f64;
    buckets.log2().ceil().max(0.0) as u32
}

impl Cuckoo {
    /// An empty filter for so many keys (0 is taken as 1) at this rate.
    ///
    /// # Errors
    ///
    /// If the rate is not from 2^-53 to below 1, or more than 2^36 bits would be needed.
    pub fn new(keys: u64, rate: f64) -> Result<Self> {
        check_rate(rate)?;
        Self::with_shape(bucket_bits_for(keys), fingerprint_bits_for(rate))
    }

    /// The same for so many bits in all, if fingerprints of 2 bits have room in them.
    pub(super) fn within(keys: u64, bits: u64) -> Result<Self> {
        let bucket_bits = bucket_bits_for(keys);
        let cells = BUCKET_CELLS.checked_shl(bucket_bits).unwrap_or(u64::MAX);
        // At most 56.
        let print_bits = (bits / cells).clamp(2, u64::from(FINGERPRINT_BITS_MAX)) as u32;
        Self::with_shape(bucket_bits, print_bits)
    }

    /// An empty filter of `2^bucket_bits` buckets of four fingerprints of so many bits, 2 to 56.
    ///
    /// # Errors
    ///
    /// If there are more than 2^40 buckets or 2^36 bits, or fingerprints have other sizes.
    pub fn with_shape(bucket_bits: u32, fingerprint_bits: u32) -> Result<Self> {
        if bucket_bits > BUCKET_BITS_MAX {
            return Error::invalid(format!(
                "2^{bucket_bits} buckets are too many: choose fewer keys"
            ));
        }
        if !(2..=FINGERPRINT_BITS_MAX).contains(&fingerprint_bits) {
            return Error::invalid(format!(
                "fingerprints of {fingerprint_bits} bits cannot be had: choose a rate that takes 2 \
                 to {FINGERPRINT_BITS_MAX}"
            ));
        }
        Ok(Self {
            keys: 0,
            bucket_bits,
            cells: Cells::new(BUCKET_CELLS << bucket_bits, fingerprint_bits)?,
        })
    }

    /// Share of cells in use.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.keys as f64 / self.cells.count() as f64
    }

    /// Cells, each for one key.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.cells.count()
    }

    /// The first bucket of a key, and its fingerprint, which is not 0.
    #[inline]
    fn home(&self, hash: KeyHash) -> (u64, u64) {
        let mixed = mix(hash, 0);
        let values = (1 << self.cells.width()) - 1;
        let print = 1 + start_of(fingerprint(mixed), values);
        (start_of(mixed, 1 << self.bucket_bits), print)
    }

    /// The other bucket; from there, this one.
    #[inline]
    fn other(&self, bucket: u64, print: u64) -> u64 {
        bucket ^ (mix(KeyHash(print), 0) & ((1 << self.bucket_bits) - 1))
    }

    /// The cell of a bucket with this content.
    #[inline]
    fn find(&self, bucket: u64, content: u64) -> Option<u64> {
        let first = bucket * BUCKET_CELLS;
        (first..first + BUCKET_CELLS).find(|at| self.cells.get(*at) == content)
    }

    #[inline]
    fn find_either(&self, hash: KeyHash) -> Option<u64> {
        let (bucket, print) = self.home(hash);
        self.find(bucket, print)
            .or_else(|| self.find(self.other(bucket, print), print))
    }

    /// Puts a fingerprint into one of its buckets; changes nothing if that fails.
    fn place(&mut self, bucket: u64, print: u64) -> bool {
        let other = self.other(bucket, print);
        let placed = match self.find(bucket, 0).or_else(|| self.find(other, 0)) {
            Some(cell) => {
                self.cells.set(cell, print);
                true
            }
            None => self.push(other, print),
        };
        self.keys += u64::from(placed);
        placed
    }

    /// Makes room by moving fingerprints to their other buckets; takes all moves back if that
    /// fails.
    fn push(&mut self, mut bucket: u64, mut print: u64) -> bool {
        let mut moved = Vec::new();
        for step in 0..MOVES_MAX {
            // Which of the four has to move: as good as random, but the same again.
            let choice = mix(KeyHash(print), step) % BUCKET_CELLS;
            let cell = bucket * BUCKET_CELLS + choice;
            let evicted = self.cells.get(cell);
            self.cells.set(cell, print);
            moved.push((cell, evicted));
            (bucket, print) = (self.other(bucket, evicted), evicted);
            if let Some(empty) = self.find(bucket, 0) {
                self.cells.set(empty, print);
                return true;
            }
        }
        for (cell, before) in moved.into_iter().rev() {
            self.cells.set(cell, before);
        }
        false
    }
}

impl Membership for Cuckoo {
    #[inline]
    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.find_either(hash).is_some()
    }

    /// Insertions that were not taken back: a key put in twice counts twice.
    fn len(&self) -> u64 {
        self.keys
    }

    fn bits(&self) -> u64 {
        self.cells.bits()
    }

    /// `1 - (1 - 1/(2^f - 1))^(8 load)`.
    fn expected_rate(&self) -> f64 {
        let values = f64::from(self.cells.width()).exp2() - 1.0;
        let compared = 2.0 * BUCKET_CELLS as f64 * self.load();
        -(compared * (-1.0 / values).ln_1p()).exp_m1()
    }

    /// The same: the load is known.
    fn current_rate(&self) -> f64 {
        self.expected_rate()
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.extend(self.bucket_bits.to_le_bytes());
        self.cells.put(&mut payload);
        frame::encode(KIND, VERSION, &payload)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        let bucket_bits = fields.u32("the number of buckets is cut short")?;
        let cells = Cells::read(&mut fields)?;
        fields.end()?;
        let bounded = bucket_bits <= BUCKET_BITS_MAX
            && (2..=FINGERPRINT_BITS_MAX).contains(&cells.width())
            && cells.count() == BUCKET_CELLS << bucket_bits;
        require(bounded, "buckets are out of bounds")?;
        let keys = (0..cells.count()).filter(|at| cells.get(*at) != 0).count() as u64;
        Ok(Self {
            keys,
            bucket_bits,
            cells,
        })
    }
}

impl Insert for Cuckoo {
    fn insert_hash(&mut self, hash: KeyHash) -> Result<()> {
        let (bucket, print) = self.home(hash);
        if self.place(bucket, print) {
            return Ok(());
        }
        Err(Error::Full { keys: self.keys })
    }
}

impl Delete for Cuckoo {
    fn remove_hash(&mut self, hash: KeyHash) -> bool {
        let found = self.find_either(hash);
        if let Some(cell) = found {
            self.cells.set(cell, 0);
            self.keys -= 1;
        }
        found.is_some()
    }
}

impl Merge for Cuckoo {
    /// Puts the fingerprints of the other one in, if buckets are as many and fingerprints as long.
    fn merge(&mut self, other: &Self) -> Result<()> {
        let shape = |filter: &Self| (filter.bucket_bits, filter.cells.width());
        if shape(self) != shape(other) {
            return Error::invalid(format!(
                "{} cells of {} bits cannot be merged with {} of {}: build both for one number of keys \
                 and one rate",
                self.cells.count(),
                self.cells.width(),
                other.cells.count(),
                other.cells.width()
            ));
        }
        // A copy, so that nothing is changed where there is no room.
        let mut merged = self.clone();
        for at in 0..other.cells.count() {
            let print = other.cells.get(at);
            if print != 0 && !merged.place(at / BUCKET_CELLS, print) {
                return Err(Error::Full { keys: self.keys });
            }
        }
        *self = merged;
        Ok(())
    }
}
