//! Every state that a disk may legally hold after a crash, up to a stated bound.
//!
//! The rules are those of POSIX with the habits of Linux file systems. What was synced is there.
//! Of what was appended since, any sectors of 512 bytes may be there, the rest reads as zeros or
//! is missing from the end. Changes of names since the directory was synced have each happened
//! or not; a rename is atomic. Pillai et al., "All file systems are not created equal" (2014),
//! found all of these on disks that people use.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::directory::{Clock, Directory, Names};
use super::file::{Data, File};
use super::moment::{Contents, Extent, Moment};
use crate::storage::RESERVE_MIN;

/// How many of the legal states are made; with all numbers high enough it is all of them.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// States of one file. Beyond, an even choice that always has the shortest and the whole.
    pub of_file: usize,
    /// As many changes of names are tried in every combination; of more, those that leave out
    /// the last, any one, or all but one.
    pub names_in_any_combination: usize,
    /// States for each moment and each state of the names. Beyond, each file's states with all
    /// other files shortest, and with all whole, and then an even choice of the others.
    pub of_names: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            of_file: 24,
            names_in_any_combination: 4,
            of_names: 64,
        }
    }
}

/// What a crash leaves: an image that is made when it is asked for.
#[derive(Clone, Debug)]
pub struct CrashState {
    scene: Arc<Scene>,
    /// Which of its remains each file of the scene has.
    picks: Vec<usize>,
    fingerprint: u64,
}

/// What those states of a moment have in common that have the same names. There are many of them,
/// most of them the same as states of the moment before: what tells that must cost little.
#[derive(Debug)]
struct Scene {
    contents: Arc<Contents>,
    is_power_loss: bool,
    exists: bool,
    boot_id: u128,
    clock: Clock,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Files that have a name, each with all that may be left of it.
    files: Vec<(usize, Choice)>,
    fingerprint: u64,
    /// Files in the order of the names that they have.
    named: Vec<usize>,
}

/// All that may be left of a file.
pub(super) type Choice = Arc<[Remains]>;

/// What is left of a file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Remains {
    len: usize,
    durable_len: usize,
    /// Read as zeros.
    zeros: Vec<Range0>,
    /// Zeros behind `len`.
    reserve: usize,
    /// Can be read until power is lost.
    lost: Vec<Range0>,
    /// Of what is read, and of how it is kept. The same remains are part of many states: it is
    /// made once.
    fingerprint: u64,
}

/// A range that can be ordered.
type Range0 = (usize, usize);

const SECTOR: usize = 512;

/// What a copy to a map stores at a time, at least.
const WORD: usize = 8;

impl Scene {
    /// Names that the system has only while it runs are gone with power.
    fn with_fingerprint(self) -> Scene {
        let mut hasher = Xxh3Default::new();
        (self.is_power_loss, self.exists, self.boot_id).hash(&mut hasher);
        let mut named = Vec::new();
        for names in [&self.names, &self.durable_names] {
            names.len().hash(&mut hasher);
            for (name, id) in names {
                let place = self.files.iter().position(|(file, _)| file == id);
                (name, place.is_some()).hash(&mut hasher);
                named.extend(place);
            }
            if self.is_power_loss {
                break;
            }
        }
        Scene {
            fingerprint: hasher.finish(),
            named,
            ..self
        }
    }
}

impl CrashState {
    fn new(scene: &Arc<Scene>, picks: Vec<usize>) -> CrashState {
        let mut fingerprint = scene.fingerprint;
        for place in &scene.named {
            let remains = &scene.files[*place].1[picks[*place]];
            let both = u128::from(fingerprint) << 64 | u128::from(remains.fingerprint);
            fingerprint = xxh3_64(&both.to_le_bytes());
        }
        CrashState {
            scene: Arc::clone(scene),
            picks,
            fingerprint,
        }
    }

    fn files(&self) -> impl Iterator<Item = (usize, &Remains)> {
        let files = self.scene.files.iter().zip(&self.picks);
        files.map(|((id, all), pick)| (*id, &all[*pick]))
    }

