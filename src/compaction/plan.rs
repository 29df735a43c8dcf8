//! Which segments to merge next: a pure function of what there is and what is wanted.
//!
//! Sources: Dayan and Idreos, "Dostoevsky: Better space-time trade-offs for LSM-tree based
//! key-value stores via adaptive removal of superfluous merging" (2018), for tiering and lazy
//! leveling; the level targets that follow the size of the last level are those of RocksDB's
//! dynamic level sizes, which bound the space of obsolete entries by 1 / (ratio - 1), or by the
//! base for each level above the last while that is more.
//!
//! Invariants that every plan keeps:
//! 1. What is merged down is older than all that stays above it, and newer than all below.
//! 2. The inputs of one level that overlap in key range are merged together or not at all.
//! 3. What is merged within a level takes the place of an input there: a run of its own would be
//!    newer than what another merge brings to the level meanwhile.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::manifest::LEVEL_MAX;
use crate::options::{Strategy, TreeShape};

/// A segment, as far as planning looks at it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct SegmentFacts {
    pub(crate) id: u64,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) first_key: Vec<u8>,
    pub(crate) last_key: Vec<u8>,
    /// Time since its newest entry was written, as far as it is known.
    pub(crate) age: Option<Duration>,
    /// An unfinished compaction has it as input.
    pub(crate) busy: bool,
}

/// A run, newest first as in the version.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RunFacts {
    pub(crate) level: u32,
    pub(crate) number: u64,
    pub(crate) segments: Vec<SegmentFacts>,
    /// Bytes of entries that newer runs hide, by estimate; 0 where it was not worth one.
    pub(crate) hidden_bytes: u64,
}

/// Where the output of a plan goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// A run of its own, newer than all of its level.
    NewRun,
    /// Into this run, whose overlapping segments are among the inputs; in its place if all are.
    Join(u64),
}

/// What to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    /// Merge these segments into this level.
    Merge {
        inputs: Vec<u64>,
        level: u32,
        target: Target,
    },
    /// Give these segments another level; nothing is rewritten.
    Move {
        segments: Vec<u64>,
        level: u32,
        target: Target,
    },
    /// Give all segments below level 0, which are these, the level below their own.
    Deepen { segments: Vec<u64> },
    /// Remove these segments and what is in them.
    Drop { segments: Vec<u64> },
}

impl RunFacts {
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Time since the newest entry was written; `None` when that is unknown of a part.
    fn age(&self) -> Option<Duration> {
        let ages = self.segments.iter().map(|segment| segment.age);
        ages.min().flatten()
    }

    fn is_busy(&self) -> bool {
        self.segments.iter().any(|segment| segment.busy)
    }

    /// The segments that overlap a range of keys; they are neighbours.
    fn overlapping(&self, (first, last): (&[u8], &[u8])) -> &[SegmentFacts] {
        let start = self.segments.partition_point(|one| *one.last_key < *first);
        let rest = &self.segments[start..];
        &rest[..rest.partition_point(|one| *one.first_key <= *last)]
    }
}

/// What should be done next with these runs, newest first; `None` when the tree is in shape.
pub(crate) fn plan(runs: &[RunFacts], shape: &TreeShape) -> Option<Plan> {
    match shape.strategy {
        Strategy::Leveled => leveled(runs, shape),
        Strategy::Tiered => tiered(runs, shape, false),
        Strategy::LazyLeveled => tiered(runs, shape, true),
        Strategy::Fifo { bytes, age } => fifo(runs, bytes, age),
    }
}

/// How far the tree is out of shape: bytes that must be merged until it is in shape again,
/// counted once for the level they leave.
///
/// Tiered, only flushed runs count: those of another level add up while it is merged, no faster
/// than the level above is, and one of them may be larger than all that a writer should wait for.
pub(crate) fn debt_bytes(runs: &[RunFacts], shape: &TreeShape) -> u64 {
    match shape.strategy {
        Strategy::Fifo { .. } => 0,
        Strategy::Tiered | Strategy::LazyLeveled => {
            let flushed: Vec<u64> = of_level(runs, 0).map(RunFacts::bytes).collect();
            let too_many = flushed.len().saturating_sub(shape.ratio as usize);
            flushed.iter().take(too_many).sum()
        }
        Strategy::Leveled => {
            let flushed: u64 = of_level(runs, 0).map(RunFacts::bytes).sum();
            let waiting = flushed_score(runs, shape) > 1.0;
            let targets = level_targets(runs, shape);
            let above = (1..).zip(&targets).map(|(level, target)| {
                of_level(runs, level)
                    .map(RunFacts::bytes)
                    .sum::<u64>()
                    .saturating_sub(*target)
            });
            above.sum::<u64>() + if waiting { flushed } else { 0 }
        }
    }
}

