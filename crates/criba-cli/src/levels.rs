//! The tree level by level: what the runs of a level hold, and what their filters are designed to
//! let through and did.

use std::collections::BTreeSet;

use criba::storage::ReadCause;
use criba::{RunStats, SegmentStats, Stats};

/// The runs of one level together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Level {
    pub(crate) level: u32,
    pub(crate) runs: u64,
    pub(crate) segments: u64,
    pub(crate) entries: u64,
    /// A key in two runs counts twice.
    pub(crate) keys: u64,
    pub(crate) file_bytes: u64,
    /// Keys that no newer run hides, by estimate, and the bytes of files that they take.
    pub(crate) live_keys: u64,
    pub(crate) live_bytes: u64,
    /// Data blocks that a lookup in the tree reads here, on average over all sessions;
    /// `None` before the first lookup.
    pub(crate) reads_per_lookup: Option<f64>,
    /// Bytes of the filters in memory, when whole.
    pub(crate) filter_bytes: u64,
    /// Filter kinds that occur, `none` among them.
    pub(crate) kinds: BTreeSet<&'static str>,
    /// Payload bits of all keys together.
    pub(crate) bits: f64,
    /// Reads in vain that an absent key is expected to cost, by calculation: the sum over the
    /// runs of their designed rates.
    pub(crate) designed: f64,
    pub(crate) probes: u64,
    pub(crate) negatives: u64,
    pub(crate) true_positives: u64,
    pub(crate) false_positives: u64,
    pub(crate) data_reads: u64,
    /// Segments that cannot be read, or whose filter cannot.
    pub(crate) damaged: u64,
}

impl Level {
    /// Payload bits of a key, the mean over the keys.
    pub(crate) fn r_bits(&self) -> f64 {
        self.bits / self.keys as f64
    }

    /// Bits of memory for each key, overhead included.
    pub(crate) fn bits_per_key(&self) -> f64 {
        self.filter_bytes as f64 * 8.0 / self.keys as f64
    }

    /// The rate that a single run of the level is designed to have, on average.
    pub(crate) fn designed_rate(&self) -> f64 {
        self.designed / self.runs as f64
    }

    /// Lookups of absent keys that read a block in vain, as a part of those that asked a filter.
    pub(crate) fn measured_rate(&self) -> f64 {
        let absent = self.negatives + self.false_positives;
        self.false_positives as f64 / absent as f64
    }

    /// Bytes of files for each byte that live entries take.
    pub(crate) fn space_amplification(&self) -> f64 {
        self.file_bytes as f64 / self.live_bytes as f64
    }

    /// The kinds of filters, `bloomier` or `bloom, none`.
    pub(crate) fn kinds(&self) -> String {
        let kinds: Vec<&str> = self.kinds.iter().copied().collect();
        kinds.join(", ")
    }

    /// What was counted since an earlier moment, in which the segments were the same.
    pub(crate) fn since(mut self, earlier: &Level) -> Level {
        self.probes -= earlier.probes;
        self.negatives -= earlier.negatives;
        self.true_positives -= earlier.true_positives;
        self.false_positives -= earlier.false_positives;
        self.data_reads -= earlier.data_reads;
        self
    }

    fn add_run(&mut self, run: &RunStats) {
        self.runs += 1;
        self.live_keys += run.live_keys;
        self.live_bytes += run.live_bytes;
        self.designed += designed_rate(run);
        for segment in &run.segments {
            self.add_segment(segment);
        }
    }

    fn add_segment(&mut self, segment: &SegmentStats) {
        self.segments += 1;
        self.entries += segment.entries;
        self.keys += segment.keys;
        self.file_bytes += segment.file_bytes;
        if segment.lookups > 0 {
            let reads = segment.block_reads as f64 / segment.lookups as f64;
            self.reads_per_lookup = Some(self.reads_per_lookup.unwrap_or(0.0) + reads);
        }
        self.data_reads += segment.reads.get(ReadCause::Data).calls;
        let filter = segment.filter.as_ref();
        let is_damaged = filter.is_some_and(|filter| filter.damage.is_some());
        self.damaged += u64::from(is_damaged || segment.damage.is_some());
        self.kinds
            .insert(filter.map_or("none", |filter| filter.kind));
        if let Some(filter) = filter {
            self.filter_bytes += filter.pinned_bytes;
            self.bits += filter.r_bits * segment.keys as f64;
            self.probes += filter.probes;
            self.negatives += filter.negatives;
            self.true_positives += filter.true_positives;
            self.false_positives += filter.false_positives;
        }
    }
}

