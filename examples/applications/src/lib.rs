//! What the applications share: the command line, the report, random input and real input.
//!
//! Each application is one file in `src/bin`. It makes or reads its input, does the work, and returns
//! a [`Report`]; [`program()`] prints that as text, as JSON, or as a page.

pub mod adversary;
pub mod announced;
pub mod answers;
pub mod ban_list;
pub mod bits;
pub mod cache;
pub mod cache_report;
pub mod capture;
pub mod che;
pub mod clients;
pub mod counted;
pub mod dictionary;
pub mod divergence;
pub mod edits;
pub mod exact;
pub mod exact_join;
pub mod generations;
pub mod growth;
mod hyphens;
pub mod iblt;
pub mod join_costs;
mod join_input;
pub mod join_report;
pub mod linkage;
pub mod names;
pub mod networks;
pub mod passwords;
mod people;
mod program;
pub mod proxies_report;
pub mod proxy_counts;
mod random;
pub mod reconcile;
pub mod relation;
pub mod replay;
pub mod replica;
pub mod replicas_report;
pub mod replicas_theory;
mod report;
mod rounds;
pub mod sharing;
pub mod sites;
pub mod sliding;
mod timing;
pub mod trace;
pub mod traffic;
pub mod watch;
pub mod wire;
mod words;

pub use common::numbers;
pub use common::page::{Line, Scale};
pub use hyphens::Hyphens;
pub use join_input::JoinInput;
pub use people::people;
pub use program::{Error, Options, Result, program};
pub use random::{Random, Zipf};
pub use report::{Cell, Plot, Report, Table};
pub use rounds::Rounds;
pub use timing::nanos_per_call;
pub use words::Words;
