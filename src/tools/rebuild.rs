//! Rebuilds filters without rewriting data.

use criba_filters::segment::FilterSpec;

use crate::bounds::Bounds;
use crate::compaction::FileNumbers;
use crate::error::{Error, Result};
use crate::manifest::SegmentMeta;
use crate::segment::{self, Segment, SidecarOptions};
use crate::store::Store;
use crate::tree::Tree;

/// The result of [`Keyspace::rebuild_filters`](crate::Keyspace::rebuild_filters).
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// for number in 0..1000 {
///     db.put(format!("{number:03}"), "row")?;
/// }
/// db.flush()?;
/// let done = db.rebuild_filters(.., |_, _| {})?;
/// // The filter fits: there was nothing to do.
/// assert_eq!((done.segments, done.rebuilt), (1, 0));
/// assert_eq!(done.written_bytes, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rebuilt {
    /// Segments that overlap the range.
    pub segments: u64,
    /// Segments among these that got a new filter.
    pub rebuilt: u64,
    /// Bytes of the new filter files.
    pub written_bytes: u64,
}

/// Rebuilds the filters of all segments that overlap a range, where they are not what the policy
/// asks for.
pub(crate) fn rebuild_filters(
    store: &Store,
    tree: &Tree,
    range: &Bounds,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<Rebuilt> {
    store.monitor().check_writable()?;
    let mut done = Rebuilt::default();
    tree.check(&tree.view())?;
    let version = tree.version();
    let overlapping = version.segments().filter(|one| one.overlaps(range));
    let all: Vec<(u64, u64)> = overlapping
        .map(|one| (one.meta.id, one.counts().entries))
        .collect();
    let entries = all.iter().map(|(_, entries)| entries).sum();
    let mut passed = 0;
    for (id, here) in all {
        watch(passed, entries);
        passed += here;
        if !store.claim(tree, id)? {
            continue;
        }
        let rebuilt = rebuild_filter(store, tree, id);
        store.let_go(tree, id);
        done.segments += 1;
        if let Some(bytes) = rebuilt? {
            done.rebuilt += 1;
            done.written_bytes += bytes;
        }
    }
    watch(passed, entries);
    Ok(done)
}

/// Rebuilds the filter of one segment that nobody else works on; `None` when it fits.
fn rebuild_filter(store: &Store, tree: &Tree, id: u64) -> Result<Option<u64>> {
    let services = store.services();
    let version = tree.version();
    let Some(segment) = version.segments().find(|one| one.meta.id == id) else {
        return Ok(None);
    };
    let customs = &store.options().customs;
    let spec = tree.filter_for_rebuilt(&version, segment);
    let range_bits = tree.range_bits();
    // A filter that is not wanted any more costs nothing but its memory.
    let fits = spec.is_none() || segment.filter_fits(spec, customs);
    if fits && segment.range_filter_fits(range_bits) {
        return Ok(None);
    }
    let file = services.catalog.allocate()?;
    let written = write_filters(store, segment, file, (spec, range_bits))
        .and_then(|(bytes, meta)| tree.install_filter(segment, meta).map(|()| bytes));
    if let Err(error) = &written
        && !store.monitor().is_poisoned()
    {
        let name = segment::filter_file_name(file);
        if services.storage.remove(&name).is_ok() || matches!(error, Error::Missing { .. }) {
            services.catalog.give_back(file);
        }
    }
    written.map(Some)
}

fn write_filters(
    store: &Store,
    segment: &Segment,
    file: u64,
    (spec, range_bits): (Option<FilterSpec>, Option<f64>),
) -> Result<(u64, SegmentMeta)> {
    let services = store.services();
    let storage = &services.storage;
    let options = SidecarOptions {
        id: file,
        store_id: services.store_id,
        hash_seed: services.hash_seed,
        spec,
        range_bits,
        customs: store.options().customs.clone(),
        salt: segment::filter_salt(services.hash_seed, file),
    };
    let bytes = segment.write_sidecar(storage, &services.no_caches, &options)?;
    let synced = storage.sync_dir();
    synced.map_err(|error| Error::io(storage.path_of(""), error))?;
    let meta = SegmentMeta {
        filter_file: file,
        ..segment.meta.clone()
    };
    Ok((bytes, meta))
}
