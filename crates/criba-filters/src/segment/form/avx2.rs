//! The form for x86-64 processors with vectors of four words: of Intel since Haswell, of AMD since Zen.
#![expect(unsafe_code, reason = "vectors are loaded through pointers")]

use std::arch::x86_64::{
    __m256i, _bzhi_u64, _mm256_and_si256, _mm256_castps_si256, _mm256_castsi256_pd,
    _mm256_castsi256_ps, _mm256_i32gather_epi32, _mm256_loadu_si256, _mm256_movemask_pd,
    _mm256_movemask_ps, _mm256_mullo_epi32, _mm256_permute4x64_epi64, _mm256_set1_epi32,
    _mm256_set1_epi64x, _mm256_shuffle_ps, _mm256_slli_epi32, _mm256_slli_epi64, _mm256_sllv_epi32,
    _mm256_srli_epi32, _mm256_testc_si256, _mm256_xor_si256,
};

use super::{
    Answer, Blocked, Bloomier, Four, KeyHash, LANES, LINE_WORDS, PROBE_POWERS, Window, portable,
};

// Vectors of this kind cannot count bits; one word after the other is faster than to fold them.
pub(crate) use super::popcnt::substitute;

pub(crate) fn is_available() -> bool {
    std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("popcnt")
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(crate) fn ask_bloomier(filter: &Bloomier, hash: KeyHash, body: &[u64]) -> Answer {
    filter.ask::<true>(hash, body, |window, words| open(window, words))
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(crate) fn ask_bloom(filter: &Blocked, hash: KeyHash, body: &[u64]) -> Answer {
    filter.ask(hash, body, |line, mixed, count| has_all(line, mixed, count))
}

#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(crate) fn open(window: &Window, words: &[u64]) -> u64 {
    let planes = window.planes;
    let value = evaluate(words, planes as usize, window.row, window.shift);
    value ^ _bzhi_u64(window.fingerprint, planes)
}

#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(crate) fn evaluate(words: &[u64], planes: usize, row: u64, shift: u32) -> u64 {
    let (low, high) = (&words[..planes], &words[words.len() - planes..]);
    let masks = portable::masks(row, shift);
    let wide_masks = wide(masks);
    let (low_groups, rest) = low.as_chunks();
    let (high_groups, _) = high.as_chunks();
    let mut value = 0;
    for (group, (low, high)) in low_groups.iter().zip(high_groups).enumerate() {
        value |= evaluate_lanes(low, high, wide_masks) << (group * LANES);
    }
    if rest.is_empty() {
        return value;
    }
    match (low.last_chunk(), high.last_chunk()) {
        // As in the portable form, the last group overlaps the one before it.
        (Some(low), Some(high)) => {
            value | evaluate_lanes(low, high, wide_masks) << (planes - LANES)
        }
        _ => portable::evaluate_few(low, high, masks),
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(crate) fn evaluate_four(low: &Four, high: &Four, row: u64, shift: u32) -> u64 {
    // SAFETY: four words are 32 bytes, here and below.
    let low = unsafe { _mm256_loadu_si256(low.as_ptr().cast()) };
    // SAFETY: as above.
    let high = unsafe { _mm256_loadu_si256(high.as_ptr().cast()) };
    let masks = wide(portable::masks(row, shift));
    let mut words = select(low, high, masks);
    // Each word to its highest bit.
    words = _mm256_xor_si256(words, _mm256_slli_epi64::<32>(words));
    words = _mm256_xor_si256(words, _mm256_slli_epi64::<16>(words));
    words = _mm256_xor_si256(words, _mm256_slli_epi64::<8>(words));
    words = _mm256_xor_si256(words, _mm256_slli_epi64::<4>(words));
    words = _mm256_xor_si256(words, _mm256_slli_epi64::<2>(words));
    words = _mm256_xor_si256(words, _mm256_slli_epi64::<1>(words));
    // Four bits: the sign does not matter.
    _mm256_movemask_pd(_mm256_castsi256_pd(words)) as u64
}

/// The slots of a window, of four planes.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn select(low: __m256i, high: __m256i, masks: (__m256i, __m256i)) -> __m256i {
    _mm256_xor_si256(
        _mm256_and_si256(low, masks.0),
        _mm256_and_si256(high, masks.1),
    )
}

#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn wide(masks: (u64, u64)) -> (__m256i, __m256i) {
    (
        _mm256_set1_epi64x(masks.0 as i64),
        _mm256_set1_epi64x(masks.1 as i64),
    )
}

