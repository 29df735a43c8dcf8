//! The files in the directory of a store.

use std::collections::BTreeMap;

use crate::journal;
use crate::manifest::{self, CURRENT, CURRENT_NEXT, Manifest};
use crate::segment;
use crate::storage;

/// The file whose lock keeps a second process out.
pub(crate) const LOCK: &str = "LOCK";

/// The files of the directory, by what they are to this store.
#[derive(Default)]
pub(super) struct Names {
    pub(super) journals: Vec<u64>,
    /// Ours and not needed any more.
    pub(super) dead: Vec<String>,
    pub(super) unknown: Vec<String>,
    /// Those of them whose names are like ours, with numbers that were never given.
    pub(super) strays: BTreeMap<u64, Vec<String>>,
    /// The highest number that any file of ours has.
    pub(super) highest: u64,
}

impl Names {
    pub(super) fn sort(names: &[String], manifest: &Manifest) -> Names {
        let mut sorted = Names::default();
        let live = manifest.current().manifest;
        // The manifest before the live one is kept.
        let previous = names
            .iter()
            .filter_map(|name| manifest::parse_name(name))
            .filter(|id| *id < live)
            .max()
            .unwrap_or(live);
        let floor = manifest.state().floor.map_or(0, |floor| floor.id);
        let segments = manifest.state().segment_files();
        let filters = manifest.state().filter_files();
        for name in names {
            let (id, is_live) = if let Some(id) = segment::parse_name(name) {
                (id, segments.contains(&id))
            } else if let Some(id) = journal::parse_name(name) {
                (id, id >= floor)
            } else if let Some(id) = segment::parse_filter_name(name) {
                (id, filters.contains(&id))
            } else if let Some(id) = manifest::parse_name(name) {
                (id, id == live || id == previous)
            } else {
                match name.as_str() {
                    LOCK | CURRENT => {}
                    CURRENT_NEXT => sorted.dead.push(name.clone()),
                    _ if is_being_rewritten(name, manifest) => sorted.dead.push(name.clone()),
                    _ => sorted.unknown.push(name.clone()),
                }
                continue;
            };
            if !manifest.knows_file(id) {
                sorted.unknown.push(name.clone());
                sorted.strays.entry(id).or_default().push(name.clone());
                continue;
            }
            sorted.highest = sorted.highest.max(id);
            if !is_live {
                sorted.dead.push(name.clone());
            } else if let Some(id) = journal::parse_name(name) {
                sorted.journals.push(id);
            }
        }
        sorted.journals.sort_unstable();
        sorted
    }
}

/// Whether this is what a crash has left of a journal or manifest that was made durable.
fn is_being_rewritten(name: &str, manifest: &Manifest) -> bool {
    let number = |name: &str| journal::parse_name(name).or_else(|| manifest::parse_name(name));
    let replaced = name.strip_suffix(storage::NEXT);
    let replaced = replaced.map(|name| name.strip_suffix(storage::DAMAGED).unwrap_or(name));
    let replaced = replaced.and_then(number);
    replaced.is_some_and(|id| manifest.knows_file(id))
}
