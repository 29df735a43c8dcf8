//! The way of a point lookup: memtables, then runs, newest first.

use std::sync::Arc;
use std::time::Instant;

use crate::error::Result;
use crate::key::{Kind, Sequence};
use crate::memtable::Memtable;
use crate::segment::{Hit, Probe, Segment};
use crate::slice::Slice;
use crate::version::Run;
use criba_filters::segment::{Answer, Begun};
use criba_filters::{KeyHash, hash_key};

use super::explain::{Explanation, FilterOutcome, Outcome, Source, Step};
use super::shared::{Shared, View};

/// Is told of each step of a lookup. The empty one costs nothing.
trait Observer {
    /// Whether it wants to know more than who only looks a key up.
    const WATCHES: bool;
    /// A step begins.
    fn begin(&mut self);
    /// A memtable was asked.
    fn memtable(&mut self, source: Source, hit: Option<&Hit>);
    /// A run was asked: `None` when no segment of it covers the key.
    fn run(&mut self, source: Source, asked: Option<(&Segment, &Probe, Option<&Hit>)>);
}

struct Silent;

impl Observer for Silent {
    const WATCHES: bool = false;

    fn begin(&mut self) {}
    fn memtable(&mut self, _: Source, _: Option<&Hit>) {}
    fn run(&mut self, _: Source, _: Option<(&Segment, &Probe, Option<&Hit>)>) {}
}

impl Shared {
    /// The value of `key` as of `sequence`, or as of now.
    pub(crate) fn get(&self, key: &[u8], sequence: Option<Sequence>) -> Result<Option<Slice>> {
        let view = self.view.load();
        // After the view: what is visible by now is in it, or came later than this lookup. The
        // other order would lose keys to a flush in between: `tests/it/interleavings.rs`.
        let sequence = sequence.unwrap_or_else(|| self.visible());
        let hit = self.lookup(&view, key, sequence, &mut Silent)?;
        Ok(hit.and_then(value_of))
    }

