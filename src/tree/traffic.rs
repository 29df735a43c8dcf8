//! Counters of lookups and of bytes written that outlive the session: written to the manifest with
//! the edits of flushes and compactions and at close, never for their own sake while lookups go on.
//! After a kill, what was counted since the last edit is lost.

use crate::format::manifest::Edit;
use crate::manifest::{Manifest, SegmentMeta};

use super::state::Tree;

/// So many lookups that all went elsewhere are worth being written down.
const LOOKUPS_LEAST: u64 = 1000;

impl Tree {
    /// Adds what has been counted since the last edit: bytes written, and lookups in the segments of
    /// this tree that are live after the edit, which adds and removes these of them.
    pub(crate) fn add_traffic(
        &self,
        manifest: &Manifest,
        edit: &mut Edit,
        (added, removed): (&[SegmentMeta], &[u64]),
    ) {
        edit.work = self.services().monitor.work();
        let (now, state) = (self.lookups().in_runs_so_far(), manifest.state());
        if !state.keyspaces().contains_key(&self.id()) {
            return;
        }
        for segment in self.view().version.segments() {
            let id = segment.meta.id;
            let stays = state.segments.contains_key(&id) && !removed.contains(&id);
            let Some(traffic) = segment.traffic(now) else {
                continue;
            };
            let known = state.traffic.get(&id).copied().filter(|_| stays);
            let known = known.unwrap_or_default();
            // Lookups that went elsewhere are news only if they are many.
            let is_news = traffic.probes != known.probes
                || traffic.lookups > known.lookups.saturating_mul(2).max(LOOKUPS_LEAST);
            let is_added = added.iter().any(|meta| meta.id == id);
            if is_news && (stays || is_added) {
                edit.traffic.push((id, traffic));
            }
        }
    }
}
