//! Finds out what a damaged store is made of.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::journal::{self, Expect, Point};
use crate::key::{KeyspaceId, Sequence};
use crate::loss::Loss;
use crate::manifest::{self, CURRENT, Manifest, SegmentMeta};
use crate::segment::{self, last_sequence_of, segments_of};
use crate::storage::{LockGuard, Storage};
use crate::store::LOCK;
use crate::tree::RecoveredTables;

/// What is to be read, and what is lost already.
pub(super) struct Survey {
    pub(super) store_id: u128,
    /// Files of segments, each with a segment in it; `None` for one of which nothing is known.
    pub(super) segments: Vec<(u64, Option<SegmentMeta>)>,
    /// What the journals hold.
    pub(super) tables: RecoveredTables,
    /// The names of keyspaces, as far as they are known.
    pub(super) names: BTreeMap<KeyspaceId, String>,
    pub(super) operations: u64,
    pub(super) lost: Vec<Loss>,
    pub(super) remarks: Vec<String>,
}

/// Refuses what is no store at all.
pub(super) fn check(source: &Arc<dyn Storage>) -> Result<()> {
    Files::list(source).map(drop)
}

/// Keeps writers out, as a reader does.
pub(super) fn lock(source: &Arc<dyn Storage>) -> Result<Option<Box<dyn LockGuard>>> {
    match source.lock_shared(LOCK) {
        Ok(guard) => Ok(guard),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Error::Locked {
            path: source.path_of(LOCK),
        }),
        Err(error) => Err(Error::io(source.path_of(LOCK), error)),
    }
}

/// The files of the store, by kind.
struct Files {
    segments: Vec<u64>,
    journals: Vec<u64>,
    manifests: Vec<u64>,
}

impl Files {
    fn list(source: &Arc<dyn Storage>) -> Result<Files> {
        let names = match source.list() {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let what = "there is no such directory; check the path";
                return Err(not_a_store(source, what));
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                let what = "a file, not a directory; check the path";
                return Err(not_a_store(source, what));
            }
            Err(error) => return Err(Error::io(source.path_of(""), error)),
        };
        let numbers = |parse: fn(&str) -> Option<u64>| {
            let mut numbers: Vec<u64> = names.iter().filter_map(|name| parse(name)).collect();
            numbers.sort_unstable();
            numbers
        };
        let files = Files {
            segments: numbers(segment::parse_name),
            journals: numbers(journal::parse_name),
            manifests: numbers(manifest::parse_name),
        };
        let kinds = [&files.segments, &files.journals, &files.manifests];
        if kinds.iter().all(|kind| kind.is_empty()) {
            let what = "no store is here, nor files of one; check the path";
            return Err(not_a_store(source, what));
        }
        Ok(files)
    }

    fn has_journal(&self, id: u64) -> bool {
        self.journals.binary_search(&id).is_ok()
    }

    fn has_segment(&self, id: u64) -> bool {
        self.segments.binary_search(&id).is_ok()
    }
}

impl Survey {
    pub(super) fn of(source: &Arc<dyn Storage>) -> Result<Survey> {
        let files = Files::list(source)?;
        let mut lost = Vec::new();
        let mut remarks = Vec::new();
        let manifest = find_manifest(source, &files, &mut lost, &mut remarks);
        let store_id = match &manifest {
            Some(manifest) => manifest.store_id(),
            None => find_store_id(source, &files)?,
        };
        let trusted = manifest.filter(|manifest| !is_suspect(manifest, &files, &lost));
        if let Some(manifest) = trusted {
            let survey = of_manifest(source, &files, &manifest)?;
            let hides = survey.lost.iter().any(is_journal) && has_unlisted(&manifest, &files);
            if !hides {
                return Ok(Survey {
                    lost: [lost, survey.lost].concat(),
                    remarks: [remarks, survey.remarks].concat(),
                    ..survey
                });
            }
        }
        let what = "the manifest cannot be trusted: all segments and journals that are there were \
                    read; keys that were deleted shortly before may be back, and operands may be counted \
                    twice";
        remarks.push(what.into());
        let survey = of_all_files(source, &files, store_id)?;
        Ok(Survey {
            lost: [lost, survey.lost].concat(),
            remarks: [remarks, survey.remarks].concat(),
            ..survey
        })
    }
}

