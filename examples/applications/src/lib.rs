//! What the applications share: the command line, the report, random input and real input.
//!
//! Each application is one file in `src/bin`. It makes or reads its input, does the work, and returns
//! a [`Report`]; [`program`] prints that as text, as JSON, or as a page.

pub mod ban_list;
pub mod capture;
pub mod networks;
mod program;
mod random;
mod report;
mod rounds;
pub mod sliding;
pub mod traffic;
pub mod watch;

pub use common::numbers;
pub use common::page::{Line, Scale};
pub use program::{Error, Options, Result, program};
pub use random::{Random, Zipf};
pub use report::{Cell, Plot, Report, Table};
pub use rounds::Rounds;
