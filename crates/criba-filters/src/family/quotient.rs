//! The quotient filter: a sorted list of fingerprints, folded into a hash table.
//!
//! Bender, Farach-Colton, Johnson, Kraner, Kuszmaul, Medjedovic, Montes, Shetty, Spillane, Zadok,
//! "Don't thrash: how to cache your hash on flash" (2012), section 3. A fingerprint of `q + r` bits
//! is split: the quotient, its high `q` bits, names a slot, the remainder is stored there, or as
//! near after it as there is room. Three bits per slot tell which remainder belongs to which
//! quotient:
//!
//! - *occupied*: some fingerprint has this slot for its quotient;
//! - *continuation*: the remainder here has the quotient of the one before it;
//! - *shifted*: the remainder here is not in its own slot.
//!
//! Remainders of one quotient are a *run*, runs without a gap or a fresh start a *cluster*.
//!
//! **Memory** `(log2(1/p) + 3) / load` bits per key, about; slots are a power of two. **Cost** one
//! place in memory, and the cluster around it, whose mean length grows as `1/(1 - load)^2`. **Can**
//! delete, hold a key several times, and grow without the keys: one bit of the remainder becomes
//! one of the quotient. Fingerprints do not get longer, so the rate grows with the keys. **Can** be
//! merged with another of any size, as two lists of fingerprints. **Cannot** be filled beyond 95 %.

use std::collections::VecDeque;

use super::bits::Cells;
use super::design::check_rate;
use super::frame::{self, Kind, require};
use crate::error::{Error, Result};
use crate::hash::{low_mask, mix};
use crate::{Delete, Insert, KeyHash, Membership, Merge};

const KIND: Kind = *b"QUOT";
const VERSION: u8 = 2;

/// Share of slots that may be used.
const LOAD_MAX: f64 = 0.95;
const QUOTIENT_BITS_MAX: u32 = 40;

const OCCUPIED: u64 = 1;
const CONTINUATION: u64 = 2;
const SHIFTED: u64 = 4;
const FLAGS: u64 = OCCUPIED | CONTINUATION | SHIFTED;
const FLAG_BITS: u32 = 3;

/// The rate of so many keys: `1 - (1 - 2^-(q + r))^n`.
#[must_use]
pub fn quotient_rate(keys: u64, quotient_bits: u32, remainder_bits: u32) -> f64 {
    let bits = f64::from(quotient_bits) + f64::from(remainder_bits);
    -(keys as f64 * (-(-bits).exp2()).ln_1p()).exp_m1()
}

/// A set of fingerprints that can grow.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/quotient.md`.
///
/// ```
/// use criba_filters::{Delete, Insert, Membership, Quotient};
///
/// let mut open = Quotient::new(1_000, 0.001)?;
/// open.insert("session/17")?;
/// let mut larger = open.grow()?; // without the keys
/// assert!(larger.slots() == 2 * open.slots() && larger.remove("session/17"));
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quotient {
    keys: u64,
    quotient_bits: u32,
    /// A remainder above three flags. Invariant: at least one cell is 0 in all flags.
    cells: Cells,
}

/// Fingerprints around a slot, up to the next empty one.
struct Stretch {
    /// Its first slot.
    start: u64,
    /// Quotients, from `start`, and remainders, ascending.
    entries: Vec<(u64, u64)>,
}

/// Slots for the load limit, and one that stays empty: a power of two of them.
fn quotient_bits_for(keys: u64) -> u32 {
    (keys.max(1) as f64 / LOAD_MAX + 1.0).log2().ceil() as u32
}

impl Quotient {
    /// An empty filter for so many keys (0 is taken as 1) at this rate.
    ///
    /// # Errors
    ///
    /// If the rate is not from 2^-64 to below 1, if a fingerprint would need more than 64 bits, or
    /// if more than 2^36 bits would be needed.
    pub fn new(keys: u64, rate: f64) -> Result<Self> {
        check_rate(rate)?;
        let quotient_bits = quotient_bits_for(keys);
        let fingerprint_bits = (keys.max(1) as f64 / rate).log2().ceil() as u32;
        let remainder_bits = fingerprint_bits.saturating_sub(quotient_bits).max(1);
        Self::with_shape(quotient_bits, remainder_bits)
    }