/// The levels that hold runs, from the top.
pub(crate) fn levels(stats: &Stats) -> Vec<Level> {
    let mut levels: Vec<Level> = Vec::new();
    for run in &stats.runs {
        let place = levels.iter().position(|level| level.level == run.level);
        let place = place.unwrap_or_else(|| {
            levels.push(Level {
                level: run.level,
                ..Level::default()
            });
            levels.len() - 1
        });
        levels[place].add_run(run);
    }
    levels.sort_by_key(|level| level.level);
    levels
}

/// Probability, by calculation, that an absent key reads a block of the run in vain: the designed
/// rates of its segments, weighted by their keys. Without a filter, it always does.
fn designed_rate(run: &RunStats) -> f64 {
    let keys: u64 = run.segments.iter().map(|segment| segment.keys).sum();
    let rate = |segment: &SegmentStats| match &segment.filter {
        Some(filter) if filter.damage.is_none() => filter.designed_rate,
        _ => 1.0,
    };
    let weighted: f64 = run
        .segments
        .iter()
        .map(|segment| rate(segment) * segment.keys as f64)
        .sum();
    if keys == 0 {
        0.0
    } else {
        weighted / keys as f64
    }
}

/// Reads in vain that a lookup of an absent key is expected to cost, by calculation.
pub(crate) fn expected_wasted_reads(levels: &[Level]) -> f64 {
    levels.iter().map(|level| level.designed).sum()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use criba::{Compaction, Db, FilterPolicy};

    /// A store of two runs with so many keys each, in memory; all filters are Bloom filters.
    pub(crate) fn two_runs(keys: u32) -> Db {
        let storage = std::sync::Arc::new(criba::sim::Memory::new());
        let db = Db::builder("memory")
            .storage(storage)
            .compaction(Compaction::Manual)
            .cache_bytes(0)
            .filter(FilterPolicy::Bloom { bits_per_key: 8.0 })
            .open()
            .unwrap();
        for part in 0..2 {
            for key in 0..keys {
                db.put(format!("{:08}", key * 2 + part), "value").unwrap();
            }
            db.flush().unwrap();
        }
        db
    }

    #[test]
    fn runs_of_a_level_are_summed() {
        let db = two_runs(2000);
        let levels = levels(&db.stats());
        assert_eq!(levels.len(), 1);
        let level = &levels[0];
        assert_eq!((level.level, level.runs, level.segments), (0, 2, 2));
        assert_eq!((level.keys, level.entries), (4000, 4000));
        assert_eq!(level.kinds(), "bloom");
        assert!((level.r_bits() - 8.0).abs() < 0.3, "{}", level.r_bits());
        assert!(level.bits_per_key() >= level.r_bits());
        // By estimate: the runs overlap.
        let about = |live: u64, all: u64| (live as f64 / all as f64 - 1.0).abs() < 0.05;
        assert!(about(level.live_keys, 4000), "{}", level.live_keys);
        assert!(about(level.live_bytes, level.file_bytes));
        let expected = expected_wasted_reads(&levels);
        assert!((0.03..0.08).contains(&expected), "{expected}");
        assert!((level.designed_rate() - expected / 2.0).abs() < 1e-12);
        assert!(level.measured_rate().is_nan());
        for key in 0..1000 {
            assert!(db.get(format!("{key:08}x")).unwrap().is_none());
        }
        let level = &super::levels(&db.stats())[0];
        assert_eq!(level.probes, level.negatives + level.false_positives);
        assert_eq!(level.data_reads, level.false_positives);
        let per_lookup = level.false_positives as f64 / 1000.0;
        assert!((level.reads_per_lookup.unwrap() - per_lookup).abs() < 1e-9);
        assert!((level.measured_rate() / level.designed_rate() - 1.0).abs() < 0.7);
    }
}
