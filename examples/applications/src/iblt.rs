//! Invertible Bloom lookup tables: the difference of two sets from a summary as large as the difference.
//!
//! Eppstein, Goodrich, Uyeda, Varghese, "What's the difference? Efficient set reconciliation without prior
//! context" (2011), section 3. Each element goes into four cells of a table. A cell has the number of
//! its elements, their XOR, and the XOR of their checksums. When one table is subtracted from the other,
//! what both sets have goes away. A cell that is left with one element gives it up, and so frees others.
//!
//! This works with high probability while the cells are at least 1.3 times as many as the differences
//! (Goodrich, Mitzenmacher, "Invertible Bloom lookup tables", 2011). A table that is too small says so,
//! and [`Iblt::doubled`] has the size to try next.
//! [`Strata`] estimates the number of differences: level `i` has one element in `2^(i+1)`.

use criba_filters::{KeyHash, mix, start_of};

use crate::wire::{Malformed, Reader, malformed};
use crate::{Error, Result};

/// Cells of each element; each is in a part of the table of its own.
const PROBES: usize = 4;
/// Most cells of a table: 64 MiB.
const CELLS_MAX: usize = 1 << 22;
/// Bytes of a cell in a message.
pub const CELL_BYTES: usize = 16;

/// The XOR of the elements that fall here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cell {
    count: i32,
    elements: u64,
    checks: u32,
}

impl Cell {
    /// The element, and 1 if it is of the left set, -1 if it is of the right one.
    fn only(self) -> Option<(u64, i32)> {
        let one = self.count.unsigned_abs() == 1 && check(self.elements) == self.checks;
        one.then_some((self.elements, self.count))
    }

    fn add(&mut self, other: Cell, sign: i32) {
        self.count = self.count.wrapping_add(sign.wrapping_mul(other.count));
        self.elements ^= other.elements;
        self.checks ^= other.checks;
    }

    fn of(element: u64, count: i32) -> Cell {
        Cell {
            count,
            elements: element,
            checks: check(element),
        }
    }
}

/// A checksum that is independent of the places.
fn check(element: u64) -> u32 {
    mix(KeyHash(element), 0x5bd1_e995) as u32
}

/// A table of elements, which are 64-bit hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iblt {
    cells: Vec<Cell>,
}

/// The elements that only one of two sets has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// Those of the set from which the other was subtracted.
    pub left: Vec<u64>,
    /// Those of the other.
    pub right: Vec<u64>,
}

impl Iblt {
    /// An empty table. Its number of cells is made a multiple of four.
    ///
    /// # Errors
    ///
    /// If it would have more than 2^22 cells.
    pub fn new(cells: usize) -> Result<Iblt> {
        if cells > CELLS_MAX {
            return Err(Error::Other(
                format!("a table of {cells} cells is too large: send the elements themselves")
                    .into(),
            ));
        }
        let cells = cells.max(PROBES).next_multiple_of(PROBES);
        Ok(Iblt {
            cells: vec![Cell::default(); cells],
        })
    }

    /// Cells for an estimated number of differences: twice as many, as the estimate can be too low.
    pub fn cells_for(differences: u64) -> usize {
        usize::try_from(differences).map_or(CELLS_MAX, |differences| {
            differences
                .saturating_mul(2)
                .saturating_add(32)
                .min(CELLS_MAX)
        })
    }

