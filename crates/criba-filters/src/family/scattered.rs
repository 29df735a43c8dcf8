//! Filters of the family as the filter of a segment: those whose probes are scattered over the body.
//!
//! They are there to be compared with the two that a segment should have. Of the words that a lookup
//! needs only the least range is known, and that is the whole body: no loss where the body is in
//! memory, and a reason not to take them where filters are read by pages, as each lookup then needs all
//! of them.
//!
//! How hashes are split is that of [`Classic`](super::Classic), [`Partitioned`](super::Partitioned),
//! [`Peeled`](super::Peeled) and [`Fuse`](super::Fuse), but from the mixed hash of the segment's filters;
//! the bytes are specified in `docs/format.md`.

use super::bits::{Bits, Cells, bit, cell};
use super::design::{probes_for, rate_for};
use super::fuse::segments;
use super::hashing::stepped_positions;
use super::held;
use super::partitioned::partitioned_rate;
use super::peel::{ATTEMPTS_MAX, Graph, KEYS_MAX, solve};
use super::peeled::thirds;
use super::values::Layout;
use crate::KeyHash;
use crate::hash::{mix, remix};
use crate::segment::band::Row;
use crate::segment::header::{Fields, require};
use crate::segment::lookup::{Answer, Lookup, Window};
use crate::segment::spec::clamp_bits;
use crate::segment::{Build, Built, Damaged, FilterKind, Scattered};

/// First byte of the header. Written to disk; must not be changed.
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 32;

/// Bits of the whole body per key and cells of it per key, for what is built of cells.
fn graph_for(shape: Scattered, keys: u64) -> Option<Graph> {
    match shape {
        Scattered::Peeled => Some(thirds(keys)),
        Scattered::Fuse => Some(segments(keys)),
        _ => None,
    }
}

/// Bits that a key may take without overhead, in a filter of so many keys and bits for each: those of
/// the body, or of a cell.
pub(crate) fn value_bits(shape: Scattered, keys: u64, bits_per_key: f64) -> f64 {
    let bits = clamp_bits(bits_per_key);
    match graph_for(shape, keys) {
        None if shape.is_held() => held::value_bits(shape, keys, bits),
        None => bits,
        Some(graph) => {
            let share = keys as f64 / graph.cells() as f64;
            (bits * share).floor().clamp(1.0, 64.0)
        }
    }
}

/// Builds filter bytes; see [`crate::segment::build`]. Where peeling fails with all salts that are tried,
/// which distinct hashes make practically impossible, or a filter of fingerprints does not take all keys,
/// it is a classic one.
pub(crate) fn build(input: &Build<'_>, shape: Scattered, bits_per_key: f64) -> Built {
    let held = Some(shape).filter(|shape| shape.is_held());
    if let Some(built) = held.and_then(|shape| held::build(input, shape, bits_per_key)) {
        return built;
    }
    let keys = input.hashes.len() as u64;
    let cell_bits = value_bits(shape, keys, bits_per_key) as u8;
    let peeled = graph_for(shape, keys)
        .filter(|_| keys > 0)
        .and_then(|graph| peel(input, shape, graph, cell_bits));
    let (filter, body) = peeled.unwrap_or_else(|| bloom(input, shape, clamp_bits(bits_per_key)));
    Built {
        kind: filter.shape.kind(),
        header: filter.encode(),
        designed_rate: filter.designed_rate(),
        // They tell no place that could be another key's.
        equal_hashes: false,
        body,
    }
}

