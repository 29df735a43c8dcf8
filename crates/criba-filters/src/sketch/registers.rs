//! Registers of ranks: what LogLog, HyperLogLog and the sketches of the store have in common.
//!
//! The high bits of a hash choose a register; the rank is the position of the first one bit of the
//! rest, and a register keeps the greatest that fell to it. So a register that says `r` has seen
//! about `2^r` distinct hashes, repetition changes nothing, and the registers of a union are the
//! greater of both, one by one.
//!
//! Invariants:
//! 1. Equal sets of hashes give equal registers, in whatever order and with whatever repetition
//!    they were added.
//! 2. They are a list of those that are not zero until that would take more bytes than all of them.

use crate::KeyHash;
use crate::error::Result;

use super::sizing::invalid;

/// Fewest and most bits of a hash that choose the register. Written to disk as the bounds of a
/// field; must not be narrowed.
pub(super) const INDEX_BITS_MIN: u8 = 4;
pub(super) const INDEX_BITS_MAX: u8 = 16;

/// How many registers there are of each rank; the greatest rank of all is that of the fewest
/// registers.
pub(super) type Histogram = [u32; rank_max(INDEX_BITS_MIN) as usize + 1];

/// The greatest rank: no bit of the rest of the hash is set.
pub(super) const fn rank_max(index_bits: u8) -> u8 {
    64 - index_bits + 1
}

/// Registers that are not zero, up to which they are kept as a list.
pub(super) const fn sparse_max(index_bits: u8) -> usize {
    (1 << index_bits) / 4 - 1
}

