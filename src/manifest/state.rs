//! What the edits of a manifest add up to.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::manifest::{
    DEFAULT_KEYSPACE, Edit, JournalFloor, KeyspaceMeta, SegmentMeta, Traffic, Work,
};
use crate::key::{KeyspaceId, Sequence};

/// What is live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) segments: BTreeMap<u64, SegmentMeta>,
    pub(crate) floor: Option<JournalFloor>,
    pub(crate) next_file: u64,
    pub(crate) reserved_end: u64,
    /// Lookups in live segments, as far as they were written down.
    pub(crate) traffic: BTreeMap<u64, Traffic>,
    pub(crate) work: Work,
    keyspaces: BTreeMap<KeyspaceId, KeyspaceMeta>,
    ids: BTreeMap<String, KeyspaceId>,
    /// A lower number that no keyspace has is that of one that was dropped.
    pub(crate) next_keyspace: KeyspaceId,
}

impl State {
    /// That of a new store.
    pub(super) fn new(next_file: u64, reserved_end: u64) -> State {
        let mut state = State {
            next_file,
            reserved_end,
            next_keyspace: KeyspaceId(1),
            ..State::default()
        };
        let name = DEFAULT_KEYSPACE.to_owned();
        let operator = String::new();
        state.add_keyspace(KeyspaceId::DEFAULT, KeyspaceMeta { name, operator });
        state
    }

    fn add_keyspace(&mut self, id: KeyspaceId, keyspace: KeyspaceMeta) {
        self.ids.insert(keyspace.name.clone(), id);
        self.keyspaces.insert(id, keyspace);
    }

    /// The keyspaces that are there.
    pub(crate) fn keyspaces(&self) -> &BTreeMap<KeyspaceId, KeyspaceMeta> {
        &self.keyspaces
    }

    /// The keyspace of this name.
    pub(crate) fn id_of(&self, name: &str) -> Option<KeyspaceId> {
        self.ids.get(name).copied()
    }

    /// The files that hold live segments.
    pub(crate) fn segment_files(&self) -> BTreeSet<u64> {
        self.segments.values().map(|segment| segment.file).collect()
    }

    /// The filter files that live segments have.
    pub(crate) fn filter_files(&self) -> BTreeSet<u64> {
        let files = self.segments.values().map(|segment| segment.filter_file);
        files.filter(|file| *file > 0).collect()
    }

    /// A segment whose number, run, filter file or last sequence is yet to be given: the next flush
    /// would be taken for older than it. Segments come with a floor behind their sequences.
    pub(super) fn not_given(&self) -> Option<u64> {
        let next = self.floor.map_or(Sequence(1), |floor| floor.next);
        let is_ahead = |meta: &SegmentMeta| {
            let numbers = [meta.id, meta.file, meta.run, meta.filter_file];
            let highest = numbers.into_iter().max().unwrap_or_default();
            highest >= self.next_file || meta.sequence_max >= next
        };
        let mut segments = self.segments.values();
        let found = segments.find(|meta| is_ahead(meta));
        found.map(|meta| meta.id)
    }

    /// Why an edit cannot be applied, if it cannot.
    pub(super) fn check(&self, edit: &Edit) -> Result<(), String> {
        self.check_keyspaces(edit)?;
        let is_dropped = |segment: &SegmentMeta| edit.dropped.contains(&segment.keyspace);
        let mut removed = BTreeSet::new();
        for id in &edit.removed {
            let is_there = self.segments.get(id).is_some_and(|one| !is_dropped(one));
            if !is_there || !removed.insert(*id) {
                return Err(format!("an edit removes segment {id}, which is not there"));
            }
        }
        let stays = |id: &u64| {
            let segment = self.segments.get(id).filter(|one| !is_dropped(one));
            segment.is_some() && !removed.contains(id)
        };
        let mut added = BTreeSet::new();
        for segment in &edit.added {
            let id = segment.id;
            if stays(&id) || !added.insert(id) {
                return Err(format!("an edit adds segment {id}, which is there"));
            }
            let keyspace = segment.keyspace;
            let created = edit.keyspaces.iter().any(|(id, _)| *id == keyspace);
            if is_dropped(segment) || !(created || self.keyspaces.contains_key(&keyspace)) {
                return Err(format!(
                    "an edit adds segment {id} to keyspace {keyspace}, which is not there"
                ));
            }
        }
        for (id, _) in &edit.traffic {
            if !stays(id) && !added.contains(id) {
                return Err(format!(
                    "an edit counts lookups in segment {id}, which is not there"
                ));
            }
        }
        Ok(())
    }

