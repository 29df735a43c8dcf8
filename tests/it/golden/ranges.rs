//! The decoder's part for range filters: "Range filters" of the document.

use std::collections::{BTreeMap, BTreeSet};

use super::reader::{Reader, shown};

/// The context of the table for symbols behind any other byte.
const ANY: u16 = 256;

/// Symbols that a code looks at.
const SYMBOLS: usize = 64;

/// A range filter, its cells written out.
#[derive(Debug)]
pub(super) struct Ranges {
    tables: BTreeMap<u16, Vec<u64>>,
    blocks: Vec<Block>,
    keys: u64,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
}

/// A block between its fences.
#[derive(Debug)]
struct Block {
    lower: Vec<u8>,
    upper: Vec<u8>,
    /// Whether keys of the block can be equal to the upper fence.
    with_upper: bool,
    /// The least and the greatest code of each cell; `None` says nothing of the block.
    cells: Option<Vec<(u128, u128)>>,
    codes: u64,
}

/// The header, as far as pieces need it.
#[derive(Debug)]
pub(super) struct Header {
    quarters: u16,
    typical: u32,
    keys: u64,
    tables: BTreeMap<u16, Vec<u64>>,
    lengths: Vec<usize>,
}

/// The fences of a segment and its first and its last key; whether a block continues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fences<'a> {
    pub(super) fences: &'a [(Vec<u8>, bool)],
    pub(super) first_key: &'a [u8],
    pub(super) last_key: &'a [u8],
}

impl Header {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Header {
        assert_eq!(reader.u8("version"), 1);
        reader.zeros(1, "reserved");
        let quarters = reader.u16("resolution in quarters");
        assert!(quarters <= 512);
        let blocks = reader.u32("blocks");
        let typical = reader.u32("typical codes");
        let keys = reader.u64("keys");
        let count = reader.u16("tables");
        assert!((1..=257).contains(&count));
        let mut tables = BTreeMap::new();
        let mut before = None;
        for _ in 0..count {
            let (context, sums) = table(reader);
            // The one for all others comes first, then the bytes ascend.
            assert_eq!(before.is_none(), context == ANY);
            assert!(before.is_none_or(|before| before == ANY || before < context));
            before = Some(context);
            tables.insert(context, sums);
        }
        let lengths = (0..blocks).map(|_| match reader.quiet(1)[0] {
            255 => {
                let bytes = reader.quiet(4).try_into().unwrap();
                let len = u32::from_le_bytes(bytes);
                reader.note(5, &format!("length of a piece {len}"));
                len as usize
            }
            short => {
                reader.note(1, &format!("length of a piece {short}"));
                usize::from(short)
            }
        });
        let lengths = lengths.collect();
        assert!(reader.is_at_end());
        Header {
            quarters,
            typical,
            keys,
            tables,
            lengths,
        }
    }

    /// Length of the body in words.
    pub(super) fn words(&self) -> usize {
        self.lengths.iter().sum::<usize>().div_ceil(8)
    }
}

/// The context, and where the numbers of each of the 257 symbols begin, with the end of the last.
fn table(reader: &mut Reader<'_>) -> (u16, Vec<u64>) {
    let context = reader.u16("context");
    assert!(context <= ANY);
    let mut weights = [0; 257];
    weights[0] = u64::from(reader.u8("weight of the end"));
    let count = reader.u16("bytes");
    assert!(count <= 256);
    let mut before = None;
    for _ in 0..count {
        let pair = reader.quiet(2);
        let (byte, weight) = (pair[0], pair[1]);
        reader.note(2, &format!("\"{}\" weighs {weight}", byte.escape_ascii()));
        assert!(before.is_none_or(|before| before < byte) && weight > 0);
        before = Some(byte);
        weights[usize::from(byte) + 1] = u64::from(weight);
    }
    let total = weights.iter().sum::<u64>().max(1);
    let mut sums = vec![0];
    for weight in weights {
        sums.push(sums.last().unwrap() + 65_535 * weight / total);
    }
    (context, sums)
}

/// The code of a key of which `prefix` bytes are those that the fences have in common.
fn code(tables: &BTreeMap<u16, Vec<u64>>, key: &[u8], prefix: usize) -> u128 {
    let (mut low, mut range, mut shift) = (0_u128, u64::MAX, 0);
    for at in prefix..key.len().min(prefix + SYMBOLS) {
        let before = at.checked_sub(1).map(|before| u16::from(key[before]));
        let own = before.and_then(|before| tables.get(&before));
        let sums = own.unwrap_or(&tables[&ANY]);
        let symbol = usize::from(key[at]) + 1;
        let part = range / 65_536;
        low += u128::from(part * sums[symbol]) << (64 - shift);
        range = part * (sums[symbol + 1] - sums[symbol]);
        if range == 0 {
            break;
        }
        let up = range.leading_zeros().min(64 - shift);
        range <<= up;
        shift += up;
    }
    low
}

