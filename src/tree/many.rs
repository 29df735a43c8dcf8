//! The way of many keys that are looked up together.
//!
//! Each key takes the way of a single one (`tree/lookup.rs`) until it ends or needs a block that is
//! not in memory. The blocks that the keys need are then read with one call, and the keys go on.
//! A key that needs a further block, in an older run or because the first one did not have it, waits
//! for the next round.

use crate::error::{Error, Result};
use crate::key::Sequence;
use crate::segment::{FetchedBlocks, Hit, Needs, Wanted};
use crate::slice::Slice;

use super::explain::{Asked, Observer, Silent, Source};
use super::state::Tree;
use super::stop::Stop;
use super::view::View;

/// Keys that wait for blocks at one time, at most, and bytes of these blocks from which on no further
/// key is begun: what was read stays in memory until all of these keys have ended.
const WAITING_MAX: usize = 1 << 10;
const WAITING_BYTES: u64 = 16 << 20;

/// Keeps where a lookup has stopped.
#[derive(Default)]
struct Stopping(Option<Stop>);

impl Observer for Stopping {
    const WATCHES: bool = false;

    fn begin(&mut self) {}
    fn memtable(&mut self, _: Source, _: Option<&Hit>) {}
    fn run(&mut self, _: Source, _: Option<&Asked<'_>>) {}

    fn stopped(&mut self, stop: Stop) {
        self.0 = Some(stop);
    }

    fn gathered(&mut self, operands: Vec<Slice>) {
        if let Some(stop) = &mut self.0 {
            stop.operands = operands;
        }
    }
}

/// Keys that are looked up together, and how far they are.
struct Many<'a, K> {
    tree: &'a Tree,
    view: &'a View,
    sequence: Sequence,
    keys: &'a [K],
    found: Vec<Option<Slice>>,
    /// Of the keys that have failed, the first.
    failed: Option<(usize, Error)>,
    /// Keys, by their number, that need blocks, and these.
    waiting: Vec<(usize, Stop)>,
    needs: Needs<'a>,
    fetched: FetchedBlocks,
}

impl<K: AsRef<[u8]>> Many<'_, K> {
    fn look_up(mut self) -> Result<Vec<Option<Slice>>> {
        for number in 0..self.keys.len() {
            let mut stopping = Stopping::default();
            let hit = self
                .tree
                .lookup(self.view, self.wanted(number), &mut stopping);
            self.take(number, hit, stopping);
            if self.failed.is_some() {
                break;
            }
            if self.waiting.len() == WAITING_MAX || self.needs.bytes() >= WAITING_BYTES {
                self.go_on();
            }
        }
        self.go_on();
        match self.failed {
            Some((_, error)) => Err(error),
            None => Ok(self.found),
        }
    }

    fn wanted(&self, number: usize) -> Wanted<'_> {
        let key = self.keys.get(number).map_or(&[][..], AsRef::as_ref);
        Wanted {
            fetched: Some(&self.fetched),
            ..self.tree.wanted(key, self.sequence)
        }
    }

    /// Takes the end of a lookup, or lets the key wait.
    fn take(&mut self, number: usize, hit: Result<Option<Hit>>, stopping: Stopping) {
        if let Some(stop) = stopping.0 {
            let key = self.keys.get(number).map_or(&[][..], AsRef::as_ref);
            let run = self.view.version.runs().get(stop.run);
            if let Some(segment) = run.and_then(|run| run.find(key)) {
                self.needs.add(segment, stop.need);
            }
            self.waiting.push((number, stop));
            return;
        }
        match hit {
            Ok(hit) => {
                if let Some(found) = self.found.get_mut(number) {
                    *found = hit.and_then(Hit::into_value);
                }
            }
            Err(error) => {
                if self
                    .failed
                    .as_ref()
                    .is_none_or(|(first, _)| number < *first)
                {
                    self.failed = Some((number, error));
                }
            }
        }
    }

    /// Brings all keys that wait to their ends.
    fn go_on(&mut self) {
        while !self.waiting.is_empty() {
            let needs = std::mem::take(&mut self.needs);
            self.fetched.fetch(&needs, self.tree.caches());
            for (number, stop) in std::mem::take(&mut self.waiting) {
                let mut stopping = Stopping::default();
                let hit = self
                    .tree
                    .go_on(self.view, self.wanted(number), stop, &mut stopping);
                self.take(number, hit, stopping);
            }
        }
        self.fetched.clear();
    }
}

impl Tree {
    /// The values of `keys`, all as of the sequence that `at` gives once the view is held.
    pub(crate) fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        at: impl FnOnce() -> Sequence,
    ) -> Result<Vec<Option<Slice>>> {
        // In this order, as in `get`.
        let view = self.view();
        self.check(&view)?;
        let sequence = at();
        if let [key] = keys {
            let wanted = self.wanted(key.as_ref(), sequence);
            let hit = self.lookup(&view, wanted, &mut Silent)?;
            return Ok(vec![hit.and_then(Hit::into_value)]);
        }
        let many = Many {
            tree: self,
            view: &view,
            sequence,
            keys,
            found: vec![None; keys.len()],
            failed: None,
            waiting: Vec::new(),
            needs: Needs::default(),
            fetched: FetchedBlocks::default(),
        };
        many.look_up()
    }
}
