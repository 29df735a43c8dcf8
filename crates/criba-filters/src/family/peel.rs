//! Static functions by peeling: a key's cell is the XOR of three cells.
//!
//! Majewski, Wormald, Havas, Czech, "A family of perfect hashing methods" (1996); Botelho, Pagh,
//! Ziviani, "Simple and space-efficient minimal perfect hash functions" (2007). Keys are the edges of
//! a hypergraph with three cells each. A cell that only one key still has is taken from that key, and
//! the key from the graph; if that takes all keys, the cells are filled in the opposite order, each
//! key with one cell that no earlier one needs. Whether it does depends on cells per key: almost
//! always above 1.222 where cells are random, above 1.09 where a key's cells are neighbours.
//!
//! Memory to build: 16 bytes per key for the rows, 8 per cell and 8 per key for the order.

use super::bits::Cells;
use super::frame::{self, Fields, Kind, require};
use super::values::{EQUAL_MAX, Layout};
use crate::error::{Error, Result};
use crate::hash::start_of;
use crate::hash_key;
use crate::segment::band::Row;

/// Keys and cells are numbered in 32 bits while building.
pub(super) const KEYS_MAX: usize = 1 << 31;
/// Seeds that are tried. The first is nearly always enough, see `docs/filters/peeled.md`.
pub(super) const ATTEMPTS_MAX: u32 = 100;

/// Which three cells a key has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Graph {
    /// One at random in each third of so many cells.
    Thirds { third: u64 },
    /// One at random in each of three consecutive segments.
    Segments {
        /// Cells of a segment, as a power of 2.
        segment_bits: u32,
        /// Segments that may be the first of the three, at least 1.
        starts: u64,
    },
}

impl Graph {
    /// All cells; saturated, and then refused, where there are too many.
    pub(super) fn cells(self) -> u64 {
        match self {
            Self::Thirds { third } => third.saturating_mul(3),
            Self::Segments {
                segment_bits,
                starts,
            } => starts.saturating_add(2).saturating_mul(1 << segment_bits),
        }
    }

    /// Three different cells.
    #[inline]
    pub(super) fn of(self, mixed: u64) -> [u64; 3] {
        match self {
            Self::Thirds { third } => {
                let at = |part: u32| {
                    u64::from(part) * third + start_of(mixed.rotate_left(21 * part), third)
                };
                [at(0), at(1), at(2)]
            }
            Self::Segments {
                segment_bits,
                starts,
            } => {
                let length = 1 << segment_bits;
                let first = start_of(mixed, starts * length);
                let within = length - 1;
                let second = (first + length) ^ (mixed >> 18 & within);
                let third = (first + 2 * length) ^ (mixed & within);
                [first, second, third]
            }
        }
    }

    fn put(self, payload: &mut Vec<u8>) {
        let (kind, number) = match self {
            Self::Thirds { third } => (0, third),
            Self::Segments {
                segment_bits,
                starts,
            } => (1 + segment_bits as u8, starts),
        };
        payload.push(kind);
        payload.extend(number.to_le_bytes());
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let kind = fields.u8("the graph is cut short")?;
        let number = fields.u64("the graph is cut short")?;
        require(number > 0, "there are no cells")?;
        require(kind <= 1 + SEGMENT_BITS_MAX, "segments are too long")?;
        Ok(match kind {
            0 => Self::Thirds { third: number },
            kind => Self::Segments {
                segment_bits: u32::from(kind - 1),
                starts: number,
            },
        })
    }
}

/// Longest segment, 2^18 cells.
pub(super) const SEGMENT_BITS_MAX: u8 = 18;

/// A static function of keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Function {
    seed: u64,
    keys: u64,
    layout: Layout,
    graph: Graph,
    cells: Cells,
    /// Seeds that were tried. Not stored.
    attempts: u32,
}

/// What a function is made of.
struct Input<I> {
    seed: u64,
    layout: Layout,
    /// Whether a key may be given twice, as it may in a set.
    equal_keys: bool,
    entries: I,
}

impl Function {
    /// A map of distinct keys to values of so many bits, with so many more to check; see
    /// [`Function::build`].
    pub(super) fn map<K: AsRef<[u8]>>(
        seed: u64,
        entries: &[(K, u64)],
        (value_bits, check_bits): (u32, u32),
        graph: impl Fn(u64) -> Graph,
    ) -> Result<Self> {
        let layout = Layout::new(value_bits, check_bits)?;
        entries
            .iter()
            .try_for_each(|(_, value)| layout.check_value(*value))?;
        let input = Input {
            seed,
            layout,
            equal_keys: false,
            entries: entries.iter().map(|(key, value)| (key.as_ref(), *value)),
        };
        Self::build(&input, graph)
    }

    /// A set of keys, of which so many bits are stored; see [`Function::build`].
    pub(super) fn set<K: AsRef<[u8]>>(
        seed: u64,
        keys: &[K],
        check_bits: u32,
        graph: impl Fn(u64) -> Graph,
    ) -> Result<Self> {
        let input = Input {
            seed,
            layout: Layout::new(0, check_bits)?,
            equal_keys: true,
            entries: keys.iter().map(|key| (key.as_ref(), 0)),
        };
        Self::build(&input, graph)
    }

