//! The way of a point lookup: memtables, then runs, newest first.
//!
//! A lookup has two steps, so that what the second one reads arrives while others are asked: the
//! first [`Candidate`]s are begun in all runs, then memtables and runs are asked in turn. What
//! happens within a segment is in `segment/lookup.rs`.
//!
//! A lookup ends with the first entry of the key, unless that is an operand: then it goes on, in the
//! same memtable or segment and in all older ones, until it meets a value or a tombstone. That way
//! is apart from the one of all other lookups, which it does not slow down.

use crate::error::Result;
use crate::key::{Kind, Sequence};
use crate::memtable::Memtable;
use crate::segment::{Hit, Lookup, Segment, Wanted};
use crate::slice::Slice;
use crate::version::Run;
use criba_filters::segment::Begun;
use criba_filters::{KeyHash, hash_key};

use super::counters::BlocksRead;
use super::explain::{Account, Asked, Explanation, Observer, Silent, Source};
use super::state::Tree;
use super::stop::Stop;
use super::view::View;

/// Runs that are asked as if at once: the filters of later ones are on their way while the first is
/// asked.
const RUNS_AT_ONCE: usize = 12;

/// The segment of a run that can hold the key, and the first step of the lookup in it.
#[derive(Clone, Copy, Default)]
struct Candidate<'a> {
    segment: Option<&'a Segment>,
    begun: Begun,
}

impl<'a> Candidate<'a> {
    /// Begins to ask the run.
    #[inline]
    fn begin(&mut self, run: &'a Run, hash: KeyHash, key: &[u8]) {
        if let Some(segment) = run.find(key) {
            self.segment = Some(segment);
            segment.begin(hash, &mut self.begun);
        }
    }
}

/// A lookup that has met operands, or gathers them.
struct Asking<'a, O> {
    wanted: Wanted<'a>,
    observer: &'a mut O,
    /// What was met so far, newest first.
    operands: Vec<Slice>,
    read: BlocksRead,
}

