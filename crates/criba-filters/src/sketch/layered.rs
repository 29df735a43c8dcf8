//! Bloom filters one behind the other, to count up to their number.
//!
//! A key is written to the first layer that does not hold it yet, so layer `i + 1` is written only
//! when layer `i` already held the key, and the number of layers that hold it, from the first on
//! without a gap, is how often it came. The count is never too low, up to the number of layers; it
//! is too high when the next layer holds the key by chance, so with the rate of false positives of
//! that layer.
//!
//! Memory: `1.44 log2(1/p)` bits for each key of each layer, where layer `i` has the keys that came
//! `i` times or more. In a skewed stream the upper layers are small, and the whole is far smaller
//! than one filter with a counter for each bit. An insertion asks as many layers as the key has
//! come times.
//!
//! Keys cannot be removed. Merging keeps the layers of both, one stack beside the other, and a
//! count is the sum over the stacks: layers united one by one would count a key that came once in
//! each stream as one. So a merged structure takes the memory of both.

use crate::error::Result;
use crate::family::frame;
use crate::{KeyHash, Merge, Sketch};

use super::counting::{put_shape, read_shape};
use super::rows::probes;
use super::sizing::{self, check_few, invalid};

const KIND: frame::Kind = *b"LAYR";
const VERSION: u8 = 2;
const WORD_BITS: u64 = 64;

/// Layers of Bloom filters that count keys.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/layered.md`.
///
/// ```
/// use criba_filters::{LayeredBloom, Sketch};
///
/// // 1,000 keys come, 200 of them twice or more, 50 three times or more.
/// let mut often = LayeredBloom::with_rate(0.01, &[1_000, 200, 50])?;
/// for word in "the quick brown fox jumps over the lazy dog".split(' ') {
///     often.insert(word);
/// }
/// assert!(often.estimate("the") >= 2);
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayeredBloom {
    /// The first one is written to; the others came by merging. All have layers of one shape.
    ///
    /// Invariant: 1 to 255 stacks of 1 to 255 layers.
    stacks: Vec<Vec<Layer>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Layer {
    bits: u64,
    probes: u8,
    words: Box<[u64]>,
}

impl LayeredBloom {
    /// Layers that count too high with a probability of `rate`, once the first one holds the first
    /// number of distinct keys, the second one the second, and so on: those that came at least
    /// once, at least twice, ...
    ///
    /// # Errors
    ///
    /// If `rate` is not above 0 and below 1, if there are not 1 to 255 layers, or if a layer would
    /// need more than 2^32 bits.
    pub fn with_rate(rate: f64, keys_by_layer: &[u64]) -> Result<LayeredBloom> {
        let layers = u8::try_from(keys_by_layer.len()).unwrap_or(0);
        check_few("layers", layers, u8::MAX)?;
        let layer = |keys: &u64| {
            let (bits, probes) = sizing::bloom(*keys, rate)?;
            Ok(Layer {
                bits,
                probes,
                words: vec![0; word_count(bits)].into_boxed_slice(),
            })
        };
        let layers = keys_by_layer.iter().map(layer).collect::<Result<_>>()?;
        Ok(LayeredBloom {
            stacks: vec![layers],
        })
    }

    /// Counts a key once more. Returns how often it had come before, as
    /// [`estimate`](Self::estimate) does; 0 is certain.
    pub fn increment(&mut self, key: impl Into<KeyHash>) -> u8 {
        let hash = key.into();
        let before = self.estimate(hash);
        if before < self.layers()
            && let Some(stack) = self.stacks.first_mut()
        {
            let own = held(stack, hash);
            if let Some(layer) = stack.get_mut(own) {
                layer.insert(hash, own as u64);
            }
        }
        before
    }

    /// How often the key came, up to the number of layers: never less than that.
    #[must_use]
    pub fn estimate(&self, key: impl Into<KeyHash>) -> u8 {
        let hash = key.into();
        let count: usize = self.stacks.iter().map(|stack| held(stack, hash)).sum();
        count.min(usize::from(self.layers())) as u8
    }

    /// Whether a key may have come at all; `false` is certain.
    #[must_use]
    pub fn may_contain(&self, key: impl Into<KeyHash>) -> bool {
        let hash = key.into();
        let mut firsts = self.stacks.iter().filter_map(|stack| stack.first());
        firsts.any(|first| first.holds(hash, 0))
    }

    /// The number of layers in a stack: the most that can be counted to.
    #[must_use]
    pub fn layers(&self) -> u8 {
        self.first().len() as u8
    }

    /// The number of stacks: 1, and 1 more for each structure that was merged into this one.
    #[must_use]
    pub fn stacks(&self) -> u8 {
        self.stacks.len() as u8
    }

    fn first(&self) -> &[Layer] {
        self.stacks.first().map_or(&[], Vec::as_slice)
    }

    fn shape(&self) -> impl Iterator<Item = (u64, u8)> {
        self.first().iter().map(|layer| (layer.bits, layer.probes))
    }

    /// Probability that a layer, counted from 0, holds a key by chance now, in one of the stacks:
    /// from the fills. That is how likely a key that came as many times is counted too high. `None`
    /// if there is no such layer.
    #[must_use]
    pub fn current_rate(&self, layer: u8) -> Option<f64> {
        let layers = self
            .stacks
            .iter()
            .map(|stack| stack.get(usize::from(layer)));
        let passed_by = layers.map(|layer| Some(1.0 - layer?.rate()));
        Some(1.0 - passed_by.product::<Option<f64>>()?)
    }

    /// Probability that a layer of one stack, counted from 0, holds a key by chance once it holds
    /// so many distinct keys, by theory. `None` if there is no such layer.
    #[must_use]
    pub fn rate_with(&self, layer: u8, keys: u64) -> Option<f64> {
        let layer = self.first().get(usize::from(layer))?;
        Some(sizing::bloom_rate(layer.bits, layer.probes, keys))
    }
}

impl Sketch for LayeredBloom {
    fn insert_hash(&mut self, hash: KeyHash) {
        self.increment(hash);
    }

    fn memory_bytes(&self) -> usize {
        let bytes = |layer: &Layer| size_of::<Layer>() + size_of_val::<[u64]>(&layer.words);
        let layers = self.stacks.iter().flatten().map(bytes).sum::<usize>();
        size_of::<Self>() + size_of_val::<[Vec<Layer>]>(&self.stacks) + layers
    }

    /// The layers as bytes: two for the number of stacks and of layers, 9 for the shape of each
    /// layer, and its bits in whole words for each stack, framed.
    fn to_bytes(&self) -> Vec<u8> {
        let mut payload = vec![self.stacks(), self.layers()];
        for shape in self.shape() {
            put_shape(&mut payload, shape);
        }
        for layer in self.stacks.iter().flatten() {
            frame::put_words(&mut payload, &layer.words);
        }
        frame::encode(KIND, VERSION, &payload)
    }

    fn from_bytes(bytes: &[u8]) -> Result<LayeredBloom> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        let stacks = fields.u8("the number of stacks is cut short")?;
        let layers = fields.u8("the number of layers is cut short")?;
        frame::require(stacks > 0 && layers > 0, "there is no layer")?;
        let shapes: Vec<(u64, u8)> = (0..layers)
            .map(|_| read_shape(&mut fields))
            .collect::<Result<_>>()?;
        let mut stack = |_| {
            let layer = |shape: &(u64, u8)| Layer::read(&mut fields, *shape);
            shapes.iter().map(layer).collect()
        };
        let stacks = (0..stacks).map(&mut stack).collect::<Result<_>>()?;
        fields.end()?;
        Ok(LayeredBloom { stacks })
    }
}

