//! A static function stored as a bumped ribbon: the resident part and the way of a lookup.
//!
//! Dillinger, Hübschle-Schneider, Sanders, Walzer, "Fast succinct retrieval and approximate membership
//! using ribbon" (2022), section 4. A key's equation begins at a start slot and covers 64 slots. Starts
//! are grouped in buckets of 128, and each bucket has a threshold of two bits: keys that start before
//! it are *bumped*, that is handed to the next, smaller layer with another hash. What the last layer
//! cannot hold is listed in the stash.
//!
//! Invariants:
//! 1. The thresholds are resident, so it is known without the body which layer holds a key: a lookup
//!    needs exactly one window, or none.
//! 2. A layer of `b` blocks has `64 * b` slots and `64 * b - 63` starts, so every window ends within
//!    its layer.
//! 3. The tail, if there is one, bumps nothing; its refused keys are in the stash, which is searched
//!    before it. Without a tail, a key that is not in the stash is in no key set this was built from.
//! 4. The blocks before a layer's `split` have `narrow` planes, the others `wide`. A key has as many
//!    bits as the block it starts in.

use super::band::Row;
use super::lookup::Window;
use crate::error::Result;
use crate::fields::{Fields, require};
use crate::hash::{coefficients, remix, start_of};

/// Slots per block, one bit of each in every plane word.
pub(crate) const BLOCK_SLOTS: u64 = 64;
/// Starts that share a threshold. Written to disk by its effect; must not be changed.
pub(crate) const BUCKET_STARTS: u64 = 128;
/// Starts bumped for each of the four threshold codes. Written to disk by its effect; must not be
/// changed.
pub(crate) const BUMPED_STARTS: [u8; 4] = [0, 22, 54, 128];
/// Most layers that bump; keys that are still not placed then go to the stash.
pub(crate) const LAYERS_MAX: usize = 16;

/// Bytes of the header's fixed part and of one layer in it.
pub(crate) const FIXED_BYTES: usize = 8;
pub(crate) const LAYER_BYTES: usize = 8;

/// Planes per block, that is bits per value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Planes {
    /// Planes of the blocks before the split, 1 to 64.
    pub(crate) narrow: u8,
    /// Planes of the blocks from the split on: `narrow`, or one more.
    pub(crate) wide: u8,
}

impl Planes {
    /// Bytes of a value in the stash.
    pub(crate) fn value_bytes(self) -> usize {
        usize::from(self.wide.div_ceil(8))
    }
}

/// The extent of one layer in the body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer {
    /// Blocks of 64 slots, at least 1.
    pub(crate) blocks: u32,
    /// Blocks with narrow planes, at most `blocks`.
    pub(crate) split: u32,
    /// Body word of the first plane of the first block, and blocks of layers before.
    pub(crate) first_word: u64,
    pub(crate) first_block: u64,
    /// First byte of the layer's thresholds; unused in the tail.
    pub(crate) first_threshold: usize,
}

/// Words of a layer's blocks before this one. Where there are no wide blocks, no block is beyond the
/// split.
#[inline]
fn words_before(block: u64, split: u32, planes: Planes) -> u64 {
    block * u64::from(planes.narrow) + block.saturating_sub(u64::from(split))
}

impl Layer {
    pub(crate) fn starts(&self) -> u64 {
        u64::from(self.blocks) * BLOCK_SLOTS - (BLOCK_SLOTS - 1)
    }

    pub(crate) fn buckets(&self) -> u64 {
        self.starts().div_ceil(BUCKET_STARTS)
    }

    /// Bytes of the thresholds, four of them in each.
    pub(crate) fn threshold_bytes(&self) -> u64 {
        self.buckets().div_ceil(4)
    }

    pub(crate) fn words(&self, planes: Planes) -> u64 {
        self.word_of(u64::from(self.blocks), planes) - self.first_word
    }

    /// Body word at which a block begins.
    #[inline]
    pub(crate) fn word_of(&self, block: u64, planes: Planes) -> u64 {
        self.first_word + words_before(block, self.split, planes)
    }

    #[inline]
    pub(crate) fn planes_of(&self, block: u64, planes: Planes) -> u8 {
        if block < u64::from(self.split) {
            planes.narrow
        } else {
            planes.wide
        }
    }

