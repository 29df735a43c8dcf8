//! A process that is killed: every write that it acknowledged is found.
//!
//! The test binary runs itself as a child, which writes, flushes, compacts and reopens, and says
//! over a pipe what it has done; it is killed with SIGKILL at a random moment, over and over on the
//! same few stores. `CRIBA_KILLS=500` kills as often.

use std::collections::BTreeMap;
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

/// Keys are few, so that most writes overwrite.
const KEYS: u64 = 400;

/// Small enough that a few hundred writes flush and compact many times.
fn builder(path: &Path) -> Builder {
    Db::builder(path)
        .memtable_bytes(64 << 10)
        .segment_bytes(64 << 10)
        .level_base_bytes(64 << 10)
        .level0_runs(2)
        .level_ratio(2)
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

type Change = (u64, Option<String>);

/// The batch number `n` of a round: keys and their values, `None` for a delete. A later change of
/// a key within the batch wins.
fn batch_of(round: u64, n: u64) -> Vec<Change> {
    let mut random = Random(round << 32 | n);
    let count = 1 + random.below(8);
    let change = |at| {
        let key = random.below(KEYS);
        let value = format!("{round} {n} {at} ").repeat(1 + random.below(40) as usize);
        (key, (random.below(4) > 0).then_some(value))
    };
    (0..count).map(change).collect()
}

fn key(number: u64) -> String {
    format!("key{number:04}")
}

/// Not a test of its own: without the variable it does nothing, with it it never ends by itself.
#[test]
fn the_child_writes_until_it_is_killed() {
    let Some(store) = std::env::var_os(STORE) else {
        return;
    };
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let path = Path::new(&store);
    let mut db = builder(path).open().unwrap();
    let mut random = Random(!round);
    // Not through the harness, which may hold lines back.
    let mut acknowledge = std::fs::OpenOptions::new()
        .write(true)
        .open("/proc/self/fd/1")
        .unwrap();
    acknowledge.write_all(b"open\n").unwrap();
    for n in 0.. {
        let mut batch = db.batch();
        for (number, value) in batch_of(round, n) {
            match value {
                Some(value) => batch.put(key(number), value),
                None => batch.delete(key(number)),
            };
        }
        let durability = match random.below(3) {
            0 => Durability::Sync,
            _ => Durability::Process,
        };
        batch.commit_with(durability).unwrap();
        acknowledge
            .write_all(format!("done {n}\n").as_bytes())
            .unwrap();
        match random.below(200) {
            0 => db.flush().unwrap(),
            1 => db.compact_all().unwrap().wait().unwrap(),
            2 => {
                db.close().unwrap();
                db = builder(path).open().unwrap();
            }
            3 => drop(db.rebuild_filters::<&str>(..).unwrap()),
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

/// Runs a child for about so long and kills it. Returns how many batches it acknowledged.
fn run_and_kill(store: &Path, round: u64, after: Duration) -> u64 {
    let mut child = start(store, round);
    let pipe = BufReader::new(child.stdout.take().unwrap());
    let (opened, is_open) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut acknowledged = 0;
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
                opened.send(()).unwrap();
            }
            if let Some(n) = line.strip_prefix("done ") {
                assert_eq!(n.parse(), Ok(acknowledged), "{line}");
                acknowledged += 1;
            }
        }
        acknowledged
    });
    // Some are killed while they open the store.
    if after > Duration::from_millis(20) {
        let waited = is_open.recv_timeout(Duration::from_secs(60));
        assert!(waited.is_ok(), "the child could not open the store");
    }
    // Nothing comes here any more: it is a wait that the end of the child would cut short.
    is_open.recv_timeout(after).ok();
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

fn content(db: &Db) -> Model {
    let number = |key: &[u8]| std::str::from_utf8(&key[3..]).unwrap().parse().unwrap();
    db.iter()
        .map(|entry| entry.unwrap())
        .map(|(key, value)| (number(&key), String::from_utf8(value.to_vec()).unwrap()))
        .collect()
}

/// What is in the store: all that was acknowledged, and of what was under way all or nothing.
fn check(store: &Path, model: &mut Model, (round, acknowledged): (u64, u64)) {
    for n in 0..acknowledged {
        apply(model, batch_of(round, n));
    }
    let opened = builder(store)
        .create(Create::Never)
        .access(Access::ReadOnly)
        .open();
    let db = match opened {
        Ok(db) => db,
        // Killed before the store was made.
        Err(criba::Error::NotAStore { .. }) if model.is_empty() => return,
        Err(error) => panic!("round {round}: {error}"),
    };
    let found = content(&db);
    if found != *model {
        // Written, but killed before it could say so.
        apply(model, batch_of(round, acknowledged));
        assert!(found == *model, "round {round}, {acknowledged} batches");
    }
    for number in 0..KEYS {
        let value = db.get(key(number)).unwrap();
        let expected = model.get(&number).map(String::as_bytes);
        assert_eq!(value.as_deref(), expected, "round {round}, key {number}");
    }
    let findings = db.verify(&mut |_, _| {}).unwrap().findings;
    assert!(findings.is_empty(), "round {round}: {findings:?}");
}

#[test]
fn what_a_killed_process_acknowledged_is_there() {
    let kills: u64 = std::env::var("CRIBA_KILLS").map_or(24, |kills| kills.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let mut models = [Model::new(), Model::new(), Model::new()];
    let mut random = Random(0x5eed);
    let (mut batches, mut flushed) = (0, 0);
    for round in 1..=kills {
        let which = (round % models.len() as u64) as usize;
        let store = directory.path().join(format!("store{which}"));
        let after = Duration::from_micros(random.below(200_000));
        let acknowledged = run_and_kill(&store, round, after);
        check(&store, &mut models[which], (round, acknowledged));
        batches += acknowledged;
        flushed += u64::from(has_segments(&store));
    }
    writeln!(
        std::io::stderr(),
        "kills: {kills}, {batches} acknowledged batches, all found"
    )
    .unwrap();
    // How far a child comes within its time is a matter of luck on a busy machine.
    assert!(batches > 0 && flushed > 0, "{batches} {flushed}");
}

fn has_segments(store: &Path) -> bool {
    let names = std::fs::read_dir(store).into_iter().flatten();
    names
        .map(|entry| entry.unwrap().path())
        .any(|path| path.extension().is_some_and(|extension| extension == "seg"))
}
