//! The experiments, one file for each group.

pub(super) mod bloom;
pub(super) mod combined;
pub(super) mod counting;
pub(super) mod distinct;
pub(super) mod frequencies;
pub(super) mod hashing;
pub(super) mod limits;
pub(super) mod maps;
pub(super) mod moments;
pub(super) mod ranges;
pub(super) mod top;
pub(super) mod tradeoff;