    /// Solves with the first seed from the one given that has a solution. `graph` tells the shape for
    /// a number of distinct keys.
    fn build<'a, I>(input: &Input<I>, graph: impl Fn(u64) -> Graph) -> Result<Self>
    where
        I: Iterator<Item = (&'a [u8], u64)> + Clone,
    {
        let mut equal = 0;
        for attempt in 0..ATTEMPTS_MAX {
            let seed = input.seed.wrapping_add(u64::from(attempt));
            let rows = input.layout.rows(seed, input.entries.clone());
            let mut rows: Vec<Row> = rows.collect();
            if rows.len() > KEYS_MAX {
                return Error::invalid(format!(
                    "{} keys are more than one filter may have ({KEYS_MAX}): build several",
                    rows.len()
                ));
            }
            let given = rows.len();
            // By hash, so that keys with neighbouring cells are handled one after the other.
            rows.sort_unstable_by_key(|row| row.bits);
            rows.dedup_by_key(|row| row.bits);
            if rows.len() < given && !input.equal_keys {
                equal += 1;
                if equal == EQUAL_MAX {
                    return Err(Error::EqualKeys);
                }
                continue;
            }
            let graph = graph(rows.len() as u64);
            let mut cells = Cells::new(graph.cells(), input.layout.cell_bits)?;
            if solve(graph, &rows, &mut cells) {
                return Ok(Self {
                    seed,
                    keys: rows.len() as u64,
                    layout: input.layout,
                    graph,
                    cells,
                    attempts: attempt + 1,
                });
            }
        }
        Err(Error::Unsolvable {
            attempts: ATTEMPTS_MAX,
        })
    }

    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    pub(super) fn value_bits(&self) -> u32 {
        self.layout.value_bits
    }

    pub(super) fn encode(&self, kind: Kind, version: u8) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.extend(self.seed.to_le_bytes());
        payload.extend(self.keys.to_le_bytes());
        self.layout.put(&mut payload);
        self.graph.put(&mut payload);
        self.cells.put(&mut payload);
        frame::encode(kind, version, &payload)
    }

    pub(super) fn decode(kind: Kind, version: u8, bytes: &[u8]) -> Result<Self> {
        let mut fields = frame::decode(kind, version, bytes)?;
        let seed = fields.u64("the seed is cut short")?;
        let keys = fields.u64("the number of keys is cut short")?;
        let layout = Layout::read(&mut fields)?;
        let graph = Graph::read(&mut fields)?;
        let cells = Cells::read(&mut fields)?;
        fields.end()?;
        let fits = cells.width() == layout.cell_bits && cells.count() == graph.cells();
        require(fits, "cells are not those of the graph")?;
        Ok(Self {
            seed,
            keys,
            layout,
            graph,
            cells,
            attempts: 0,
        })
    }

    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<u64> {
        let mixed = hash_key(self.seed, key).0;
        let [a, b, c] = self.graph.of(mixed).map(|at| self.cells.get(at));
        // Without keys all cells are zero, which is some key's fingerprint.
        self.layout
            .value(a ^ b ^ c, mixed)
            .filter(|_| self.keys > 0)
    }

    pub(super) fn len(&self) -> u64 {
        self.keys
    }

    pub(super) fn bits(&self) -> u64 {
        self.cells.bits()
    }

    pub(super) fn rate(&self) -> f64 {
        if self.keys == 0 {
            0.0
        } else {
            self.layout.rate()
        }
    }
}

/// Keys that still have a cell: how many, and the XOR of their numbers.
#[derive(Clone, Copy, Default)]
struct Meeting {
    count: u32,
    keys: u32,
}

/// Fills the cells so that the three of each row XOR to its value; whether that could be done. Rows
/// are distinct and fewer than 2^31, cells fewer than 2^32.
pub(super) fn solve(graph: Graph, rows: &[Row], cells: &mut Cells) -> bool {
    let mut meetings = vec![Meeting::default(); cells.count() as usize];
    for (key, row) in (0u32..).zip(rows) {
        for at in graph.of(row.bits) {
            let meeting = &mut meetings[at as usize];
            meeting.count += 1;
            meeting.keys ^= key;
        }
    }
    let order = peel(graph, rows, &mut meetings);
    if order.len() < rows.len() {
        return false;
    }
    for (key, cell) in order.into_iter().rev() {
        let row = &rows[key as usize];
        // The cell itself is still zero.
        let others = graph.of(row.bits).map(|at| cells.get(at));
        cells.set(u64::from(cell), others.iter().fold(row.value, |a, b| a ^ b));
    }
    true
}

/// Keys with the cell that each was the last to have, in the order in which they were taken.
fn peel(graph: Graph, rows: &[Row], meetings: &mut [Meeting]) -> Vec<(u32, u32)> {
    let mut order = Vec::with_capacity(rows.len());
    let mut alone: Vec<u32> = Vec::new();
    for first in 0..meetings.len() {
        alone.push(first as u32);
        while let Some(cell) = alone.pop() {
            let Meeting { count, keys: key } = meetings[cell as usize];
            if count != 1 {
                continue;
            }
            order.push((key, cell));
            for at in graph.of(rows[key as usize].bits) {
                let meeting = &mut meetings[at as usize];
                meeting.count -= 1;
                meeting.keys ^= key;
                if meeting.count == 1 {
                    alone.push(at as u32);
                }
            }
        }
    }
    order
}
