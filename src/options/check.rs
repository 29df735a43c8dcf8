//! The bounds of options, and the refusal of others: each names the option and its bounds.

use std::time::Duration;

use crate::error::{Error, Result};

use super::{
    Access, Compression, Create, FilterPolicy, Options, RangeFilterPolicy, Strategy, TreeOptions,
};
use crate::format::manifest::NAME_BYTES_MAX;
use criba_filters::range::{BITS_MAX, BITS_MIN};
use criba_filters::segment::CustomFilters;

/// Smallest and largest target size of a data block, in bytes.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 512..=1 << 20;
const ENTRIES_PER_GROUP: std::ops::RangeInclusive<u32> = 1..=256;
const MEMTABLE_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=4 << 30;
const BASE_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 50;
const SEGMENT_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=64 << 30;
/// What a FIFO keeps; with less than a memtable it would drop every flush at once.
const FIFO_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=u64::MAX;

/// Times on disk are in milliseconds.
const FIFO_AGE_MIN: Duration = Duration::from_millis(1);

impl Options {
    /// # Errors
    ///
    /// [`Error::Invalid`] names the first option outside its bounds and what it may be.
    pub(crate) fn check(&self) -> Result<()> {
        self.tree.check(&self.customs)?;
        within("memtable_bytes", &self.memtable_bytes, &MEMTABLE_BYTES)?;
        within(
            "sealed_memtables_max",
            &self.sealed_memtables_max,
            &(1..=64),
        )?;
        within("compaction_threads", &self.compaction_threads, &(1..=16))?;
        within("compaction_niceness", &self.compaction_niceness, &(0..=19))?;
        if let Some(rate) = self.compaction_rate {
            within("compaction_rate", &rate, &(1 << 16..=u64::MAX))?;
        }
        if self.create == Create::Always && self.access == Access::ReadOnly {
            return Err(Error::Invalid(
                "a new store cannot be made read-only; choose Access::ReadWrite or Create::Never"
                    .into(),
            ));
        }
        self.customs.check().map_err(Error::Invalid)
    }
}

impl TreeOptions {
    /// # Errors
    ///
    /// As for [`Options::check`].
    pub(crate) fn check(&self, customs: &CustomFilters) -> Result<()> {
        within("block_bytes", &self.block_bytes, &BLOCK_BYTES)?;
        if !self.block_bytes.is_power_of_two() {
            let lower = 1 << self.block_bytes.ilog2();
            return Err(Error::Invalid(format!(
                "block_bytes is {}; choose a power of two: {lower} or {}",
                self.block_bytes,
                lower * 2
            )));
        }
        within(
            "entries_per_group",
            &self.entries_per_group,
            &ENTRIES_PER_GROUP,
        )?;
        within("segment_bytes", &self.segment_bytes, &SEGMENT_BYTES)?;
        if let Compression::Zstd { level } = self.compression {
            within("zstd level", &level, &(1..=19))?;
        }
        let others = self.level_filters.values().chain(&self.last_level_filter);
        for policy in std::iter::once(&self.filter).chain(others) {
            check_filter(*policy, customs)?;
        }
        match self.range_filter {
            RangeFilterPolicy::None => {}
            RangeFilterPolicy::Bits { bits_per_key } => {
                within(
                    "bits_per_key of the range filter",
                    &bits_per_key,
                    &(BITS_MIN..=BITS_MAX),
                )?;
            }
            RangeFilterPolicy::Budget => match self.filter {
                FilterPolicy::Budget { .. } => {}
                _ => {
                    return Err(Error::Invalid(
                        "RangeFilterPolicy::Budget without FilterPolicy::Budget, of which it would \
                         be a part; choose that, or RangeFilterPolicy::Bits"
                            .into(),
                    ));
                }
            },
        }
        within("level_ratio", &self.shape.ratio, &(2..=100))?;
        within("level0_runs", &self.shape.level0_runs, &(1..=1000))?;
        within("level_base_bytes", &self.shape.base_bytes, &BASE_BYTES)?;
        if let Strategy::Fifo { bytes, age } = self.shape.strategy {
            within("fifo bytes", &bytes, &FIFO_BYTES)?;
            check_age(age)?;
        }
        self.check_operator()
    }

    fn check_operator(&self) -> Result<()> {
        let Some(name) = self.operator.name() else {
            return Ok(());
        };
        within(
            "bytes of the operator's name",
            &name.len(),
            &(1..=NAME_BYTES_MAX),
        )?;
        match self.shape.strategy {
            Strategy::Fifo { .. } => Err(Error::Invalid(
                "an operator needs the older entries of a key, which Strategy::Fifo removes; choose \
                  another strategy, or no operator"
                    .into(),
            )),
            _ => Ok(()),
        }
    }
}

fn check_filter(policy: FilterPolicy, customs: &CustomFilters) -> Result<()> {
    match policy {
        FilterPolicy::Budget { bits_per_key } => {
            within("bits_per_key", &bits_per_key, &(0.0..=64.0))
        }
        FilterPolicy::Custom if customs.first().is_none() => Err(Error::Invalid(
            "FilterPolicy::Custom without a filter; give one to Builder::custom_filter".into(),
        )),
        policy => policy
            .spec()
            .map_or(Ok(()), |spec| spec.check().map_err(Error::Invalid)),
    }
}

fn check_age(age: Option<Duration>) -> Result<()> {
    match age {
        Some(age) if age < FIFO_AGE_MIN => Err(Error::Invalid(format!(
            "fifo age is {age:?}; choose at least {FIFO_AGE_MIN:?}, or None for no limit"
        ))),
        _ => Ok(()),
    }
}

fn within<T: PartialOrd + std::fmt::Display>(
    name: &str,
    value: &T,
    bounds: &std::ops::RangeInclusive<T>,
) -> Result<()> {
    if bounds.contains(value) {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "{name} is {value}; choose {} to {}",
        bounds.start(),
        bounds.end()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Options)) -> String {
        let mut options = Options::default();
        change(&mut options);
        options.check().unwrap_err().to_string()
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        assert!(Options::default().check().is_ok());
        assert_eq!(
            refusal(|o| o.tree.block_bytes = 0),
            "block_bytes is 0; choose 512 to 1048576"
        );
        let age = Some(Duration::from_micros(999));
        assert_eq!(
            refusal(|o| o.tree.shape.strategy = Strategy::Fifo {
                bytes: 1 << 30,
                age
            }),
            "fifo age is 999µs; choose at least 1ms, or None for no limit"
        );
        assert!(refusal(|o| o.tree.compression = Compression::Zstd { level: 99 }).contains("zstd"));
        assert!(
            refusal(|o| o.tree.filter = FilterPolicy::Bloom {
                bits_per_key: f64::NAN
            })
            .contains("bits")
        );
        assert_eq!(
            refusal(|o| o.tree.range_filter = RangeFilterPolicy::Bits { bits_per_key: 2.0 }),
            "bits_per_key of the range filter is 2; choose 4 to 64"
        );
        let part = refusal(|o| o.tree.range_filter = RangeFilterPolicy::Budget);
        assert!(part.contains("choose that"), "{part}");
    }
}
