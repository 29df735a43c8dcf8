//! What is in memory of an open segment.

use std::sync::Arc;

use crate::format::segment::{Footer, Properties};
use crate::storage::ReadFile;

use super::block::Block;
use super::counters::Counters;
use super::fences::Fences;
use super::filter::FilterState;
use super::groups::Groups;
use super::map::Mapped;
use super::range_filter::RangeState;

/// What is resident of a segment.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) identity: u64,
    pub(super) footer: Footer,
    pub(super) properties: Properties,
    pub(super) fences: Fences,
    pub(super) filter: FilterState,
    pub(super) range: RangeState,
    pub(super) counters: Counters,
    /// The file, where it is mapped.
    pub(super) mapped: Option<Mapped>,
    pub(super) groups: Box<Groups>,
}

impl Body {
    /// Whether a key may have more than one entry here.
    pub(super) fn has_versions(&self) -> bool {
        self.properties.entries != self.properties.keys
    }

    /// Whether a block that was just read and verified stays in memory in the map of the file.
    pub(super) fn keeps_mapped(&self, ordinal: u32, block: &Block) -> bool {
        match &self.mapped {
            Some(mapped) if block.payload.is_mapped() => {
                mapped.note(ordinal, block);
                true
            }
            _ => false,
        }
    }

    /// Whether the block was verified where it lies, in the map of the file.
    pub(super) fn was_verified(&self, ordinal: u32) -> bool {
        let mapped = self.mapped.as_ref();
        mapped.is_some_and(|mapped| mapped.was_verified(ordinal))
    }
}
