//! Operands of a key in a table, and how many came since they were last summed up.
//!
//! A counter that is raised a million times has a million entries here, as none is ever removed. So
//! the writer stores a summary with every thirty-third operand of a key, and a lookup passes over
//! a few entries. Flushes write the operands themselves: snapshots may lie between them.

use std::collections::HashMap;

use criba_filters::KeyHash;

use crate::key::Kind;
use crate::slice::Slice;

use super::entries::Entry;
use super::tree::{Target, Tree, at};

/// Operands of a key that a lookup passes over, at most, before it meets a summary.
const OPERANDS_MAX: u32 = 32;

/// A summary may have this many times the bytes of the operands since the last one: of long
/// summaries there are fewer, so that all take no more than a few times the memory of operands.
const SUMMARY_SHARE: u64 = 4;

/// Memory of a key that is counted.
const COUNT_BYTES: u64 = 64;

/// The operands of each key since its last summary, by the key's hash. Of two keys with one hash
/// the operands are counted together, which costs a summary too many.
#[derive(Debug, Default)]
pub(super) struct Pending(HashMap<u64, Since>);

#[derive(Clone, Copy, Debug)]
struct Since {
    count: u32,
    bytes: u64,
    /// A summary is made when both are exceeded.
    count_max: u32,
    bytes_max: u64,
}

impl Default for Since {
    fn default() -> Since {
        Since {
            count: 0,
            bytes: 0,
            count_max: OPERANDS_MAX,
            bytes_max: 0,
        }
    }
}

impl Pending {
    /// Counts an operand that is about to be added; whether it should have a summary.
    pub(super) fn count(&mut self, hash: KeyHash, bytes: usize) -> bool {
        let since = self.0.entry(hash.0).or_default();
        since.count = since.count.saturating_add(1);
        since.bytes = since.bytes.saturating_add(bytes as u64);
        since.count > since.count_max && since.bytes > since.bytes_max
    }

    /// The operands of the key were summed up in so many bytes, or could not be.
    pub(super) fn note_summary(&mut self, hash: KeyHash, bytes: Option<usize>) {
        let since = self.0.entry(hash.0).or_default();
        *since = match bytes {
            Some(bytes) => Since {
                bytes_max: bytes as u64 / SUMMARY_SHARE,
                ..Since::default()
            },
            // Not each time: what fails would cost more and more.
            None => Since {
                count_max: since.count.saturating_mul(2),
                ..*since
            },
        };
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.0.len() as u64 * COUNT_BYTES
    }
}

/// Adds the operands of a key that are at most as new as the target, newest first, down to the first
/// entry of another kind, which it returns, or to a summary, which stands for the rest.
pub(super) fn collect(
    tree: &Tree,
    target: Target<'_>,
    operands: &mut Vec<Slice>,
) -> Option<(Kind, Slice)> {
    let mut base = None;
    walk(tree, target, |entry| {
        if entry.key() != target.key {
            return false;
        }
        if entry.kind() != Kind::Operand {
            base = Some((entry.kind(), entry.value_slice()));
            return false;
        }
        let summary = entry.summary();
        let is_last = summary.is_some();
        operands.push(summary.unwrap_or_else(|| entry.value_slice()));
        !is_last
    });
    base
}

/// Shows entries from the target on, until one is refused.
fn walk<'a>(tree: &'a Tree, mut target: Target<'a>, mut goes_on: impl FnMut(Entry<'a>) -> bool) {
    while let Some(found) = tree.from(target) {
        let mut entries = found.entries().iter();
        if !entries.all(|entry| goes_on(tree.entry(*entry))) {
            return;
        }
        let Some(after) = found.after else { return };
        target = at(tree.entry(after));
    }
}
