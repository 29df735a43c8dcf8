//! Filters of the family as the filter of a segment: those that are held in memory as they are.
//!
//! They are there to be compared with the two that a segment should have. Their bytes, as
//! [`to_bytes`](Membership::to_bytes) gives them, are the header of the filter, and there is no body: so
//! they are in memory, whatever else is read by pages. A key of theirs is the mixed hash of a key of the
//! segment, 8 bytes; `docs/format.md` has the table.

use std::f64::consts::LN_2;
use std::fmt;

use super::{
    Agreeing, Compressed, Cuckoo, Ensemble, Error, Hierarchical, Hybrid, Insert, Membership,
    Quotient, Unreadable,
};
use crate::KeyHash;
use crate::hash::mix;
use crate::segment::header::{Fields, require};
use crate::segment::lookup::Answer;
use crate::segment::spec::clamp_bits;
use crate::segment::{Build, Built, Damaged, FilterKind, Scattered};

/// First byte of the header. Written to disk; must not be changed.
const VERSION: u8 = 1;
/// Bytes of the header before those of the filter.
const OWN_BYTES: usize = 24;

type Held = Box<dyn Insert + Send + Sync>;

/// A filter for so many keys that takes about so many bits for each: those that have a power of two of
/// cells take at most that, unless it is less than their least.
fn empty(shape: Scattered, seed: u64, keys: u64, bits_per_key: f64) -> Result<Held, Error> {
    let keys = keys.max(1);
    // Of one Bloom filter of that memory; two of half of it have the root.
    let rate = (-bits_per_key * LN_2 * LN_2).exp();
    let bits = |part: f64| (keys as f64 * bits_per_key * part).ceil() as u64;
    Ok(match shape {
        Scattered::Ensemble => Box::new(Ensemble::new(seed, keys, rate.sqrt(), rate)?),
        Scattered::Hierarchical => Box::new(Hierarchical::new(seed, keys, rate.sqrt(), rate)?),
        Scattered::Compressed => Box::new(Compressed::with_bits(seed, keys, bits(1.0))?),
        Scattered::Hybrid => {
            let member = |n| Compressed::with_bits(seed.wrapping_add(n), keys, bits(0.5));
            let filters = vec![member(0)?, member(1)?];
            Box::new(Agreeing { filters })
        }
        Scattered::Cuckoo => Box::new(Cuckoo::within(seed, keys, bits(1.0))?),
        Scattered::Quotient => Box::new(Quotient::within(seed, keys, bits(1.0))?),
        _ => return Error::invalid(format!("{shape:?} is not held as it is")),
    })
}

/// `None` where `shape` is none that is held.
fn from_bytes(shape: Scattered, bytes: &[u8]) -> Result<Option<Held>, Unreadable> {
    Ok(Some(match shape {
        Scattered::Ensemble => Box::new(Ensemble::from_bytes(bytes)?),
        Scattered::Hierarchical => Box::new(Hierarchical::from_bytes(bytes)?),
        Scattered::Compressed => Box::new(Compressed::from_bytes(bytes)?),
        Scattered::Hybrid => Box::new(Hybrid::from_bytes(bytes)?),
        Scattered::Cuckoo => Box::new(Cuckoo::from_bytes(bytes)?),
        Scattered::Quotient => Box::new(Quotient::from_bytes(bytes)?),
        _ => return Ok(None),
    }))
}

/// Bits that each key takes, in a filter of so many keys that is to take `bits_per_key`.
pub(super) fn value_bits(shape: Scattered, keys: u64, bits_per_key: f64) -> f64 {
    let bits = clamp_bits(bits_per_key);
    empty(shape, 0, keys, bits).map_or(bits, |filter| bits_of_each(&filter, keys))
}

fn bits_of_each(filter: &Held, keys: u64) -> f64 {
    filter.bits() as f64 / keys.max(1) as f64
}

/// Builds filter bytes; see [`crate::segment::build`]. `None` where the filter cannot be made or does not
/// take all keys, of which a filter of fingerprints gives no guarantee.
pub(super) fn build(input: &Build<'_>, shape: Scattered, bits_per_key: f64) -> Option<Built> {
    let keys = input.hashes.len() as u64;
    let mut filter = empty(shape, input.salt, keys, clamp_bits(bits_per_key)).ok()?;
    let mut all: Vec<u64> = input
        .hashes
        .iter()
        .map(|&hash| mix(hash, input.salt))
        .collect();
    all.sort_unstable();
    all.dedup();
    for mixed in all {
        filter.insert(&mixed.to_le_bytes()).ok()?;
    }
    let held = HeldFilter {
        shape,
        salt: input.salt,
        key_count: keys,
        filter,
    };
    Some(Built {
        kind: shape.kind(),
        header: held.encode(),
        body: Vec::new(),
        designed_rate: held.designed_rate(),
        // They tell no place that could be another key's.
        equal_hashes: false,
    })
}

/// All of the filter.
pub(crate) struct HeldFilter {
    shape: Scattered,
    salt: u64,
    key_count: u64,
    filter: Held,
}

impl fmt::Debug for HeldFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldFilter")
            .field("shape", &self.shape)
            .field("key_count", &self.key_count)
            .finish_non_exhaustive()
    }
}

impl HeldFilter {
    fn encode(&self) -> Vec<u8> {
        let bytes = self.filter.to_bytes();
        let mut header = Vec::with_capacity(OWN_BYTES + bytes.len());
        header.push(VERSION);
        header.extend([0; 7]);
        header.extend(self.salt.to_le_bytes());
        header.extend(self.key_count.to_le_bytes());
        header.extend(bytes);
        header
    }

    pub(crate) fn parse(shape: Scattered, header: &[u8], body_words: u64) -> Result<Self, Damaged> {
        let mut fields = Fields::new(header);
        let version = fields.u8("held header: version cut short")?;
        require(version == VERSION, "held header: unknown version")?;
        let reserved = fields.bytes(7, "held header: reserved bytes cut short")?;
        require(reserved == [0; 7], "held header: reserved bytes not zero")?;
        let salt = fields.u64("held header: salt cut short")?;
        let key_count = fields.u64("held header: key count cut short")?;
        require(body_words == 0, "held header: there is a body")?;
        let bytes = header.get(OWN_BYTES..).unwrap_or_default();
        let Ok(Some(filter)) = from_bytes(shape, bytes) else {
            return Err(Damaged("held header: the filter's bytes are damaged"));
        };
        Ok(Self {
            shape,
            salt,
            key_count,
            filter,
        })
    }

    #[inline]
    pub(crate) fn ask(&self, hash: KeyHash) -> Answer {
        let key = mix(hash, self.salt).to_le_bytes();
        if self.filter.may_contain(&key) {
            Answer::Maybe
        } else {
            Answer::No
        }
    }

    pub(crate) fn designed_rate(&self) -> f64 {
        if self.key_count == 0 {
            return 0.0;
        }
        self.filter.expected_rate()
    }

    pub(crate) fn bits_mean(&self) -> f64 {
        bits_of_each(&self.filter, self.key_count)
    }

    pub(crate) fn key_count(&self) -> u64 {
        self.key_count
    }

    pub(crate) fn kind(&self) -> FilterKind {
        self.shape.kind()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        (self.filter.bits() / 8) as usize
    }
}
