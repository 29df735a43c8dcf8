//! Makes, finds and drops keyspaces.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::key::KeyspaceId;
use crate::manifest::{DEFAULT_KEYSPACE, KeyspaceMeta, NAME_BYTES_MAX};
use crate::options::TreeOptions;
use crate::tree::{Tree, View};

use super::state::Store;

/// Refuses a name that no keyspace can have.
fn check_name(name: &str) -> Result<()> {
    if (1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "a keyspace name of {} bytes; choose 1 to {NAME_BYTES_MAX}",
        name.len()
    )))
}

impl Store {
    /// The keyspace of this name, which is made if it is not there. It is opened with these
    /// options, or those of the store.
    pub(crate) fn keyspace(&self, name: &str, options: Option<TreeOptions>) -> Result<Arc<Tree>> {
        self.monitor().check_open()?;
        check_name(name)?;
        if let Some(options) = &options {
            options.check(&self.options().customs)?;
        }
        let tree = match self.find_keyspace(name) {
            Some(tree) => tree,
            None => self.make_keyspace(name)?,
        };
        tree.check_operator(options.as_ref().unwrap_or(tree.defaults()))?;
        let was_open = tree.is_open();
        let wanted = options.as_ref().map(|options| format!("{options:?}"));
        let opened = tree.open(options);
        if wanted.is_some_and(|wanted| wanted != format!("{opened:?}")) {
            return Err(Error::Invalid(format!(
                "the keyspace {name:?} was opened before with other options; open it with these \
                 first, or with the same ones everywhere"
            )));
        }
        if !was_open {
            self.tree_changed(&tree);
        }
        Ok(tree)
    }

    /// The keyspace of this name, if it is there.
    pub(crate) fn find_keyspace(&self, name: &str) -> Option<Arc<Tree>> {
        self.trees().find(name)
    }

    /// The names of all keyspaces, in their order.
    pub(crate) fn keyspace_names(&self) -> Vec<String> {
        self.trees().names()
    }

    fn make_keyspace(&self, name: &str) -> Result<Arc<Tree>> {
        self.monitor().check_writable()?;
        let mut writing = self.log().turn();
        self.monitor().check_writable()?;
        // Another may have made it meanwhile.
        if let Some(tree) = self.find_keyspace(name) {
            return Ok(tree);
        }
        self.begin_session(&mut writing)?;
        // Durable before a journal names it.
        let mut id = KeyspaceId::DEFAULT;
        self.services().catalog.commit(|manifest, edit| {
            id = manifest.state().next_keyspace;
            let next = id.0.checked_add(1).filter(|next| *next < u32::MAX);
            let used_up = || Error::Invalid("all numbers of keyspaces are used up".into());
            edit.next_keyspace = KeyspaceId(next.ok_or_else(used_up)?);
            let keyspace = KeyspaceMeta {
                name: name.to_owned(),
                operator: String::new(),
            };
            edit.keyspaces.push((id, keyspace));
            Ok(())
        })?;
        let defaults = self.tree().defaults();
        let tree = Arc::new(Tree::new(
            self.services(),
            (id, name),
            defaults,
            View::empty(),
        ));
        writing.actives().add(&tree, None);
        self.trees().add(&tree);
        Ok(tree)
    }

    /// Writes the name of a keyspace's operator down, before its first operand.
    #[cold]
    pub(super) fn record_operator(&self, tree: &Tree, name: &str) -> Result<()> {
        self.monitor().check_writable()?;
        let mut writing = self.log().turn();
        self.monitor().check_writable()?;
        if tree.recorded_operator().is_some() {
            return Ok(());
        }
        tree.check(&tree.view())?;
        self.begin_session(&mut writing)?;
        self.services().catalog.commit(|_, edit| {
            let keyspace = KeyspaceMeta {
                name: tree.name().to_owned(),
                operator: name.to_owned(),
            };
            edit.keyspaces.push((tree.id(), keyspace));
            Ok(())
        })?;
        tree.note_operator(name);
        Ok(())
    }

    /// Drops a keyspace with all that is in it. Returns whether it was there.
    pub(crate) fn drop_keyspace(&self, name: &str) -> Result<bool> {
        self.monitor().check_writable()?;
        check_name(name)?;
        if name == DEFAULT_KEYSPACE {
            let what = "the default keyspace cannot be dropped; delete its keys";
            return Err(Error::Invalid(what.into()));
        }
        // No write is under way, and none comes in between.
        let mut writing = self.log().turn();
        self.monitor().check_writable()?;
        let Some(tree) = self.find_keyspace(name) else {
            return Ok(false);
        };
        self.begin_session(&mut writing)?;
        let id = tree.id();
        self.services().catalog.commit(|_, edit| {
            edit.dropped.push(id);
            Ok(())
        })?;
        writing.actives().remove(id);
        self.log().note_active_bytes(&writing);
        self.trees().remove(&tree);
        // Under the lock: a writer finds it dropped, or is done.
        tree.drop_all();
        drop(writing);
        self.compactor().forget(id);
        Ok(true)
    }
}
