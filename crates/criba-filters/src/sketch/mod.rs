//! Counts of a stream in little memory: how often a key came, how many distinct ones there were,
//! which came most often, how unevenly they are spread.
//!
//! | structure | what it tells | error | merge | delete |
//! |---|---|---|---|---|
//! | [`CountingBloom`] | whether a key is there | false positives | yes | yes |
//! | [`SpectralBloom`] | how often a key came | never less; more for a share `p` of the keys | yes | no |
//! | [`LayeredBloom`] | how often a key came, up to the number of layers | never less than that | no | no |
//! | [`CountMin`] | how often a key came | never less; more by at most `epsilon N` | yes | no |
//! | [`CountSketch`] | how often a key came | at most `epsilon sqrt(F2)`, either way | yes | yes |
//! | [`TugOfWar`] | the second moment `F2`: the sum of the squares of all counts | `epsilon F2` | yes | yes |
//! | [`SpaceSaving`] | the keys that came most often, and how often | never less; more by at most `N / k` | yes | no |
//! | [`LogLog`] | how many distinct keys there were | 1.30 / sqrt(registers) | yes | no |
//! | [`HyperLogLog`] | how many distinct keys there were | 1.04 / sqrt(registers) | yes | no |
//!
//! `N` is the length of the stream. All but [`SpaceSaving`], which has to name keys, take the hash of
//! a key, made once by [`hash_key`](crate::hash_key): two sketches can only be merged, or a
//! key looked up in one, if the hashes were made with one seed. With a secret seed nobody who only
//! chooses keys can choose their hashes; two keys with one 64-bit hash are counted as one.
//!
//! `docs/sketches.md` of the repository tells which is good for what; each has a page in
//! `docs/filters/`.
//!
//! `to_bytes` writes a frame with kind, version and checksum; `from_bytes` refuses what was changed,
//! cut or written by something else with an [`Error::Unreadable`](crate::Error::Unreadable).
//!
//! ```
//! use criba_filters::hash_key;
//! use criba_filters::sketch::CountMin;
//!
//! # fn main() -> criba_filters::Result<()> {
//! let mut counts = CountMin::with_error(0.001, 0.01)?;
//! for word in "the quick brown fox jumps over the lazy dog".split(' ') {
//!     counts.insert(hash_key(7, word.as_bytes()));
//! }
//! assert_eq!(counts.estimate(hash_key(7, b"the")), 2);
//! # Ok(())
//! # }
//! ```

mod count_min;
mod count_sketch;
mod counting;
mod distinct;
mod ertl;
mod hyperloglog;
mod layered;
mod loglog;
mod rank_bytes;
mod registers;
mod rows;
mod signed;
mod sizing;
mod space_saving;
mod spectral;
pub mod store;
mod tug_of_war;

pub use count_min::{CountMin, Update};
pub use count_sketch::CountSketch;
pub use counting::CountingBloom;
pub use distinct::{Distinct, Estimator};
pub use hyperloglog::{Harmonic, HyperLogLog};
pub use layered::LayeredBloom;
pub use loglog::{Geometric, LogLog};
pub use space_saving::{Counter, SpaceSaving};
pub use spectral::SpectralBloom;
pub use tug_of_war::TugOfWar;
