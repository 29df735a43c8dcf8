//! Every storage call of every life fails, once or from there on: nothing that was acknowledged is
//! lost, reads go on, and where it is unknown what is on the disk, writes are refused.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use criba::sim::{Memory, Survivors};
use criba::storage::Storage;
use criba::{Db, Error};

use crate::faults::{Call, Rig, tell, within};

use super::check::{Expected, Judge, Way, read};
use super::lives::{LIVES, Plot};
use super::workload::{Failed, Kill, live_to_error};

/// How what failures leave is looked at.
const FLUSHED: Way = Way {
    is_paged: false,
    flushes: true,
    reserves: false,
};
const PAGED: Way = Way {
    is_paged: true,
    ..FLUSHED
};

/// One of them at a time.
#[derive(Clone, Copy, Debug)]
struct Fault {
    /// Number of the call that fails.
    at: usize,
    kind: ErrorKind,
    /// No other fails after it.
    once: bool,
}

#[derive(Debug, Default)]
struct Tally {
    faults: AtomicUsize,
    /// The life ended with an error; it went on to its end.
    failed: AtomicUsize,
    survived: AtomicUsize,
    refusing: AtomicUsize,
    resumed: AtomicUsize,
}

/// The call that failed, if the life came to it.
type Hit = Arc<Mutex<Option<(Call, String)>>>;

/// A storage whose call fails: half of an append is written, a sync drops what it was to keep.
fn failing(memory: &Memory, fault: Fault, calls: &Arc<AtomicUsize>, hit: &Hit) -> Rig {
    let rig = Rig::new(memory.clone());
    let (memory, calls, hit) = (memory.clone(), Arc::clone(calls), Arc::clone(hit));
    rig.set(move |call, name| {
        if calls.fetch_add(1, Ordering::SeqCst) == fault.at {
            *hit.lock().unwrap() = Some((call, name.to_owned()));
            if fault.once {
                memory.fail_once(1, fault.kind);
            } else {
                memory.fail_after(1, fault.kind);
            }
        }
        Ok(())
    });
    rig
}

/// Whether the life came to the fault.
fn fail(plot: &Plot, judge: &Judge, fault: Fault, tally: &Tally) -> bool {
    let (calls, hit) = (Arc::default(), Hit::default());
    let layer = {
        let hit = Arc::clone(&hit);
        move |memory| -> Arc<dyn Storage> { Arc::new(failing(&memory, fault, &calls, &hit)) }
    };
    let failed = live_to_error(plot, &layer);
    let Some((call, name)) = hit.lock().unwrap().clone() else {
        assert!(failed.error.is_none(), "{}: {:?}", plot.name, failed.error);
        return false;
    };
    let what = format!("{}: {fault:?}, {call:?} {name:?}", plot.name);
    tally.faults.fetch_add(1, Ordering::Relaxed);
    let counter = if failed.error.is_some() {
        &tally.failed
    } else {
        &tally.survived
    };
    counter.fetch_add(1, Ordering::Relaxed);
    if let (Some(db), Some(error)) = (&failed.db, &failed.error) {
        check_running(db, error, (&failed, judge), &what);
        check_refusal(db, error, (call, &name), &what, tally);
    }
    check_images(&failed, judge, &what);
    check_resumed(failed, judge, &what, tally);
    true
}

/// Reads go on.
fn check_running(db: &Db, error: &Error, (failed, judge): (&Failed, &Judge), what: &str) {
    let found = read(db).unwrap_or_else(|other| panic!("{what}: {error}: reads fail: {other}"));
    let expected = Expected::of(failed.promise, false);
    if let Err(wrong) = judge.find(&found, expected) {
        panic!("{what}: {error}: {wrong}");
    }
}