/// Time until there is something to do, when nothing else happens meanwhile: until the oldest run
/// has come of age. `None` when there never will be.
pub(crate) fn due_in(runs: &[RunFacts], shape: &TreeShape) -> Option<Duration> {
    match shape.strategy {
        Strategy::Fifo {
            age: Some(most), ..
        } => {
            let age = runs.last()?.age();
            Some(age.map_or(Duration::MAX, |age| most.saturating_sub(age)))
        }
        _ => None,
    }
}

fn of_level(runs: &[RunFacts], level: u32) -> impl Iterator<Item = &RunFacts> {
    runs.iter().filter(move |run| run.level == level)
}

fn last_level(runs: &[RunFacts]) -> u32 {
    runs.iter().map(|run| run.level).max().unwrap_or(0)
}

fn key_range<'a>(
    segments: impl Iterator<Item = &'a SegmentFacts> + Clone,
) -> Option<(&'a [u8], &'a [u8])> {
    let first = segments.clone().map(|segment| &*segment.first_key).min()?;
    let last = segments.map(|segment| &*segment.last_key).max()?;
    Some((first, last))
}

/// Target bytes of levels 1, 2, ...: the last level is as large as it is, each level above is
/// smaller by the ratio, and none is below the base: what is merged into level 1 at a time would
/// be more than the level, and would only be written once more on its way to the next.
fn level_targets(runs: &[RunFacts], shape: &TreeShape) -> Vec<u64> {
    let levels = last_level(runs).max(1);
    let size = |level| of_level(runs, level).map(RunFacts::bytes).sum::<u64>();
    let ratio = u64::from(shape.ratio);
    // The last level may grow to this; then a new last level begins.
    let mut limit = shape.base_bytes;
    for _ in 1..levels {
        limit = limit.saturating_mul(ratio);
    }
    let mut targets = vec![limit];
    let mut target = size(levels).max(shape.base_bytes);
    for _ in 1..levels {
        target = (target / ratio).max(shape.base_bytes);
        targets.push(target);
    }
    targets.reverse();
    targets
}

fn leveled(runs: &[RunFacts], shape: &TreeShape) -> Option<Plan> {
    if (1..=last_level(runs)).any(|level| of_level(runs, level).nth(1).is_some()) {
        return runs_where_one_belongs(runs);
    }
    let targets = level_targets(runs, shape);
    let size = |level| of_level(runs, level).map(RunFacts::bytes).sum::<u64>();
    if targets
        .last()
        .is_some_and(|limit| size(last_level(runs).max(1)) > *limit)
    {
        return deepen(runs);
    }
    // The level that is most out of shape comes first; level 0 counts runs.
    let mut worst = (flushed_score(runs, shape), 0);
    if worst.0 >= 1.0 && would_overfill(runs, shape) {
        return deepen(runs);
    }
    for (level, target) in (1..).zip(&targets) {
        let score = size(level) as f64 / (*target).max(1) as f64;
        if score > worst.0 && score > 1.0 {
            worst = (score, level);
        }
    }
    let (score, level) = worst;
    let plan = if level == 0 && score >= 1.0 {
        let (flushed, rewritten) = flushed_bytes(runs);
        // What must leave level 1 because of what comes leaves it before, or the merge would write
        // it once more. However many runs wait.
        let is_crowded = last_level(runs) > 1 && rewritten > 0 && flushed + rewritten > targets[0];
        let room = is_crowded.then(|| make_room(runs, shape));
        room.unwrap_or_else(|| level0_down(runs, shape))
    } else {
        None
    };
    plan.or_else(|| {
        let too_large = |level: &u32| size(*level) > targets[*level as usize - 1];
        let mut levels = (1..last_level(runs)).rev().filter(too_large);
        levels.find_map(|level| one_down(runs, level))
    })
    .or_else(|| sparse(runs))
}

/// Makes room in level 1 for the flushed runs. Where level 2 is not much more than all that, both are
/// merged into it at once: for each byte that comes there as much less of it is written anew, and what was
/// flushed need not be written to level 1 before. Further down that would not pay: what comes to a level is
/// the more the larger the one above has grown.
fn make_room(runs: &[RunFacts], shape: &TreeShape) -> Option<Plan> {
    match one_down(runs, 1) {
        // Costs nothing.
        free @ Some(Plan::Move { .. }) => free,
        one if shape.merge_levels_whole => {
            let whole = alike(runs, &(2..=2), ROOM_RATIO);
            whole.map(|(plan, _)| plan).or(one)
        }
        one => one,
    }
}

