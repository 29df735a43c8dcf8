//! Bloom filters one behind the other, to count up to their number.
//!
//! A key is written to the first layer that does not hold it yet, so layer `i + 1` is written only when
//! layer `i` already held the key, and the number of layers that hold it, from the first on without a
//! gap, is how often it came. The count is never too low, up to the number of layers; it is too high
//! when the next layer holds the key by chance, so with the rate of false positives of that layer.
//!
//! Memory: `1.44 log2(1/p)` bits for each key of each layer, where layer `i` has the keys that came `i`
//! times or more. In a skewed stream the upper layers are small, and the whole is far smaller than one
//! filter with a counter for each bit. An insertion asks as many layers as the key has come times.
//!
//! Keys cannot be removed, and two structures cannot be merged: a key that came once in each stream
//! would be in the first layer of both, and count as one.

use crate::KeyHash;
use crate::error::Result;
use crate::family::frame;

use super::counting::{put_shape, read_shape};
use super::rows::probes;
use super::sizing::{self, check_few};

const KIND: frame::Kind = *b"LAYR";
const VERSION: u8 = 1;
const WORD_BITS: u64 = 64;

/// Layers of Bloom filters that count keys.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/layered.md`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayeredBloom {
    /// Invariant: 1 to 255.
    layers: Vec<Layer>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Layer {
    bits: u64,
    probes: u8,
    words: Box<[u64]>,
}

impl LayeredBloom {
    /// Layers that count too high with a probability of `rate`, once the first one holds the first
    /// number of distinct keys, the second one the second, and so on: those that came at least once,
    /// at least twice, ...
    ///
    /// # Errors
    ///
    /// If `rate` is not above 0 and below 1, if there are not 1 to 255 layers, or if a layer would need
    /// more than 2^32 bits.
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
        Ok(LayeredBloom { layers })
    }

    /// Counts a key once more. Returns how often it had come before, as [`estimate`](Self::estimate)
    /// does; 0 is certain.
    pub fn insert(&mut self, hash: KeyHash) -> u8 {
        let before = self.estimate(hash);
        if let Some(layer) = self.layers.get_mut(usize::from(before)) {
            layer.insert(hash, u64::from(before));
        }
        before
    }

    /// How often the key came, up to the number of layers: never less than that.
    #[must_use]
    pub fn estimate(&self, hash: KeyHash) -> u8 {
        let layers = (0..).zip(&self.layers);
        let holding = layers.take_while(|(ordinal, layer)| layer.holds(hash, *ordinal));
        holding.count() as u8
    }

    /// Whether a key may have come at all; `false` is certain.
    #[must_use]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        self.layers
            .first()
            .is_some_and(|first| first.holds(hash, 0))
    }

    /// The number of layers: the most that can be counted to.
    #[must_use]
    pub fn layers(&self) -> u8 {
        self.layers.len() as u8
    }

    /// Probability that a layer, counted from 0, holds a key by chance now: from its fill. That is how
    /// likely a key that came as many times is counted too high. `None` if there is no such layer.
    #[must_use]
    pub fn false_positive_rate(&self, layer: u8) -> Option<f64> {
        self.layers.get(usize::from(layer)).map(Layer::rate)
    }

    /// Probability that a layer, counted from 0, holds a key by chance once it holds so many distinct
    /// keys, by theory. `None` if there is no such layer.
    #[must_use]
    pub fn expected_rate(&self, layer: u8, keys: u64) -> Option<f64> {
        let layer = self.layers.get(usize::from(layer))?;
        Some(sizing::bloom_rate(layer.bits, layer.probes, keys))
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let bytes = |layer: &Layer| size_of::<Layer>() + size_of_val::<[u64]>(&layer.words);
        size_of::<Self>() + self.layers.iter().map(bytes).sum::<usize>()
    }

    /// The layers as bytes: one for their number, 9 for the shape of each and its bits in whole words,
    /// framed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut payload = vec![self.layers()];
        for layer in &self.layers {
            put_shape(&mut payload, (layer.bits, layer.probes));
            frame::put_words(&mut payload, &layer.words);
        }
        frame::encode(KIND, VERSION, &payload)
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`](crate::Error::Unreadable) for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<LayeredBloom> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        let count = fields.u8("the number of layers is cut short")?;
        frame::require(count > 0, "there is no layer")?;
        let mut layers = Vec::new();
        for _ in 0..count {
            let (bits, probes) = read_shape(&mut fields)?;
            let words = fields.words(word_count(bits) as u64, "a layer is cut short")?;
            let unused = words
                .last()
                .is_some_and(|last| *last & !last_mask(bits) > 0);
            frame::require(!unused, "a bit after the last one is not zero")?;
            layers.push(Layer {
                bits,
                probes,
                words: words.into_boxed_slice(),
            });
        }
        fields.end()?;
        Ok(LayeredBloom { layers })
    }
}

fn word_count(bits: u64) -> usize {
    usize::try_from(bits.div_ceil(WORD_BITS)).unwrap_or(usize::MAX)
}

/// The bits of the last word that belong to the layer.
fn last_mask(bits: u64) -> u64 {
    u64::MAX >> (bits.wrapping_neg() % WORD_BITS)
}

impl Layer {
    fn insert(&mut self, hash: KeyHash, ordinal: u64) {
        for bit in probes(hash, ordinal, (self.bits, self.probes)) {
            self.words[bit / 64] |= 1 << (bit % 64);
        }
    }

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
