//! What a segment says about itself from memory.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::format::manifest::Traffic;
use crate::slice::Slice;
use crate::storage::ReadCounts;

use super::body::Body;
use super::filter::{FilterState, SegmentFilter};
use super::range_filter::RangeState;
use super::reader::Segment;

/// One segment.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// for number in 0..100 {
///     db.put(format!("{number:02}"), "row")?;
/// }
/// db.flush()?;
/// db.get("50x")?;
/// let stats = db.stats();
/// let segment = stats.segments().next().unwrap();
/// assert_eq!((segment.keys, segment.tombstones), (100, 0));
/// assert_eq!(segment.first_key, "00");
/// // The filter was asked once, and said no.
/// let filter = segment.filter.as_ref().unwrap();
/// assert_eq!((filter.probes, filter.negatives), (1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SegmentStats {
    /// Its number.
    pub id: u64,
    /// Number of the file that holds it, as in `NNNNNN.seg`: its own, or that of the first of several
    /// segments that were written to one file.
    pub file: u64,
    /// Its length in bytes.
    pub file_bytes: u64,
    /// Entries: values and tombstones, every version counted.
    pub entries: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Tombstones among the entries.
    pub tombstones: u64,
    /// When its newest entry was written, or later; `None` when that is unknown.
    pub written_at: Option<SystemTime>,
    /// First key.
    pub first_key: Slice,
    /// Last key.
    pub last_key: Slice,
    /// Data blocks.
    pub blocks: u64,
    /// Bytes of the data blocks on disk.
    pub data_bytes: u64,
    /// Bytes of the index in memory, with what is known of groups that can be read by themselves.
    pub index_bytes: u64,
    /// The filter; `None` where the segment has none.
    pub filter: Option<FilterStats>,
    /// The range filter; `None` where the segment was written without one.
    pub range_filter: Option<RangeFilterStats>,
    /// Bytes of the keys and values of all entries, before compression.
    pub raw_bytes: u64,
    /// Lookups of the store that went on to the segments, in all sessions while this one was
    /// live, whether or not they came to it.
    pub lookups: u64,
    /// Data blocks that point lookups read here in all sessions because they were not in the
    /// cache; counted as those of [`FilterStats`] are.
    pub block_reads: u64,
    /// Bytes of these blocks on disk, or of the groups that were read in place of them.
    pub block_bytes: u64,
    /// Reads of this file since `open`, by cause.
    pub reads: ReadCounts,
    /// Why the segment cannot be read, if it cannot; lookups in its key range are errors.
    pub damage: Option<String>,
}

/// The filter of one segment. Its counters go on from session to session: they are written when
/// the tree changes and at close, so what was counted since then is lost with a kill. A segment
/// that comes of a merge starts at zero, and so does a filter that was rebuilt.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FilterStats {
    /// `bloom`, `bloomier` or `custom`.
    pub kind: &'static str,
    /// Name and parameters of a custom filter.
    pub custom: Option<String>,
    /// Payload bits for each key, fractions included.
    pub r_bits: f64,
    /// Probability, by calculation, that an absent key within the segment's range costs a read
    /// of a data block.
    pub designed_rate: f64,
    /// Bytes of the filter region on disk.
    pub disk_bytes: u64,
    /// Bytes in memory when the whole filter is resident: what `Pinned` costs.
    pub pinned_bytes: u64,
    /// Bytes of it that are in memory at any rate (parameters, bump thresholds).
    pub resident_bytes: u64,
    /// Time to build it; `None` when it was built before this `open`.
    pub build_time: Option<Duration>,
    /// Lookups that asked the filter.
    pub probes: u64,
    /// Of these, answered "absent" without a read of a data block.
    pub negatives: u64,
    /// Of these, the key was there.
    pub true_positives: u64,
    /// Of these, a data block was read in vain.
    pub false_positives: u64,
    /// What is wrong with the filter, if anything: lookups go without it, or without its damaged
    /// pages.
    pub damage: Option<String>,
}

/// The range filter of one segment. Counters begin at zero with each `open`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RangeFilterStats {
    /// The part of the gaps between keys of the segment that it refutes, 0 to 1, found with a sample
    /// when it was built. Under one half, the segment has no range filter, and all else is zero.
    pub refutes: f64,
    /// Bits for each key, on disk.
    pub bits_per_key: f64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Bytes in memory when the whole filter is resident: what `Pinned` costs.
    pub pinned_bytes: u64,
    /// Bytes of it that are in memory at any rate.
    pub resident_bytes: u64,
    /// Questions of scans that the key range of the segment did not answer.
    pub asked: u64,
    /// What is wrong with the filter, if anything: scans go without it, or without its damaged pages.
    pub damage: Option<String>,
}

impl FilterStats {
    /// False positives as a part of all probes for absent keys, or `None` before the first one.
    pub fn measured_rate(&self) -> Option<f64> {
        let absent = self.negatives.saturating_add(self.false_positives);
        (absent > 0).then(|| self.false_positives as f64 / absent as f64)
    }
}

