//! The segments that a flush or a merge writes.
//!
//! The last one is no remnant: when a segment is full, the next entries are held back until there
//! are enough of them to begin another; if the input ends before, they go into the full one.
//!
//! A segment that is half full ends where one of the level below does, so that it overlaps no more
//! of them than it must when it is merged into that level (as in RocksDB since 7.8, 2022).

use std::sync::Arc;

use crate::cursor::LastKey;
use crate::error::{Error, Result};
use crate::format::block::Entry;
use crate::segment::{self, Finished, NewFile, Writer, WriterOptions};
use crate::storage::Storage;
use criba_filters::segment::{self as filter, FilterSpec};

use super::tail::Tail;

/// Gives out numbers for new files, and takes back those of files that were removed again.
pub(crate) trait FileNumbers {
    fn allocate(&self) -> Result<u64>;
    fn give_back(&self, id: u64);
}

/// The filters of segments, by the key that a segment begins with: each from a key on, the first
/// from the empty one on.
#[derive(Clone, Debug)]
pub(crate) struct Filters(Arc<[(Vec<u8>, Option<FilterSpec>)]>);

impl Filters {
    /// One for all.
    pub(crate) fn alike(spec: Option<FilterSpec>) -> Filters {
        Filters(Arc::new([(Vec::new(), spec)]))
    }

    /// The filter of a segment that begins with this key.
    pub(crate) fn of(&self, first_key: &[u8]) -> Option<FilterSpec> {
        let later = self.0.partition_point(|(from, _)| **from <= *first_key);
        self.0.get(later.checked_sub(1)?)?.1
    }
}

impl FromIterator<(Vec<u8>, Option<FilterSpec>)> for Filters {
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, Option<FilterSpec>)>>(filters: I) -> Filters {
        Filters(filters.into_iter().collect())
    }
}

/// How segments are written and where they go.
#[derive(Clone, Debug)]
pub(crate) struct OutputOptions {
    /// But for what each segment has of its own: `filter` and `filter_salt`.
    pub(crate) writer: WriterOptions,
    pub(crate) filters: Filters,
    /// A segment that has reached this size, or would with another block, is ended at the next key.
    pub(crate) segment_bytes: u64,
    /// Last keys of the segments of the level below, ascending: where one half as large is ended.
    pub(crate) below: Arc<[Vec<u8>]>,
    pub(crate) level: u32,
    /// The run of the segments; `None` for a run of its own, newer than all there are.
    pub(crate) run: Option<u64>,
    /// See [`SegmentMeta::written_ms`](crate::manifest::SegmentMeta::written_ms).
    pub(crate) written_ms: u64,
}

/// A segment is begun beside others only when it will have at least this part of a full one, or
/// [`TAIL_BYTES_MAX`] if that is less.
const TAIL_PART: u64 = 8;
/// Most bytes of keys and values that wait in memory for that.
const TAIL_BYTES_MAX: u64 = 1 << 20;

/// Segments under way. Nothing of it is live before the caller installs it.
pub(crate) struct Output<'a> {
    storage: &'a Arc<dyn Storage>,
    numbers: &'a dyn FileNumbers,
    options: OutputOptions,
    /// All segments go to one file, also those of other outputs.
    is_shared: bool,
    /// That file, while no segment is written to it.
    file: Option<NewFile>,
    writer: Option<Writer>,
    /// For the next writer.
    filter: filter::Builder,
    ids: Vec<u64>,
    finished: Vec<Finished>,
    last_key: LastKey,
    /// Segments of the level below that end before the last key.
    passed: usize,
    written_bytes: u64,
    /// The next entries while the segment is full.
    tail: Tail,
}

