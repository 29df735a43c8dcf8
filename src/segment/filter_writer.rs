//! Writes the filters of a segment: the pages of both, then the headers of both.

use crate::format::region::{self, Place, RegionKind, Stored};
use crate::format::segment::{
    FILTER_ALIGN, FilterProperties, PAGE_WORDS, PageKind, RangeProperties, encode_page,
};
use criba_filters::range::{self, REFUTED_MIN};
use criba_filters::segment::Built;

/// The filters of a segment, finished.
#[derive(Default)]
pub(super) struct Filters {
    pub(super) filter: Option<Built>,
    range: Option<range::Built>,
    pub(super) range_properties: RangeProperties,
}

/// Where they were written, and what the footer says of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) filter_start: u64,
    pub(super) range_start: u64,
    pub(super) filter_header: u64,
    pub(super) range_header: u64,
    pub(super) filter_header_sum: u32,
    pub(super) range_header_sum: u32,
}

/// Takes the bytes of a file one after the other.
pub(super) trait Sink {
    type Error;

    /// Where the next byte goes, from the beginning of the segment or filter file.
    fn offset(&self) -> u64;

    /// Appends what `encode` appends.
    fn append(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<(), Self::Error>;
}

impl Filters {
    /// Filters with a range filter of so many bits for each key, if any. One that would refute little,
    /// or that would need more bits, is left out.
    pub(super) fn new(
        filter: Option<Built>,
        range: Option<(f64, &mut range::Builder)>,
        last_key: &[u8],
    ) -> Filters {
        let is_wanted = range.is_some();
        let range = range.and_then(|(bits, builder)| builder.build(last_key, bits));
        let share = range.as_ref().map_or(0.0, |built| built.refuted);
        let refuted = (share * 100.0).round() as u8;
        let range_properties = match is_wanted {
            false => RangeProperties::None,
            true if share < REFUTED_MIN => RangeProperties::Declined { refuted },
            true => RangeProperties::There { refuted },
        };
        let is_there = matches!(range_properties, RangeProperties::There { .. });
        Filters {
            filter,
            range: range.filter(|_| is_there),
            range_properties,
        }
    }

    /// What the footer or the properties say of the filter.
    pub(super) fn properties(&self) -> Option<FilterProperties> {
        self.filter.as_ref().map(|built| FilterProperties {
            kind: built.kind.to_u8(),
            body_words: built.body.len() as u64,
            equal_hashes: built.equal_hashes,
            designed_rate: built.designed_rate,
        })
    }

    /// Writes all of it for the file with this identity.
    pub(super) fn write<S: Sink>(&self, identity: u64, out: &mut S) -> Result<Written, S::Error> {
        let mut written = Written::default();
        let body = self.filter.as_ref().map_or(&[][..], |built| &*built.body);
        written.filter_start = write_pages(PageKind::Filter, body, identity, out)?;
        let body = self.range.as_ref().map_or(&[][..], |built| &*built.body);
        written.range_start = write_pages(PageKind::Range, body, identity, out)?;
        written.filter_header = out.offset();
        if let Some(built) = &self.filter {
            let kind = RegionKind::FilterHeader;
            written.filter_header_sum = write_header(kind, &built.header, identity, out)?;
        }
        written.range_header = out.offset();
        if let Some(built) = &self.range {
            let kind = RegionKind::RangeHeader;
            written.range_header_sum = write_header(kind, &built.header, identity, out)?;
        }
        Ok(written)
    }
}

/// Writes the pages of a body from a multiple of [`FILTER_ALIGN`] on, and says where they begin.
fn write_pages<S: Sink>(
    kind: PageKind,
    body: &[u64],
    file: u64,
    out: &mut S,
) -> Result<u64, S::Error> {
    if !body.is_empty() {
        let offset = out.offset();
        let gap = (offset.next_multiple_of(FILTER_ALIGN) - offset) as usize;
        out.append(|bytes| bytes.resize(bytes.len() + gap, 0))?;
    }
    let start = out.offset();
    for words in body.chunks(PAGE_WORDS) {
        let offset = out.offset();
        out.append(|bytes| encode_page(kind, words, Place { file, offset }, bytes))?;
    }
    Ok(start)
}

fn write_header<S: Sink>(
    kind: RegionKind,
    header: &[u8],
    file: u64,
    out: &mut S,
) -> Result<u32, S::Error> {
    let offset = out.offset();
    let mut sum = 0;
    out.append(|bytes| {
        let start = bytes.len();
        bytes.extend_from_slice(header);
        let stored = Stored::plain(header.len());
        sum = region::finish(bytes, start, kind, stored, Place { file, offset });
    })?;
    Ok(sum)
}
