//! How a Bloom filter chooses the bits of a key, from its mixed hash.
//!
//! - **double**: the mixed hash and from it a step; bit `i` is at hash + i * step. Kirsch,
//!   Mitzenmacher, "Less hashing, same performance: building a better Bloom filter" (2006): two
//!   numbers are as good as `k` hashes, in the limit. In a filter of `m` bits a few of every `k m`
//!   keys get a step so close to 0, 1/2 or 1/3 of the array that their bits fall together and are
//!   often all set: in a small filter of low rate that is more than the rate itself.
//! - **xxh3**: the same with a step that grows by a constant from bit to bit, which no key can have
//!   bad luck with.
//! - **enhanced**: bit `i` is at (h1 + i h2 + i^2) mod m, from MurmurHash3 (32 bits, Appleby 2011)
//!   and FNV-1 (Fowler, Noll, Vo 1991). Dillinger, Manolios, "Bloom filters in probabilistic
//!   verification" (2004): the square keeps two keys with equal h2 apart. 32 bits each; for
//!   comparison.
//! - **BLAKE2b** (Aumasson et al., 2013): `k` independent hashes, salted with their number; the
//!   slow standard that theory assumes. With the cargo feature `lab` only.
//!
//! The last two hash the eight bytes of the mixed hash, not the key: a filter never sees keys.
//!
//! Which bits are chosen reaches stored bytes and must not be changed.

use crate::error::{Error, Result};
use crate::hash::{remix, start_of};

/// How the bits of a key are chosen.
///
/// ```
/// use criba_filters::{Classic, Design, Hashing, Insert, Membership};
///
/// let design = Design::for_rate(1_000, 0.01)?.hashed(Hashing::Double);
/// let mut filter = Classic::new(design)?;
/// filter.insert("apple")?;
/// assert!(filter.may_contain("apple"));
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Hashing {
    /// The hash of the key, and a step that grows: the one to use.
    #[default]
    Xxh3,
    /// The hash of the key and a step that stays: the rate of small filters is above theory.
    Double,
    /// Enhanced double hashing, h1 + i h2 + i^2, of MurmurHash3-32 and FNV-1 of the hash; up to
    /// 2^32 bits.
    Enhanced,
    /// A salted BLAKE2b of the hash for each bit.
    #[cfg(feature = "lab")]
    Blake2b,
}

const XXH3: u8 = 0;
const ENHANCED: u8 = 1;
const BLAKE2B: u8 = 2;
const DOUBLE: u8 = 3;

/// By what the step grows: 2^64 divided by the golden ratio. Must not be changed.
const GROWTH: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hashing {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Xxh3 => "xxh3",
            Self::Double => "xxh3, double hashing",
            Self::Enhanced => "murmur3 and fnv-1",
            #[cfg(feature = "lab")]
            Self::Blake2b => "blake2b",
        }
    }

    /// Most bits that it reaches all of.
    pub(super) fn bits_max(self) -> u64 {
        match self {
            Self::Enhanced => 1 << 32,
            _ => u64::MAX,
        }
    }

    pub(super) fn to_u8(self) -> u8 {
        match self {
            Self::Xxh3 => XXH3,
            Self::Double => DOUBLE,
            Self::Enhanced => ENHANCED,
            #[cfg(feature = "lab")]
            Self::Blake2b => BLAKE2B,
        }
    }

    pub(super) fn from_u8(number: u8) -> Result<Self> {
        match number {
            XXH3 => Ok(Self::Xxh3),
            DOUBLE => Ok(Self::Double),
            ENHANCED => Ok(Self::Enhanced),
            #[cfg(feature = "lab")]
            BLAKE2B => Ok(Self::Blake2b),
            #[cfg(not(feature = "lab"))]
            BLAKE2B => Err(Error::Unreadable(crate::Unreadable::Other {
                wanted: "a filter that this build can read".to_owned(),
                found: "a filter hashed with BLAKE2b, which needs the feature `lab`".to_owned(),
            })),
            _ => Err(Error::field("the hashing is unknown")),
        }
    }

    /// The bits of a key with this mixed hash among so many, in order, with repetitions.
    #[inline]
    pub(super) fn positions(self, mixed: u64, bits: u64) -> Positions {
        let source = match self {
            Self::Xxh3 => stepped(mixed, GROWTH),
            Self::Double => stepped(mixed, 0),
            Self::Enhanced => Source::Enhanced {
                first: murmur3(&mixed.to_le_bytes()),
                step: fnv1(&mixed.to_le_bytes()),
            },
            #[cfg(feature = "lab")]
            Self::Blake2b => Source::Blake2b { mixed },
        };
        Positions {
            source,
            bits,
            next: 0,
        }
    }
}