impl Segment {
    /// Numbers that are in memory, beside what the caller has counted: reads of the file, and
    /// lookups of this session in all runs. Nothing is read.
    pub(crate) fn stats(&self, reads: ReadCounts, lookups: u64) -> SegmentStats {
        let meta = &self.meta;
        let mut stats = SegmentStats {
            id: meta.id,
            file: meta.file,
            file_bytes: meta.len,
            written_at: (meta.written_ms > 0)
                .then(|| UNIX_EPOCH.checked_add(Duration::from_millis(meta.written_ms)))
                .flatten(),
            first_key: Slice::from(&*meta.first_key),
            last_key: Slice::from(&*meta.last_key),
            reads,
            ..SegmentStats::default()
        };
        match self.body() {
            Err(damage) => stats.damage = Some(damage.to_string()),
            Ok(body) => {
                stats.entries = body.properties.entries;
                stats.keys = body.properties.keys;
                stats.tombstones = body.properties.tombstones;
                stats.blocks = u64::from(body.fences.block_count());
                stats.data_bytes = body.footer.data_end;
                stats.index_bytes = body.fences.memory_bytes() + body.groups.memory_bytes();
                stats.raw_bytes = body.properties.raw_bytes;
                let traffic = body.counters.load(lookups);
                stats.lookups = traffic.lookups;
                stats.block_reads = traffic.block_reads;
                stats.block_bytes = traffic.block_bytes;
                stats.filter = filter_stats(body, self.filter_build_time);
                stats.range_filter = range_filter_stats(&body.range);
            }
        }
        stats
    }
}

fn range_filter_stats(state: &RangeState) -> Option<RangeFilterStats> {
    let share = |percent: u8| f64::from(percent) / 100.0;
    match state {
        RangeState::None => None,
        RangeState::Declined { refutes } => Some(RangeFilterStats {
            refutes: share(*refutes),
            ..RangeFilterStats::default()
        }),
        RangeState::Damaged(damage) => Some(RangeFilterStats {
            damage: Some(damage.to_string()),
            ..RangeFilterStats::default()
        }),
        RangeState::Ready(filter) => {
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let (pinned_bytes, resident_bytes) = filter.memory_bytes();
            let damaged_pages = count(&filter.counts.damaged_pages);
            Some(RangeFilterStats {
                refutes: share(filter.refutes),
                bits_per_key: filter.bits_per_key(),
                disk_bytes: filter.disk_bytes,
                pinned_bytes,
                resident_bytes,
                asked: count(&filter.counts.asked),
                damage: damage_met(damaged_pages, 0),
            })
        }
    }
}

fn filter_stats(body: &Body, build_time: Option<Duration>) -> Option<FilterStats> {
    let footer = &body.footer;
    let pages = footer.range_start - footer.filter_start;
    let disk_bytes = pages + footer.range_header - footer.filter_header;
    match &body.filter {
        FilterState::None => None,
        FilterState::Damaged(damage) => Some(FilterStats {
            kind: "unreadable",
            disk_bytes,
            damage: Some(damage.to_string()),
            ..FilterStats::default()
        }),
        FilterState::Ready(filter) => Some(FilterStats {
            disk_bytes: filter.disk_bytes,
            build_time,
            ..ready_stats(filter, &body.counters.load(0))
        }),
    }
}

fn ready_stats(filter: &SegmentFilter, traffic: &Traffic) -> FilterStats {
    let damaged_pages = filter.damaged_pages.load(Ordering::Relaxed);
    FilterStats {
        kind: filter.filter.kind().name(),
        r_bits: filter.filter.r_bits(),
        designed_rate: filter.filter.designed_rate(),
        pinned_bytes: filter.pinned_bytes(),
        resident_bytes: filter.filter.resident_bytes() as u64,
        probes: traffic.probes,
        negatives: traffic.negatives,
        true_positives: traffic.true_positives,
        false_positives: traffic.false_positives,
        custom: filter.filter.custom_name(),
        damage: damage_met(damaged_pages, filter.filter.panics()),
        ..FilterStats::default()
    }
}

fn damage_met(damaged_pages: u64, panics: u64) -> Option<String> {
    match (damaged_pages, panics) {
        (0, 0) => None,
        (0, _) => Some(format!("the custom filter panicked in {panics} lookups")),
        _ => Some(format!("{damaged_pages} lookups met a damaged filter page")),
    }
}

impl fmt::Display for SegmentStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:06}.seg {} keys, {} entries, {} bytes, {} blocks, {:?} to {:?}",
            self.id,
            self.keys,
            self.entries,
            self.file_bytes,
            self.blocks,
            Shortened(&self.first_key),
            Shortened(&self.last_key)
        )?;
        if let Some(damage) = &self.damage {
            return write!(f, ", DAMAGED: {damage}");
        }
        self.fmt_filter(f)?;
        match &self.range_filter {
            None => Ok(()),
            Some(RangeFilterStats {
                damage: Some(damage),
                ..
            }) => write!(f, ", range filter DAMAGED: {damage}"),
            Some(range) if range.disk_bytes == 0 => write!(
                f,
                ", no range filter: it would refute {:.0} % of the gaps",
                range.refutes * 100.0
            ),
            Some(range) => write!(
                f,
                ", range filter {:.2} bits, asked {} times",
                range.bits_per_key, range.asked
            ),
        }
    }
}

impl SegmentStats {
    fn fmt_filter(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.filter {
            None => write!(f, ", no filter"),
            Some(FilterStats {
                kind,
                damage: Some(damage),
                ..
            }) => {
                write!(f, ", {kind} filter DAMAGED: {damage}")
            }
            Some(filter) => {
                write!(
                    f,
                    ", {} {:.2} bits, false positives designed {:.6}",
                    filter.kind, filter.r_bits, filter.designed_rate
                )?;
                if let Some(rate) = filter.measured_rate() {
                    write!(f, " measured {rate:.6}")?;
                }
                Ok(())
            }
        }
    }
}

/// A key for a line of text: escaped, and cut when it is long.
struct Shortened<'a>(&'a [u8]);

impl fmt::Debug for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 48;
        match self.0.get(..SHOWN) {
            Some(start) if self.0.len() > SHOWN => {
                write!(
                    f,
                    "\"{}\"... ({} bytes)",
                    start.escape_ascii(),
                    self.0.len()
                )
            }
            _ => write!(f, "\"{}\"", self.0.escape_ascii()),
        }
    }
}
