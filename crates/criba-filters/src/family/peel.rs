//! Static functions by peeling: a key's cell is the XOR of three cells.
//!
//! Majewski, Wormald, Havas, Czech, "A family of perfect hashing methods" (1996); Botelho, Pagh,
//! Ziviani, "Simple and space-efficient minimal perfect hash functions" (2007). Keys are the edges
//! of a hypergraph with three cells each. A cell that only one key still has is taken from that
//! key, and the key from the graph; if that takes all keys, the cells are filled in the opposite
//! order, each key with one cell that no earlier one needs. Whether it does depends on cells per
//! key: almost always above 1.222 where cells are random, above 1.09 where a key's cells are
//! neighbours.
//!
//! Memory to build: 16 bytes per key for the rows, 8 per cell and 8 per key for the order.

use super::bits::Cells;
use super::frame::{self, Fields, Kind, require};
use super::values::Layout;
use crate::KeyHash;
use crate::error::{Error, Result};
use crate::hash::{mix_for, start_of};
use crate::segment::band::Row;

/// Keys and cells are numbered in 32 bits while building.
pub(super) const KEYS_MAX: usize = 1 << 31;
/// Salts that are tried. The first is mostly enough, the second nearly always: see
/// `docs/filters/peeled.md`.
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
    salt: u64,
    keys: u64,
    layout: Layout,
    graph: Graph,
    cells: Cells,
    /// Salts that were tried. Not stored.
    attempts: u32,
}

impl Function {
    /// A map of distinct keys: rows of this layout with salt 0; see [`Function::build`].
    pub(super) fn map(
        layout: Layout,
        mut rows: Vec<Row>,
        graph: impl Fn(u64) -> Graph,
    ) -> Result<Self> {
        let given = rows.len();
        sort(&mut rows);
        if rows.len() < given {
            return Err(Error::EqualKeys);
        }
        Self::build(layout, rows, graph)
    }

    /// A set of keys, each of which counts once; see [`Function::build`].
    pub(super) fn set(
        layout: Layout,
        mut rows: Vec<Row>,
        graph: impl Fn(u64) -> Graph,
    ) -> Result<Self> {
        sort(&mut rows);
        Self::build(layout, rows, graph)
    }

    /// Solves with the first salt from 0 on that has a solution. `graph` gives the shape for a
    /// number of distinct keys.
    fn build(layout: Layout, mut rows: Vec<Row>, graph: impl Fn(u64) -> Graph) -> Result<Self> {
        if rows.len() > KEYS_MAX {
            return Error::invalid(format!(
                "{} keys are more than one filter may have ({KEYS_MAX}): build several",
                rows.len()
            ));
        }
        let graph = graph(rows.len() as u64);
        for attempt in 0..ATTEMPTS_MAX {
            let salt = u64::from(attempt);
            if attempt > 0 {
                for row in &mut rows {
                    *row = layout.resalted(row, salt - 1, salt);
                }
                sort(&mut rows);
            }
            let mut cells = Cells::new(graph.cells(), layout.cell_bits)?;
            if solve(graph, &rows, &mut cells) {
                return Ok(Self {
                    salt,
                    keys: rows.len() as u64,
                    layout,
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
        payload.extend(self.salt.to_le_bytes());
        payload.extend(self.keys.to_le_bytes());
        self.layout.put(&mut payload);
        self.graph.put(&mut payload);
        self.cells.put(&mut payload);
        frame::encode(kind, version, &payload)
    }

    pub(super) fn decode(kind: Kind, version: u8, bytes: &[u8]) -> Result<Self> {
        let mut fields = frame::decode(kind, version, bytes)?;
        let salt = fields.u64("the salt is cut short")?;
        let keys = fields.u64("the number of keys is cut short")?;
        let layout = Layout::read(&mut fields)?;
        let graph = Graph::read(&mut fields)?;
        let cells = Cells::read(&mut fields)?;
        fields.end()?;
        let fits = cells.width() == layout.cell_bits && cells.count() == graph.cells();
        require(fits, "cells are not those of the graph")?;
        Ok(Self {
            salt,
            keys,
            layout,
            graph,
            cells,
            attempts: 0,
        })
    }

    #[inline]
    pub(super) fn get(&self, hash: KeyHash) -> Option<u64> {
        let mixed = mix_for(hash, self.salt);
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

/// Brings rows into the order of their hashes, so that keys with neighbouring cells are handled one
/// after the other, and keeps one of those with equal hashes.
fn sort(rows: &mut Vec<Row>) {
    rows.sort_unstable_by_key(|row| row.bits);
    rows.dedup_by_key(|row| row.bits);
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
