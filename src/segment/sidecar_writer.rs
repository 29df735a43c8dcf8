//! Rebuilds the filters of a segment whose data stay as they are.
//!
//! Reads every data block of the segment once, writes only the filters, into a file of their own. The
//! manifest says which filter file stands for the filters in the segment.

use std::convert::Infallible;
use std::sync::Arc;

use crate::cursor::Direction;
use crate::error::{Error, Result};
use crate::format::block::Group;
use crate::format::region::file_identity;
use crate::format::sidecar::{FOOTER_BYTES, Footer};
use crate::storage::Storage;
use criba_filters::segment::{self as filter, CustomFilters, FilterSpec};
use criba_filters::{hash_key, range};

use super::caches::Caches;
use super::filter_writer::{Filters, Sink};
use super::names::filter_file_name;
use super::outcome::LookupCost;
use super::readahead::Windows;
use super::reader::Segment;

/// What a filter is written for.
#[derive(Clone, Debug)]
pub(crate) struct SidecarOptions {
    pub(crate) id: u64,
    pub(crate) store_id: u128,
    pub(crate) hash_seed: u64,
    pub(crate) spec: Option<FilterSpec>,
    /// Bits per key of the range filter; `None` for no such filter.
    pub(crate) range_bits: Option<f64>,
    pub(crate) customs: CustomFilters,
    pub(crate) salt: u64,
}

/// What takes the keys of a segment.
struct Keys {
    filter: filter::Builder,
    range: Option<range::Builder>,
}

/// A file that is made in memory.
struct Bytes(Vec<u8>);

impl Sink for Bytes {
    type Error = Infallible;

    fn offset(&self) -> u64 {
        self.0.len() as u64
    }

    fn append(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<(), Infallible> {
        encode(&mut self.0);
        Ok(())
    }
}

impl Segment {
    /// Builds filters for the keys of this segment and writes them to a file, durable but for its
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
        let mut keys = Keys {
            filter: filter::Builder::default(),
            range: options.range_bits.map(|_| range::Builder::default()),
        };
        keys.filter.begin(options.spec, options.salt);
        self.add_keys(&mut keys, caches, options.hash_seed)?;
        let built = keys.filter.build(blocks, &options.customs);
        let built = built.map_err(Error::Invalid)?;
        if let Some(built) = &built {
            assert!(
                keys.filter.are_all_found_by(built),
                "a filter finds every key that it was built from"
            );
        }
        let range = options.range_bits.zip(keys.range.as_mut());
        let filters = Filters::new(built, range, &self.meta.last_key);
        let identity = file_identity(options.store_id, options.id);
        let mut out = Bytes(Vec::new());
        let Ok(written) = filters.write(identity, &mut out);
        let Bytes(mut out) = out;
        let footer = Footer {
            id: options.id,
            segment_id: self.meta.id,
            store_id: options.store_id,
            file_len: (out.len() + FOOTER_BYTES) as u64,
            range_start: written.range_start,
            header: written.filter_header,
            range_header: written.range_header,
            header_sum: written.filter_header_sum,
            range_header_sum: written.range_header_sum,
            filter: filters.properties(),
            range: filters.range_properties,
        };
        out.extend_from_slice(&footer.encode(identity));
        let name = filter_file_name(options.id);
        let path = storage.path_of(&name);
        let at = |error| Error::io(&path, error);
        let mut file = storage.create(&name).map_err(at)?;
        file.append(&[&out]).map_err(at)?;
        file.sync().map_err(at)?;
        Ok(out.len() as u64)
    }

    /// Reads the place of the newest entry of every key.
    fn add_keys(&self, keys: &mut Keys, caches: &Caches, hash_seed: u64) -> Result<()> {
        let body = self.body()?;
        let mut last_key: Option<Vec<u8>> = None;
        let (mut decoded, mut windows) = (Group::default(), Windows::default());
        for ordinal in 0..body.fences.block_count() {
            windows.come_to(body, ordinal, Direction::Forward);
            let block = self.block(body, ordinal, caches, &mut LookupCost::default())?;
            if let Some(range) = &mut keys.range {
                range.begin_block(&body.fences.least_key(ordinal, &self.meta.first_key));
            }
            for group in 0..block.shape.group_count() {
                let mut each = |key: &[u8]| {
                    if last_key.as_deref() == Some(key) {
                        return;
                    }
                    let last = last_key.get_or_insert_default();
                    last.clear();
                    last.extend_from_slice(key);
                    let place = filter::Place::of_group(ordinal, group);
                    keys.filter.add(hash_key(hash_seed, key), place);
                    if let Some(range) = &mut keys.range {
                        range.add(key);
                    }
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
