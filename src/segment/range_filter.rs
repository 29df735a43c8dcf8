//! The range filter of a segment: resident header, and a body in memory or read by pages.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::format::Malformed;
use crate::format::region::TRAILER_BYTES;
use crate::format::segment::PageKind;
use crate::options::{FilterLoading, FilterResidency};
use criba_filters::range::{Between, RangeFilter};

use super::caches::Caches;
use super::outcome::LookupCost;
use super::pages::{PageSource, Pages};

/// A range filter that can be asked.
#[derive(Debug)]
pub(crate) struct SegmentRangeFilter {
    filter: RangeFilter,
    pages: Pages,
    /// The whole body, where it is in memory.
    pinned: Option<Box<[u64]>>,
    /// Bytes of pages and header on disk.
    pub(crate) disk_bytes: u64,
    /// The part of the gaps between keys of the segment that it refutes, in percent, by a sample.
    pub(crate) refutes: u8,
    pub(crate) counts: RangeCounts,
}

/// What scans met since the segment was opened. Relaxed: they are only ever added up.
#[derive(Debug, Default)]
pub(crate) struct RangeCounts {
    pub(crate) asked: AtomicU64,
    /// Answers that met a page that cannot be read.
    pub(crate) damaged_pages: AtomicU64,
}

/// The range filter of a segment, or why there is none to ask.
#[derive(Debug)]
pub(crate) enum RangeState {
    /// The segment was written without.
    None,
    /// It would have refuted only this part of the gaps, in percent.
    Declined {
        refutes: u8,
    },
    Ready(Box<SegmentRangeFilter>),
    /// Scans go without it.
    Damaged(Error),
}

impl SegmentRangeFilter {
    /// Makes a filter from its header and the place of its pages, for a segment of so many blocks.
    pub(super) fn open(
        (header, refutes): (&[u8], u8),
        blocks: u32,
        place: (u64, u64),
        source: PageSource,
        loading: &FilterLoading,
    ) -> Result<SegmentRangeFilter, Malformed> {
        let filter = RangeFilter::parse(header, blocks).map_err(|damaged| Malformed {
            what: format!("range filter: {damaged}"),
            at: 0,
        })?;
        let pages = Pages::new(source, PageKind::Range, filter.body_words(), place)?;
        let mut pinned = None;
        if loading.residency == FilterResidency::Pinned {
            let mut words = Vec::with_capacity(pages.words() as usize);
            pages.read_all(|page| words.extend_from_slice(page))?;
            pinned = Some(words.into());
        }
        Ok(SegmentRangeFilter {
            disk_bytes: pages.disk_bytes() + header.len() as u64 + TRAILER_BYTES as u64,
            filter,
            pages,
            pinned,
            refutes,
            counts: RangeCounts::default(),
        })
    }

    /// See [`Pages::damaged`].
    pub(super) fn damaged_pages_on_disk(&self) -> Vec<(u64, Malformed)> {
        self.pages.damaged()
    }

    /// Bits for each key, header included.
    pub(crate) fn bits_per_key(&self) -> f64 {
        self.disk_bytes as f64 * 8.0 / self.filter.keys().max(1) as f64
    }

    /// See [`RangeFilter::fits`].
    pub(crate) fn fits(&self, bits_per_key: f64) -> bool {
        self.filter.fits(bits_per_key)
    }

    /// Bytes in memory with the whole body resident, and without it.
    pub(crate) fn memory_bytes(&self) -> (u64, u64) {
        let resident = self.filter.resident_bytes();
        (resident + self.pages.words() * 8, resident)
    }

    /// Whether a block may hold a key of a range.
    pub(super) fn may_hold(
        &self,
        block: u32,
        fences: Between<'_>,
        range: (Option<&[u8]>, Option<&[u8]>),
        reading: (&Caches, &mut LookupCost),
    ) -> bool {
        let ask = |words: &[u64]| self.filter.may_hold((block, words), fences, range);
        self.ask(block, reading, ask)
    }

    /// See [`RangeFilter::next_from`].
    pub(super) fn next_from(
        &self,
        block: u32,
        fences: Between<'_>,
        from: &[u8],
        reading: (&Caches, &mut LookupCost),
    ) -> Option<Vec<u8>> {
        let ask = |words: &[u64]| self.filter.next_from((block, words), fences, from);
        self.ask(block, reading, ask)
    }

    /// See [`RangeFilter::previous_to`].
    pub(super) fn previous_to(
        &self,
        block: u32,
        fences: Between<'_>,
        to: &[u8],
        reading: (&Caches, &mut LookupCost),
    ) -> Option<Vec<u8>> {
        let ask = |words: &[u64]| self.filter.previous_to((block, words), fences, to);
        self.ask(block, reading, ask)
    }

    /// Shows the words of a block, or none if there are none. A page that cannot be read is like a block
    /// without words, "maybe": counted, never an error.
    fn ask<T>(
        &self,
        block: u32,
        (caches, cost): (&Caches, &mut LookupCost),
        ask: impl Fn(&[u64]) -> T,
    ) -> T {
        self.counts.asked.fetch_add(1, Ordering::Relaxed);
        let words = self.filter.words(block);
        if words.is_empty() {
            return ask(&[]);
        }
        if let Some(body) = &self.pinned {
            let words = body.get(words.start as usize..words.end as usize);
            return ask(words.unwrap_or_default());
        }
        let shown = self.pages.with_words(words, caches, cost, &ask);
        shown.unwrap_or_else(|_damaged| {
            cost.filter_damaged = true;
            self.counts.damaged_pages.fetch_add(1, Ordering::Relaxed);
            ask(&[])
        })
    }
}
