//! Many changes to the index, a batch at a time.

use criba::{Batch, Durability};

use crate::archive::Archive;
use crate::exit::Failure;
use crate::keys::{Table, Tables};

/// Changes that are committed together: what they take in memory is bounded.
const TOGETHER: usize = 10_000;

pub(crate) struct Changes<'a> {
    tables: &'a Tables,
    batch: Batch,
    together: usize,
    /// Batches before it ends early: a test sees what is left then.
    #[cfg(test)]
    batches_left: u64,
}

impl<'a> Changes<'a> {
    pub(crate) fn new(archive: &'a Archive) -> Changes<'a> {
        Changes {
            tables: &archive.tables,
            batch: archive.db.batch(),
            together: TOGETHER,
            #[cfg(test)]
            batches_left: u64::MAX,
        }
    }

    /// Batches of `together` changes, and so many of them.
    #[cfg(test)]
    pub(crate) fn limited(archive: &'a Archive, together: usize, batches_left: u64) -> Changes<'a> {
        Changes {
            together,
            batches_left,
            ..Changes::new(archive)
        }
    }

    pub(crate) fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.batch.keyspace(&self.tables[table]).put(key, value);
        self.commit_if_large()
    }

    pub(crate) fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), Failure> {
        self.batch.keyspace(&self.tables[table]).delete(key);
        self.commit_if_large()
    }

    fn commit_if_large(&mut self) -> Result<(), Failure> {
        match self.batch.len() >= self.together {
            true => self.commit(),
            false => Ok(()),
        }
    }

    /// Commits what is left. What was not is lost when this is dropped.
    pub(crate) fn commit(&mut self) -> Result<(), Failure> {
        #[cfg(test)]
        {
            if self.batches_left == 0 {
                return Err(Failure::usage("it ends early"));
            }
            self.batches_left -= 1;
        }
        Ok(self.batch.commit_with(Durability::Process)?)
    }
}