impl Merge for LayeredBloom {
    /// Keeps the layers of both, so that a count is the sum of both counts, up to the number of
    /// layers, and never too low.
    fn merge(&mut self, other: &Self) -> Result<()> {
        if !self.shape().eq(other.shape()) {
            return Err(invalid(
                "layers of different sizes cannot be merged: make both for one rate and the same numbers \
                 of keys",
            ));
        }
        let stacks = self.stacks.len() + other.stacks.len();
        if stacks > usize::from(u8::MAX) {
            return Err(invalid(format!(
                "{stacks} stacks of layers are more than 255: choose a structure that does not grow when \
                 merged, such as count-min"
            )));
        }
        self.stacks.extend(other.stacks.iter().cloned());
        Ok(())
    }
}

/// How many layers hold the key, from the first on without a gap.
#[inline]
fn held(stack: &[Layer], hash: KeyHash) -> usize {
    let layers = (0..).zip(stack);
    let holding = layers.take_while(|(ordinal, layer)| layer.holds(hash, *ordinal));
    holding.count()
}

fn word_count(bits: u64) -> usize {
    usize::try_from(bits.div_ceil(WORD_BITS)).unwrap_or(usize::MAX)
}

/// The bits of the last word that belong to the layer.
fn last_mask(bits: u64) -> u64 {
    u64::MAX >> (bits.wrapping_neg() % WORD_BITS)
}

impl Layer {
    fn read(fields: &mut frame::Fields<'_>, (bits, probes): (u64, u8)) -> Result<Layer> {
        let words = fields.words(word_count(bits) as u64, "a layer is cut short")?;
        let last = words.last().copied().unwrap_or(0);
        let unused = last & !last_mask(bits);
        frame::require(unused == 0, "a bit after the last one is not zero")?;
        Ok(Layer {
            bits,
            probes,
            words: words.into_boxed_slice(),
        })
    }

    fn insert(&mut self, hash: KeyHash, ordinal: u64) {
        for bit in probes(hash, ordinal, (self.bits, self.probes)) {
            self.words[bit / 64] |= 1 << (bit % 64);
        }
    }

    #[inline]
    fn holds(&self, hash: KeyHash, ordinal: u64) -> bool {
        probes(hash, ordinal, (self.bits, self.probes))
            .all(|bit| self.words[bit / 64] >> (bit % 64) & 1 == 1)
    }

    fn rate(&self) -> f64 {
        let set: u64 = self
            .words
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum();
        (set as f64 / self.bits as f64).powi(i32::from(self.probes))
    }
}