// One key.
impl Tree {
    /// The value of `key` as of the sequence that `at` gives once the view is held.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], at: impl FnOnce() -> Sequence) -> Result<Option<Slice>> {
        let view = self.view();
        self.check(&view)?;
        // After the view: what is visible by now is in it, or came later than this lookup. The
        // other order would lose keys to a flush in between: `tests/it/interleavings.rs`.
        let sequence = at();
        let hit = self.lookup(&view, self.wanted(key, sequence), &mut Silent)?;
        Ok(hit.and_then(Hit::into_value))
    }

    #[inline]
    pub(super) fn wanted<'a>(&self, key: &'a [u8], sequence: Sequence) -> Wanted<'a> {
        Wanted {
            hash: hash_key(self.hash_seed(), key),
            key,
            sequence,
            fetched: None,
        }
    }

    pub(super) fn lookup<O: Observer>(
        &self,
        view: &View,
        wanted: Wanted<'_>,
        observer: &mut O,
    ) -> Result<Option<Hit>> {
        // Few runs, as most trees have, are not to cost what many do.
        match view.version.runs().len() {
            ..=1 => self.lookup_at_once::<O, 1>(view, wanted, observer),
            2..=4 => self.lookup_at_once::<O, 4>(view, wanted, observer),
            _ => self.lookup_at_once::<O, RUNS_AT_ONCE>(view, wanted, observer),
        }
    }

    /// Asks the memtables, then the runs. The first `N` runs have begun before: what is prefetched
    /// arrives meanwhile.
    #[inline]
    fn lookup_at_once<O: Observer, const N: usize>(
        &self,
        view: &View,
        wanted: Wanted<'_>,
        observer: &mut O,
    ) -> Result<Option<Hit>> {
        let mut begun = [Candidate::default(); N];
        for (candidate, run) in begun.iter_mut().zip(view.version.runs()) {
            candidate.begin(run, wanted.hash, wanted.key);
        }
        if let Some(hit) = lookup_memtables(view, wanted, observer) {
            if hit.kind == Kind::Operand {
                return self.combine_from_memtables(view, wanted, observer);
            }
            self.lookups().memtable_hit();
            return Ok(Some(hit));
        }
        self.lookup_runs(view.version.runs(), &begun, wanted, observer)
    }

    /// Ends what was begun in the first runs, and asks the others.
    #[inline]
    fn lookup_runs<O: Observer>(
        &self,
        runs: &[Run],
        begun: &[Candidate<'_>],
        wanted: Wanted<'_>,
        observer: &mut O,
    ) -> Result<Option<Hit>> {
        let mut read = BlocksRead::default();
        for (ordinal, run) in runs.iter().enumerate() {
            observer.begin();
            let mut other;
            let candidate = match begun.get(ordinal) {
                Some(candidate) => candidate,
                None => {
                    other = Candidate::default();
                    other.begin(run, wanted.hash, wanted.key);
                    &other
                }
            };
            let place = (ordinal, run.level);
            if let Some(hit) = self.ask_run(place, candidate, wanted, (observer, &mut read))? {
                if hit.kind == Kind::Operand {
                    let operands = Vec::new();
                    let asking = Asking {
                        wanted,
                        observer,
                        operands,
                        read,
                    };
                    return self.combine_from_runs(asking, runs, ordinal, hit);
                }
                self.lookups().in_runs(true, read);
                return Ok(Some(hit));
            }
        }
        self.lookups().in_runs(false, read);
        Ok(None)
    }

    /// Ends what was begun in a run: its ordinal and level.
    #[inline(always)]
    fn ask_run<O: Observer>(
        &self,
        (run, level): (usize, u32),
        candidate: &Candidate<'_>,
        wanted: Wanted<'_>,
        (observer, read): (&mut O, &mut BlocksRead),
    ) -> Result<Option<Hit>> {
        let Some(segment) = candidate.segment else {
            observer.run(Source::NoSegment { run, level }, None);
            return Ok(None);
        };
        let mut lookup = Lookup::new(wanted, self.caches());
        let hit = match O::WATCHES {
            true => segment.lookup::<true>(&candidate.begun, &mut lookup),
            false => segment.lookup::<false>(&candidate.begun, &mut lookup),
        };
        let hit = match hit {
            Ok(hit) => hit,
            Err(error) => {
                note_stop(run, lookup, *read, observer);
                return Err(error);
            }
        };
        let id = segment.meta.id;
        let asked = Asked {
            segment,
            cost: &lookup.cost,
            hit: hit.as_ref(),
        };
        observer.run(Source::Segment { run, level, id }, Some(&asked));
        read.add(&lookup.cost);
        Ok(hit)
    }

    /// Goes on with a lookup that has stopped, now that what it needs was read.
    pub(super) fn go_on<O: Observer>(
        &self,
        view: &View,
        wanted: Wanted<'_>,
        stop: Stop,
        observer: &mut O,
    ) -> Result<Option<Hit>> {
        let mut asking = Asking {
            wanted,
            observer,
            operands: stop.operands,
            read: stop.read,
        };
        let runs = view.version.runs();
        let mut base = None;
        if let Some(segment) = runs.get(stop.run).and_then(|run| run.find(wanted.key)) {
            let mut lookup = Lookup::new(wanted, self.caches());
            lookup.cost = stop.cost;
            match segment.go_on(&mut lookup) {
                Ok(hit) => {
                    asking.read.add(&lookup.cost);
                    base = hit.and_then(|hit| asking.take(hit));
                }
                Err(error) => {
                    note_stop(stop.run, lookup, asking.read, asking.observer);
                    asking.observer.gathered(asking.operands);
                    return Err(error);
                }
            }
        }
        if base.is_some() {
            self.lookups().in_runs(true, asking.read);
        } else {
            base = self.gather_from_runs(runs, stop.run + 1, &mut asking)?;
        }
        match asking.operands.is_empty() {
            true => Ok(base),
            false => self.combined(&asking, base),
        }
    }
}

/// Tells the observer of a lookup that has stopped in this run, if it has.
#[cold]
fn note_stop<O: Observer>(run: usize, lookup: Lookup<'_>, read: BlocksRead, observer: &mut O) {
    if let Some(need) = lookup.need {
        observer.stopped(Stop {
            run,
            need,
            cost: lookup.cost,
            read,
            operands: Vec::new(),
        });
    }
}

// The way of a lookup that meets operands.
impl Tree {
    /// Goes on with a lookup that has met an operand in a memtable.
    #[cold]
    #[inline(never)]
    fn combine_from_memtables<O: Observer>(
        &self,
        view: &View,
        wanted: Wanted<'_>,
        observer: &mut O,
    ) -> Result<Option<Hit>> {
        let mut asking = Asking {
            wanted,
            observer,
            operands: Vec::new(),
            read: BlocksRead::default(),
        };
        let base = self.gather(view, &mut asking)?;
        self.combined(&asking, base)
    }

    /// Goes on with a lookup that has met an operand in this run.
    #[cold]
    #[inline(never)]
    fn combine_from_runs<O: Observer>(
        &self,
        mut asking: Asking<'_, O>,
        runs: &[Run],
        ordinal: usize,
        hit: Hit,
    ) -> Result<Option<Hit>> {
        let base = match asking.take(hit) {
            Some(base) => {
                self.lookups().in_runs(true, asking.read);
                Some(base)
            }
            None => self.gather_from_runs(runs, ordinal + 1, &mut asking)?,
        };
        self.combined(&asking, base)
    }

    fn combined<O>(&self, asking: &Asking<'_, O>, base: Option<Hit>) -> Result<Option<Hit>> {
        let base = base.and_then(Hit::into_value);
        let value = self.combine(asking.wanted.key, base.as_ref(), &asking.operands)?;
        Ok(Some(Hit::of(Kind::Value, value)))
    }

