//! Makes the checksums of a damaged file right, so that they do not shield what lies behind them.
//!
//! Everything else stays as it is; where the way to a checksum is damaged, the rest is left alone.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::bytes::{Input, checksum, offset_at, set, u32_at, u64_at};

/// The store that all files belong to: that of `tests/golden`.
pub(super) const STORE_ID: u128 = 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100;
pub(super) const HASH_SEED: u64 = 0x1716_1514_1312_1110;

pub(super) const SEGMENT_FOOTER: usize = 124;
pub(super) const SIDECAR_FOOTER: usize = 108;
const PAGE: usize = 4096;

/// What the checksums of a segment or filter file begin with.
pub(super) fn identity(number: u64) -> u64 {
    ((STORE_ID as u64) ^ (STORE_ID >> 64) as u64).wrapping_add(number)
}

pub(super) fn current(bytes: &mut [u8]) {
    if let Some(end) = bytes.len().checked_sub(4) {
        let sum = checksum(0, 0, &[&bytes[..end]]);
        set(bytes, end, &sum.to_le_bytes());
    }
}

pub(super) fn manifest(bytes: &mut [u8], number: u64) {
    if bytes.len() < 52 {
        return;
    }
    let sum = checksum(number, 0, &[&bytes[..48]]);
    set(bytes, 48, &sum.to_le_bytes());
    let mut at = 52;
    while let Some(len) = u32_at(bytes, at + 4) {
        let end = at + 16 + len as usize;
        let Some(covered) = bytes.get(at + 4..end) else {
            return;
        };
        let sum = checksum(number, at, &[covered]);
        set(bytes, at, &sum.to_le_bytes());
        at = end;
    }
}

/// The chain is made right too; with `continues` also the sequences.
pub(super) fn journal(bytes: &mut [u8], number: u64, continues: bool) {
    if bytes.len() < 80 {
        return;
    }
    let sum = checksum(number, 0, &[&bytes[..12], &bytes[16..80]]);
    set(bytes, 12, &sum.to_le_bytes());
    let seed = xxh3_64_with_seed(&STORE_ID.to_le_bytes(), number);
    let mut next = u64_at(bytes, 32).unwrap_or_default();
    let mut chain = u32_at(bytes, 40).unwrap_or_default();
    let mut at = 80;
    while let (Some(len), Some(count)) = (u32_at(bytes, at + 8), u32_at(bytes, at + 12)) {
        let end = at + 32 + len as usize;
        if end > bytes.len() || bytes[at..].iter().all(|&byte| byte == 0) {
            return;
        }
        if continues {
            set(bytes, at + 16, &next.to_le_bytes());
        }
        set(bytes, at + 28, &chain.to_le_bytes());
        let sum = checksum(seed, at, &[&bytes[at + 32..end]]);
        set(bytes, at + 4, &sum.to_le_bytes());
        let sum = checksum(seed, at, &[&bytes[at + 4..at + 32]]) | 0x81;
        set(bytes, at, &sum.to_le_bytes());
        chain = xxh3_64_with_seed(&bytes[at..at + 32], u64::from(chain)) as u32;
        next = next.wrapping_add(u64::from(count & 0x7fff_ffff));
        at = end;
    }
}

/// Sets the checksum of a region and returns it.
fn region(bytes: &mut [u8], identity: u64, start: usize, end: usize) -> Option<u32> {
    let covered = bytes.get(start..end.checked_sub(4)?)?;
    let sum = checksum(identity, start, &[covered]);
    set(bytes, end - 4, &sum.to_le_bytes());
    Some(sum)
}

fn pages(bytes: &mut [u8], identity: u64, start: usize, end: usize) {
    for page in (start..end).step_by(PAGE) {
        region(bytes, identity, page, end.min(page + PAGE));
    }
}

