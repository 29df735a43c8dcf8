//! A process that is killed: every write that it promised to keep is found.
//!
//! The test binary runs itself as a child, in which threads write with every durability, flush,
//! compact and reopen, and say over a pipe what they have done. It is killed with SIGKILL at a
//! random moment, over and over on the same few stores, with a mapped journal and without.
//! `CRIBA_KILLS=1000` kills as often.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use criba::{Access, Builder, Create, Db, Durability, Strategy};

/// Names the store to the child: its presence makes a child of the test.
const STORE: &str = "CRIBA_KILL_STORE";
/// The round whose writes the child makes, and its seed.
const ROUND: &str = "CRIBA_KILL_ROUND";
const CHILD: &str = "kill::the_child_writes_until_it_is_killed";

/// Each writes keys of its own.
const THREADS: usize = 3;

/// Keys are few, so that most writes overwrite.
const KEYS: u64 = 150;

/// Small enough that a few hundred writes flush and compact many times. Every second
/// round on a store maps the journal.
fn builder(path: &Path, round: u64) -> Builder {
    Db::builder(path)
        .memtable_bytes(64 << 10)
        .segment_bytes(64 << 10)
        .level_base_bytes(64 << 10)
        .level0_runs(2)
        .level_ratio(2)
        .map_journal((round / 4).is_multiple_of(2))
        .strategy(Strategy::Leveled)
}

/// A sequence of numbers that is the same in parent and child (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// The batch number `n` of a thread in a round.
#[derive(Clone, Copy, Debug)]
struct Batch {
    round: u64,
    thread: usize,
    n: u64,
}

type Change = (u64, Option<String>);

impl Batch {
    fn random(self) -> Random {
        Random(self.round << 40 | (self.thread as u64) << 36 | self.n)
    }

    /// Keys and their values, `None` for a delete. A later change of a key wins.
    fn changes(self) -> Vec<Change> {
        let mut random = self.random();
        // Some are longer than the buffer of the journal, and some than a memtable.
        let longest = if random.below(24) == 0 { 4000 } else { 60 };
        let change = |_| {
            let value = format!("{self:?} ").repeat(1 + random.below(longest) as usize / 10);
            let key = random.below(KEYS);
            (key, (random.below(4) > 0).then_some(value))
        };
        (0..1 + self.n % 8).map(change).collect()
    }

    /// In two rounds of three, most writes stay in the buffer until a stronger one comes.
    fn durability(self) -> Durability {
        let of_three = if self.round.is_multiple_of(3) { 3 } else { 24 };
        match Random(!self.random().0).below(of_three) {
            0 => Durability::Sync,
            1 => Durability::Process,
            _ => Durability::Buffered,
        }
    }
}

fn key(thread: usize, number: u64) -> String {
    format!("key{thread}{number:04}")
}

/// Lines to the parent. Not through the harness, which may hold them back.
fn pipe() -> File {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).open("/proc/self/fd/1").unwrap()
}

/// Not a test of its own: without the variable it does nothing, with it it never ends by itself.
#[test]
fn the_child_writes_until_it_is_killed() {
    let Some(store) = std::env::var_os(STORE) else {
        return;
    };
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let path = Path::new(&store);
    let mut random = Random(!round);
    let mut next = 0;
    loop {
        let db = builder(path, round).open().unwrap();
        pipe().write_all(b"open\n").unwrap();
        let end = next + 1 + random.below(400);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let db = db.clone();
                scope.spawn(move || write(&db, (round, thread), next..end));
            }
        });
        next = end;
        if random.below(2) == 0 {
            db.close().unwrap();
            pipe().write_all(b"closed\n").unwrap();
        }
    }
}

fn write(db: &Db, (round, thread): (u64, usize), numbers: std::ops::Range<u64>) {
    let mut pipe = pipe();
    let mut say = |what: &str, n| {
        let line = format!("{what} {thread} {n}\n");
        pipe.write_all(line.as_bytes()).unwrap();
    };
    for n in numbers {
        let number = Batch { round, thread, n };
        let mut batch = db.batch();
        for (number, value) in number.changes() {
            match value {
                Some(value) => batch.put(key(thread, number), value),
                None => batch.delete(key(thread, number)),
            };
        }
        say("begin", n);
        batch.commit_with(number.durability()).unwrap();
        say("done", n);
        match number.random().below(600) {
            0 => db.flush().unwrap(),
            1 => db.compact_all().unwrap().wait().unwrap(),
            2 => db.sync().unwrap(),
            3 => drop(db.rebuild_filters(.., |_, _| {}).unwrap()),
            _ => {}
        }
    }
}

