//! Codes of keys: numbers of 128 bits in the order of the keys.
//!
//! A code is the beginning of an arithmetic code (Rissanen 1976). The interval from 0 to 2^128 is
//! divided among the symbols by their frequencies, the part of the first symbol among those of the
//! second, and so on; the code is the lower end of the last interval. Symbol 0 is the end of a key,
//! which comes before everything that continues it, and symbol `b + 1` is the byte `b`.
//!
//! The frequencies of a symbol depend on the byte before it, where the segment has keys enough to
//! pay for as many tables.
//!
//! Invariants:
//! 1. Codes are monotone: of two keys the greater one has no smaller code. The intervals of two
//!    keys are the same up to the symbol where they differ, and disjoint and in order from there.
//! 2. A code looks at the first [`SYMBOLS_MAX`] symbols at most; that rounds downward.
//! 3. A symbol without a frequency ends the code, at the place where its interval would be.

use crate::Result;
use crate::fields::{Fields, require};

/// Symbols of a key that its code may depend on.
pub(super) const SYMBOLS_MAX: usize = 64;

/// Symbols that there are: the end, and each byte.
const SYMBOLS: usize = 257;

/// An interval is divided into 2^16 parts of equal length, and a few that are left.
const PART_BITS: u32 = 16;

/// The frequencies of a table, in such parts, sum to at most this.
const SUM_MAX: u64 = (1 << PART_BITS) - 1;

/// The number of the table for contexts that have none of their own.
const ANY: u16 = 256;

/// Bits of tables for each key, at most, that begin with the byte before.
const TABLE_BITS_PER_KEY: f64 = 0.25;

/// Bytes of a table on disk, and of each of its symbols.
const TABLE_BYTES: usize = 4;
const SYMBOL_BYTES: usize = 4;

/// Sums of frequencies: symbol `s` has those from `sums[s]` to below `sums[s + 1]`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Table {
    sums: Box<[u16; SYMBOLS + 1]>,
}

impl Table {
    fn of_frequencies(frequencies: &[u16; SYMBOLS]) -> Table {
        let mut sums = Box::new([0; SYMBOLS + 1]);
        for (symbol, frequency) in frequencies.iter().enumerate() {
            sums[symbol + 1] = sums[symbol] + frequency;
        }
        Table { sums }
    }

    /// Each symbol that came has a frequency of at least one.
    fn of_counts(counts: &[u32; SYMBOLS]) -> Table {
        let all: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        let distinct = counts.iter().filter(|&&count| count > 0).count() as u64;
        let frequency = |&count: &u32| match count {
            0 => 0,
            count => (1 + (SUM_MAX - distinct) * u64::from(count) / all) as u16,
        };
        let mut frequencies = [0; SYMBOLS];
        for (to, count) in frequencies.iter_mut().zip(counts) {
            *to = frequency(count);
        }
        Table::of_frequencies(&frequencies)
    }

    fn symbols(&self) -> impl Iterator<Item = (u16, u16)> {
        let frequencies = self.sums.windows(2).map(|pair| pair[1] - pair[0]);
        (0..)
            .zip(frequencies)
            .filter(|(_, frequency)| *frequency > 0)
    }

    fn encode(&self, context: u16, out: &mut Vec<u8>) {
        let count = self.symbols().count() as u16;
        out.extend_from_slice(&context.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        for (symbol, frequency) in self.symbols() {
            out.extend_from_slice(&symbol.to_le_bytes());
            out.extend_from_slice(&frequency.to_le_bytes());
        }
    }

    fn decode(fields: &mut Fields<'_>) -> Result<Table> {
        let count = fields.u16("a table is cut short")?;
        let mut frequencies = [0; SYMBOLS];
        let (mut from, mut sum) = (0, 0);
        for _ in 0..count {
            let symbol = usize::from(fields.u16("a table is cut short")?);
            let frequency = fields.u16("a table is cut short")?;
            sum += u64::from(frequency);
            let ascends = (from..SYMBOLS).contains(&symbol) && frequency > 0;
            require(
                ascends && sum <= SUM_MAX,
                "a table is not in order, or sums to too much",
            )?;
            frequencies[symbol] = frequency;
            from = symbol + 1;
        }
        Ok(Table::of_frequencies(&frequencies))
    }
}

/// Counts symbols by the byte before them.
pub(super) struct Counts {
    /// Those of each context, then those of keys that begin without one.
    by_context: Box<[[u32; SYMBOLS]]>,
    keys: u64,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            by_context: vec![[0; SYMBOLS]; usize::from(ANY) + 1].into(),
            keys: 0,
        }
    }
}

