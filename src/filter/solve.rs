//! Building a bumped ribbon: layers, thresholds, stash and body from hashes and values.
//!
//! Buckets are filled from left to right and within a bucket keys from right to left; the first key
//! that does not fit sets the bucket's threshold, and what lies before it is bumped. Time is linear in
//! the keys; memory besides the body is 32 bytes per key, two arrays of rows that serve in turn as
//! sorting space and as the band.
//!
//! Nothing here can fail: hashes that crowd together are bumped through all layers and listed in the
//! stash, which costs space but is right.

use super::band::{Equation, Inserted, Row, substitute};
use super::form::Form;
use super::hash::{KeyHash, coefficients, mix, remix, start_of};
use super::ribbon::{
    BLOCK_SLOTS, BUCKET_STARTS, BUMPED_STARTS, LAYER_BYTES, LAYERS_MAX, Layer, Planes, Ribbon,
};
use super::sort::sort_rows;

/// Keys per slot of a layer that bumps. More than 1: a few more keys are bumped, fewer slots stay
/// empty. Chosen by measurement; not part of the disk format.
const LAYER_LOAD: f64 = 1.02;
/// So many keys or fewer make a tail. Chosen by measurement; not part of the disk format.
const TAIL_KEYS_MAX: usize = 512;

/// Layers with fewer buckets are filled in one run: the last bucket of the left run finds little room
/// where the right run is done, which costs space that a small layer would notice.
const PAIRED_BUCKETS_MIN: u64 = 32;

/// How wide the values are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Width {
    pub(super) planes: Planes,
    /// Share of blocks with wide planes, 0 to 1; 0 when wide is narrow.
    pub(super) wide_share: f64,
}

/// A ribbon with its body.
#[derive(Debug)]
pub(super) struct Solved {
    pub(super) ribbon: Ribbon,
    pub(super) body: Vec<u64>,
    /// Two rows had the same hash; the first was kept.
    pub(super) equal_hashes: bool,
}

/// Solves for rows of mixed hash and value, values having no bit above the wide planes.
pub(super) fn solve(mut keys: Vec<Row>, width: Width) -> Solved {
    let mut spare = Vec::new();
    sort_rows(&mut keys, &mut spare);
    let given = keys.len();
    keys.dedup_by_key(|row| row.bits);
    let equal_hashes = keys.len() < given;

    let mut solver = Solver::new(width, keys.len());
    while keys.len() > TAIL_KEYS_MAX && solver.ribbon.layers.len() < LAYERS_MAX {
        solver.bumping_layer(&mut keys, &mut spare);
        for row in &mut keys {
            row.bits = remix(row.bits);
        }
        sort_rows(&mut keys, &mut spare);
    }
    solver.tail(&keys, &mut spare);
    Solved {
        ribbon: solver.ribbon,
        body: solver.body,
        equal_hashes,
    }
}

struct Solver {
    ribbon: Ribbon,
    body: Vec<u64>,
    form: Form,
    wide_share: f64,
    /// Blocks so far, all and wide, so that rounding errors of small layers do not add up.
    blocks: u64,
    blocks_wide: u64,
}

impl Solver {
    fn new(width: Width, key_count: usize) -> Self {
        let ribbon = Ribbon {
            planes: width.planes,
            layers: Vec::new(),
            tail: None,
            thresholds: Vec::new(),
            stash: Vec::new(),
        };
        let bits = f64::from(width.planes.narrow) + width.wide_share;
        let words = key_count as f64 * bits / 64.0 * 1.02;
        let body = Vec::with_capacity(words as usize);
        Self {
            ribbon,
            body,
            form: Form::detect(),
            wide_share: width.wide_share,
            blocks: 0,
            blocks_wide: 0,
        }
    }

    /// Adds a layer for sorted keys and leaves in `keys` those it bumps.
    fn bumping_layer(&mut self, keys: &mut Vec<Row>, band: &mut Vec<Row>) {
        let blocks = (keys.len() as f64 / LAYER_LOAD / BLOCK_SLOTS as f64)
            .floor()
            .max(1.0);
        let layer = self.next_layer(blocks as u32);
        clear_band(band, &layer);
        fill_layer(keys, band, &layer, &mut self.ribbon.thresholds);
        self.append(&layer, band);
        self.ribbon.layers.push(layer);
    }

