//! Filters: approximate sets and static maps of key hashes. The front page of the crate has the
//! table of all.
//!
//! Invariants, tested for each:
//! 1. A key that was put in, and not deleted, is never denied.
//! 2. `to_bytes` and `from_bytes` are inverse; bytes that were damaged are refused, and no bytes
//!    lead to a panic or to more memory than a small multiple of their length.
//! 3. Equal calls give equal bytes.

mod agreeing;
mod bits;
mod blocked;
mod classic;
mod compressed;
mod cuckoo;
mod design;
mod ensemble;
pub(crate) mod frame;
mod fuse;
mod hashing;
mod hierarchical;
mod hybrid;
mod map;
mod partitioned;
mod parts;
mod peel;
mod peeled;
mod quotient;
mod scalable;
mod shapes;
#[cfg(test)]
mod tests;
mod three_cells;
mod values;

pub use agreeing::{Agreeing, Member};
pub use blocked::Blocked;
pub use classic::Classic;
pub use compressed::{Codec, Compressed, entropy};
pub use cuckoo::{Cuckoo, fingerprint_bits_for};
pub use design::{Design, bits_for, estimate_for, probes_for, rate_for};
pub use ensemble::{Ensemble, filters_for};
pub use fuse::{Fuse, Neighbours, fuse_cells_for};
pub use hashing::Hashing;
pub use hierarchical::Hierarchical;
pub use hybrid::Hybrid;
pub use map::Map;
pub use partitioned::{Partitioned, partitioned_rate};
pub use peeled::{Anywhere, Peeled, peeled_cells_for};
pub use quotient::{Quotient, quotient_rate};
pub use scalable::{Growth, Scalable, compound_bound};
pub use shapes::{Shape, ShapeFilter};
pub use three_cells::{Choice, ThreeCells};
