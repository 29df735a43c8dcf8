//! Searches a file for data blocks, without an index.

use std::sync::Arc;

use crate::format::region::{Candidate, DATA_ALIGN, PADDING_MAX, Place, TRAILER_BYTES};
use crate::slice::Slice;
use crate::storage::{ReadCause, ReadFile};

use super::Block;

/// Bytes that are searched at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// Bytes that may be read in vain, in units of the file's length, and beside it. Values can be made
/// to look like many trailers of long blocks; the search must end all the same.
const VAIN_FACTOR: u64 = 16;
const VAIN_BYTES: u64 = 64 << 20;

/// Yields the intact data blocks of a file, in their order.
#[derive(Debug)]
pub(super) struct Scanner {
    file: Arc<dyn ReadFile>,
    identity: u64,
    /// Where the search ends.
    end: u64,
    /// Where the last block that was found ends.
    at: u64,
    /// Where the next trailer is looked for.
    position: u64,
    chunk: Option<(u64, Slice)>,
    vain_bytes: u64,
}

impl Scanner {
    pub(super) fn new(file: Arc<dyn ReadFile>, identity: u64, data_end: Option<u64>) -> Scanner {
        let len = file.len();
        Scanner {
            end: data_end.unwrap_or(len).min(len),
            vain_bytes: len.saturating_mul(VAIN_FACTOR).saturating_add(VAIN_BYTES),
            file,
            identity,
            at: 0,
            position: 0,
            chunk: None,
        }
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn len(&self) -> u64 {
        self.file.len()
    }

    /// Whether the search ended before the file did.
    pub(super) fn has_given_up(&self) -> bool {
        self.vain_bytes == 0
    }

    /// The next intact block and where it begins.
    pub(super) fn next(&mut self) -> Option<(u64, Block)> {
        while self.position + TRAILER_BYTES as u64 <= self.end && self.vain_bytes > 0 {
            let Some((start, chunk)) = self.chunk() else {
                // What the device does not give is passed over.
                self.position = self.position.saturating_add(CHUNK_BYTES);
                continue;
            };
            let from = (self.position - start) as usize;
            let mut windows = chunk[from..].windows(TRAILER_BYTES).enumerate();
            let found = windows.find_map(|(n, trailer)| Some((n, Candidate::of(trailer)?)));
            let Some((n, candidate)) = found else {
                // The last bytes may begin a trailer that goes on in the next chunk.
                self.position = start + (chunk.len() - TRAILER_BYTES + 1) as u64;
                continue;
            };
            let trailer = self.position + n as u64;
            if let Some((offset, block)) = self.try_block(trailer, &candidate) {
                self.at = trailer + TRAILER_BYTES as u64;
                self.position = self.at;
                return Some((offset, block));
            }
            self.position = trailer + 1;
        }
        None
    }

    /// The bytes around the position, at least a trailer from it on.
    fn chunk(&mut self) -> Option<(u64, Slice)> {
        if let Some((start, chunk)) = &self.chunk {
            let end = start + chunk.len() as u64;
            if *start <= self.position && self.position + TRAILER_BYTES as u64 <= end {
                return Some((*start, chunk.clone()));
            }
        }
        let len = CHUNK_BYTES.min(self.end - self.position) as usize;
        let chunk = self.file.read(ReadCause::Data, self.position, len).ok()?;
        self.chunk = Some((self.position, chunk.clone()));
        Some((self.position, chunk))
    }

    /// The block that ends with this trailer, wherever it begins.
    fn try_block(&mut self, trailer: u64, candidate: &Candidate) -> Option<(u64, Block)> {
        let latest = trailer.checked_sub(candidate.payload_len)?;
        let mut offset = latest;
        loop {
            if offset < self.at {
                return None;
            }
            if let Some(block) = self.open(offset, trailer, candidate) {
                return Some((offset, block));
            }
            if candidate.is_packed() {
                return None;
            }
            offset = offset.checked_sub(1)? / DATA_ALIGN * DATA_ALIGN;
            if latest - offset >= PADDING_MAX {
                return None;
            }
        }
    }

    fn open(&mut self, offset: u64, trailer: u64, candidate: &Candidate) -> Option<Block> {
        let head_len = 16.min(candidate.payload_len) as usize;
        let head = self.file.read(ReadCause::Data, offset, head_len).ok()?;
        if !candidate.may_begin_with(&head) {
            return None;
        }
        let len = trailer + TRAILER_BYTES as u64 - offset;
        let stored = self
            .file
            .read(ReadCause::Data, offset, usize::try_from(len).ok()?)
            .ok()?;
        let place = Place {
            file: self.identity,
            offset,
        };
        let block = Block::open(&stored, place).ok();
        if block.is_none() {
            self.vain_bytes = self.vain_bytes.saturating_sub(len);
        }
        block
    }
}
