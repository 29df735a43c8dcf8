//! Writes a segment in one pass: data blocks first, then what was learnt on the way.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::format::block::{Builder as BlockBuilder, Entry, HEADER_BYTES};
use crate::format::four_bytes;
use crate::format::index::{self, Builder as IndexBuilder};
use crate::format::manifest::SegmentMeta;
use crate::format::region::{
    self, Codec, DATA_ALIGN, PADDING_MAX, Place, RegionKind, Stored, TRAILER_BYTES, file_identity,
};
use crate::format::segment::{FILTER_ALIGN, Footer, Properties, Sketches};
use crate::key::{KeyspaceId, Kind, Sequence};
use crate::options::Compression;
use crate::storage::{AppendFile, Storage};
use criba_filters::KeyHash;
use criba_filters::range;
use criba_filters::segment::{self as filter, Built, CustomFilters, FilterSpec};
use criba_filters::store::KeySketch;

use super::compression::Packer;
use super::file_name;
use super::filter_writer::{Filters, Sink};

/// Bytes gathered before they are handed to the system.
const BUFFER_BYTES: usize = 256 << 10;

/// Blocks that are not compressed end at a multiple of this, or of the block size if that is
/// smaller, if not too much is wasted so: then a read touches no page of the device that it need
/// not touch.
const PAGE_BYTES: u64 = PADDING_MAX;

/// For so many bytes of a block one may be wasted.
const BYTES_PER_WASTED: u64 = 8;

/// Keys and values of a segment, in bytes, at which it is ended: an index takes no more than the
/// keys, and one more entry takes at most half as much.
const RAW_BYTES_MAX: u64 = 2 << 30;

/// How a segment is written.
#[derive(Clone, Debug)]
pub(crate) struct WriterOptions {
    pub(crate) store_id: u128,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) hash_seed: u64,
    /// [`filter::hash_key`], but for tests that force keys with equal hashes.
    pub(crate) hash_key: fn(u64, &[u8]) -> KeyHash,
    pub(crate) block_bytes: u32,
    pub(crate) entries_per_group: u32,
    pub(crate) compression: Compression,
    pub(crate) filter: Option<FilterSpec>,
    /// Bits per key of the range filter; `None` for no such filter.
    pub(crate) range_bits: Option<f64>,
    pub(crate) customs: CustomFilters,
    /// At most every sequence that will be added.
    pub(crate) sequence_base: Sequence,
    pub(crate) filter_salt: u64,
}

/// A file to which segments are written, one behind another.
pub(crate) struct NewFile {
    /// That of the first segment in it.
    id: u64,
    path: PathBuf,
    file: Box<dyn AppendFile>,
    bytes: u64,
}

impl NewFile {
    pub(crate) fn create(storage: &Arc<dyn Storage>, id: u64) -> Result<NewFile> {
        let name = file_name(id);
        let path = storage.path_of(&name);
        let file = storage
            .create(&name)
            .map_err(|error| Error::io(&path, error))?;
        Ok(NewFile {
            id,
            path,
            file,
            bytes: 0,
        })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .append(&[bytes])
            .map_err(|error| Error::io(&self.path, error))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Fills up to where another segment may begin.
    fn align(&mut self) -> Result<()> {
        let gap = self.bytes.next_multiple_of(FILTER_ALIGN) - self.bytes;
        match gap {
            0 => Ok(()),
            gap => self.append(&[0; FILTER_ALIGN as usize][..gap as usize]),
        }
    }

    /// Makes it durable, but for its name.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file
            .sync()
            .map_err(|error| Error::io(&self.path, error))
    }
}

/// A segment that is being written. Dropped before [`Writer::finish`], it leaves a file that the
/// caller removes.
pub(crate) struct Writer {
    options: WriterOptions,
    id: u64,
    identity: u64,
    file: NewFile,
    /// Where the segment begins in the file.
    start: u64,
    out: Vec<u8>,
    /// Bytes of the segment before `out`.
    written: u64,
    block: BlockBuilder,
    block_first_key: Vec<u8>,
    previous_block_last_key: Option<Vec<u8>>,
    last_key: Option<Vec<u8>>,
    index: IndexBuilder,
    filter: filter::Builder,
    filter_refusal: Option<String>,
    range: Option<range::Builder>,
    properties: Properties,
    packer: Option<Packer>,
}

