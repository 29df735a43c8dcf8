//! How one budget of memory is divided among the kinds of what is cached in it.
//!
//! Every so often the kind with the most hits for its bytes gets a sixteenth of the budget from the
//! one with the fewest: a hit of any kind spares one read.

/// The budget is divided by so many parts.
pub(super) const PARTS: u64 = 16;

/// What is cached: whole data blocks, entries without their blocks, pages of filters.
pub(super) const KINDS: usize = 3;
pub(super) const BLOCKS: usize = 0;
pub(super) const ENTRIES: usize = 1;
pub(super) const PAGES: usize = 2;

/// Parts that each kind has at least, by which it is judged, and at most. Scans need blocks.
const PARTS_MIN: [u64; KINDS] = [2, 1, 1];
pub(super) const PARTS_MAX: [u64; KINDS] = [15, 12, 13];

/// Of its parts, what a kind must have filled before it is judged.
const JUDGED_FILL: f64 = 0.875;

/// So many times as many hits for its bytes must one have: equals would hand a part to and fro.
const MARGIN: f64 = 1.25;

/// What is known of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    /// Times that what was wanted was there, ever.
    pub(super) hits: u64,
    /// Bytes that it holds.
    pub(super) bytes: u64,
}

/// How many parts of the budget each kind has.
#[derive(Debug)]
pub(super) struct CacheBudget {
    budget_bytes: u64,
    parts: [u64; KINDS],
    /// When it was divided.
    hits: [u64; KINDS],
}

impl CacheBudget {
    /// Pages have what they hold, if they are within the budget; entries, of which there are none
    /// yet, one part; blocks have the rest.
    pub(super) fn first(budget_bytes: u64, uses: [Use; KINDS], has_pages: bool) -> CacheBudget {
        let part_bytes = budget_bytes / PARTS;
        let of_entries = PARTS_MIN[ENTRIES];
        let held = uses[PAGES].bytes.div_ceil(part_bytes.max(1));
        let of_pages = match has_pages {
            true => held.clamp(PARTS_MIN[PAGES], PARTS_MAX[PAGES]),
            false => 0,
        };
        CacheBudget {
            budget_bytes,
            parts: [PARTS - of_entries - of_pages, of_entries, of_pages],
            hits: uses.map(|of| of.hits),
        }
    }

    /// Another budget, divided alike.
    pub(super) fn set_budget(&mut self, budget_bytes: u64) {
        self.budget_bytes = budget_bytes;
    }

    /// Hands a part on, if one kind has earned it.
    pub(super) fn hand_on(&mut self, uses: [Use; KINDS]) {
        let gains: [f64; KINDS] = std::array::from_fn(|kind| self.gain(kind, uses[kind]));
        self.hits = uses.map(|of| of.hits);
        let by_gain = |a: &usize, b: &usize| gains[*a].total_cmp(&gains[*b]);
        let is_judged = |kind: usize| self.is_judged(kind, uses[kind]);
        let takers =
            (0..KINDS).filter(|&kind| is_judged(kind) && self.parts[kind] < PARTS_MAX[kind]);
        // A kind that nothing looks for gives away even what it has not filled.
        let is_idle = |kind: usize| gains[kind] == 0.0;
        let givers = (0..KINDS).filter(|&kind| {
            (is_judged(kind) || is_idle(kind)) && self.parts[kind] > PARTS_MIN[kind]
        });
        if let (Some(taker), Some(giver)) = (takers.max_by(by_gain), givers.min_by(by_gain))
            && gains[taker] > gains[giver] * MARGIN
        {
            self.parts[taker] += 1;
            self.parts[giver] -= 1;
        }
    }

    /// Bytes for each kind, the whole budget together.
    pub(super) fn bytes(&self) -> [u64; KINDS] {
        let mut bytes = self.parts.map(|parts| parts * (self.budget_bytes / PARTS));
        // What does not divide evenly.
        bytes[BLOCKS] += self.budget_bytes % PARTS;
        bytes
    }

