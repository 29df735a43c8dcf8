//! The form for x86-64 processors that count the bits of eight words at once: of Intel since Ice Lake,
//! of AMD since Zen 4.
#![expect(unsafe_code, reason = "vectors are loaded through pointers")]

use std::arch::x86_64::{
    __m512i, _bzhi_u32, _bzhi_u64, _mm256_loadu_si256, _mm512_add_epi64, _mm512_and_si512,
    _mm512_castsi256_si512, _mm512_loadu_si512, _mm512_maskz_loadu_epi64, _mm512_mullo_epi32,
    _mm512_or_si512, _mm512_permutexvar_epi32, _mm512_popcnt_epi64, _mm512_rorv_epi32,
    _mm512_set1_epi32, _mm512_set1_epi64, _mm512_setr_epi64, _mm512_shrdv_epi64, _mm512_slli_epi64,
    _mm512_srli_epi32, _mm512_srlv_epi64, _mm512_storeu_si512, _mm512_test_epi32_mask,
    _mm512_test_epi64_mask,
};

use super::{
    Answer, Blocked, Bloomier, Four, KeyHash, LANES, LINE_WORDS, PROBE_POWERS, Planes, Row, SLOTS,
    Window,
};

/// Groups of eight planes in the widest value.
const GROUPS_MAX: usize = SLOTS / LANES;

pub(crate) fn is_available() -> bool {
    std::is_x86_feature_detected!("avx512f")
        && std::is_x86_feature_detected!("avx512dq")
        && std::is_x86_feature_detected!("avx512vbmi2")
        && std::is_x86_feature_detected!("avx512vpopcntdq")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("popcnt")
}

#[target_feature(enable = "avx512f,avx512dq,avx512vbmi2,avx512vpopcntdq,bmi2,popcnt")]
pub(crate) fn ask_bloomier(filter: &Bloomier, hash: KeyHash, body: &[u64]) -> Answer {
    let Planes { narrow, wide } = filter.planes();
    if narrow != wide {
        return match wide {
            ..=8 => ask_groups::<1, true>(filter, hash, body),
            9..=16 => ask_groups::<2, true>(filter, hash, body),
            _ => ask_groups::<GROUPS_MAX, true>(filter, hash, body),
        };
    }
    match wide {
        ..=8 => ask_groups::<1, false>(filter, hash, body),
        9..=16 => ask_groups::<2, false>(filter, hash, body),
        17..=24 => ask_groups::<3, false>(filter, hash, body),
        _ => ask_groups::<GROUPS_MAX, false>(filter, hash, body),
    }
}

/// The same where no value has more than so many groups of planes, and all have the same number unless
/// they are `SPLIT`. A function for each case, so that the way of most filters is straight.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512dq,avx512vbmi2,avx512vpopcntdq,bmi2,popcnt")]
fn ask_groups<const GROUPS: usize, const SPLIT: bool>(
    filter: &Bloomier,
    hash: KeyHash,
    body: &[u64],
) -> Answer {
    filter.ask::<SPLIT>(hash, body, |window, words| {
        let planes = window.planes;
        let value = evaluate_groups::<GROUPS>(words, planes as usize, window.row, window.shift);
        value ^ _bzhi_u64(window.fingerprint, planes)
    })
}

