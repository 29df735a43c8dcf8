//! Crashes at every storage call of small lives, in every state that a disk may legally hold.
//!
//! `CRIBA_CRASH_STATES` asks for so many different states in place of those of the suite: the
//! same lives with wider bounds, again and again, until so many were checked. `CRIBA_CRASH_LIVES=2..5`
//! takes some of the lives only: no state is of two lives, so that a campaign can be made in parts.

mod check;
mod errors;
mod lives;
mod plants;
mod workload;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use criba::Durability;
use criba::sim::{Bounds, CrashState, Memory};
use criba::storage::Storage;

use crate::faults::tell;

use check::{Expected, Judge};
use lives::{LARGE_LIVES, LIVES, Plot, THREADED_LIVES};
use plants::{BUGS, Planted};
use workload::{Layer, Session, builder, live, write};

/// What a campaign has done.
#[derive(Debug, Default)]
struct Tally {
    crash_points: AtomicUsize,
    /// Legal states, and those of them that were checked: the others were the same on the disk,
    /// with the same promise.
    states: AtomicUsize,
    checked: AtomicUsize,
    in_recovery: AtomicUsize,
    /// Recoveries that crashed at each of their calls.
    recoveries: AtomicUsize,
    wrong: Mutex<Vec<String>>,
    is_told: bool,
}

impl Tally {
    /// The first are told at once, if anybody is to read them: a campaign may take hours.
    fn found(&self, what: String) {
        let mut wrong = self.wrong.lock().unwrap();
        if self.is_told && wrong.len() < 10 {
            tell(&what);
        }
        wrong.push(what);
    }

    fn wrongs(&self) -> usize {
        self.wrong.lock().unwrap().len()
    }

    fn tell(&self, when: &str) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        tell(&format!(
            "crashes{when}: {} points, {} states, {} checked, {} of them in {} recoveries, {} wrong",
            count(&self.crash_points),
            count(&self.states),
            count(&self.checked),
            count(&self.in_recovery),
            count(&self.recoveries),
            self.wrongs()
        ));
    }
}

/// How thorough a campaign is.
#[derive(Clone, Copy)]
struct Depth {
    bounds: Bounds,
    /// Of one in so many states the recovery is recorded as well, and crashes at each of its calls;
    /// so do recoveries from that, once more. Which, the state itself decides: those of a round
    /// are among those of the next, with wider bounds.
    recoveries: u64,
    bounds_of_recovery: Bounds,
    /// No more states than this.
    most: usize,
    /// The first wrong state is enough.
    stops_at_wrong: bool,
}

impl Depth {
    /// That of the suite, or that of a later round of a campaign.
    fn of_round(round: u32, most: usize) -> Depth {
        Depth {
            bounds: Bounds {
                of_file: 24 << round,
                names_in_any_combination: 4 + round as usize,
                of_names: 64 << (2 * round),
            },
            recoveries: (RECOVERIES >> round).max(1),
            bounds_of_recovery: Bounds {
                of_file: 6 << round,
                names_in_any_combination: 3,
                of_names: 8 << round,
            },
            most,
            stops_at_wrong: false,
        }
    }

    /// States of some hundred KiB are few.
    fn of_large(self) -> Depth {
        let bounds = self.bounds;
        Depth {
            bounds: Bounds {
                of_file: bounds.of_file / 4,
                of_names: bounds.of_names / 8,
                ..bounds
            },
            recoveries: self.recoveries * 8,
            ..self
        }
    }
}

/// A life that was lived, and the states of it that were checked.
struct Campaign<'a> {
    name: &'static str,
    sessions: Vec<Session>,
    judge: Judge,
    seen: Mutex<HashSet<u64>>,
    /// Those whose recovery has crashed in this round.
    recovered: Mutex<HashSet<u64>>,
    tally: &'a Tally,
}

