//! The results of one setting as a JSON object, whose field names others rely on.

use serde_json::Value;

use super::count::{Cost, Counts};
use super::row::{Relative, Row, Setup, per};
use crate::choice::residency_name;
use crate::clock::{Clock, median, spread};
use crate::json::Object;

impl Row {
    /// One JSON object. A number that is not there is null.
    pub(crate) fn json(&self, setup: &Setup<'_>) -> Object {
        let memory = &self.memory;
        let object = Object::new()
            .field("setting", self.setting.as_str())
            .field("keys", setup.work.present.len())
            .field("runs", setup.work.parts.len())
            .field("segments", memory.segments)
            .field("r_bits", memory.r_bits)
            .field("bits_per_key", self.bits_per_key())
            .field("memory_overhead", self.memory_overhead());
        let object = sides(object, &self.counts)
            .field(
                "data_reads_per_present_and_run_holding",
                self.holder_reads(),
            )
            .field("false_positive_rate", self.false_positive_rate)
            .field("designed_rate", self.designed_rate)
            .field("build_ns_per_key", self.build_ns_per_key());
        self.surroundings(self.cpu.json(object, setup.clock), setup)
    }

    fn surroundings(&self, object: Object, setup: &Setup<'_>) -> Object {
        let (args, memory) = (setup.args, &self.memory);
        object
            .field("stored_keys", memory.stored_keys)
            .field("blocks", memory.blocks)
            .field("file_bytes", memory.file_bytes)
            .field("index_bytes", memory.index_bytes)
            .field("filter_bytes", memory.filter_bytes)
            .field("absent_keys", setup.work.absent.len())
            .field("lookups_present", self.counts.present.lookups)
            .field("lookups_absent", self.counts.absent.lookups)
            .field("residency", residency_name(args.residency))
            .field("cache_bytes", args.cache_bytes)
            .field("value_bytes", args.value_bytes)
            .field("block_bytes", args.block_bytes)
            .field("entries_per_group", args.entries_per_group)
            .field("input", setup.work.name.as_str())
            .field("sample", args.sample)
            .field("skipped_long_lines", setup.work.skipped_long)
            .field("seed", args.seed)
    }
}

fn sides(object: Object, counts: &Counts) -> Object {
    let Counts {
        present, absent, ..
    } = counts;
    let reads = |cost: &Cost| per(cost.reads.calls, cost.lookups);
    let bytes = |cost: &Cost| per(cost.reads.bytes, cost.lookups);
    object
        .field("reads_per_present", reads(present))
        .field("reads_per_absent", reads(absent))
        .field(
            "data_reads_per_present",
            per(present.data.calls, present.lookups),
        )
        .field(
            "data_reads_per_absent",
            per(absent.data.calls, absent.lookups),
        )
        .field(
            "filter_reads_per_present",
            per(present.filter.calls, present.lookups),
        )
        .field(
            "filter_reads_per_absent",
            per(absent.filter.calls, absent.lookups),
        )
        .field("bytes_per_present", bytes(present))
        .field("bytes_per_absent", bytes(absent))
        .field(
            "bytes_per_absent_probe",
            per(absent.reads.bytes, absent.probes),
        )
        .field("probes_per_present", per(present.probes, present.lookups))
        .field("probes_per_absent", per(absent.probes, absent.lookups))
        .field(
            "wasted_reads_per_probed_segment",
            per(absent.data.calls, absent.probes),
        )
}

impl Relative {
    fn json(&self, object: Object, clock: Clock) -> Object {
        let number = |values: &[f64]| Value::from(median(values));
        object
            .field("cpu_clock", clock.name())
            .field("cpu_ns_per_present", number(&self.times.present))
            .field("cpu_ns_per_present_spread", spread(&self.times.present))
            .field("cpu_ns_per_absent", number(&self.times.absent))
            .field("cpu_ns_per_absent_spread", spread(&self.times.absent))
            .field("cpu_present_relative_to_none", number(&self.present))
            .field("cpu_present_relative_to_none_spread", spread(&self.present))
            .field("cpu_absent_relative_to_none", number(&self.absent))
            .field("cpu_absent_relative_to_none_spread", spread(&self.absent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::input::generate;
    use crate::study::row::tests::{default_args, example};
    use crate::study::workload::Workload;

    #[test]
    fn json_has_the_promised_fields() {
        let work = Workload::new(generate(30, 1), 4, 10, 1).unwrap();
        let args = default_args();
        let setup = Setup {
            args: &args,
            work: &work,
            clock: Clock::Wall,
        };
        let line = example("bloom:10", 40).json(&setup).to_line();
        let fields: serde_json::Map<String, Value> = serde_json::from_str(&line).unwrap();
        let promised = "setting keys runs segments r_bits bits_per_key reads_per_present \
            reads_per_absent bytes_per_present bytes_per_absent probes_per_absent \
            false_positive_rate designed_rate build_ns_per_key bytes_per_absent_probe \
            data_reads_per_present_and_run_holding wasted_reads_per_probed_segment \
            probes_per_present memory_overhead input seed cpu_present_relative_to_none \
            cpu_absent_relative_to_none cpu_clock";
        for name in promised.split_whitespace() {
            assert!(
                fields.get(name).is_some_and(|value| !value.is_null()),
                "{name} in {line}"
            );
        }
        assert_eq!(fields["reads_per_absent"], 0.04);
        assert_eq!(fields["wasted_reads_per_probed_segment"], 0.01);
        assert_eq!(fields["data_reads_per_present_and_run_holding"], 1.0);
        assert_eq!(fields["build_ns_per_key"], 75.0);
        assert_eq!(fields["bits_per_key"], 10.02);
    }
}