/// Once a write or sync of journal or manifest has failed, nothing is written any more, and the
/// error says why.
fn check_refusal(db: &Db, error: &Error, (call, name): (Call, &str), what: &str, tally: &Tally) {
    let is_log = name.ends_with(".journal") || name.starts_with("MANIFEST");
    let must_refuse = is_log && matches!(call, Call::Append | Call::Sync);
    let is_refusing = matches!(error, Error::Poisoned { .. });
    assert!(is_refusing || !must_refuse, "{what}: {error}");
    if is_refusing {
        tally.refusing.fetch_add(1, Ordering::Relaxed);
        for refused in [db.put("k", "v"), db.flush(), db.sync(), db.clone().close()] {
            let Err(Error::Poisoned { cause }) = refused else {
                panic!("{what}: not refused: {refused:?}");
            };
            assert!(matches!(&*cause, Error::Io { .. }), "{what}: {cause}");
        }
    }
}

/// What a kill and a power loss leave now, and later power losses of what a kill has left.
fn check_images(failed: &Failed, judge: &Judge, what: &str) {
    for (survivors, is_power_loss) in [
        (Survivors::Everything, false),
        (Survivors::Synced, true),
        (Survivors::Ordered, true),
    ] {
        let image = failed.memory.crash(survivors);
        let expected = Expected::of(failed.promise, is_power_loss);
        let n = judge
            .judge(&image, expected, FLUSHED)
            .unwrap_or_else(|wrong| panic!("{what}, {survivors:?}: {wrong}"));
        let later = Expected {
            least: n + 1,
            most: n + 1,
            ..expected
        };
        judge
            .judge(&image.crash(Survivors::Synced), later, FLUSHED)
            .unwrap_or_else(|wrong| panic!("{what}, {survivors:?}, then power loss: {wrong}"));
    }
}

/// When the device works again, a store that does not refuse goes on, and one that does is opened
/// again while the system still runs.
fn check_resumed(failed: Failed, judge: &Judge, what: &str, tally: &Tally) {
    let Failed {
        memory,
        db,
        promise,
        error,
    } = failed;
    memory.heal();
    if let Some(db) = db
        && !matches!(error, Some(Error::Poisoned { .. }))
    {
        db.flush()
            .and_then(|()| db.compact_all()?.wait())
            .and_then(|()| db.close())
            .unwrap_or_else(|error| panic!("{what}: does not go on: {error}"));
        tally.resumed.fetch_add(1, Ordering::Relaxed);
    }
    judge
        .judge(&memory, Expected::of(promise, false), PAGED)
        .unwrap_or_else(|wrong| panic!("{what}, opened again: {wrong}"));
}

fn fail_everywhere(plot: &Plot, tally: &Tally) {
    let judge = Judge::of(plot);
    for (kind, once) in [
        (ErrorKind::Other, true),
        (ErrorKind::Other, false),
        (ErrorKind::StorageFull, true),
        (ErrorKind::StorageFull, false),
    ] {
        let mut at = 0;
        while fail(plot, &judge, Fault { at, kind, once }, tally) {
            at += 1;
        }
    }
}

/// One life takes seconds.
const LIMIT: Duration = Duration::from_secs(600);

#[test]
fn no_failing_call_loses_what_was_acknowledged() {
    let tally = Arc::<Tally>::default();
    // A kill ends the storage that fails; what crashes leave is the other campaign.
    let plots = LIVES.iter().filter(|plot| !plot.steps.contains(&Kill));
    let (plots, next) = (plots.collect::<Vec<_>>(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let plot = || plots.get(next.fetch_add(1, Ordering::Relaxed)).copied();
                while let Some(plot) = plot() {
                    let tally = Arc::clone(&tally);
                    within(LIMIT, plot.name, move || fail_everywhere(plot, &tally));
                }
            });
        }
    });
    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    tell(&format!(
        "failures: {} faults, {} gave errors, {} did not, {} refused writes, {} went on, 0 wrong",
        count(&tally.faults),
        count(&tally.failed),
        count(&tally.survived),
        count(&tally.refusing),
        count(&tally.resumed),
    ));
    assert!(count(&tally.faults) > 2000 && count(&tally.refusing) > 500);
    assert!(count(&tally.resumed) > 100);
}
