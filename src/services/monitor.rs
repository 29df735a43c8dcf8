//! Whether the store may be used, and what has happened in it.
//!
//! After a failure that leaves it unknown what is on disk the monitor is *poisoned*: writes are
//! refused until the store is opened again.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::locks::{Mutex, rank};
use crate::manifest::Work;
use crate::options::Access;
use crate::origin::Origin;

use super::events::{Event, EventKind};

/// Events kept for [`crate::Stats`].
const EVENTS_MAX: usize = 256;

/// What is counted since `open`, or since the store was made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tally {
    /// Bytes of batches, as they were given, in all sessions.
    UserBytes,
    /// Bytes of segments that flushes have written, in all sessions.
    FlushedBytes,
    /// Bytes of segments that merges have written, in all sessions.
    CompactedBytes,
    Flushes,
    Compactions,
    CompactedParts,
    Moves,
    Dropped,
    CompactionNs,
    Slowed,
    SlowedNs,
    Stopped,
    StoppedNs,
}

const TALLIES: usize = Tally::StoppedNs as usize + 1;

/// Something that threads wait for: they must learn that the store is poisoned.
pub(crate) trait Wake: std::fmt::Debug + Send + Sync {
    /// Wakes all who wait.
    fn wake_all(&self);
}

/// The state of the store as a whole.
#[derive(Debug)]
pub(crate) struct Monitor {
    /// Looked at before any lock is taken: in a forked child it may be held for ever.
    origin: Origin,
    access: Access,
    closed: AtomicBool,
    poison: OnceLock<Arc<Error>>,
    wakes: OnceLock<Vec<Arc<dyn Wake>>>,
    tallies: [AtomicU64; TALLIES],
    events: Mutex<VecDeque<Event>, { rank::EVENTS }>,
    started: Instant,
}

impl Monitor {
    /// The monitor of a session that goes on counting where the last one ended.
    pub(crate) fn new(access: Access, work: Work) -> Monitor {
        let monitor = Monitor {
            origin: Origin::here(),
            access,
            closed: AtomicBool::new(false),
            poison: OnceLock::new(),
            wakes: OnceLock::new(),
            tallies: std::array::from_fn(|_| AtomicU64::new(0)),
            events: Mutex::new(VecDeque::new()),
            started: Instant::now(),
        };
        monitor.count(Tally::UserBytes, work.user_bytes);
        monitor.count(Tally::FlushedBytes, work.flushed_bytes);
        monitor.count(Tally::CompactedBytes, work.merged_bytes);
        monitor
    }

    /// These are woken when the store is poisoned. Called once.
    pub(crate) fn will_wake(&self, wakes: Vec<Arc<dyn Wake>>) {
        let set = self.wakes.set(wakes);
        assert!(set.is_ok(), "who is to be woken is known from the start");
    }

    #[inline]
    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.access == Access::ReadOnly
    }

    /// Refuses everything after `close`, and in a forked child.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        self.origin.check()?;
        if self.closed.load(Ordering::Acquire) {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// From now on [`Monitor::check_open`] refuses.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if it did before.
    pub(crate) fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Err(Error::Closed);
        }
        Ok(())
    }

    /// Refuses writes when the store cannot take any.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        self.check_sound()
    }

    /// Refuses when it is unknown what is on disk.
    #[inline]
    pub(crate) fn check_sound(&self) -> Result<()> {
        match self.poison.get() {
            Some(cause) => Err(Error::Poisoned {
                cause: Arc::clone(cause),
            }),
            None => Ok(()),
        }
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poison.get().is_some()
    }

    /// From now on writes are refused: it is unknown what is on disk. Returns the error that the
    /// caller passes on. The caller holds no lock of a rank from `FLUSHER` on.
    pub(crate) fn poison(&self, error: Error) -> Error {
        let cause = Arc::clone(self.poison.get_or_init(|| Arc::new(error)));
        self.event(EventKind::Failed {
            what: format!("writes are refused from now on: {cause}"),
        });
        // Threads that wait for a flush must learn that there will be none.
        for wake in self.wakes.get().into_iter().flatten() {
            wake.wake_all();
        }
        Error::Poisoned { cause }
    }

    /// A panic in the background is a bug, but nobody may wait for ever because of one: what the
    /// work has done is unknown, so writes are refused from then on, and all who wait learn why.
    /// The caller holds no lock of a rank from `FLUSHER` on.
    pub(crate) fn or_poison<T>(&self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            let said = panic
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
                .unwrap_or("without a message");
            let what = format!("the background {what} panicked: {said}");
            Err(self.poison(Error::Bug { what }))
        })
    }

    pub(crate) fn event(&self, what: EventKind) {
        let mut events = self.events.lock();
        if events.len() == EVENTS_MAX {
            events.pop_front();
        }
        events.push_back(Event {
            at: self.started.elapsed(),
            what,
        });
    }

    /// Background work has failed in a way that it goes on after.
    pub(crate) fn failed(&self, what: String) {
        self.event(EventKind::Failed { what });
    }

    /// The newest events, oldest first.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().iter().cloned().collect()
    }

    /// Adds to a tally. Returns what it was before.
    #[inline]
    pub(crate) fn count(&self, tally: Tally, n: u64) -> u64 {
        self.tallies[tally as usize].fetch_add(n, Ordering::Relaxed)
    }

    pub(crate) fn total(&self, tally: Tally) -> u64 {
        self.tallies[tally as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn total_time(&self, nanos: Tally) -> Duration {
        Duration::from_nanos(self.total(nanos))
    }

    /// What has been written since the store was made.
    pub(crate) fn work(&self) -> Work {
        Work {
            user_bytes: self.total(Tally::UserBytes),
            flushed_bytes: self.total(Tally::FlushedBytes),
            merged_bytes: self.total(Tally::CompactedBytes),
        }
    }
}

/// Nanoseconds as a number; longer than 584 years does not occur.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
