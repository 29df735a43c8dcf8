//! The portable form, for x86-64 processors that count the bits of a word but have no wide vectors.

use super::{Answer, Blocked, Bloomier, Four, KeyHash, LINE_WORDS, Row, SLOTS, Window, portable};

pub(crate) fn is_available() -> bool {
    std::is_x86_feature_detected!("popcnt")
}

#[target_feature(enable = "popcnt")]
pub(crate) fn evaluate(words: &[u64], planes: usize, row: u64, shift: u32) -> u64 {
    portable::evaluate::<true>(words, planes, row, shift)
}

#[target_feature(enable = "popcnt")]
pub(crate) fn open(window: &Window, words: &[u64]) -> u64 {
    portable::open::<true>(window, words)
}

#[target_feature(enable = "popcnt")]
pub(crate) fn evaluate_four(low: &Four, high: &Four, row: u64, shift: u32) -> u64 {
    portable::evaluate_four(low, high, row, shift)
}

// Not to be inlined into forms that could vectorise it, which makes it slower.
#[inline(never)]
#[target_feature(enable = "popcnt")]
pub(crate) fn substitute(rows: &[Row; SLOTS], planes: usize, state: &mut [u64; SLOTS]) {
    portable::substitute::<true>(rows, planes, state);
}

#[target_feature(enable = "popcnt")]
pub(crate) fn ask_bloomier(filter: &Bloomier, hash: KeyHash, body: &[u64]) -> Answer {
    filter.ask::<true>(hash, body, portable::open::<true>)
}

#[target_feature(enable = "popcnt")]
pub(crate) fn ask_bloom(filter: &Blocked, hash: KeyHash, body: &[u64]) -> Answer {
    filter.ask(hash, body, portable::has_all)
}

#[target_feature(enable = "popcnt")]
pub(crate) fn has_all(line: &[u64; LINE_WORDS], mixed: u64, count: u8) -> bool {
    portable::has_all(line, mixed, count)
}
