//! What is reported, in which order, in which unit, and what was aimed at.

use std::cmp::Ordering;

/// How a number is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Operations in a second.
    Rate,
    Bytes,
    Milliseconds,
    Microseconds,
    Factor,
    Count,
}

/// One measured number.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub label: &'static str,
    pub unit: Unit,
}

impl Metric {
    /// Rates, and the ratios that are named so; all else is better when it is less.
    pub fn more_is_better(&self) -> bool {
        self.unit == Unit::Rate || self.name.ends_with("scaling") || self.name.ends_with("to_first")
    }

    /// The better one is the greater.
    pub fn by_merit(&self, a: f64, b: f64) -> Ordering {
        match self.more_is_better() {
            true => a.total_cmp(&b),
            false => b.total_cmp(&a),
        }
    }
}

const fn rate(name: &'static str, label: &'static str) -> Metric {
    Metric {
        name,
        label,
        unit: Unit::Rate,
    }
}

const fn in_unit(unit: Unit, name: &'static str, label: &'static str) -> Metric {
    Metric { name, label, unit }
}

use Unit::{Bytes, Count, Factor, Microseconds, Milliseconds};

/// A table and a plot of its own.
pub struct Section {
    pub title: &'static str,
    /// Name of the plot's file, without its ending; `None` for none.
    pub plot: Option<&'static str>,
    pub metrics: &'static [Metric],
}