    #[inline(always)]
    fn window(&self, start: u64, mixed: u64, ribbon: &Ribbon, fingerprint: u64) -> Window {
        let block = start / BLOCK_SLOTS;
        Window {
            first: self.word_of(block, ribbon.planes),
            block: self.first_block + block,
            planes: u32::from(self.planes_of(block, ribbon.planes)),
            shift: (start % BLOCK_SLOTS) as u32,
            row: coefficients(mixed),
            fingerprint,
        }
    }
}

/// What a lookup in the first layer needs of it: its words and thresholds begin at 0. Without layers
/// there are 0 starts.
#[derive(Clone, Copy, Default, Debug)]
struct First {
    starts: u64,
    split: u32,
}

/// Where a lookup ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spot {
    /// The value is in this window.
    Body(Window),
    /// The value, with the wide number of bits.
    Stash(u64),
    /// The key was not in the set.
    Nowhere,
}

/// The share of absent keys that read narrow and wide values; the rest ends [`Spot::Nowhere`].
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Shares {
    pub(crate) narrow: f64,
    pub(crate) wide: f64,
}

/// The resident part of a ribbon.
#[derive(Debug)]
pub(crate) struct Ribbon {
    pub(crate) planes: Planes,
    first: First,
    /// The layers that bump, largest first.
    pub(crate) layers: Vec<Layer>,
    /// The layer that does not.
    pub(crate) tail: Option<Layer>,
    /// Thresholds of all bumping layers, two bits each, lowest bits first.
    pub(crate) thresholds: Vec<u8>,
    /// Keys that no layer holds, ascending by the hash of the layer after the last that bumps.
    pub(crate) stash: Vec<Row>,
}

impl Ribbon {
    /// Without layers yet.
    pub(crate) fn new(planes: Planes) -> Self {
        Self {
            planes,
            first: First::default(),
            layers: Vec::new(),
            tail: None,
            thresholds: Vec::new(),
            stash: Vec::new(),
        }
    }

    /// Adds a layer that bumps, after those there are.
    pub(crate) fn push(&mut self, layer: Layer) {
        if self.layers.is_empty() {
            self.first = First {
                starts: layer.starts(),
                split: layer.split,
            };
        }
        self.layers.push(layer);
    }

    /// The window in the first layer, where most keys are, from a key's mixed hash; `None` if it is
    /// bumped from there. The fingerprint is passed on. Without `SPLIT` the planes must be equal.
    #[inline(always)]
    pub(crate) fn locate_first<const SPLIT: bool>(
        &self,
        mixed: u64,
        fingerprint: u64,
    ) -> Option<Window> {
        let start = start_of(mixed, self.first.starts);
        // Without layers there are no thresholds either.
        let codes = *self
            .thresholds
            .get((start / (4 * BUCKET_STARTS)) as usize)?;
        if start % BUCKET_STARTS < bumped(codes, start / BUCKET_STARTS) {
            return None;
        }
        let Planes { narrow, wide } = self.planes;
        let block = start / BLOCK_SLOTS;
        let (beyond, wider) = match block.checked_sub(u64::from(self.first.split)) {
            Some(beyond) if SPLIT => (beyond, wide),
            _ => (0, narrow),
        };
        Some(Window {
            first: block * u64::from(narrow) + beyond,
            block,
            planes: u32::from(wider),
            shift: (start % BLOCK_SLOTS) as u32,
            row: coefficients(mixed),
            fingerprint,
        })
    }

    /// Finds the place of a key's value that is not in the first layer, from the same mixed hash.
    #[inline(never)]
    pub(crate) fn locate_bumped(&self, mixed: u64, fingerprint: u64) -> Spot {
        let mut mixed = mixed;
        for layer in self.layers.iter().skip(1) {
            mixed = remix(mixed);
            if let Some(window) = self.try_layer(layer, mixed, fingerprint) {
                return Spot::Body(window);
            }
        }
        // The stash and the tail take the hash after that of the last layer that bumps.
        if !self.layers.is_empty() {
            mixed = remix(mixed);
        }
        self.locate_last(mixed, fingerprint)
    }

    /// The window in this layer, unless the key is bumped from it.
    #[inline(always)]
    fn try_layer(&self, layer: &Layer, mixed: u64, fingerprint: u64) -> Option<Window> {
        let start = start_of(mixed, layer.starts());
        let bumped = start % BUCKET_STARTS < self.bumped(layer, start / BUCKET_STARTS);
        (!bumped).then(|| layer.window(start, mixed, self, fingerprint))
    }

