//! The trees of a store: one for each keyspace.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::key::KeyspaceId;
use crate::locks::{Mutex, rank};
use crate::tree::Tree;

/// All keyspaces that are there.
#[derive(Debug)]
pub(crate) struct Trees {
    default: Arc<Tree>,
    all: Mutex<All, { rank::TREES }>,
}

#[derive(Debug, Default)]
struct All {
    by_id: BTreeMap<KeyspaceId, Arc<Tree>>,
    by_name: BTreeMap<String, KeyspaceId>,
}

impl All {
    fn add(&mut self, tree: Arc<Tree>) {
        self.by_name.insert(tree.name().to_owned(), tree.id());
        self.by_id.insert(tree.id(), tree);
    }
}

impl Trees {
    /// The default keyspace, which is never dropped, and the others.
    pub(super) fn new(default: Arc<Tree>, others: impl Iterator<Item = Arc<Tree>>) -> Trees {
        let mut all = All::default();
        all.add(Arc::clone(&default));
        others.for_each(|tree| all.add(tree));
        Trees {
            default,
            all: Mutex::new(all),
        }
    }

    #[inline]
    pub(super) fn default_tree(&self) -> &Arc<Tree> {
        &self.default
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<Tree>> {
        let all = self.all.lock();
        let id = all.by_name.get(name)?;
        all.by_id.get(id).cloned()
    }

    /// All of them, in the order in which they were made.
    pub(crate) fn list(&self) -> Vec<Arc<Tree>> {
        self.all.lock().by_id.values().cloned().collect()
    }

    /// Their names, sorted.
    pub(super) fn names(&self) -> Vec<String> {
        self.all.lock().by_name.keys().cloned().collect()
    }

    pub(super) fn count(&self) -> usize {
        self.all.lock().by_id.len()
    }

    pub(super) fn add(&self, tree: &Arc<Tree>) {
        self.all.lock().add(Arc::clone(tree));
    }

    pub(super) fn remove(&self, tree: &Tree) {
        let mut all = self.all.lock();
        all.by_id.remove(&tree.id());
        all.by_name.remove(tree.name());
    }
}