/// A finished segment, durable but for the directory entry.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) meta: SegmentMeta,
    pub(crate) filter_build_time: Option<Duration>,
    /// Why the program's own filter was not built.
    pub(crate) filter_refusal: Option<String>,
}

impl Writer {
    /// Begins a segment behind those in the file. The filter is built in the memory of `filter`.
    pub(crate) fn create(
        mut file: NewFile,
        id: u64,
        options: WriterOptions,
        mut filter: filter::Builder,
    ) -> Result<Writer> {
        filter.begin(options.filter, options.filter_salt);
        file.align()?;
        let packer = Packer::of(options.compression);
        let packer = packer.map_err(|error| Error::io(&file.path, error))?;
        Ok(Writer {
            id,
            identity: file_identity(options.store_id, id),
            start: file.bytes,
            file,
            out: Vec::with_capacity(BUFFER_BYTES + PAGE_BYTES as usize),
            written: 0,
            block: BlockBuilder::new(options.sequence_base, options.entries_per_group),
            block_first_key: Vec::new(),
            previous_block_last_key: None,
            last_key: None,
            index: IndexBuilder::default(),
            filter,
            filter_refusal: None,
            range: options.range_bits.map(|_| range::Builder::default()),
            properties: Properties {
                sequence_min: Sequence::MAX,
                sketches: Sketches {
                    values: Some(KeySketch::default()),
                    deleted: Some(KeySketch::default()),
                },
                keyspace: options.keyspace,
                ..Properties::default()
            },
            packer,
            options,
        })
    }

