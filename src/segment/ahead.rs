//! Reads data blocks ahead of a merge, many with one request.
//!
//! A merge needs every block and keeps none, so it asks for [`REQUEST_BYTES`] at a time. Scans go
//! block by block: they may stop at any entry, their values keep the memory that they lie in, and
//! the system reads ahead for them by itself (measured: nothing was gained).
//!
//! Each block is verified when the walk comes to it, by the checksum of its own: what was read
//! ahead is bytes, not blocks. A request is counted as one read, with all its bytes.

use crate::error::Result;
use crate::slice::Slice;

use super::reader::{Body, Segment};

/// Bytes of a request; a longer block is read alone.
const REQUEST_BYTES: u64 = 512 << 10;

/// How a walk reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    /// One block at a time.
    Blocks,
    /// In large pieces, forwards: for someone who takes every entry and keeps none.
    Ahead,
}

/// What was read ahead of one walk.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Offset in the file of `bytes`.
    offset: u64,
    bytes: Slice,
}

impl Ahead {
    /// A stored block, from what was read ahead or by a request that brings the next ones too.
    pub(super) fn stored(&mut self, segment: &Segment, body: &Body, ordinal: u32) -> Result<Slice> {
        let (offset, len) = body.fences.extent(ordinal);
        if let Some(stored) = self.kept(offset, len) {
            return Ok(stored);
        }
        let request_bytes = request_bytes(body, ordinal);
        if request_bytes > len
            && let Ok(bytes) = segment.read_data(body, offset, request_bytes)
        {
            (self.offset, self.bytes) = (offset, bytes);
            if let Some(stored) = self.kept(offset, len) {
                return Ok(stored);
            }
        }
        // Alone, also when more could not be read: what failed may be another block, and whoever
        // comes to that shall get the error.
        segment.read_data(body, offset, len)
    }

    fn kept(&self, offset: u64, len: u64) -> Option<Slice> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        (end <= self.bytes.len()).then(|| self.bytes.slice(start..end))
    }
}

/// Bytes of as many whole blocks, from this one on, as fit a request.
fn request_bytes(body: &Body, ordinal: u32) -> u64 {
    let start = body.fences.extent(ordinal).0;
    let ends = (ordinal..body.fences.block_count()).map(|block| {
        let (offset, len) = body.fences.extent(block);
        offset + len - start
    });
    ends.take_while(|bytes| *bytes <= REQUEST_BYTES)
        .last()
        .unwrap_or(0)
}