    /// The size to try after this one has failed; nothing if that is too large.
    pub fn doubled(cells: usize) -> Option<usize> {
        let doubled = cells.checked_mul(2)?;
        (doubled <= CELLS_MAX).then_some(doubled)
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Adds an element, which is not in it.
    pub fn insert(&mut self, element: u64) {
        self.change(element, 1);
    }

    fn change(&mut self, element: u64, count: i32) {
        for place in self.places(element) {
            self.cells[place].add(Cell::of(element, count), 1);
        }
    }

    fn places(&self, element: u64) -> [usize; PROBES] {
        let part = self.cells.len() / PROBES;
        std::array::from_fn(|probe| {
            let mixed = mix(KeyHash(element), probe as u64 + 1);
            probe * part + start_of(mixed, part as u64) as usize
        })
    }

    /// The elements that only this or only the other has; nothing if there are too many for the cells.
    ///
    /// # Errors
    ///
    /// If the tables differ in size.
    pub fn difference(&self, other: &Iblt) -> Result<Option<Difference>> {
        if self.cells() != other.cells() {
            return Err(malformed(Malformed));
        }
        let mut table = self.clone();
        for (cell, theirs) in table.cells.iter_mut().zip(&other.cells) {
            cell.add(*theirs, -1);
        }
        Ok(table.peel())
    }

    fn peel(mut self) -> Option<Difference> {
        let mut found = Difference::default();
        let mut to_look_at: Vec<usize> = (0..self.cells()).collect();
        while let Some(place) = to_look_at.pop() {
            let Some((element, count)) = self.cells[place].only() else {
                continue;
            };
            // More elements than cells are impossible, unless the bytes were made up.
            if found.left.len() + found.right.len() == self.cells() {
                return None;
            }
            match count {
                1 => found.left.push(element),
                _ => found.right.push(element),
            }
            self.change(element, -count);
            to_look_at.extend(self.places(element));
        }
        let is_empty = self.cells.iter().all(|cell| *cell == Cell::default());
        is_empty.then_some(found)
    }

    /// The cells as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.cells() * CELL_BYTES);
        for cell in &self.cells {
            bytes.extend(cell.count.to_le_bytes());
            bytes.extend(cell.elements.to_le_bytes());
            bytes.extend(cell.checks.to_le_bytes());
        }
        bytes
    }

    /// The table from its bytes.
    ///
    /// # Errors
    ///
    /// If they are no whole cells, or too many.
    pub fn from_bytes(bytes: &[u8]) -> Result<Iblt> {
        let count = bytes.len() / CELL_BYTES;
        let whole = bytes.len().is_multiple_of(CELL_BYTES) && count.is_multiple_of(PROBES);
        if !whole || count == 0 || count > CELLS_MAX {
            return Err(malformed(Malformed));
        }
        let mut reader = Reader(bytes);
        let mut cell = || -> std::result::Result<Cell, Malformed> {
            Ok(Cell {
                count: i32::from_le_bytes(reader.array()?),
                elements: u64::from_le_bytes(reader.array()?),
                checks: u32::from_le_bytes(reader.array()?),
            })
        };
        let cells: std::result::Result<_, _> = (0..count).map(|_| cell()).collect();
        Ok(Iblt {
            cells: cells.map_err(malformed)?,
        })
    }
}

/// Levels of the estimator; enough for millions of differences.
const LEVELS: usize = 16;
/// Cells of a level, as Eppstein and others have them.
const LEVEL_CELLS: usize = 80;
/// Bytes of an estimator in a message.
pub const STRATA_BYTES: usize = LEVELS * LEVEL_CELLS * CELL_BYTES;

/// An estimator of the number of differences (Eppstein and others, 2011, section 3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strata {
    levels: Vec<Iblt>,
}

impl Strata {
    /// An empty one.
    ///
    /// # Errors
    ///
    /// Never; the size is within the bound.
    pub fn new() -> Result<Strata> {
        let levels: Result<Vec<Iblt>> = (0..LEVELS).map(|_| Iblt::new(LEVEL_CELLS)).collect();
        Ok(Strata { levels: levels? })
    }

    /// Adds an element, which is not in it.
    pub fn insert(&mut self, element: u64) {
        // Independent of the places in the tables.
        let zeros = mix(KeyHash(element), 0x57a7a).trailing_zeros() as usize;
        self.levels[zeros.min(LEVELS - 1)].insert(element);
    }

    /// About how many elements only one of both has.
    ///
    /// # Errors
    ///
    /// Never; all estimators have one size.
    pub fn estimate(&self, other: &Strata) -> Result<u64> {
        let mut found = 0;
        for level in (0..LEVELS).rev() {
            match self.levels[level].difference(&other.levels[level])? {
                Some(difference) => {
                    found += (difference.left.len() + difference.right.len()) as u64
                }
                // The levels above hold one element in 2^(level + 1). A level is full of at least one.
                None => return Ok(found.max(1) << (level + 1)),
            }
        }
        Ok(found)
    }