    /// Bytes of the data blocks so far.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.written + self.out.len() as u64
    }

    /// Whether the segment has reached its size with what is before this entry, or the one at which
    /// its index could outgrow what a region can hold.
    ///
    /// A block more, of which nearly all is empty, would also be one ordinal more, and that of a
    /// power of two a bit more in the filter for each key.
    pub(crate) fn is_full(&self, segment_bytes: u64, next: &Entry<'_>) -> bool {
        let with_block = self.data_bytes() + u64::from(self.options.block_bytes);
        self.data_bytes() >= segment_bytes
            || (with_block >= segment_bytes && self.ends_block(next))
            || self.properties.raw_bytes >= RAW_BYTES_MAX
    }

    /// Whether this entry does not fit in the block.
    fn ends_block(&self, next: &Entry<'_>) -> bool {
        let limit = self.options.block_bytes as usize - TRAILER_BYTES;
        !self.block.is_empty() && self.block.len_with(next) > limit
    }

    /// Adds the next entry, in the order of [`crate::key::compare`].
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] for an entry older than all should be. Blocks have no number for its age,
    /// and only a merged segment with wrong properties has such an entry.
    pub(crate) fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        if entry.sequence < self.options.sequence_base {
            let what = "an entry is older than its segment says: `verify` finds this segment";
            let at = self.start + self.data_bytes();
            return Err(Error::corrupt(&self.file.path, at, what));
        }
        if self.ends_block(entry) {
            self.finish_block()?;
        }
        if self.block.is_empty() {
            self.block_first_key.clear();
            self.block_first_key.extend_from_slice(entry.key);
            if let Some(range) = &mut self.range {
                let before = self.previous_block_last_key.as_deref();
                // The range filter knows the first block by its first key.
                range.begin_block(before.map_or(entry.key, |last| index::fence(last, entry.key)));
            }
        }
        if self.last_key.as_deref() != Some(entry.key) {
            self.first_entry_of_key(entry.key, entry.kind);
        }
        self.block.add(entry);
        let properties = &mut self.properties;
        properties.entries += 1;
        properties.tombstones += u64::from(entry.kind == Kind::Tombstone);
        properties.sequence_min = properties.sequence_min.min(entry.sequence);
        properties.sequence_max = properties.sequence_max.max(entry.sequence);
        properties.raw_bytes += (entry.key.len() + entry.value.len()) as u64;
        Ok(())
    }

    /// The filter names the place of the newest entry of a key; older versions follow it.
    fn first_entry_of_key(&mut self, key: &[u8], kind: Kind) {
        let hash = (self.options.hash_key)(self.options.hash_seed, key);
        let sketches = &mut self.properties.sketches;
        let sketch = match kind {
            // With what it stands on an operand is a value.
            Kind::Value | Kind::Operand => &mut sketches.values,
            Kind::Tombstone => &mut sketches.deleted,
        };
        sketch.get_or_insert_default().insert(hash);
        self.properties.deleted_keys += u64::from(kind == Kind::Tombstone);
        let place = filter::Place::of_group(self.block_count(), self.block.next_group());
        self.filter.add(hash, place);
        if let Some(range) = &mut self.range {
            range.add(key);
        }
        if self.properties.keys == 0 {
            self.properties.first_key = key.to_vec();
        }
        self.properties.keys += 1;
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
    }

    /// Blocks so far that are finished. A block takes more than 16 bytes, and a segment 64 GiB.
    fn block_count(&self) -> u32 {
        four_bytes(self.index.block_count())
    }

    fn finish_block(&mut self) -> Result<()> {
        let start = self.out.len();
        let offset = self.written + start as u64;
        let stored = self.encode_block()?;
        let place = Place {
            file: self.identity,
            offset,
        };
        region::finish(&mut self.out, start, RegionKind::Data, stored, place);
        let stored_len = (self.out.len() - start) as u64;
        let before = self.previous_block_last_key.as_deref();
        self.index.add(stored_len, before, &self.block_first_key);
        self.previous_block_last_key.clone_from(&self.last_key);
        self.block.clear();
        if self.out.len() >= BUFFER_BYTES {
            self.write_out()
        } else {
            Ok(())
        }
    }

    /// Appends the payload of the block, compressed if that makes it smaller.
    fn encode_block(&mut self) -> Result<Stored> {
        let payload = self.block.finish();
        let plain_len = payload.len();
        if let Some(packer) = &mut self.packer {
            let packed = packer.pack(payload, &mut self.out);
            if let Some(codec) = packed.map_err(|error| Error::io(&self.file.path, error))? {
                return Ok(Stored {
                    codec,
                    plain_len,
                    padding: 0,
                });
            }
        }
        self.out.extend_from_slice(payload);
        let padding = match self.packer {
            Some(_) => 0,
            None => self.padding((plain_len + TRAILER_BYTES) as u64),
        };
        Ok(Stored {
            codec: Codec::Plain,
            plain_len,
            padding,
        })
    }

    /// What a block, whose payload has been appended, needs to end where the next one may begin. Of
    /// entries of which few fit a page, blocks that fill pages would waste up to half of the file.
    fn padding(&self, len: u64) -> usize {
        let end = self.data_bytes() + TRAILER_BYTES as u64;
        let up_to = |align: u64| end.next_multiple_of(align) - end;
        let to_page = up_to(PAGE_BYTES.min(self.options.block_bytes.into()));
        let is_worth_it = to_page * BYTES_PER_WASTED <= len;
        (if is_worth_it {
            to_page
        } else {
            up_to(DATA_ALIGN)
        }) as usize
    }

    fn write_out(&mut self) -> Result<()> {
        self.file.append(&self.out)?;
        self.written += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    /// Writes filter, index, properties and footer. At least one entry was added. Returns the file,
    /// which is not synced, and the memory for the next segment's filter.
    pub(crate) fn finish(
        mut self,
        level: u32,
        run: u64,
    ) -> Result<(Finished, NewFile, filter::Builder)> {
        if !self.block.is_empty() {
            self.finish_block()?;
        }
        let mut footer = Footer {
            segment_id: self.id,
            store_id: self.options.store_id,
            data_end: self.data_bytes(),
            ..Footer::default()
        };
        let filter_build_time = self.write_filters(&mut footer)?;
        let index = std::mem::take(&mut self.index).finish();
        (footer.index, footer.index_sum) = self.write_region(RegionKind::Index, &index)?;
        self.properties.last_key = self.last_key.take().unwrap_or_default();
        let properties = self.properties.encode();
        (footer.properties, footer.properties_sum) =
            self.write_region(RegionKind::Properties, &properties)?;
        footer.len = self.data_bytes() + crate::format::segment::FOOTER_BYTES as u64;
        let (bytes, footer_sum) = footer.encode(self.identity);
        self.out.extend_from_slice(&bytes);
        self.write_out()?;
        let meta = SegmentMeta {
            id: self.id,
            keyspace: self.options.keyspace,
            file: self.file.id,
            start: self.start,
            level,
            run,
            len: footer.len,
            footer_sum,
            sequence_max: self.properties.sequence_max,
            filter_file: 0,
            written_ms: 0,
            first_key: self.properties.first_key,
            last_key: self.properties.last_key,
        };
        let finished = Finished {
            meta,
            filter_build_time,
            filter_refusal: self.filter_refusal,
        };
        Ok((finished, self.file, self.filter))
    }

    fn write_region(&mut self, kind: RegionKind, payload: &[u8]) -> Result<(u64, u32)> {
        let start = self.out.len();
        let offset = self.data_bytes();
        self.out.extend_from_slice(payload);
        let place = Place {
            file: self.identity,
            offset,
        };
        let stored = Stored::plain(payload.len());
        let sum = region::finish(&mut self.out, start, kind, stored, place);
        if self.out.len() >= BUFFER_BYTES {
            self.write_out()?;
        }
        Ok((offset, sum))
    }

    /// Writes both filters; how long it took to build the one for keys.
    fn write_filters(&mut self, footer: &mut Footer) -> Result<Option<Duration>> {
        let (filter, took) = self.build_filter().unzip();
        let last_key = self.last_key.as_deref().unwrap_or_default();
        let range = self.options.range_bits.zip(self.range.as_mut());
        let filters = Filters::new(filter, range, last_key);
        let written = filters.write(self.identity, self)?;
        footer.filter_start = written.filter_start;
        footer.range_start = written.range_start;
        footer.filter_header = written.filter_header;
        footer.range_header = written.range_header;
        footer.filter_header_sum = written.filter_header_sum;
        footer.range_header_sum = written.range_header_sum;
        self.properties.filter = filters.properties();
        self.properties.range = filters.range_properties;
        Ok(took)
    }

    /// Builds the filter and looks every key up in it: a filter that would hide a key is a bug, and
    /// a segment without a filter is slower, not wrong. So it is left out as well if its header is
    /// longer than a region can be.
    fn build_filter(&mut self) -> Option<(Built, Duration)> {
        let started = Instant::now();
        let built = match self.filter.build(self.block_count(), &self.options.customs) {
            Ok(built) => built?,
            Err(what) => {
                self.filter_refusal = Some(what);
                return None;
            }
        };
        let took = started.elapsed();
        let finds = self.filter.are_all_found_by(&built);
        debug_assert!(finds, "a filter must find every key it was built from");
        let fits = u32::try_from(built.header.len()).is_ok();
        (finds && fits).then_some((built, took))
    }
}

impl Sink for Writer {
    type Error = Error;

    fn offset(&self) -> u64 {
        self.data_bytes()
    }

    fn append(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        encode(&mut self.out);
        if self.out.len() >= BUFFER_BYTES {
            self.write_out()?;
        }
        Ok(())
    }
}

/// The least payload that a block must have room for; see the bounds of `block_bytes`.
const _: () = assert!(HEADER_BYTES + TRAILER_BYTES < 512);
