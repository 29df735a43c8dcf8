//! Waits until compaction has nothing left to do.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use criba::{Db, EventKind, Stats};

use crate::exit::{Exit, Failure};

/// Time between two looks.
const LOOK: Duration = Duration::from_micros(200);

/// Longest that a store without any progress is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which segments there are, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape(Vec<(u32, Vec<u64>)>);

impl Shape {
    pub(super) fn of(stats: &Stats) -> Shape {
        let runs = stats.runs.iter().map(|run| {
            let ids = run.segments.iter().map(|segment| segment.id);
            (run.level, ids.collect())
        });
        Shape(runs.collect())
    }
}

/// Returns when the tree is in shape and nothing is being merged.
///
/// # Errors
///
/// When background work fails, or comes to a halt before the tree is in shape.
pub(crate) fn settle(db: &Db) -> Result<(), Failure> {
    // Nothing is ever sent: receiving is the way to wait.
    let (_sender, never) = mpsc::channel::<()>();
    let mut written = 0;
    let mut progressed = Instant::now();
    loop {
        let stats = db.stats();
        if stats.compactions.is_settled {
            return Ok(());
        }
        if stats.written_bytes != written {
            (written, progressed) = (stats.written_bytes, Instant::now());
        }
        if progressed.elapsed() > PATIENCE {
            return Err(halted(&stats));
        }
        if let Err(RecvTimeoutError::Disconnected) = never.recv_timeout(LOOK) {
            return Err(Failure::new(Exit::Io, "cannot wait for the compaction"));
        }
    }
}

fn halted(stats: &Stats) -> Failure {
    let failed = stats
        .events
        .iter()
        .rev()
        .find_map(|event| match &event.what {
            EventKind::Failed { what } => Some(what.as_str()),
            _ => None,
        });
    let text = format!(
        "compaction came to a halt with {} bytes to go: {}",
        stats.compactions.debt_bytes,
        failed.unwrap_or("nothing is known of a failure")
    );
    Failure::new(Exit::Io, text)
}