    /// All levels as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.levels.iter().flat_map(Iblt::to_bytes).collect()
    }

    /// The estimator from its bytes.
    ///
    /// # Errors
    ///
    /// If they are not as many as an estimator has.
    pub fn from_bytes(bytes: &[u8]) -> Result<Strata> {
        if bytes.len() != STRATA_BYTES {
            return Err(malformed(Malformed));
        }
        let levels = bytes.chunks(LEVEL_CELLS * CELL_BYTES).map(Iblt::from_bytes);
        let levels: Result<Vec<Iblt>> = levels.collect();
        Ok(Strata { levels: levels? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    /// Two sets: how many elements they have in common, and how many only one of them has.
    fn sets(seed: u64, common: u64, left: u64, right: u64) -> [Vec<u64>; 2] {
        let mut random = Random::new(seed, 0);
        let mut some = |count| (0..count).map(|_| random.next()).collect::<Vec<u64>>();
        let (common, left, right) = (some(common), some(left), some(right));
        [left, right].map(|own| [&common[..], &own].concat())
    }

    fn table(cells: usize, elements: &[u64]) -> Iblt {
        let mut table = Iblt::new(cells).unwrap();
        elements.iter().for_each(|&element| table.insert(element));
        Iblt::from_bytes(&table.to_bytes()).unwrap()
    }

    /// How many of 100 tables give all their differences.
    fn successes(differences: u64, cells: usize) -> u64 {
        let succeeds = |&seed: &u64| {
            let [left, right] = sets(seed, 1_000, differences / 2, differences.div_ceil(2));
            let found = table(cells, &left)
                .difference(&table(cells, &right))
                .unwrap();
            let Some(mut found) = found else {
                return false;
            };
            let mut expected = Difference {
                left: left[1_000..].to_vec(),
                right: right[1_000..].to_vec(),
            };
            for side in [
                &mut found.left,
                &mut found.right,
                &mut expected.left,
                &mut expected.right,
            ] {
                side.sort_unstable();
            }
            // A table that says it is done is right.
            assert_eq!(found, expected);
            true
        };
        (0..100).filter(succeeds).count() as u64
    }

    #[test]
    fn tables_with_enough_cells_give_all_differences() {
        for differences in [0, 1, 10, 100, 1_000] {
            assert!(
                successes(differences, Iblt::cells_for(differences)) >= 98,
                "{differences}"
            );
        }
        // The threshold of four probes is 1.295.
        assert!(successes(1_000, 1_400) >= 95);
    }

    #[test]
    fn tables_with_too_few_cells_say_so() {
        assert_eq!(successes(1_000, 1_200), 0);
        assert_eq!(successes(1, 0), 100);
        assert!(successes(100, 100) < 10);
    }

    #[test]
    fn sizes_are_bounded() {
        assert!(Iblt::new(CELLS_MAX + 1).is_err());
        assert_eq!(Iblt::cells_for(u64::MAX), CELLS_MAX);
        assert_eq!(Iblt::doubled(32), Some(64));
        assert_eq!(Iblt::doubled(CELLS_MAX), None);
        assert_eq!(Iblt::new(0).unwrap().cells(), 4);
    }

    #[test]
    fn estimates_are_near() {
        for differences in [0_u64, 1, 5, 30, 100, 1_000, 10_000] {
            for seed in 0..10 {
                let [left, right] = sets(seed, 2_000, differences, 0).map(|elements| {
                    let mut strata = Strata::new().unwrap();
                    elements.iter().for_each(|&element| strata.insert(element));
                    Strata::from_bytes(&strata.to_bytes()).unwrap()
                });
                let estimate = left.estimate(&right).unwrap() as f64;
                let expected = differences as f64;
                // Few are counted exactly; of many, at least some 30 are seen.
                let tolerance = if expected <= 30.0 {
                    0.0
                } else {
                    0.7 * expected
                };
                assert!(
                    (estimate - expected).abs() <= tolerance,
                    "{estimate} {expected}"
                );
            }
        }
    }

    #[test]
    fn bytes_that_are_no_tables_are_refused() {
        let good = Iblt::new(8).unwrap().to_bytes();
        for bad in [&good[1..], &[], &good[..CELL_BYTES]] {
            assert!(Iblt::from_bytes(bad).is_err());
        }
        assert!(Strata::from_bytes(&good).is_err());
        let other = Iblt::new(12).unwrap();
        assert!(Iblt::new(8).unwrap().difference(&other).is_err());
        // A cell that gives up its element again and again must not go on for ever.
        let mut odd = Iblt::new(8).unwrap();
        let places = odd.places(7);
        odd.cells[places[0]] = Cell::of(7, 1);
        assert_eq!(odd.difference(&Iblt::new(8).unwrap()).unwrap(), None);
    }
}