impl Counts {
    pub(super) fn add(&mut self, before: Option<u8>, key: &[u8]) {
        self.keys += 1;
        let mut context = before.map_or(ANY, u16::from);
        for &byte in key.iter().take(SYMBOLS_MAX) {
            self.count(context, usize::from(byte) + 1);
            context = byte.into();
        }
        if key.len() < SYMBOLS_MAX {
            self.count(context, 0);
        }
    }

    fn count(&mut self, context: u16, symbol: usize) {
        let count = &mut self.by_context[usize::from(context)][symbol];
        *count = count.saturating_add(1);
    }

    pub(super) fn coder(&self) -> Coder {
        let mut all = [0_u32; SYMBOLS];
        for counts in &self.by_context {
            for (sum, count) in all.iter_mut().zip(counts) {
                *sum = sum.saturating_add(*count);
            }
        }
        let mut coder = Coder {
            any: Table::of_counts(&all),
            tables: Vec::new(),
            by_context: [0; 256],
        };
        let contexts = &self.by_context[..256];
        let is_used = |counts: &[u32; SYMBOLS]| counts.iter().any(|&count| count > 0);
        let symbols = contexts.iter().flatten().filter(|&&count| count > 0);
        let used = contexts.iter().filter(|counts| is_used(counts)).count();
        let bytes = used * TABLE_BYTES + symbols.count() * SYMBOL_BYTES;
        if bytes as f64 * 8.0 > self.keys as f64 * TABLE_BITS_PER_KEY {
            return coder;
        }
        for (context, counts) in (0..=255).zip(contexts) {
            if is_used(counts) {
                coder.push(context, Table::of_counts(counts));
            }
        }
        coder
    }
}

/// Makes codes of keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Coder {
    any: Table,
    /// Of contexts that have one of their own, in their order.
    tables: Vec<(u8, Table)>,
    /// The place in `tables` of each context, and one more; 0 for those without.
    by_context: [u16; 256],
}

impl Coder {
    fn push(&mut self, context: u8, table: Table) {
        self.tables.push((context, table));
        self.by_context[usize::from(context)] = self.tables.len() as u16;
    }

    fn table(&self, context: Option<u8>) -> &Table {
        let at = context.map_or(0, |byte| self.by_context[usize::from(byte)]);
        let own = usize::from(at).checked_sub(1);
        own.and_then(|at| self.tables.get(at))
            .map_or(&self.any, |(_, table)| table)
    }

    /// The code of what a key has behind a prefix; `before` is the last byte of that.
    pub(super) fn code(&self, mut before: Option<u8>, key: &[u8]) -> u128 {
        // The interval is `range` times 2^(64 - shift) long.
        let (mut low, mut range, mut shift) = (0_u128, u64::MAX, 0_u32);
        for &byte in key.iter().take(SYMBOLS_MAX) {
            let table = self.table(before);
            let symbol = usize::from(byte) + 1;
            let (from, to) = (table.sums[symbol], table.sums[symbol + 1]);
            let part = range >> PART_BITS;
            low += (u128::from(part) * u128::from(from)) << (64 - shift);
            range = part * u64::from(to - from);
            if range == 0 {
                break;
            }
            let up = range.leading_zeros().min(64 - shift);
            range <<= up;
            shift += up;
            before = Some(byte);
        }
        low
    }

    /// Bytes in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        (1 + self.tables.len()) * size_of::<[u16; SYMBOLS + 1]>()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(1 + self.tables.len() as u16).to_le_bytes());
        self.any.encode(ANY, out);
        for (context, table) in &self.tables {
            table.encode((*context).into(), out);
        }
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Result<Coder> {
        let count = fields.u16("the number of tables is cut short")?;
        let first = fields.u16("a table is cut short")?;
        require(
            first == ANY && count > 0,
            "the first table is not that for all contexts",
        )?;
        let mut coder = Coder {
            any: Table::decode(fields)?,
            tables: Vec::new(),
            by_context: [0; 256],
        };
        for _ in 1..count {
            let context = fields.u16("a table is cut short")?;
            let last = coder.tables.last();
            let ascends = last.is_none_or(|(last, _)| context > u16::from(*last));
            require(ascends && context < ANY, "tables are not in order")?;
            let table = Table::decode(fields)?;
            coder.push(context as u8, table);
        }
        Ok(coder)
    }
}