    /// Gathers operands from the newest memtable on. Returns what they stand on, or the value or
    /// tombstone of a key that has none.
    fn gather<O: Observer>(&self, view: &View, asking: &mut Asking<'_, O>) -> Result<Option<Hit>> {
        match asking.memtables(view) {
            Some(base) => {
                self.lookups().memtable_hit();
                Ok(Some(base))
            }
            None => self.gather_from_runs(view.version.runs(), 0, asking),
        }
    }

    /// The same from a run on.
    fn gather_from_runs<O: Observer>(
        &self,
        runs: &[Run],
        first: usize,
        asking: &mut Asking<'_, O>,
    ) -> Result<Option<Hit>> {
        let wanted = asking.wanted;
        let mut base = None;
        for (ordinal, run) in runs.iter().enumerate().skip(first) {
            asking.observer.begin();
            let mut candidate = Candidate::default();
            candidate.begin(run, wanted.hash, wanted.key);
            let place = (ordinal, run.level);
            let account = (&mut *asking.observer, &mut asking.read);
            let asked = self.ask_run(place, &candidate, wanted, account);
            if asked.is_err() {
                (asking.observer).gathered(std::mem::take(&mut asking.operands));
            }
            if let Some(hit) = asked? {
                base = asking.take(hit);
                if base.is_some() {
                    break;
                }
            }
        }
        let is_hit = base.is_some() || !asking.operands.is_empty();
        self.lookups().in_runs(is_hit, asking.read);
        Ok(base)
    }
}

impl<O: Observer> Asking<'_, O> {
    /// Takes the operands that a segment has; what they stand on there, if it is there.
    fn take(&mut self, newest: Hit) -> Option<Hit> {
        let mut hit = newest;
        let older = hit.older.take().map_or_else(Vec::new, <[Hit]>::into_vec);
        for hit in std::iter::once(hit).chain(older) {
            if hit.kind != Kind::Operand {
                return Some(hit);
            }
            self.operands.push(hit.value);
        }
        None
    }

    /// Gathers from the memtables. The first that has the key has been shown to the observer already,
    /// with those before it.
    fn memtables(&mut self, view: &View) -> Option<Hit> {
        let Wanted {
            hash,
            key,
            sequence,
            ..
        } = self.wanted;
        let sealed = view.sealed.iter().enumerate();
        let sealed = sealed.map(|(ordinal, one)| (one, Source::SealedMemtable(ordinal)));
        let mut is_shown = true;
        for (table, source) in std::iter::once((&view.active, Source::ActiveMemtable)).chain(sealed)
        {
            self.observer.begin();
            let hit = table.get(hash, key, sequence);
            let hit = hit.map(|(kind, value)| Hit::of(kind, value));
            if !is_shown {
                self.observer.memtable(source, hit.as_ref());
            }
            let Some(hit) = hit else { continue };
            is_shown = false;
            if hit.kind != Kind::Operand {
                return Some(hit);
            }
            let base = table.operands(key, sequence, &mut self.operands);
            if let Some((kind, value)) = base {
                return Some(Hit::of(kind, value));
            }
        }
        None
    }
}

#[inline]
fn lookup_memtables<O: Observer>(view: &View, wanted: Wanted<'_>, observer: &mut O) -> Option<Hit> {
    let mut ask = |table: &Memtable, source: Source| {
        observer.begin();
        let hit = table
            .get(wanted.hash, wanted.key, wanted.sequence)
            .map(|(kind, value)| Hit::of(kind, value));
        observer.memtable(source, hit.as_ref());
        hit
    };
    if let Some(hit) = ask(&view.active, Source::ActiveMemtable) {
        return Some(hit);
    }
    let mut sealed = view.sealed.iter().enumerate();
    sealed.find_map(|(ordinal, sealed)| ask(sealed, Source::SealedMemtable(ordinal)))
}

// Operands as they are, and lookups that are explained.
impl Tree {
    /// The value of a key and its operands, oldest first, as they are.
    pub(crate) fn operands(
        &self,
        key: &[u8],
        at: impl FnOnce() -> Sequence,
    ) -> Result<(Option<Slice>, Vec<Slice>)> {
        let view = self.view();
        let sequence = at();
        let mut asking = Asking {
            wanted: self.wanted(key, sequence),
            observer: &mut Silent,
            operands: Vec::new(),
            read: BlocksRead::default(),
        };
        let base = self.gather(&view, &mut asking)?.and_then(Hit::into_value);
        asking.operands.reverse();
        Ok((base, asking.operands))
    }

    /// Looks a key up and keeps an account of it.
    pub(crate) fn explain(&self, key: &[u8], at: impl FnOnce() -> Sequence) -> Result<Explanation> {
        let view = self.view();
        self.check(&view)?;
        let sequence = at();
        let mut account = Account::default();
        let hit = self.lookup(&view, self.wanted(key, sequence), &mut account)?;
        Ok(account.finish(key, hit.and_then(Hit::into_value)))
    }
}
