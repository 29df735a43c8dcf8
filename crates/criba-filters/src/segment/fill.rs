//! Filling one layer of a bumped ribbon: which equations fit, and which are bumped.
//!
//! Buckets are filled from left to right and within a bucket keys from right to left; the first key
//! that does not fit sets the bucket's threshold, and what lies before it is bumped.
//!
//! Each step of an elimination waits for the row that it adds. So the buckets are filled as a few runs,
//! which take steps in turns: while one waits, the others go on. An equation that begins in a bucket
//! and all rows that it can meet there end 63 slots after the bucket, so the runs stay clear of each
//! other while each has a bucket to go. That last bucket waits until the runs to its right are
//! finished: its equations may run on through rows of the next run, which then neither change nor are
//! taken out. The outcome is that of the runs one after the other.

use super::band::{Equation, Inserted, Row};
use super::ribbon::{BUCKET_STARTS, BUMPED_STARTS, Layer};
use crate::hash::{coefficients, least_of, start_of};

/// Layers with so many buckets are filled as three runs, or as two. More would not fit the registers of
/// a processor. At the end of a run some slots stay empty, because the next bucket is filled by then:
/// space that a small layer would notice. Chosen by measurement; not part of the disk format.
const THREE_RUNS_MIN: u64 = 1024;
const TWO_RUNS_MIN: u64 = 32;

/// Inserts what fits, writes the thresholds, which are zero before, and returns the keys that are
/// bumped. The keys are sorted by their hash, and so are those returned.
pub(crate) fn fill_layer(
    keys: &[Row],
    band: &mut [Row],
    layer: &Layer,
    thresholds: &mut [u8],
) -> Vec<Row> {
    let mut target = Target { band, thresholds };
    match layer.buckets() {
        THREE_RUNS_MIN.. => fill_runs(keys, layer, &mut target, fill_three),
        TWO_RUNS_MIN.. => fill_runs(keys, layer, &mut target, fill_two),
        _ => fill_runs(keys, layer, &mut target, |_: &mut [Run<'_>; 1], _| {}),
    }
}

fn fill_runs<const RUNS: usize>(
    keys: &[Row],
    layer: &Layer,
    target: &mut Target<'_>,
    fill_in_turns: impl Fn(&mut [Run<'_>; RUNS], &mut Target<'_>),
) -> Vec<Row> {
    let mut runs = split::<RUNS>(keys, layer);
    fill_in_turns(&mut runs, target);
    for run in runs.iter_mut().rev() {
        run.fill(target);
        run.end = run.last;
        run.fill(target);
    }
    runs.into_iter().flat_map(|run| run.bumped).collect()
}

/// The equation of a key in a layer with so many starts.
#[inline]
pub(crate) fn equation(key: &Row, starts: u64) -> Equation {
    let slot = start_of(key.bits, starts) as usize;
    Equation {
        slot,
        coefficients: coefficients(key.bits),
        value: key.value,
    }
}

/// Runs of about as many buckets each, of which all but the rightmost keep their last one closed.
fn split<'a, const RUNS: usize>(keys: &'a [Row], layer: &Layer) -> [Run<'a>; RUNS] {
    let mut later = keys;
    std::array::from_fn(|i| {
        let boundary = |i: usize| layer.buckets() * i as u64 / RUNS as u64;
        let (first, last) = (boundary(i), boundary(i + 1));
        let end = least_of(last * BUCKET_STARTS, layer.starts());
        let count = end.map_or(later.len(), |end| {
            later.partition_point(|key| key.bits < end)
        });
        let (own, rest) = later.split_at(count);
        later = rest;
        let mut run = Run::new(own, layer, first..last);
        run.end -= u64::from(i + 1 < RUNS);
        run
    })
}

/// Fills the runs by turns, until one of them comes to its end. A macro, because the equations are to
/// stay in registers, each in its own.
macro_rules! fill_in_turns {
    ($name:ident, $count:literal, $($equation:ident $run:literal),+) => {
        fn $name(runs: &mut [Run<'_>; $count], target: &mut Target<'_>) {
            let first = runs.each_mut().map(|run| run.next(target));
            let [$(Some(mut $equation)),+] = first else {
                for (run, equation) in runs.iter_mut().zip(first) {
                    run.finish(equation, target);
                }
                return;
            };
            let ended = 'turns: loop {
                $(if let Some(inserted) = $equation.step(target.band) {
                    match runs[$run].advance(inserted, target) {
                        Some(next) => $equation = next,
                        None => break 'turns $run,
                    }
                })+
            };
            $(if ended != $run {
                runs[$run].finish(Some($equation), target);
            })+
        }
    };
}

fill_in_turns!(fill_two, 2, a 0, b 1);
fill_in_turns!(fill_three, 3, a 0, b 1, c 2);

/// What a layer is made of.
struct Target<'a> {
    band: &'a mut [Row],
    thresholds: &'a mut [u8],
}

/// Neighbouring buckets that are being filled.
struct Run<'a> {
    starts: u64,
    /// The bucket to be opened next, the one before which to stop, and the one after the last.
    bucket: u64,
    end: u64,
    last: u64,
    /// Keys of the buckets that are still closed.
    later: &'a [Row],
    /// Keys of the open bucket, and its threshold so far.
    keys: &'a [Row],
    code: u8,
    /// What became of the last keys in `keys`, the rightmost first.
    placed: Vec<Inserted>,
    bumped: Vec<Row>,
}

