//! What all handles of a simulated disk share.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::directory::Directory;
use super::file::{Data, File};
use super::history::Recording;
use super::moment::Operation;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
}

// Lock order: the state, then a file.
#[derive(Debug)]
pub(super) struct State {
    pub(super) disk: Directory,
    pub(super) locked: bool,
    pub(super) mutations: u64,
    pub(super) fault: Option<Fault>,
    pub(super) recording: Option<Recording>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    /// Number of the first mutating call that fails.
    pub(super) first: u64,
    /// Number of the last one.
    pub(super) last: u64,
    pub(super) kind: ErrorKind,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sync(&self, file: &File) -> io::Result<()> {
        let mut state = self.state();
        let result = state.mutate();
        let mut data = file.data();
        if result.is_err() {
            data.lose_unsynced();
        }
        data.durable_len = data.bytes.len();
        state.record(|| match &result {
            Ok(()) => Operation::Sync { file: file.id },
            Err(_) => Operation::FailedSync { file: file.id },
        });
        result
    }
}

impl State {
    /// Every call that changes something passes here first.
    pub(super) fn mutate(&mut self) -> io::Result<()> {
        self.mutations += 1;
        match self.fault {
            Some(fault) if (fault.first..=fault.last).contains(&self.mutations) => {
                Err(fault.kind.into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn record(&mut self, operation: impl FnOnce() -> Operation) {
        if let Some(recording) = &mut self.recording {
            recording.push(operation());
        }
    }

    pub(super) fn new_file(&mut self) -> Arc<File> {
        let id = self.disk.files_made;
        self.disk.files_made += 1;
        Arc::new(File::new(id, Data::default()))
    }

    pub(super) fn file(&self, name: &str) -> io::Result<Arc<File>> {
        self.disk
            .names
            .get(name)
            .cloned()
            .ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(super) fn check_exists(&self) -> io::Result<()> {
        if self.disk.exists {
            Ok(())
        } else {
            Err(ErrorKind::NotFound.into())
        }
    }
}