    /// Whether power was lost, and not just the process killed.
    #[must_use]
    pub fn is_power_loss(&self) -> bool {
        self.scene.is_power_loss
    }

    /// Equal for states that are the same on the disk, and to the system if it still runs.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The disk as the next process finds it.
    pub(super) fn disk(&self) -> Directory {
        let scene = &*self.scene;
        let file = |(id, remains): (usize, &Remains)| {
            let bytes = remains.bytes(bytes_of(&scene.contents, id)).into_owned();
            let lost = remains.lost.iter().map(|(start, end)| *start..*end);
            let data = Data {
                durable_len: remains.durable_len,
                bytes,
                lost: lost.collect(),
                is_reserved: false,
            };
            (id, Arc::new(File::new(id, data)))
        };
        let files: BTreeMap<usize, Arc<File>> = self.files().map(file).collect();
        let named = |names: &BTreeMap<String, usize>| -> Names {
            let known = |(name, id): (&String, &usize)| {
                let file = files.get(id)?;
                Some((name.clone(), Arc::clone(file)))
            };
            names.iter().filter_map(known).collect()
        };
        Directory {
            exists: scene.exists,
            names: named(&scene.names),
            durable_names: named(&scene.durable_names),
            boot_id: scene.boot_id,
            clock: scene.clock,
            files_made: files.keys().last().map_or(0, |last| last + 1),
        }
    }

    /// In words: which files are there and what is missing of them.
    #[must_use]
    pub fn describe(&self) -> String {
        let kind = if self.is_power_loss() {
            "power loss"
        } else {
            "kill"
        };
        let file = |(name, id): (&String, &usize)| {
            let whole = bytes_of(&self.scene.contents, *id).len();
            let Some((_, remains)) = self.files().find(|(file, _)| file == id) else {
                return name.clone();
            };
            format!(
                "{name} {} of {whole}, zeros {:?}, and {} behind",
                remains.len, remains.zeros, remains.reserve
            )
        };
        let files: Vec<String> = self.scene.names.iter().map(file).collect();
        format!("{kind}: {}", files.join("; "))
    }
}

/// All bytes that a file ever had.
fn bytes_of(contents: &Contents, id: usize) -> &[u8] {
    contents.get(&id).map_or(&[], |bytes| bytes)
}

/// What power loss may leave of a file that has this extent.
pub(super) fn choice(contents: &Contents, id: usize, extent: &Extent, bounds: &Bounds) -> Choice {
    let bytes = bytes_of(contents, id);
    let all = Remains::of_power_loss(extent, bounds).into_iter();
    all.map(|remains| remains.with_fingerprint(bytes)).collect()
}

/// Everything that was handed to the system, and parts of an append that was under way.
pub(super) fn after_kill(
    contents: &Arc<Contents>,
    moment: &Moment,
    next: Option<&Moment>,
    bounds: &Bounds,
) -> Vec<CrashState> {
    let grown = next.and_then(|next| {
        let mut all = next.extents.iter();
        all.find_map(|(id, after)| {
            let before = moment.extents.get(id)?;
            (after.len > before.len).then_some((*id, before.len..after.len))
        })
    });
    let remains = |id: usize, extent: &Extent| match &grown {
        Some((one, range)) if *one == id && extent.is_reserved => {
            let all = zeros_of_append(range.clone(), bounds).into_iter();
            all.map(|zeros| Remains::of_kill(extent, range.end, zeros))
                .collect()
        }
        Some((one, range)) if *one == id => {
            let all = kept_of_append(range.clone(), bounds).into_iter();
            all.map(|len| Remains::of_kill(extent, len, Vec::new()))
                .collect()
        }
        _ => vec![Remains::of_kill(extent, extent.len, Vec::new())],
    };
    let choice = |(id, extent): (&usize, &Extent)| -> (usize, Choice) {
        let bytes = bytes_of(contents, *id);
        let all = remains(*id, extent).into_iter();
        let all = all.map(|remains| remains.with_fingerprint(bytes));
        (*id, all.collect())
    };
    let ids: BTreeSet<&usize> = moment
        .names
        .values()
        .chain(moment.durable_names.values())
        .collect();
    let extents = moment.extents.iter().filter(|(id, _)| ids.contains(id));
    let scene = Scene {
        contents: Arc::clone(contents),
        is_power_loss: false,
        exists: moment.exists,
        boot_id: moment.boot_id,
        clock: moment.clock,
        names: moment.names.clone(),
        durable_names: moment.durable_names.clone(),
        files: extents.map(choice).collect(),
        fingerprint: 0,
        named: Vec::new(),
    };
    let scene = Arc::new(scene.with_fingerprint());
    // All but the one that grows have one choice.
    let counts: Vec<usize> = scene.files.iter().map(|(_, all)| all.len()).collect();
    let all = combinations(&counts, usize::MAX).into_iter();
    all.map(|picks| CrashState::new(&scene, picks)).collect()
}

