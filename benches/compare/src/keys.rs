//! Keys and values, made from numbers so that every answer can be checked without keeping them.

use crate::engine::Result;

/// All keys begin so, as those of YCSB do: nobody's first bytes tell keys apart for free.
const PREFIX: &[u8; 4] = b"user";
const DIGITS: usize = 12;
const TAIL_MAX: usize = 16;
const KEY_BYTES_MAX: usize = PREFIX.len() + DIGITS + TAIL_MAX;
const MASK: u64 = (1 << 48) - 1;

/// Numbers from here on are never written, yet lie between those that are.
pub const ABSENT: u64 = 1 << 40;

/// Before all keys; not empty, which LMDB refuses.
pub const FIRST: &[u8] = b"a";

/// How the numbers of keys relate to their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Random,
    Sequential,
}

/// A key of 16 to 32 bytes: `user`, 12 hexadecimal digits, up to 16 letters.
///
/// In the order of its bytes: those that are not there are zeros, which are in no key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    bytes: [u8; KEY_BYTES_MAX],
    len: usize,
}

impl Key {
    /// Length of a key, on average.
    pub const MEAN_BYTES: u64 = 24;

    pub fn of(order: Order, number: u64) -> Key {
        let mixed = mixed(number);
        let digits = match order {
            Order::Random => mixed,
            Order::Sequential => number,
        };
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes[..PREFIX.len()].copy_from_slice(PREFIX);
        for (at, byte) in bytes[PREFIX.len()..][..DIGITS].iter_mut().enumerate() {
            *byte = b"0123456789abcdef"[(digits >> (4 * (DIGITS - 1 - at))) as usize & 15];
        }
        let tail = scrambled(mixed);
        for (at, byte) in bytes[PREFIX.len() + DIGITS..].iter_mut().enumerate() {
            *byte = b'a' + ((tail >> (4 * at)) & 15) as u8;
        }
        let tail_len = (tail >> 32) as usize % (TAIL_MAX + 1);
        let len = PREFIX.len() + DIGITS + tail_len;
        Key { bytes, len }
    }

    /// The last of the keys with smaller numbers than this.
    pub fn greatest(order: Order, end: u64) -> Key {
        let keys = (0..end).map(|number| Key::of(order, number));
        keys.max().unwrap_or(Key::of(order, 0))
    }