/// Bits of a piece, from the lowest of the first byte on.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn bit(&mut self) -> bool {
        let byte = self.bytes[self.at / 8];
        let bit = byte >> (self.at % 8) & 1;
        self.at += 1;
        bit == 1
    }

    fn number(&mut self, len: u32) -> u128 {
        (0..len).map(|n| u128::from(self.bit()) << n).sum()
    }

    fn unary(&mut self, most: u64) -> u64 {
        let mut zeros = 0;
        while zeros < most && !self.bit() {
            zeros += 1;
        }
        zeros
    }

    fn gamma(&mut self) -> u64 {
        let width = self.unary(33);
        let low = self.number(width as u32) as u64;
        (1 << width) + low - 1
    }
}

/// The codes that begin with the same `depth` bits.
#[derive(Clone, Copy)]
struct Node {
    bits: u128,
    depth: u32,
    codes: u64,
}

impl Node {
    fn resolution(self, quarters: u16) -> u32 {
        let log = u128::from(self.codes.max(1)).pow(4).ilog2();
        (self.depth + (log + u32::from(quarters)) / 4).min(128)
    }

    fn append(&mut self, number: u128, len: u32) {
        self.bits = self.bits.checked_shl(len).unwrap_or(0) | number;
        self.depth += len;
    }

    fn cell(self) -> (u128, u128) {
        let free = 128 - self.depth;
        let lowest = self.bits.checked_shl(free).unwrap_or(0);
        let rest = u128::MAX.checked_shr(self.depth).unwrap_or(0);
        (lowest, lowest + rest)
    }
}

/// Reads the tree below a node and collects its cells.
fn tree(
    bits: &mut Bits<'_>,
    mut node: Node,
    mut resolution: u32,
    quarters: u16,
    cells: &mut Vec<(u128, u128)>,
) {
    let n = node.codes;
    if n == 0 {
        return;
    }
    if n >= 3 && node.depth < 128 {
        let common = bits.gamma() as u32;
        let number = bits.number(common);
        node.append(number, common);
        resolution = node.resolution(quarters);
    }
    if node.depth >= resolution {
        cells.push(node.cell());
        return;
    }
    if n == 1 {
        let rest = resolution - node.depth;
        let number = bits.number(rest);
        node.append(number, rest);
        cells.push(node.cell());
        return;
    }
    let half = n / 2;
    let most = if n < 3 { n } else { n - 2 };
    let k = match n {
        0..=5 => 0,
        6..=23 => 1,
        24..=95 => 2,
        _ => (n.ilog2() - 1) / 2,
    };
    let a = bits.unary(most >> k) << k | bits.number(k) as u64;
    let zeros = match a % 2 {
        1 => half + a.div_ceil(2),
        _ => half - a / 2,
    };
    let first_len = (n > 64).then(|| bits.gamma() as usize);
    let start = bits.at;
    for (bit, codes) in [(0, zeros), (1, n - zeros)] {
        let mut below = Node { codes, ..node };
        below.append(bit, 1);
        tree(bits, below, resolution, quarters, cells);
        if bit == 0 {
            assert!(first_len.is_none_or(|len| len == bits.at - start));
        }
    }
}

impl Ranges {
    /// Reads the pieces of all blocks from the body.
    pub(super) fn decode(header: Header, body: &mut Reader<'_>, of: Fences<'_>) -> Ranges {
        assert_eq!(header.lengths.len(), of.fences.len());
        let mut blocks = Vec::new();
        for (ordinal, len) in header.lengths.iter().enumerate() {
            let lower = match ordinal {
                0 => of.first_key,
                _ => &of.fences[ordinal].0,
            };
            let next = of.fences.get(ordinal + 1);
            let upper = next.map_or(of.last_key, |next| &next.0);
            let mut block = Block {
                lower: lower.to_vec(),
                upper: upper.to_vec(),
                with_upper: next.is_none_or(|next| next.1),
                cells: None,
                codes: 0,
            };
            let piece = body.quiet(*len);
            if !piece.is_empty() {
                block.decode(piece, &header);
            }
            let text = match &block.cells {
                Some(cells) => format!("{} codes in {} cells", block.codes, cells.len()),
                None => "nothing".to_owned(),
            };
            let from = shown(&block.lower);
            body.note(*len, &format!("block {ordinal} from {from}: {text}"));
            blocks.push(block);
        }
        let rest = body.rest().len();
        assert!(rest < 8);
        body.zeros(rest, "zeros up to a whole word");
        Ranges {
            tables: header.tables,
            blocks,
            keys: header.keys,
            first_key: of.first_key.to_vec(),
            last_key: of.last_key.to_vec(),
        }
    }