fn bloom(input: &Build<'_>, shape: Scattered, bits_per_key: f64) -> (ScatteredFilter, Vec<u64>) {
    let keys = input.hashes.len() as u64;
    let bits = (keys as f64 * bits_per_key).ceil().min(BODY_BITS_MAX) as u64;
    // At most 128.
    let probes = probes_for(bits, keys) as u8;
    let parted = shape == Scattered::Partitioned && bits >= u64::from(probes);
    let (shape, size) = if parted {
        (shape, bits / u64::from(probes))
    } else {
        (Scattered::Classic, bits)
    };
    let filter = ScatteredFilter {
        shape,
        width: probes,
        segment_bits: 0,
        salt: input.salt,
        key_count: keys,
        size,
    };
    let len = filter.body_bits().unwrap_or(0);
    let Ok(mut array) = Bits::new(len) else {
        return (filter, Vec::new());
    };
    for &hash in input.hashes {
        for at in filter.positions(mix(hash, input.salt)) {
            array.set(at);
        }
    }
    (filter, array.words().to_vec())
}

/// Most bits of a body: 2^36, as everywhere in the family. A segment is far smaller.
const BODY_BITS_MAX: f64 = (1u64 << 36) as f64;

fn peel(
    input: &Build<'_>,
    shape: Scattered,
    graph: Graph,
    cell_bits: u8,
) -> Option<(ScatteredFilter, Vec<u64>)> {
    let layout = Layout::new(0, u32::from(cell_bits)).ok()?;
    if input.hashes.len() > KEYS_MAX {
        return None;
    }
    let mut salt = input.salt;
    for _ in 0..ATTEMPTS_MAX {
        let row = |hash: &KeyHash| {
            let bits = mix(*hash, salt);
            let value = layout.cell(0, bits);
            Row { bits, value }
        };
        let mut rows: Vec<Row> = input.hashes.iter().map(row).collect();
        rows.sort_unstable_by_key(|row| row.bits);
        rows.dedup_by_key(|row| row.bits);
        let mut cells = Cells::new(graph.cells(), layout.cell_bits).ok()?;
        if solve(graph, &rows, &mut cells) {
            let (segment_bits, size) = match graph {
                Graph::Thirds { third } => (0, third),
                Graph::Segments {
                    segment_bits,
                    starts,
                } => (segment_bits as u8, starts),
            };
            let filter = ScatteredFilter {
                shape,
                width: cell_bits,
                segment_bits,
                salt,
                key_count: input.hashes.len() as u64,
                size,
            };
            return Some((filter, cells.into_words()));
        }
        salt = remix(salt);
    }
    None
}

/// The resident part.
#[derive(Debug)]
pub(crate) struct ScatteredFilter {
    shape: Scattered,
    /// Probes, 1 to 128, or bits of a cell, 1 to 64.
    width: u8,
    /// Fuse: cells of a segment, as a power of 2.
    segment_bits: u8,
    salt: u64,
    key_count: u64,
    /// Bits of the body (classic) or of a part; cells of a third; segments that may be the first. 0
    /// exactly when there are no keys.
    size: u64,
}

impl ScatteredFilter {
    fn encode(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend([VERSION, self.width, self.segment_bits]);
        header.extend([0; 5]);
        header.extend(self.salt.to_le_bytes());
        header.extend(self.key_count.to_le_bytes());
        header.extend(self.size.to_le_bytes());
        header
    }

    pub(crate) fn parse(shape: Scattered, header: &[u8], body_words: u64) -> Result<Self, Damaged> {
        let mut fields = Fields::new(header);
        let version = fields.u8("scattered header: version cut short")?;
        require(version == VERSION, "scattered header: unknown version")?;
        let width = fields.u8("scattered header: width cut short")?;
        let segment_bits = fields.u8("scattered header: segment bits cut short")?;
        let reserved = fields.bytes(5, "scattered header: reserved bytes cut short")?;
        require(
            reserved == [0; 5],
            "scattered header: reserved bytes not zero",
        )?;
        let filter = Self {
            shape,
            width,
            segment_bits,
            salt: fields.u64("scattered header: salt cut short")?,
            key_count: fields.u64("scattered header: key count cut short")?,
            size: fields.u64("scattered header: size cut short")?,
        };
        fields.end()?;
        let (width_max, segment_bits_max) = match shape {
            Scattered::Peeled => (64, 0),
            Scattered::Fuse => (64, super::peel::SEGMENT_BITS_MAX),
            _ => (128, 0),
        };
        require(
            (1..=width_max).contains(&width) && segment_bits <= segment_bits_max,
            "scattered header: width out of bounds",
        )?;
        require(
            (filter.key_count == 0) == (filter.size == 0),
            "scattered header: keys without body",
        )?;
        let words = filter.body_bits().map(|bits| bits.div_ceil(64));
        require(
            words == Some(body_words) && u32::try_from(body_words).is_ok(),
            "scattered header: size does not fill the body",
        )?;
        Ok(filter)
    }