    fn locate_last(&self, mixed: u64, fingerprint: u64) -> Spot {
        if let Ok(index) = self.stash.binary_search_by_key(&mixed, |row| row.bits) {
            return Spot::Stash(self.stash[index].value);
        }
        match &self.tail {
            Some(tail) => {
                let start = start_of(mixed, tail.starts());
                Spot::Body(tail.window(start, mixed, self, fingerprint))
            }
            None => Spot::Nowhere,
        }
    }

    /// Number of starts at the beginning of a bucket that are bumped.
    #[inline]
    fn bumped(&self, layer: &Layer, bucket: u64) -> u64 {
        // Four codes per byte; the bucket's index is bounded by the length that was parsed.
        let codes = self.thresholds[layer.first_threshold + (bucket / 4) as usize];
        bumped(codes, bucket)
    }

    /// Words of the body.
    pub(crate) fn body_words(&self) -> u64 {
        let all = self.layers.iter().chain(&self.tail);
        all.map(|layer| layer.words(self.planes)).sum()
    }

    /// Blocks of all layers.
    pub(crate) fn block_count(&self) -> u64 {
        let all = self.layers.iter().chain(&self.tail);
        all.map(|layer| u64::from(layer.blocks)).sum()
    }

    /// Of each block in the order of the body, its first word and its planes.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (u64, u8)> {
        let all = self.layers.iter().chain(&self.tail);
        all.flat_map(|layer| {
            let blocks = 0..u64::from(layer.blocks);
            blocks.map(|block| {
                let planes = layer.planes_of(block, self.planes);
                (layer.word_of(block, self.planes), planes)
            })
        })
    }

    /// Bits per value, averaged over the slots.
    pub(crate) fn bits_mean(&self) -> f64 {
        match self.block_count() {
            0 => f64::from(self.planes.narrow),
            blocks => self.body_words() as f64 / blocks as f64,
        }
    }

    /// How absent keys are spread over narrow values, wide values and nothing.
    pub(crate) fn shares(&self) -> Shares {
        let mut shares = Shares::default();
        let mut reach = 1.0;
        for layer in &self.layers {
            let split = u64::from(layer.split) * BLOCK_SLOTS;
            let (mut narrow, mut wide) = (0, 0);
            for bucket in 0..layer.buckets() {
                let first = bucket * BUCKET_STARTS + self.bumped(layer, bucket);
                let end = ((bucket + 1) * BUCKET_STARTS).min(layer.starts());
                narrow += end.min(split).saturating_sub(first);
                wide += end.saturating_sub(first.max(split));
            }
            let starts = layer.starts() as f64;
            shares.narrow += reach * narrow as f64 / starts;
            shares.wide += reach * wide as f64 / starts;
            reach *= 1.0 - (narrow + wide) as f64 / starts;
        }
        if let Some(tail) = &self.tail {
            let narrow = (u64::from(tail.split) * BLOCK_SLOTS).min(tail.starts()) as f64;
            let share = narrow / tail.starts() as f64;
            shares.narrow += reach * share;
            shares.wide += reach * (1.0 - share);
        }
        shares
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.layers.capacity() * size_of::<Layer>()
            + self.thresholds.capacity()
            + self.stash.capacity() * size_of::<Row>()
    }

    /// Appends the header bytes; `docs/format.md` has the table.
    pub(crate) fn encode(&self, header: &mut Vec<u8>) {
        // There are LAYERS_MAX at most.
        header.push(self.planes.narrow);
        header.push(self.planes.wide);
        header.push(self.layers.len() as u8);
        header.push(u8::from(self.tail.is_some()));
        let stashed = u32::try_from(self.stash.len());
        let stashed = stashed.expect("a ribbon has fewer than 2^32 keys");
        header.extend(stashed.to_le_bytes());
        for layer in self.layers.iter().chain(&self.tail) {
            header.extend(layer.blocks.to_le_bytes());
            header.extend(layer.split.to_le_bytes());
        }
        header.extend(&self.thresholds);
        for row in &self.stash {
            header.extend(row.bits.to_le_bytes());
        }
        for row in &self.stash {
            header.extend(&row.value.to_le_bytes()[..self.planes.value_bytes()]);
        }
    }

    /// Reads what [`encode`](Self::encode) wrote and checks it against the length of the body.
    pub(crate) fn parse(fields: &mut Fields<'_>, body_words: u64) -> Result<Self> {
        let narrow = fields.u8("ribbon header: narrow planes cut short")?;
        let wide = fields.u8("ribbon header: wide planes cut short")?;
        let extra = wide.checked_sub(narrow);
        let planes_fit = (1..=64).contains(&narrow) && wide <= 64 && matches!(extra, Some(0 | 1));
        require(planes_fit, "ribbon header: planes out of bounds")?;
        let planes = Planes { narrow, wide };
        let layer_count = usize::from(fields.u8("ribbon header: layer count cut short")?);
        require(layer_count <= LAYERS_MAX, "ribbon header: too many layers")?;
        let has_tail = fields.u8("ribbon header: tail count cut short")?;
        require(has_tail <= 1, "ribbon header: more than one tail")?;
        let stash_count = fields.u32("ribbon header: stash count cut short")?;

        let mut layers = Vec::with_capacity(layer_count + 1);
        let (mut first_word, mut first_block, mut threshold_bytes) = (0, 0, 0);
        for index in 0..layer_count + usize::from(has_tail) {
            let mut layer = parse_layer(fields, planes)?;
            (layer.first_word, layer.first_block) = (first_word, first_block);
            layer.first_threshold = usize::try_from(threshold_bytes).unwrap_or(usize::MAX);
            // At most 17 layers of less than 2^32 blocks of 64 words: far from overflow.
            first_word += layer.words(planes);
            first_block += u64::from(layer.blocks);
            if index < layer_count {
                threshold_bytes += layer.threshold_bytes();
            }
            layers.push(layer);
        }
        require(
            first_word == body_words,
            "ribbon header: layers do not fill the body",
        )?;
        let tail = if has_tail == 1 { layers.pop() } else { None };
        let thresholds = fields.bytes(threshold_bytes, "ribbon header: thresholds cut short")?;
        let stash = parse_stash(fields, stash_count, planes)?;
        let mut ribbon = Self::new(planes);
        // As many as there are: of a small segment's filter, each takes a share that counts.
        ribbon.layers.reserve_exact(layers.len());
        layers.into_iter().for_each(|layer| ribbon.push(layer));
        ribbon.tail = tail;
        ribbon.thresholds = thresholds.to_vec();
        ribbon.stash = stash;
        Ok(ribbon)
    }
}

