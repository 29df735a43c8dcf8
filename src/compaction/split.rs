//! Where a large merge is cut into parts by key range: a pure function of its inputs.
//!
//! A cut is a key, so all versions of a key stay in one part. It is one at which an input begins,
//! or some blocks of one that is large: runs of flushes are often one segment each, over all keys.

/// A piece of an input.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(crate) first_key: Vec<u8>,
    /// The last key of the input, or the first of its next piece.
    pub(crate) last_key: Vec<u8>,
    pub(crate) bytes: u64,
}

/// A key at which a part may begin, and about how many bytes lie before it.
struct Candidate<'a> {
    key: &'a [u8],
    before: u64,
}

/// The keys at which the second part and the following ones begin, ascending; none when cutting
/// does not pay. No part is smaller than about one segment.
pub(crate) fn cuts(inputs: &[Extent], parts_max: usize, segment_bytes: u64) -> Vec<Vec<u8>> {
    let total: u64 = inputs.iter().map(|one| one.bytes).sum();
    let parts = (total / segment_bytes.max(1)).min(parts_max as u64);
    let candidates = candidates(inputs);
    let mut cuts: Vec<Vec<u8>> = Vec::new();
    let mut least = segment_bytes;
    for part in 1..parts {
        let wanted = (u128::from(total) * u128::from(part) / u128::from(parts)) as u64;
        let fits = |one: &&Candidate<'_>| {
            one.before >= least && total.saturating_sub(one.before) >= segment_bytes
        };
        let nearest = candidates.iter().filter(fits);
        let Some(cut) = nearest.min_by_key(|one| one.before.abs_diff(wanted)) else {
            break;
        };
        least = cut.before + segment_bytes;
        cuts.push(cut.key.to_vec());
    }
    cuts
}

/// Half of a piece is counted where it begins and half where it ends, so that one that a cut
/// goes through counts half on each side.
fn candidates(inputs: &[Extent]) -> Vec<Candidate<'_>> {
    let mut points: Vec<(&[u8], bool, u64)> = Vec::with_capacity(inputs.len() * 2);
    for one in inputs {
        points.push((&one.first_key, true, one.bytes / 2));
        points.push((&one.last_key, false, one.bytes - one.bytes / 2));
    }
    points.sort_unstable();
    let mut before = 0;
    let mut candidates = Vec::new();
    for same in points.chunk_by(|left, right| left.0 == right.0) {
        let key = same[0].0;
        if same.iter().any(|(_, begins, _)| *begins) {
            candidates.push(Candidate { key, before });
        }
        before += same.iter().map(|(_, _, bytes)| bytes).sum::<u64>();
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments as `first-last` of one unit of 100 bytes each; cut keys joined by spaces.
    fn check(parts_max: usize, inputs: &str, expected: &str) {
        let extents: Vec<Extent> = inputs
            .split_whitespace()
            .map(|range| {
                let (first, last) = range.split_once('-').unwrap();
                Extent {
                    first_key: first.into(),
                    last_key: last.into(),
                    bytes: 100,
                }
            })
            .collect();
        let cuts = cuts(&extents, parts_max, 100);
        let cuts: Vec<&str> = cuts
            .iter()
            .map(|cut| std::str::from_utf8(cut).unwrap())
            .collect();
        assert_eq!(cuts.join(" "), expected, "{inputs}");
    }

    #[test]
    fn a_large_merge_is_cut_in_the_middle() {
        check(2, "a-b c-d e-f g-h", "e");
        check(4, "a-b c-d e-f g-h", "c e g");
        check(9, "a-b c-d e-f g-h", "c e g");
        check(3, "a-b c-d e-f g-h i-j k-l", "e i");
        check(2, "b-k a-b c-d e-f g-h i-j", "e");
    }

    #[test]
    fn one_that_is_small_or_has_one_thread_is_not_cut() {
        check(1, "a-b c-d e-f g-h", "");
        check(2, "a-b", "");
        check(2, "", "");
        check(0, "a-b c-d e-f g-h", "");
    }

    #[test]
    fn no_part_is_smaller_than_a_segment() {
        // All begin at the same key.
        check(2, "a-z a-z a-z a-z", "");
        // What begins later is just one.
        check(2, "a-w a-w a-w a-w x-z", "x");
        check(2, "a-a a-a a-a a-a", "");
        // Behind the only good cut there is nothing left to cut.
        check(3, "a-m a-m a-m n-z n-z n-z", "n");
    }

    /// Of random inputs: cuts ascend, begin an input, and are fewer than threads.
    #[test]
    fn cuts_are_in_order_and_few() {
        let mut state = 7_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 40
        };
        let mut cut = 0;
        for _ in 0..300 {
            let extents: Vec<Extent> = (0..next() % 40)
                .map(|_| {
                    let first = next() % 900;
                    let key = |n: u64| format!("{n:04}").into_bytes();
                    Extent {
                        first_key: key(first),
                        last_key: key(first + next() % 100),
                        bytes: next() % 300,
                    }
                })
                .collect();
            let threads = (next() % 5) as usize;
            let found = cuts(&extents, threads, 100);
            assert!(found.len() < threads.max(1));
            assert!(found.windows(2).all(|pair| pair[0] < pair[1]));
            let least = extents.iter().map(|one| &one.first_key).min();
            for key in &found {
                assert!(extents.iter().any(|one| one.first_key == *key));
                assert!(least < Some(key));
            }
            cut += found.len();
        }
        assert!(cut > 100, "{cut}");
    }
}