/// How long a file may be while this range is appended; all of it before, first.
fn kept_of_append(range: Range<usize>, bounds: &Bounds) -> Vec<usize> {
    let Range { start, end } = range;
    let ends = [start + 1, start.midpoint(end), end - 1];
    let ends: BTreeSet<usize> = ends.into_iter().chain(sector_starts(start..end)).collect();
    let inside = ends.into_iter().filter(|at| (start + 1..end).contains(at));
    let inside = thinned(inside.collect(), bounds.of_file);
    std::iter::once(start).chain(inside).collect()
}

/// What may be missing of a range while it is appended to a file with a reserve: any words of the
/// copy, and the first byte. All of it, first.
fn zeros_of_append(range: Range<usize>, bounds: &Bounds) -> Vec<Vec<Range0>> {
    let Range { start, end } = range;
    let middle = start.midpoint(end).max(start + 1);
    let mut all: Vec<Vec<Range0>> = vec![
        vec![(start, end)],
        vec![(start, start + 1)],
        vec![(start, middle)],
        vec![(start, start + 1), (middle, end)],
        words_of(start..end, |nth| nth % 2 == 0),
        words_of(start..end, |nth| nth % 2 == 1),
    ];
    let mut others = Vec::new();
    for sector in sector_starts(start + 1..end) {
        others.push(vec![(start, sector)]);
        others.push(vec![(start, start + 1), (sector, end)]);
    }
    for seed in 0..bounds.of_file as u64 {
        let share = 1 + seed % 7;
        others.push(words_of(start..end, |nth| {
            xxh3_64(&[seed.to_le_bytes(), (nth as u64).to_le_bytes()].concat()) % 8 < share
        }));
    }
    let room = bounds.of_file.saturating_sub(all.len());
    all.extend(thinned(others, room));
    all.truncate(bounds.of_file.max(1));
    all
}

/// The first byte of a range, and those of its words that are chosen.
fn words_of(range: Range<usize>, is_chosen: impl Fn(usize) -> bool) -> Vec<Range0> {
    let Range { start, end } = range;
    let words = (start / WORD..end.div_ceil(WORD)).filter(|nth| is_chosen(*nth));
    let words = words.map(|nth| ((nth * WORD).max(start), ((nth + 1) * WORD).min(end)));
    std::iter::once((start, start + 1)).chain(words).collect()
}

/// What is on the disk, with what may be left of each file.
pub(super) fn after_power_loss(
    contents: &Arc<Contents>,
    moment: &Moment,
    files: &BTreeMap<usize, Choice>,
    bounds: &Bounds,
) -> Vec<CrashState> {
    let mut states = Vec::new();
    for names in names_left(moment, bounds) {
        let ids: BTreeSet<usize> = names.values().copied().collect();
        let chosen = ids
            .into_iter()
            .filter_map(|id| Some((id, Choice::clone(files.get(&id)?))));
        let scene = Scene {
            contents: Arc::clone(contents),
            is_power_loss: true,
            exists: true,
            boot_id: moment.boot_id + 1,
            clock: moment.clock,
            durable_names: names.clone(),
            names,
            files: chosen.collect(),
            fingerprint: 0,
            named: Vec::new(),
        };
        let scene = Arc::new(scene.with_fingerprint());
        let counts: Vec<usize> = scene.files.iter().map(|(_, all)| all.len()).collect();
        let all = combinations(&counts, bounds.of_names).into_iter();
        states.extend(all.map(|picks| CrashState::new(&scene, picks)));
    }
    states
}

