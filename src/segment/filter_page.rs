//! A page of a filter in memory.

use std::sync::Arc;

use crate::cache::Weigh;

/// Words of one verified page.
#[derive(Clone, Debug)]
pub(crate) struct FilterPage(Arc<[u64]>);

impl FilterPage {
    pub(super) fn new(words: Vec<u64>) -> FilterPage {
        FilterPage(Arc::from(words))
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }
}

impl Weigh for FilterPage {
    fn weight_bytes(&self) -> u64 {
        self.0.len() as u64 * 8 + 64
    }
}