/// How many times as many flushed runs may be there as the options say, while they are less than
/// what they would be merged with: the larger they are together, the less is written anew for each.
const PATIENCE: f64 = 2.0;

/// How far level 0 is out of shape: its runs to those that may be there; 0 while they may wait.
fn flushed_score(runs: &[RunFacts], shape: &TreeShape) -> f64 {
    if flushed_may_wait(runs, shape) {
        0.0
    } else {
        flushed_to_level0_runs(runs, shape)
    }
}

/// Flushed runs, to those that may be there.
fn flushed_to_level0_runs(runs: &[RunFacts], shape: &TreeShape) -> f64 {
    of_level(runs, 0).count() as f64 / f64::from(shape.level0_runs)
}

/// Whether flushed runs need not go down yet, as [`PATIENCE`] says.
fn flushed_may_wait(runs: &[RunFacts], shape: &TreeShape) -> bool {
    // While there is one level, its merges are all there is to do, and reads matter more.
    if last_level(runs) <= 1 || flushed_to_level0_runs(runs, shape) >= PATIENCE {
        return false;
    }
    let (flushed, rewritten) = flushed_bytes(runs);
    flushed < rewritten
}

/// Bytes of all flushed runs, and of what they overlap in level 1.
fn flushed_bytes(runs: &[RunFacts]) -> (u64, u64) {
    let flushed: Vec<&SegmentFacts> = of_level(runs, 0).flat_map(|run| &run.segments).collect();
    let range = key_range(flushed.iter().copied());
    let below = of_level(runs, 1).next().zip(range);
    let overlapping = below.map_or(&[][..], |(run, range)| run.overlapping(range));
    let bytes = flushed.iter().map(|one| one.bytes).sum();
    (bytes, overlapping.iter().map(|one| one.bytes).sum())
}

/// What to merge while the tree is idle, so that reads have fewer runs to ask: what is [`alike`],
/// with its bytes.
///
/// Level sizes would ask for it anyway, but levels below the base and flushed runs need not follow
/// them while writers are at work. It costs at most what levels of this ratio cost too. As the ratio
/// bounds the levels above the last as well, except for the base, no store of much more than
/// [`IDLE_RATIO_MAX`] times the base is ever merged whole.
pub(crate) fn while_idle(runs: &[RunFacts], shape: &TreeShape) -> Option<(Plan, u64)> {
    if shape.strategy != Strategy::Leveled || !shape.merge_when_idle {
        return None;
    }
    // Below the ratio of levels: all newer runs together are a little more than the level above.
    let ratio = u64::from(shape.ratio) * 4 / 5;
    let ratio = ratio.clamp(IDLE_RATIO_MIN, IDLE_RATIO_MAX);
    alike(runs, &(0..=LEVEL_MAX), ratio)
}

/// See [`while_idle`]. Where levels are closer than the least, what is merged costs up to five bytes
/// for each newer one all the same.
const IDLE_RATIO_MIN: u64 = 4;
const IDLE_RATIO_MAX: u64 = 8;

/// Merges the newest runs, down to the last one that is at most `ratio` times as much as all
/// newer ones: so many bytes and one are written at most for each byte of these. With the bytes of all.
/// `None` when no run of such a level is.
fn alike(runs: &[RunFacts], levels: &RangeInclusive<u32>, ratio: u64) -> Option<(Plan, u64)> {
    let (newest, older) = runs.split_first()?;
    let mut inputs: Vec<&SegmentFacts> = newest.segments.iter().collect();
    let mut chosen = None;
    for run in older {
        let overlapping = run.overlapping(key_range(inputs.iter().copied())?);
        // Flushed runs are merged whole: their order is one of runs.
        let joins = if run.level == 0 {
            &run.segments
        } else {
            overlapping
        };
        let bytes = |all: &[&SegmentFacts]| all.iter().map(|one| one.bytes).sum::<u64>();
        let newer = bytes(&inputs);
        inputs.extend(joins);
        let more = bytes(&inputs) - newer;
        let is_alike = !overlapping.is_empty() && more <= newer.saturating_mul(ratio);
        if is_alike && levels.contains(&run.level) {
            chosen = Some((run, inputs.len()));
        }
    }
    let (last, count) = chosen?;
    inputs.truncate(count);
    if inputs.iter().any(|segment| segment.busy) {
        return None;
    }
    // Of flushed runs the newest gives its place: what is flushed meanwhile is newer.
    let place = if last.level == 0 { newest } else { last };
    let bytes = inputs.iter().map(|one| one.bytes).sum();
    let plan = Plan::Merge {
        inputs: ids(inputs.into_iter()),
        level: last.level,
        target: Target::Join(place.number),
    };
    Some((plan, bytes))
}