/// The register of a hash and its rank there.
#[inline]
pub(super) fn place(KeyHash(hash): KeyHash, index_bits: u8) -> (u16, u8) {
    let register = (hash >> (64 - index_bits)) as u16;
    // The one bit that is added stands for "none".
    let rest = hash << index_bits | 1 << (index_bits - 1);
    (register, rest.leading_zeros() as u8 + 1)
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Registers {
    index_bits: u8,
    ranks: Ranks,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Ranks {
    /// Number and rank of those that are not zero, in the order of their numbers.
    ///
    /// Invariant: at most [`sparse_max`].
    Sparse(Vec<(u16, u8)>),
    /// Invariant: more than [`sparse_max`] are not zero.
    Dense(Box<[u8]>),
}

impl Registers {
    /// As many registers as these bits can name, all zero. The bits are within their bounds.
    pub(super) fn new(index_bits: u8) -> Registers {
        debug_assert!((INDEX_BITS_MIN..=INDEX_BITS_MAX).contains(&index_bits));
        Registers {
            index_bits,
            ranks: Ranks::Sparse(Vec::new()),
        }
    }

    /// All ranks, brought into the form that invariant 2 asks for. As many as the bits can name.
    pub(super) fn from_dense(index_bits: u8, ranks: Box<[u8]>) -> Registers {
        let used = ranks.iter().filter(|rank| **rank > 0).count();
        let ranks = if used > sparse_max(index_bits) {
            Ranks::Dense(ranks)
        } else {
            let all = (0..=u16::MAX).zip(ranks.iter().copied());
            Ranks::Sparse(all.filter(|one| one.1 > 0).collect())
        };
        Registers { index_bits, ranks }
    }

    /// Those that are not zero, at most [`sparse_max`], in the order of their numbers.
    pub(super) fn from_list(index_bits: u8, list: Vec<(u16, u8)>) -> Registers {
        Registers {
            index_bits,
            ranks: Ranks::Sparse(list),
        }
    }

    pub(super) fn index_bits(&self) -> u8 {
        self.index_bits
    }

    /// How many registers there are.
    pub(super) fn count(&self) -> usize {
        1 << self.index_bits
    }

    pub(super) fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// Adds the hash of a key; again is the same as once.
    #[inline]
    pub(super) fn insert(&mut self, hash: KeyHash) {
        let (register, rank) = place(hash, self.index_bits);
        self.raise(register, rank);
    }

    fn raise(&mut self, register: u16, rank: u8) {
        match &mut self.ranks {
            Ranks::Dense(ranks) => {
                if let Some(old) = ranks.get_mut(usize::from(register)) {
                    *old = rank.max(*old);
                }
            }
            Ranks::Sparse(list) => match list.binary_search_by_key(&register, |one| one.0) {
                Ok(at) => list[at].1 = rank.max(list[at].1),
                Err(at) if list.len() < sparse_max(self.index_bits) => {
                    list.insert(at, (register, rank));
                }
                Err(_) => {
                    self.ranks = Ranks::Dense(self.dense());
                    self.raise(register, rank);
                }
            },
        }
    }

    /// Adds all that the other registers have seen. They are as many.
    pub(super) fn merge(&mut self, other: &Registers) {
        debug_assert_eq!(self.index_bits, other.index_bits);
        match &other.ranks {
            Ranks::Sparse(list) => {
                for (register, rank) in list {
                    self.raise(*register, *rank);
                }
            }
            Ranks::Dense(theirs) => {
                let mut ranks = self.dense();
                for (rank, other) in ranks.iter_mut().zip(theirs.iter()) {
                    *rank = (*rank).max(*other);
                }
                self.ranks = Ranks::Dense(ranks);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(&self.ranks, Ranks::Sparse(list) if list.is_empty())
    }

    /// Whether they are a list of those that are not zero.
    pub(super) fn is_sparse(&self) -> bool {
        matches!(&self.ranks, Ranks::Sparse(_))
    }

    /// All registers.
    pub(super) fn dense(&self) -> Box<[u8]> {
        match &self.ranks {
            Ranks::Dense(ranks) => ranks.clone(),
            Ranks::Sparse(list) => {
                let mut ranks = vec![0; self.count()].into_boxed_slice();
                for (register, rank) in list {
                    if let Some(place) = ranks.get_mut(usize::from(*register)) {
                        *place = *rank;
                    }
                }
                ranks
            }
        }
    }

    /// How many registers have each rank.
    pub(super) fn histogram(&self) -> Histogram {
        let mut counts: Histogram = [0; rank_max(INDEX_BITS_MIN) as usize + 1];
        match &self.ranks {
            Ranks::Dense(ranks) => {
                for rank in ranks {
                    counts[usize::from(*rank)] += 1;
                }
            }
            Ranks::Sparse(list) => {
                counts[0] = (self.count() - list.len()) as u32;
                for (_, rank) in list {
                    counts[usize::from(*rank)] += 1;
                }
            }
        }
        counts
    }

    /// Bytes of memory behind the handle.
    pub(super) fn heap_bytes(&self) -> usize {
        match &self.ranks {
            Ranks::Sparse(list) => list.capacity() * size_of::<(u16, u8)>(),
            Ranks::Dense(ranks) => ranks.len(),
        }
    }
}

/// The fewest bits whose registers have at most this error, where one register has `deviation`.
pub(super) fn index_bits_for(error: f64, deviation: f64) -> Result<u8> {
    let registers = (deviation / error).powi(2);
    let bits = registers.log2().ceil();
    if error > 0.0 && (f64::from(INDEX_BITS_MIN)..=f64::from(INDEX_BITS_MAX)).contains(&bits) {
        return Ok(bits as u8);
    }
    let of = |bits: u8| deviation / f64::from(1_u32 << bits).sqrt();
    Err(invalid(format!(
        "an error of {error} cannot be had: choose one from {:.4} to {:.2}",
        of(INDEX_BITS_MAX),
        of(INDEX_BITS_MIN)
    )))
}

pub(super) fn check_index_bits(index_bits: u8) -> Result<u8> {
    if (INDEX_BITS_MIN..=INDEX_BITS_MAX).contains(&index_bits) {
        return Ok(index_bits);
    }
    Err(invalid(format!(
        "{index_bits} bits cannot choose the register: ask for {INDEX_BITS_MIN} to {INDEX_BITS_MAX}"
    )))
}

pub(super) fn sizes_differ(own: &Registers, other: &Registers) -> Result<()> {
    if own.index_bits() == other.index_bits() {
        return Ok(());
    }
    Err(invalid(format!(
        "{} registers cannot be merged with {}: make both for one error",
        own.count(),
        other.count()
    )))
}
