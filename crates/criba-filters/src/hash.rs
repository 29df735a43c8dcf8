//! The one hash of a key, and how a filter splits it.
//!
//! A key is hashed once; every filter and sketch then derives all it needs from that one number and
//! its own salt. All functions below but `hash_key` reach the disk: a filter block can only be read
//! with exactly these constants, so they must not be changed. The seed of [`KeyHash::from`] reaches
//! whoever stores a filter.
//!
//! Invariants:
//! 1. `mix` and `remix` are bijections of the 64-bit numbers: hashes that are equal stay equal, and
//!    no others become equal.
//! 2. `start_of` is monotone in the mixed hash, so sorting by hash sorts by start position.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The 64-bit hash of a key: all that a filter or a sketch takes.
///
/// Bytes and strings become one by `into()`, so a key is written where a hash is asked for: XXH3
/// with the public seed 0. Whoever can choose keys can then choose keys that collide. Where that
/// matters, make hashes with [`hash_key`] and a secret seed. Two keys may have equal hashes, one
/// pair in 2^64; they are one key to every structure.
///
/// A number is no key: it could be meant as a hash, or as a key in one of several widths.
/// `KeyHash(number)` is a hash made elsewhere, which should be as good as random;
/// `&number.to_le_bytes()` is a key.
///
/// ```
/// use criba_filters::{KeyHash, hash_key};
///
/// let hash = KeyHash::from("apple");
/// assert_eq!(hash, KeyHash::from(b"apple"));
/// assert_eq!(hash, KeyHash::from(&String::from("apple")));
/// assert_eq!(hash, hash_key(0, b"apple"));
/// assert_ne!(hash, hash_key(7, b"apple"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct KeyHash(pub u64);

/// The seed of [`KeyHash::from`]. Must not be changed: stored filters hold hashes made with it.
const PUBLIC_SEED: u64 = 0;

impl<T: AsRef<[u8]> + ?Sized> From<&T> for KeyHash {
    #[inline]
    fn from(key: &T) -> Self {
        hash_key(PUBLIC_SEED, key.as_ref())
    }
}

impl From<&KeyHash> for KeyHash {
    #[inline]
    fn from(hash: &KeyHash) -> Self {
        *hash
    }
}

/// Hashes a key with a seed of one's own (XXH3, 64 bits).
///
/// A seed that was chosen at random and is kept secret, as a store keeps it in its manifest, leaves
/// nobody who only chooses keys a way to choose their hashes.
///
/// ```
/// use criba_filters::{Blocked, Insert, Membership, hash_key};
///
/// let mut seen = Blocked::new(1_000, 10.0)?;
/// seen.insert(hash_key(0x5ec2e7, b"apple"))?;
/// assert!(seen.may_contain(hash_key(0x5ec2e7, b"apple")));
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[inline]
#[must_use]
pub fn hash_key(seed: u64, key: &[u8]) -> KeyHash {
    KeyHash(xxh3_64_with_seed(key, seed))
}

/// Odd multiplier of [`coefficients`]. Written to disk by its effect; must not be changed.
const COEFFICIENT_FACTOR: u64 = 0x9e6c_63d0_876a_9a47;
/// Odd multiplier of [`fingerprint`]. Written to disk by its effect; must not be changed.
const FINGERPRINT_FACTOR: u64 = 0xd6e8_feb8_6659_fd93;
/// Added before each further mix: 2^64 divided by the golden ratio. Must not be changed.
const LAYER_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The mixed hash `m` of a key in a filter block with this salt.
///
/// The mixer is Pelle Evensen's "moremur" (2019), a bijection with better avalanche than the
/// finaliser of MurmurHash3 at the same cost.
#[inline]
pub fn mix(hash: KeyHash, salt: u64) -> u64 {
    scramble(hash.0 ^ salt)
}

/// Step between the salts of filters and rows that must be independent: 2^64 over the square root
/// of 5, made odd. Must not be changed.
const SALT_STEP: u64 = 0x727c_9716_ffb7_64d5;

/// The mixed hash of a key in the filter, or row, with this number. Those of other numbers are as
/// good as independent.
#[inline]
pub(crate) fn mix_for(hash: KeyHash, number: u64) -> u64 {
    mix(hash, number.wrapping_mul(SALT_STEP))
}

/// The hash that [`mix_for`] brought to a given number.
pub(crate) fn unmix_for(mixed: u64, number: u64) -> KeyHash {
    unmix(mixed, number.wrapping_mul(SALT_STEP))
}

/// The mixed hash in the next layer, from the mixed hash in this one.
#[inline]
pub(crate) fn remix(mixed: u64) -> u64 {
    scramble(mixed.wrapping_add(LAYER_STEP))
}

const MULTIPLIERS: (u64, u64) = (0x3c79_ac49_2ba7_b653, 0x1c69_b3f7_4ac4_ae35);

#[inline]
fn scramble(mut x: u64) -> u64 {
    x ^= x >> 27;
    x = x.wrapping_mul(MULTIPLIERS.0);
    x ^= x >> 33;
    x = x.wrapping_mul(MULTIPLIERS.1);
    x ^ (x >> 27)
}

