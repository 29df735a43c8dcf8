//! The body of a filter: words in pages, which are all in memory or read one by one.

use std::ops::Range;
use std::sync::Arc;

use crate::format::Malformed;
use crate::format::region::Place;
use crate::format::segment::{
    self, PAGE_BYTES, PAGE_TRAILER_BYTES, PAGE_WORDS, PageKind, pages_len,
};
use crate::storage::{ReadCause, ReadFile};

use super::caches::Caches;
use super::filter_page::FilterPage;
use super::outcome::LookupCost;

/// Words for which no memory is taken.
const WORDS_FEW: usize = 128;

/// The file that holds the filters of a segment.
#[derive(Clone, Debug)]
pub(crate) struct PageSource {
    pub(crate) file: Arc<dyn ReadFile>,
    /// Number of the file, for the cache.
    pub(crate) file_id: u64,
    pub(crate) identity: u64,
}

/// Where the pages of one filter are.
#[derive(Debug)]
pub(crate) struct Pages {
    source: PageSource,
    kind: PageKind,
    /// Offset of the first page in the file.
    start: u64,
    words: u64,
}

impl Pages {
    /// Pages of so many words, from `start` on, with less than a page of zeros up to `end`.
    pub(crate) fn new(
        source: PageSource,
        kind: PageKind,
        words: u64,
        (start, end): (u64, u64),
    ) -> Result<Pages, Malformed> {
        let room = end.saturating_sub(start);
        let fit =
            words <= end && (0..PAGE_BYTES as u64).contains(&room.wrapping_sub(pages_len(words)));
        if !fit {
            return Err(Malformed {
                what: "filter: its pages do not fill their region".into(),
                at: 0,
            });
        }
        Ok(Pages {
            source,
            kind,
            start,
            words,
        })
    }

    /// Bytes on disk.
    pub(crate) fn disk_bytes(&self) -> u64 {
        pages_len(self.words)
    }

    pub(crate) fn words(&self) -> u64 {
        self.words
    }

    fn count(&self) -> u64 {
        self.words.div_ceil(PAGE_WORDS as u64)
    }

    fn offset(&self, page: u64) -> u64 {
        self.start + page * PAGE_BYTES as u64
    }

    /// Reads all pages, in their order.
    pub(crate) fn read_all(&self, mut each: impl FnMut(&[u64])) -> Result<(), Malformed> {
        self.source.file.will_read(self.start, self.disk_bytes());
        for page in 0..self.count() {
            each(&self.read(page)?.0);
        }
        Ok(())
    }

    /// The pages that cannot be read or verified now, wherever they were when they were last used:
    /// their offsets and what is wrong. Reads every page.
    pub(crate) fn damaged(&self) -> Vec<(u64, Malformed)> {
        self.source.file.will_read(self.start, self.disk_bytes());
        let check = |page| Some((self.offset(page), self.read(page).err()?));
        (0..self.count()).filter_map(check).collect()
    }

    /// Reads and verifies a page; also its length in bytes.
    fn read(&self, page: u64) -> Result<(Vec<u64>, usize), Malformed> {
        let offset = self.offset(page);
        let words = (self.words - page * PAGE_WORDS as u64).min(PAGE_WORDS as u64) as usize;
        let len = words * 8 + PAGE_TRAILER_BYTES;
        let source = &self.source;
        let bytes = source.file.read(ReadCause::Filter, offset, len);
        let bytes = bytes.map_err(|error| Malformed {
            what: format!("filter page: {error}"),
            at: 0,
        })?;
        let file = source.identity;
        let words = segment::decode_page(self.kind, &bytes, Place { file, offset })?;
        Ok((words, len))
    }

    /// Shows some words, from the one page that they lie in or gathered from several.
    pub(crate) fn with_words<T>(
        &self,
        words: Range<u64>,
        caches: &Caches,
        cost: &mut LookupCost,
        show: impl FnOnce(&[u64]) -> T,
    ) -> Result<T, Malformed> {
        let page_words = PAGE_WORDS as u64;
        let wanted = (words.end - words.start) as usize;
        let (mut few, mut many) = ([0; WORDS_FEW], Vec::new());
        let gathered = if wanted <= WORDS_FEW {
            few.as_mut_slice()
        } else {
            many.resize(wanted, 0);
            many.as_mut_slice()
        };
        let mut count = 0;
        for page in words.start / page_words..=words.end.saturating_sub(1) / page_words {
            let content = self.page(page, caches, cost)?;
            let from = words.start.max(page * page_words) - page * page_words;
            let to = words.end.min((page + 1) * page_words) - page * page_words;
            let part = content
                .words()
                .get(from as usize..to as usize)
                .unwrap_or_default();
            if part.len() == wanted {
                return Ok(show(part));
            }
            if let Some(space) = gathered.get_mut(count..count + part.len()) {
                space.copy_from_slice(part);
            }
            count += part.len();
        }
        Ok(show(gathered.get(..count).unwrap_or_default()))
    }

    fn page(
        &self,
        page: u64,
        caches: &Caches,
        cost: &mut LookupCost,
    ) -> Result<FilterPage, Malformed> {
        cost.filter_pages += 1;
        let key = (self.source.file_id, self.offset(page));
        if let Some(found) = caches.pages.get(key) {
            cost.from_cache += 1;
            return Ok(found);
        }
        let (words, len) = self.read(page)?;
        cost.read_bytes += len as u64;
        let found = FilterPage::new(words);
        caches.keep_page(key, found.clone());
        Ok(found)
    }
}