    /// Places the last keys, sorted: in a tail of the size that costs least, the rest in the stash.
    fn tail(&mut self, keys: &[Row], band: &mut Vec<Row>) {
        let planes = self.ribbon.planes;
        let block_bytes = 8 * usize::from(planes.wide);
        let entry_bytes = 8 + planes.value_bytes();
        let mut best = (keys.len() * entry_bytes, 0);
        if keys.len() <= TAIL_KEYS_MAX {
            let middle = keys.len() as u32 / BLOCK_SLOTS as u32;
            for blocks in middle.max(1)..=middle + 1 {
                let layer = Layer {
                    blocks,
                    split: blocks,
                    first_word: 0,
                    first_threshold: 0,
                };
                clear_band(band, &layer);
                let refused = fill_tail(keys, band, &layer).len();
                let cost = LAYER_BYTES + blocks as usize * block_bytes + refused * entry_bytes;
                best = best.min((cost, blocks));
            }
        }
        if best.1 == 0 {
            self.ribbon.stash = keys.to_vec();
            return;
        }
        let layer = self.next_layer(best.1);
        clear_band(band, &layer);
        self.ribbon.stash = fill_tail(keys, band, &layer);
        self.append(&layer, band);
        self.ribbon.tail = Some(layer);
    }

    fn next_layer(&mut self, blocks: u32) -> Layer {
        self.blocks += u64::from(blocks);
        let target = (self.blocks as f64 * self.wide_share).round() as u64;
        let wide = target
            .saturating_sub(self.blocks_wide)
            .min(u64::from(blocks));
        self.blocks_wide += wide;
        Layer {
            blocks,
            split: blocks - wide as u32,
            first_word: self.body.len() as u64,
            first_threshold: self.ribbon.thresholds.len(),
        }
    }

    /// Solves the band and appends its planes to the body.
    fn append(&mut self, layer: &Layer, band: &mut [Row]) {
        let planes = self.ribbon.planes;
        for (slot, row) in band.iter_mut().enumerate().filter(|(_, row)| row.bits == 0) {
            // Any value solves a free slot. This one depends on nothing but the slot, so that equal
            // input gives equal bytes.
            row.value = mix(KeyHash(slot as u64), layer.first_word);
        }
        let first = self.body.len();
        self.body.resize(first + layer.words(planes) as usize, 0);
        let body = &mut self.body;
        substitute(band, usize::from(planes.wide), self.form, |block, words| {
            let own = usize::from(layer.planes_of(block as u64, planes));
            let word = layer.word_of(block as u64, planes) as usize;
            body[word..word + own].copy_from_slice(&words[..own]);
        });
    }
}

fn clear_band(band: &mut Vec<Row>, layer: &Layer) {
    band.clear();
    band.resize(layer.blocks as usize * BLOCK_SLOTS as usize, Row::default());
}

/// The equation of a key in a layer with so many starts.
#[inline]
fn equation(key: &Row, starts: u64) -> Equation {
    let slot = start_of(key.bits, starts) as usize;
    Equation {
        slot,
        coefficients: coefficients(key.bits),
        value: key.value,
    }
}