    /// Bits of the body; `None` if they are too many to count.
    fn body_bits(&self) -> Option<u64> {
        if self.size == 0 {
            return Some(0);
        }
        let width = u64::from(self.width);
        match self.shape {
            Scattered::Partitioned => self.size.checked_mul(width),
            Scattered::Peeled => self.size.checked_mul(3)?.checked_mul(width),
            Scattered::Fuse => {
                let cells = self
                    .size
                    .checked_add(2)?
                    .checked_mul(1 << self.segment_bits);
                cells?.checked_mul(width)
            }
            _ => Some(self.size),
        }
    }

    fn graph(&self) -> Graph {
        match self.shape {
            Scattered::Fuse => Graph::Segments {
                segment_bits: u32::from(self.segment_bits),
                starts: self.size,
            },
            _ => Graph::Thirds { third: self.size },
        }
    }

    /// The bits of a key, of a filter of bits.
    #[inline]
    fn positions(&self, mixed: u64) -> impl Iterator<Item = u64> + use<> {
        let part = if self.shape == Scattered::Partitioned {
            self.size
        } else {
            0
        };
        (0..u64::from(self.width))
            .zip(stepped_positions(mixed, self.size))
            .map(move |(number, at)| number * part + at)
    }

    #[inline]
    pub(crate) fn locate(&self, hash: KeyHash) -> Lookup {
        let words = self.body_bits().unwrap_or(0).div_ceil(64);
        if words == 0 {
            return Lookup::Answered(Answer::No);
        }
        // The whole body, which is no longer than 2^32 words.
        Lookup::Window(Window {
            first: 0,
            block: 0,
            planes: words as u32,
            shift: 0,
            row: mix(hash, self.salt),
            fingerprint: 0,
        })
    }

    /// `words` are those of the window.
    #[inline]
    pub(crate) fn answer(&self, window: &Window, words: &[u64]) -> Answer {
        if words.len() as u64 != self.body_bits().unwrap_or(0).div_ceil(64) || words.is_empty() {
            return Answer::Maybe;
        }
        let mixed = window.row;
        let passes = match self.shape {
            Scattered::Peeled | Scattered::Fuse => {
                let width = u32::from(self.width);
                let [a, b, c] = self.graph().of(mixed).map(|at| cell(words, width, at));
                let layout = Layout {
                    value_bits: 0,
                    cell_bits: width,
                };
                layout.value(a ^ b ^ c, mixed).is_some()
            }
            _ => self.positions(mixed).all(|at| bit(words, at)),
        };
        if passes { Answer::Maybe } else { Answer::No }
    }

    pub(crate) fn designed_rate(&self) -> f64 {
        match self.shape {
            _ if self.key_count == 0 => 0.0,
            Scattered::Partitioned => {
                partitioned_rate(self.size, u32::from(self.width), self.key_count)
            }
            Scattered::Peeled | Scattered::Fuse => (-f64::from(self.width)).exp2(),
            _ => rate_for(self.size, u32::from(self.width), self.key_count),
        }
    }

    /// Bits of the body per key, or of a cell.
    pub(crate) fn bits_mean(&self) -> f64 {
        match self.shape {
            Scattered::Peeled | Scattered::Fuse => f64::from(self.width),
            _ => self.body_bits().unwrap_or(0) as f64 / self.key_count.max(1) as f64,
        }
    }

    pub(crate) fn key_count(&self) -> u64 {
        self.key_count
    }

    pub(crate) fn kind(&self) -> FilterKind {
        self.shape.kind()
    }
}