/// The bits of a key, without end.
pub(super) struct Positions {
    source: Source,
    bits: u64,
    next: u64,
}

enum Source {
    Stepped {
        at: u64,
        step: u64,
        growth: u64,
    },
    Enhanced {
        first: u32,
        step: u32,
    },
    #[cfg(feature = "lab")]
    Blake2b {
        mixed: u64,
    },
}

#[inline]
fn stepped(mixed: u64, growth: u64) -> Source {
    Source::Stepped {
        at: mixed,
        step: remix(mixed),
        growth,
    }
}

impl Iterator for Positions {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let i = self.next;
        self.next += 1;
        let bits = self.bits;
        Some(match &mut self.source {
            Source::Stepped { at, step, growth } => {
                let position = start_of(*at, bits);
                *at = at.wrapping_add(*step);
                *step = step.wrapping_add(*growth);
                position
            }
            // Probes are at most 128, so nothing overflows.
            Source::Enhanced { first, step } => {
                (u64::from(*first) + i * u64::from(*step) + i * i) % bits
            }
            #[cfg(feature = "lab")]
            Source::Blake2b { mixed } => start_of(blake2b(i, &mixed.to_le_bytes()), bits),
        })
    }
}

/// MurmurHash3 for 32-bit results ("x86_32"), with seed 0.
fn murmur3(key: &[u8]) -> u32 {
    const FIRST: u32 = 0xcc9e_2d51;
    const SECOND: u32 = 0x1b87_3593;
    let scrambled = |word: u32| {
        word.wrapping_mul(FIRST)
            .rotate_left(15)
            .wrapping_mul(SECOND)
    };
    let (words, rest) = key.as_chunks::<4>();
    let mut hash = 0u32;
    for word in words {
        hash ^= scrambled(u32::from_le_bytes(*word));
        hash = hash
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64);
    }
    let tail = rest
        .iter()
        .rev()
        .fold(0, |tail, byte| tail << 8 | u32::from(*byte));
    hash ^= scrambled(tail);
    // The length counts modulo 2^32.
    hash ^= key.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// FNV-1 for 32-bit results.
fn fnv1(key: &[u8]) -> u32 {
    key.iter().fold(0x811c_9dc5, |hash, byte| {
        hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte)
    })
}

/// BLAKE2b with 8 bytes of result, salted with a number.
#[cfg(feature = "lab")]
fn blake2b(number: u64, key: &[u8]) -> u64 {
    use blake2::Blake2bMac;
    use blake2::digest::consts::U8;
    use blake2::digest::{FixedOutput, Update};

    let mut salt = [0; 16];
    salt[..8].copy_from_slice(&number.to_le_bytes());
    let mut hasher = Blake2bMac::<U8>::new_with_salt_and_personal(None, &salt, &[])
        .expect("a salt of 16 bytes is what BLAKE2b takes");
    hasher.update(key);
    u64::from_le_bytes(hasher.finalize_fixed().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values published with the functions.
    #[test]
    fn hashes_are_those_of_their_authors() {
        assert_eq!(murmur3(b""), 0);
        assert_eq!(murmur3(b"hello"), 0x248b_fa47);
        assert_eq!(murmur3(b"hello, world"), 0x149b_bb7f);
        let fox = b"The quick brown fox jumps over the lazy dog";
        assert_eq!(murmur3(fox), 0x2e4f_f723);
        assert_eq!(fnv1(b""), 0x811c_9dc5);
        assert_eq!(fnv1(b"a"), 0x050c_5d7e);
        assert_eq!(fnv1(b"foobar"), 0x31f0_b262);
    }

    /// Python: `hashlib.blake2b(b"criba", digest_size=8, salt=...)`.
    #[cfg(feature = "lab")]
    #[test]
    fn blake2b_is_that_of_the_standard() {
        assert_eq!(blake2b(0, b"criba"), 0x825b_a660_7c97_b6e3);
        assert_eq!(blake2b(3, b"criba"), 0x3ac4_0ebc_40c4_ce9e);
    }

    #[test]
    fn positions_lie_within_and_are_the_same_again() {
        for hashing in [Hashing::Xxh3, Hashing::Double, Hashing::Enhanced] {
            for bits in [1, 2, 63, 1_000_003, 1 << 32] {
                let some = |mixed| hashing.positions(mixed, bits).take(128);
                assert!(some(5).all(|at| at < bits));
                assert!(some(5).eq(some(5)));
                assert!(bits < 1_000 || some(5).ne(some(5 << 32 | 6)));
            }
        }
    }
}
