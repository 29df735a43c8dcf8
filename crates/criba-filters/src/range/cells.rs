//! The cells of a block: intervals of codes that hold keys, one after the other in their order.
//!
//! The codes of the block are the leaves of a binary tree, bit by bit from the highest. A node at
//! depth `d` is the interval of the codes that begin with the same `d` bits. The tree is written
//! from its root, of each node first the part of the lower bits and then that of the higher ones:
//!
//! - A node with at least [`FEW`] codes begins with the bits that all of its codes share. Behind
//!   them it sets the *resolution* of everything below: the depth at which `2^t` cells would stand
//!   for each of its codes, were they spread evenly. `t` is the same for the whole segment.
//! - A node at the depth of the resolution, or below it, is a cell. Nothing more is written of it.
//! - A node with one code writes the bits of the code up to the resolution, and is a cell.
//! - Any other node writes how many of its codes have a zero next.
//!
//! So cells are about as long as the density of the keys around them asks for. The density comes
//! from at least [`FEW`] keys: from two it would be so uncertain that bits are wasted on the keys
//! that happen to lie close together; from many it would not follow clusters of keys. Three is best
//! or nearly so for uniform and for clustered keys.

use super::bits::{Reader, Writer};

/// See the head of this file. Written to disk by its effect; must not be changed.
pub(super) const FEW: u32 = 3;

/// Nodes with more codes than this write how long their first part is, so that it can be skipped.
/// Written to disk by its effect; must not be changed.
const MANY: u32 = 64;

/// Bits of a code.
pub(super) const DEPTH: u32 = 128;

/// `t`, in quarters of a bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Resolution(pub(super) u16);

impl Resolution {
    /// The depth at which cells below a node end.
    fn below(self, depth: u32, codes: u32) -> u32 {
        // The base 2 logarithm of the number of codes in quarters, rounded downward.
        let quarters = u128::from(codes).pow(4).ilog2();
        (depth + (quarters + u32::from(self.0)) / 4).min(DEPTH)
    }
}

/// Where the tree of a block begins: at the bits that the codes of both fences share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Root {
    depth: u32,
    /// The least code that begins with these bits.
    least: u128,
}

impl Root {
    pub(super) fn between(lower: u128, upper: u128) -> Root {
        let depth = (lower ^ upper).leading_zeros();
        Root {
            depth,
            least: lower & !below(depth),
        }
    }
}

/// All bits from this depth on.
fn below(depth: u32) -> u128 {
    u128::MAX.checked_shr(depth).unwrap_or(0)
}

/// Bits `from` to `to` of a code.
fn part(code: u128, from: u32, to: u32) -> u128 {
    code.checked_shr(DEPTH - to).unwrap_or(0) & !u128::MAX.checked_shl(to - from).unwrap_or(0)
}

/// Writes the cells of codes, which ascend, all different, and lie below the root.
pub(super) fn encode(codes: &[u128], root: Root, resolution: Resolution, out: &mut Writer) {
    let count = codes.len() as u32;
    let end = resolution.below(root.depth, count.max(1));
    encode_node(codes, (root.depth, end), resolution, out);
}

fn encode_node(
    codes: &[u128],
    (mut depth, mut end): (u32, u32),
    resolution: Resolution,
    out: &mut Writer,
) {
    let count = codes.len() as u32;
    let (Some(first), Some(last)) = (codes.first(), codes.last()) else {
        return;
    };
    let is_few = count < FEW;
    if !is_few && depth < DEPTH {
        let shared = (first ^ last).leading_zeros();
        out.put_gamma(shared - depth);
        out.put_long(part(*first, depth, shared), shared - depth);
        depth = shared;
        end = resolution.below(depth, count);
    }
    if depth >= end {
        return;
    }
    if count == 1 {
        return out.put_long(part(*first, depth, end), end - depth);
    }
    let zeros = codes.partition_point(|code| part(*code, depth, depth + 1) == 0);
    put_split((count, zeros as u32), is_few, out);
    let (lower, upper) = codes.split_at(zeros);
    if count > MANY {
        let mut inner = Writer::default();
        encode_node(lower, (depth + 1, end), resolution, &mut inner);
        out.put_gamma(u32::try_from(inner.len()).expect("a block has less than 2^32 bits"));
        out.append(&inner);
    } else {
        encode_node(lower, (depth + 1, end), resolution, out);
    }
    encode_node(upper, (depth + 1, end), resolution, out);
}

