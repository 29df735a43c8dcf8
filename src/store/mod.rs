//! An open store: what all its trees share.
//!
//! A [`Store`] is made of owners, each with private fields and locks of its own: the log (journals,
//! visible and durable sequences), the flusher and the compactor (what background threads are to do
//! and who waits for them), the threads, the pacer (how long writers wait), and the tree, of which
//! there is exactly one today. The order of all locks is in [`locks`](crate::locks).

mod actives;
mod batch;
mod commit;
mod compacting;
mod compactor;
mod directory;
mod flusher;
mod flushing;
mod generation;
mod keyspaces;
mod log;
mod open;
mod pacer;
mod report;
mod request;
mod rotate;
mod salvage;
mod session;
mod sparse;
mod stall;
mod state;
mod threads;
mod together;
mod transaction;
mod trees;

pub(crate) use batch::{Operations, check_limits};
pub(crate) use directory::LOCK;
pub use report::{RecoveryReport, TornTail};
pub(crate) use request::Request;
pub(crate) use session::Session;
pub(crate) use state::Store;
pub(crate) use transaction::{Changes, Reads, Writes};