/// The names that may be there, each set of them once.
fn names_left(moment: &Moment, bounds: &Bounds) -> BTreeSet<BTreeMap<String, usize>> {
    let count = moment.changes.len();
    let mut chosen: Vec<Vec<bool>> = Vec::new();
    if count <= bounds.names_in_any_combination {
        let bit = |set: usize| (0..count).map(|at| set >> at & 1 == 1).collect();
        chosen.extend((0..1 << count).map(bit));
    } else {
        chosen.extend((0..=count).map(|end| (0..count).map(|at| at < end).collect()));
        for one in 0..count {
            chosen.push((0..count).map(|at| at != one).collect());
            chosen.push((0..count).map(|at| at == one).collect());
        }
    }
    let applied = |chosen: Vec<bool>| {
        let mut names = moment.durable_names.clone();
        let happened = moment.changes.iter().zip(chosen);
        for (change, _) in happened.filter(|(_, is_chosen)| *is_chosen) {
            change.apply(&mut names);
        }
        names
    };
    chosen.into_iter().map(applied).collect()
}

impl Remains {
    /// What is read of a file that had these bytes.
    fn bytes<'a>(&self, all: &'a [u8]) -> Cow<'a, [u8]> {
        let mut bytes = Cow::Borrowed(&all[..self.len.min(all.len())]);
        for (start, end) in &self.zeros {
            bytes.to_mut()[*start..*end].fill(0);
        }
        if self.reserve > 0 {
            bytes.to_mut().resize(self.len + self.reserve, 0);
        }
        bytes
    }

    fn with_fingerprint(self, all: &[u8]) -> Remains {
        let mut hasher = Xxh3Default::new();
        hasher.update(&self.bytes(all));
        (self.len, self.durable_len, &self.lost).hash(&mut hasher);
        Remains {
            fingerprint: hasher.finish(),
            ..self
        }
    }

    /// The system still runs: all but `zeros` is there up to `len`.
    fn of_kill(extent: &Extent, len: usize, zeros: Vec<Range0>) -> Remains {
        let lost = extent.lost.iter().map(|range| (range.start, range.end));
        Remains {
            len,
            durable_len: extent.durable_len,
            zeros,
            reserve: if extent.is_reserved { RESERVE_MIN } else { 0 },
            lost: lost.collect(),
            fingerprint: 0,
        }
    }

    fn on_disk(len: usize, zeros: Vec<Range0>) -> Remains {
        Remains {
            len,
            durable_len: len,
            zeros,
            reserve: 0,
            lost: Vec::new(),
            fingerprint: 0,
        }
    }

    /// The shortest first, then the whole.
    fn of_power_loss(extent: &Extent, bounds: &Bounds) -> Vec<Remains> {
        let Extent {
            len,
            durable_len,
            appends,
            lost,
            is_reserved: _,
        } = extent;
        let lost: Vec<Range0> = lost.iter().map(|range| (range.start, range.end)).collect();
        let mut shortest = Remains::on_disk(*durable_len, lost.clone());
        while shortest
            .zeros
            .last()
            .is_some_and(|end| end.1 == shortest.len)
        {
            shortest.len = shortest.zeros.pop().map_or(0, |end| end.0);
            shortest.durable_len = shortest.len;
        }
        let with = |more: Range0| -> Vec<Range0> {
            lost.iter().copied().chain(std::iter::once(more)).collect()
        };
        let starts = || sector_starts(*durable_len..*len);
        let cuts = appends.iter().copied().chain(starts());
        let cuts: BTreeSet<usize> = cuts.filter(|cut| durable_len < cut && cut < len).collect();
        let mut others = BTreeSet::new();
        others.extend(cuts.iter().map(|cut| Remains::on_disk(*cut, lost.clone())));
        if durable_len < len {
            others.insert(Remains::on_disk(*durable_len, lost.clone()));
            others.insert(Remains::on_disk(*len, with((*durable_len, *len))));
            // A suffix, and a single sector, that was not written.
            for cut in &cuts {
                others.insert(Remains::on_disk(*len, with((*cut, *len))));
            }
            for start in std::iter::once(*durable_len).chain(starts()) {
                let end = (start / SECTOR + 1) * SECTOR;
                others.insert(Remains::on_disk(*len, with((start, end.min(*len)))));
            }
        }
        let mut all = vec![shortest];
        if !lost.is_empty() {
            others.insert(Remains::on_disk(*len, Vec::new()));
        }
        if durable_len < len || !lost.is_empty() {
            all.push(Remains::on_disk(*len, lost.clone()));
        }
        let others = others.into_iter().filter(|other| !all.contains(other));
        let others = thinned(others.collect(), bounds.of_file.saturating_sub(all.len()));
        all.into_iter().chain(others).collect()
    }
}