/// Eight bits of the value, from eight planes.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn evaluate_lanes(low: &[u64; LANES], high: &[u64; LANES], masks: (__m256i, __m256i)) -> u64 {
    let ((low, low_rest), (high, high_rest)) = (load(low), load(high));
    parities(select(low, high, masks), select(low_rest, high_rest, masks))
}

/// Parities of eight words.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn parities(words: __m256i, rest: __m256i) -> u64 {
    // Each word is folded to 32 bits; the shuffle leaves those of words 0, 1, 4, 5, 2, 3, 6, 7.
    let (a, b) = (_mm256_castsi256_ps(words), _mm256_castsi256_ps(rest));
    let low = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(a, b));
    let high = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(a, b));
    let mut halves = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_xor_si256(low, high));
    // And each half to its highest bit.
    halves = _mm256_xor_si256(halves, _mm256_slli_epi32::<16>(halves));
    halves = _mm256_xor_si256(halves, _mm256_slli_epi32::<8>(halves));
    halves = _mm256_xor_si256(halves, _mm256_slli_epi32::<4>(halves));
    halves = _mm256_xor_si256(halves, _mm256_slli_epi32::<2>(halves));
    halves = _mm256_xor_si256(halves, _mm256_slli_epi32::<1>(halves));
    // Eight bits: the sign does not matter.
    _mm256_movemask_ps(_mm256_castsi256_ps(halves)) as u64
}

#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn load(words: &[u64; LANES]) -> (__m256i, __m256i) {
    let (halves, _) = words.as_chunks::<4>();
    // SAFETY: four words are 32 bytes.
    let first = unsafe { _mm256_loadu_si256(halves[0].as_ptr().cast()) };
    // SAFETY: as above.
    let second = unsafe { _mm256_loadu_si256(halves[1].as_ptr().cast()) };
    (first, second)
}

/// Eight probes at a time.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(crate) fn has_all(line: &[u64; LINE_WORDS], mixed: u64, count: u8) -> bool {
    // Only the low half of the mixed hash takes part.
    let start = _mm256_set1_epi32(mixed as i32);
    let mut left = usize::from(count);
    let (groups, _) = PROBE_POWERS.as_chunks::<8>();
    for powers in groups {
        // SAFETY: eight powers are 32 bytes.
        let powers = unsafe { _mm256_loadu_si256(powers.as_ptr().cast()) };
        let states = _mm256_mullo_epi32(start, powers);
        // The words of this machine are little-endian: of the 9 bits, the highest 4 name one of 16
        // half words, the lowest 5 the bit in it.
        let halves = _mm256_srli_epi32::<28>(states);
        // SAFETY: indices of 4 bits stay within the 16 half words of a line.
        let halves = unsafe { _mm256_i32gather_epi32::<4>(line.as_ptr().cast(), halves) };
        let bit = _mm256_srli_epi32::<27>(_mm256_slli_epi32::<4>(states));
        let bits = _mm256_sllv_epi32(wanted(left), bit);
        if _mm256_testc_si256(halves, bits) == 0 {
            return false;
        }
        if left <= LANES {
            break;
        }
        left -= LANES;
    }
    true
}

/// One in as many lanes as there are probes left, the others zero.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn wanted(left: usize) -> __m256i {
    const ONES: [i32; 16] = [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let ones = &ONES[LANES - left.min(LANES)..][..LANES];
    // SAFETY: eight numbers are 32 bytes.
    unsafe { _mm256_loadu_si256(ones.as_ptr().cast()) }
}