impl<'a> Campaign<'a> {
    fn begin(plot: &Plot, layer: &Layer, tally: &'a Tally) -> Result<Campaign<'a>, String> {
        let sessions = live(plot, layer).map_err(|error| format!("{}: {error}", plot.name))?;
        Ok(Campaign {
            name: plot.name,
            sessions,
            judge: Judge::of(plot),
            seen: Mutex::default(),
            recovered: Mutex::default(),
            tally,
        })
    }

    /// Every moment at which it may crash.
    fn crash_points(&self) -> impl Iterator<Item = (&Session, usize)> {
        let of_session = |session| (0..=Session::calls(session)).map(move |calls| (session, calls));
        self.sessions.iter().flat_map(of_session)
    }

    fn crash_at(&self, session: &Session, calls: usize, depth: &Depth) {
        self.tally.crash_points.fetch_add(1, Ordering::Relaxed);
        let promise = session.promise(calls);
        for state in session.history.states(calls, &depth.bounds) {
            if self.is_over(depth) {
                return;
            }
            let expected = Expected::of(promise, state.is_power_loss());
            let story = || format!("after {calls} calls");
            self.check(&state, expected, (depth, 0), &story);
        }
    }

    /// Checks a state, unless it was checked before; some with crashes in their recovery.
    fn check(
        &self,
        state: &CrashState,
        expected: Expected,
        (depth, recoveries): (&Depth, usize),
        story: &dyn Fn() -> String,
    ) {
        self.tally.states.fetch_add(1, Ordering::Relaxed);
        let mut hasher = DefaultHasher::new();
        (state.fingerprint(), expected).hash(&mut hasher);
        let key = hasher.finish();
        let is_new = self.seen.lock().unwrap().insert(key);
        let recovers = recoveries < 2
            && key.is_multiple_of(depth.recoveries)
            && self.recovered.lock().unwrap().insert(key);
        if !is_new && !recovers {
            return;
        }
        if is_new {
            self.tally.checked.fetch_add(1, Ordering::Relaxed);
        }
        if is_new && recoveries > 0 {
            self.tally.in_recovery.fetch_add(1, Ordering::Relaxed);
        }
        if recoveries == 0
            && is_new
            && let Err(what) = self.judge.check_reserved(state, expected)
        {
            self.tally
                .found(format!("{}: {}: {what}", self.name, story()));
        }
        match self.judge.check(state, expected) {
            Ok(n) if recovers => self.crash_in_recovery(state, expected, n, (depth, recoveries)),
            Ok(_) => {}
            Err(what) => {
                let what = format!("{}: {}: {what}", self.name, story());
                self.tally.found(what);
            }
        }
    }

    fn is_over(&self, depth: &Depth) -> bool {
        depth.stops_at_wrong && self.tally.wrongs() > 0
            || self.tally.checked.load(Ordering::Relaxed) >= depth.most
    }

    /// Opens a state of `n` batches once more, writes the next, and crashes at every call of that.
    fn crash_in_recovery(
        &self,
        state: &CrashState,
        before: Expected,
        n: usize,
        (depth, recoveries): (&Depth, usize),
    ) {
        self.tally.recoveries.fetch_add(1, Ordering::Relaxed);
        let image = state.image();
        image.record();
        let acknowledged = self.recover(&image, n + 1);
        let history = image.history().unwrap();
        // What was only survived by a kill may be lost with power.
        let synced = if state.is_power_loss() {
            n
        } else {
            before.synced
        };
        for calls in 0..=history.len() {
            let (least, synced) = if calls >= acknowledged {
                (n + 1, n + 1)
            } else {
                (n, synced)
            };
            for inner in history.states(calls, &depth.bounds_of_recovery) {
                let expected = Expected {
                    least: if inner.is_power_loss() { synced } else { least },
                    most: n + 1,
                    synced,
                    dropped: before.dropped,
                };
                let story = || format!("after {calls} calls of recovery from {}", state.describe());
                self.check(&inner, expected, (depth, recoveries + 1), &story);
            }
        }
    }

    /// Calls made when the batch was acknowledged.
    fn recover(&self, image: &Memory, n: usize) -> usize {
        let db = builder(Arc::new(image.clone())).open().unwrap();
        write(
            &db,
            &self.judge.batches[n],
            Durability::Sync,
            self.judge.spread,
        )
        .unwrap();
        let acknowledged = image.recorded();
        db.close().unwrap();
        acknowledged
    }
}

/// Crashes at every moment of these lives, on all processors.
fn crash_everywhere<'a>(campaigns: impl Iterator<Item = (&'a Campaign<'a>, Depth)>) {
    let of_campaign = |(campaign, depth): (&'a Campaign<'a>, Depth)| {
        let points = campaign.crash_points();
        points.map(move |(session, calls)| (campaign, session, calls, depth))
    };
    let points: Vec<_> = campaigns.flat_map(of_campaign).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                let next = || points.get(next.fetch_add(1, Ordering::Relaxed));
                while let Some((campaign, session, calls, depth)) = next() {
                    campaign.crash_at(session, *calls, depth);
                }
            });
        }
    });
}

