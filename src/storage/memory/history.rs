//! All changing calls of a [`Memory`](super::Memory), in the order in which they were made.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::states::{self, Bounds, Choice, CrashState};
use super::{Clock, File, Names, State};

/// A changing call that has been made. Files are named by their identity, because names move.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    CreateDir,
    Create {
        name: String,
        file: Arc<File>,
    },
    Append {
        file: usize,
        len: usize,
    },
    /// From now on zeros follow the appends, or no longer.
    Reserve {
        file: usize,
        is_reserved: bool,
    },
    Sync {
        file: usize,
    },
    /// What was not durable yet will never be.
    FailedSync {
        file: usize,
    },
    Rename {
        from: String,
        to: String,
        file: usize,
    },
    Remove {
        name: String,
    },
    SyncDir,
}

/// The history while it is kept.
#[derive(Debug)]
pub(super) struct Recording {
    start: Moment,
    files: BTreeMap<usize, Arc<File>>,
    operations: Vec<Operation>,
}

impl Recording {
    pub(super) fn begin(state: &State) -> Recording {
        let all = || state.names.values().chain(state.durable_names.values());
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
                exists: state.exists,
                boot_id: state.boot_id,
                clock: state.clock,
                durable_names: ids(&state.durable_names),
                names: ids(&state.names),
                // What came before the recording and is not durable counts as one change.
                changes: replaced(&ids(&state.durable_names), &ids(&state.names)),
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

/// The final bytes of every file, by its identity: files only grow, so that what they were
/// before is a part of it.
pub(super) type Contents = BTreeMap<usize, Arc<[u8]>>;

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

/// What is on the disk and what is only with the system, after some number of calls.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) exists: bool,
    pub(super) boot_id: u128,
    pub(super) clock: Clock,
    pub(super) names: BTreeMap<String, usize>,
    pub(super) durable_names: BTreeMap<String, usize>,
    /// What has happened to names since the directory was synced, oldest first.
    pub(super) changes: Vec<Change>,
    pub(super) extents: BTreeMap<usize, Extent>,
}

/// One change of the directory: atomic, as renames are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Change {
    pub(super) remove: Option<String>,
    pub(super) insert: Option<(String, usize)>,
}

/// How much of a file there is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Extent {
    pub(super) len: usize,
    pub(super) durable_len: usize,
    /// Ranges below `durable_len` that never reached the disk.
    pub(super) lost: Vec<Range<usize>>,
    /// Where appends ended since the last sync.
    pub(super) appends: Vec<usize>,
    /// Whether zeros follow while the system runs.
    pub(super) is_reserved: bool,
}

impl Moment {
    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::CreateDir => self.exists = true,
            Operation::Create { name, file } => {
                self.extents.insert(file.id, Extent::default());
                self.change(None, Some((name.clone(), file.id)));
            }
            Operation::Rename { from, to, file } => {
                self.change(Some(from.clone()), Some((to.clone(), *file)));
            }
            Operation::Remove { name } => self.change(Some(name.clone()), None),
            Operation::SyncDir => {
                self.durable_names = self.names.clone();
                self.changes.clear();
            }
            Operation::Append { file, len } => {
                let extent = self.extents.entry(*file).or_default();
                extent.len += len;
                extent.appends.push(extent.len);
            }
            Operation::Reserve { file, is_reserved } => {
                self.extents.entry(*file).or_default().is_reserved = *is_reserved;
            }
            Operation::Sync { file } => self.extents.entry(*file).or_default().sync(),
            Operation::FailedSync { file } => {
                let extent = self.extents.entry(*file).or_default();
                if extent.durable_len < extent.len {
                    extent.lost.push(extent.durable_len..extent.len);
                }
                extent.sync();
            }
        }
    }

    fn change(&mut self, remove: Option<String>, insert: Option<(String, usize)>) {
        let change = Change { remove, insert };
        change.apply(&mut self.names);
        self.changes.push(change);
    }
}

impl Change {
    pub(super) fn apply(&self, names: &mut BTreeMap<String, usize>) {
        if let Some(name) = &self.remove {
            names.remove(name);
        }
        if let Some((name, file)) = &self.insert {
            names.insert(name.clone(), *file);
        }
    }
}

impl Extent {
    fn sync(&mut self) {
        self.durable_len = self.len;
        self.appends.clear();
    }
}
