//! The form that every processor executes, written for 64-bit registers and left to the compiler to
//! vectorise. `COUNTED` is for processors that count the bits of a word with one instruction.

use super::{Four, LANES, LINE_WORDS, Row, SLOTS, Window, probes};

/// Slots solved together.
const STEP: usize = 4;

/// See [`Form::evaluate`](super::Form::evaluate).
#[inline(always)]
pub(crate) fn evaluate<const COUNTED: bool>(
    words: &[u64],
    planes: usize,
    row: u64,
    shift: u32,
) -> u64 {
    // Without a second block the first stands in for it, under a mask of zero.
    let (low, high) = (&words[..planes], &words[words.len() - planes..]);
    let masks = masks(row, shift);
    let (low_groups, rest) = low.as_chunks();
    let (high_groups, _) = high.as_chunks();
    let mut value = 0;
    for (group, (low, high)) in low_groups.iter().zip(high_groups).enumerate() {
        value |= evaluate_lanes::<COUNTED>(low, high, masks) << (group * LANES);
    }
    if rest.is_empty() {
        return value;
    }
    match (low.last_chunk(), high.last_chunk()) {
        // The last group overlaps the one before it, which is cheaper than padding: the bits found
        // twice are equal.
        (Some(low), Some(high)) => {
            value | evaluate_lanes::<COUNTED>(low, high, masks) << (planes - LANES)
        }
        _ => evaluate_few(low, high, masks),
    }
}

/// See [`Form::open`](super::Form::open).
#[inline(always)]
pub(crate) fn open<const COUNTED: bool>(window: &Window, words: &[u64]) -> u64 {
    let planes = window.planes;
    let value = evaluate::<COUNTED>(words, planes as usize, window.row, window.shift);
    (value ^ window.fingerprint) & (u64::MAX >> (u64::BITS - planes))
}

/// See [`Form::evaluate_four`](super::Form::evaluate_four).
#[inline(always)]
pub(crate) fn evaluate_four(low: &Four, high: &Four, row: u64, shift: u32) -> u64 {
    evaluate_few(low, high, masks(row, shift))
}

/// The coefficients that fall into the first block of a window, and into the second.
#[inline(always)]
pub(crate) fn masks(row: u64, shift: u32) -> (u64, u64) {
    (row << shift, (row >> 1) >> (63 - shift))
}

/// Eight bits of the value, from eight planes.
#[inline(always)]
fn evaluate_lanes<const COUNTED: bool>(
    low: &[u64; LANES],
    high: &[u64; LANES],
    masks: (u64, u64),
) -> u64 {
    parities::<COUNTED>(std::array::from_fn(|j| {
        (low[j] & masks.0) ^ (high[j] & masks.1)
    }))
}

/// The value of fewer than eight planes.
#[inline(always)]
pub(crate) fn evaluate_few(low: &[u64], high: &[u64], masks: (u64, u64)) -> u64 {
    let words = low.iter().zip(high).enumerate();
    words.fold(0, |value, (j, (low, high))| {
        value | parity((low & masks.0) ^ (high & masks.1)) << j
    })
}

/// Parities of eight words: bit `j` of the result is the parity of `words[j]`.
///
/// Rather than folding each word by itself, two words are folded into the halves of one, as in a
/// transposition (Warren, "Hacker's Delight", section 7-3): 7 merges for 8 words instead of 24 folds.
#[inline(always)]
pub(crate) fn parities<const COUNTED: bool>(words: [u64; LANES]) -> u64 {
    if COUNTED {
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

/// See [`Form::substitute`](super::Form::substitute).
#[inline(always)]
pub(crate) fn substitute<const COUNTED: bool>(
    rows: &[Row; SLOTS],
    planes: usize,
    state: &mut [u64; SLOTS],
) {
    let (groups, _) = state.as_chunks_mut();
    for (group, lanes) in groups.iter_mut().enumerate() {
        let first = group * LANES;
        if first >= planes {
            break;
        }
        substitute_lanes::<COUNTED>(rows, first, lanes);
    }
}

/// The same for eight planes.
///
/// A slot depends on the slot after it, and parities take long. So those of a few slots are taken of
/// what was solved before them, which can overlap, and the slots' own part is added at the end.
#[inline(always)]
fn substitute_lanes<const COUNTED: bool>(
    rows: &[Row; SLOTS],
    first_plane: usize,
    lanes: &mut [u64; LANES],
) {
    for rows in rows.rchunks_exact(STEP) {
        let mut solved = [0; STEP];
        for (i, (solved, row)) in solved.iter_mut().zip(rows).enumerate() {
            let known = lanes.map(|lane| (lane << (STEP - i)) & row.bits);
            *solved = parities::<COUNTED>(known) ^ (row.value >> first_plane);
        }
        for i in (0..STEP - 1).rev() {
            for later in i + 1..STEP {
                let coefficient = (rows[i].bits >> (later - i)) & 1;
                solved[i] ^= solved[later] & coefficient.wrapping_neg();
            }
        }
        for (j, lane) in lanes.iter_mut().enumerate() {
            *lane <<= STEP;
            for (i, solved) in solved.iter().enumerate() {
                *lane |= ((solved >> j) & 1) << i;
            }
        }
    }
}

/// See [`Form::has_all`](super::Form::has_all).
#[inline(always)]
pub(crate) fn has_all(line: &[u64; LINE_WORDS], mixed: u64, count: u8) -> bool {
    // The word index is below 8 by its construction from 9 bits.
    // All probes are looked at: a branch after each would be guessed wrong every other time.
    let missing = |missing, (word, mask): (usize, u64)| missing | (!line[word] & mask);
    probes(mixed, count).fold(0, missing) == 0
}
