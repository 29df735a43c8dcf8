//! An open segment: what it is, and reading its blocks.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::bounds::{self, Bounds};
use crate::error::{Error, Result};
use crate::format::Malformed;
use crate::format::manifest::{SegmentMeta, Traffic};
use crate::format::region::Place;
use crate::key::Sequence;
use crate::options::FilterLoading;
use crate::slice::Slice;
use crate::storage::{ReadCause, ReadRequest};
use criba_filters::segment::{
    BloomierBits, CustomFilters, FilterKind, FilterSpec, REJECTING_BITS_MIN,
};

use super::block::Block;
use super::body::Body;
use super::caches::Caches;
use super::files::{Files, SegmentFile};
use super::filter::FilterState;
use super::groups::Mark;
use super::opener::Opener;
use super::outcome::LookupCost;
use super::range_filter::RangeState;

/// Length of a block of which more is asked for than is looked at first, however often it was
/// verified: it may have left memory since, and to copy a value of this length costs more than to
/// ask.
const LONG_BYTES: u64 = 128 << 10;

/// A segment of the live version.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) meta: SegmentMeta,
    path: PathBuf,
    body: Result<Arc<Body>>,
    files: Arc<Files>,
    /// Time it took to build the filter, when that was done by this process.
    pub(super) filter_build_time: Option<Duration>,
}

impl Segment {
    /// Opens the file that the manifest describes. A damaged segment is an error for what is
    /// looked up in it, not for the store.
    ///
    /// # Errors
    ///
    /// When the system refuses to read the file.
    pub(crate) fn open(
        file: &Arc<SegmentFile>,
        store_id: u128,
        meta: SegmentMeta,
        loading: &FilterLoading,
    ) -> Result<Segment> {
        let path = file.path();
        let body = match (Opener {
            storage: file.storage(),
            file: file.section(meta.start, meta.len),
            path: &path,
            meta: &meta,
            store_id,
        })
        .open(loading)
        {
            Err(error @ Error::Io { .. }) => return Err(error),
            body => body.map(Arc::new),
        };
        Ok(Segment {
            files: Arc::new(Files::of(file, &meta)),
            meta,
            path,
            body,
            filter_build_time: None,
        })
    }

    /// Keeps the time that the writer measured.
    pub(crate) fn with_filter_build_time(mut self, time: Option<Duration>) -> Segment {
        self.filter_build_time = time;
        self
    }

    /// The segment is live from now on, `now` being the number of lookups of this session so
    /// far; this was counted in earlier sessions.
    pub(crate) fn count_from(&self, earlier: &Traffic, now: u64) {
        if let Ok(body) = &self.body {
            body.counters.begin(earlier, now);
        }
    }

    /// What lookups met here in all sessions; `None` when the segment is damaged.
    pub(crate) fn traffic(&self, now: u64) -> Option<Traffic> {
        Some(self.body.as_ref().ok()?.counters.load(now))
    }

    /// Takes over what is in memory of the same file, which was open before.
    pub(crate) fn with_blocks_of(self, before: &Segment) -> Segment {
        if let (Ok(body), Ok(before)) = (&self.body, &before.body)
            && let (Some(mapped), Some(before)) = (&body.mapped, &before.mapped)
        {
            mapped.take_over(before);
        }
        self
    }

    /// `None` when the segment is damaged; makes no copy of the error, as [`Segment::body`] does.
    #[inline]
    pub(super) fn filter(&self) -> Option<&FilterState> {
        self.body.as_ref().ok().map(|body| &body.filter)
    }

    #[inline]
    pub(super) fn body(&self) -> Result<&Body> {
        match &self.body {
            Ok(body) => Ok(body),
            Err(error) => Err(error.clone()),
        }
    }

    /// Why the segment cannot be read, if it cannot.
    pub(crate) fn damage(&self) -> Option<&Error> {
        self.body.as_ref().err()
    }

    /// The same segment at another place of the tree.
    pub(crate) fn moved(&self, level: u32, run: u64) -> Segment {
        let meta = SegmentMeta {
            level,
            run,
            ..self.meta.clone()
        };
        Segment {
            meta,
            path: self.path.clone(),
            body: self.body.clone(),
            files: Arc::clone(&self.files),
            filter_build_time: self.filter_build_time,
        }
    }

    /// The file that holds the segment.
    pub(crate) fn file(&self) -> &Arc<SegmentFile> {
        self.files.file()
    }

    /// Whether a key of the range can be here.
    pub(crate) fn overlaps(&self, bounds: &Bounds) -> bool {
        bounds::overlaps(bounds, &self.meta.first_key, &self.meta.last_key)
    }