impl<'a> Run<'a> {
    fn new(keys: &'a [Row], layer: &Layer, buckets: std::ops::Range<u64>) -> Self {
        Self {
            starts: layer.starts(),
            bucket: buckets.start,
            end: buckets.end,
            last: buckets.end,
            later: keys,
            keys: &[],
            code: 0,
            placed: Vec::new(),
            bumped: Vec::new(),
        }
    }

    /// Fills the buckets before `end`.
    fn fill(&mut self, target: &mut Target<'_>) {
        let first = self.next(target);
        self.finish(first, target);
    }

    /// Inserts the equation and all after it.
    fn finish(&mut self, first: Option<Equation>, target: &mut Target<'_>) {
        let mut next = first;
        while let Some(equation) = next {
            self.settle(equation.insert(target.band), target);
            next = self.next(target);
        }
    }

    /// Goes on to the next equation. Called for one step in eighteen, and declared cold so that it does
    /// not take registers away from the steps.
    #[cold]
    #[inline(never)]
    fn advance(&mut self, inserted: Inserted, target: &mut Target<'_>) -> Option<Equation> {
        self.settle(inserted, target);
        self.next(target)
    }

    /// The next equation to insert; `None` when all buckets before `end` are filled.
    #[inline(always)]
    fn next(&mut self, target: &mut Target<'_>) -> Option<Equation> {
        loop {
            let left = self.keys.len() - self.placed.len();
            if let (Some(key), 0) = (self.keys[..left].last(), self.code) {
                return Some(equation(key, self.starts));
            }
            self.close(left, target);
            if self.bucket == self.end {
                return None;
            }
            self.open();
        }
    }

    /// Leaves the open bucket, of which so many keys are bumped.
    fn close(&mut self, left: usize, target: &mut Target<'_>) {
        if self.code != 0 {
            let bucket = self.bucket - 1;
            target.thresholds[(bucket / 4) as usize] |= self.code << (bucket % 4 * 2);
            self.bumped.extend(&self.keys[..left]);
        }
        (self.keys, self.code) = (&[], 0);
        self.placed.clear();
    }

    fn open(&mut self) {
        self.bucket += 1;
        let end = least_of(self.bucket * BUCKET_STARTS, self.starts);
        let here = |key: &&Row| end.is_none_or(|end| key.bits < end);
        let count = self.later.iter().take_while(here).count();
        (self.keys, self.later) = self.later.split_at(count);
    }