/// See [`make_room`].
const ROOM_RATIO: u64 = 4;

/// Whether the only level would have to move down right after the flushed runs were merged into it:
/// moved before, it is not written once more for that.
fn would_overfill(runs: &[RunFacts], shape: &TreeShape) -> bool {
    let left = |run: &RunFacts| run.bytes().saturating_sub(run.hidden_bytes);
    last_level(runs) == 1 && runs.iter().map(left).sum::<u64>() > shape.base_bytes
}

/// All levels move down by one, and nothing is rewritten. Were the last level moved segment by
/// segment, the new one would be small at first, and so would be all targets that follow from its
/// size: the whole tree would be merged into it. Whatever is under way below level 0 must end
/// first.
fn deepen(runs: &[RunFacts]) -> Option<Plan> {
    let below = || runs.iter().filter(|run| run.level > 0);
    (!below().any(RunFacts::is_busy)).then(|| Plan::Deepen {
        segments: ids(below().flat_map(|run| &run.segments)),
    })
}

/// After a change of strategy a level below the first may have several runs: merge them, and
/// nothing else before, because the newer of them must not pass the older on the way down.
fn runs_where_one_belongs(runs: &[RunFacts]) -> Option<Plan> {
    (1..=last_level(runs)).rev().find_map(|level| {
        let all: Vec<&RunFacts> = of_level(runs, level).collect();
        (all.len() > 1 && !all.iter().any(|run| run.is_busy())).then(|| Plan::Merge {
            inputs: ids(all.iter().flat_map(|run| &run.segments)),
            level,
            target: Target::Join(all[0].number),
        })
    })
}

fn ids<'a>(segments: impl Iterator<Item = &'a SegmentFacts>) -> Vec<u64> {
    segments.map(|segment| segment.id).collect()
}

/// Flushed segments that are smaller than this part of an even share of the base are merged with each
/// other where they could move: the tree would be full of them.
const SMALL: u64 = 4;

/// All runs of level 0, with what they overlap in level 1.
fn level0_down(runs: &[RunFacts], shape: &TreeShape) -> Option<Plan> {
    let upper: Vec<&SegmentFacts> = of_level(runs, 0).flat_map(|run| &run.segments).collect();
    let range = key_range(upper.iter().copied())?;
    let plan = down(&upper, of_level(runs, 1).next(), range, 1)?;
    let small = shape.base_bytes / (u64::from(shape.level0_runs) * SMALL);
    let has_small = upper.len() > 1 && upper.iter().any(|segment| segment.bytes < small);
    match plan {
        Plan::Move {
            segments: inputs,
            level,
            target,
        } if has_small => Some(Plan::Merge {
            inputs,
            level,
            target,
        }),
        plan => Some(plan),
    }
}

/// Merges or moves segments of one level to the next.
fn down(
    upper: &[&SegmentFacts],
    below: Option<&RunFacts>,
    range: (&[u8], &[u8]),
    level: u32,
) -> Option<Plan> {
    let lower = below.map_or(&[][..], |run| run.overlapping(range));
    if upper
        .iter()
        .copied()
        .chain(lower)
        .any(|segment| segment.busy)
    {
        return None;
    }
    let target = below.map_or(Target::NewRun, |run| Target::Join(run.number));
    let segments = ids(upper.iter().copied());
    let mut sorted = upper.to_vec();
    sorted.sort_by_key(|segment| &segment.first_key);
    let disjoint = sorted
        .windows(2)
        .all(|pair| pair[0].last_key < pair[1].first_key);
    if lower.is_empty() && disjoint {
        return Some(Plan::Move {
            segments,
            level,
            target,
        });
    }
    let inputs = segments.into_iter().chain(ids(lower.iter())).collect();
    Some(Plan::Merge {
        inputs,
        level,
        target,
    })
}