    /// A key before or behind all others, with the same length and spread as they have.
    pub fn outside(number: u64) -> Key {
        let mut key = Key::of(Order::Random, number);
        key.bytes[0] = if number.is_multiple_of(2) { b'a' } else { b'z' };
        key
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// `user` and so many digits.
    pub fn prefix(&self, digits: usize) -> &[u8] {
        &self.bytes[..PREFIX.len() + digits]
    }
}

/// A permutation of the numbers below 2^48: each step can be undone.
fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) & MASK;
    x ^= x >> 24;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9) & MASK;
    x ^= x >> 23;
    x = x.wrapping_mul(0x94D0_49BB_1331_11EB) & MASK;
    x ^ (x >> 25)
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood, 2014).
fn scrambled(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Values that name their key's number and version, filled up with what compresses to about half.
pub struct Values {
    filler: Vec<u8>,
    buffer: Vec<u8>,
    len: usize,
}

const FILLER_BYTES: usize = 1 << 16;
const STAMP_BYTES: usize = 12;

impl Values {
    pub fn new(len: usize) -> Values {
        let mut rng = Rng::new(1);
        let mut filler = vec![b'.'; FILLER_BYTES + len];
        for half in filler.chunks_mut(100) {
            let random = half.len() / 2;
            half[..random].fill_with(|| rng.next() as u8);
        }
        Values {
            filler,
            buffer: vec![0; len.max(STAMP_BYTES)],
            len: len.max(STAMP_BYTES),
        }
    }

    pub fn of(&mut self, number: u64, version: u32) -> &[u8] {
        let from = scrambled(number ^ u64::from(version)) as usize % FILLER_BYTES;
        self.buffer[..8].copy_from_slice(&number.to_le_bytes());
        self.buffer[8..STAMP_BYTES].copy_from_slice(&version.to_le_bytes());
        self.buffer[STAMP_BYTES..]
            .copy_from_slice(&self.filler[from..from + self.len - STAMP_BYTES]);
        &self.buffer
    }

    pub fn len(&self) -> usize {
        self.len
    }
}

/// The number and version of a value.
///
/// # Errors
///
/// When it has another length than all values have.
pub fn stamp_of(value: &[u8], len: usize) -> Result<(u64, u32)> {
    if value.len() != len {
        return Err(format!("a value of {} bytes, not {len}", value.len()).into());
    }
    let (mut number, mut version) = ([0; 8], [0; 4]);
    number.copy_from_slice(&value[..8]);
    version.copy_from_slice(&value[8..STAMP_BYTES]);
    Ok((u64::from_le_bytes(number), u32::from_le_bytes(version)))
}

/// SplitMix64: small, fast, good enough to choose keys.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(scrambled(seed.wrapping_add(1)))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        scrambled(self.0)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Ranks by Zipf's law (Gray et al., "Quickly generating billion-record synthetic databases", 1994),
/// as YCSB draws them.
pub struct Zipf {
    count: u64,
    alpha: f64,
    zeta: f64,
    eta: f64,
    half: f64,
}

const THETA: f64 = 0.99;

impl Zipf {
    pub fn new(count: u64) -> Zipf {
        let zeta: f64 = (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum();
        let half = 0.5f64.powf(THETA);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - (1.0 + half) / zeta);
        Zipf {
            count,
            alpha: 1.0 / (1.0 - THETA),
            zeta,
            eta,
            half,
        }
    }

    /// 0 is the most frequent.
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        let unit = rng.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + self.half {
            return 1;
        }
        let rank = self.count as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count - 1)
    }

    /// A number below the count; frequent ones are anywhere.
    pub fn scattered(&self, rng: &mut Rng) -> u64 {
        scrambled(self.rank(rng)) % self.count
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const COUNT: u64 = 50_000;

    #[test]
    fn keys_are_distinct_and_as_long_as_promised() {
        for order in [Order::Random, Order::Sequential] {
            let keys: BTreeSet<_> = (0..COUNT)
                .map(|n| Key::of(order, n).bytes().to_vec())
                .collect();
            assert_eq!(keys.len() as u64, COUNT);
            let lens: BTreeSet<_> = keys.iter().map(Vec::len).collect();
            assert_eq!(lens, (16..=32).collect());
        }
    }

    #[test]
    fn only_sequential_keys_come_in_the_order_of_their_numbers() {
        let is_sorted = |order| {
            let keys: Vec<_> = (0..COUNT)
                .map(|n| Key::of(order, n).bytes().to_vec())
                .collect();
            keys.is_sorted()
        };
        assert!(is_sorted(Order::Sequential));
        assert!(!is_sorted(Order::Random));
    }

    #[test]
    fn absent_keys_lie_between_the_others_or_outside() {
        let present: BTreeSet<_> = (0..COUNT)
            .map(|n| Key::of(Order::Random, n).bytes().to_vec())
            .collect();
        let between = |key: &Key| {
            present.range(..key.bytes().to_vec()).next().is_some()
                && present.range(key.bytes().to_vec()..).next().is_some()
        };
        let inside = (0..COUNT).map(|n| Key::of(Order::Random, ABSENT + n));
        let inside: Vec<_> = inside.collect();
        assert!(inside.iter().all(|key| !present.contains(key.bytes())));
        let within = inside.iter().filter(|key| between(key)).count() as u64;
        assert!(within > COUNT - 10, "{within} of {COUNT}");
        assert!((0..COUNT).all(|n| !between(&Key::outside(n))));
    }

    #[test]
    fn a_value_tells_its_number_and_version() {
        let mut values = Values::new(100);
        let value = values.of(77, 3).to_vec();
        assert_eq!(stamp_of(&value, 100).ok(), Some((77, 3)));
        assert!(stamp_of(&value[1..], 100).is_err());
    }

    /// The most frequent of n has a part of 1 in the n-th generalised harmonic number.
    #[test]
    fn zipf_draws_the_first_rank_as_often_as_it_should() {
        let (zipf, mut rng) = (Zipf::new(1000), Rng::new(5));
        let draws = 200_000;
        let firsts = (0..draws).filter(|_| zipf.rank(&mut rng) == 0).count();
        let expected = f64::from(draws) / zipf.zeta;
        assert!(
            (firsts as f64 / expected - 1.0).abs() < 0.05,
            "{firsts}, not {expected}"
        );
        assert!((0..draws).all(|_| zipf.rank(&mut rng) < 1000));
    }
}