    /// The values of `keys`, all as of `sequence`, or as of now.
    pub(crate) fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        sequence: Option<Sequence>,
    ) -> Result<Vec<Option<Slice>>> {
        // In this order, as in `get`.
        let view = self.view.load();
        let sequence = sequence.unwrap_or_else(|| self.visible());
        let runs = view.version.runs();
        let begun_runs = runs.get(..AT_ONCE).unwrap_or(runs);
        let mut asked = [(KeyHash(0), [].as_slice()); KEYS_AT_ONCE];
        let mut begun = Vec::with_capacity(begun_runs.len() * keys.len().min(KEYS_AT_ONCE));
        let mut values = Vec::with_capacity(keys.len());
        for keys in keys.chunks(KEYS_AT_ONCE) {
            begun.clear();
            for (asked, key) in asked.iter_mut().zip(keys) {
                let key = key.as_ref();
                *asked = (hash_key(self.hash_seed, key), key);
                for run in begun_runs {
                    begun.push(Candidate::default());
                    if let Some(candidate) = begun.last_mut() {
                        candidate.begin(run, *asked);
                    }
                }
            }
            let mut rest = begun.as_slice();
            for &key in asked.iter().take(keys.len()) {
                let (candidates, others) = rest.split_at(begun_runs.len());
                rest = others;
                let hit = self.lookup_begun((&view, candidates), key, sequence, &mut Silent)?;
                values.push(hit.and_then(value_of));
            }
        }
        Ok(values)
    }

    fn lookup<O: Observer>(
        &self,
        view: &View,
        key: &[u8],
        sequence: Sequence,
        observer: &mut O,
    ) -> Result<Option<Hit>> {
        let key = (hash_key(self.hash_seed, key), key);
        // Few runs, as most trees have, are not to cost what many do.
        match view.version.runs().len() {
            ..=1 => self.lookup_at_once::<O, 1>(view, key, sequence, observer),
            2..=4 => self.lookup_at_once::<O, 4>(view, key, sequence, observer),
            _ => self.lookup_at_once::<O, AT_ONCE>(view, key, sequence, observer),
        }
    }

    /// Begins to ask the first `N` runs before the memtables are asked: what is prefetched arrives
    /// meanwhile.
    #[inline]
    fn lookup_at_once<O: Observer, const N: usize>(
        &self,
        view: &View,
        key: (KeyHash, &[u8]),
        sequence: Sequence,
        observer: &mut O,
    ) -> Result<Option<Hit>> {
        let mut begun = [Candidate::default(); N];
        for (candidate, run) in begun.iter_mut().zip(view.version.runs()) {
            candidate.begin(run, key);
        }
        self.lookup_begun((view, &begun), key, sequence, observer)
    }

    /// Asks the memtables, and ends what was begun in the runs.
    #[inline]
    fn lookup_begun<O: Observer>(
        &self,
        (view, begun): (&View, &[Candidate<'_>]),
        (hash, key): (KeyHash, &[u8]),
        sequence: Sequence,
        observer: &mut O,
    ) -> Result<Option<Hit>> {
        if let Some(hit) = lookup_memtables(view, (hash, key), sequence, observer) {
            self.counters.lookups.memtable_hit();
            return Ok(Some(hit));
        }
        let runs = view.version.runs();
        self.lookup_runs((runs, begun), (hash, key), sequence, observer)
    }

    /// Ends what was begun in the first runs, and asks the others.
    #[inline]
    fn lookup_runs<O: Observer>(
        &self,
        (runs, begun): (&[Run], &[Candidate<'_>]),
        (hash, key): (KeyHash, &[u8]),
        sequence: Sequence,
        observer: &mut O,
    ) -> Result<Option<Hit>> {
        let mut read = (0, 0);
        for (ordinal, run) in runs.iter().enumerate() {
            observer.begin();
            let mut other;
            let candidate = match begun.get(ordinal) {
                Some(candidate) => candidate,
                None => {
                    other = Candidate::default();
                    other.begin(run, (hash, key));
                    &other
                }
            };
            let (run_ordinal, level) = (ordinal, run.level);
            let Some(segment) = candidate.segment else {
                observer.run(
                    Source::NoSegment {
                        run: run_ordinal,
                        level,
                    },
                    None,
                );
                continue;
            };
            let mut probe = Probe::default();
            let (key, caches) = ((hash, key), (&*self.caches, &mut probe));
            let hit = match O::WATCHES {
                true => segment.get::<true>(&candidate.begun, key, sequence, caches)?,
                false => segment.get::<false>(&candidate.begun, key, sequence, caches)?,
            };
            let source = Source::Segment {
                run: run_ordinal,
                level,
                id: segment.meta.id,
            };
            observer.run(source, Some((segment, &probe, hit.as_ref())));
            read.0 += probe.block_reads;
            read.1 += probe.block_bytes;
            if let Some(hit) = hit {
                self.counters.lookups.in_runs(true, read);
                return Ok(Some(hit));
            }
        }
        self.counters.lookups.in_runs(false, read);
        Ok(None)
    }

    /// Looks a key up and keeps an account of it.
    pub(crate) fn explain(&self, key: &[u8]) -> Result<Explanation> {
        let view = self.view.load();
        let sequence = self.visible();
        let mut account = Account::default();
        let hit = self.lookup(&view, key, sequence, &mut account)?;
        Ok(Explanation {
            key: Slice::from(key),
            value: hit.and_then(value_of),
            steps: account.steps,
            blocks_without_filters: account.covering,
        })
    }
}

fn value_of(hit: Hit) -> Option<Slice> {
    (hit.kind == Kind::Value).then_some(hit.value)
}

/// So many keys are asked for as if at once: the filters of all are on their way while the first is looked
/// up.
const KEYS_AT_ONCE: usize = 16;

/// So many runs are asked as if at once: the filters of later ones are on their way while the first is
/// asked.
const AT_ONCE: usize = 12;

/// The segment of a run that can hold the key, and what its filter told so far.
#[derive(Clone, Copy, Default)]
struct Candidate<'a> {
    segment: Option<&'a Segment>,
    begun: Begun,
}

impl<'a> Candidate<'a> {
    /// Begins to ask the run.
    #[inline]
    fn begin(&mut self, run: &'a Run, (hash, key): (KeyHash, &[u8])) {
        if let Some(segment) = run.find(key) {
            self.segment = Some(segment);
            segment.begin(hash, &mut self.begun);
        }
    }
}

#[inline]
fn lookup_memtables<O: Observer>(
    view: &View,
    (hash, key): (KeyHash, &[u8]),
    sequence: Sequence,
    observer: &mut O,
) -> Option<Hit> {
    let mut ask = |table: &Memtable, source: Source| {
        observer.begin();
        let hit = table
            .get(hash, key, sequence)
            .map(|(kind, value)| Hit { kind, value });
        observer.memtable(source, hit.as_ref());
        hit
    };
    if let Some(hit) = ask(&view.active, Source::ActiveMemtable) {
        return Some(hit);
    }
    let mut sealed = view.sealed.iter().enumerate();
    sealed.find_map(|(ordinal, sealed)| ask(&sealed.table, Source::SealedMemtable(ordinal)))
}

/// The account of an explained lookup.
#[derive(Default)]
struct Account {
    steps: Vec<Step>,
    started: Option<Instant>,
    /// Segments that cover the key: each costs a block without its filter.
    covering: u64,
}

fn found(hit: Option<&Hit>) -> Option<Outcome> {
    hit.map(|hit| match hit.kind {
        Kind::Value => Outcome::Found,
        Kind::Tombstone => Outcome::Deleted,
    })
}

impl Account {
    fn step(&self, source: Source) -> Step {
        Step {
            source,
            filter_kind: None,
            filter: FilterOutcome::NotAsked,
            filter_pages: 0,
            block: None,
            data_blocks: 0,
            block_reads: 0,
            from_cache: 0,
            read_bytes: 0,
            outcome: Outcome::Absent,
            took: self
                .started
                .map(|started| started.elapsed())
                .unwrap_or_default(),
        }
    }
}

impl Observer for Account {
    const WATCHES: bool = true;

    fn begin(&mut self) {
        self.started = Some(Instant::now());
    }

    fn memtable(&mut self, source: Source, hit: Option<&Hit>) {
        let mut step = self.step(source);
        step.outcome = found(hit).unwrap_or(Outcome::Absent);
        self.steps.push(step);
    }

    fn run(&mut self, source: Source, asked: Option<(&Segment, &Probe, Option<&Hit>)>) {
        let mut step = self.step(source);
        if let Some((segment, probe, hit)) = asked {
            self.covering += 1;
            step.filter_kind = segment.filter_kind();
            step.filter = filter_outcome(probe);
            step.filter_pages = probe.filter_pages;
            step.block = probe.block;
            step.data_blocks = probe.data_blocks;
            step.block_reads = probe.block_reads;
            step.from_cache = probe.from_cache;
            step.read_bytes = probe.read_bytes;
            step.outcome = match (found(hit), probe.data_blocks) {
                (Some(outcome), _) => outcome,
                (None, 0) => Outcome::Absent,
                (None, _) => Outcome::FalsePositive,
            };
        }
        self.steps.push(step);
    }
}

fn filter_outcome(probe: &Probe) -> FilterOutcome {
    match probe.answer {
        _ if probe.filter_damaged => FilterOutcome::Damaged,
        _ if probe.refuted => FilterOutcome::Refuted,
        None => FilterOutcome::NotAsked,
        Some(Answer::No) => FilterOutcome::No,
        Some(Answer::Maybe) => FilterOutcome::Maybe,
        Some(Answer::At(location)) => FilterOutcome::Block {
            block: location.block,
            slot: location.slot,
        },
    }
}

/// A view for an iterator, which may live long.
pub(crate) fn owned_view(shared: &Shared) -> Arc<View> {
    shared.view.load_full()
}
