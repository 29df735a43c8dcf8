//! The form for aarch64: vectors of two words that count bits by bytes, and look bytes up in a line.
#![expect(unsafe_code, reason = "vectors are loaded through pointers")]

use std::arch::aarch64::{
    uint8x16_t, uint64x2_t, vandq_u64, vcntq_u8, vdup_n_u8, vdupq_n_u32, vdupq_n_u64, veorq_u64,
    vget_high_u8, vget_lane_u64, vget_low_u8, vld1q_u8_x4, vld1q_u32_x2, vld1q_u64_x2,
    vld1q_u64_x4, vmulq_u32, vpadd_u8, vpaddq_u8, vqtbl4_u8, vreinterpret_s8_u8,
    vreinterpret_u64_u8, vreinterpretq_u8_u64, vreinterpretq_u16_u32, vshl_u8, vshr_n_u8,
    vshrn_n_u16, vtst_u8, vuzp2q_u16,
};

use super::{
    Answer, Blocked, Bloomier, Four, KeyHash, LANES, LINE_WORDS, PROBE_POWERS, Row, SLOTS, Window,
    portable,
};

/// Bytes of a line are looked up as little-endian machines hold them.
pub(crate) fn is_available() -> bool {
    cfg!(target_endian = "little") && std::arch::is_aarch64_feature_detected!("neon")
}

#[target_feature(enable = "neon")]
pub(crate) fn ask_bloomier(filter: &Bloomier, hash: KeyHash, body: &[u64]) -> Answer {
    filter.ask::<true>(hash, body, |window, words| open(window, words))
}

#[target_feature(enable = "neon")]
pub(crate) fn ask_bloom(filter: &Blocked, hash: KeyHash, body: &[u64]) -> Answer {
    filter.ask(hash, body, |line, mixed, count| has_all(line, mixed, count))
}

// The slots wait for each other, and counting a word takes four steps in vectors.
#[target_feature(enable = "neon")]
pub(crate) fn substitute(rows: &[Row; SLOTS], planes: usize, state: &mut [u64; SLOTS]) {
    portable::substitute::<false>(rows, planes, state);
}

#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn open(window: &Window, words: &[u64]) -> u64 {
    let planes = window.planes;
    let value = evaluate(words, planes as usize, window.row, window.shift);
    (value ^ window.fingerprint) & (u64::MAX >> (u64::BITS - planes))
}

#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn evaluate(words: &[u64], planes: usize, row: u64, shift: u32) -> u64 {
    let (low, high) = (&words[..planes], &words[words.len() - planes..]);
    let masks = portable::masks(row, shift);
    let (low_groups, rest) = low.as_chunks();
    let (high_groups, _) = high.as_chunks();
    let mut value = 0;
    for (group, (low, high)) in low_groups.iter().zip(high_groups).enumerate() {
        value |= evaluate_lanes(low, high, masks) << (group * LANES);
    }
    if rest.is_empty() {
        return value;
    }
    // As in the portable form, the last group overlaps the one before it, be it of eight or of four.
    if let (Some(low), Some(high)) = (low.last_chunk(), high.last_chunk()) {
        return value | evaluate_lanes(low, high, masks) << (planes - LANES);
    }
    let first = low.first_chunk().zip(high.first_chunk());
    let last = low.last_chunk().zip(high.last_chunk());
    match (first, last) {
        (Some(first), Some(last)) => {
            let first = evaluate_four(first.0, first.1, row, shift);
            first | evaluate_four(last.0, last.1, row, shift) << (planes - LANES / 2)
        }
        _ => portable::evaluate_few(low, high, masks),
    }
}

/// Eight bits of the value, from eight planes.
#[inline]
#[target_feature(enable = "neon")]
fn evaluate_lanes(low: &[u64; LANES], high: &[u64; LANES], masks: (u64, u64)) -> u64 {
    // SAFETY: four vectors are eight words, here and below.
    let low = unsafe { vld1q_u64_x4(low.as_ptr()) };
    // SAFETY: as above.
    let high = unsafe { vld1q_u64_x4(high.as_ptr()) };
    let first = vpaddq_u8(count(low.0, high.0, masks), count(low.1, high.1, masks));
    let second = vpaddq_u8(count(low.2, high.2, masks), count(low.3, high.3, masks));
    parities(first, second)
}

#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn evaluate_four(low: &Four, high: &Four, row: u64, shift: u32) -> u64 {
    let masks = portable::masks(row, shift);
    // SAFETY: two vectors are four words, here and below.
    let low = unsafe { vld1q_u64_x2(low.as_ptr()) };
    // SAFETY: as above.
    let high = unsafe { vld1q_u64_x2(high.as_ptr()) };
    let counts = vpaddq_u8(count(low.0, high.0, masks), count(low.1, high.1, masks));
    parities(counts, counts) & 0xf
}

/// The slots of a window, of two planes, counted byte by byte.
#[inline]
#[target_feature(enable = "neon")]
fn count(low: uint64x2_t, high: uint64x2_t, masks: (u64, u64)) -> uint8x16_t {
    let (low_mask, high_mask) = (vdupq_n_u64(masks.0), vdupq_n_u64(masks.1));
    let slots = veorq_u64(vandq_u64(low, low_mask), vandq_u64(high, high_mask));
    vcntq_u8(vreinterpretq_u8_u64(slots))
}

/// Parities of eight words, of which four bytes each are to be added up.
#[inline]
#[target_feature(enable = "neon")]
fn parities(first: uint8x16_t, second: uint8x16_t) -> u64 {
    let pairs = vpaddq_u8(first, second);
    let counts = vpadd_u8(vget_low_u8(pairs), vget_high_u8(pairs));
    let bytes = vget_lane_u64::<0>(vreinterpret_u64_u8(counts));
    // As in the portable form, the product gathers the lowest bit of each byte in the top byte.
    (bytes & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// Eight probes at a time.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn has_all(line: &[u64; LINE_WORDS], mixed: u64, count: u8) -> bool {
    // SAFETY: a line has 64 bytes.
    let line = unsafe { vld1q_u8_x4(line.as_ptr().cast()) };
    // Only the low half of the mixed hash takes part.
    let start = vdupq_n_u32(mixed as u32);
    let mut left = u32::from(count);
    let (groups, _) = PROBE_POWERS.as_chunks::<LANES>();
    for powers in groups.iter().take(usize::from(count).div_ceil(LANES)) {
        // SAFETY: two vectors are eight powers.
        let powers = unsafe { vld1q_u32_x2(powers.as_ptr()) };
        let low = vreinterpretq_u16_u32(vmulq_u32(start, powers.0));
        let high = vreinterpretq_u16_u32(vmulq_u32(start, powers.1));
        // Of the highest 9 bits, the highest 6 name a byte of the line, the lowest 3 the bit in it.
        let states = vuzp2q_u16(low, high);
        let places = vshr_n_u8::<2>(vshrn_n_u16::<8>(states));
        let bits = vshr_n_u8::<5>(vshrn_n_u16::<2>(states));
        let masks = vshl_u8(vdup_n_u8(1), vreinterpret_s8_u8(bits));
        let found = vtst_u8(vqtbl4_u8(line, places), masks);
        let missing = !vget_lane_u64::<0>(vreinterpret_u64_u8(found));
        // A byte for each probe.
        if missing << (u64::BITS - 8 * left.min(8)) != 0 {
            return false;
        }
        left = left.saturating_sub(8);
    }
    true
}
