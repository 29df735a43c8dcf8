//! A file in memory while it is appended to.

use std::io;
use std::sync::Arc;

use super::file::File;
use super::moment::Operation;
use super::state::{Shared, State};
use crate::storage::{AppendFile, SyncFile};

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    file: Arc<File>,
}

impl SyncFile for Handle {
    fn sync(&self) -> io::Result<()> {
        self.shared.sync(&self.file)
    }
}

#[derive(Debug)]
pub(super) struct Appender {
    handle: Arc<Handle>,
}

impl Appender {
    pub(super) fn new(shared: &Arc<Shared>, file: Arc<File>) -> Appender {
        let shared = Arc::clone(shared);
        Appender {
            handle: Arc::new(Handle { shared, file }),
        }
    }

    fn set_reserved(&self, state: &mut State, is_reserved: bool) {
        let file = &self.handle.file;
        let was_reserved = std::mem::replace(&mut file.data().is_reserved, is_reserved);
        if was_reserved != is_reserved {
            state.record(|| Operation::Reserve {
                file: file.id,
                is_reserved,
            });
        }
    }
}

impl AppendFile for Appender {
    /// An append that fails has no reserve any more, as that could not be made longer.
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let bytes = parts.concat();
        let mut state = self.handle.shared.state();
        let result = state.mutate();
        let written = if result.is_ok() {
            &bytes[..]
        } else {
            self.set_reserved(&mut state, false);
            &bytes[..bytes.len() / 2]
        };
        let file = &self.handle.file;
        file.data().bytes.extend_from_slice(written);
        state.record(|| Operation::Append {
            file: file.id,
            len: written.len(),
        });
        result
    }

    fn reserve(&mut self) {
        self.set_reserved(&mut self.handle.shared.state(), true);
    }

    fn sync(&self) -> io::Result<()> {
        self.handle.sync()
    }

    fn syncer(&self) -> Arc<dyn SyncFile> {
        Arc::<Handle>::clone(&self.handle)
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        self.set_reserved(&mut self.handle.shared.state(), false);
    }
}