    /// The same for so many bits in all, if remainders of one bit have room in them.
    pub(super) fn within(keys: u64, bits: u64) -> Result<Self> {
        let quotient_bits = quotient_bits_for(keys);
        let slot_bits = bits.checked_shr(quotient_bits).unwrap_or(0);
        let most = u64::from(FLAG_BITS) + 61.min(64 - u64::from(quotient_bits));
        // At most 64.
        let slot_bits = slot_bits.clamp(u64::from(FLAG_BITS) + 1, most) as u32;
        Self::with_shape(quotient_bits, slot_bits - FLAG_BITS)
    }

    /// An empty filter of `2^quotient_bits` slots, with so many bits of a remainder in each.
    ///
    /// # Errors
    ///
    /// If there are not 1 to 40 bits of quotient, at least 1 of remainder, and at most 61 of it and
    /// 64 together, or if more than 2^36 bits would be needed.
    pub fn with_shape(quotient_bits: u32, remainder_bits: u32) -> Result<Self> {
        if !shape_fits(quotient_bits, remainder_bits) {
            return Error::invalid(format!(
                "a fingerprint cannot have {quotient_bits} bits of quotient and {remainder_bits} of \
                 remainder: choose 1 to {QUOTIENT_BITS_MAX} and 1 to 61, together at most 64, by \
                 fewer keys or a higher rate"
            ));
        }
        Ok(Self {
            keys: 0,
            quotient_bits,
            cells: Cells::new(1 << quotient_bits, remainder_bits + FLAG_BITS)?,
        })
    }

    /// Slots, of which 95 % can be used.
    #[inline]
    #[must_use]
    pub fn slots(&self) -> u64 {
        1 << self.quotient_bits
    }

