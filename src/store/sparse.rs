//! Files of several segments of which little is live any more.
//!
//! A file stays as long as one of its segments is live. One keyspace that is hardly written would
//! keep what thousands of others have left behind. So a file whose live segments take less than
//! half of it is written anew: shared files take at most twice the room of what is live in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compaction::{Plan, Target};
use crate::segment::Segment;
use crate::tree::Tree;

use super::compactor::{Job, Queue};
use super::state::Store;

/// Shorter files are left as they are.
const WORTH_BYTES: u64 = 1 << 20;

/// What is live in a file.
#[derive(Default)]
struct Live {
    file_bytes: u64,
    bytes: u64,
    segments: Vec<(Arc<Tree>, Arc<Segment>)>,
}

impl Live {
    fn is_sparse(&self) -> bool {
        self.file_bytes >= WORTH_BYTES && self.bytes < self.file_bytes / 2
    }
}

impl Store {
    /// The live segments of a sparse file, to be written anew. None while one of them is worked on,
    /// or its keyspace is not open.
    pub(super) fn choose_sparse(&self, queue: &Queue) -> Option<Job> {
        let mut files: BTreeMap<u64, Live> = BTreeMap::new();
        for tree in self.trees().list() {
            for segment in tree.version().segments() {
                let file_bytes = segment.file().len();
                if file_bytes == segment.meta.len {
                    continue;
                }
                let live = files.entry(segment.meta.file).or_default();
                live.file_bytes = file_bytes;
                live.bytes += segment.meta.len;
                live.segments.push((Arc::clone(&tree), Arc::clone(segment)));
            }
        }
        let is_free = |(tree, segment): &(Arc<Tree>, Arc<Segment>)| {
            tree.is_open() && !queue.claims().is_busy(segment)
        };
        let mut sparse = files.into_values().filter(Live::is_sparse);
        let found = sparse.find(|live| live.segments.iter().all(is_free))?;
        let plan = |(tree, segment): (Arc<Tree>, Arc<Segment>)| {
            let plan = Plan::Merge {
                inputs: vec![segment.meta.id],
                level: segment.meta.level,
                target: Target::Join(segment.meta.run),
            };
            (tree, plan)
        };
        let mut plans = found.segments.into_iter().map(plan);
        let (tree, plan) = plans.next()?;
        Some(Job {
            tree,
            plan,
            together: plans.collect(),
            progress: Arc::default(),
            request: None,
            reserved: None,
            while_idle: false,
        })
    }
}