/// The split of a node: how many of its codes have a zero next. About half of them is likely, and
/// has the shortest code, a Golomb code with a power of two (Rice 1979). A node that has written
/// what its codes share has at least one on each side.
fn put_split((count, zeros): (u32, u32), may_be_one_sided: bool, out: &mut Writer) {
    let split = Split::new(count, may_be_one_sided);
    let half = count / 2;
    let away = if zeros > half {
        2 * (zeros - half) - 1
    } else {
        2 * (half - zeros)
    };
    out.put_unary(away >> split.low_bits, split.most);
    out.put((away & ((1 << split.low_bits) - 1)).into(), split.low_bits);
}

fn get_split(count: u32, may_be_one_sided: bool, reader: &mut Reader<'_>) -> Option<u32> {
    let split = Split::new(count, may_be_one_sided);
    let high = reader.get_unary(split.most) << split.low_bits;
    let away = high | reader.get(split.low_bits) as u32;
    let half = count / 2;
    let zeros = if away % 2 == 1 {
        half + away.div_ceil(2)
    } else {
        half.checked_sub(away / 2)?
    };
    (zeros <= count).then_some(zeros)
}

/// How the split of a node is written.
struct Split {
    low_bits: u32,
    /// The most that the part above the low bits can be.
    most: u32,
}

impl Split {
    fn new(count: u32, may_be_one_sided: bool) -> Split {
        // About the standard deviation of a fair split.
        let low_bits = match count {
            0..=5 => 0,
            6..=23 => 1,
            24..=95 => 2,
            _ => (count.ilog2() - 1) / 2,
        };
        let away_most = if may_be_one_sided { count } else { count - 2 };
        Split {
            low_bits,
            most: away_most >> low_bits,
        }
    }
}

/// What a part of the tree answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    /// No cell of it meets the range.
    No,
    /// A cell does, or the bytes make no sense.
    Maybe,
    /// No, and everything that follows lies behind the range.
    Past,
}

/// Whether a cell meets the range of codes from `lower` to `upper`, both included.
pub(super) fn may_meet(
    mut reader: Reader<'_>,
    count: u32,
    (root, resolution): (Root, Resolution),
    (lower, upper): (u128, u128),
) -> bool {
    let end = resolution.below(root.depth, count.max(1));
    let mut search = Search {
        reader: &mut reader,
        resolution,
        lower,
        upper,
    };
    search.node(count, (root.depth, root.least), end) == Answer::Maybe
}

struct Search<'a, 'b> {
    reader: &'a mut Reader<'b>,
    resolution: Resolution,
    lower: u128,
    upper: u128,
}

impl Search<'_, '_> {
    fn interval(&self, depth: u32, least: u128) -> Answer {
        if self.reader.is_overrun() {
            Answer::Maybe
        } else if least > self.upper {
            Answer::Past
        } else if least | below(depth) < self.lower {
            Answer::No
        } else {
            Answer::Maybe
        }
    }

