//! What the applications under `examples/` share: each thing once, and nothing that only one of them
//! needs.

pub mod memory;
