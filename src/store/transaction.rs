//! The commit of a transaction: checked without a lock, and once more, in memory, under it.
//!
//! Reads and writes are filed under the keyspace that they belong to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::key::{KeyspaceId, Sequence};
use crate::options::Durability;
use crate::tree::{Examined, ReadSet, Rest, Tree, Watched, Write, WriteSet};

use super::batch::Operations;
use super::state::Store;

/// What a transaction has read, by keyspace.
pub(crate) type Reads = BTreeMap<KeyspaceId, (Arc<Tree>, ReadSet)>;

/// What it will write, by keyspace.
pub(crate) type Writes = BTreeMap<KeyspaceId, (Arc<Tree>, WriteSet)>;

/// All that a commit needs to know of a transaction.
#[derive(Debug)]
pub(crate) struct Changes<'a> {
    /// The sequence at which it has read.
    pub(crate) since: Sequence,
    /// What must be as it was then.
    pub(crate) watched: Vec<(&'a Tree, Watched<'a>)>,
    pub(crate) writes: &'a Writes,
}

impl Changes<'_> {
    fn operations(&self) -> Operations {
        let mut operations = Operations::default();
        for (keyspace, (_, writes)) in self.writes {
            for (key, write) in writes.iter() {
                match write {
                    Write::Put(value) => operations.put(*keyspace, key, value),
                    Write::Delete => operations.delete(*keyspace, key),
                    Write::Merge(operands) => {
                        for operand in operands {
                            operations.merge(*keyspace, key, operand);
                        }
                    }
                }
            }
        }
        operations
    }

    fn is_empty(&self) -> bool {
        self.writes.values().all(|(_, writes)| writes.len() == 0)
    }
}

impl Store {
    /// Writes what a transaction has to write, as one batch, if what it relies on is as it was. Does
    /// nothing for one that writes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`](crate::Error::Conflict): nothing was written.
    pub(crate) fn commit_changes(
        &self,
        changes: &Changes<'_>,
        durability: Durability,
    ) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        self.monitor().check_writable()?;
        let operations = changes.operations();
        let payload = operations.payload()?;
        self.make_room(payload.bytes())?;
        loop {
            let examined = self.examine(changes)?;
            #[cfg(test)]
            tests::between_the_steps();
            let mut writing = self.log().turn();
            for (tree, _) in changes.writes.values() {
                writing.actives().check(tree)?;
            }
            if self.examine_rest(changes, &examined)? == Rest::Flushed {
                continue;
            }
            self.write_in_turn(&mut writing, payload, durability)?;
            break;
        }
        self.wait_until_durable(durability)
    }

    /// The first step of the check, everywhere.
    fn examine(&self, changes: &Changes<'_>) -> Result<Vec<Examined>> {
        let examine = |(tree, watched): &(&Tree, Watched<'_>)| {
            tree.examine(*watched, changes.since, || self.visible())
        };
        changes.watched.iter().map(examine).collect()
    }

    /// The second step. The caller holds the writer lock.
    fn examine_rest(&self, changes: &Changes<'_>, examined: &[Examined]) -> Result<Rest> {
        let visible = self.visible();
        for ((tree, watched), examined) in changes.watched.iter().zip(examined) {
            let rest = tree.examine_rest(*watched, changes.since, examined, visible)?;
            if rest == Rest::Flushed {
                return Ok(rest);
            }
        }
        Ok(Rest::Unchanged)
    }

    /// Before a transaction is tried again: a wait of this long, or until a flush ends.
    pub(crate) fn pause(&self, time: Duration) {
        self.flusher().wait_a_while(time);
    }
}

#[cfg(test)]
mod tests;