    /// Records what became of the next key. If it was refused, sets the threshold and takes out the
    /// keys before it.
    #[inline(always)]
    fn settle(&mut self, inserted: Inserted, target: &mut Target<'_>) {
        if inserted == Inserted::Error {
            self.bump(target.band);
        } else {
            self.placed.push(inserted);
        }
    }

    #[inline(never)]
    fn bump(&mut self, band: &mut [Row]) {
        let offset = |key: &Row| start_of(key.bits, self.starts) % BUCKET_STARTS;
        let refused = offset(&self.keys[self.keys.len() - self.placed.len() - 1]);
        let code = BUMPED_STARTS
            .iter()
            .position(|&limit| u64::from(limit) > refused);
        // The last limit is the size of a bucket, above every offset.
        let code = code.unwrap_or(BUMPED_STARTS.len() - 1);
        let limit = u64::from(BUMPED_STARTS[code]);
        // The key placed last is the one furthest left.
        while let Some(inserted) = self.placed.last() {
            if offset(&self.keys[self.keys.len() - self.placed.len()]) >= limit {
                break;
            }
            if let Inserted::At(slot) = *inserted {
                band[slot] = Row::default();
            }
            self.placed.pop();
        }
        self.code = code as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::super::ribbon::BLOCK_SLOTS;
    use super::*;
    use crate::hash::{KeyHash, mix};

    /// What fills a layer: band, thresholds and the keys that are bumped.
    type Outcome = (Vec<Row>, Vec<u8>, Vec<Row>);

    fn fill<const RUNS: usize>(
        keys: &[Row],
        fill_in_turns: impl Fn(&mut [Run<'_>; RUNS], &mut Target<'_>),
    ) -> Outcome {
        // More keys than slots.
        let blocks = keys.len() as u32 / 66;
        let layer = Layer {
            blocks,
            split: blocks,
            first_word: 0,
            first_block: 0,
            first_threshold: 0,
        };
        let mut band = vec![Row::default(); (u64::from(blocks) * BLOCK_SLOTS) as usize];
        let mut thresholds = vec![0; layer.threshold_bytes() as usize];
        let mut target = Target {
            band: &mut band,
            thresholds: &mut thresholds,
        };
        let bumped = fill_runs(keys, &layer, &mut target, fill_in_turns);
        (band, thresholds, bumped)
    }

    /// Compares runs in turns with runs one after the other, from right to left.
    fn check(hash: impl Fn(u64) -> u64) {
        for count in [700, 5000, 40_000] {
            let row = |i| Row {
                bits: hash(i),
                value: i % 1000,
            };
            let mut keys: Vec<Row> = (0..count).map(row).collect();
            keys.sort_by_key(|row| row.bits);
            let two = fill(&keys, fill_two);
            assert!(two == fill(&keys, |_: &mut [Run<'_>; 2], _| {}));
            let three = fill(&keys, fill_three);
            assert!(three == fill(&keys, |_: &mut [Run<'_>; 3], _| {}));
            for (band, _, bumped) in [two, three] {
                let rows = band.iter().filter(|row| row.bits != 0).count();
                assert!(rows + bumped.len() <= keys.len());
                assert!(!bumped.is_empty());
            }
        }
    }

    #[test]
    fn runs_in_turns_are_as_one_after_the_other() {
        let uniform = |i: u64| mix(KeyHash(i), 3);
        check(uniform);
        // Runs of different lengths, and runs without keys.
        check(|i| uniform(i) >> 1);
        check(|i| uniform(i) >> 2 | 1 << 63);
        check(|i| uniform(i) >> 30);
        // Crowds anywhere, above all where runs meet.
        for part in 0..12 {
            let crowd = u64::MAX / 12 * part;
            check(|i| {
                if i % 5 == 0 {
                    crowd.saturating_add(uniform(i) >> 9)
                } else {
                    uniform(i)
                }
            });
        }
    }
}
