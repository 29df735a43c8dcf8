//! The filter of a segment: resident header, and a body in memory or read by pages.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::format::Malformed;
use crate::format::region::TRAILER_BYTES;
use crate::format::segment::{FilterProperties, PageKind};
use crate::options::{FilterLoading, FilterResidency};
use criba_filters::KeyHash;
use criba_filters::segment::{Answer, Begun, Filter, FilterKind, Resident, Window, Words};

use super::caches::Caches;
use super::outcome::LookupCost;
use super::pages::{PageSource, Pages};

/// A filter that can be asked.
#[derive(Debug)]
pub(crate) struct SegmentFilter {
    pub(crate) filter: Filter,
    pub(crate) equal_hashes: bool,
    pages: Pages,
    body: Body,
    /// Bytes of pages and header on disk.
    pub(crate) disk_bytes: u64,
    /// Lookups that met a page that cannot be read.
    pub(crate) damaged_pages: AtomicU64,
}

#[derive(Debug)]
enum Body {
    Pinned(Resident),
    OnDisk,
}

impl SegmentFilter {
    /// Makes a filter from its header and the place of its pages.
    pub(crate) fn open(
        header: &[u8],
        properties: &FilterProperties,
        place: (u64, u64),
        source: PageSource,
        loading: &FilterLoading,
    ) -> Result<SegmentFilter, Malformed> {
        let malformed = |what: &str| Malformed {
            what: format!("filter: {what}"),
            at: 0,
        };
        let kind = FilterKind::from_u8(properties.kind)
            .ok_or_else(|| malformed("unknown kind; a newer version of criba wrote it"))?;
        let body_words = properties.body_words;
        let pages = Pages::new(source, PageKind::Filter, body_words, place)?;
        let filter = Filter::parse_with(kind, header, body_words, &loading.customs)
            .map_err(|damaged| malformed(&damaged.to_string()))?;
        let mut body = Body::OnDisk;
        if loading.residency == FilterResidency::Pinned {
            let mut words = Words::with_capacity(body_words as usize);
            pages.read_all(|page| words.extend(page))?;
            body = Body::Pinned(filter.arrange(words));
        }
        let equal_hashes = properties.equal_hashes;
        Ok(SegmentFilter {
            filter,
            equal_hashes,
            disk_bytes: pages.disk_bytes() + header.len() as u64 + TRAILER_BYTES as u64,
            pages,
            body,
            damaged_pages: AtomicU64::new(0),
        })
    }

    /// See [`Pages::damaged`].
    pub(crate) fn damaged_pages_on_disk(&self) -> Vec<(u64, Malformed)> {
        self.pages.damaged()
    }

    /// The first step of a lookup. Begins to fetch what the second will read, if it is in memory.
    #[inline(always)]
    pub(super) fn begin(&self, hash: KeyHash, begun: &mut Begun) {
        match &self.body {
            Body::Pinned(body) => self.filter.begin(hash, body, begun),
            Body::OnDisk => self.locate(hash, begun),
        }
    }

    #[inline(never)]
    fn locate(&self, hash: KeyHash, begun: &mut Begun) {
        *begun = Begun::of(self.filter.locate(hash));
    }

    /// The second step. Blocks that are all refuted may count as a no. A page that cannot be read
    /// means "maybe": counted, never an error.
    #[inline(always)]
    pub(super) fn answer(
        &self,
        begun: &Begun,
        is_refuted: impl FnOnce(Range<u32>) -> bool,
        caches: &Caches,
        cost: &mut LookupCost,
    ) -> Answer {
        if let Some(answer) = begun.answered {
            return answer;
        }
        match &self.body {
            Body::Pinned(body) => self.filter.answer_unless(&begun.window, body, is_refuted),
            Body::OnDisk => self.answer_from_disk(&begun.window, caches, cost),
        }
    }

    #[inline(never)]
    fn answer_from_disk(&self, window: &Window, caches: &Caches, cost: &mut LookupCost) -> Answer {
        let answer = |words: &[u64]| self.filter.answer(window, words);
        match self.pages.with_words(window.words(), caches, cost, answer) {
            Ok(answer) => answer,
            Err(_damaged) => {
                cost.filter_damaged = true;
                self.damaged_pages.fetch_add(1, Ordering::Relaxed);
                Answer::Maybe
            }
        }
    }

    /// Bytes in memory with the whole body resident.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.filter.resident_bytes() as u64 + self.pages.words() * 8
    }
}

/// The filter of a segment, or why there is none to ask.
#[derive(Debug)]
pub(crate) enum FilterState {
    /// The segment was written without.
    None,
    Ready(Box<SegmentFilter>),
    /// Lookups go without it.
    Damaged(Error),
}
