//! Parities of several words at once: the inner step of a ribbon's lookup and of its solution.
//!
//! This is the portable form, written for 64-bit registers and left to the compiler to vectorise. A
//! form for one kind of processor belongs in a file beside this one, with the same two functions, and
//! is chosen here; a test must compare it with this one on random input.

/// Planes handled together.
pub(super) const LANES: usize = 8;

/// Parities of eight words: bit `j` of the result is the parity of `words[j]`.
///
/// Rather than folding each word by itself, two words are folded into the halves of one, as in a
/// transposition (Warren, "Hacker's Delight", section 7-3): 7 merges for 8 words instead of 24 folds.
#[inline(always)]
pub(super) fn parities(words: [u64; LANES]) -> u64 {
    if cfg!(target_feature = "popcnt") {
        // Built for a processor that counts bits: one instruction, or one for all eight words.
        return (0..LANES).fold(0, |value, j| value | parity(words[j]) << j);
    }
    let [a, b, c, d, e, f, g, h] = words;
    let (ae, bf) = (merge::<32>(a, e), merge::<32>(b, f));
    let (cg, dh) = (merge::<32>(c, g), merge::<32>(d, h));
    let even = merge::<16>(ae, cg);
    let odd = merge::<16>(bf, dh);
    let mut bytes = merge::<8>(even, odd);
    bytes ^= bytes >> 4;
    bytes ^= bytes >> 2;
    bytes ^= bytes >> 1;
    // Byte j now has its parity in its lowest bit; the product gathers these bits in the top byte.
    (bytes & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[inline(always)]
fn parity(word: u64) -> u64 {
    u64::from(word.count_ones() & 1)
}

/// Folds each lane of `2 * HALF` bits of both words to `HALF` bits: `low` lands in the lower half of
/// the lane, `high` in the upper half.
#[inline(always)]
fn merge<const HALF: u32>(low: u64, high: u64) -> u64 {
    let mask = u64::MAX / ((1 << HALF) + 1);
    ((low ^ (low >> HALF)) & mask) | ((high ^ (high << HALF)) & !mask)
}

/// The value at one window: bit `j` is the parity of the 64 slots of plane `j` that begin at `shift`,
/// masked with `row`.
///
/// `words` holds the planes of one block of 64 slots and, when `shift` is not 0, those of the next:
/// `planes` or `2 * planes` words, `planes` from 1 to 64.
#[inline(always)]
pub(super) fn evaluate(words: &[u64], planes: usize, row: u64, shift: u32) -> u64 {
    // Without a second block the first stands in for it, under a mask of zero.
    let (low, high) = (&words[..planes], &words[words.len() - planes..]);
    let masks = (row << shift, (row >> 1) >> (63 - shift));
    let (low_groups, rest) = low.as_chunks();
    let (high_groups, _) = high.as_chunks();
    let mut value = 0;
    for (group, (low, high)) in low_groups.iter().zip(high_groups).enumerate() {
        value |= evaluate_lanes(low, high, masks) << (group * LANES);
    }
    if rest.is_empty() {
        return value;
    }
    match (low.last_chunk(), high.last_chunk()) {
        // The last group overlaps the one before it, which is cheaper than padding: the bits found
        // twice are equal.
        (Some(low), Some(high)) => value | evaluate_lanes(low, high, masks) << (planes - LANES),
        _ => evaluate_few(low, high, masks),
    }
}

/// Eight bits of the value, from eight planes.
#[inline(always)]
fn evaluate_lanes(low: &[u64; LANES], high: &[u64; LANES], masks: (u64, u64)) -> u64 {
    parities(std::array::from_fn(|j| {
        (low[j] & masks.0) ^ (high[j] & masks.1)
    }))
}

/// The value of fewer than eight planes.
fn evaluate_few(low: &[u64], high: &[u64], masks: (u64, u64)) -> u64 {
    let words = low.iter().zip(high).enumerate();
    words.fold(0, |value, (j, (low, high))| {
        value | parity((low & masks.0) ^ (high & masks.1)) << j
    })
}

#[cfg(test)]
mod tests {
    use super::super::hash::{KeyHash, mix};
    use super::*;

    fn random(i: u64) -> u64 {
        mix(KeyHash(i), 0x5eed)
    }

    #[test]
    fn parities_agree_with_counting() {
        for round in 0..1000 {
            let words: [u64; LANES] = std::array::from_fn(|j| random(round * 8 + j as u64));
            let expected = (0..LANES).fold(0, |sum, j| {
                sum | (u64::from(words[j].count_ones()) & 1) << j
            });
            assert_eq!(parities(words), expected);
        }
    }

    #[test]
    fn evaluation_agrees_with_bit_by_bit() {
        for planes in 1..=64usize {
            for shift in [0u32, 1, 17, 63] {
                let words: Vec<u64> = (0..2 * planes as u64).map(random).collect();
                let row = random(planes as u64) | 1;
                let mut expected = 0u64;
                for plane in 0..planes {
                    for bit in (0..64u32).filter(|bit| row >> bit & 1 == 1) {
                        let slot = (shift + bit) as usize;
                        let word = words[slot / 64 * planes + plane];
                        expected ^= (word >> (slot % 64) & 1) << plane;
                    }
                }
                let used = if shift == 0 { planes } else { 2 * planes };
                assert_eq!(evaluate(&words[..used], planes, row, shift), expected);
            }
        }
    }
}