    /// The node that begins with the bits of `least` up to `depth`.
    fn node(&mut self, count: u32, (mut depth, mut least): (u32, u128), mut end: u32) -> Answer {
        if count == 0 {
            return Answer::No;
        }
        // Whatever the node holds, it is behind the range, or nothing can be read any more.
        if least > self.upper || self.reader.is_overrun() {
            return self.interval(depth, least);
        }
        let is_few = count < FEW;
        if !is_few && depth < DEPTH {
            let shared = self.reader.get_gamma();
            let Some(deeper) = depth.checked_add(shared).filter(|&deeper| deeper <= DEPTH) else {
                return Answer::Maybe;
            };
            let bits = self.reader.get_long(shared);
            least |= bits.checked_shl(DEPTH - deeper).unwrap_or(0);
            depth = deeper;
            end = self.resolution.below(depth, count);
        }
        if depth >= end {
            return self.interval(depth, least);
        }
        if count == 1 {
            let bits = self.reader.get_long(end - depth);
            least |= bits << (DEPTH - end);
            return self.interval(end, least);
        }
        let Some(zeros) = get_split(count, is_few, self.reader) else {
            return Answer::Maybe;
        };
        let upper_half = least | 1 << (DEPTH - 1 - depth);
        if count > MANY {
            let len = self.reader.get_gamma();
            if self.lower >= upper_half {
                self.reader.skip(len.into());
                return self.node(count - zeros, (depth + 1, upper_half), end);
            }
        }
        match self.node(zeros, (depth + 1, least), end) {
            Answer::No => self.node(count - zeros, (depth + 1, upper_half), end),
            answer => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(seed: u64, count: usize, range: u128) -> Vec<u128> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            crate::mix(crate::KeyHash(state), 0)
        };
        let code = |_| (u128::from(next()) << 64 | u128::from(next())) % range;
        let mut codes: Vec<u128> = (0..count).map(code).collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    }

    fn check(codes: &[u128], resolution: u16) -> usize {
        let resolution = Resolution(resolution);
        let (first, last) = (codes[0], codes[codes.len() - 1]);
        let root = Root::between(first, last);
        let mut out = Writer::default();
        encode(codes, root, resolution, &mut out);
        let ask = |lower, upper| {
            let reader = Reader::new(out.words(), 0, out.len());
            may_meet(
                reader,
                codes.len() as u32,
                (root, resolution),
                (lower, upper),
            )
        };
        for pair in codes.windows(2) {
            assert!(ask(pair[0], pair[0]) && ask(pair[0], pair[1]));
            assert!(ask(pair[0].saturating_sub(1), pair[0]));
        }
        assert!(ask(0, u128::MAX) && ask(last, u128::MAX) && ask(0, first));
        let middle = |pair: &[u128]| pair[0] + (pair[1] - pair[0]) / 2;
        let gaps = codes.windows(2).filter(|pair| pair[1] - pair[0] > 2);
        gaps.filter(|pair| !ask(middle(pair), middle(pair))).count()
    }

    #[test]
    fn every_code_is_in_a_cell() {
        for count in [1, 2, 3, 4, 7, 32, 64, 65, 66, 300, 5_000] {
            for range in [u128::MAX, 1 << 100, 1 << 20, 1000, 3] {
                for resolution in [0, 1, 9, 28, 100, 1000] {
                    check(&codes(count as u64, count, range), resolution);
                }
            }
        }
        check(&[0], 30);
        check(&[0, u128::MAX], 30);
        check(&[u128::MAX - 1, u128::MAX], 30);
        check(&[0, 1, 2, 3, 4, u128::MAX], 30);
        check(&(0..200).collect::<Vec<_>>(), 0);
    }

    #[test]
    fn most_gaps_are_refuted() {
        let codes = codes(3, 2_000, u128::MAX);
        assert!(check(&codes, 28) > 1_900);
        assert!(check(&codes, 0) < 1_500);
    }

    #[test]
    fn bytes_that_make_no_sense_are_no_panic() {
        let mut words = vec![0_u64; 40];
        for seed in 0..2_000_u64 {
            for (at, word) in (0..).zip(&mut words) {
                let random = crate::mix(crate::KeyHash(seed << 8 | at), 0);
                // All zeros, all ones, and anything.
                *word = match seed % 4 {
                    0 => 0,
                    1 => u64::MAX,
                    2 => random & crate::mix(crate::KeyHash(random), 1),
                    _ => random,
                };
            }
            let root = Root::between(seed.into(), u128::MAX >> (seed % 100));
            for count in [0, 1, 2, 3, 50, 1_000, u32::MAX] {
                let reader = Reader::new(&words, 3, 40 * 64);
                let resolution = Resolution((seed % 600) as u16);
                let range = (u128::from(seed) << 60, u128::MAX >> 2);
                let _answer = may_meet(reader, count, (root, resolution), range);
            }
        }
    }
}
