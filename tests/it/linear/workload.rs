//! Threads that use a store in every way and write down what they did and saw.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use criba::{Db, Iter, Slice, Snapshot};

use super::check::{Effect, Operation, Seen, Span, check_prefixes, is_linearizable};
use super::subject::Subject;

/// Keys that all threads write, read and delete.
const KEYS: u64 = 4;

/// Keys of one batch: far apart, so that they lie in different segments.
const TOGETHER: [&str; 3] = ["a together", "m together", "z together"];

/// What one thread wrote down.
#[derive(Debug, Default)]
struct Log {
    registers: BTreeMap<String, Vec<Operation>>,
    /// Of its own numbered writes.
    writes: Vec<Span>,
    seen: Vec<Seen>,
}

struct Worker<'a> {
    subject: &'a Subject,
    clock: &'a AtomicU64,
    threads: u64,
    thread: u64,
    random: u64,
    /// Value of the last write.
    last: u64,
    /// First and last entry of its queue.
    queue: (u64, u64),
    held: Vec<(Span, Snapshot, Option<Vec<u64>>)>,
    iterators: Vec<(Span, Iter)>,
    log: Log,
}

/// Runs the threads and checks what they saw.
pub(super) fn run(subject: &Subject, threads: u64, steps: u64, seed: u64) -> Result<(), String> {
    let clock = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let logs: Vec<Log> = std::thread::scope(|scope| {
        let spawn = |thread| {
            let mut worker = Worker {
                subject,
                clock: &clock,
                threads,
                thread,
                random: (seed ^ (thread + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
                last: 0,
                queue: (0, 0),
                held: Vec::new(),
                iterators: Vec::new(),
                log: Log::default(),
            };
            scope.spawn(move || {
                (0..steps).for_each(|_| worker.step());
                worker.end();
                worker.log
            })
        };
        let workers: Vec<_> = (0..threads).map(spawn).collect();
        let settling = scope.spawn(|| settle(&subject.db, &stop));
        let logs = workers.into_iter().map(|worker| worker.join().unwrap());
        let logs = logs.collect();
        stop.store(true, Ordering::Relaxed);
        settling.join().unwrap();
        logs
    });
    check(&logs)
}

/// Flushes and merges all the time.
fn settle(db: &Db, stop: &AtomicBool) {
    for round in 1_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        db.flush().unwrap();
        if round % 8 == 0 {
            db.compact_all().unwrap().wait().unwrap();
        }
    }
}

fn check(logs: &[Log]) -> Result<(), String> {
    let mut names: Vec<&String> = logs.iter().flat_map(|log| log.registers.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let calls = |log: &Log| {
            let mut calls = log.registers.get(name).cloned().unwrap_or_default();
            // What snapshots and iterators show is noted when they are read.
            calls.sort_by_key(|call| call.span.invoked);
            calls
        };
        let threads: Vec<Vec<Operation>> = logs.iter().map(calls).collect();
        if !is_linearizable(&threads) {
            return Err(format!("{name} is not linearizable"));
        }
    }
    let writes: Vec<Vec<Span>> = logs.iter().map(|log| log.writes.clone()).collect();
    let seen: Vec<Seen> = logs.iter().flat_map(|log| log.seen.clone()).collect();
    check_prefixes(&writes, &seen)
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

fn own_key(thread: u64) -> String {
    format!("own/{thread}")
}

impl Worker<'_> {
    fn step(&mut self) {
        let key = self.next() % KEYS;
        match self.next() % 16 {
            0 | 1 => self.put(key),
            2 => self.delete(key),
            3..=5 => self.get(key),
            6 => self.scan(key),
            7 => self.put_own(),
            8 => self.put_together(),
            9 => self.take_snapshot(),
            10 => self.read_snapshot(),
            11 => self.begin_iterator(),
            12 => self.drain_iterator(),
            13 | 14 => self.turn_queue(),
            _ => self.first_of_a_queue(),
        }
    }

    fn end(&mut self) {
        while !self.held.is_empty() {
            self.read_snapshot();
        }
        while !self.iterators.is_empty() {
            self.drain_iterator();
        }
    }

    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 20
    }

    /// A value that nobody else writes, with something behind it to fill memtables.
    fn value(&mut self) -> (u64, Vec<u8>) {
        self.last += 1;
        let value = self.thread << 32 | self.last;
        let mut bytes = value.to_le_bytes().to_vec();
        bytes.resize(8 + self.next() as usize % 400, 7);
        (value, bytes)
    }

    fn timed<T>(&self, call: impl FnOnce() -> T) -> (Span, T) {
        let invoked = self.clock.fetch_add(1, Ordering::SeqCst);
        let result = call();
        let returned = self.clock.fetch_add(1, Ordering::SeqCst);
        (Span { invoked, returned }, result)
    }

    fn note(&mut self, register: String, span: Span, effect: Effect) {
        let calls = self.log.registers.entry(register).or_default();
        calls.push(Operation { span, effect });
    }

    fn put(&mut self, key: u64) {
        let key = format!("key/{key}");
        let (value, bytes) = self.value();
        let (span, ()) = self.timed(|| self.subject.db.put(&key, &bytes).unwrap());
        self.note(key, span, Effect::Write(Some(value)));
    }

    fn delete(&mut self, key: u64) {
        let key = format!("key/{key}");
        let (span, ()) = self.timed(|| self.subject.db.delete(&key).unwrap());
        self.note(key, span, Effect::Write(None));
    }

    fn get(&mut self, key: u64) {
        let key = format!("key/{key}");
        let (span, found) = self.timed(|| self.subject.get(&key));
        self.note(key, span, Effect::Read(found.as_deref().map(number)));
    }

    fn scan(&mut self, key: u64) {
        let key = format!("key/{key}");
        let (span, found) = self.timed(|| self.subject.first(&key));
        self.note(
            key,
            span,
            Effect::Read(found.map(|(_, value)| number(&value))),
        );
    }

    fn numbered(&mut self, span: Span) {
        self.log.writes.push(span);
    }

    fn put_own(&mut self) {
        let written = self.log.writes.len() as u64 + 1;
        let key = own_key(self.thread);
        let put = || self.subject.db.put(key, written.to_le_bytes()).unwrap();
        let (span, ()) = self.timed(put);
        self.numbered(span);
    }

    fn put_together(&mut self) {
        let written = self.log.writes.len() as u64 + 1;
        let (value, bytes) = self.value();
        let mut entries = vec![(own_key(self.thread), written.to_le_bytes().to_vec())];
        entries.extend(TOGETHER.map(|key| (key.to_owned(), bytes.clone())));
        let (span, ()) = self.timed(|| self.subject.commit(&entries));
        self.numbered(span);
        self.note("together".into(), span, Effect::Write(Some(value)));
    }

    fn take_snapshot(&mut self) {
        let (span, snapshot) = self.timed(|| self.subject.snapshot());
        self.held.push((span, snapshot, None));
        if self.held.len() > 8 {
            self.read_snapshot();
        }
    }

    /// Reads one of the snapshots, new or old, by its keys or as a whole; now and then again.
    fn read_snapshot(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = self.next() as usize % self.held.len();
        let (span, snapshot, before) = self.held.swap_remove(at);
        let mut found = BTreeMap::new();
        if self.next().is_multiple_of(2) {
            for thread in 0..self.threads {
                let key = own_key(thread);
                found.extend(snapshot.get(&key).unwrap().map(|value| (key, value)));
            }
            for key in TOGETHER {
                let value = snapshot.get(key).unwrap();
                found.extend(value.map(|value| (key.to_owned(), value)));
            }
        } else {
            found = collect(snapshot.iter());
        }
        let numbers = self.saw(span, &found, before.is_none());
        assert!(
            before.is_none_or(|before| before == numbers),
            "a snapshot has changed"
        );
        if self.next().is_multiple_of(4) {
            self.held.push((span, snapshot, Some(numbers)));
        }
    }

    fn begin_iterator(&mut self) {
        let (span, iterator) = self.timed(|| self.subject.db.iter());
        self.iterators.push((span, iterator));
        if self.iterators.len() > 8 {
            self.drain_iterator();
        }
    }

    fn drain_iterator(&mut self) {
        if self.iterators.is_empty() {
            return;
        }
        let at = self.next() as usize % self.iterators.len();
        let (span, iterator) = self.iterators.swap_remove(at);
        let found = if self.next().is_multiple_of(2) {
            collect(iterator)
        } else {
            collect(iterator.rev())
        };
        self.saw(span, &found, true);
    }

    /// Notes what a snapshot shows of all threads and of their batches.
    fn saw(&mut self, span: Span, found: &BTreeMap<String, Slice>, is_new: bool) -> Vec<u64> {
        let number_of = |key: &str| found.get(key).map(|value| number(value));
        let numbers = (0..self.threads).map(|thread| number_of(&own_key(thread)).unwrap_or(0));
        let numbers: Vec<u64> = numbers.collect();
        let [first, second, third] = TOGETHER.map(number_of);
        if is_new {
            // A batch that is torn is one that no order explains.
            let is_whole = first == second && second == third;
            let batch = if is_whole { first } else { Some(u64::MAX) };
            self.note("together".into(), span, Effect::Read(batch));
            let numbers = numbers.clone();
            self.log.seen.push(Seen { span, numbers });
        }
        numbers
    }

    /// Puts at the end of its own queue or takes from its front; either way the queue moves on.
    fn turn_queue(&mut self) {
        let (first, last) = self.queue;
        let key = |n: u64| format!("queue/{}/{n:08}", self.thread);
        let span = if first < last && (last - first > 3 || self.random.is_multiple_of(2)) {
            self.queue.0 += 1;
            self.timed(|| self.subject.db.delete(key(first)).unwrap()).0
        } else {
            self.queue.1 += 1;
            let value = last.to_le_bytes();
            self.timed(|| self.subject.db.put(key(last), value).unwrap())
                .0
        };
        let front = (self.queue.0 < self.queue.1).then_some(self.queue.0);
        let register = format!("queue/{}", self.thread);
        self.note(register, span, Effect::Write(front));
    }

    fn first_of_a_queue(&mut self) {
        let register = format!("queue/{}", self.next() % self.threads);
        let prefix = format!("{register}/");
        let (span, found) = self.timed(|| self.subject.first(&prefix));
        let front = found.map(|(_, value)| number(&value));
        self.note(register, span, Effect::Read(front));
    }
}

fn collect(
    entries: impl Iterator<Item = criba::Result<(Slice, Slice)>>,
) -> BTreeMap<String, Slice> {
    let pair = |entry: criba::Result<(Slice, Slice)>| {
        let (key, value) = entry.unwrap();
        (String::from_utf8(key.to_vec()).unwrap(), value)
    };
    entries.map(pair).collect()
}
