//! What is done to a whole store, seldom: verify it, repair it, build its filters anew.

mod rebuild;
pub(crate) mod repair;
mod size;
mod verify;

pub use rebuild::Rebuilt;
pub(crate) use rebuild::rebuild_filters;
pub use repair::Repaired;
pub(crate) use size::disk_bytes;
pub use verify::Verification;
pub(crate) use verify::verify;