    /// Hits for each byte since the last time.
    fn gain(&self, kind: usize, of: Use) -> f64 {
        of.hits.wrapping_sub(self.hits[kind]) as f64 / of.bytes.max(1) as f64
    }

    /// What is not filled yet cannot be judged. Blocks always can: they held all of the budget, and
    /// take in slowly what they have given away.
    fn is_judged(&self, kind: usize, of: Use) -> bool {
        let bytes = self.parts[kind] * (self.budget_bytes / PARTS);
        self.parts[kind] > 0 && (kind == BLOCKS || of.bytes as f64 >= bytes as f64 * JUDGED_FILL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: u64 = 16_007;

    fn used(of: [(u64, u64); KINDS]) -> [Use; KINDS] {
        of.map(|(hits, bytes)| Use { hits, bytes })
    }

    #[test]
    fn the_first_division_leaves_pages_what_they_hold() {
        let uses = used([(0, 12_000), (0, 0), (0, 3500)]);
        let with_pages = CacheBudget::first(BUDGET, uses, true);
        assert_eq!(with_pages.bytes(), [11_007, 1000, 4000]);
        let without = CacheBudget::first(BUDGET, used([(0, 16_000), (0, 0), (0, 0)]), false);
        assert_eq!(without.bytes(), [15_007, 1000, 0]);
        let full_of_pages = CacheBudget::first(BUDGET, used([(0, 0), (0, 0), (0, 16_000)]), true);
        assert_eq!(full_of_pages.bytes(), [2007, 1000, 13_000]);
    }

    /// Each step is told how often a byte of each kind is hit.
    fn after(steps: u64, has_pages: bool, rates: [u64; KINDS]) -> [u64; KINDS] {
        let mut budget =
            CacheBudget::first(BUDGET, used([(0, 9000), (0, 0), (0, 6000)]), has_pages);
        let mut hits = [0; KINDS];
        for _ in 0..steps {
            let bytes = budget.bytes();
            for kind in 0..KINDS {
                hits[kind] += rates[kind] * bytes[kind];
            }
            budget.hand_on(std::array::from_fn(|kind| Use {
                hits: hits[kind],
                bytes: bytes[kind],
            }));
            assert_eq!(budget.bytes().iter().sum::<u64>(), BUDGET);
        }
        budget.bytes()
    }

    #[test]
    fn who_has_more_hits_for_its_bytes_gets_all_but_what_the_others_keep() {
        assert_eq!(after(40, true, [1, 1, 9]), [2007, 1000, 13_000]);
        assert_eq!(after(40, true, [1, 9, 1]), [2007, 12_000, 2000]);
        assert_eq!(after(40, true, [9, 1, 1]), [14_007, 1000, 1000]);
        assert_eq!(after(40, false, [1, 9, 0]), [4007, 12_000, 0]);
        assert_eq!(after(40, false, [9, 1, 0]), [15_007, 1000, 0]);
    }

    #[test]
    fn equals_keep_what_they_have() {
        assert_eq!(after(40, true, [5, 5, 5]), after(0, true, [5, 5, 5]));
        assert_eq!(after(40, true, [50, 45, 55]), after(0, true, [5, 5, 5]));
    }

    #[test]
    fn what_nothing_looks_for_gives_all_away() {
        let mut budget = CacheBudget::first(BUDGET, used([(0, 9000), (0, 0), (0, 6000)]), true);
        for hits in 1..40 {
            budget.hand_on(used([(hits, 9000), (0, 100), (0, 3000)]));
        }
        assert_eq!(budget.bytes(), [14_007, 1000, 1000]);
    }

    #[test]
    fn what_is_not_filled_is_left_alone() {
        let mut budget = CacheBudget::first(BUDGET, used([(0, 9000), (0, 0), (0, 6000)]), true);
        let before = budget.bytes();
        // Entries and pages are hit most, and hardly there.
        budget.hand_on(used([(1, 9000), (900, 100), (900, 3000)]));
        assert_eq!(budget.bytes(), before);
    }
}