    /// The segment is durably not live, at no place: its file is removed when nobody reads it any
    /// more.
    pub(crate) fn retire(&self) {
        self.files.retire();
    }

    /// The segment is durably live with another filter file than this one has.
    pub(crate) fn retire_filter(&self) {
        self.files.retire_filter();
    }

    /// Keys, entries and tombstones; zeros when the segment is damaged.
    pub(crate) fn counts(&self) -> Counts {
        self.body.as_ref().map_or_else(
            |_damaged| Counts::default(),
            |body| Counts {
                keys: body.properties.keys,
                entries: body.properties.entries,
                tombstones: body.properties.tombstones,
            },
        )
    }

    /// At most the sequence of every entry; `None` when the segment is damaged.
    pub(crate) fn sequence_min(&self) -> Option<Sequence> {
        self.body
            .as_ref()
            .ok()
            .map(|body| body.properties.sequence_min)
    }

    /// Whether the filter is about what a new one would be, so that writing it anew gains nothing.
    pub(crate) fn filter_fits(&self, wanted: Option<FilterSpec>, customs: &CustomFilters) -> bool {
        let Ok(body) = &self.body else { return true };
        let filter = match (&body.filter, wanted) {
            (FilterState::None, None) => return true,
            (FilterState::Ready(filter), Some(_)) => &filter.filter,
            _ => return false,
        };
        let ordinal_bits = 32 - (body.fences.block_count().saturating_sub(1)).leading_zeros();
        let place_bits = f64::from(ordinal_bits.max(REJECTING_BITS_MIN));
        let near = |bits: f64| (filter.r_bits() - bits).abs() <= 0.5;
        match (wanted, filter.kind()) {
            (Some(FilterSpec::Bloom { bits_per_key }), FilterKind::Bloom) => near(bits_per_key),
            (Some(FilterSpec::Bloomier(bits)), FilterKind::Bloomier) => match bits {
                BloomierBits::BitsPerKey(bits) | BloomierBits::Rejecting(bits) => near(bits),
                BloomierBits::Block => near(place_bits),
                // Where blocks have one group, a slot takes no bits.
                BloomierBits::Slot => filter.r_bits() > place_bits || filter.last_slot() == Some(0),
            },
            (Some(FilterSpec::Custom), FilterKind::Custom) => customs
                .first()
                .is_some_and(|custom| filter.is_of(&**custom)),
            _ => false,
        }
    }

    /// Whether the range filter is about what a new one would be, or was found not to pay.
    pub(crate) fn range_filter_fits(&self, wanted_bits: Option<f64>) -> bool {
        let (Ok(body), Some(wanted)) = (&self.body, wanted_bits) else {
            return true;
        };
        match &body.range {
            RangeState::Declined { .. } => true,
            RangeState::Ready(filter) => filter.fits(wanted),
            RangeState::None | RangeState::Damaged(_) => false,
        }
    }

