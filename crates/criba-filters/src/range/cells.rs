//! The cells of a block: intervals of codes that hold keys, one after the other in their order.
//!
//! The codes of the block are the leaves of a binary tree, bit by bit from the highest. A node at
//! depth `d` is the interval of the codes that begin with the same `d` bits. The tree is written
//! from its root, of each node first the part of the lower bits and then that of the higher ones:
//!
//! - A node with at least [`FEW`] codes begins with the bits that all of its codes share. Behind
//!   them it sets the *resolution* of everything below: the depth at which `2^t` cells would stand
//!   for each of its codes, were they spread evenly. `t` is the same for the whole segment.
//! - A node at the depth of the resolution, or below it, is a cell. The writer adds nothing to it.
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

/// An interval of codes that holds keys: those that begin with the first `depth` bits of `least`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub(super) least: u128,
    pub(super) depth: u32,
}

impl Cell {
    pub(super) fn greatest(&self) -> u128 {
        self.least | below(self.depth)
    }
}

/// The result of a search in a tree, or in a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// No cell.
    None,
    Cell(Cell),
    /// The bytes make no sense.
    Unreadable,
}

/// Whether a cell meets the range of codes from `lower` to `upper`, both included.
pub(super) fn may_meet(
    reader: Reader<'_>,
    count: u32,
    tree: (Root, Resolution),
    (lower, upper): (u128, u128),
) -> bool {
    match first_from(reader, count, tree, lower) {
        Found::None => false,
        Found::Cell(cell) => cell.least <= upper,
        Found::Unreadable => true,
    }
}

/// The first cell that does not end before a code.
pub(super) fn first_from(
    reader: Reader<'_>,
    count: u32,
    (root, resolution): (Root, Resolution),
    code: u128,
) -> Found {
    Search::new(reader, resolution, code).first(count, Node::root(root, count, resolution))
}

/// The last cell that does not begin behind a code.
pub(super) fn last_to(
    reader: Reader<'_>,
    count: u32,
    (root, resolution): (Root, Resolution),
    code: u128,
) -> Found {
    Search::new(reader, resolution, code).last(count, Node::root(root, count, resolution))
}

/// A node of which nothing was read yet: where it is, and the resolution from above.
#[derive(Clone, Copy)]
struct Node {
    depth: u32,
    least: u128,
    end: u32,
}

impl Node {
    fn root(root: Root, count: u32, resolution: Resolution) -> Node {
        Node {
            depth: root.depth,
            least: root.least,
            end: resolution.below(root.depth, count.max(1)),
        }
    }

    /// The part of the codes with a zero next, and that of the others.
    fn halves(self) -> (Node, Node) {
        let depth = self.depth + 1;
        let lower = Node { depth, ..self };
        let least = self.least | 1 << (DEPTH - depth);
        (lower, Node { least, ..lower })
    }

    fn cell(self) -> Cell {
        Cell {
            least: self.least,
            depth: self.depth,
        }
    }
}

/// A node that was read.
enum Read {
    Cell(Cell),
    /// Behind what its codes share: how many have a zero next. For a node with [`MANY`], the length of
    /// what was written of these.
    Split(Node, u32, Option<u32>),
    Unreadable,
}

struct Search<'a> {
    reader: Reader<'a>,
    resolution: Resolution,
    code: u128,
}

impl<'a> Search<'a> {
    fn new(reader: Reader<'a>, resolution: Resolution, code: u128) -> Search<'a> {
        Search {
            reader,
            resolution,
            code,
        }
    }

    /// Reads the beginning of a node, before its parts. It has at least one code.
    fn read(&mut self, count: u32, mut node: Node) -> Read {
        let is_few = count < FEW;
        if !is_few && node.depth < DEPTH {
            let shared = self.reader.get_gamma();
            let depth = node.depth.checked_add(shared);
            let Some(depth) = depth.filter(|&depth| depth <= DEPTH) else {
                return Read::Unreadable;
            };
            let bits = self.reader.get_long(shared);
            node.least |= bits.checked_shl(DEPTH - depth).unwrap_or(0);
            node.depth = depth;
            node.end = self.resolution.below(depth, count);
        }
        if count == 1 && node.depth < node.end {
            let bits = self.reader.get_long(node.end - node.depth);
            node.least |= bits << (DEPTH - node.end);
            node.depth = node.end;
        }
        if self.reader.is_overrun() {
            return Read::Unreadable;
        }
        if node.depth >= node.end {
            return Read::Cell(node.cell());
        }
        let Some(zeros) = get_split(count, is_few, &mut self.reader) else {
            return Read::Unreadable;
        };
        let len = (count > MANY).then(|| self.reader.get_gamma());
        Read::Split(node, zeros, len)
    }

    fn first(&mut self, count: u32, node: Node) -> Found {
        if count == 0 {
            return Found::None;
        }
        let (node, zeros, len) = match self.read(count, node) {
            Read::Cell(cell) if cell.greatest() < self.code => return Found::None,
            Read::Cell(cell) => return Found::Cell(cell),
            Read::Unreadable => return Found::Unreadable,
            Read::Split(node, zeros, len) => (node, zeros, len),
        };
        let (lower, upper) = node.halves();
        match len {
            Some(len) if self.code >= upper.least => self.reader.skip(len.into()),
            _ => match self.first(zeros, lower) {
                Found::None => {}
                found => return found,
            },
        }
        self.first(count - zeros, upper)
    }

    fn last(&mut self, count: u32, node: Node) -> Found {
        // All of it lies behind the code, and so does what follows.
        if count == 0 || node.least > self.code {
            return Found::None;
        }
        let (node, zeros, len) = match self.read(count, node) {
            Read::Cell(cell) if cell.least > self.code => return Found::None,
            Read::Cell(cell) => return Found::Cell(cell),
            Read::Unreadable => return Found::Unreadable,
            Read::Split(node, zeros, len) => (node, zeros, len),
        };
        let (lower, upper) = node.halves();
        let at_lower = self.reader.clone();
        if let Some(len) = len.filter(|_| self.code >= upper.least) {
            self.reader.skip(len.into());
            match self.last(count - zeros, upper) {
                Found::None => self.reader = at_lower,
                found => return found,
            }
            return self.last(zeros, lower);
        }
        match (self.last(zeros, lower), self.code >= upper.least) {
            (found, false) => found,
            (Found::Unreadable, true) => Found::Unreadable,
            (found, true) => match self.last(count - zeros, upper) {
                Found::None => found,
                found => found,
            },
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
        let reader = || Reader::new(out.words(), 0, out.len());
        let (count, tree) = (codes.len() as u32, (root, resolution));
        for pair in codes.windows(2) {
            let Found::Cell(next) = first_from(reader(), count, tree, pair[0] + 1) else {
                panic!("there is a cell for {}", pair[1]);
            };
            assert!(next.least <= pair[1]);
            let Found::Cell(before) = last_to(reader(), count, tree, pair[1] - 1) else {
                panic!("there is a cell for {}", pair[0]);
            };
            assert!(before.greatest() >= pair[0] && before.least < pair[1]);
        }
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
                let tree = (root, resolution);
                let _answer = may_meet(reader.clone(), count, tree, range);
                let _answer = last_to(reader, count, tree, range.1);
            }
        }
    }
}
