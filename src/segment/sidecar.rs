//! Opens the filters of a segment that lie in a file of their own.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::region::{self, Codec, Place, RegionKind, file_identity};
use crate::format::segment::{REGION_BYTES_MIN, RangeProperties};
use crate::format::sidecar::{FOOTER_BYTES, Footer};
use crate::options::FilterLoading;
use crate::slice::Slice;
use crate::storage::{ReadCause, ReadFile, Storage};

use super::filter::{FilterState, SegmentFilter};
use super::names::filter_file_name;
use super::pages::PageSource;
use super::range_filter::{RangeState, SegmentRangeFilter};

/// Which filter file is wanted.
#[derive(Clone, Copy)]
pub(super) struct SidecarId {
    pub(super) id: u64,
    pub(super) segment_id: u64,
    pub(super) store_id: u128,
}

/// A filter file.
pub(super) struct Sidecar {
    path: PathBuf,
    id: u64,
    file: Arc<dyn ReadFile>,
    identity: u64,
    footer: Footer,
}

impl Sidecar {
    /// Opens the filter file of a segment; whatever is wrong with it, the segment can be read
    /// without.
    pub(super) fn open(storage: &Arc<dyn Storage>, wanted: SidecarId) -> Result<Sidecar> {
        let SidecarId {
            id,
            segment_id,
            store_id,
        } = wanted;
        let name = filter_file_name(id);
        let path = storage.path_of(&name);
        let file = storage
            .open(&name)
            .map_err(|error| Error::io(&path, error))?;
        let identity = file_identity(store_id, id);
        let len = file.len();
        let Some(offset) = len.checked_sub(FOOTER_BYTES as u64) else {
            return Err(Error::corrupt(&path, 0, "the filter file is cut"));
        };
        let bytes = file
            .read(ReadCause::Open, offset, FOOTER_BYTES)
            .map_err(|error| Error::io(&path, error))?;
        let footer = Footer::decode(&bytes, len, identity)
            .map_err(|malformed| Error::corrupt(&path, offset, malformed.what))?;
        if (footer.id, footer.segment_id, footer.store_id) != (id, segment_id, store_id) {
            let what = "the filter of another segment or store";
            return Err(Error::corrupt(&path, offset, what));
        }
        Ok(Sidecar {
            path,
            id,
            file,
            identity,
            footer,
        })
    }

    fn source(&self) -> PageSource {
        PageSource {
            file: Arc::clone(&self.file),
            file_id: self.id,
            identity: self.identity,
        }
    }

    pub(super) fn filter(&self, loading: &FilterLoading) -> FilterState {
        let Some(filter) = &self.footer.filter else {
            return FilterState::None;
        };
        let footer = &self.footer;
        let region = (footer.header, footer.range_header);
        let opened = self
            .header(RegionKind::FilterHeader, region, footer.header_sum)
            .and_then(|header| {
                let pages = (0, footer.range_start);
                SegmentFilter::open(&header, filter, pages, self.source(), loading)
                    .map_err(|malformed| Error::corrupt(&self.path, 0, malformed.what))
            });
        match opened {
            Ok(filter) => FilterState::Ready(Box::new(filter)),
            Err(error) => FilterState::Damaged(error),
        }
    }

    /// The range filter, for a segment of so many blocks.
    pub(super) fn range(&self, blocks: u32, loading: &FilterLoading) -> RangeState {
        let footer = &self.footer;
        let refutes = match footer.range {
            RangeProperties::None => return RangeState::None,
            RangeProperties::Declined { refuted } => {
                return RangeState::Declined { refutes: refuted };
            }
            RangeProperties::There { refuted } => refuted,
        };
        let region = (footer.range_header, footer.offset());
        let start = footer.range_start;
        let opened = self
            .header(RegionKind::RangeHeader, region, footer.range_header_sum)
            .and_then(|header| {
                let pages = (start, footer.header);
                let header = (&*header, refutes);
                SegmentRangeFilter::open(header, blocks, pages, self.source(), loading)
                    .map_err(|malformed| Error::corrupt(&self.path, start, malformed.what))
            });
        match opened {
            Ok(filter) => RangeState::Ready(Box::new(filter)),
            Err(error) => RangeState::Damaged(error),
        }
    }

    fn header(&self, kind: RegionKind, (start, end): (u64, u64), sum: u32) -> Result<Slice> {
        let corrupt = |what: String| Error::corrupt(&self.path, start, what);
        let name = kind.name();
        if end - start < REGION_BYTES_MIN {
            return Err(corrupt(format!("{name}: its region is cut")));
        }
        let len = usize::try_from(end - start).unwrap_or(usize::MAX);
        let bytes = self
            .file
            .read(ReadCause::Filter, start, len)
            .map_err(|error| Error::io(&self.path, error))?;
        let place = Place {
            file: self.identity,
            offset: start,
        };
        let region =
            region::open(&bytes, kind, place).map_err(|malformed| corrupt(malformed.what))?;
        if region.checksum != sum || region.codec != Codec::Plain {
            return Err(corrupt(format!(
                "{name}: not the one that the footer knows"
            )));
        }
        Ok(bytes.slice(0..region.payload_len))
    }
}
