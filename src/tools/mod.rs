//! What is done to a whole store, seldom: verify it, repair it, make a checkpoint, build filters anew.

mod beside;
mod checkpoint;
mod rebuild;
pub(crate) mod repair;
mod size;
mod verify;

pub use checkpoint::Checkpoint;
pub(crate) use checkpoint::{checkpoint, checkpoint_to};
pub use rebuild::Rebuilt;
pub(crate) use rebuild::rebuild_filters;
pub use repair::Repaired;
pub(crate) use size::disk_bytes;
pub use verify::Verification;
pub(crate) use verify::verify;
