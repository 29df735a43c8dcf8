//! Opens a store whose journals are damaged, for who has asked for it, and puts what was saved
//! where the next `open` finds it.
//!
//! Until the switch to the new state, which is one step, nothing that recovery looks at changes: a
//! crash before it leaves a store on which the same is done again. Damaged journals are copied
//! before and removed, as all that are not needed, after it.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::journal::{self, Apply, Expect, Point, Recovered};
use crate::key::Sequence;
use crate::manifest::{self, JournalFloor, Manifest};
use crate::options::Recovery;
use crate::segment;
use crate::services::Services;
use crate::storage::{self, DAMAGED, Storage};

use super::directory::Names;
use super::generation::Flushed;
use super::log::Log;

/// Whether a refusal is about journals, which [`Recovery`] can get past.
pub(crate) fn is_passable(error: &Error, manifest: &Manifest) -> bool {
    match error {
        Error::Corrupt(at) => {
            let name = at.path.file_name().unwrap_or_default();
            manifest::parse_name(&name.to_string_lossy()).is_none()
        }
        // With a torn manifest a journal may be missing because it is not needed any more.
        Error::Missing { .. } => !manifest.is_torn(),
        _ => false,
    }
}

/// Names what can be done about a refusal.
pub(crate) fn with_ways_out(error: Error, ways: &str) -> Error {
    match error {
        Error::Corrupt(mut corruption) => {
            corruption.what.push_str("; ");
            corruption.what.push_str(ways);
            Error::Corrupt(corruption)
        }
        error => error,
    }
}

/// The manifest's part in a missing journal: a segment that is not listed and newer than the
/// journal tells that an edit is gone which added the one and made the other superfluous. Unless a
/// recovery past this damage was interrupted: what it has written is newer than the journal, which
/// continues none, that it began before.
pub(crate) fn blame_cut(
    error: Error,
    names: &Names,
    storage: &Arc<dyn Storage>,
    manifest: u64,
) -> Error {
    let Error::Missing { path } = &error else {
        return error;
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some(id) = journal::parse_name(&name) else {
        return error;
    };
    let continues_none = |journal: &u64| {
        let header = journal::read_header(&**storage, *journal);
        *journal > id && header.is_some_and(|header| header.previous == 0)
    };
    let end = names.journals.iter().copied().find(continues_none);
    let suspects = id.saturating_add(1)..end.unwrap_or(u64::MAX);
    let newer = |name: &&String| segment::parse_name(name).is_some_and(|id| suspects.contains(&id));
    let Some(segment) = names.dead.iter().find(newer) else {
        return error;
    };
    let manifest = manifest::file_name(manifest);
    let end = storage.open(&manifest).map_or(0, |file| file.len());
    let what = format!(
        "{name} is missing, and {segment}, which is newer, is not listed: the end of the manifest \
         was cut off, unless the journal was removed"
    );
    Error::corrupt(&storage.path_of(&manifest), end, what)
}

/// Replays damaged journals into a memtable that is empty. `is_intact` tells whether a payload is
/// what its record says.
pub(crate) fn replay(
    storage: &Arc<dyn Storage>,
    ids: &[u64],
    recovery: Recovery,
    expect: &Expect<'_>,
    apply: &mut Apply<'_>,
) -> Result<(Recovered, journal::Salvaged)> {
    let salvaged = match recovery {
        Recovery::Strict | Recovery::TolerateTail => {
            journal::tolerate(&**storage, ids, expect, apply)?
        }
        Recovery::Salvage => journal::salvage(&**storage, ids, expect, apply)?,
    };
    // A chain that no record continues: the journals there are must not lead to the next one.
    let mut chain = [0; 4];
    storage
        .fill_random(&mut chain)
        .map_err(|error| Error::io(storage.path_of(""), error))?;
    let recovered = Recovered {
        point: Point {
            next: salvaged.next,
            chain: u32::from_le_bytes(chain),
        },
        last: None,
        watermark: expect.durable,
        records: 0,
        operations: salvaged.operations,
        torn: Vec::new(),
    };
    Ok((recovered, salvaged))
}

/// A store that was opened past damage, until what was saved is in its place.
pub(super) struct Settled<'a> {
    pub(super) services: &'a Services,
    pub(super) log: &'a Log,
}

impl Settled<'_> {
    /// Makes what was saved from damaged journals durable in segments, behind a new journal.
    /// Returns the names under which damaged files are kept.
    pub(super) fn settle(&self, damaged: &BTreeSet<u64>, dead: &[String]) -> Result<Vec<String>> {
        let Services {
            storage, catalog, ..
        } = self.services;
        let mut kept = Vec::new();
        for &id in damaged {
            kept.push(self.keep_copy(&journal::file_name(id))?);
        }
        storage
            .sync_dir()
            .map_err(|error| Error::io(storage.path_of(""), error))?;
        let mut writing = self.log.turn();
        let id = catalog.change(|manifest| {
            manifest.keep_clean();
            manifest.allocate()
        })?;
        let journal = self.log.create_journal(id, &writing)?;
        let generation = writing.take_generation(&journal);
        self.log.note_active_bytes(&writing);
        for (tree, _) in &generation.tables {
            tree.seal_memtable();
        }
        generation.write(self.services, |flushed| {
            self.switch(generation.floor, flushed)
        })?;
        self.log.begin_journal(journal, &mut writing);
        drop(writing);
        self.log.remove_journals_before(id);
        for name in dead {
            // It may be live in truth: what else is damaged is not known.
            if segment::parse_name(name).is_some() {
                kept.push(self.rename_damaged(name)?);
            }
        }
        Ok(kept)
    }

    fn switch(&self, floor: JournalFloor, flushed: Vec<Flushed>) -> Result<()> {
        self.services.catalog.change(|manifest| {
            let mut edit = manifest.edit();
            let added = flushed.iter().flat_map(|one| &one.added);
            edit.added = added.cloned().collect();
            edit.floor = Some(floor);
            manifest.switch(&edit, floor.id)
        })?;
        self.log.note_durable(Sequence(floor.next.0 - 1));
        for one in flushed {
            one.tree.install_flushed(&one.table, one.segments);
        }
        Ok(())
    }

    /// Copies a file beside itself. The name is there only when the copy is whole.
    fn keep_copy(&self, name: &str) -> Result<String> {
        let storage = &self.services.storage;
        let kept = format!("{name}{DAMAGED}");
        storage::copy(&**storage, name, &kept)
            .map_err(|error| Error::io(storage.path_of(&kept), error))?;
        Ok(kept)
    }

    fn rename_damaged(&self, name: &str) -> Result<String> {
        let storage = &self.services.storage;
        let kept = format!("{name}{DAMAGED}");
        match storage.rename(name, &kept) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io(storage.path_of(name), error))
            }
            _ => Ok(kept),
        }
    }
}
