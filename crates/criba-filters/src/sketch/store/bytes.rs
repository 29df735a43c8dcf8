//! A sketch as bytes. See `docs/format.md`, "Sketch".

use super::super::registers::Ranks;
use super::{INDEX_BITS, KeySketch, RANK_MAX, REGISTERS, Registers, SPARSE_MAX};
use crate::error::{Error, Result};

/// Written to disk.
const VERSION: u8 = 1;
/// Forms, written to disk.
const SPARSE: u8 = 0;
const DENSE: u8 = 1;

/// Bits of a register in the dense form.
const RANK_BITS: usize = 6;
/// Four registers are three bytes.
const DENSE_BYTES: usize = REGISTERS * RANK_BITS / 8;

/// Bytes of a register in the sparse form.
const ENTRY_BYTES: usize = 3;

// The dense form is taken where it is not larger.
const _: () = assert!(SPARSE_MAX * ENTRY_BYTES < DENSE_BYTES);
const _: () = assert!((SPARSE_MAX + 1) * ENTRY_BYTES >= DENSE_BYTES);

impl KeySketch {
    /// 2 bytes and 3 more for each register that is not zero, at most 3074.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self.registers.ranks() {
            Ranks::Sparse(list) => {
                let mut out = vec![VERSION, SPARSE];
                for (register, rank) in list {
                    let entry = u32::from(*rank) << INDEX_BITS | u32::from(*register);
                    out.extend_from_slice(&entry.to_le_bytes()[..ENTRY_BYTES]);
                }
                out
            }
            Ranks::Dense(ranks) => {
                let mut out = Vec::with_capacity(2 + DENSE_BYTES);
                out.extend_from_slice(&[VERSION, DENSE]);
                for ranks in ranks.as_chunks::<4>().0 {
                    let packed = ranks
                        .iter()
                        .rev()
                        .fold(0, |packed, rank| packed << RANK_BITS | u32::from(*rank));
                    out.extend_from_slice(&packed.to_le_bytes()[..ENTRY_BYTES]);
                }
                out
            }
        }
    }

    /// The sketch from its bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`](crate::Error::Unreadable) when this is no sketch that this version can
    /// read: estimates then go without it.
    pub fn from_bytes(bytes: &[u8]) -> Result<KeySketch> {
        let registers = match bytes.split_first_chunk::<2>() {
            Some(([VERSION, SPARSE], entries)) => sparse(entries),
            Some(([VERSION, DENSE], packed)) => dense(packed),
            _ => None,
        };
        let registers = registers.ok_or(Error::field("the sketch of keys is damaged"))?;
        Ok(KeySketch { registers })
    }
}

fn numbers(bytes: &[u8]) -> Option<impl Iterator<Item = u32>> {
    let (triples, rest) = bytes.as_chunks::<ENTRY_BYTES>();
    let number = |triple: &[u8; ENTRY_BYTES]| {
        let [low, middle, high] = *triple;
        u32::from_le_bytes([low, middle, high, 0])
    };
    rest.is_empty().then(|| triples.iter().map(number))
}

fn sparse(bytes: &[u8]) -> Option<Registers> {
    let mut list: Vec<(u16, u8)> = Vec::with_capacity(SPARSE_MAX.min(bytes.len() / ENTRY_BYTES));
    for entry in numbers(bytes)? {
        let register = (entry % REGISTERS as u32) as u16;
        let rank = u8::try_from(entry >> INDEX_BITS).ok()?;
        let ascends = list.last().is_none_or(|last| last.0 < register);
        if !(1..=RANK_MAX).contains(&rank) || !ascends || list.len() == SPARSE_MAX {
            return None;
        }
        list.push((register, rank));
    }
    Some(Registers::from_list(INDEX_BITS, list))
}

fn dense(bytes: &[u8]) -> Option<Registers> {
    if bytes.len() != DENSE_BYTES {
        return None;
    }
    let mut ranks = vec![0; REGISTERS].into_boxed_slice();
    for (packed, ranks) in numbers(bytes)?.zip(ranks.as_chunks_mut::<4>().0) {
        for (position, rank) in ranks.iter_mut().enumerate() {
            *rank = (packed >> (RANK_BITS * position)) as u8 & ((1 << RANK_BITS) - 1);
            if *rank > RANK_MAX {
                return None;
            }
        }
    }
    // One form for one sketch: few registers are written as a list.
    let registers = Registers::from_dense(INDEX_BITS, ranks);
    (!registers.is_sparse()).then_some(registers)
}
