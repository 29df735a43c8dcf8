//! A filter rebuilt for a segment whose data stay as they are: in a file of its own.
//!
//! Reads every data block of the segment once, writes only the filter. The manifest says which
//! filter file stands for the filter in the segment.

use std::path::Path;
use std::sync::Arc;

use crate::cursor::Direction;
use crate::error::{Error, Result};
use crate::format::block::Group;
use crate::format::region::{self, Codec, Place, RegionKind, Stored, file_identity};
use crate::format::segment::{FilterProperties, PAGE_WORDS, REGION_BYTES_MIN, encode_page};
use crate::format::sidecar::{FOOTER_BYTES, Footer};
use crate::slice::Slice;
use crate::storage::{ReadCause, Storage};
use criba_filters::hash_key;
use criba_filters::segment::{self as filter, FilterSpec};

use super::Caches;
use super::filter::{PageSource, SegmentFilter};
use super::get::Probe;
use super::readahead::Windows;
use super::reader::Segment;

/// The name of a filter file.
pub(crate) fn file_name(id: u64) -> String {
    format!("{id:06}.filter")
}

/// The number of a filter file from its name.
pub(crate) fn parse_name(name: &str) -> Option<u64> {
    let id = name.strip_suffix(".filter")?.parse().ok()?;
    // Number 0 is never given.
    (id > 0 && file_name(id) == name).then_some(id)
}

/// What a filter is written for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SidecarOptions {
    pub(crate) id: u64,
    pub(crate) store_id: u128,
    pub(crate) hash_seed: u64,
    pub(crate) spec: FilterSpec,
    pub(crate) salt: u64,
}

impl Segment {
    /// Builds a filter for the keys of this segment and writes it to a file, durable but for its
    /// name. Returns the bytes of the file.
    ///
    /// Costs one read for each data block.
    pub(crate) fn write_sidecar(
        &self,
        storage: &Arc<dyn Storage>,
        caches: &Caches,
        options: &SidecarOptions,
    ) -> Result<u64> {
        let blocks = self.body()?.fences.block_count();
        let mut builder = filter::Builder::default();
        builder.begin(Some(options.spec), options.salt);
        self.add_keys(&mut builder, caches, options.hash_seed)?;
        let built = builder.build(blocks);
        let built = built.filter(|built| builder.are_all_found_by(built));
        let built = built.expect("a filter finds every key that it was built from");
        let identity = file_identity(options.store_id, options.id);
        let mut out = Vec::new();
        for words in built.body.chunks(PAGE_WORDS) {
            let offset = out.len() as u64;
            encode_page(words, identity, offset, &mut out);
        }
        let header = out.len() as u64;
        out.extend_from_slice(&built.header);
        let place = Place {
            file: identity,
            offset: header,
        };
        let stored = Stored::plain(built.header.len());
        let kind = RegionKind::FilterHeader;
        let header_sum = region::finish(&mut out, header as usize, kind, stored, place);
        let footer = Footer {
            id: options.id,
            segment_id: self.meta.id,
            store_id: options.store_id,
            file_len: (out.len() + FOOTER_BYTES) as u64,
            header,
            header_sum,
            filter: FilterProperties {
                kind: built.kind.to_u8(),
                body_words: built.body.len() as u64,
                equal_hashes: built.equal_hashes,
                designed_rate: built.designed_rate,
            },
        };
        out.extend_from_slice(&footer.encode(identity));
        let name = file_name(options.id);
        let path = storage.path_of(&name);
        let at = |error| Error::io(&path, error);
        let mut file = storage.create(&name).map_err(at)?;
        file.append(&[&out]).map_err(at)?;
        file.sync().map_err(at)?;
        Ok(out.len() as u64)
    }

    /// Reads the place of the newest entry of every key.
    fn add_keys(
        &self,
        builder: &mut filter::Builder,
        caches: &Caches,
        hash_seed: u64,
    ) -> Result<()> {
        let body = self.body()?;
        let mut last_key: Option<Vec<u8>> = None;
        let (mut decoded, mut windows) = (Group::default(), Windows::default());
        for ordinal in 0..body.fences.block_count() {
            windows.come_to(body, ordinal, Direction::Forward);
            let block = self.block(body, ordinal, caches, &mut Probe::default())?;
            for group in 0..block.shape.group_count() {
                let mut each = |key: &[u8]| {
                    if last_key.as_deref() == Some(key) {
                        return;
                    }
                    let last = last_key.get_or_insert_default();
                    last.clear();
                    last.extend_from_slice(key);
                    builder.add(
                        hash_key(hash_seed, key),
                        filter::Place::of_group(ordinal, group),
                    );
                };
                block
                    .shape
                    .decode_group(&block.payload, group, &mut decoded)
                    .map_err(|what| self.malformed_block(body, ordinal, &what))?;
                for entry in &decoded.entries {
                    each(decoded.key(entry));
                }
            }
        }
        Ok(())
    }
}

/// Opens the filter file of a segment; whatever is wrong with it, the segment can be read
/// without.
pub(super) fn open(
    storage: &Arc<dyn Storage>,
    (id, segment_id, store_id): (u64, u64, u128),
    pinned: bool,
) -> Result<SegmentFilter> {
    let name = file_name(id);
    let path = storage.path_of(&name);
    let file = storage
        .open(&name)
        .map_err(|error| Error::io(&path, error))?;
    let identity = file_identity(store_id, id);
    let len = file.len();
    if len < FOOTER_BYTES as u64 {
        return Err(Error::corrupt(&path, 0, "the filter file is cut"));
    }
    let read = |cause, offset: u64, end: u64| -> Result<Slice> {
        let len = usize::try_from(end - offset).unwrap_or(usize::MAX);
        file.read(cause, offset, len)
            .map_err(|error| Error::io(&path, error))
    };
    let offset = len - FOOTER_BYTES as u64;
    let bytes = read(ReadCause::Open, offset, len)?;
    let footer = Footer::decode(&bytes, len, identity)
        .map_err(|malformed| Error::corrupt(&path, offset, malformed.what))?;
    if (footer.id, footer.segment_id, footer.store_id) != (id, segment_id, store_id) {
        return Err(Error::corrupt(
            &path,
            offset,
            "the filter of another segment or store",
        ));
    }
    let header = header(&path, &footer, identity, &read)?;
    let source = PageSource {
        file,
        file_id: id,
        identity,
    };
    SegmentFilter::open(&header, &footer.filter, (0, footer.header), source, pinned)
        .map_err(|malformed| Error::corrupt(&path, 0, malformed.what))
}

fn header(
    path: &Path,
    footer: &Footer,
    identity: u64,
    read: &dyn Fn(ReadCause, u64, u64) -> Result<Slice>,
) -> Result<Slice> {
    let corrupt = |what: String| Error::corrupt(path, footer.header, what);
    if footer.offset() - footer.header < REGION_BYTES_MIN {
        return Err(corrupt("filter header: its region is cut".into()));
    }
    let bytes = read(ReadCause::Filter, footer.header, footer.offset())?;
    let place = Place {
        file: identity,
        offset: footer.header,
    };
    let region = region::open(&bytes, RegionKind::FilterHeader, place)
        .map_err(|malformed| corrupt(malformed.what))?;
    if region.checksum != footer.header_sum || region.codec != Codec::Plain {
        return Err(corrupt(
            "filter header: not the one that the footer knows".into(),
        ));
    }
    Ok(bytes.slice(0..region.payload_len))
}
