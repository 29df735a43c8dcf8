//! What the programs under `examples/` share, each thing once.

pub mod codec;
pub mod device;
pub mod escape;
pub mod exit;
pub mod memory;
pub mod numbers;
pub mod page;