fn start(store: &Path, round: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", CHILD, "--nocapture", "--test-threads=1"])
        .env(STORE, store)
        .env(ROUND, round.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// How many batches of each thread were acknowledged, and how many must be there.
#[derive(Clone, Copy, Debug, Default)]
struct Promise {
    done: [u64; THREADS],
    kept: [u64; THREADS],
}

/// Follows what the child says, line by line.
#[derive(Debug)]
struct Listener {
    round: u64,
    promise: Promise,
    /// What was acknowledged when the batch under way began: it survives if that one does.
    before: [[u64; THREADS]; THREADS],
}

impl Listener {
    fn new(round: u64) -> Listener {
        Listener {
            round,
            promise: Promise::default(),
            before: Default::default(),
        }
    }

    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let promise = &mut self.promise;
        match words[..] {
            ["closed"] => promise.kept = promise.done,
            ["begin", thread, _] => {
                self.before[thread.parse::<usize>().unwrap()] = promise.done;
            }
            ["done", thread, n] => {
                let thread: usize = thread.parse().unwrap();
                let n = n.parse().unwrap();
                assert_eq!(n, promise.done[thread], "{line}");
                promise.done[thread] += 1;
                let round = self.round;
                let batch = Batch { round, thread, n };
                if batch.durability() != Durability::Buffered {
                    promise.keep(&self.before[thread]);
                    promise.kept[thread] = n + 1;
                }
            }
            _ => {}
        }
    }
}

impl Promise {
    fn keep(&mut self, at_least: &[u64; THREADS]) {
        for (kept, least) in self.kept.iter_mut().zip(at_least) {
            *kept = (*kept).max(*least);
        }
    }
}

/// Runs a child for about so long and kills it. Returns what it promised.
fn run_and_kill(store: &Path, round: u64, after: Duration) -> Promise {
    let mut child = start(store, round);
    let pipe = BufReader::new(child.stdout.take().unwrap());
    let (opened, is_open) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut listener = Listener::new(round);
        let mut pipe = pipe;
        loop {
            let mut line = String::new();
            pipe.read_line(&mut line).unwrap();
            // What was cut off in the middle is not an acknowledgement.
            let Some(line) = line.strip_suffix('\n') else {
                break;
            };
            // The harness begins a line of its own before the first word.
            if line.ends_with("open") {
                opened.send(()).ok();
            }
            listener.hear(line);
        }
        listener.promise
    });
    // Some are killed while they open the store.
    if after > Duration::from_millis(20) {
        let waited = is_open.recv_timeout(Duration::from_secs(60));
        assert!(
            waited.is_ok(),
            "round {round}: the child could not open the store"
        );
    }
    // Nothing is ever sent: it is a wait.
    let (_sender, never) = mpsc::channel::<()>();
    never.recv_timeout(after).ok();
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

type Model = BTreeMap<u64, String>;

fn apply(model: &mut Model, changes: Vec<Change>) {
    for (number, value) in changes {
        match value {
            Some(value) => drop(model.insert(number, value)),
            None => drop(model.remove(&number)),
        }
    }
}

/// What each thread has written.
fn content(db: &Db) -> [Model; THREADS] {
    let mut all: [Model; THREADS] = Default::default();
    for entry in db.iter() {
        let (key, value) = entry.unwrap();
        let digits = std::str::from_utf8(&key[3..]).unwrap();
        let (thread, number) = digits.split_at(1);
        let value = String::from_utf8(value.to_vec()).unwrap();
        all[thread.parse::<usize>().unwrap()].insert(number.parse().unwrap(), value);
    }
    all
}

/// The store holds of each thread the batches up to some number: at least those that were
/// promised, at most those that were begun.
fn check(store: &Path, models: &mut [Model; THREADS], (round, promise): (u64, Promise)) {
    let opened = builder(store, round)
        .create(Create::Never)
        .access(Access::ReadOnly)
        .open();
    let db = match opened {
        Ok(db) => db,
        // Killed before the store was made.
        Err(criba::Error::NotAStore { .. }) if promise.done == [0; THREADS] => return,
        Err(error) => panic!("round {round}: {error}"),
    };
    let found = content(&db);
    for thread in 0..THREADS {
        let (kept, done) = (promise.kept[thread], promise.done[thread]);
        let model = &mut models[thread];
        let batch = |n| Batch { round, thread, n }.changes();
        (0..kept).for_each(|n| apply(model, batch(n)));
        let mut n = kept;
        while *model != found[thread] {
            assert!(n <= done, "round {round}, thread {thread}: {promise:?}");
            apply(model, batch(n));
            n += 1;
        }
        for number in 0..KEYS {
            let value = db.get(key(thread, number)).unwrap();
            let expected = model.get(&number).map(String::as_bytes);
            assert_eq!(value.as_deref(), expected, "round {round}, key {number}");
        }
    }
    let findings = db.verify(&mut |_, _| {}).unwrap().findings;
    assert!(findings.is_empty(), "round {round}: {findings:?}");
}

#[test]
fn what_a_killed_process_promised_is_there() {
    let kills: u64 = std::env::var("CRIBA_KILLS").map_or(30, |kills| kills.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let mut models: [[Model; THREADS]; 4] = Default::default();
    let mut random = Random(0x5eed);
    let (mut done, mut kept, mut flushed) = (0, 0, 0);
    for round in 1..=kills {
        let which = (round % models.len() as u64) as usize;
        let store = directory.path().join(format!("store{which}"));
        let after = Duration::from_micros(random.below(200_000));
        let promise = run_and_kill(&store, round, after);
        check(&store, &mut models[which], (round, promise));
        done += promise.done.iter().sum::<u64>();
        kept += promise.kept.iter().sum::<u64>();
        flushed += u64::from(has_segments(&store));
    }
    writeln!(
        std::io::stderr(),
        "kills: {kills}, {done} acknowledged batches, {kept} of them promised, all of these found"
    )
    .unwrap();
    // How far a child comes within its time is a matter of luck on a busy machine.
    assert!(
        kept > 0 && done > kept && flushed > 0,
        "{done} {kept} {flushed}"
    );
}

fn has_segments(store: &Path) -> bool {
    let names = std::fs::read_dir(store).into_iter().flatten();
    names
        .map(|entry| entry.unwrap().path())
        .any(|path| path.extension().is_some_and(|extension| extension == "seg"))
}
