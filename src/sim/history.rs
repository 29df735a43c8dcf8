//! All changing calls of a [`Memory`](super::Memory), in the order in which they were made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::directory::{Directory, Names};
use super::file::File;
use super::moment::{Change, Contents, Extent, Moment, Operation};
use super::states::{self, Bounds, Choice, CrashState};

/// The history while it is kept.
#[derive(Debug)]
pub(super) struct Recording {
    start: Moment,
    files: BTreeMap<usize, Arc<File>>,
    operations: Vec<Operation>,
}

impl Recording {
    pub(super) fn begin(disk: &Directory) -> Recording {
        let all = || disk.names.values().chain(disk.durable_names.values());
        let of_file = |file: &Arc<File>| {
            let data = file.data();
            let extent = Extent {
                len: data.bytes.len(),
                durable_len: data.durable_len,
                lost: data.lost.clone(),
                appends: Vec::new(),
                is_reserved: data.is_reserved,
            };
            (file.id, extent)
        };
        let ids = |names: &Names| -> BTreeMap<String, usize> {
            let ids = names.iter().map(|(name, file)| (name.clone(), file.id));
            ids.collect()
        };
        Recording {
            start: Moment {
                exists: disk.exists,
                boot_id: disk.boot_id,
                clock: disk.clock,
                durable_names: ids(&disk.durable_names),
                names: ids(&disk.names),
                // What came before the recording and is not durable counts as one change.
                changes: replaced(&ids(&disk.durable_names), &ids(&disk.names)),
                extents: all().map(of_file).collect(),
            },
            files: all().map(|file| (file.id, Arc::clone(file))).collect(),
            operations: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, operation: Operation) {
        if let Operation::Create { file, .. } = &operation {
            self.files.insert(file.id, Arc::clone(file));
        }
        self.operations.push(operation);
    }

    pub(super) fn len(&self) -> usize {
        self.operations.len()
    }

    pub(super) fn history(&self) -> History {
        let bytes = |(id, file): (&usize, &Arc<File>)| (*id, Arc::from(&*file.data().bytes));
        let mut moments = vec![self.start.clone()];
        for operation in &self.operations {
            let mut next = moments[moments.len() - 1].clone();
            next.apply(operation);
            moments.push(next);
        }
        History {
            bytes: Arc::new(self.files.iter().map(bytes).collect()),
            moments,
            choices: Arc::default(),
        }
    }
}

fn replaced(old: &BTreeMap<String, usize>, new: &BTreeMap<String, usize>) -> Vec<Change> {
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    let gone = gone.map(|name| Change {
        remove: Some(name.clone()),
        insert: None,
    });
    let come = new.iter().filter(|(name, id)| old.get(*name) != Some(id));
    let come = come.map(|(name, id)| Change {
        remove: None,
        insert: Some((name.clone(), *id)),
    });
    gone.chain(come).collect()
}

/// All changing calls since [`Memory::record`](super::Memory::record), and what a crash at any of
/// them may leave.
#[derive(Clone, Debug)]
pub struct History {
    bytes: Arc<Contents>,
    moments: Vec<Moment>,
    /// What power loss may leave of each file, as it was last asked for: from moment to moment
    /// hardly any file changes.
    choices: Arc<Mutex<BTreeMap<usize, Known>>>,
}

/// What power loss may leave of a file that has this extent, within bounds.
#[derive(Debug)]
struct Known {
    extent: Extent,
    of_file: usize,
    choice: Choice,
}

impl History {
    /// How many calls were made.
    #[must_use]
    pub fn len(&self) -> usize {
        self.moments.len() - 1
    }

    /// Whether no call was made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a crash may leave when the first `calls` calls were made and the next was under way.
    ///
    /// # Panics
    ///
    /// When there were fewer calls.
    #[must_use]
    pub fn states(&self, calls: usize, bounds: &Bounds) -> Vec<CrashState> {
        let moment = &self.moments[calls];
        let next = self.moments.get(calls + 1);
        let mut states = states::after_kill(&self.bytes, moment, next, bounds);
        if moment.exists {
            let files = self.choices_at(moment, bounds);
            let after = states::after_power_loss(&self.bytes, moment, &files, bounds);
            states.extend(after);
        }
        states
    }

    fn choices_at(&self, moment: &Moment, bounds: &Bounds) -> BTreeMap<usize, Choice> {
        let mut known = self.choices.lock().unwrap_or_else(PoisonError::into_inner);
        let choice = |(id, extent): (&usize, &Extent)| {
            let is_same = |one: &&Known| one.extent == *extent && one.of_file == bounds.of_file;
            if let Some(known) = known.get(id).filter(is_same) {
                return (*id, Choice::clone(&known.choice));
            }
            let choice = states::choice(&self.bytes, *id, extent, bounds);
            let news = Known {
                extent: extent.clone(),
                of_file: bounds.of_file,
                choice: Choice::clone(&choice),
            };
            known.insert(*id, news);
            (*id, choice)
        };
        moment.extents.iter().map(choice).collect()
    }
}
