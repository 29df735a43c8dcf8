//! The filter of a segment: resident header, and a body in memory or read by pages.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::format::Malformed;
use crate::format::region::TRAILER_BYTES;
use crate::format::segment::{
    self, FilterProperties, PAGE_BYTES, PAGE_TRAILER_BYTES, PAGE_WORDS, pages_len,
};
use crate::options::{FilterLoading, FilterResidency};
use crate::storage::{ReadCause, ReadFile};
use criba_filters::KeyHash;
use criba_filters::segment::{Answer, Begun, Filter, FilterKind, Resident, Window, Words};

use super::caches::Caches;
use super::filter_page::FilterPage;
use super::outcome::LookupCost;

/// Words of a window for which no memory is taken: see [`Window::words`].
const WINDOW_WORDS_FEW: usize = 128;

/// A filter that can be asked.
#[derive(Debug)]
pub(crate) struct SegmentFilter {
    pub(crate) filter: Filter,
    pub(crate) equal_hashes: bool,
    source: PageSource,
    /// Offset of the first page in the file.
    start: u64,
    body: Body,
    body_words: u64,
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

/// Where the pages of a filter are.
#[derive(Clone, Debug)]
pub(crate) struct PageSource {
    pub(crate) file: Arc<dyn ReadFile>,
    /// Number of the file, for the cache.
    pub(crate) file_id: u64,
    pub(crate) identity: u64,
}

impl PageSource {
    /// Reads and verifies the page with this ordinal.
    fn read(&self, start: u64, body_words: u64, page: u64) -> Result<(Vec<u64>, usize), Malformed> {
        let offset = start + page * PAGE_BYTES as u64;
        let words = (body_words - page * PAGE_WORDS as u64).min(PAGE_WORDS as u64) as usize;
        let len = words * 8 + PAGE_TRAILER_BYTES;
        let bytes = self
            .file
            .read(ReadCause::Filter, offset, len)
            .map_err(|error| Malformed {
                what: format!("filter page: {error}"),
                at: 0,
            })?;
        Ok((segment::decode_page(&bytes, self.identity, offset)?, len))
    }
}

impl SegmentFilter {
    /// Makes a filter from its header and the place of its pages.
    pub(crate) fn open(
        header: &[u8],
        properties: &FilterProperties,
        (start, end): (u64, u64),
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
        if body_words > end || pages_len(body_words) != end - start {
            return Err(malformed("its pages do not fill their region"));
        }
        let filter = Filter::parse_with(kind, header, body_words, &loading.customs)
            .map_err(|damaged| malformed(&damaged.to_string()))?;
        let mut body = Body::OnDisk;
        if loading.residency == FilterResidency::Pinned {
            let mut words = Words::with_capacity(body_words as usize);
            source.file.will_read(start, end - start);
            for page in 0..body_words.div_ceil(PAGE_WORDS as u64) {
                words.extend(&source.read(start, body_words, page)?.0);
            }
            body = Body::Pinned(filter.arrange(words));
        }
        let equal_hashes = properties.equal_hashes;
        Ok(SegmentFilter {
            filter,
            equal_hashes,
            source,
            start,
            body,
            body_words,
            disk_bytes: pages_len(body_words) + header.len() as u64 + TRAILER_BYTES as u64,
            damaged_pages: AtomicU64::new(0),
        })
    }

    /// The pages that cannot be read or verified now, wherever they were when they were last used:
    /// their offsets and what is wrong. Reads every page.
    pub(crate) fn damaged_pages_on_disk(&self) -> Vec<(u64, Malformed)> {
        let pages = 0..self.body_words.div_ceil(PAGE_WORDS as u64);
        let file = &self.source.file;
        file.will_read(self.start, pages_len(self.body_words));
        let check = |page: u64| {
            let read = self.source.read(self.start, self.body_words, page);
            let offset = self.start + page * PAGE_BYTES as u64;
            read.err().map(|what| (offset, what))
        };
        pages.filter_map(check).collect()
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
        match self.fetch(window, caches, cost) {
            Ok(answer) => answer,
            Err(_damaged) => {
                cost.filter_damaged = true;
                self.damaged_pages.fetch_add(1, Ordering::Relaxed);
                Answer::Maybe
            }
        }
    }

    /// Gets the window from the one page it lies in, or from several neighbours.
    fn fetch(
        &self,
        window: &Window,
        caches: &Caches,
        cost: &mut LookupCost,
    ) -> Result<Answer, Malformed> {
        let words = window.words();
        let page_words = PAGE_WORDS as u64;
        let wanted = (words.end - words.start) as usize;
        let (mut few, mut many) = ([0; WINDOW_WORDS_FEW], Vec::new());
        let gathered = if wanted <= WINDOW_WORDS_FEW {
            few.as_mut_slice()
        } else {
            many.resize(wanted, 0);
            many.as_mut_slice()
        };
        let mut count = 0;
        for page in words.start / page_words..=(words.end - 1) / page_words {
            let content = self.page(page, caches, cost)?;
            let from = words.start.max(page * page_words) - page * page_words;
            let to = words.end.min((page + 1) * page_words) - page * page_words;
            let part = content
                .words()
                .get(from as usize..to as usize)
                .unwrap_or_default();
            if part.len() == wanted {
                return Ok(self.filter.answer(window, part));
            }
            if let Some(space) = gathered.get_mut(count..count + part.len()) {
                space.copy_from_slice(part);
            }
            count += part.len();
        }
        Ok(self
            .filter
            .answer(window, gathered.get(..count).unwrap_or_default()))
    }

    fn page(
        &self,
        page: u64,
        caches: &Caches,
        cost: &mut LookupCost,
    ) -> Result<FilterPage, Malformed> {
        cost.filter_pages += 1;
        let key = (self.source.file_id, self.start + page * PAGE_BYTES as u64);
        if let Some(found) = caches.pages.get(key) {
            cost.from_cache += 1;
            return Ok(found);
        }
        let (words, len) = self.source.read(self.start, self.body_words, page)?;
        cost.read_bytes += len as u64;
        let found = FilterPage::new(words);
        caches.keep_page(key, found.clone());
        Ok(found)
    }

    /// Bytes in memory with the whole body resident.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.filter.resident_bytes() as u64 + self.body_words * 8
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