fn is_journal(loss: &Loss) -> bool {
    let name = loss.path.file_name().unwrap_or_default().to_string_lossy();
    journal::parse_name(&name).is_some()
}

/// The newest manifest that can be read; what is wrong with newer ones goes to the losses.
fn find_manifest(
    source: &Arc<dyn Storage>,
    files: &Files,
    lost: &mut Vec<Loss>,
    remarks: &mut Vec<String>,
) -> Option<Manifest> {
    let mut note = |error: Error| match error {
        Error::Corrupt(at) => lost.push(Loss::new(at.path, at.offset, 0, at.what)),
        Error::Missing { path } => lost.push(Loss::new(path, 0, 0, "the file is missing")),
        Error::Io { path, source } => lost.push(Loss::new(path, 0, 0, source.to_string())),
        other => lost.push(Loss::new(source.path_of(CURRENT), 0, 0, other.to_string())),
    };
    match Manifest::load(source) {
        Ok(manifest) => return Some(manifest),
        Err(error) => note(error),
    }
    for &id in files.manifests.iter().rev() {
        match Manifest::load_without_current(source, id) {
            Ok(manifest) => {
                remarks.push(format!("{} was read instead", manifest::file_name(id)));
                return Some(manifest);
            }
            Err(error) => note(error),
        }
    }
    None
}

fn has_unlisted(manifest: &Manifest, files: &Files) -> bool {
    let listed = manifest.state().segment_files();
    files.segments.iter().any(|id| !listed.contains(id))
}

/// Whether edits of the manifest may be gone: a segment that is not listed may then be live, and
/// one that is listed superfluous.
fn is_suspect(manifest: &Manifest, files: &Files, lost: &[Loss]) -> bool {
    let state = manifest.state();
    let floor = state.floor.map_or(0, |floor| floor.id);
    let first = manifest.current().journal;
    let needed = [floor, first];
    let is_gone = |id: &&u64| **id > 0 && **id >= floor && !files.has_journal(**id);
    let listed = state.segment_files();
    let misses =
        listed.iter().any(|id| !files.has_segment(*id)) || needed.iter().any(|id| is_gone(&id));
    has_unlisted(manifest, files) && (misses || manifest.is_torn() || !lost.is_empty())
}

/// Any file that says which store it belongs to.
fn find_store_id(source: &Arc<dyn Storage>, files: &Files) -> Result<u128> {
    if let Some(store_id) = manifest::store_of_current(source) {
        return Ok(store_id);
    }
    let manifests = files.manifests.iter().rev();
    let mut of_manifests = manifests.filter_map(|id| manifest::store_of(source, *id));
    let segments = files.segments.iter().rev();
    let mut of_segments = segments.filter_map(|id| segment::store_of(&**source, *id));
    let journals = files.journals.iter().rev();
    let mut of_journals = journals.filter_map(|id| store_of_journal(source, *id));
    let found = of_manifests
        .next()
        .or_else(|| of_segments.next())
        .or_else(|| of_journals.next());
    let what = "no file tells which store it belongs to, and without that no block can be told \
                from other bytes; restore CURRENT or any manifest from a copy";
    found.ok_or_else(|| Error::corrupt(&source.path_of(CURRENT), 0, what))
}

fn store_of_journal(source: &Arc<dyn Storage>, id: u64) -> Option<u128> {
    journal::read_header(&**source, id).map(|header| header.store_id)
}

