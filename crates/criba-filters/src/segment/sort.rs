//! A stable sort of ribbon rows by their 64-bit hash, made for hashes that are evenly spread.
//!
//! Two scatter passes by the highest bits leave a few rows per bin, insertion does the rest: linear
//! time for hashes that were mixed with a secret salt. Rows that somebody has managed to crowd into
//! few bins are sorted by comparison, so the worst case is `n log n`.

use crate::mapped::MappedVec;

use super::band::Row;

/// Fewer rows than this are sorted by insertion.
const INSERTION_MAX: usize = 40;
/// Rows per bin after the first pass, so that the second works within the nearest cache.
const COARSE_BIN_BITS: u32 = 10;
/// Rows per bin after the second pass.
const FINE_BIN_BITS: u32 = 2;
/// Most bins of one pass; more would miss the processor's address cache on every write.
const FAN_BITS_MAX: u32 = 11;

/// Sorts by `bits`, keeping the order of rows with equal `bits`. `spare` is scratch: it grows to the
/// length of `rows` and its contents are lost.
pub(crate) fn sort_rows(rows: &mut [Row], spare: &mut MappedVec<Row>) {
    if rows.len() <= INSERTION_MAX {
        return insertion_sort(rows);
    }
    if u32::try_from(rows.len()).is_err() {
        return rows.sort_by_key(|row| row.bits);
    }
    if spare.len() < rows.len() {
        spare.assign(std::iter::repeat_n(Row::default(), rows.len()));
    }
    let spare = &mut spare[..rows.len()];
    let mut ends = Vec::new();
    let coarse_bits = fan_bits(rows.len(), COARSE_BIN_BITS);
    scatter(rows, spare, 0, coarse_bits, &mut ends);
    let coarse_ends = std::mem::take(&mut ends);
    let mut begin = 0;
    for end in coarse_ends {
        let end = end as usize;
        let (bin, target) = (&spare[begin..end], &mut rows[begin..end]);
        begin = end;
        let fine_bits = fan_bits(bin.len(), FINE_BIN_BITS);
        scatter(bin, target, coarse_bits, fine_bits, &mut ends);
        finish(target, &ends);
    }
}

/// Sorts the bins that end at `ends`, all at once when they are short.
fn finish(rows: &mut [Row], ends: &[u32]) {
    let mut begin = 0;
    for &end in ends {
        let bin = &mut rows[begin..end as usize];
        begin = end as usize;
        if bin.len() <= INSERTION_MAX {
            insertion_sort(bin);
        } else {
            bin.sort_by_key(|row| row.bits);
        }
    }
}

/// Number of bits to scatter by, so that about `2^bin_bits` rows share a bin.
fn fan_bits(count: usize, bin_bits: u32) -> u32 {
    (usize::BITS - count.leading_zeros())
        .saturating_sub(bin_bits + 1)
        .min(FAN_BITS_MAX)
}

/// Copies `source` to `target` in the order of the `bits` bits after the first `skip`, and leaves in
/// `ends` where each bin ends.
fn scatter(source: &[Row], target: &mut [Row], skip: u32, bits: u32, ends: &mut Vec<u32>) {
    ends.clear();
    ends.resize(1 << bits, 0);
    if bits == 0 {
        target.copy_from_slice(source);
        ends[0] = source.len() as u32;
        return;
    }
    let bin = |row: &Row| ((row.bits << skip) >> (64 - bits)) as usize;
    for row in source {
        ends[bin(row)] += 1;
    }
    let mut sum = 0;
    for end in ends.iter_mut() {
        let count = *end;
        *end = sum;
        sum += count;
    }
    for row in source {
        let next = &mut ends[bin(row)];
        target[*next as usize] = *row;
        *next += 1;
    }
}

fn insertion_sort(rows: &mut [Row]) {
    for i in 1..rows.len() {
        let row = rows[i];
        let mut hole = i;
        while hole > 0 && rows[hole - 1].bits > row.bits {
            rows[hole] = rows[hole - 1];
            hole -= 1;
        }
        rows[hole] = row;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{KeyHash, mix};

    /// Sorts hashes given by a function of the index and compares with the standard stable sort.
    fn check(count: u64, hash: impl Fn(u64) -> u64) {
        let mut rows: Vec<Row> = (0..count)
            .map(|i| Row {
                bits: hash(i),
                value: i,
            })
            .collect();
        let mut expected = rows.clone();
        expected.sort_by_key(|row| row.bits);
        sort_rows(&mut rows, &mut MappedVec::default());
        assert!(rows == expected, "{count} rows");
    }

    #[test]
    fn agrees_with_the_standard_sort() {
        for count in [0, 1, 2, 39, 40, 41, 42, 100, 1000, 2049, 10_000, 70_001] {
            check(count, |i| mix(KeyHash(i), 3));
            check(count, |i| mix(KeyHash(i), 3) % 7);
            check(count, |i| (mix(KeyHash(i), 3) % 5) << 61);
            check(count, |i| i);
            check(count, |i| !i);
            check(count, |_| 12);
        }
    }
}