impl<'a> Output<'a> {
    pub(crate) fn new(
        storage: &'a Arc<dyn Storage>,
        numbers: &'a dyn FileNumbers,
        options: OutputOptions,
    ) -> Output<'a> {
        Output {
            storage,
            numbers,
            options,
            is_shared: false,
            file: None,
            writer: None,
            filter: filter::Builder::default(),
            ids: Vec::new(),
            finished: Vec::new(),
            last_key: LastKey::default(),
            passed: 0,
            written_bytes: 0,
            tail: Tail::default(),
        }
    }

    /// An output behind what is in a file, if there is one yet, or else in a new one. The caller
    /// makes the file durable: see [`Output::take_file`].
    pub(crate) fn in_file(
        storage: &'a Arc<dyn Storage>,
        numbers: &'a dyn FileNumbers,
        options: OutputOptions,
        file: Option<NewFile>,
    ) -> Output<'a> {
        Output {
            is_shared: true,
            file,
            ..Output::new(storage, numbers, options)
        }
    }

    /// Adds the next entry, in the order of [`crate::key::compare`].
    pub(crate) fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        // All versions of a key stay in one segment.
        let may_end = self.last_key.get() != Some(entry.key);
        let mut is_between = false;
        if may_end {
            self.last_key.set(entry.key);
            is_between = self.passes(entry.key);
        }
        let bytes = self.options.segment_bytes;
        let bytes = if is_between { bytes / 2 } else { bytes };
        let full = |writer: &Writer| writer.is_full(bytes, entry);
        if self.tail.is_empty() && !(may_end && self.writer.as_ref().is_some_and(full)) {
            return self.write(entry);
        }
        self.tail.push(entry);
        if self.tail.bytes() < TAIL_BYTES_MAX.min(self.options.segment_bytes / TAIL_PART) {
            return Ok(());
        }
        self.finish_segment()?;
        self.write_held()
    }

    /// Whether a segment of the level below ends before this key and not before the last one.
    fn passes(&mut self, key: &[u8]) -> bool {
        let before = self.passed;
        let rest = self.options.below.iter().skip(before);
        self.passed += rest.take_while(|last| ***last < *key).count();
        self.passed > before
    }

    fn write_held(&mut self) -> Result<()> {
        let held = std::mem::take(&mut self.tail);
        held.iter().try_for_each(|entry| self.write(&entry))
    }

    fn write(&mut self, entry: &Entry<'_>) -> Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let writer = self.create(entry.key)?;
                self.writer.insert(writer)
            }
        };
        writer.add(entry)
    }

    fn create(&mut self, first_key: &[u8]) -> Result<Writer> {
        let id = self.numbers.allocate()?;
        self.options.run.get_or_insert(id);
        self.ids.push(id);
        let mut options = self.options.writer.clone();
        options.filter = self.options.filters.of(first_key);
        // Every filter is salted with the store's secret, so that what is known of one filter
        // says nothing of another.
        options.filter_salt = segment::filter_salt(options.hash_seed, id);
        let file = match self.file.take() {
            Some(file) => file,
            None => NewFile::create(self.storage, id)?,
        };
        Writer::create(file, id, options, std::mem::take(&mut self.filter))
    }

    fn finish_segment(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            let run = self.options.run.unwrap_or_default();
            let (mut finished, file, filter) = writer.finish(self.options.level, run)?;
            self.filter = filter;
            if self.is_shared {
                self.file = Some(file);
            } else {
                file.sync()?;
            }
            finished.meta.written_ms = self.options.written_ms;
            self.written_bytes += finished.meta.len;
            self.finished.push(finished);
        }
        Ok(())
    }

    /// Bytes of the segments so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.written_bytes + self.writer.as_ref().map_or(0, Writer::data_bytes)
    }

    /// Ends the last segment. None if nothing was added.
    pub(crate) fn finish_all(&mut self) -> Result<Vec<Finished>> {
        self.write_held()?;
        self.finish_segment()?;
        Ok(std::mem::take(&mut self.finished))
    }

    /// The file that all segments were written to, for the next output.
    pub(crate) fn take_file(&mut self) -> Option<NewFile> {
        self.file.take()
    }

    /// The same, and makes the names of all durable.
    pub(crate) fn finish(&mut self) -> Result<Vec<Finished>> {
        let finished = self.finish_all()?;
        self.storage
            .sync_dir()
            .map_err(|error| Error::io(self.storage.path_of(""), error))?;
        Ok(finished)
    }

    /// The numbers of all segments, for [`remove_segments`].
    pub(crate) fn into_ids(self) -> Vec<u64> {
        self.ids
    }

    /// [`remove_segments`] of what was written, after a failure.
    pub(crate) fn remove(&mut self) -> Vec<String> {
        self.writer = None;
        self.finished.clear();
        remove_segments(self.storage, self.numbers, std::mem::take(&mut self.ids))
    }
}