    /// The filter is of these keys: those that stand in each block.
    pub(super) fn check(&self, keys: &[BTreeSet<Vec<u8>>]) {
        let distinct: BTreeSet<_> = keys.iter().flatten().collect();
        assert_eq!(self.keys, distinct.len() as u64);
        for (block, keys) in self.blocks.iter().zip(keys) {
            let Some(cells) = &block.cells else {
                continue;
            };
            let codes = keys.iter().map(|key| {
                assert!(key.starts_with(&block.lower[..block.prefix()]));
                code(&self.tables, key, block.prefix())
            });
            let codes: BTreeSet<u128> = codes.collect();
            assert_eq!(block.codes, codes.len() as u64);
            for (least, greatest) in cells {
                assert!(codes.range(least..=greatest).next().is_some(), "no code");
            }
        }
        for key in &distinct {
            assert!(self.may_hold(key, key), "{} is denied", shown(key));
        }
    }

    /// Whether the range meets that from the first key of the segment to the last.
    pub(super) fn covers(&self, lower: &[u8], upper: &[u8]) -> bool {
        upper >= &self.first_key[..] && lower <= &self.last_key[..]
    }

    /// Whether a key of the segment can be in the range, both bounds included.
    pub(super) fn may_hold(&self, lower: &[u8], upper: &[u8]) -> bool {
        if !self.covers(lower, upper) {
            return false;
        }
        let is_touched = |block: &&Block| {
            let is_behind = match block.with_upper {
                true => lower > &block.upper[..],
                false => lower >= &block.upper[..],
            };
            !is_behind && upper >= &block.lower[..]
        };
        let touched: Vec<&Block> = self.blocks.iter().filter(is_touched).collect();
        let asks = |block: &&Block| block.may_hold(&self.tables, lower, upper);
        touched.len() > 2 || touched.iter().any(asks)
    }
}

impl Block {
    fn decode(&mut self, piece: &[u8], header: &Header) {
        let mut bits = Bits {
            bytes: piece,
            at: 0,
        };
        let typical = u64::from(header.typical);
        let number = bits.gamma();
        self.codes = match number % 2 {
            1 => typical + number.div_ceil(2),
            _ => typical - number / 2,
        };
        let of = |key: &[u8]| code(&header.tables, key, self.prefix());
        let (lower, upper) = (of(&self.lower), of(&self.upper));
        let depth = (lower ^ upper).leading_zeros();
        let root = Node {
            bits: lower.checked_shr(128 - depth).unwrap_or(0),
            depth,
            codes: self.codes,
        };
        let mut cells = Vec::new();
        let resolution = root.resolution(header.quarters);
        tree(&mut bits, root, resolution, header.quarters, &mut cells);
        assert_eq!(bits.at.div_ceil(8), piece.len(), "nothing behind the tree");
        assert!(cells.is_sorted_by(|a, b| a.1 < b.0));
        self.cells = Some(cells);
    }

    /// Length of what the fences have in common.
    fn prefix(&self) -> usize {
        let both = self.lower.iter().zip(&self.upper);
        both.take_while(|(a, b)| a == b).count()
    }

    fn may_hold(&self, tables: &BTreeMap<u16, Vec<u64>>, lower: &[u8], upper: &[u8]) -> bool {
        let Some(cells) = &self.cells else {
            return true;
        };
        let prefix = &self.lower[..self.prefix()];
        let code_of = |bound: &[u8]| match bound.starts_with(prefix) {
            true => code(tables, bound, prefix.len()),
            false if bound < prefix => 0,
            false => u128::MAX,
        };
        let from = match lower < &self.lower[..] {
            true => 0,
            false => code_of(lower),
        };
        let to = match upper > &self.upper[..] {
            true => u128::MAX,
            false => code_of(upper),
        };
        cells.iter().any(|cell| cell.0 <= to && from <= cell.1)
    }
}

/// A thousand ranges close to the keys, that hold none of them; fewer if the keys leave few gaps. They ascend.
pub(super) fn absent<'a>(keys: impl Iterator<Item = &'a Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let keys: Vec<&Vec<u8>> = keys.collect();
    let (first, last) = (keys[0], keys[keys.len() - 1]);
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut absent = BTreeSet::new();
    for _ in 0..20_000 {
        // A key with one byte changed or appended, and what begins with it, or some of that.
        let mut lower = keys[random(keys.len())].clone();
        lower.truncate(random(lower.len() + 1).max(lower.len() / 2));
        lower.push(random(256) as u8);
        let mut upper = lower.clone();
        upper.resize(lower.len() + random(3), 0xff);
        let is_within = *first < lower && upper < *last;
        let from = keys.partition_point(|key| **key < lower);
        if is_within && keys.get(from).is_none_or(|key| **key > upper) {
            absent.insert((lower, upper));
        }
        if absent.len() == 1000 {
            break;
        }
    }
    absent.into_iter().collect()
}
