//! What the applications share: the command line, the report, random input and real input.
//!
//! Each application is one file in `src/bin`. It makes or reads its input, does the work, and returns
//! a [`Report`]; [`program`] prints that as text, as JSON, or as a page.

pub mod answers;
pub mod divergence;
pub mod exact_join;
pub mod iblt;
pub mod join_costs;
mod join_input;
pub mod join_report;
mod program;
mod random;
pub mod reconcile;
pub mod relation;
pub mod replica;
pub mod replicas_report;
pub mod replicas_theory;
mod report;
pub mod sites;
pub mod wire;

pub use common::numbers;
pub use common::page::{Line, Scale};
pub use join_input::JoinInput;
pub use program::{Error, Options, Result, program};
pub use random::{Random, Zipf};
pub use report::{Cell, Plot, Report, Table};