fn of_manifest(source: &Arc<dyn Storage>, files: &Files, manifest: &Manifest) -> Result<Survey> {
    let state = manifest.state();
    let current = manifest.current();
    let floor = state.floor.map_or(0, |floor| floor.id);
    let journals: Vec<u64> = files
        .journals
        .iter()
        .copied()
        .filter(|id| *id >= floor)
        .collect();
    let required: Vec<u64> = Some(current.journal)
        .filter(|id| *id > 0 && *id >= floor)
        .into_iter()
        .collect();
    let start = |floor: manifest::JournalFloor| {
        let point = Point {
            next: floor.next,
            chain: floor.chain,
        };
        (floor.id, point)
    };
    let expect = Expect {
        store_id: manifest.store_id(),
        floor: state.floor.map(start),
        required: &required,
        clean_at: current.clean_at,
        durable: state
            .floor
            .map_or(Sequence(0), |floor| Sequence(floor.next.0 - 1)),
    };
    let mut survey = replay(source, &journals, &expect)?;
    let metas = state.segments.values();
    survey.segments = metas.map(|meta| (meta.file, Some(meta.clone()))).collect();
    let names = state.keyspaces().iter();
    survey.names = names.map(|(id, one)| (*id, one.name.clone())).collect();
    // What journals hold of keyspaces that were dropped.
    let is_live = |id: &KeyspaceId| state.keyspaces().contains_key(id);
    survey.tables.tables.retain(|id, _| is_live(id));
    Ok(survey)
}

/// Everything that is there. What journals lack is taken for durable in segments up to the newest
/// of their entries.
fn of_all_files(source: &Arc<dyn Storage>, files: &Files, store_id: u128) -> Result<Survey> {
    let last = |id: &u64| last_sequence_of(source, store_id, *id);
    let durable = files.segments.iter().filter_map(last).max();
    let expect = Expect {
        store_id,
        floor: None,
        required: &[],
        clean_at: None,
        durable: durable.unwrap_or_default(),
    };
    let mut survey = replay(source, &files.journals, &expect)?;
    for &id in &files.segments {
        let known = segments_of(&**source, store_id, id);
        if known.is_empty() {
            survey.segments.push((id, None));
        }
        let known = known.into_iter().map(|meta| (id, Some(meta)));
        survey.segments.extend(known);
    }
    Ok(survey)
}

/// The journals, strictly if that works, else what is intact of them.
fn replay(source: &Arc<dyn Storage>, ids: &[u64], expect: &Expect<'_>) -> Result<Survey> {
    let mut survey = Survey {
        store_id: expect.store_id,
        segments: Vec::new(),
        tables: RecoveredTables::of_any(),
        names: BTreeMap::new(),
        operations: 0,
        lost: Vec::new(),
        remarks: Vec::new(),
    };
    let mut strict = RecoveredTables::of_any();
    let recovered = journal::recover(source, ids, expect, &mut apply_to(source, &mut strict));
    match recovered {
        Ok(recovered) => {
            survey.operations = recovered.operations;
            survey.tables = strict;
            survey.remarks = recovered.torn.iter().map(left_out).collect();
        }
        Err(Error::Corrupt(_) | Error::Missing { .. }) => {
            let mut apply = apply_to(source, &mut survey.tables);
            let salvaged = journal::salvage(&**source, ids, expect, &mut apply)?;
            drop(apply);
            survey.operations = salvaged.operations;
            survey.lost = salvaged.losses;
        }
        Err(error) => return Err(error),
    }
    Ok(survey)
}

/// In words, what recovery drops from the end of a journal.
fn left_out(torn: &journal::Torn) -> String {
    format!(
        "{}: {} bytes from byte {} on hold no whole write and were left out; a killed process \
         leaves that of a write it had not acknowledged, and a file that was cut looks the same",
        torn.path.display(),
        torn.dropped_bytes,
        torn.offset
    )
}

/// Inserts the operations of a record, all or none. Nothing is hashed: the table is only walked.
fn apply_to<'a>(
    source: &'a Arc<dyn Storage>,
    tables: &'a mut RecoveredTables,
) -> impl FnMut(u64, Sequence, u32, &[u8]) -> Result<()> + 'a {
    |id, first, count, payload| {
        tables.apply((first, count), payload, 0).map_err(|what| {
            let path = source.path_of(&journal::file_name(id));
            Error::corrupt(&path, 0, format!("record {first}: {what}"))
        })
    }
}

fn not_a_store(source: &Arc<dyn Storage>, what: impl Into<String>) -> Error {
    Error::NotAStore {
        path: source.path_of(""),
        what: what.into(),
    }
}
