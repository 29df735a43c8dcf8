//! Which filter a new segment gets: the policy, applied to the tree as it is.

use crate::compaction::OutputOptions;
use crate::filter::{BloomierBits, FilterSpec, allocate, hash_key};
use crate::key::Sequence;
use crate::options::FilterPolicy;
use crate::segment::WriterOptions;
use crate::version::{Run, Version};

use super::shared::Shared;

/// Fewer bits than this are no filter: one bit still rules out half of the absent keys.
const BITS_MIN: f64 = 1.0;

/// More bits for one run are not worth their memory, however small the run.
const BITS_MAX: f64 = 40.0;

impl Shared {
    /// The filter of segments that bring about so many keys to a level, in place of the segments
    /// with the ids `replaced`.
    pub(crate) fn filter_for(
        &self,
        version: &Version,
        level: u32,
        keys: u64,
        replaced: &[u64],
    ) -> Option<FilterSpec> {
        let others = remaining(version, replaced);
        let is_last = others.iter().all(|run| run.level <= level);
        let policy = self.policy_of(level, is_last);
        let FilterPolicy::Budget { bits_per_key } = policy else {
            return policy.spec();
        };
        // The output first; what stays of the run that it joins counts with it.
        let mut counts = vec![keys];
        for run in &others {
            let joined = level > 0 && run.level == level && self.joins_runs();
            if joined {
                counts[0] += run.keys;
            } else {
                counts.push(run.keys);
            }
        }
        let bits = allocate(bits_per_key, &counts, BITS_MAX)[0];
        (bits >= BITS_MIN).then_some(FilterSpec::Bloomier(BloomierBits::BitsPerKey(bits)))
    }

    fn policy_of(&self, level: u32, is_last: bool) -> FilterPolicy {
        let options = &self.options;
        let for_last = options.last_level_filter.filter(|_| is_last && level > 0);
        let for_level = options.level_filters.get(&level).copied();
        for_last.or(for_level).unwrap_or(options.filter)
    }

    /// Whether a level below the first is one run that outputs join.
    fn joins_runs(&self) -> bool {
        self.options.tree.strategy == crate::options::Strategy::Leveled
    }

    /// How segments of an output are written.
    pub(crate) fn output_options(
        &self,
        (level, run): (u32, Option<u64>),
        filter: Option<FilterSpec>,
        sequence_base: Sequence,
    ) -> OutputOptions {
        OutputOptions {
            writer: WriterOptions {
                store_id: self.store_id,
                hash_seed: self.hash_seed,
                hash_key,
                block_bytes: self.options.block_bytes,
                entries_per_group: self.options.entries_per_group,
                compression: self.options.compression,
                filter,
                sequence_base,
                filter_salt: 0,
            },
            segment_bytes: self.options.segment_bytes,
            level,
            run,
        }
    }
}

/// A run without some of its segments.
struct Remaining {
    level: u32,
    keys: u64,
}

fn remaining(version: &Version, replaced: &[u64]) -> Vec<Remaining> {
    let keys = |run: &Run| -> u64 {
        run.segments
            .iter()
            .filter(|segment| !replaced.contains(&segment.meta.id))
            .map(|segment| segment.counts().keys)
            .sum()
    };
    version
        .runs()
        .iter()
        .map(|run| Remaining {
            level: run.level,
            keys: keys(run),
        })
        .filter(|run| run.keys > 0)
        .collect()
}
