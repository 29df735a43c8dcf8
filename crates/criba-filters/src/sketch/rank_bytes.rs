//! Registers of ranks as bytes in a frame: 1 for the bits of the index, 1 for the form, then 3 for
//! each register that is not zero, or 1 for each of all.

use crate::error::{Error, Result};
use crate::family::frame;

use super::registers::{INDEX_BITS_MAX, INDEX_BITS_MIN, Ranks, Registers, rank_max, sparse_max};

/// Forms, written to disk.
const SPARSE: u8 = 0;
const DENSE: u8 = 1;

const ENTRY_BYTES: usize = 3;

pub(super) fn encode(registers: &Registers, kind: frame::Kind, version: u8) -> Vec<u8> {
    let mut payload = vec![registers.index_bits()];
    match registers.ranks() {
        Ranks::Sparse(list) => {
            payload.push(SPARSE);
            for (register, rank) in list {
                payload.extend(register.to_le_bytes());
                payload.push(*rank);
            }
        }
        Ranks::Dense(ranks) => {
            payload.push(DENSE);
            payload.extend(ranks);
        }
    }
    frame::encode(kind, version, &payload)
}

pub(super) fn decode(kind: frame::Kind, version: u8, bytes: &[u8]) -> Result<Registers> {
    let mut fields = frame::decode(kind, version, bytes)?;
    let index_bits = fields.u8("the bits of the index are cut short")?;
    let in_bounds = (INDEX_BITS_MIN..=INDEX_BITS_MAX).contains(&index_bits);
    frame::require(in_bounds, "the bits of the index are out of bounds")?;
    match fields.u8("the form is cut short")? {
        SPARSE => sparse(&mut fields, index_bits),
        DENSE => dense(&mut fields, index_bits),
        _ => Err(Error::field("the form of the registers is unknown")),
    }
}

fn sparse(fields: &mut frame::Fields<'_>, index_bits: u8) -> Result<Registers> {
    let mut list: Vec<(u16, u8)> = Vec::new();
    while fields.end().is_err() {
        let [low, high, rank] = fields.array::<ENTRY_BYTES>("a register is cut short")?;
        let register = u16::from_le_bytes([low, high]);
        let ascends = list.last().is_none_or(|last| last.0 < register);
        frame::require(ascends, "registers are not in order")?;
        let is_one = u32::from(register) < 1 << index_bits;
        frame::require(is_one, "a register is out of bounds")?;
        check_rank(rank, index_bits)?;
        frame::require(rank > 0, "a register in the list is zero")?;
        frame::require(list.len() < sparse_max(index_bits), "the list is too long")?;
        list.push((register, rank));
    }
    Ok(Registers::from_list(index_bits, list))
}

fn dense(fields: &mut frame::Fields<'_>, index_bits: u8) -> Result<Registers> {
    let ranks = fields.bytes(1 << index_bits, "the registers are cut short")?;
    fields.end()?;
    ranks
        .iter()
        .try_for_each(|rank| check_rank(*rank, index_bits))?;
    let registers = Registers::from_dense(index_bits, ranks.into());
    // One form for equal registers.
    frame::require(!registers.is_sparse(), "few registers are not a list")?;
    Ok(registers)
}

fn check_rank(rank: u8, index_bits: u8) -> Result<()> {
    frame::require(rank <= rank_max(index_bits), "a rank is out of bounds")
}
