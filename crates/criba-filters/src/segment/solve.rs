//! Building a bumped ribbon: layers, thresholds, stash and body from hashes and values.
//!
//! Time is linear in the keys; memory besides the body is 33 bytes per key: two arrays of rows that
//! serve in turn as sorting space and as the band, and the keys that are bumped.
//!
//! Nothing here can fail: hashes that crowd together are bumped through all layers and listed in the
//! stash, which costs space but is right.

use crate::mapped::MappedVec;

use super::band::{Inserted, Row, substitute};
use super::fill::{equation, fill_layer};
use super::form::Form;
use super::ribbon::{BLOCK_SLOTS, LAYER_BYTES, LAYERS_MAX, Layer, Planes, Ribbon};
use super::sort::sort_rows;
use crate::hash::{KeyHash, mix, remix};

/// Keys per slot of a layer that bumps. More than 1: a few more keys are bumped, fewer slots stay
/// empty. Chosen by measurement; not part of the disk format.
const LAYER_LOAD: f64 = 1.02;
/// So many keys or fewer make a tail. Chosen by measurement; not part of the disk format.
const TAIL_KEYS_MAX: usize = 512;

/// How wide the values are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Width {
    pub(crate) planes: Planes,
    /// Share of blocks with wide planes, 0 to 1; 0 when wide is narrow.
    pub(crate) wide_share: f64,
}

/// A ribbon with its body.
#[derive(Debug)]
pub(crate) struct Solved {
    pub(crate) ribbon: Ribbon,
    pub(crate) body: Vec<u64>,
    /// Two rows had the same hash; the first was kept.
    pub(crate) equal_hashes: bool,
}

/// What is solved, and memory for that, which can be used again.
#[derive(Debug, Default)]
pub(crate) struct Equations {
    /// Mixed hash and value of each key. Sorted by [`solve`], and of equal hashes the first is left.
    pub(crate) rows: MappedVec<Row>,
    /// The hashes of those that are not left.
    pub(crate) repeated: Vec<u64>,
    bumped: MappedVec<Row>,
    spare: MappedVec<Row>,
}

impl Equations {
    pub(crate) fn of(rows: impl Iterator<Item = Row>) -> Equations {
        let mut equations = Equations::default();
        equations.rows.assign(rows);
        equations
    }
}

/// Solves for the rows, of which no value has a bit above the wide planes.
pub(crate) fn solve(equations: &mut Equations, width: Width) -> Solved {
    let Equations {
        rows,
        repeated,
        bumped,
        spare,
    } = equations;
    sort_rows(rows, spare);
    *repeated = remove_equal(rows);
    let equal_hashes = !repeated.is_empty();

    let mut solver = Solver::new(width, rows.len());
    let mut keys = rows;
    while keys.len() > TAIL_KEYS_MAX && solver.ribbon.layers.len() < LAYERS_MAX {
        let later = solver.bumping_layer(keys, spare);
        let remixed = |row: &Row| Row {
            bits: remix(row.bits),
            value: row.value,
        };
        bumped.assign(later.iter().map(remixed));
        sort_rows(bumped, spare);
        keys = &mut *bumped;
    }
    solver.tail(keys, spare);
    // Keys for the next filter are gathered for ten times as long as this took: others may need the memory.
    *spare = MappedVec::default();
    Solved {
        ribbon: solver.ribbon,
        body: solver.body,
        equal_hashes,
    }
}

/// Of sorted rows with equal hashes keeps the first. Returns the hashes of the others.
fn remove_equal(rows: &mut MappedVec<Row>) -> Vec<u64> {
    let all = &mut **rows;
    let (mut kept, mut repeated) = (0, Vec::new());
    for at in 0..all.len() {
        let row = all[at];
        if kept == 0 || all[kept - 1].bits != row.bits {
            all[kept] = row;
            kept += 1;
        } else {
            repeated.push(row.bits);
        }
    }
    rows.truncate(kept);
    repeated
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
        let ribbon = Ribbon::new(width.planes);
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

    /// Adds a layer for sorted keys and returns those it bumps.
    fn bumping_layer(&mut self, keys: &[Row], band: &mut MappedVec<Row>) -> Vec<Row> {
        let blocks = (keys.len() as f64 / LAYER_LOAD / BLOCK_SLOTS as f64)
            .floor()
            .max(1.0);
        let layer = self.next_layer(blocks as u32);
        clear_band(band, &layer);
        let thresholds = &mut self.ribbon.thresholds;
        thresholds.resize(layer.first_threshold + layer.threshold_bytes() as usize, 0);
        let bumped = fill_layer(keys, band, &layer, &mut thresholds[layer.first_threshold..]);
        self.append(&layer, band);
        self.ribbon.push(layer);
        bumped
    }

    /// Places the last keys, sorted: in a tail of the size that costs least, the rest in the stash.
    fn tail(&mut self, keys: &[Row], band: &mut MappedVec<Row>) {
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
                    first_block: 0,
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
        let first_block = self.blocks;
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
            first_block,
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

fn clear_band(band: &mut MappedVec<Row>, layer: &Layer) {
    let slots = layer.blocks as usize * BLOCK_SLOTS as usize;
    band.assign(std::iter::repeat_n(Row::default(), slots));
}

/// Inserts what fits without bumping and returns the keys that do not; the number of these is the
/// same in any order, as it is the rank that the equations lack.
fn fill_tail(keys: &[Row], band: &mut [Row], layer: &Layer) -> Vec<Row> {
    let starts = layer.starts();
    let refused = |key: &&Row| equation(key, starts).insert(band) == Inserted::Error;
    keys.iter().filter(refused).copied().collect()
}
