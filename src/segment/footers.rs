//! Finds the segments of a file by their footers, where no manifest tells.

use std::sync::Arc;

use crate::format::manifest::SegmentMeta;
use crate::format::region::{self, Place, RegionKind, file_identity};
use crate::format::segment::{FOOTER_BYTES, Footer, Properties};
use crate::key::Sequence;
use crate::storage::{ReadCause, ReadFile, Storage};

use super::names::file_name;

/// Bytes that are searched for footers at a time.
const WINDOW_BYTES: usize = 1 << 20;

/// The footer at the end of a segment, and its checksum.
pub(super) fn footer_of(segment: &dyn ReadFile, identity: u64) -> Option<(Footer, u32)> {
    let offset = segment.len().checked_sub(FOOTER_BYTES as u64)?;
    let bytes = segment.read(ReadCause::Open, offset, FOOTER_BYTES).ok()?;
    Footer::decode(&bytes, segment.len(), identity).ok()
}

/// Calls `seen` with each intact footer in the file: the store, the segment, its checksum, and where the
/// segment begins.
fn for_each_footer(file: &dyn ReadFile, mut seen: impl FnMut(&Footer, u32, u64)) {
    let mut at = 0;
    while at < file.len() {
        let len = (file.len() - at).min((WINDOW_BYTES + FOOTER_BYTES) as u64);
        let Ok(bytes) = file.read(ReadCause::Open, at, usize::try_from(len).unwrap_or(0)) else {
            return;
        };
        let mut from = 0;
        while let Some(found) = Footer::find_in(&bytes, from) {
            from = found + 1;
            let end = at + (found + FOOTER_BYTES) as u64;
            let footer = bytes.get(found..found + FOOTER_BYTES);
            let is_here = found < WINDOW_BYTES;
            if let Some((footer, sum)) = footer.filter(|_| is_here).and_then(intact)
                && let Some(start) = end.checked_sub(footer.len)
            {
                seen(&footer, sum, start);
            }
        }
        at += WINDOW_BYTES as u64;
    }
}

/// The footer in these bytes, if its checksum is that of the segment that it names.
fn intact(bytes: &[u8]) -> Option<(Footer, u32)> {
    let (store_id, segment_id, len) = Footer::claims_of(bytes)?;
    Footer::decode(bytes, len, file_identity(store_id, segment_id)).ok()
}

/// What the segments of a file say of themselves: enough to open them where no manifest knows them.
/// Those whose footer or properties are damaged are left out.
pub(crate) fn segments_of(storage: &dyn Storage, store_id: u128, id: u64) -> Vec<SegmentMeta> {
    let Ok(file) = storage.open(&file_name(id)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for_each_footer(&*file, |footer, sum, start| {
        if footer.store_id == store_id
            && let Some(properties) = properties_of(&*file, footer, start)
        {
            found.push(SegmentMeta {
                id: footer.segment_id,
                keyspace: properties.keyspace,
                file: id,
                start,
                level: 0,
                run: footer.segment_id,
                len: footer.len,
                footer_sum: sum,
                sequence_max: properties.sequence_max,
                filter_file: 0,
                written_ms: 0,
                first_key: properties.first_key,
                last_key: properties.last_key,
            });
        }
    });
    found
}

fn properties_of(file: &dyn ReadFile, footer: &Footer, start: u64) -> Option<Properties> {
    let len = usize::try_from(footer.offset().checked_sub(footer.properties)?).ok()?;
    let offset = start.checked_add(footer.properties)?;
    let bytes = file.read(ReadCause::Open, offset, len).ok()?;
    let place = Place {
        file: file_identity(footer.store_id, footer.segment_id),
        offset: footer.properties,
    };
    let region = region::open(&bytes, RegionKind::Properties, place).ok()?;
    Properties::decode(&bytes.slice(0..region.payload_len)).ok()
}

/// The store that the segments of a file belong to, by a footer.
pub(crate) fn store_of(storage: &dyn Storage, id: u64) -> Option<u128> {
    let file = storage.open(&file_name(id)).ok()?;
    let mut store = None;
    for_each_footer(&*file, |footer, _, _| store = Some(footer.store_id));
    store
}

/// The highest sequence in the segments of a file, by their own word.
pub(crate) fn last_sequence_of(
    storage: &Arc<dyn Storage>,
    store_id: u128,
    id: u64,
) -> Option<Sequence> {
    let segments = segments_of(&**storage, store_id, id);
    segments.iter().map(|meta| meta.sequence_max).max()
}