/// The segment of a level whose merge rewrites least of the next level for what it moves.
fn one_down(runs: &[RunFacts], level: u32) -> Option<Plan> {
    let run = of_level(runs, level).next()?;
    let below = of_level(runs, level + 1).next();
    if below.is_none() && run.is_busy() {
        // What is under way begins the run of that level.
        return None;
    }
    let cost = |segment: &SegmentFacts| {
        let range = (&*segment.first_key, &*segment.last_key);
        let overlapping = below.map_or(&[][..], |run| run.overlapping(range));
        let below: u64 = overlapping.iter().map(|one| one.bytes).sum();
        // Tombstones are worth moving down: they take what they hide with them.
        let worth = segment.bytes + segment.bytes * segment.tombstones / segment.entries.max(1);
        below as f64 / worth.max(1) as f64
    };
    let free = run.segments.iter().filter(|segment| {
        let range = (&*segment.first_key, &*segment.last_key);
        let blocked = below.is_some_and(|run| run.overlapping(range).iter().any(|one| one.busy));
        !segment.busy && !blocked
    });
    let costs = free.map(|segment| (cost(segment), segment));
    let (_, chosen) = costs.min_by(|a, b| a.0.total_cmp(&b.0))?;
    down(
        &[chosen],
        below,
        (&chosen.first_key, &chosen.last_key),
        level + 1,
    )
}

/// Part of a segment's entries that must be tombstones for it to be merged for their sake: more than
/// what is left where as much is put as is deleted.
const SPARSE: (u64, u64) = (2, 3);

/// A segment that is mostly tombstones is merged down although its level is in shape: reads that
/// pass over it cost as much as its entries are many.
fn sparse(runs: &[RunFacts]) -> Option<Plan> {
    let last = last_level(runs);
    (1..last).find_map(|level| {
        let run = of_level(runs, level).next()?;
        let mostly = |segment: &&SegmentFacts| {
            !segment.busy && segment.tombstones * SPARSE.1 > segment.entries * SPARSE.0
        };
        let segment = run.segments.iter().find(mostly)?;
        let range = (&*segment.first_key, &*segment.last_key);
        down(
            &[segment],
            of_level(runs, level + 1).next(),
            range,
            level + 1,
        )
    })
}

/// Level by level, from the top: as many runs as the ratio become one run of the next level;
/// lazily leveled, the last level has one run, into which all that arrives is merged.
fn tiered(runs: &[RunFacts], shape: &TreeShape, lazy: bool) -> Option<Plan> {
    let last = last_level(runs);
    let capacity = |level: u32| {
        let ratio = u64::from(shape.ratio);
        (0..level).fold(shape.base_bytes, |bytes, _| bytes.saturating_mul(ratio))
    };
    for level in 0..=last {
        let all: Vec<&RunFacts> = of_level(runs, level).collect();
        let is_last = level == last;
        let most = if lazy && is_last && level > 0 {
            2
        } else {
            shape.ratio as usize
        };
        // Where merges fell behind, more than a level's runs were merged into one that is larger:
        // overwritten versions would take room for several levels.
        let is_overfull = || {
            let bytes: u64 = all.iter().map(|run| run.bytes()).sum();
            level > 0 && all.len() > 1 && bytes > capacity(level + 1)
        };
        let is_full = all.len() >= most || is_overfull();
        if !is_full || all.iter().any(|run| run.is_busy()) {
            continue;
        }
        // What arrives may be overwritten versions of what is there: only the run itself tells.
        let bytes = all.last().map_or(0, |run| run.bytes());
        let inputs = ids(all.iter().flat_map(|run| &run.segments));
        // The one run of the last level stays there until it has outgrown it.
        let stays = lazy && is_last && level > 0 && bytes <= capacity(level) || level == LEVEL_MAX;
        let (level, target) = if stays {
            (level, Target::Join(all[0].number))
        } else {
            (level + 1, Target::NewRun)
        };
        return Some(Plan::Merge {
            inputs,
            level,
            target,
        });
    }
    None
}

/// Removes the oldest runs while all together are larger than allowed, or the oldest has come of
/// age. Never one before all that is older: what it has overwritten or deleted would come back.
fn fifo(runs: &[RunFacts], limit: u64, age: Option<Duration>) -> Option<Plan> {
    let mut total: u64 = runs.iter().map(RunFacts::bytes).sum();
    let is_aged = |run: &RunFacts| age.zip(run.age()).is_some_and(|(most, age)| age >= most);
    let mut segments = Vec::new();
    for run in runs.iter().rev() {
        if (total <= limit && !is_aged(run)) || run.is_busy() {
            break;
        }
        total -= run.bytes();
        segments.extend(ids(run.segments.iter()));
    }
    (!segments.is_empty()).then_some(Plan::Drop { segments })
}

#[cfg(test)]
mod tests;