fn sector_starts(range: Range<usize>) -> impl Iterator<Item = usize> {
    let first = range.start.next_multiple_of(SECTOR);
    (first..range.end).step_by(SECTOR)
}

/// At most so many of them, evenly spread.
fn thinned<T: Clone>(all: Vec<T>, most: usize) -> Vec<T> {
    if all.len() <= most {
        return all;
    }
    let pick = |n: usize| all[n * all.len() / most].clone();
    (0..most).map(pick).collect()
}

/// One choice out of each of so many; all of them, or an even choice of `most`.
fn combinations(counts: &[usize], most: usize) -> Vec<Vec<usize>> {
    let total = counts
        .iter()
        .try_fold(1_usize, |product, count| product.checked_mul(*count));
    if let Some(total) = total.filter(|total| *total <= most) {
        return (0..total).map(|nth| digits(counts, nth)).collect();
    }
    // Each file alone, among files that are all shortest, and all whole.
    let mut all = Vec::new();
    for others in 0..2 {
        let around: Vec<usize> = counts.iter().map(|count| others.min(count - 1)).collect();
        all.push(around.clone());
        for (file, count) in counts.iter().enumerate() {
            for choice in (0..*count).filter(|choice| *choice != around[file]) {
                let mut picks = around.clone();
                picks[file] = choice;
                all.push(picks);
            }
        }
    }
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in all.len()..most {
        let pick = |count: &usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % *count as u64) as usize
        };
        all.push(counts.iter().map(pick).collect());
    }
    all
}