/// Pages of the filter and of the range filter, and their headers; returns the checksums of these.
/// The pages of the first end before zeros if there are any of the second.
fn filters(
    bytes: &mut [u8],
    identity: u64,
    words: u64,
    [filter, range, header, range_header, end]: [usize; 5],
) -> [u32; 2] {
    let words = usize::try_from(words).unwrap_or(usize::MAX).min(range);
    let pages_end = filter + 8 * (words + words.div_ceil(PAGE / 8 - 1));
    pages(bytes, identity, filter, pages_end.min(range));
    pages(bytes, identity, range, header);
    [(header, range_header), (range_header, end)]
        .map(|(start, end)| region(bytes, identity, start, end).unwrap_or_default())
}

/// Where the payload of a segment's properties has the words of the filter, if it has one.
fn filter_words(bytes: &[u8], properties: usize, footer: usize) -> u64 {
    let len = footer.checked_sub(16).and_then(|at| u32_at(bytes, at));
    let end = properties.saturating_add(len.unwrap_or_default() as usize);
    end.checked_sub(16)
        .and_then(|at| u64_at(bytes, at))
        .unwrap_or_default()
}

pub(super) fn segment(bytes: &mut [u8], number: u64) -> Option<()> {
    let footer = bytes.len().checked_sub(SEGMENT_FOOTER)?;
    let len = bytes.len() as u64;
    set(bytes, footer + 40, &len.to_le_bytes());
    let identity = identity(number);
    let at = |n: usize| offset_at(bytes, footer + 56 + 8 * n);
    let parts = [at(0), at(1), at(2), at(3), at(4), at(5)];
    if let [
        Some(filter),
        Some(range),
        Some(header),
        Some(range_header),
        Some(index),
        Some(properties),
    ] = parts
    {
        for (start, end) in blocks(bytes, index, properties) {
            region(bytes, identity, start, end);
        }
        let words = filter_words(bytes, properties, footer);
        let places = [filter, range, header, range_header, index];
        let [filter_sum, range_sum] = filters(bytes, identity, words, places);
        let mut sum = |start, end| region(bytes, identity, start, end).unwrap_or_default();
        let sums = [
            filter_sum,
            range_sum,
            sum(index, properties),
            sum(properties, footer),
        ];
        for (n, sum) in sums.iter().enumerate() {
            set(bytes, footer + 104 + 4 * n, &sum.to_le_bytes());
        }
    }
    region(bytes, identity, footer, bytes.len())?;
    Some(())
}

/// Where the index says that data blocks lie.
fn blocks(bytes: &[u8], index: usize, properties: usize) -> Vec<(usize, usize)> {
    let mut input = Input(bytes.get(index..properties).unwrap_or_default());
    let mut all = Vec::new();
    let mut start = 0_usize;
    for _ in 0..input.varint().unwrap_or_default() {
        let Some(len) = input.varint() else { break };
        let end = start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
        let rest = input.varint().and_then(|_shared| input.prefixed());
        if end > index || rest.is_none() {
            break;
        }
        all.push((start, end));
        start = end;
    }
    all
}

pub(super) fn sidecar(bytes: &mut [u8], number: u64) -> Option<()> {
    let footer = bytes.len().checked_sub(SIDECAR_FOOTER)?;
    let len = bytes.len() as u64;
    set(bytes, footer + 48, &len.to_le_bytes());
    let identity = identity(number);
    let at = |n: usize| offset_at(bytes, footer + 56 + 8 * n);
    if let [Some(range), Some(header), Some(range_header)] = [at(0), at(1), at(2)] {
        let words = u64_at(bytes, footer + 80).unwrap_or_default();
        let places = [0, range, header, range_header, footer];
        let sums = filters(bytes, identity, words, places);
        for (n, sum) in sums.iter().enumerate() {
            set(bytes, footer + 96 + 4 * n, &sum.to_le_bytes());
        }
    }
    region(bytes, identity, footer, bytes.len())?;
    Some(())
}
