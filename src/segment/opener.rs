//! Opens a segment: reads and verifies what stays in memory.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::manifest::SegmentMeta;
use crate::format::region::{self, Codec, Place, RegionKind, file_identity};
use crate::format::segment::{FOOTER_BYTES, Footer, Properties, REGION_BYTES_MIN, RangeProperties};
use crate::options::FilterLoading;
use crate::slice::Slice;
use crate::storage::{ReadCause, ReadFile, Storage};

use super::body::Body;
use super::counters::Counters;
use super::fences::Fences;
use super::filter::{FilterState, SegmentFilter};
use super::groups::Groups;
use super::map::Mapped;
use super::pages::PageSource;
use super::range_filter::{RangeState, SegmentRangeFilter};
use super::sidecar::{Sidecar, SidecarId};

/// The steps of opening a segment.
pub(super) struct Opener<'a> {
    pub(super) storage: &'a Arc<dyn Storage>,
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) path: &'a Path,
    pub(super) meta: &'a SegmentMeta,
    pub(super) store_id: u128,
}

impl Opener<'_> {
    fn corrupt(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::corrupt(self.path, self.meta.start.saturating_add(offset), what)
    }

    fn identity(&self) -> u64 {
        file_identity(self.store_id, self.meta.id)
    }

    pub(super) fn open(self, loading: &FilterLoading) -> Result<Body> {
        let footer = self.footer()?;
        let properties = self.payload(
            RegionKind::Properties,
            (footer.properties, footer.offset()),
            footer.properties_sum,
        )?;
        let properties = Properties::decode(&properties)
            .map_err(|malformed| self.corrupt(footer.properties, malformed.to_string()))?;
        if properties.keyspace != self.meta.keyspace {
            return Err(self.corrupt(footer.properties, "a segment of another keyspace"));
        }
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
        let (filter, range) = self.filters(&footer, &properties, fences.block_count(), loading);
        let identity = self.identity();
        let mapped = self.file.mapped();
        let mapped = mapped.map(|bytes| Mapped::new(&bytes, fences.block_count()));
        let last_group = match &filter {
            FilterState::Ready(filter) if mapped.is_none() => filter.filter.last_slot(),
            _ => None,
        };
        Ok(Body {
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
            range,
            counters: Counters::default(),
        })
    }

    fn footer(&self) -> Result<Footer> {
        let len = self.file.len();
        if len != self.meta.len || len < FOOTER_BYTES as u64 {
            let expected = self.meta.len;
            let what = format!("the file has {len} bytes of it, the manifest says {expected}");
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
            RegionKind::FilterHeader | RegionKind::RangeHeader => ReadCause::Filter,
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

    /// Both filters; whatever is wrong with them, the segment can be read without.
    fn filters(
        &self,
        footer: &Footer,
        properties: &Properties,
        blocks: u32,
        loading: &FilterLoading,
    ) -> (FilterState, RangeState) {
        let id = self.meta.filter_file;
        if id == 0 {
            return (
                self.filter(footer, properties, loading),
                self.range(footer, properties, blocks, loading),
            );
        }
        let wanted = SidecarId {
            id,
            segment_id: self.meta.id,
            store_id: self.store_id,
        };
        match Sidecar::open(self.storage, wanted) {
            Ok(sidecar) => (sidecar.filter(loading), sidecar.range(blocks, loading)),
            Err(error) => (
                FilterState::Damaged(error.clone()),
                RangeState::Damaged(error),
            ),
        }
    }

    fn source(&self) -> PageSource {
        PageSource {
            file: Arc::clone(&self.file),
            file_id: self.meta.id,
            identity: self.identity(),
        }
    }

    fn filter(
        &self,
        footer: &Footer,
        properties: &Properties,
        loading: &FilterLoading,
    ) -> FilterState {
        let Some(filter) = &properties.filter else {
            return FilterState::None;
        };
        let region = (footer.filter_header, footer.range_header);
        let opened = self
            .payload(RegionKind::FilterHeader, region, footer.filter_header_sum)
            .and_then(|header| {
                let pages = (footer.filter_start, footer.range_start);
                SegmentFilter::open(&header, filter, pages, self.source(), loading)
                    .map_err(|malformed| self.corrupt(pages.0, malformed.to_string()))
            });
        match opened {
            Ok(filter) => FilterState::Ready(Box::new(filter)),
            Err(error) => FilterState::Damaged(error),
        }
    }

    fn range(
        &self,
        footer: &Footer,
        properties: &Properties,
        blocks: u32,
        loading: &FilterLoading,
    ) -> RangeState {
        let refutes = match properties.range {
            RangeProperties::None => return RangeState::None,
            RangeProperties::Declined { refuted } => {
                return RangeState::Declined { refutes: refuted };
            }
            RangeProperties::There { refuted } => refuted,
        };
        let region = (footer.range_header, footer.index);
        let opened = self
            .payload(RegionKind::RangeHeader, region, footer.range_header_sum)
            .and_then(|header| {
                let pages = (footer.range_start, footer.filter_header);
                let header = (&*header, refutes);
                SegmentRangeFilter::open(header, blocks, pages, self.source(), loading)
                    .map_err(|malformed| self.corrupt(pages.0, malformed.to_string()))
            });
        match opened {
            Ok(filter) => RangeState::Ready(Box::new(filter)),
            Err(error) => RangeState::Damaged(error),
        }
    }
}