/// The `nth` of all combinations.
fn digits(counts: &[usize], mut nth: usize) -> Vec<usize> {
    let digit = |count: &usize| {
        let digit = nth % count;
        nth /= count;
        digit
    };
    counts.iter().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Memory;
    use super::*;
    use crate::storage::Storage as _;

    fn store() -> Memory {
        let memory = Memory::new();
        memory.create_dir().unwrap();
        memory.record();
        memory
    }

    /// Names with contents, of power losses only.
    fn left(memory: &Memory, calls: usize) -> BTreeSet<Vec<(String, Vec<u8>)>> {
        let history = memory.history().unwrap();
        let states = history.states(calls, &Bounds::default());
        let after = states.iter().filter(|state| state.is_power_loss());
        after.map(|state| contents(&state.image())).collect()
    }

    fn contents(image: &Memory) -> Vec<(String, Vec<u8>)> {
        let names = image.list().unwrap().into_iter();
        names
            .map(|name| {
                let bytes = image.bytes_of(&name).unwrap();
                (name, bytes)
            })
            .collect()
    }

    fn one(name: &str, bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
        vec![(name.to_owned(), bytes.to_vec())]
    }

    #[test]
    fn what_is_not_synced_may_be_there_in_any_part() {
        let memory = store();
        let mut file = memory.create("a").unwrap();
        file.append(&[&[1; 10]]).unwrap();
        file.sync().unwrap();
        assert_eq!(left(&memory, 3), [vec![], one("a", &[1; 10])].into());
        memory.sync_dir().unwrap();
        file.append(&[&[2; 600]]).unwrap();
        let with = |parts: &[(u8, usize)]| {
            let bytes = parts.iter().flat_map(|(byte, len)| vec![*byte; *len]);
            one("a", &bytes.collect::<Vec<u8>>())
        };
        let expected = [
            with(&[(1, 10)]),
            with(&[(1, 10), (2, 502)]),
            with(&[(1, 10), (2, 600)]),
            with(&[(1, 10), (0, 600)]),
            with(&[(1, 10), (0, 502), (2, 98)]),
            with(&[(1, 10), (2, 502), (0, 98)]),
        ];
        assert_eq!(left(&memory, 5), expected.into());
        file.sync().unwrap();
        assert_eq!(left(&memory, 6), [with(&[(1, 10), (2, 600)])].into());
    }

    #[test]
    fn names_come_in_any_order_and_renames_are_atomic() {
        let memory = store();
        for (name, byte) in [("a", 1), ("b", 2)] {
            let mut file = memory.create(name).unwrap();
            file.append(&[&[byte]]).unwrap();
            file.sync().unwrap();
        }
        memory.sync_dir().unwrap();
        memory.rename("a", "b").unwrap();
        memory.create("c").unwrap();
        let all = left(&memory, 9);
        let (before, after) = (
            vec![("a".to_owned(), vec![1]), ("b".to_owned(), vec![2])],
            one("b", &[1]),
        );
        let with_c = |mut names: Vec<(String, Vec<u8>)>| {
            names.push(("c".to_owned(), vec![]));
            names
        };
        let expected = [
            before.clone(),
            after.clone(),
            with_c(before),
            with_c(after.clone()),
        ];
        assert_eq!(all, expected.into());
        memory.remove("c").unwrap();
        memory.sync_dir().unwrap();
        assert_eq!(left(&memory, 11), [after].into());
    }

    #[test]
    fn a_kill_keeps_what_the_system_has_and_tears_what_is_under_way() {
        let memory = store();
        let mut file = memory.create("a").unwrap();
        file.append(&[b"0123"]).unwrap();
        let history = memory.history().unwrap();
        let killed = |calls: usize| -> BTreeSet<_> {
            let states = history.states(calls, &Bounds::default());
            let killed = states.into_iter().filter(|state| !state.is_power_loss());
            killed.map(|state| contents(&state.image())).collect()
        };
        let parts = [
            one("a", b""),
            one("a", b"0"),
            one("a", b"01"),
            one("a", b"012"),
        ];
        assert_eq!(killed(1), parts.into());
        assert_eq!(killed(2), [one("a", b"0123")].into());
    }

    #[test]
    fn a_failed_sync_loses_what_no_later_sync_brings_back() {
        let memory = store();
        let mut file = memory.create("a").unwrap();
        memory.sync_dir().unwrap();
        file.append(&[b"lost"]).unwrap();
        memory.fail_once(1, std::io::ErrorKind::Other);
        file.sync().unwrap_err();
        assert_eq!(memory.bytes_of("a").unwrap(), b"lost");
        assert_eq!(
            left(&memory, 4),
            [one("a", b""), one("a", b"lost"), one("a", b"\0\0\0\0")].into()
        );
        file.append(&[b"kept"]).unwrap();
        file.sync().unwrap();
        let expected = [one("a", b"\0\0\0\0kept"), one("a", b"lostkept")];
        assert_eq!(left(&memory, 6), expected.into());
    }

    #[test]
    fn bounds_are_kept_and_extremes_are_there() {
        let counts = [50, 50, 50];
        let chosen = combinations(&counts, 500);
        assert_eq!(chosen.len(), 500);
        for extreme in [[0, 0, 0], [1, 1, 1], [49, 1, 1], [0, 0, 49]] {
            assert!(chosen.contains(&extreme.to_vec()));
        }
        assert_eq!(combinations(&[2, 3], 6).len(), 6);
        assert_eq!(combinations(&[], 6).len(), 1);
    }
}