pub const SECTIONS: &[Section] = &[
    Section {
        title: "Writes, one thread",
        plot: Some("benchmarks-writes"),
        metrics: &[
            rate("fill_random", "fill, random order, with debt"),
            rate("fill_random_no_debt", "fill, random order, without"),
            // Of it there is only the processor time.
            rate(
                "fill_random_rest",
                "the same with debt and what is done in the rest after it",
            ),
            rate("fill_sequential", "fill, key order, with debt"),
            rate("fill_sequential_no_debt", "fill, key order, without"),
            rate("overwrite", "overwrite, with debt"),
            rate("overwrite_no_debt", "overwrite, without"),
            rate("delete_heavy", "delete-heavy, with debt"),
            rate("delete_heavy_no_debt", "delete-heavy, without"),
            rate("queue", "queue: put, find first, delete"),
            in_unit(Factor, "queue_last_to_first", "queue: last tenth to first"),
            rate("sync_1", "fsync for each put, 1 thread"),
            rate("sync_4", "fsync for each put, 4 threads"),
        ],
    },
    Section {
        title: "How long a put takes",
        plot: None,
        metrics: &[
            in_unit(Microseconds, "fill_random_p50_us", "fill, median"),
            in_unit(Microseconds, "fill_random_p99_us", "fill, 99 %"),
            in_unit(Microseconds, "fill_random_p999_us", "fill, 99.9 %"),
            in_unit(Microseconds, "fill_random_worst_us", "fill, worst"),
            in_unit(
                Microseconds,
                "fill_random_worst_unstolen_us",
                "fill, worst, but for the host",
            ),
            in_unit(Microseconds, "overwrite_p999_us", "overwrite, 99.9 %"),
            in_unit(Microseconds, "overwrite_worst_us", "overwrite, worst"),
            in_unit(
                Microseconds,
                "overwrite_worst_unstolen_us",
                "overwrite, worst, but for the host",
            ),
            in_unit(Microseconds, "sync_1_p50_us", "fsync for each, median"),
            in_unit(Microseconds, "sync_1_p99_us", "fsync for each, 99 %"),
        ],
    },
    Section {
        title: "Reads and scans, page cache warm",
        plot: Some("benchmarks-reads"),
        metrics: &[
            rate("read_present", "present, uniform"),
            rate("read_zipf", "present, Zipf 0.99"),
            rate("read_absent", "absent, inside the key range"),
            rate("read_absent_outside", "absent, outside the key range"),
            rate("read_present_2", "present, uniform, 2 threads"),
            rate("read_absent_2", "absent, inside, 2 threads"),
            in_unit(Factor, "read_present_scaling", "present: 2 threads to 1"),
            in_unit(Factor, "read_absent_scaling", "absent: 2 threads to 1"),
            rate("scan_100", "scans of 100"),
            rate("scan_prefix", "scans of a prefix"),
            rate("scan_all", "entries of a full scan"),
            rate("scan_sequential", "the same, filled in key order"),
            rate("scan_after_deletes", "the same, after delete-heavy"),
        ],
    },
    Section {
        title: "YCSB, one thread",
        plot: Some("benchmarks-ycsb"),
        metrics: &[
            rate("ycsb_a", "A: half updates"),
            rate("ycsb_b", "B: 5 % updates"),
            rate("ycsb_c", "C: reads"),
            rate("ycsb_d", "D: reads of the latest, 5 % inserts"),
            rate("ycsb_e", "E: scans of up to 100, 5 % inserts"),
            rate("ycsb_f", "F: half read-modify-write"),
        ],
    },
    Section {
        title: "Transactions, two threads",
        plot: None,
        metrics: &[
            rate("transactions_low", "committed, low contention"),
            rate("transactions_high", "committed, high contention"),
            in_unit(
                Factor,
                "transactions_low_conflicts",
                "conflicts for each attempt, low",
            ),
            in_unit(
                Factor,
                "transactions_high_conflicts",
                "conflicts for each attempt, high",
            ),
        ],
    },
    Section {
        title: "Counters and tenants, one thread",
        plot: None,
        metrics: &[
            rate("counters_merge", "add one by a merge"),
            rate("counters_merge_get", "read counters after merges"),
            rate("counters_read_put", "add one by a read and a put"),
            rate("counters_read_put_get", "read counters after puts"),
            rate("tenants", "puts to 1,000 maps, with debt"),
            rate("tenants_prefix", "the same to one map with prefixes"),
            in_unit(Bytes, "tenants_written", "written for 1,000 maps"),
            in_unit(Bytes, "tenants_prefix_written", "written for one map"),
            in_unit(Count, "tenants_files", "files of 1,000 maps"),
            in_unit(Count, "tenants_prefix_files", "files of one map"),
        ],
    },
    Section {
        title: "Cold lookups",
        plot: Some("benchmarks-cold"),
        metrics: &[
            in_unit(Bytes, "cold_present_bytes", "present: device bytes"),
            in_unit(Count, "cold_present_reads", "present: reads"),
            in_unit(Microseconds, "cold_present_us", "present: time"),
            in_unit(Bytes, "cold_absent_bytes", "absent: device bytes"),
            in_unit(Count, "cold_absent_reads", "absent: reads"),
            in_unit(
                Bytes,
                "starved_present_bytes",
                "present, starved: device bytes",
            ),
            in_unit(Count, "starved_present_reads", "present, starved: reads"),
            in_unit(
                Bytes,
                "starved_absent_bytes",
                "absent, starved: device bytes",
            ),
            in_unit(Count, "starved_absent_reads", "absent, starved: reads"),
            in_unit(Count, "starved_absent_runs", "absent, starved: runs asked"),
            in_unit(
                Bytes,
                "starved_absent_bytes_per_run",
                "absent, starved: device bytes for each run",
            ),
        ],
    },
    Section {
        title: "Space, memory and opening",
        plot: Some("benchmarks-space"),
        metrics: &[
            in_unit(
                Factor,
                "fill_random_write_amplification",
                "bytes written to user bytes, fill",
            ),
            in_unit(
                Factor,
                "fill_random_rest_write_amplification",
                "the same, after the rest",
            ),
            in_unit(Milliseconds, "fill_random_rest_ms", "busy in that rest"),
            in_unit(
                Factor,
                "overwrite_write_amplification",
                "the same, overwrite",
            ),
            in_unit(Bytes, "disk", "disk after the fill"),
            in_unit(Factor, "space_amplification", "the same to user bytes"),
            in_unit(Bytes, "overwrite_disk", "disk after the overwrite"),
            in_unit(Bytes, "fill_memory", "peak memory of the fill"),
            in_unit(Bytes, "read_memory", "peak memory of the reads"),
            in_unit(
                Bytes,
                "read_memory_own",
                "the same, mapped files not counted",
            ),
            in_unit(Milliseconds, "open_ms", "open after close"),
            in_unit(
                Milliseconds,
                "open_after_kill_ms",
                "open after a kill, 64 MiB of journal",
            ),
            in_unit(
                Milliseconds,
                "open_after_kill_cpu_ms",
                "the same, processor time",
            ),
            in_unit(Count, "lost_after_kill", "entries lost by that kill"),
        ],
    },
];