/// Crashes of all small lives, through a layer that has a bug.
fn run(depth: Depth, layer: &Layer) -> Tally {
    let tally = Tally::default();
    for plot in LIVES {
        if tally.wrongs() > 0 {
            break;
        }
        match Campaign::begin(plot, layer, &tally) {
            Ok(campaign) => crash_everywhere(std::iter::once((&campaign, depth))),
            Err(what) => tally.wrong.lock().unwrap().push(what),
        }
    }
    tally
}

/// One round over all lives, or, when so many states are asked for, rounds of ever wider bounds
/// until there are; what takes hours tells how far it is.
fn run_rounds(asked: Option<usize>, lives: Range<usize>) -> Tally {
    let tally = Tally {
        is_told: true,
        ..Tally::default()
    };
    let layer = |memory| -> Arc<dyn Storage> { Arc::new(memory) };
    let begin = |plot| Campaign::begin(plot, &layer, &tally).unwrap();
    let small = LIVES.iter().map(|plot| (plot, false));
    // In the suite it has to be quick.
    let threaded = THREADED_LIVES.iter().map(|plot| (plot, asked.is_none()));
    let large = LARGE_LIVES.iter().map(|plot| (plot, true));
    // A state of a large life takes as long as ten others: they come last.
    let all = small
        .chain(threaded)
        .chain(large)
        .take(lives.end)
        .skip(lives.start);
    let lives: Vec<_> = all
        .map(|(plot, is_large)| (begin(plot), is_large))
        .collect();
    let most = asked.unwrap_or(usize::MAX);
    // The states of a round are among those of the next.
    let rounds = if asked.is_some() { ROUNDS } else { 0..1 };
    for round in rounds {
        let depth = Depth::of_round(round, most);
        let depth_of = |is_large| if is_large { depth.of_large() } else { depth };
        let all: Vec<_> = lives
            .iter()
            .map(|(campaign, is_large)| (campaign, depth_of(*is_large)))
            .collect();
        for (campaign, _) in &all {
            campaign.recovered.lock().unwrap().clear();
        }
        match asked {
            None => crash_everywhere(all.into_iter()),
            Some(_) => {
                for (campaign, depth) in all {
                    crash_everywhere(std::iter::once((campaign, depth)));
                    tally.tell(&format!(", round {round} of '{}'", campaign.name));
                }
            }
        }
        if tally.checked.load(Ordering::Relaxed) >= most {
            break;
        }
    }
    tally
}

/// Those of a campaign; the suite has round 0.
const ROUNDS: Range<u32> = 2..8;

/// Of one in so many states the recovery crashes as well, in the first round.
const RECOVERIES: u64 = 16;

/// What the first round comes to, at least.
const STATES: usize = 500_000;

#[test]
fn no_crash_loses_what_was_promised() {
    let asked = std::env::var("CRIBA_CRASH_STATES").ok();
    let asked = asked.map(|asked| asked.parse().expect("a number of states"));
    let lives = std::env::var("CRIBA_CRASH_LIVES").map_or(0..usize::MAX, |lives| {
        let ends = lives.split_once("..").expect("a range of lives, as 2..5");
        let number = |end: &str| end.parse().expect("the number of a life");
        number(ends.0)..number(ends.1)
    });
    let tally = run_rounds(asked, lives);
    tally.tell("");
    let checked = tally.checked.load(Ordering::Relaxed);
    assert!(checked >= asked.unwrap_or(STATES), "only {checked} states");
    let wrong = tally.wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{:#?}", &wrong[..wrong.len().min(10)]);
}

#[test]
fn every_planted_bug_is_found() {
    let depth = Depth {
        recoveries: u64::MAX,
        stops_at_wrong: true,
        ..Depth::of_round(0, usize::MAX)
    };
    for bug in BUGS {
        let planted = move |memory| -> Arc<dyn Storage> { Arc::new(Planted::new(memory, bug)) };
        let tally = run(depth, &planted);
        let wrong = tally.wrong.into_inner().unwrap();
        assert!(!wrong.is_empty(), "{bug:?} is not found");
    }
}