/// The same, from the byte that has the bucket's code.
#[inline(always)]
fn bumped(codes: u8, bucket: u64) -> u64 {
    u64::from(BUMPED_STARTS[usize::from(codes >> (bucket % 4 * 2) & 3)])
}

fn parse_layer(fields: &mut Fields<'_>, planes: Planes) -> Result<Layer> {
    let blocks = fields.u32("ribbon header: layer blocks cut short")?;
    let split = fields.u32("ribbon header: layer split cut short")?;
    require(blocks > 0, "ribbon header: a layer without blocks")?;
    let splits = split <= blocks && (planes.wide > planes.narrow || split == blocks);
    require(splits, "ribbon header: split out of bounds")?;
    Ok(Layer {
        blocks,
        split,
        first_word: 0,
        first_block: 0,
        first_threshold: 0,
    })
}

fn parse_stash(fields: &mut Fields<'_>, count: u32, planes: Planes) -> Result<Vec<Row>> {
    let value_bytes = planes.value_bytes();
    let count = u64::from(count);
    let hashes = fields.bytes(count * 8, "ribbon header: stash hashes cut short")?;
    let values = fields.bytes(
        count * value_bytes as u64,
        "ribbon header: stash values cut short",
    )?;
    let hashes = hashes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|bytes| u64::from_le_bytes(*bytes));
    let values = values.chunks_exact(value_bytes).map(|bytes| {
        let mut wide = [0; 8];
        wide[..value_bytes].copy_from_slice(bytes);
        u64::from_le_bytes(wide)
    });
    let stash: Vec<Row> = hashes
        .zip(values)
        .map(|(bits, value)| Row { bits, value })
        .collect();
    require(
        stash.is_sorted_by(|a, b| a.bits < b.bits),
        "ribbon header: stash out of order",
    )?;
    let excess = u64::MAX.checked_shl(u32::from(planes.wide)).unwrap_or(0);
    require(
        stash.iter().all(|row| row.value & excess == 0),
        "ribbon header: stash value too wide",
    )?;
    Ok(stash)
}
