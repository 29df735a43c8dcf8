//! The experiments, one file for each group.

pub(super) mod bloom;
pub(super) mod combined;
pub(super) mod counting;
pub(super) mod depth;
pub(super) mod directions;
pub(super) mod distinct;
pub(super) mod drift;
pub(super) mod frequencies;
pub(super) mod growth;
pub(super) mod hashing;
pub(super) mod limits;
pub(super) mod maps;
pub(super) mod merged;
pub(super) mod moments;
pub(super) mod one_filter;
pub(super) mod ranges;
pub(super) mod rebuild;
pub(super) mod top;
pub(super) mod tradeoff;
pub(super) mod union;
