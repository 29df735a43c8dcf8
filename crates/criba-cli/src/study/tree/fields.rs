//! The results of one store as a JSON object, whose field names others rely on. Where plain `study`
//! has the same number, the field has the same name.

use serde_json::Value;

use super::load::{base_bytes, run_keys};
use super::row::Row;
use super::table::live_bytes;
use crate::json::Object;
use crate::levels::Level;
use crate::study::args::StudyArgs;
use crate::study::row::per;

impl Row {
    /// One JSON object. A number that is not there is null.
    pub(super) fn json(&self, args: &StudyArgs) -> Object {
        let memory = &self.memory;
        let object = Object::new()
            .field(
                "setting",
                format!("{} {}", self.strategy_name(), self.filter.name()),
            )
            .field("strategy", self.strategy_name())
            .field("allocation", self.allocation())
            .field("filter", self.filter.name())
            .field("keys", self.keys)
            .field("levels", self.levels.len())
            .field("runs", self.runs())
            .field("segments", memory.segments)
            .field("r_bits", memory.r_bits)
            .field("bits_per_key", self.bits_per_key())
            .field("memory_overhead", self.bits_per_key() / memory.r_bits)
            .field("expected_wasted_reads", self.expected_wasted_reads())
            .field("wasted_reads_per_absent", self.wasted_reads())
            .field("wasted_reads", self.counts.absent.data.calls)
            .field("lookups_absent", self.counts.absent.lookups)
            .field("lookups_present", self.counts.present.lookups)
            .field("ratio_to_uniform_bloom", self.ratio_to_bloom)
            .field(
                "expected_ratio_to_uniform_bloom",
                self.expected_ratio_to_bloom,
            );
        self.surroundings(self.sides(object), args).field(
            "per_level",
            self.levels
                .iter()
                .map(|level| self.level(level))
                .collect::<Vec<_>>(),
        )
    }

    fn sides(&self, object: Object) -> Object {
        let (present, absent) = (&self.counts.present, &self.counts.absent);
        let asked = absent.false_positives + absent.negatives;
        object
            .field("reads_per_present", self.reads_per_present())
            .field("reads_per_absent", per(absent.reads.calls, absent.lookups))
            .field(
                "data_reads_per_present",
                per(present.data.calls, present.lookups),
            )
            .field(
                "bytes_per_present",
                per(present.reads.bytes, present.lookups),
            )
            .field("bytes_per_absent", per(absent.reads.bytes, absent.lookups))
            .field("probes_per_present", per(present.probes, present.lookups))
            .field("probes_per_absent", per(absent.probes, absent.lookups))
            .field("false_positive_rate", per(absent.false_positives, asked))
            .field("designed_rate", absent.designed_sum / absent.probes as f64)
    }

    fn surroundings(&self, object: Object, args: &StudyArgs) -> Object {
        let memory = &self.memory;
        object
            .field("write_amplification", self.write_amplification)
            .field(
                "space_amplification",
                self.space_amplification(live_bytes(self.keys, args)),
            )
            .field("load_s", self.load_time.as_secs_f64())
            .field("merges", self.merges)
            .field("moves", self.moves)
            .field(
                "build_ns_per_key",
                memory.build_ns / memory.stored_keys as f64,
            )
            .field("stored_keys", memory.stored_keys)
            .field("blocks", memory.blocks)
            .field("file_bytes", memory.file_bytes)
            .field("index_bytes", memory.index_bytes)
            .field("filter_bytes", memory.filter_bytes)
            .field("bits", args.bits)
            .field("ratio", args.ratio)
            .field("memtable_bytes", args.memtable_bytes)
            .field("run_keys", run_keys(args))
            .field("level_base_bytes", base_bytes(args))
            .field("residency", "pinned")
            .field("cache_bytes", 0)
            .field("value_bytes", args.value_bytes)
            .field("block_bytes", args.block_bytes)
            .field("entries_per_group", args.entries_per_group)
            .field("input", "generated")
            .field("seed", args.seed)
    }

    fn level(&self, level: &Level) -> Value {
        Object::new()
            .field("level", level.level)
            .field("runs", level.runs)
            .field("segments", level.segments)
            .field("keys", level.keys)
            .field("r_bits", level.r_bits())
            .field("bits_per_key", level.bits_per_key())
            .field("expected_wasted_reads", level.designed)
            .field("wasted_reads_per_absent", self.wasted_in(level))
            .field("wasted_reads", level.data_reads)
            .into()
    }

    /// Data blocks of a level read in vain for each absent key, counted.
    pub(super) fn wasted_in(&self, level: &Level) -> f64 {
        per(level.data_reads, self.counts.absent.lookups)
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::rows_with_ratios;
    use super::super::row::tests::{example, small_args};
    use super::*;

    #[test]
    fn json_has_the_promised_fields() {
        let rows = rows_with_ratios(vec![
            example("leveled", "bloom", 8000),
            example("leveled", "budget", 400),
        ]);
        let line = rows[1].json(&small_args()).to_line();
        let fields: serde_json::Map<String, Value> = serde_json::from_str(&line).unwrap();
        let promised = "setting strategy allocation filter levels expected_wasted_reads \
            wasted_reads_per_absent keys runs segments r_bits bits_per_key reads_per_present \
            reads_per_absent bytes_per_present bytes_per_absent probes_per_absent \
            false_positive_rate designed_rate build_ns_per_key memory_overhead input seed \
            write_amplification space_amplification ratio_to_uniform_bloom per_level";
        for name in promised.split_whitespace() {
            assert!(
                fields.get(name).is_some_and(|value| !value.is_null()),
                "{name} in {line}"
            );
        }
        assert_eq!(fields["wasted_reads_per_absent"], 0.002);
        assert_eq!(fields["ratio_to_uniform_bloom"], 0.05);
        assert_eq!(fields["levels"], 2);
        assert_eq!(fields["runs"], 4);
    }
}
