//! The results of one setting: what was counted, and ratios of it.

use criba::SegmentStats;

use super::args::StudyArgs;
use super::count::Counts;
use super::cpu::Cpu;
use super::load::Loaded;
use super::workload::Workload;
use crate::choice::FilterChoice;
use crate::clock::{Clock, ratios};

/// The results of one setting. `None` and NaN are what a setting has not got.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) setting: String,
    pub(crate) choice: FilterChoice,
    pub(crate) memory: Memory,
    pub(crate) counts: Counts,
    pub(crate) designed_rate: f64,
    pub(crate) false_positive_rate: f64,
    pub(crate) cpu: Relative,
}

/// What the stored keys and their filters take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) segments: u64,
    /// Keys in segments: a key in two runs counts twice.
    pub(crate) stored_keys: u64,
    pub(crate) blocks: u64,
    pub(crate) file_bytes: u64,
    pub(crate) index_bytes: u64,
    /// Bytes of the filters in memory, when whole.
    pub(crate) filter_bytes: u64,
    /// Payload bits of a key, the mean over all keys in segments.
    pub(crate) r_bits: f64,
    pub(crate) build_ns: f64,
}

/// CPU time of lookups, and beside the setting without filters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relative {
    pub(crate) times: Cpu,
    /// Ratios to `none`, round by round; empty when `none` was not measured.
    pub(crate) present: Vec<f64>,
    pub(crate) absent: Vec<f64>,
}

/// What all rows of a study share.
pub(crate) struct Setup<'a> {
    pub(crate) args: &'a StudyArgs,
    pub(crate) work: &'a Workload,
    pub(crate) clock: Clock,
}

/// `part` for each of `whole`; NaN for none.
pub(crate) fn per(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

impl Row {
    pub(crate) fn new(store: &Loaded, memory: Memory, counts: Counts) -> Row {
        let absent = &counts.absent;
        let designed_rate = if store.choice.is_none() {
            1.0
        } else {
            absent.designed_sum / absent.probes as f64
        };
        let asked = absent.false_positives + absent.negatives;
        let false_positive_rate = per(absent.false_positives, asked);
        Row {
            setting: store.setting.clone(),
            choice: store.choice,
            memory,
            counts,
            designed_rate,
            false_positive_rate,
            cpu: Relative::default(),
        }
    }

    pub(crate) fn bits_per_key(&self) -> f64 {
        per(self.memory.filter_bytes * 8, self.memory.stored_keys)
    }

    /// Memory beside the payload: 1.0 would be no overhead at all.
    pub(crate) fn memory_overhead(&self) -> f64 {
        self.bits_per_key() / self.memory.r_bits
    }

    pub(crate) fn build_ns_per_key(&self) -> f64 {
        self.memory.build_ns / self.memory.stored_keys as f64
    }

    /// Data blocks that a present lookup reads in the run that answers it.
    pub(crate) fn holder_reads(&self) -> f64 {
        per(self.counts.holder_reads, self.counts.present.lookups)
    }
}

impl Relative {
    /// Beside the times without filters, if there are any.
    pub(crate) fn new(times: Cpu, none: Option<&Cpu>) -> Relative {
        let present = none
            .map(|none| ratios(&times.present, &none.present))
            .unwrap_or_default();
        let absent = none
            .map(|none| ratios(&times.absent, &none.absent))
            .unwrap_or_default();
        Relative {
            times,
            present,
            absent,
        }
    }
}

impl Memory {
    pub(crate) fn new(stats: &criba::Stats) -> Memory {
        let mut memory = stats.segments().fold(Memory::default(), Memory::with);
        memory.r_bits /= memory.stored_keys as f64;
        memory
    }

    /// Until the end, `r_bits` holds the sum over all keys.
    fn with(mut self, segment: &SegmentStats) -> Memory {
        self.segments += 1;
        self.stored_keys += segment.keys;
        self.blocks += segment.blocks;
        self.file_bytes += segment.file_bytes;
        self.index_bytes += segment.index_bytes;
        if let Some(filter) = &segment.filter {
            self.filter_bytes += filter.pinned_bytes;
            self.r_bits += filter.r_bits * segment.keys as f64;
            self.build_ns += filter
                .build_time
                .map_or(f64::NAN, |time| time.as_nanos() as f64);
        }
        self
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::study::count::{Cost, Reads};

    /// A row such as a study might have, for the tests of reports.
    pub(crate) fn example(setting: &str, reads: u64) -> Row {
        let cost = |calls: u64| Cost {
            lookups: 1000,
            reads: Reads {
                calls,
                bytes: calls * 4096,
            },
            data: Reads {
                calls,
                bytes: calls * 4096,
            },
            probes: 4000,
            negatives: 4000 - reads,
            false_positives: reads,
            ..Cost::default()
        };
        let choice = crate::choice::filter(setting).unwrap();
        let bits = if choice.is_none() { 0.0 } else { 10.0 };
        let times = Cpu {
            present: vec![2000.0; 7],
            absent: vec![200.0; 7],
        };
        Row {
            setting: setting.into(),
            choice,
            memory: Memory {
                segments: 4,
                stored_keys: 8000,
                filter_bytes: bits as u64 * 1000 + 20,
                r_bits: bits,
                build_ns: 8000.0 * 75.0,
                ..Memory::default()
            },
            counts: Counts {
                present: cost(1000 + reads / 2),
                absent: cost(reads),
                holder_reads: 1000,
            },
            designed_rate: 0.01,
            false_positive_rate: per(reads, 4000),
            cpu: Relative {
                times,
                present: vec![0.5; 7],
                absent: vec![0.1; 7],
            },
        }
    }

    /// A command line without arguments.
    pub(crate) fn default_args() -> StudyArgs {
        use clap::{Args as _, FromArgMatches as _};
        let command = StudyArgs::augment_args(clap::Command::new("study"));
        StudyArgs::from_arg_matches(&command.get_matches_from(["study"])).unwrap()
    }
}