    fn check_keyspaces(&self, edit: &Edit) -> Result<(), String> {
        let mut dropped = BTreeSet::new();
        for id in &edit.dropped {
            let is_there = *id != KeyspaceId::DEFAULT && self.keyspaces.contains_key(id);
            if !is_there || !dropped.insert(*id) {
                return Err(format!("an edit drops keyspace {id}, which is not there"));
            }
        }
        let mut names = BTreeSet::new();
        for (id, keyspace) in &edit.keyspaces {
            let known = self.keyspaces.get(id);
            let is_new = *id >= self.next_keyspace && *id < edit.next_keyspace;
            if dropped.contains(id) || !(is_new || known.is_some()) {
                return Err(format!(
                    "an edit adds keyspace {id}, whose number is not free"
                ));
            }
            let other = self.id_of(&keyspace.name);
            let is_taken = other.is_some_and(|other| other != *id && !dropped.contains(&other));
            let is_renamed = known.is_some_and(|known| known.name != keyspace.name);
            if is_taken || is_renamed || !names.insert(&keyspace.name) {
                return Err(format!(
                    "an edit gives keyspace {id} a name that is not free"
                ));
            }
        }
        let has_default = self.keyspaces.contains_key(&KeyspaceId::DEFAULT)
            || edit
                .keyspaces
                .iter()
                .any(|(id, one)| *id == KeyspaceId::DEFAULT && one.name == DEFAULT_KEYSPACE);
        if edit.next_keyspace < self.next_keyspace || !has_default {
            return Err("an edit without the default keyspace, or that takes numbers back".into());
        }
        Ok(())
    }

    /// Applies an edit that [`State::check`] has found nothing wrong with.
    pub(super) fn apply(&mut self, edit: &Edit) {
        for id in &edit.dropped {
            if let Some(keyspace) = self.keyspaces.remove(id) {
                self.ids.remove(&keyspace.name);
            }
        }
        if !edit.dropped.is_empty() {
            self.segments
                .retain(|_, one| !edit.dropped.contains(&one.keyspace));
            self.traffic.retain(|id, _| self.segments.contains_key(id));
        }
        for (id, keyspace) in &edit.keyspaces {
            self.add_keyspace(*id, keyspace.clone());
        }
        for id in &edit.removed {
            self.segments.remove(id);
            self.traffic.remove(id);
        }
        for segment in &edit.added {
            self.segments.insert(segment.id, segment.clone());
        }
        self.traffic.extend(edit.traffic.iter().copied());
        self.floor = edit.floor.or(self.floor);
        self.work = edit.work;
        self.next_file = edit.next_file;
        self.reserved_end = edit.reserved_end;
        self.next_keyspace = edit.next_keyspace;
    }

    /// All of it as the first edit of a manifest.
    pub(super) fn as_edit(&self) -> Edit {
        let keyspaces = self.keyspaces.iter();
        Edit {
            added: self.segments.values().cloned().collect(),
            removed: Vec::new(),
            floor: self.floor,
            next_file: self.next_file,
            reserved_end: self.reserved_end,
            traffic: self.traffic.iter().map(|(id, one)| (*id, *one)).collect(),
            work: self.work,
            next_keyspace: self.next_keyspace,
            keyspaces: keyspaces.map(|(id, one)| (*id, one.clone())).collect(),
            dropped: Vec::new(),
        }
    }
}