    /// Share of slots in use.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.keys as f64 / self.slots() as f64
    }

    /// Bits of a remainder.
    #[inline]
    #[must_use]
    pub fn remainder_bits(&self) -> u32 {
        self.cells.width() - FLAG_BITS
    }

    /// The same keys in twice the slots. Fingerprints keep their bits, so the rate stays; with new
    /// keys it rises.
    ///
    /// # Errors
    ///
    /// If the remainder has but one bit, or the filter would have more than 2^36 bits.
    pub fn grow(&self) -> Result<Self> {
        let mut grown = Self::with_shape(self.quotient_bits + 1, self.remainder_bits() - 1)?;
        grown.put_all(self);
        Ok(grown)
    }

    /// Bits of a fingerprint: of quotient and remainder.
    #[must_use]
    pub fn fingerprint_bits(&self) -> u32 {
        self.quotient_bits + self.remainder_bits()
    }

    /// Keys that there is room for.
    fn room(&self) -> u64 {
        ((self.slots() as f64 * LOAD_MAX) as u64)
            .min(self.slots() - 1)
            .max(1)
    }

    /// Puts the first bits of all fingerprints of another filter in, for which there is room. They
    /// are at least as long as those of this one.
    fn put_all(&mut self, other: &Self) {
        let dropped = other.fingerprint_bits() - self.fingerprint_bits();
        let remainder_bits = self.remainder_bits();
        for Stretch { start, entries } in other.stretches() {
            for (offset, remainder) in entries {
                let print = other.slot(start + offset) << other.remainder_bits() | remainder;
                let print = print >> dropped;
                self.put(print >> remainder_bits, print & low_mask(remainder_bits));
            }
        }
    }

    /// All fingerprints, in stretches.
    fn stretches(&self) -> impl Iterator<Item = Stretch> {
        let starts = (0..self.slots()).filter(|slot| self.begins_stretch(*slot));
        starts.map(|slot| self.stretch(slot))
    }

    fn begins_stretch(&self, slot: u64) -> bool {
        !self.is_empty_slot(slot) && self.is_empty_slot(self.before(slot))
    }

    #[inline]
    pub(super) fn split(&self, hash: KeyHash) -> (u64, u64) {
        let mixed = mix(hash, 0);
        let remainder = mixed << self.quotient_bits >> (64 - self.remainder_bits());
        (mixed >> (64 - self.quotient_bits), remainder)
    }

    /// The slot with this number, counted around the end.
    #[inline]
    fn slot(&self, number: u64) -> u64 {
        number & (self.slots() - 1)
    }

    #[inline]
    fn before(&self, slot: u64) -> u64 {
        self.slot(slot.wrapping_sub(1))
    }

    #[inline]
    fn after(&self, slot: u64) -> u64 {
        self.slot(slot + 1)
    }

    #[inline]
    fn has(&self, slot: u64, flag: u64) -> bool {
        self.cells.get(slot) & flag != 0
    }

    #[inline]
    fn is_empty_slot(&self, slot: u64) -> bool {
        self.cells.get(slot) & FLAGS == 0
    }

    /// The first slot of the cluster around one. Ends at an empty slot at the latest.
    #[inline]
    fn cluster_start(&self, mut slot: u64) -> u64 {
        while self.has(slot, SHIFTED) {
            slot = self.before(slot);
        }
        slot
    }

    /// The first slot of the run of a quotient that is occupied.
    fn run_start(&self, quotient: u64) -> u64 {
        let mut owner = self.cluster_start(quotient);
        let mut start = owner;
        // One run further for each occupied slot between.
        while owner != quotient {
            start = self.after(start);
            while self.has(start, CONTINUATION) {
                start = self.after(start);
            }
            owner = self.after(owner);
            while owner != quotient && !self.has(owner, OCCUPIED) {
                owner = self.after(owner);
            }
        }
        start
    }

    #[inline]
    fn contains(&self, quotient: u64, remainder: u64) -> bool {
        if !self.has(quotient, OCCUPIED) {
            return false;
        }
        let mut slot = self.run_start(quotient);
        loop {
            if self.cells.get(slot) >> FLAG_BITS == remainder {
                return true;
            }
            slot = self.after(slot);
            if !self.has(slot, CONTINUATION) {
                return false;
            }
        }
    }

    /// The stretch from the cluster around a slot to the next empty slot.
    fn stretch(&self, slot: u64) -> Stretch {
        let start = self.cluster_start(slot);
        let mut entries = Vec::new();
        let mut owners = VecDeque::new();
        let mut owner = 0;
        for offset in 0..self.slots() {
            let cell = self.cells.get(self.slot(start + offset));
            if cell & FLAGS == 0 {
                break;
            }
            if cell & OCCUPIED != 0 {
                owners.push_back(offset);
            }
            if cell & CONTINUATION == 0 {
                // Flags that contradict each other come from foreign bytes only.
                owner = owners.pop_front().unwrap_or(offset);
            }
            entries.push((owner, cell >> FLAG_BITS));
        }
        Stretch { start, entries }
    }

    /// Writes a stretch over one that had `before` fingerprints.
    fn rewrite(&mut self, stretch: &Stretch, before: usize) {
        let at = |filter: &Self, offset: u64| filter.slot(stretch.start + offset);
        for offset in 0..before as u64 {
            self.cells.set(at(self, offset), 0);
        }
        for &(owner, _) in &stretch.entries {
            let slot = at(self, owner);
            self.cells.set(slot, self.cells.get(slot) | OCCUPIED);
        }
        let (mut next, mut last) = (0, None);
        for &(owner, remainder) in &stretch.entries {
            let offset = owner.max(next);
            let continuation = if last == Some(owner) { CONTINUATION } else { 0 };
            let shifted = if offset == owner { 0 } else { SHIFTED };
            let slot = at(self, offset);
            let occupied = self.cells.get(slot) & OCCUPIED;
            let cell = remainder << FLAG_BITS | occupied | continuation | shifted;
            self.cells.set(slot, cell);
            (next, last) = (offset + 1, Some(owner));
        }
    }

    /// Puts a fingerprint in; there is room.
    fn put(&mut self, quotient: u64, remainder: u64) {
        let mut stretch = self.stretch(quotient);
        let before = stretch.entries.len();
        let entry = (self.slot(quotient.wrapping_sub(stretch.start)), remainder);
        let place = stretch.entries.partition_point(|other| *other <= entry);
        stretch.entries.insert(place, entry);
        self.rewrite(&stretch, before);
        self.keys += 1;
    }
}

