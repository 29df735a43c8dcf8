//! Opens a segment, and reads what is in it.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::format::Malformed;
use crate::format::manifest::SegmentMeta;
use crate::format::region::{self, Codec, Place, RegionKind, file_identity};
use crate::format::segment::{
    FOOTER_BYTES, FilterProperties, Footer, Properties, REGION_BYTES_MIN,
};
use crate::key::Sequence;
use crate::options::FilterResidency;
use crate::slice::Slice;
use crate::storage::{ReadCause, ReadFile, Storage};
use criba_filters::segment::{BloomierBits, FilterKind, FilterSpec, REJECTING_BITS_MIN};

use super::blockbits::BlockBits;
use super::fences::Fences;
use super::files::Files;
use super::filter::{FilterState, PageSource, SegmentFilter};
use super::get::Probe;
use super::groups::{Groups, Mark};
use super::map::Mapped;
use super::traffic::Counters;
use super::{Block, Caches, file_name, sidecar};

/// Length of a block of which more is asked for than is looked at first, however often it was
/// verified: it may have left memory since, and to copy a value of this length costs more than to ask.
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

/// What is resident of a segment.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) identity: u64,
    pub(super) footer: Footer,
    pub(super) properties: Properties,
    pub(super) fences: Fences,
    pub(super) filter: FilterState,
    pub(super) counters: Counters,
    /// The file, where it is mapped.
    mapped: Option<Mapped>,
    /// Blocks that were put into the cache, and may be there still: those that are not need not be looked
    /// for.
    cached: BlockBits,
    pub(super) groups: Box<Groups>,
}

impl Body {
    /// Begins to fetch the fences of a block, and what is looked at first of one that was verified in the map
    /// of the file. There need be no such block.
    #[inline]
    pub(super) fn prefetch(&self, ordinal: u32) {
        self.fences.prefetch(ordinal);
        if let Some(mapped) = &self.mapped
            && mapped.was_verified(ordinal)
        {
            mapped.prefetch(self.fences.extent(ordinal));
        }
    }

    /// Whether the block need not be read, or but for what the cache has given up meanwhile.
    pub(super) fn is_in_memory(&self, ordinal: u32) -> bool {
        self.cached.get(ordinal) || self.was_verified(ordinal)
    }

    /// Whether the block was verified where it lies, in the map of the file.
    pub(super) fn was_verified(&self, ordinal: u32) -> bool {
        let mapped = self.mapped.as_ref();
        mapped.is_some_and(|mapped| mapped.was_verified(ordinal))
    }
}

