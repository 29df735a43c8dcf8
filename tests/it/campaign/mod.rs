//! Crashes at every storage call of small lives, in every state that a disk may legally hold.
//!
//! `CRIBA_CRASH_STATES` asks for about so many states in place of those of the suite.

mod check;
mod plants;
mod workload;

use std::collections::HashSet;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use criba::Durability;
use criba::storage::{Bounds, CrashState, Memory, Storage};

use check::check;
use plants::{BUGS, Planted};
use workload::{
    Buffered, Close, Compact, Flush, HoldSnapshot, Kill, Layer, Model, Process, Promise, Rebuild,
    ReleaseSnapshot, Reopen, Session, Step, Sync, Synced, Write, builder, live, states, write,
};

/// Lives that together pass through everything that changes files.
const LIVES: &[(&str, &[Step])] = &[
    ("create", &[Close]),
    (
        "batches",
        &[
            Write(Process),
            Write(Synced),
            Write(Buffered),
            Write(Process),
            Write(Synced),
            Write(Buffered),
            Sync,
            Write(Process),
            Close,
        ],
    ),
    (
        "flush",
        &[
            Write(Process),
            Write(Synced),
            Flush,
            Write(Synced),
            Write(Process),
            Write(Buffered),
            Flush,
            Write(Synced),
            Close,
        ],
    ),
    (
        "compaction",
        &[
            Write(Synced),
            Write(Process),
            Flush,
            Write(Synced),
            HoldSnapshot,
            Write(Process),
            Flush,
            Write(Synced),
            Compact,
            Write(Process),
            ReleaseSnapshot,
            Compact,
            Close,
        ],
    ),
    (
        "filters rebuilt",
        &[
            Write(Process),
            Write(Synced),
            Flush,
            Write(Synced),
            Rebuild,
            Write(Process),
            Flush,
            Rebuild,
            Compact,
            Close,
        ],
    ),
    (
        "reopened",
        &[
            Write(Synced),
            Write(Process),
            Reopen,
            Write(Process),
            Flush,
            Reopen,
            Reopen,
            Write(Synced),
            Write(Buffered),
            Close,
        ],
    ),
    (
        "killed",
        &[
            Write(Synced),
            Write(Process),
            Kill,
            Write(Process),
            Write(Synced),
            Kill,
            Sync,
            Write(Process),
            Kill,
            Flush,
            Write(Process),
            Write(Synced),
            Kill,
            Close,
        ],
    ),
];

/// What a campaign has done.
#[derive(Debug, Default)]
struct Tally {
    crash_points: AtomicUsize,
    /// Legal states, and those of them that were checked: the others were the same on the disk,
    /// with the same promise.
    states: AtomicUsize,
    checked: AtomicUsize,
    in_recovery: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

/// How thorough a campaign is.
#[derive(Clone, Copy)]
struct Depth {
    bounds: Bounds,
    /// Every so many states the recovery is recorded as well, and crashes at each of its calls.
    recoveries: usize,
    bounds_of_recovery: Bounds,
    /// The first wrong state is enough.
    stops_at_wrong: bool,
}

struct Campaign<'a> {
    depth: Depth,
    models: Vec<Model>,
    seen: Mutex<HashSet<(u64, usize, usize)>>,
    tally: &'a Tally,
}

