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
//! 3. A symbol without a frequency ends the code, at the place where its interval would be. The keys of
//!    the segment have no such symbol.

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
const TABLE_BYTES: usize = 5;
const SYMBOL_BYTES: usize = 2;

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

    /// A symbol has this part of all weights.
    fn of_weights(weights: &[u8; SYMBOLS]) -> Table {
        let all: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        let mut frequencies = [0; SYMBOLS];
        for (frequency, &weight) in frequencies.iter_mut().zip(weights) {
            *frequency = (SUM_MAX * u64::from(weight) / all.max(1)) as u16;
        }
        Table::of_frequencies(&frequencies)
    }
}

/// How often each symbol comes, by one byte: at least 1 for a symbol that comes at all.
fn weights_of(counts: &[u32; SYMBOLS]) -> [u8; SYMBOLS] {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    counts.map(|count| match count {
        0 => 0,
        count => (u64::from(count) * 255 / u64::from(most)).max(1) as u8,
    })
}

fn encode_weights(context: u16, weights: &[u8; SYMBOLS], out: &mut Vec<u8>) {
    let [end, bytes @ ..] = weights;
    let used = || (0..=255_u8).zip(bytes).filter(|(_, weight)| **weight > 0);
    out.extend_from_slice(&context.to_le_bytes());
    out.push(*end);
    out.extend_from_slice(&(used().count() as u16).to_le_bytes());
    for (byte, weight) in used() {
        out.extend_from_slice(&[byte, *weight]);
    }
}

fn decode_weights(fields: &mut Fields<'_>) -> Result<[u8; SYMBOLS]> {
    const CUT: &str = "a table is cut short";
    let mut weights = [0; SYMBOLS];
    weights[0] = fields.u8(CUT)?;
    let mut from = 0;
    for _ in 0..fields.u16(CUT)? {
        let [byte, weight] = fields.array(CUT)?;
        let symbol = usize::from(byte) + 1;
        require(
            symbol > from && weight > 0,
            "symbols of a table are not in order",
        )?;
        weights[symbol] = weight;
        from = symbol;
    }
    Ok(weights)
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
        let mut coder = Coder::new(weights_of(&all));
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
                coder.push(context, weights_of(counts));
            }
        }
        coder
    }
}

/// Makes codes of keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Coder {
    any: Table,
    /// Tables of the contexts that have one of their own, in the order of the contexts.
    tables: Vec<Table>,
    /// The weights of all, for the disk.
    weights: Vec<(u16, [u8; SYMBOLS])>,
    /// The place in `tables` of each context, and one more; 0 for those without.
    by_context: [u16; 256],
}

impl Coder {
    fn new(any: [u8; SYMBOLS]) -> Coder {
        Coder {
            any: Table::of_weights(&any),
            tables: Vec::new(),
            weights: vec![(ANY, any)],
            by_context: [0; 256],
        }
    }

    fn push(&mut self, context: u8, weights: [u8; SYMBOLS]) {
        self.tables.push(Table::of_weights(&weights));
        self.weights.push((context.into(), weights));
        self.by_context[usize::from(context)] = self.tables.len() as u16;
    }

    fn table(&self, context: Option<u8>) -> &Table {
        let at = context.map_or(0, |byte| self.by_context[usize::from(byte)]);
        let own = usize::from(at).checked_sub(1);
        own.and_then(|at| self.tables.get(at)).unwrap_or(&self.any)
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

    /// Symbols at which the code of a key leads to the code `code`, up to the place where `depth` bits
    /// of it are used: the longest that can be told. A key whose code is at least `code` is not less
    /// than these; one whose code is at most `code` is not greater than all that begin with them.
    pub(super) fn symbols_of(&self, mut before: Option<u8>, code: u128, depth: u32) -> Vec<u8> {
        let mut symbols = Vec::new();
        let (mut low, mut range, mut shift) = (0_u128, u64::MAX, 0_u32);
        while shift < depth && symbols.len() < SYMBOLS_MAX {
            let part = range >> PART_BITS;
            let at = (code - low).checked_shr(64 - shift).unwrap_or(0) / u128::from(part.max(1));
            let sums = &self.table(before).sums;
            // The last symbol that begins at or before this place, of those that have a frequency.
            let symbol = sums
                .partition_point(|&sum| u128::from(sum) <= at)
                .wrapping_sub(1);
            if part == 0 || symbol == 0 || symbol >= SYMBOLS {
                break;
            }
            let (from, to) = (sums[symbol], sums[symbol + 1]);
            low += (u128::from(part) * u128::from(from)) << (64 - shift);
            range = part * u64::from(to - from);
            let byte = (symbol - 1) as u8;
            symbols.push(byte);
            let up = range.leading_zeros().min(64 - shift);
            range <<= up;
            shift += up;
            before = Some(byte);
        }
        symbols
    }

    /// Bytes in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        (1 + self.tables.len()) * (size_of::<[u16; SYMBOLS + 1]>() + SYMBOLS)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.weights.len() as u16).to_le_bytes());
        for (context, weights) in &self.weights {
            encode_weights(*context, weights, out);
        }
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Result<Coder> {
        let count = fields.u16("the number of tables is cut short")?;
        let first = fields.u16("a table is cut short")?;
        require(
            first == ANY && count > 0,
            "the first table is not that for all contexts",
        )?;
        let mut coder = Coder::new(decode_weights(fields)?);
        let mut from = 0;
        for _ in 1..count {
            let context = fields.u16("a table is cut short")?;
            require((from..ANY).contains(&context), "tables are not in order")?;
            coder.push(context as u8, decode_weights(fields)?);
            from = context + 1;
        }
        Ok(coder)
    }
}
