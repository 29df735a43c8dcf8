//! A file of the simulated disk.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::storage::RESERVE_MIN;

#[derive(Debug)]
pub(super) struct File {
    /// Tells the files of one file system apart, whatever their names.
    pub(super) id: usize,
    pub(super) data: Mutex<Data>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Data {
    pub(super) bytes: Vec<u8>,
    // Invariant: durable_len <= bytes.len().
    pub(super) durable_len: usize,
    /// Ranges that a failed sync dropped: readable while the system runs, never on the disk.
    pub(super) lost: Vec<Range<usize>>,
    /// The file is longer than its bytes, by zeros that a kill leaves there.
    pub(super) is_reserved: bool,
}

impl File {
    pub(super) fn new(id: usize, data: Data) -> File {
        File {
            id,
            data: Mutex::new(data),
        }
    }

    pub(super) fn data(&self) -> MutexGuard<'_, Data> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Data {
    /// What a failed sync does: the system forgets that these bytes are not on the disk.
    pub(super) fn lose_unsynced(&mut self) {
        if self.durable_len < self.bytes.len() {
            self.lost.push(self.durable_len..self.bytes.len());
        }
    }

    /// What a kill makes of a reserve: a part of the file.
    pub(super) fn keep_reserve(&mut self) {
        if std::mem::take(&mut self.is_reserved) {
            self.bytes.resize(self.bytes.len() + RESERVE_MIN, 0);
        }
    }

    /// Only what is durable stays; what was lost reads as zeros.
    pub(super) fn lose_power(&mut self) {
        self.is_reserved = false;
        self.bytes.truncate(self.durable_len);
        // Of a file that ends with what was lost, the disk knows no such length.
        while self
            .lost
            .last()
            .is_some_and(|lost| lost.end == self.bytes.len())
        {
            let start = self.lost.pop().map_or(0, |lost| lost.start);
            self.bytes.truncate(start);
        }
        for lost in std::mem::take(&mut self.lost) {
            self.bytes[lost].fill(0);
        }
        self.durable_len = self.bytes.len();
    }
}
