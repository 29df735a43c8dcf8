//! The core of a crawler: which addresses are known, which one is next, and how a page is stored.
//!
//! It fetches nothing and reads no HTML. A program takes work from it, fetches, and hands back what
//! it found; everything that must survive a kill is in a [criba](https://docs.rs/criba) store.
//!
//! | keyspace | key | value | written |
//! |---|---|---|---|
//! | `seen` | address | number of the address | once, when it is discovered |
//! | `frontier` | origin `00` due number | [`Entry`]: what to fetch | at discovery; deleted when it is done |
//! | `default` | `format`, `totals` | layout of the store; [`Totals`] | at the beginning; with each page |
//!
//! A program adds keyspaces of its own, for what it keeps of a page, and writes them in the same
//! batch ([`Step::batch`]).
//!
//! **One page, one batch.** [`Crawl::finish`] begins it, [`Step::commit`] writes it: the page's place
//! in the frontier is given up, and what was discovered on it takes places of its own. So between two
//! batches every known address either waits or is done, never both and never neither. A crawl that is
//! killed goes on where it was.
//!
//! ```
//! use crawl::{Crawl, Found, Manners, Next, SeenSet, Settings, Store, Work};
//! use url::Url;
//!
//! # fn main() -> Result<(), crawl::Error> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("crawl");
//! let store = Store::open(&path, Settings::default())?;
//! let pages = store.db().keyspace("pages")?;
//! let seen = SeenSet::in_store(&store, 1000);
//! let mut crawl = Crawl::open(store, seen, false)?;
//!
//! let mut step = crawl.begin();
//! step.discover(&Url::parse("http://a/").unwrap(), Found::default())?;
//! step.commit()?;
//! loop {
//!     match crawl.take()? {
//!         // What robots.txt of a new origin allows, and how fast.
//!         Next::Work(Work::Ask(origin)) => crawl.learned(&origin, Some(Manners::default())),
//!         Next::Work(Work::Fetch(job)) => {
//!             // Here a program fetches `job.url` and reads the links on the page.
//!             let links = [Url::parse("http://a/b").unwrap()];
//!             let mut step = crawl.finish(*job);
//!             for link in &links {
//!                 step.discover(link, Found::default())?;
//!             }
//!             let id = step.id().to_string();
//!             step.batch().keyspace(&pages).put(id, "what is kept of the page");
//!             step.commit()?;
//!         }
//!         Next::Wait(until) => std::thread::sleep(until - std::time::Instant::now()),
//!         // `Busy` comes only with several threads.
//!         Next::Busy | Next::Done => break,
//!     }
//! }
//! assert_eq!(pages.len()?, 2);
//! # Ok(())
//! # }
//! ```

mod crawl;
mod entry;
mod error;
mod frontier;
pub mod keys;
mod seen;
mod store;

pub use crawl::{Crawl, Found, Step, now_ms};
pub use entry::Entry;
pub use error::Error;
pub use frontier::{Job, Manners, Next, Rules, Work};
pub use keys::Partition;
pub use seen::{InStore, Seen, SeenCounts, SeenSet};
pub use store::{Settings, Store, Totals};
