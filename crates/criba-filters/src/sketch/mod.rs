//! Counts of a stream in little memory: how often a key came, how many distinct ones there were,
//! which came most often, how unevenly they are spread. The front page of the crate has the table
//! of all.

mod adaptive;
mod count_min;
mod count_sketch;
mod counting;
mod distinct;
mod ertl;
mod hyperloglog;
mod layered;
mod loglog;
mod misra_gries;
mod rank_bytes;
mod registers;
mod rows;
mod signed;
mod sizing;
mod space_saving;
mod spectral;
pub mod store;
mod tug_of_war;

pub use adaptive::{Adaptive, AdaptiveCounting};
pub use count_min::{CountMin, Update};
pub use count_sketch::CountSketch;
pub use counting::CountingBloom;
pub use distinct::{Distinct, Estimator};
pub use hyperloglog::{Harmonic, HyperLogLog};
pub use layered::LayeredBloom;
pub use loglog::{Geometric, LogLog};
pub use misra_gries::MisraGries;
pub use space_saving::{Counter, SpaceSaving};
pub use spectral::SpectralBloom;
pub use tug_of_war::TugOfWar;