/// Maps a mixed hash to `0..count` by its high bits (Lemire, "Fast random integer generation in an
/// interval", 2019, section 3); 0 when `count` is 0.
#[inline]
pub fn start_of(mixed: u64, count: u64) -> u64 {
    // The product of two 64-bit numbers, shifted by 64, fits 64 bits.
    ((u128::from(mixed) * u128::from(count)) >> 64) as u64
}

/// The least mixed hash that [`start_of`] maps to `start` or above; `None` if there is none.
#[inline]
pub(crate) fn least_of(start: u64, count: u64) -> Option<u64> {
    // Below `count`, the quotient is below 2^64 and so is the next number above it.
    (start < count).then(|| (u128::from(start) << 64).div_ceil(u128::from(count)) as u64)
}

/// The 64 coefficients of a key's equation; the lowest is always 1.
///
/// Keys with neighbouring starts share the high bits of `mixed`; the product carries the low bits
/// up and the shift brings them back down.
#[inline]
pub(crate) fn coefficients(mixed: u64) -> u64 {
    let product = mixed.wrapping_mul(COEFFICIENT_FACTOR);
    (product ^ (product >> 32)) | 1
}

/// The 64 fingerprint bits of a key; a filter stores its values XOR the lowest few.
#[inline]
pub(crate) fn fingerprint(mixed: u64) -> u64 {
    let product = mixed.rotate_left(32).wrapping_mul(FINGERPRINT_FACTOR);
    product ^ (product >> 32)
}

/// The lowest `bits` bits set, 0 to 64 of them.
#[inline]
pub(crate) fn low_mask(bits: u32) -> u64 {
    1u64.checked_shl(bits).unwrap_or(0).wrapping_sub(1)
}

/// The hash that mixes to a given number.
pub(crate) fn unmix(mixed: u64, salt: u64) -> KeyHash {
    /// Inverse of an odd number modulo 2^64, by Newton's iteration.
    const fn inverse(odd: u64) -> u64 {
        let mut inverse = odd;
        // Each step doubles the bits that are right; the first three always are.
        let mut bits = 3;
        while bits < u64::BITS {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
            bits *= 2;
        }
        inverse
    }
    let mut x = mixed ^ (mixed >> 27) ^ (mixed >> 54);
    x = x.wrapping_mul(const { inverse(MULTIPLIERS.1) });
    x ^= x >> 33;
    x = x.wrapping_mul(const { inverse(MULTIPLIERS.0) });
    KeyHash(x ^ (x >> 27) ^ (x >> 54) ^ salt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixing_can_be_undone() {
        for i in 0..10_000u64 {
            let hash = i.wrapping_mul(0x0123_4567_89ab_cdef) ^ (i << 50);
            assert_eq!(unmix(mix(KeyHash(hash), 77), 77), KeyHash(hash));
            assert_eq!(unmix(remix(hash), 0).0.wrapping_sub(LAYER_STEP), hash);
        }
    }

    /// Golden values: they change only with the disk format.
    #[test]
    fn constants_are_those_of_the_format() {
        let m = mix(KeyHash(1), 2);
        let KeyHash(hash) = hash_key(7, b"criba");
        assert_eq!([hash, m, remix(m), coefficients(m), fingerprint(m)], GOLDEN);
    }
    const GOLDEN: [u64; 5] = [
        6018550828980561836,
        9584051324637849703,
        11665069869497399826,
        10604746186953263849,
        12261839974761391471,
    ];

    /// XXH3 of the key with seed 0, as other programs calculate it too.
    #[test]
    fn keys_are_hashed_with_the_public_seed() {
        let expected = KeyHash(XXH3_OF_CRIBA);
        let owned = String::from("criba");
        let all = [
            KeyHash::from("criba"),
            KeyHash::from(b"criba"),
            KeyHash::from(&b"criba"[..]),
            KeyHash::from(&owned),
            KeyHash::from(&owned.into_bytes()),
            KeyHash::from(&expected),
        ];
        assert_eq!(all, [expected; 6]);
    }
    const XXH3_OF_CRIBA: u64 = 17_003_636_228_117_435_928;

    #[test]
    fn starts_cover_their_range_in_order() {
        assert_eq!(start_of(u64::MAX, 0), 0);
        assert_eq!(start_of(0, 1000), 0);
        assert_eq!(start_of(u64::MAX, 1000), 999);
        let mut previous = 0;
        for i in 0..1000u64 {
            let start = start_of(i << 54, 100);
            assert!(start >= previous && start < 100);
            previous = start;
        }
    }

    #[test]
    fn the_least_hash_of_a_start_is_the_first_that_maps_to_it() {
        for count in [1, 2, 3, 65, 1000, 999_999, u64::from(u32::MAX) * 64 - 63] {
            for start in [0, 1, 2, 64, 127, count / 2, count - 1] {
                match least_of(start, count) {
                    Some(least) => {
                        assert!(start_of(least, count) >= start);
                        assert!(least == 0 || start_of(least - 1, count) < start);
                    }
                    None => assert!(start_of(u64::MAX, count) < start),
                }
            }
        }
    }

    #[test]
    fn coefficients_always_begin_with_one() {
        assert!((0..1000).all(|i| coefficients(mix(KeyHash(i), 0)) & 1 == 1));
    }
}