/// With whom criba is compared.
#[derive(Clone, Copy, Debug)]
pub enum Against {
    /// The best of the other LSM trees.
    Lsm,
    /// The best of those whose unsynced writes survive a kill as criba's do.
    SameDurability,
    Engine(&'static str),
    /// Nobody: the number itself.
    Itself,
}

/// At least or at most so much, as a ratio or in the unit of the metric.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

pub struct Target {
    pub label: &'static str,
    pub metric: &'static str,
    /// Which criba: filters are compared at equal memory, mapped files with mapped files.
    pub of: &'static str,
    pub against: Against,
    pub goal: Goal,
}

const fn target(label: &'static str, metric: &'static str, against: Against, goal: Goal) -> Target {
    Target {
        label,
        metric,
        of: "criba",
        against,
        goal,
    }
}

/// The pages of its files in place of a cache, as LMDB has them.
const fn mapped(label: &'static str, metric: &'static str, against: Against, goal: Goal) -> Target {
    Target {
        of: "criba-mmap",
        ..target(label, metric, against, goal)
    }
}

/// With the bits for each key that the others have.
const fn alike(label: &'static str, metric: &'static str, against: Against, goal: Goal) -> Target {
    Target {
        of: "criba-10",
        ..target(label, metric, against, goal)
    }
}

const fn wasted(label: &'static str, peer: &'static str, part: f64) -> Target {
    let against = Against::Engine(peer);
    alike(label, "cold_absent_reads", against, Goal::AtMost(part))
}

use Against::{Engine, Itself, Lsm, SameDurability};
use Goal::{AtLeast, AtMost};

pub const TARGETS: &[Target] = &[
    target(
        "read absent, inside the range",
        "read_absent",
        Lsm,
        AtLeast(3.0),
    ),
    alike(
        "the same, filters of 10 bits",
        "read_absent",
        Lsm,
        AtLeast(3.0),
    ),
    target(
        "read absent, inside the range",
        "read_absent",
        Engine("lmdb"),
        AtLeast(3.0),
    ),
    target("read present, uniform", "read_present", Lsm, AtLeast(2.5)),
    mapped("the same, files mapped", "read_present", Lsm, AtLeast(2.5)),
    target(
        "read present, uniform",
        "read_present",
        Engine("lmdb"),
        AtLeast(1.0),
    ),
    mapped(
        "the same, files mapped",
        "read_present",
        Engine("lmdb"),
        AtLeast(1.0),
    ),
    target("read present, Zipf 0.99", "read_zipf", Lsm, AtLeast(2.5)),
    mapped("the same, files mapped", "read_zipf", Lsm, AtLeast(2.5)),
    target(
        "fill random, with debt",
        "fill_random",
        SameDurability,
        AtLeast(1.5),
    ),
    target(
        "overwrite, with debt",
        "overwrite",
        SameDurability,
        AtLeast(1.5),
    ),
    target(
        "fill sequential, with debt",
        "fill_sequential",
        Lsm,
        AtLeast(2.0),
    ),
    target("scans of 100", "scan_100", Lsm, AtLeast(1.5)),
    target("YCSB A", "ycsb_a", Lsm, AtLeast(1.5)),
    target("YCSB B", "ycsb_b", Lsm, AtLeast(1.5)),
    target("YCSB C", "ycsb_c", Lsm, AtLeast(1.5)),
    target("YCSB D", "ycsb_d", Lsm, AtLeast(1.5)),
    target("YCSB E", "ycsb_e", Lsm, AtLeast(1.2)),
    target("YCSB F", "ycsb_f", Lsm, AtLeast(1.5)),
    target(
        "queue, last tenth to first",
        "queue_last_to_first",
        Itself,
        AtLeast(1.0),
    ),
    target(
        "cold, present: device bytes",
        "cold_present_bytes",
        Itself,
        AtMost(4400.0),
    ),
    target(
        "cold, present: reads",
        "cold_present_reads",
        Itself,
        AtMost(1.0),
    ),
    target(
        "cold, absent: device bytes",
        "cold_absent_bytes",
        Itself,
        AtMost(20.0),
    ),
    target(
        "cold, absent: reads",
        "cold_absent_reads",
        Itself,
        AtMost(0.003),
    ),
    target(
        "starved, present: device bytes",
        "starved_present_bytes",
        Itself,
        AtMost(12288.0),
    ),
    target(
        "starved, absent: device bytes for each run asked",
        "starved_absent_bytes_per_run",
        Itself,
        AtMost(4096.0),
    ),
    wasted(
        "wasted reads at 10 bits, to RocksDB's Bloom",
        "rocksdb",
        0.1,
    ),
    wasted("wasted reads at 10 bits, to fjall's Bloom", "fjall", 0.1),
    wasted(
        "wasted reads at 10 bits, to RocksDB's Ribbon",
        "rocksdb-ribbon",
        0.25,
    ),
    target(
        "two readers to one, present",
        "read_present_scaling",
        Itself,
        AtLeast(1.9),
    ),
    target(
        "two readers to one, absent",
        "read_absent_scaling",
        Itself,
        AtLeast(1.9),
    ),
    target(
        "put while filling, 99.9 %",
        "fill_random_p999_us",
        Lsm,
        AtMost(1.0),
    ),
    target(
        "put while filling, worst",
        "fill_random_worst_us",
        Lsm,
        AtMost(1.0),
    ),
    target(
        "the same, but for the host",
        "fill_random_worst_unstolen_us",
        Lsm,
        AtMost(1.0),
    ),
    target(
        "delete-heavy, with debt",
        "delete_heavy",
        SameDurability,
        AtLeast(1.5),
    ),
    target("open after a kill", "open_after_kill_ms", Lsm, AtMost(1.0)),
    target("peak memory of the fill", "fill_memory", Lsm, AtMost(1.0)),
    target("peak memory of the reads", "read_memory", Lsm, AtMost(1.0)),
];

pub fn find(name: &str) -> Option<Metric> {
    let mut all = SECTIONS.iter().flat_map(|section| section.metrics);
    all.find(|metric| metric.name == name).copied()
}

/// A number with its unit, three digits or so.
pub fn written(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Rate => scaled(value, &[(1e6, " M"), (1e3, " k"), (1.0, "")]),
        Unit::Bytes => scaled(
            value,
            &[(1024.0 * 1024.0, " MiB"), (1024.0, " KiB"), (1.0, " B")],
        ),
        Unit::Milliseconds => scaled(value, &[(1e3, " s"), (1.0, " ms")]),
        Unit::Microseconds => scaled(value, &[(1e6, " s"), (1e3, " ms"), (1.0, " µs")]),
        Unit::Factor => digits(value),
        Unit::Count => digits(value),
    }
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let unit = units.iter().find(|(one, _)| value >= *one);
    let (one, name) = unit.or(units.last()).copied().unwrap_or((1.0, ""));
    format!("{}{name}", digits(value / one))
}

fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 99.5 => format!("{value:.0}"),
        size if size >= 9.95 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        size if size >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_three_digits_or_so() {
        let cases = [
            (Unit::Rate, 1_234_567.0, "1.23 M"),
            (Unit::Rate, 45_678.0, "45.7 k"),
            (Unit::Bytes, 0.0, "0 B"),
            (Unit::Bytes, 4400.0, "4.30 KiB"),
            (Unit::Microseconds, 0.083, "0.083 µs"),
            (Unit::Microseconds, 8130.0, "8.13 ms"),
            (Unit::Count, 0.00064, "0.00064"),
            (Unit::Factor, 99.9, "100"),
        ];
        for (unit, value, expected) in cases {
            assert_eq!(written(unit, value), expected);
        }
    }

    #[test]
    fn every_target_names_something_that_is_reported() {
        for target in TARGETS {
            assert!(find(target.metric).is_some(), "{}", target.metric);
        }
    }
}