impl Segment {
    /// Opens the file that the manifest describes. A damaged segment is an error for what is
    /// looked up in it, not for the store.
    ///
    /// # Errors
    ///
    /// When the file is missing or the system refuses to read it.
    pub(crate) fn open(
        storage: &Arc<dyn Storage>,
        store_id: u128,
        meta: SegmentMeta,
        residency: FilterResidency,
    ) -> Result<Segment> {
        let name = file_name(meta.id);
        let path = storage.path_of(&name);
        let file = storage
            .open(&name)
            .map_err(|error| Error::io(&path, error))?;
        let pinned = residency == FilterResidency::Pinned;
        let body = match (Opener {
            storage,
            file,
            path: &path,
            meta: &meta,
            store_id,
        })
        .open(pinned)
        {
            Err(error @ Error::Io { .. }) => return Err(error),
            body => body.map(Arc::new),
        };
        Ok(Segment {
            files: Arc::new(Files::of(storage, &meta)),
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

    /// Takes over what is in memory of the same file, which was open before.
    pub(crate) fn with_blocks_of(self, before: &Segment) -> Segment {
        if let (Ok(body), Ok(before)) = (&self.body, &before.body) {
            body.cached.set_all_of(&before.cached);
            if let (Some(mapped), Some(before)) = (&body.mapped, &before.mapped) {
                mapped.take_over(before);
            }
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

    /// Whether a key of the range can be here.
    pub(crate) fn overlaps(&self, (lower, upper): &(Bound<Slice>, Bound<Slice>)) -> bool {
        let (first, last) = (&*self.meta.first_key, &*self.meta.last_key);
        let begins = match lower {
            Bound::Unbounded => true,
            Bound::Included(lower) => last >= &**lower,
            Bound::Excluded(lower) => last > &**lower,
        };
        begins
            && match upper {
                Bound::Unbounded => true,
                Bound::Included(upper) => first <= &**upper,
                Bound::Excluded(upper) => first < &**upper,
            }
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
    pub(crate) fn filter_fits(&self, wanted: Option<FilterSpec>) -> bool {
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
                BloomierBits::Slot => filter.r_bits() > place_bits,
            },
            (
                Some(FilterSpec::Scattered {
                    shape,
                    bits_per_key,
                }),
                kind,
            ) => kind == shape.kind() && near(shape.value_bits(filter.key_count(), bits_per_key)),
            _ => false,
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

    /// First and last key.
    pub(crate) fn ends(&self) -> (&[u8], &[u8]) {
        (&self.meta.first_key, &self.meta.last_key)
    }

    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        *self.meta.first_key <= *key && *key <= *self.meta.last_key
    }

    pub(super) fn corrupt(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::corrupt(&self.path, offset, what)
    }

    /// Damage of the filter, wherever it lies.
    pub(super) fn corrupt_filter(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::corrupt(&self.files.path_of_filter(), offset, what)
    }

    pub(super) fn malformed_block(&self, body: &Body, block: u32, what: &Malformed) -> Error {
        self.corrupt(body.fences.extent(block).0, what.to_string())
    }

    /// A data block of which all entries are wanted, from the cache or the map of the file, or by one
    /// read.
    pub(super) fn block(
        &self,
        body: &Body,
        ordinal: u32,
        caches: &Caches,
        probe: &mut Probe,
    ) -> Result<Block> {
        if let Some(block) = self.block_in_memory(body, ordinal, caches, probe) {
            return Ok(block);
        }
        let wants = |place, _| caches.wants_scanned(place);
        let (block, _) = self.block_from_file(body, ordinal, (caches, probe), wants)?;
        Ok(block)
    }

    /// A data block, if it is in the map of the file or in the cache.
    pub(super) fn block_in_memory(
        &self,
        body: &Body,
        ordinal: u32,
        caches: &Caches,
        probe: &mut Probe,
    ) -> Option<Block> {
        let (offset, len) = body.fences.extent(ordinal);
        probe.data_blocks += 1;
        let mapped = body.mapped.as_ref();
        let block = mapped
            .and_then(|mapped| mapped.get(ordinal, (offset, len)))
            .or_else(|| self.cached_block(body, (ordinal, offset), caches))?;
        probe.from_cache += 1;
        if len > LONG_BYTES && block.payload.is_mapped() {
            body.file.will_read(offset, len);
        }
        Some(block)
    }

    /// A data block, if it is in the cache.
    fn cached_block(
        &self,
        body: &Body,
        (ordinal, offset): (u32, u64),
        caches: &Caches,
    ) -> Option<Block> {
        if !body.cached.get(ordinal) {
            caches.blocks.note_miss();
            return None;
        }
        let found = caches.blocks.get((self.meta.id, offset));
        // Who walks without a cache finds nothing, which says nothing.
        if found.is_none() && caches.blocks.has_budget() {
            // Who puts it there just now loses the bit: the block is put there once more when it is read
            // again, and until then not found.
            body.cached.clear(ordinal);
        }
        found
    }

    /// A data block by one read, verified, and whether it stays in memory, so that it need not be read
    /// or verified again: in the map of the file, or in the cache if that `wants` it, by its place
    /// and length.
    pub(super) fn block_from_file(
        &self,
        body: &Body,
        ordinal: u32,
        (caches, probe): (&Caches, &mut Probe),
        wants: impl FnOnce((u64, u64), u64) -> bool,
    ) -> Result<(Block, bool)> {
        let (offset, len) = body.fences.extent(ordinal);
        let stored = self.read_counted(body, (offset, len), probe)?;
        let block = self.open_block(body, offset, &stored)?;
        let place = (self.meta.id, offset);
        let is_kept = match &body.mapped {
            Some(mapped) if block.payload.is_mapped() => {
                mapped.note(ordinal, &block);
                true
            }
            _ => {
                let is_wanted = wants(place, len);
                if is_wanted && caches.blocks.has_budget() {
                    caches.keep(place, block.clone());
                    body.cached.set(ordinal);
                }
                is_wanted
            }
        };
        Ok((block, is_kept))
    }

    /// A group of a data block by one read, if where it lies is known and it is what it was.
    pub(super) fn group_from_file(
        &self,
        body: &Body,
        (ordinal, mark): (u32, Mark),
        probe: &mut Probe,
    ) -> Result<Option<Slice>> {
        let (offset, len) = mark.extent(body.fences.extent(ordinal));
        let read = self.read_counted(body, (offset, len), probe)?;
        let group = mark.verify(body.identity, offset, &read).map(<[u8]>::len);
        Ok(group.map(|len| read.into_part(0..len)))
    }

    /// A data block or a part of one, by one read that counts.
    fn read_counted(
        &self,
        body: &Body,
        (offset, len): (u64, u64),
        probe: &mut Probe,
    ) -> Result<Slice> {
        let read = self.read_data(body, offset, len)?;
        probe.read_bytes += len;
        probe.block_reads += 1;
        probe.block_bytes += len;
        Ok(read)
    }

    /// Bytes of data blocks, by one read.
    pub(super) fn read_data(&self, body: &Body, offset: u64, len: u64) -> Result<Slice> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        body.file
            .read(ReadCause::Data, offset, len)
            .map_err(|error| Error::io(&self.path, error))
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

/// The steps of opening a segment.
struct Opener<'a> {
    storage: &'a Arc<dyn Storage>,
    file: Arc<dyn ReadFile>,
    path: &'a Path,
    meta: &'a SegmentMeta,
    store_id: u128,
}

impl Opener<'_> {
    fn corrupt(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::corrupt(self.path, offset, what)
    }

    fn identity(&self) -> u64 {
        file_identity(self.store_id, self.meta.id)
    }

    fn open(self, pinned: bool) -> Result<Body> {
        let footer = self.footer()?;
        let properties = self.payload(
            RegionKind::Properties,
            (footer.properties, footer.offset()),
            footer.properties_sum,
        )?;
        let properties = Properties::decode(&properties)
            .map_err(|malformed| self.corrupt(footer.properties, malformed.to_string()))?;
        if properties.first_key != self.meta.first_key || properties.last_key != self.meta.last_key
        {
            return Err(self.corrupt(footer.properties, "its key range is not the manifest's"));
        }
        let index = self.payload(
            RegionKind::Index,
            (footer.index, footer.properties),
            footer.index_sum,
        )?;
        let range = (&*properties.first_key, &*properties.last_key);
        let fences = Fences::decode(&index, range, footer.data_end, properties.raw_bytes)
            .map_err(|malformed| self.corrupt(footer.index, malformed.to_string()))?;
        let filter = self.filter(&footer, &properties, pinned);
        let identity = self.identity();
        let mapped = self.file.mapped();
        let mapped = mapped.map(|bytes| Mapped::new(&bytes, fences.block_count()));
        let last_group = match &filter {
            FilterState::Ready(filter) if mapped.is_none() => filter.filter.last_slot(),
            _ => None,
        };
        Ok(Body {
            cached: BlockBits::new(fences.block_count()),
            groups: Box::new(Groups::new(
                fences.block_count(),
                fences.uniform_len(),
                last_group,
            )),
            mapped,
            file: self.file,
            identity,
            footer,
            properties,
            fences,
            filter,
            counters: Counters::default(),
        })
    }

    fn footer(&self) -> Result<Footer> {
        let len = self.file.len();
        if len != self.meta.file_len || len < FOOTER_BYTES as u64 {
            let expected = self.meta.file_len;
            let what = format!("the file has {len} bytes, the manifest says {expected}");
            return Err(self.corrupt(len.min(expected), what));
        }
        let offset = len - FOOTER_BYTES as u64;
        let bytes = self.read(ReadCause::Open, offset, FOOTER_BYTES as u64)?;
        let (footer, sum) = Footer::decode(&bytes, len, self.identity())
            .map_err(|malformed| self.corrupt(offset, malformed.to_string()))?;
        if footer.segment_id != self.meta.id || footer.store_id != self.store_id {
            return Err(self.corrupt(offset, "the segment of another store or number"));
        }
        if sum != self.meta.footer_sum {
            return Err(self.corrupt(offset, "not the footer that the manifest knows"));
        }
        Ok(footer)
    }

    fn read(&self, cause: ReadCause, offset: u64, len: u64) -> Result<Slice> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.file
            .read(cause, offset, len)
            .map_err(|error| Error::io(self.path, error))
    }

    /// The payload of a region that the footer pins by its checksum.
    fn payload(&self, kind: RegionKind, (start, end): (u64, u64), sum: u32) -> Result<Slice> {
        if end - start < REGION_BYTES_MIN {
            return Err(self.corrupt(start, format!("{}: its region is cut", kind.name())));
        }
        let cause = match kind {
            RegionKind::FilterHeader => ReadCause::Filter,
            RegionKind::Index => ReadCause::Index,
            RegionKind::Data | RegionKind::Properties => ReadCause::Open,
        };
        let bytes = self.read(cause, start, end - start)?;
        let region = region::open(
            &bytes,
            kind,
            Place {
                file: self.identity(),
                offset: start,
            },
        )
        .map_err(|malformed| self.corrupt(start, malformed.to_string()))?;
        if region.codec != Codec::Plain {
            return Err(self.corrupt(
                start,
                format!("{}: compressed, which it never is", kind.name()),
            ));
        }
        if region.checksum != sum {
            let what = format!("{}: not the one that the footer knows", kind.name());
            return Err(self.corrupt(start, what));
        }
        Ok(bytes.slice(0..region.payload_len))
    }

    /// The filter; whatever is wrong with it, the segment can be read without.
    fn filter(&self, footer: &Footer, properties: &Properties, pinned: bool) -> FilterState {
        let opened = match (self.meta.filter_file, &properties.filter) {
            (0, None) => return FilterState::None,
            (0, Some(filter)) => self.filter_within(footer, filter, pinned),
            (id, _) => sidecar::open(self.storage, (id, self.meta.id, self.store_id), pinned),
        };
        match opened {
            Ok(filter) => FilterState::Ready(Box::new(filter)),
            Err(error) => FilterState::Damaged(error),
        }
    }

    fn filter_within(
        &self,
        footer: &Footer,
        filter: &FilterProperties,
        pinned: bool,
    ) -> Result<SegmentFilter> {
        let pages = (footer.filter_start, footer.filter_header);
        let source = PageSource {
            file: Arc::clone(&self.file),
            file_id: self.meta.id,
            identity: self.identity(),
        };
        let header = self.payload(
            RegionKind::FilterHeader,
            (footer.filter_header, footer.index),
            footer.filter_header_sum,
        );
        SegmentFilter::open(&header?, filter, pages, source, pinned)
            .map_err(|malformed| self.corrupt(pages.0, malformed.to_string()))
    }
}