/// Removes segments that never became live; file numbers are given back: while the disk is full
/// there may be many attempts, and no room to reserve more numbers. Returns what could not be
/// removed; the next `open` will.
pub(crate) fn remove_segments(
    storage: &Arc<dyn Storage>,
    numbers: &dyn FileNumbers,
    ids: Vec<u64>,
) -> Vec<String> {
    let mut left = Vec::new();
    for id in ids.into_iter().rev() {
        let name = segment::file_name(id);
        match storage.remove(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                left.push(format!("{name} is not needed and stays for now: {error}"));
            }
            _ => numbers.give_back(id),
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::key::{KeyspaceId, Kind, Sequence};
    use crate::options::Compression;
    use crate::sim::Memory;

    struct Numbers(Cell<u64>);

    impl FileNumbers for Numbers {
        fn allocate(&self) -> Result<u64> {
            self.0.set(self.0.get() + 1);
            Ok(self.0.get())
        }

        fn give_back(&self, _: u64) {}
    }

    /// First and last of the keys 0 to 999, of 100 bytes each with their values, in each segment
    /// of 20,000 bytes above segments that end at these keys.
    fn written(below: &[u64]) -> Vec<(u64, u64)> {
        let memory = Memory::new();
        memory.create_dir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(memory);
        let key = |n: u64| format!("{n:010}").into_bytes();
        let writer = WriterOptions {
            store_id: 1,
            keyspace: KeyspaceId::DEFAULT,
            hash_seed: 1,
            hash_key: criba_filters::hash_key,
            block_bytes: 1024,
            entries_per_group: 4,
            compression: Compression::None,
            customs: Default::default(),
            range_bits: None,
            filter: None,
            sequence_base: Sequence(1),
            filter_salt: 1,
        };
        let options = OutputOptions {
            writer,
            filters: Filters::alike(None),
            segment_bytes: 20_000,
            below: below.iter().map(|n| key(*n)).collect(),
            level: 1,
            run: None,
            written_ms: 0,
        };
        let numbers = Numbers(Cell::new(0));
        let mut output = Output::new(&storage, &numbers, options);
        for n in 0..1000 {
            let entry = Entry {
                key: &key(n),
                sequence: Sequence(1),
                kind: Kind::Value,
                value: &[7; 90],
            };
            output.add(&entry).unwrap();
        }
        let number = |key: &[u8]| std::str::from_utf8(key).unwrap().parse().unwrap();
        let finished = output.finish().unwrap();
        let keys = |one: &Finished| (number(&one.meta.first_key), number(&one.meta.last_key));
        finished.iter().map(keys).collect()
    }

    #[test]
    fn segments_end_where_those_below_do() {
        let full = written(&[]);
        let lengths = |all: &[(u64, u64)]| -> Vec<u64> {
            all.iter().map(|(first, last)| last - first + 1).collect()
        };
        // Of nine to a block, whole blocks.
        assert_eq!(lengths(&full), [180, 180, 180, 180, 180, 100]);
        // Every 150 keys: more than half a segment, and less than a whole one.
        let below: Vec<u64> = (149..1000).step_by(150).collect();
        let aligned = written(&below);
        assert!(
            aligned
                .iter()
                .zip(&below)
                .all(|((_, last), end)| last == end)
        );
        assert_eq!(lengths(&aligned), [150, 150, 150, 150, 150, 150, 100]);
        // Every 40 keys: the first end behind half of a segment.
        let below: Vec<u64> = (39..1000).step_by(40).collect();
        let aligned = written(&below);
        assert_eq!(lengths(&aligned)[..7], [120; 7]);
        // None within a segment, or where all begins: as if there were none.
        assert_eq!(written(&[0, 998]), full);
    }
}
