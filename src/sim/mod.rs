//! A simulated disk, for tests of the store and of programs that use it. With the feature `sim`.
//!
//! [`Memory`] is a [`Storage`](crate::storage::Storage) in memory. It knows for each file how many
//! bytes a sync has made durable, and which names the last sync of the directory has.
//! [`Memory::crash`] makes an image of what a kill or a power cut leaves, [`Memory::fail_after`]
//! lets calls fail, [`Memory::set_clock`] sets the time. Every read copies, and one mutex guards
//! everything.
//!
//! [`Memory::crash`] knows three plain images. A [`History`] of all changing calls tells every state
//! that a disk may legally hold after a power cut: writes torn within a sector's bounds or kept in
//! any order, names in any order, syncs that dropped their pages.
//!
//! ```
//! use std::sync::Arc;
//! use criba::Db;
//! use criba::sim::{Memory, Survivors};
//!
//! # fn main() -> criba::Result<()> {
//! let disk = Memory::new();
//! let db = Db::builder("simulated").storage(Arc::new(disk.clone())).open()?;
//! db.put("kept by the system", "but not by the disk")?;
//!
//! let after_kill = disk.crash(Survivors::Everything);
//! let after_power_loss = disk.crash(Survivors::Synced);
//! let open = |disk: Memory| Db::builder("simulated").storage(Arc::new(disk)).open();
//! assert_eq!(open(after_kill)?.len()?, 1);
//! assert_eq!(open(after_power_loss)?.len()?, 0);
//! # Ok(())
//! # }
//! ```

mod appender;
mod directory;
mod file;
mod history;
mod memory;
mod moment;
mod state;
mod states;

pub use history::History;
pub use memory::{Memory, Survivors};
pub use states::{Bounds, CrashState};
