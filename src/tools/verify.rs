//! Verifies what the store has in segments: each for itself, and that newer runs hold newer
//! entries.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cursor::Item;
use crate::error::{Error, Result};
use crate::key::Sequence;
use crate::segment::{Caches, Segment, Verifier, file_name};
use crate::services::Services;
use crate::slice::Slice;
use crate::store::Store;
use crate::version::{Run, Version};

/// The result of [`Db::verify`](crate::Db::verify).
///
/// ```
/// use criba::{Db, Error};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("data");
/// # let db = Db::open(&path)?;
/// # db.put("apple", "red")?;
/// # db.flush()?;
/// # let segment = path.join(format!("{:06}.seg", db.stats().segments().next().unwrap().id));
/// # db.close()?;
/// # let mut bytes = std::fs::read(&segment).unwrap();
/// # bytes[0] ^= 1;
/// # std::fs::write(&segment, bytes).unwrap();
/// // The only data block is damaged.
/// let db = Db::open(&path)?;
/// let found = db.verify(|_read, _all| ())?;
/// assert_eq!((found.segments, found.entries), (1, 0));
/// assert!(matches!(found.findings[0], Error::Corrupt(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verification {
    /// Segments that were looked at.
    pub segments: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Entries that could be read.
    pub entries: u64,
    /// All damage that was found: empty when the store is sound. At most 100 for each segment.
    pub findings: Vec<Error>,
}

/// Keys between two looks of a watcher.
const STRIDE: u64 = 4096;

/// Verifies all segments of a store. `watch` is called now and then: how many entries were read,
/// and of how many.
pub(crate) fn verify(store: &Store, watch: &mut dyn FnMut(u64, u64)) -> Result<Verification> {
    store.monitor().check_open()?;
    let trees = store.trees().list();
    let versions: Vec<Arc<Version>> = trees.iter().map(|tree| tree.version()).collect();
    let segments = versions.iter().flat_map(|version| version.segments());
    let mut report = Verification::default();
    let mut expected = 0;
    for segment in segments {
        report.segments += 1;
        report.bytes += segment.meta.len;
        expected += segment.counts().entries;
    }
    for version in &versions {
        verify_tree(store.services(), version, &mut report, &mut |read| {
            watch(read, expected);
        });
    }
    watch(expected, expected);
    Ok(report)
}

/// Verifies the segments of one tree. `watch` gets the number of entries read so far, of all trees.
fn verify_tree(
    services: &Services,
    version: &Version,
    report: &mut Verification,
    watch: &mut dyn FnMut(u64),
) {
    for run in version.runs() {
        report.findings.extend(overlaps(services, run));
    }
    let runs = version.runs().iter();
    let runs = runs.map(|run| RunVerifier::new(run, services.hash_seed, &services.no_caches));
    let mut walk = Walk {
        runs: runs.collect(),
        entries: 0,
    };
    let mut keys = 0;
    while let Some(key) = walk.least_key() {
        walk.pass(&key);
        keys += 1;
        if u64::is_multiple_of(keys, STRIDE) {
            watch(report.entries + walk.entries);
        }
    }
    report.entries += walk.entries;
    for run in walk.runs {
        report.findings.extend(run.findings);
    }
}

/// Segments of a run that overlap.
fn overlaps(services: &Services, run: &Run) -> Vec<Error> {
    let pairs = run.segments.windows(2);
    let overlapping = pairs.filter(|pair| pair[0].meta.last_key >= pair[1].meta.first_key);
    let finding = |pair: &[Arc<Segment>]| {
        let path = services.storage.path_of(&file_name(pair[1].meta.file));
        let start = pair[1].meta.start;
        Error::corrupt(&path, start, "the segment overlaps another one of its run")
    };
    overlapping.map(finding).collect()
}

/// All runs, newest first, key by key.
struct Walk {
    runs: Vec<RunVerifier>,
    entries: u64,
}

impl Walk {
    fn least_key(&self) -> Option<Slice> {
        let heads = self.runs.iter().filter_map(|run| run.head.as_ref());
        heads.map(|item| &item.key).min().cloned()
    }

    /// Passes over all entries of a key: those of a newer run are newer.
    fn pass(&mut self, key: &[u8]) {
        let mut oldest = Sequence(u64::MAX);
        for run in &mut self.runs {
            let mut oldest_here = oldest;
            while let Some(item) = run.head.take_if(|item| *item.key == *key) {
                if item.sequence >= oldest {
                    run.find_too_new();
                }
                oldest_here = oldest_here.min(item.sequence);
                self.entries += 1;
                run.advance();
            }
            oldest = oldest_here;
        }
    }
}

/// The entries of a run, while its segments are verified.
struct RunVerifier {
    rest: VecDeque<Arc<Segment>>,
    current: Option<Verifier>,
    head: Option<Item>,
    hash_seed: u64,
    no_caches: Arc<Caches>,
    has_too_new: bool,
    findings: Vec<Error>,
}

impl RunVerifier {
    fn new(run: &Run, hash_seed: u64, no_caches: &Arc<Caches>) -> RunVerifier {
        let mut verifier = RunVerifier {
            rest: run.segments.iter().cloned().collect(),
            current: None,
            head: None,
            hash_seed,
            no_caches: Arc::clone(no_caches),
            has_too_new: false,
            findings: Vec::new(),
        };
        verifier.advance();
        verifier
    }

    fn advance(&mut self) {
        loop {
            if let Some(current) = &mut self.current {
                self.head = current.next();
                if self.head.is_some() {
                    return;
                }
                self.findings.append(&mut current.findings);
            }
            let Some(segment) = self.rest.pop_front() else {
                self.current = None;
                return;
            };
            self.has_too_new = false;
            let caches = Arc::clone(&self.no_caches);
            self.current = Some(Verifier::new(segment, self.hash_seed, caches));
        }
    }

    /// Once for each segment: where one entry is misplaced, many are.
    fn find_too_new(&mut self) {
        if let Some(current) = &mut self.current
            && !std::mem::replace(&mut self.has_too_new, true)
        {
            current.find_misplaced();
        }
    }
}
