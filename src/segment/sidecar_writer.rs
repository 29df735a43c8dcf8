//! Rebuilds the filter of a segment whose data stay as they are.
//!
//! Reads every data block of the segment once, writes only the filter, into a file of its own. The
//! manifest says which filter file stands for the filter in the segment.

use std::sync::Arc;

use crate::cursor::Direction;
use crate::error::{Error, Result};
use crate::format::block::Group;
use crate::format::region::{self, Place, RegionKind, Stored, file_identity};
use crate::format::segment::{FilterProperties, PAGE_WORDS, encode_page};
use crate::format::sidecar::{FOOTER_BYTES, Footer};
use crate::storage::Storage;
use criba_filters::hash_key;
use criba_filters::segment::{self as filter, CustomFilters, FilterSpec};

use super::caches::Caches;
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
    pub(crate) spec: FilterSpec,
    pub(crate) customs: CustomFilters,
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
        let built = builder.build(blocks, &options.customs);
        let built = built.map_err(Error::Invalid)?;
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
        let name = filter_file_name(options.id);
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
            let block = self.block(body, ordinal, caches, &mut LookupCost::default())?;
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