    /// The kind of the filter, if there is one that can be asked.
    pub(crate) fn filter_kind(&self) -> Option<&'static str> {
        match &self.body.as_ref().ok()?.filter {
            FilterState::Ready(filter) => Some(filter.filter.kind().name()),
            FilterState::None | FilterState::Damaged(_) => None,
        }
    }

    /// Why lookups go without the filter, if they do.
    pub(crate) fn filter_damage(&self) -> Option<&Error> {
        match &self.body.as_ref().ok()?.filter {
            FilterState::Damaged(damage) => Some(damage),
            FilterState::None | FilterState::Ready(_) => None,
        }
    }

    /// Why scans go without the range filter, if they do.
    pub(crate) fn range_filter_damage(&self) -> Option<&Error> {
        match &self.body.as_ref().ok()?.range {
            RangeState::Damaged(damage) => Some(damage),
            RangeState::None | RangeState::Declined { .. } | RangeState::Ready(_) => None,
        }
    }

    /// First and last key.
    pub(crate) fn ends(&self) -> (&[u8], &[u8]) {
        (&self.meta.first_key, &self.meta.last_key)
    }

    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        *self.meta.first_key <= *key && *key <= *self.meta.last_key
    }

    pub(super) fn corrupt(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::corrupt(&self.path, self.meta.start.saturating_add(offset), what)
    }

    /// Damage of the filter, wherever it lies.
    pub(super) fn corrupt_filter(&self, offset: u64, what: impl Into<String>) -> Error {
        let start = match self.meta.filter_file {
            0 => self.meta.start,
            _ => 0,
        };
        let path = self.files.path_of_filter();
        Error::corrupt(&path, start.saturating_add(offset), what)
    }

    pub(super) fn malformed_block(&self, body: &Body, block: u32, what: &Malformed) -> Error {
        self.corrupt(body.fences.extent(block).0, what.to_string())
    }

    /// A data block of which all entries are wanted, from the cache or the map of the file, or by
    /// one read.
    pub(super) fn block(
        &self,
        body: &Body,
        ordinal: u32,
        caches: &Caches,
        cost: &mut LookupCost,
    ) -> Result<Block> {
        if let Some(block) = self.block_in_memory(body, ordinal, caches, cost) {
            return Ok(block);
        }
        let block = self.block_from_file(body, ordinal, cost)?;
        let place = (self.meta.id, body.fences.extent(ordinal).0);
        if !body.keeps_mapped(ordinal, &block) && caches.wants_scanned(place) {
            self.keep(body, ordinal, &block, caches);
        }
        Ok(block)
    }

    /// A data block, if it is in the map of the file or in the cache.
    pub(super) fn block_in_memory(
        &self,
        body: &Body,
        ordinal: u32,
        caches: &Caches,
        cost: &mut LookupCost,
    ) -> Option<Block> {
        let (offset, len) = body.fences.extent(ordinal);
        cost.data_blocks += 1;
        let mapped = body.mapped.as_ref();
        let block = mapped
            .and_then(|mapped| mapped.get(ordinal, (offset, len)))
            .or_else(|| caches.blocks.get((self.meta.id, offset)))?;
        cost.from_cache += 1;
        if len > LONG_BYTES && block.payload.is_mapped() {
            body.file.will_read(offset, len);
        }
        Some(block)
    }

    /// A data block by one read, verified.
    pub(super) fn block_from_file(
        &self,
        body: &Body,
        ordinal: u32,
        cost: &mut LookupCost,
    ) -> Result<Block> {
        let (offset, len) = body.fences.extent(ordinal);
        let stored = self.read_counted(body, offset, len, cost)?;
        self.open_block(body, offset, &stored)
    }

    /// Puts a block into the cache, if there is one.
    pub(super) fn keep(&self, body: &Body, ordinal: u32, block: &Block, caches: &Caches) {
        if caches.blocks.has_budget() {
            let place = (self.meta.id, body.fences.extent(ordinal).0);
            caches.keep(place, block.clone());
        }
    }

    /// A group of a data block by one read, if where it lies is known and it is what it was.
    pub(super) fn group_from_file(
        &self,
        body: &Body,
        ordinal: u32,
        mark: Mark,
        cost: &mut LookupCost,
    ) -> Result<Option<Slice>> {
        let (offset, len) = mark.extent(body.fences.extent(ordinal));
        let read = self.read_counted(body, offset, len, cost)?;
        Ok(Self::open_group(body, ordinal, mark, read))
    }

    /// The group in what was read of a block, if it is what it was.
    pub(super) fn open_group(body: &Body, ordinal: u32, mark: Mark, read: Slice) -> Option<Slice> {
        let (offset, _) = mark.extent(body.fences.extent(ordinal));
        let len = mark.verify(body.identity, offset, &read)?.len();
        Some(read.into_part(0..len))
    }

    /// A data block or a part of one, by one read that counts.
    fn read_counted(
        &self,
        body: &Body,
        offset: u64,
        len: u64,
        cost: &mut LookupCost,
    ) -> Result<Slice> {
        let read = self.read_data(body, offset, len)?;
        cost.read_bytes += len;
        cost.block_reads += 1;
        cost.block_bytes += len;
        Ok(read)
    }

    /// Bytes of data blocks, by one read.
    pub(super) fn read_data(&self, body: &Body, offset: u64, len: u64) -> Result<Slice> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        body.file
            .read(ReadCause::Data, offset, len)
            .map_err(|error| self.io_error(error))
    }

    /// A request for bytes of data blocks.
    pub(super) fn request(&self, offset: u64, len: u64) -> ReadRequest<'_> {
        ReadRequest {
            cause: ReadCause::Data,
            file: self.file().whole(),
            offset: self.meta.start.saturating_add(offset),
            len: usize::try_from(len).unwrap_or(usize::MAX),
        }
    }

    pub(super) fn io_error(&self, error: io::Error) -> Error {
        Error::io(&self.path, error)
    }

    /// Verifies a stored block.
    pub(super) fn open_block(&self, body: &Body, offset: u64, stored: &Slice) -> Result<Block> {
        let file = body.identity;
        Block::open(stored, Place { file, offset })
            .map_err(|malformed| self.corrupt(offset, malformed.to_string()))
    }
}

/// How much a segment holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) keys: u64,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
}
