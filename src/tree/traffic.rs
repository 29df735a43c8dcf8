//! Counters of lookups and of bytes written that outlive the session: written to the manifest with
//! the edits of flushes and compactions and at close, never for their own sake while lookups go on.
//! After a kill, what was counted since the last edit is lost.

use std::collections::BTreeSet;

use crate::format::manifest::Edit;
use crate::manifest::Manifest;

use super::state::Tree;

/// So many lookups that all went elsewhere are worth being written down.
const LOOKUPS_LEAST: u64 = 1000;

impl Tree {
    /// Adds what has been counted since the last edit: bytes written, and lookups in the segments
    /// that are live after this one and were before.
    pub(crate) fn add_traffic(&self, manifest: &Manifest, edit: &mut Edit) {
        edit.work = self.services().monitor.work();
        if !manifest.state().keyspaces().contains_key(&self.id()) {
            return;
        }
        let removed: BTreeSet<u64> = edit.removed.iter().copied().collect();
        let added: BTreeSet<u64> = edit.added.iter().map(|segment| segment.id).collect();
        let (now, state) = (self.lookups().in_runs_so_far(), manifest.state());
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
            if is_news && (stays || added.contains(&id)) {
                edit.traffic.push((id, traffic));
            }
        }
    }
}