impl Campaign<'_> {
    fn crash_everywhere(&self, session: &Session) {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
                scope.spawn(|| {
                    loop {
                        let calls = next.fetch_add(1, Ordering::Relaxed);
                        if calls > session.history.len() || self.is_over() {
                            break;
                        }
                        self.crash_at(session, calls);
                    }
                });
            }
        });
    }

    fn crash_at(&self, session: &Session, calls: usize) {
        self.tally.crash_points.fetch_add(1, Ordering::Relaxed);
        let promise = session.promise(calls);
        for state in session.history.states(calls, &self.depth.bounds) {
            let bounds = bounds_of(&state, promise);
            if self.is_over() {
                return;
            }
            let Some(nth) = self.is_new(&state, bounds) else {
                continue;
            };
            let image = state.image();
            let records = nth.is_multiple_of(self.depth.recoveries);
            match check(&state, &image, bounds, &self.models) {
                Ok(found) if records => self.crash_in_recovery(&state, bounds, found),
                Ok(_) => {}
                Err(what) => self.report(format!("after {calls} calls: {what}")),
            }
        }
    }

    fn is_new(&self, state: &CrashState, (least, most): (usize, usize)) -> Option<usize> {
        self.tally.states.fetch_add(1, Ordering::Relaxed);
        let key = (state.fingerprint(), least, most);
        let is_new = self.seen.lock().unwrap().insert(key);
        is_new.then(|| self.tally.checked.fetch_add(1, Ordering::Relaxed))
    }

    fn is_over(&self) -> bool {
        self.depth.stops_at_wrong && !self.tally.wrong.lock().unwrap().is_empty()
    }

    fn report(&self, what: String) {
        self.tally.wrong.lock().unwrap().push(what);
    }

    /// Opens the state once more, writes a batch, and crashes at every call of that.
    fn crash_in_recovery(&self, state: &CrashState, (least, _): (usize, usize), found: usize) {
        let image = state.image();
        image.record();
        let acknowledged = recover(&image, found + 1);
        let history = image.history().unwrap();
        let mut seen = HashSet::new();
        for calls in 0..=history.len() {
            for inner in history.states(calls, &self.depth.bounds_of_recovery) {
                self.tally.states.fetch_add(1, Ordering::Relaxed);
                let least = if calls >= acknowledged {
                    found + 1
                } else if inner.is_power_loss() && !state.is_power_loss() {
                    // What only a kill was survived by may be lost with power.
                    0
                } else {
                    least
                };
                if !seen.insert((inner.fingerprint(), least)) {
                    continue;
                }
                self.tally.checked.fetch_add(1, Ordering::Relaxed);
                self.tally.in_recovery.fetch_add(1, Ordering::Relaxed);
                let bounds = (least, found + 1);
                if let Err(what) = check(&inner, &inner.image(), bounds, &self.models) {
                    let story = state.describe();
                    self.report(format!(
                        "{what}; after {calls} calls of recovery from {story}"
                    ));
                }
            }
        }
    }
}

/// Calls made when the batch was acknowledged.
fn recover(image: &Memory, n: usize) -> usize {
    let db = builder(Arc::new(image.clone())).open().unwrap();
    write(&db, n, Durability::Sync).unwrap();
    let acknowledged = image.recorded();
    db.close().unwrap();
    acknowledged
}

fn bounds_of(state: &CrashState, promise: Promise) -> (usize, usize) {
    let least = if state.is_power_loss() {
        promise.synced
    } else {
        promise.processed
    };
    (least, promise.attempted)
}

fn run(lives: &[(&str, &[Step])], depth: Depth, layer: &Layer) -> Tally {
    let tally = Tally::default();
    for (name, steps) in lives {
        if depth.stops_at_wrong && !tally.wrong.lock().unwrap().is_empty() {
            break;
        }
        let sessions = match live(steps, layer) {
            Ok(sessions) => sessions,
            Err(error) => {
                tally.wrong.lock().unwrap().push(format!("{name}: {error}"));
                continue;
            }
        };
        for session in &sessions {
            let campaign = Campaign {
                depth,
                models: states(steps.len() + 2),
                seen: Mutex::default(),
                tally: &tally,
            };
            let before = tally.wrong.lock().unwrap().len();
            campaign.crash_everywhere(session);
            let mut wrong = tally.wrong.lock().unwrap();
            for what in &mut wrong[before..] {
                *what = format!("{name}: {what}");
            }
        }
    }
    tally
}

#[test]
fn no_crash_loses_what_was_promised() {
    let depth = Depth {
        bounds: Bounds::default(),
        recoveries: 100,
        bounds_of_recovery: Bounds {
            of_file: 6,
            names_in_any_combination: 3,
            of_names: 8,
        },
        stops_at_wrong: false,
    };
    let tally = run(LIVES, depth, &|memory| Arc::new(memory));
    let wrong = tally.wrong.into_inner().unwrap();
    writeln!(
        std::io::stderr(),
        "crashes: {} points, {} states, {} checked, {} of them in recovery, {} wrong",
        tally.crash_points.into_inner(),
        tally.states.into_inner(),
        tally.checked.into_inner(),
        tally.in_recovery.into_inner(),
        wrong.len()
    )
    .unwrap();
    assert!(wrong.is_empty(), "{:#?}", &wrong[..wrong.len().min(10)]);
}

#[test]
fn every_planted_bug_is_found() {
    let depth = Depth {
        bounds: Bounds::default(),
        recoveries: usize::MAX,
        bounds_of_recovery: Bounds::default(),
        stops_at_wrong: true,
    };
    for bug in BUGS {
        let planted = move |memory| -> Arc<dyn Storage> { Arc::new(Planted::new(memory, bug)) };
        let tally = run(LIVES, depth, &planted);
        let wrong = tally.wrong.into_inner().unwrap();
        assert!(!wrong.is_empty(), "{bug:?} is not found");
    }
}