/// Inserts what fits, appends the thresholds and leaves in `keys` those that are bumped.
///
/// The buckets are filled as two runs in turns. An equation that begins in a bucket and all rows that
/// it can meet there end 63 slots after the bucket, so the runs stay clear of each other while the
/// left one has a bucket to go. That last bucket waits until the right run is finished: its equations
/// may run on through rows of the right, which then neither change nor are taken out.
fn fill_layer(keys: &mut Vec<Row>, band: &mut [Row], layer: &Layer, thresholds: &mut Vec<u8>) {
    let (starts, buckets) = (layer.starts(), layer.buckets());
    let first_threshold = thresholds.len();
    thresholds.resize(first_threshold + layer.threshold_bytes() as usize, 0);
    let thresholds = &mut thresholds[first_threshold..];

    let middle = if buckets < PAIRED_BUCKETS_MIN {
        0
    } else {
        buckets / 2
    };
    let left_keys = keys.partition_point(|key| start_of(key.bits, starts) / BUCKET_STARTS < middle);
    let (left_keys, right_keys) = keys.split_at(left_keys);
    let mut left = Filling::new(left_keys, starts);
    let mut right = Filling::new(right_keys, starts);
    let paired = middle.saturating_sub(1);
    for bucket in 0..paired {
        left.open(bucket);
        right.open(middle + bucket);
        left.fill_both(&mut right, band);
        left.write_threshold(thresholds);
        right.write_threshold(thresholds);
    }
    for bucket in middle + paired..buckets {
        right.open(bucket);
        right.fill(band);
        right.write_threshold(thresholds);
    }
    if middle > 0 {
        left.open(paired);
        left.fill(band);
        left.write_threshold(thresholds);
    }
    keys.retain(|key| {
        let start = start_of(key.bits, starts);
        let bucket = start / BUCKET_STARTS;
        let code = thresholds[(bucket / 4) as usize] >> (bucket % 4 * 2) & 3;
        start % BUCKET_STARTS < u64::from(BUMPED_STARTS[usize::from(code)])
    });
}

/// A run of buckets that is being filled, each from its right end to its left.
struct Filling<'a> {
    starts: u64,
    /// Keys of the buckets that are still closed.
    later: &'a [Row],
    /// The open bucket, its keys and its threshold so far.
    bucket: u64,
    keys: &'a [Row],
    code: u8,
    /// What became of the last keys in `keys`, the rightmost first.
    placed: Vec<Inserted>,
}

impl<'a> Filling<'a> {
    fn new(keys: &'a [Row], starts: u64) -> Self {
        Self {
            starts,
            later: keys,
            bucket: 0,
            keys: &[],
            code: 0,
            placed: Vec::new(),
        }
    }

    /// Goes on to this bucket.
    fn open(&mut self, bucket: u64) {
        let starts = self.starts;
        let here = |key: &&Row| start_of(key.bits, starts) / BUCKET_STARTS <= bucket;
        let count = self.later.iter().take_while(here).count();
        (self.keys, self.later) = self.later.split_at(count);
        (self.bucket, self.code) = (bucket, 0);
        self.placed.clear();
    }

    /// The next key to insert; `None` when the bucket is full or has no more.
    #[inline]
    fn next(&self) -> Option<Equation> {
        let left = self.keys.len() - self.placed.len();
        let key = if self.code == 0 {
            self.keys[..left].last()
        } else {
            None
        };
        key.map(|key| equation(key, self.starts))
    }

    /// Records what became of the next key. If it was refused, sets the threshold and takes out the
    /// keys before it.
    #[inline]
    fn settle(&mut self, inserted: Inserted, band: &mut [Row]) {
        if inserted == Inserted::Refused {
            self.bump(band);
        } else {
            self.placed.push(inserted);
        }
    }

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

    fn write_threshold(&self, thresholds: &mut [u8]) {
        thresholds[(self.bucket / 4) as usize] |= self.code << (self.bucket % 4 * 2);
    }

    fn fill(&mut self, band: &mut [Row]) {
        while let Some(key) = self.next() {
            self.settle(key.insert(band), band);
        }
    }

    fn fill_both(&mut self, other: &mut Self, band: &mut [Row]) {
        while let (Some(mine), Some(theirs)) = (self.next(), other.next()) {
            let (mine, theirs) = mine.insert_both(theirs, band);
            self.settle(mine, band);
            other.settle(theirs, band);
        }
        self.fill(band);
        other.fill(band);
    }
}

/// Inserts what fits without bumping and returns the keys that do not; the number of these is the
/// same in any order, as it is the rank that the equations lack.
fn fill_tail(keys: &[Row], band: &mut [Row], layer: &Layer) -> Vec<Row> {
    let starts = layer.starts();
    let refused = |key: &&Row| equation(key, starts).insert(band) == Inserted::Refused;
    keys.iter().filter(refused).copied().collect()
}
