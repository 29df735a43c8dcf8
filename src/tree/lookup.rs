//! The way of a point lookup: memtables, then runs, newest first.
//!
//! A lookup has two steps, so that what the second one reads arrives while others are asked: the
//! first [`Candidate`]s are begun in all runs, then memtables and runs are asked in turn. What
//! happens within a segment is in `segment/lookup.rs`.

use crate::error::Result;
use crate::key::{Kind, Sequence};
use crate::memtable::Memtable;
use crate::segment::{Hit, Lookup, LookupCost, Segment, Wanted};
use crate::slice::Slice;
use crate::version::Run;
use criba_filters::segment::Begun;
use criba_filters::{KeyHash, hash_key};

use super::counters::BlocksRead;
use super::explain::{Account, Asked, Explanation, Observer, Silent, Source};
use super::state::Tree;
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

fn value_of(hit: Hit) -> Option<Slice> {
    (hit.kind == Kind::Value).then_some(hit.value)
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
        let hit = self.lookup(&view, key, sequence, &mut Silent)?;
        Ok(hit.and_then(value_of))
    }

    fn lookup<O: Observer>(
        &self,
        view: &View,
        key: &[u8],
        sequence: Sequence,
        observer: &mut O,
    ) -> Result<Option<Hit>> {
        let wanted = Wanted {
            hash: hash_key(self.hash_seed(), key),
            key,
            sequence,
        };
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
            let (run, level) = (ordinal, run.level);
            let Some(segment) = candidate.segment else {
                observer.run(Source::NoSegment { run, level }, None);
                continue;
            };
            let mut lookup = Lookup {
                wanted,
                caches: self.caches(),
                cost: LookupCost::default(),
            };
            let hit = match O::WATCHES {
                true => segment.lookup::<true>(&candidate.begun, &mut lookup)?,
                false => segment.lookup::<false>(&candidate.begun, &mut lookup)?,
            };
            let id = segment.meta.id;
            let asked = Asked {
                segment,
                cost: &lookup.cost,
                hit: hit.as_ref(),
            };
            observer.run(Source::Segment { run, level, id }, Some(&asked));
            read.blocks += lookup.cost.block_reads;
            read.bytes += lookup.cost.block_bytes;
            if let Some(hit) = hit {
                self.lookups().in_runs(true, read);
                return Ok(Some(hit));
            }
        }
        self.lookups().in_runs(false, read);
        Ok(None)
    }
}

#[inline]
fn lookup_memtables<O: Observer>(view: &View, wanted: Wanted<'_>, observer: &mut O) -> Option<Hit> {
    let mut ask = |table: &Memtable, source: Source| {
        observer.begin();
        let hit = table
            .get(wanted.hash, wanted.key, wanted.sequence)
            .map(|(kind, value)| Hit { kind, value });
        observer.memtable(source, hit.as_ref());
        hit
    };
    if let Some(hit) = ask(&view.active, Source::ActiveMemtable) {
        return Some(hit);
    }
    let mut sealed = view.sealed.iter().enumerate();
    sealed.find_map(|(ordinal, sealed)| ask(sealed, Source::SealedMemtable(ordinal)))
}

// Many keys, and lookups that are explained.
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
        let value = |key: &K| {
            let hit = self.lookup(&view, key.as_ref(), sequence, &mut Silent)?;
            Ok(hit.and_then(value_of))
        };
        keys.iter().map(value).collect()
    }

    /// Looks a key up and keeps an account of it.
    pub(crate) fn explain(&self, key: &[u8], at: impl FnOnce() -> Sequence) -> Result<Explanation> {
        let view = self.view();
        self.check(&view)?;
        let sequence = at();
        let mut account = Account::default();
        let hit = self.lookup(&view, key, sequence, &mut account)?;
        Ok(account.finish(key, hit.and_then(value_of)))
    }
}
