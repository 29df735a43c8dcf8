//! Reads data blocks ahead of a merge, many with one request, and says ahead which blocks a scan
//! comes to.
//!
//! A merge needs every block and keeps none, so it asks for [`REQUEST_BYTES`] at a time. Scans go
//! block by block: they may stop at any entry, and their values keep the memory that they lie in.
//! The system reads ahead for them by itself (measured: nothing was gained), but not where files
//! are mapped: so they say where they are going, by windows that grow as they go on.
//!
//! Each block is verified when the walk comes to it, by the checksum of its own: what was read
//! ahead is bytes, not blocks. A request is counted as one read, with all its bytes.

use std::ops::Range;

use crate::cursor::Direction;
use crate::error::Result;
use crate::slice::Slice;

use super::body::Body;
use super::reader::Segment;

/// Bytes of a request; a longer block is read alone.
const REQUEST_BYTES: u64 = 512 << 10;

/// Bytes of the shortest and the longest window that is said to be read. A walk of hundreds of
/// megabytes took two thirds longer with windows of 256 KiB, and as long with 4 MiB.
const WINDOW_BYTES_MIN: u64 = 16 << 10;
const WINDOW_BYTES_MAX: u64 = 2 << 20;

/// Bytes that a walk passes before it says where it goes; more where the block at which it stands
/// was verified before, as that is likely in memory still.
const QUIET_BYTES: u64 = 8 << 10;
const QUIET_BYTES_KNOWN: u64 = 64 << 10;

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
            // The device works while these are merged.
            let next = offset + request_bytes;
            let rest = body.footer.data_end.saturating_sub(next);
            body.file.will_read(next, REQUEST_BYTES.min(rest));
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

/// The windows that one walk has said it will read: see [`ReadFile::will_read`].
///
/// At first a walk says nothing: most scans of a few entries end there, and to say it is a system
/// call. From then on there is always half a window ahead of it, so that the device works while the
/// walk does, and each window is as long as what was passed before.
///
/// [`ReadFile::will_read`]: crate::storage::ReadFile::will_read
#[derive(Debug, Default)]
pub(super) struct Windows {
    passed_bytes: u64,
    last: Option<Range<u64>>,
}

impl Windows {
    /// The walk comes to this block, which is beside the last one it came to.
    pub(super) fn come_to(&mut self, body: &Body, ordinal: u32, direction: Direction) {
        let (offset, len) = body.fences.extent(ordinal);
        let quiet_bytes = if body.was_verified(ordinal) {
            QUIET_BYTES_KNOWN
        } else {
            QUIET_BYTES
        };
        let block = offset..offset + len;
        let end = body.footer.data_end;
        if let Some(window) = self.next(block, quiet_bytes, (direction, end)) {
            body.file.will_read(window.start, window.end - window.start);
        }
    }

    fn next(
        &mut self,
        block: Range<u64>,
        quiet_bytes: u64,
        (direction, end): (Direction, u64),
    ) -> Option<Range<u64>> {
        let passed_bytes = self.passed_bytes;
        self.passed_bytes += block.end - block.start;
        let from = match (&self.last, direction) {
            (None, _) if passed_bytes < quiet_bytes => return None,
            (None, Direction::Forward) => block.start,
            (None, Direction::Backward) => block.end,
            (Some(last), Direction::Forward) => {
                let half = last.end - (last.end - last.start) / 2;
                (block.end > half && last.end < end).then_some(last.end.max(block.start))?
            }
            (Some(last), Direction::Backward) => {
                let half = last.start + (last.end - last.start) / 2;
                (block.start < half && last.start > 0).then_some(last.start.min(block.end))?
            }
        };
        let bytes = passed_bytes.clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
        let window = match direction {
            Direction::Forward => from..from.saturating_add(bytes).min(end),
            Direction::Backward => from.saturating_sub(bytes)..from,
        };
        self.last = Some(window.clone());
        Some(window)
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

#[cfg(test)]
mod tests {
    use super::*;

    const END: u64 = 64 << 20;

    /// The windows of a walk over all blocks of so many bytes, each with where the walk stood.
    fn walk(direction: Direction, block_bytes: u64, quiet_bytes: u64) -> Vec<(u64, Range<u64>)> {
        let mut windows = Windows::default();
        let mut walked = Vec::new();
        for n in 0..END / block_bytes {
            let start = match direction {
                Direction::Forward => n * block_bytes,
                Direction::Backward => END - (n + 1) * block_bytes,
            };
            let block = start..start + block_bytes;
            if let Some(window) = windows.next(block, quiet_bytes, (direction, END)) {
                walked.push((n * block_bytes, window));
            }
        }
        walked
    }

    /// A window seen from where the walk begins.
    fn passed(direction: Direction, window: &Range<u64>) -> Range<u64> {
        match direction {
            Direction::Forward => window.clone(),
            Direction::Backward => END - window.end..END - window.start,
        }
    }

    #[test]
    fn the_windows_of_a_walk_follow_each_other_ahead_of_it() {
        for direction in [Direction::Forward, Direction::Backward] {
            for (block_bytes, quiet_bytes) in [(4096, QUIET_BYTES), (4096, QUIET_BYTES_KNOWN)] {
                let walked = walk(direction, block_bytes, quiet_bytes);
                let mut asked = quiet_bytes;
                for (place, window) in &walked {
                    let window = passed(direction, window);
                    assert_eq!(window.start, asked, "no gap, and nothing twice");
                    assert!(*place <= window.start, "not too late: {place} {window:?}");
                    let bytes = window.end - window.start;
                    let wanted = (*place).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
                    assert_eq!(bytes, wanted.min(END - window.start));
                    asked = window.end;
                }
                assert_eq!(asked, END);
                let count = walked.len() as u64;
                assert!(count < END / WINDOW_BYTES_MAX + 20, "{count} windows");
            }
        }
    }

    #[test]
    fn a_scan_of_a_few_blocks_says_nothing() {
        let first = |quiet_bytes| walk(Direction::Forward, 4096, quiet_bytes)[0].0;
        assert_eq!(first(QUIET_BYTES), 2 * 4096);
        assert_eq!(first(QUIET_BYTES_KNOWN), 16 * 4096);
    }

    #[test]
    fn nothing_is_asked_for_behind_blocks_longer_than_windows() {
        let walked = walk(Direction::Forward, 8 << 20, QUIET_BYTES);
        let starts: Vec<u64> = walked
            .iter()
            .map(|(_, window)| window.start >> 20)
            .collect();
        assert_eq!(starts, [8, 16, 24, 32, 40, 48, 56]);
        let walked = walk(Direction::Backward, 8 << 20, QUIET_BYTES);
        let ends: Vec<u64> = walked.iter().map(|(_, window)| window.end >> 20).collect();
        assert_eq!(ends, [56, 48, 40, 32, 24, 16, 8]);
    }
}