fn shape_fits(quotient_bits: u32, remainder_bits: u32) -> bool {
    (1..=QUOTIENT_BITS_MAX).contains(&quotient_bits)
        && (1..=64 - FLAG_BITS).contains(&remainder_bits)
        && quotient_bits + remainder_bits <= 64
}

impl Membership for Quotient {
    #[inline]
    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        let (quotient, remainder) = self.split(hash);
        self.contains(quotient, remainder)
    }

    /// Insertions that were not taken back: a key put in twice counts twice.
    fn len(&self) -> u64 {
        self.keys
    }

    fn bits(&self) -> u64 {
        self.cells.bits()
    }

    fn expected_rate(&self) -> f64 {
        quotient_rate(self.keys, self.quotient_bits, self.remainder_bits())
    }

    /// The same: the number of fingerprints is known.
    fn current_rate(&self) -> f64 {
        self.expected_rate()
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.extend(self.quotient_bits.to_le_bytes());
        self.cells.put(&mut payload);
        frame::encode(KIND, VERSION, &payload)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        let quotient_bits = fields.u32("the number of slots is cut short")?;
        let cells = Cells::read(&mut fields)?;
        fields.end()?;
        let remainder_bits = cells.width().saturating_sub(FLAG_BITS);
        let fits = shape_fits(quotient_bits, remainder_bits) && cells.count() == 1 << quotient_bits;
        require(fits, "slots are out of bounds")?;
        let used = (0..cells.count()).filter(|at| cells.get(*at) & FLAGS != 0);
        let keys = used.count() as u64;
        require(keys < cells.count(), "no slot is empty")?;
        let filter = Self {
            keys,
            quotient_bits,
            cells,
        };
        let mut again = Self::with_shape(quotient_bits, remainder_bits)
            .or(Err(Error::field("slots are out of bounds")))?;
        for stretch in filter.stretches() {
            require(stretch.entries.is_sorted(), "remainders are out of order")?;
            again.rewrite(&stretch, 0);
        }
        again.keys = keys;
        require(again == filter, "flags of slots contradict each other")?;
        Ok(filter)
    }
}

impl Insert for Quotient {
    fn insert_hash(&mut self, hash: KeyHash) -> Result<()> {
        if self.keys >= self.room() {
            return Err(Error::Full { keys: self.keys });
        }
        let (quotient, remainder) = self.split(hash);
        self.put(quotient, remainder);
        Ok(())
    }
}

impl Delete for Quotient {
    fn remove_hash(&mut self, hash: KeyHash) -> bool {
        let (quotient, remainder) = self.split(hash);
        if !self.contains(quotient, remainder) {
            return false;
        }
        let mut stretch = self.stretch(quotient);
        let before = stretch.entries.len();
        let owner = self.slot(quotient.wrapping_sub(stretch.start));
        let found = stretch.entries.binary_search(&(owner, remainder));
        if let Ok(place) = found {
            stretch.entries.remove(place);
            self.rewrite(&stretch, before);
            self.keys -= 1;
        }
        found.is_ok()
    }
}

impl Merge for Quotient {
    /// Exactly the filter of both streams in one, of as many slots as all keys need and no fewer
    /// than this one has. Sizes may differ; the longer fingerprints lose their last bits, so the
    /// rate is that of the shorter ones.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] when so many keys need more slots than fingerprints of that length can have.
    fn merge(&mut self, other: &Self) -> Result<()> {
        let full = Error::Full { keys: self.keys };
        let keys = self.keys.saturating_add(other.keys);
        let print_bits = self.fingerprint_bits().min(other.fingerprint_bits());
        // One bit at least is left for the remainder.
        let wanted = self.quotient_bits.max(quotient_bits_for(keys));
        let quotient_bits = wanted.min(print_bits - 1);
        let merged = Self::with_shape(quotient_bits, print_bits - quotient_bits);
        let mut merged = merged.or(Err(full.clone()))?;
        if keys > merged.room() {
            return Err(full);
        }
        merged.put_all(self);
        merged.put_all(other);
        *self = merged;
        Ok(())
    }
}
