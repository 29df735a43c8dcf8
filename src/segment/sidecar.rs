//! Opens the filter of a segment that lies in a file of its own.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::region::{self, Codec, Place, RegionKind, file_identity};
use crate::format::segment::REGION_BYTES_MIN;
use crate::format::sidecar::{FOOTER_BYTES, Footer};
use crate::options::FilterLoading;
use crate::slice::Slice;
use crate::storage::{ReadCause, Storage};

use super::filter::{PageSource, SegmentFilter};
use super::names::filter_file_name;

/// Which filter file is wanted.
#[derive(Clone, Copy)]
pub(super) struct SidecarId {
    pub(super) id: u64,
    pub(super) segment_id: u64,
    pub(super) store_id: u128,
}

/// Opens the filter file of a segment; whatever is wrong with it, the segment can be read
/// without.
pub(super) fn open(
    storage: &Arc<dyn Storage>,
    wanted: SidecarId,
    loading: &FilterLoading,
) -> Result<SegmentFilter> {
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
    SegmentFilter::open(&header, &footer.filter, (0, footer.header), source, loading)
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
