//! One read of a file, of several that are under way together.
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "a part of it is for rings")
)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::slice::Slice;

/// A read with the memory that it fills. Its range lies within the file.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) file: &'a File,
    pub(super) offset: u64,
    /// Nobody else has it.
    buffer: Slice,
    /// Bytes that are there, from the first on.
    arrived: usize,
    failed: Option<io::Error>,
    /// Somebody else may be about to write to the buffer.
    pub(super) is_under_way: bool,
}

impl<'a> Task<'a> {
    pub(super) fn new(file: &'a File, offset: u64, len: usize) -> Task<'a> {
        Task {
            file,
            offset,
            buffer: Slice::zeroed(len),
            arrived: 0,
            failed: None,
            is_under_way: false,
        }
    }

    /// The memory for all bytes.
    pub(super) fn buffer(&mut self) -> &mut [u8] {
        self.buffer.alone_mut().unwrap_or_default()
    }

    /// So many bytes have come from the beginning of the range.
    pub(super) fn has_come(&mut self, bytes: usize) {
        self.arrived = bytes.min(self.buffer.len());
    }

    /// Leaves the memory to somebody who may write to it at any time, and takes other memory.
    pub(super) fn leave_buffer(&mut self) {
        let fresh = Slice::zeroed(self.buffer.len());
        std::mem::forget(std::mem::replace(&mut self.buffer, fresh));
        self.is_under_way = false;
    }

    /// Reads by itself the bytes that are not there yet.
    pub(super) fn finish(&mut self) {
        if self.failed.is_some() {
            return;
        }
        let (file, arrived) = (self.file, self.arrived);
        let offset = self.offset + arrived as u64;
        let rest = self.buffer().get_mut(arrived..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        match file.read_exact_at(rest, offset) {
            Ok(()) => self.arrived = self.buffer.len(),
            Err(error) => self.failed = Some(error),
        }
    }

    /// All bytes, once the task is finished.
    pub(super) fn into_result(self) -> io::Result<Slice> {
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.buffer),
        }
    }
}