#[target_feature(enable = "avx512f,avx512dq,avx512vbmi2,avx512vpopcntdq,bmi2,popcnt")]
pub(crate) fn ask_bloom(filter: &Blocked, hash: KeyHash, body: &[u64]) -> Answer {
    filter.ask(hash, body, |line, mixed, count| has_all(line, mixed, count))
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vbmi2,avx512vpopcntdq,bmi2,popcnt")]
pub(crate) fn open(window: &Window, words: &[u64]) -> u64 {
    let planes = window.planes;
    let (count, row, shift) = (planes as usize, window.row, window.shift);
    // A way for each case, so that that of most filters is straight.
    let value = match planes {
        ..=8 => evaluate_groups::<1>(words, count, row, shift),
        9..=16 => evaluate_groups::<2>(words, count, row, shift),
        17..=24 => evaluate_groups::<3>(words, count, row, shift),
        _ => evaluate(words, count, row, shift),
    };
    value ^ _bzhi_u64(window.fingerprint, planes)
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vbmi2,avx512vpopcntdq,bmi2,popcnt")]
pub(crate) fn evaluate_four(low: &Four, high: &Four, row: u64, shift: u32) -> u64 {
    // SAFETY: four words are 32 bytes, here and below.
    let low = unsafe { _mm256_loadu_si256(low.as_ptr().cast()) };
    // SAFETY: as above.
    let high = unsafe { _mm256_loadu_si256(high.as_ptr().cast()) };
    let (shift, row) = (
        _mm512_set1_epi64(i64::from(shift)),
        _mm512_set1_epi64(row as i64),
    );
    // What is above the four planes may be anything.
    let (low, high) = (_mm512_castsi256_si512(low), _mm512_castsi256_si512(high));
    u64::from(parities_of(low, high, row, shift) & 0xf)
}

/// The parity of the slots of a window in each of eight planes. With a shift of 0 the second block has no
/// part in it.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vbmi2,avx512vpopcntdq,bmi2,popcnt")]
fn parities_of(low: __m512i, high: __m512i, row: __m512i, shift: __m512i) -> u8 {
    let slots = _mm512_and_si512(_mm512_shrdv_epi64(low, high, shift), row);
    _mm512_test_epi64_mask(_mm512_popcnt_epi64(slots), _mm512_set1_epi64(1))
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vbmi2,avx512vpopcntdq,bmi2,popcnt")]
pub(crate) fn evaluate(words: &[u64], planes: usize, row: u64, shift: u32) -> u64 {
    evaluate_groups::<GROUPS_MAX>(words, planes, row, shift)
}

/// The same for at most so many groups of eight planes. Of two, the first is whole.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vbmi2,avx512vpopcntdq,bmi2,popcnt")]
fn evaluate_groups<const GROUPS: usize>(words: &[u64], planes: usize, row: u64, shift: u32) -> u64 {
    let low = &words[..planes];
    let high = &words[words.len() - planes..];
    let (shift, row) = (
        _mm512_set1_epi64(i64::from(shift)),
        _mm512_set1_epi64(row as i64),
    );
    // Worth while for two; three become slower.
    let exact = GROUPS <= 2;
    assert!(!exact || planes >= (GROUPS - 1) * LANES);
    let mut value = 0;
    let mut first = 0;
    for group in 1..=GROUPS {
        let there = if exact && group < GROUPS {
            0xff
        } else {
            // The last group may have no planes; then nothing is loaded.
            _bzhi_u32(0xff, planes.saturating_sub(first) as u32) as u8
        };
        // SAFETY: words outside the mask are not touched, those in it lie within the slice.
        let low =
            unsafe { _mm512_maskz_loadu_epi64(there, low.as_ptr().wrapping_add(first).cast()) };
        // SAFETY: as above; both slices have the same length.
        let high =
            unsafe { _mm512_maskz_loadu_epi64(there, high.as_ptr().wrapping_add(first).cast()) };
        value |= u64::from(parities_of(low, high, row, shift)) << first;
        first += LANES;
        if GROUPS == GROUPS_MAX && first >= planes {
            break;
        }
    }
    value
}

#[target_feature(enable = "avx512f,avx512dq,avx512vbmi2,avx512vpopcntdq,bmi2,popcnt")]
pub(crate) fn substitute(rows: &[Row; SLOTS], planes: usize, state: &mut [u64; SLOTS]) {
    let (pairs, _) = state.as_chunks_mut();
    for (pair, lanes) in pairs.iter_mut().enumerate() {
        let first = pair * 2 * LANES;
        if first >= planes {
            break;
        }
        substitute_lanes(rows, first as i64, lanes);
    }
}

/// The same for sixteen planes: each slot waits for the one after it, so two vectors take hardly longer
/// than one.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vbmi2,avx512vpopcntdq,bmi2,popcnt")]
fn substitute_lanes(rows: &[Row; SLOTS], first: i64, lanes: &mut [u64; 2 * LANES]) {
    let ones = _mm512_set1_epi64(1);
    let numbers = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    let planes = (
        _mm512_add_epi64(numbers, _mm512_set1_epi64(first)),
        _mm512_add_epi64(numbers, _mm512_set1_epi64(first + LANES as i64)),
    );
    let step = |lanes, row: &Row, planes| {
        let value = _mm512_srlv_epi64(_mm512_set1_epi64(row.value as i64), planes);
        let own = _mm512_and_si512(value, ones);
        let known = _mm512_slli_epi64::<1>(lanes);
        // The own slot's bit of `known` is zero, so the value's bit can be counted in its place.
        let terms = _mm512_and_si512(known, _mm512_set1_epi64(row.bits as i64));
        let count = _mm512_popcnt_epi64(_mm512_or_si512(terms, own));
        _mm512_or_si512(known, _mm512_and_si512(count, ones))
    };
    let (low, high) = lanes.split_at_mut(LANES);
    // SAFETY: eight words are 64 bytes, here and below.
    let mut low_lanes = unsafe { _mm512_loadu_si512(low.as_ptr().cast()) };
    // SAFETY: as above.
    let mut high_lanes = unsafe { _mm512_loadu_si512(high.as_ptr().cast()) };
    for row in rows.iter().rev() {
        low_lanes = step(low_lanes, row, planes.0);
        high_lanes = step(high_lanes, row, planes.1);
    }
    // SAFETY: as above.
    unsafe { _mm512_storeu_si512(low.as_mut_ptr().cast(), low_lanes) };
    // SAFETY: as above.
    unsafe { _mm512_storeu_si512(high.as_mut_ptr().cast(), high_lanes) };
}

/// All probes at once, or half of them if they are more than 16.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vbmi2,avx512vpopcntdq,bmi2,popcnt")]
pub(crate) fn has_all(line: &[u64; LINE_WORDS], mixed: u64, count: u8) -> bool {
    // SAFETY: a line has 64 bytes.
    let line = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
    // Only the low half of the mixed hash takes part.
    let start = _mm512_set1_epi32(mixed as i32);
    let wanted = u32::MAX >> (32 - u32::from(count));
    let mut found = 0;
    let (halves, _) = PROBE_POWERS.as_chunks::<16>();
    for (half, powers) in halves.iter().enumerate() {
        // SAFETY: sixteen powers are 64 bytes.
        let powers = unsafe { _mm512_loadu_si512(powers.as_ptr().cast()) };
        let states = _mm512_mullo_epi32(start, powers);
        // The words of this machine are little-endian: of the 9 bits, the highest 4 name one of 16
        // half words and the lowest 5, which the rotation takes, the bit in it.
        let halves = _mm512_permutexvar_epi32(_mm512_srli_epi32::<28>(states), line);
        let bits = _mm512_rorv_epi32(halves, _mm512_srli_epi32::<23>(states));
        found |= u32::from(_mm512_test_epi32_mask(bits, _mm512_set1_epi32(1))) << (half * 16);
        if count <= 16 {
            break;
        }
    }
    found & wanted == wanted
}
