//! Two replicas find their differences without filters: by all hashes, or by a sketch.
//!
//! A message is bytes that one side makes and the other one reads; its bytes are counted.

use std::collections::{HashMap, HashSet};

use crate::Result;
use crate::iblt::{Iblt, Strata};
use crate::replica::{Element, Replica, entries_of, message_of};
use crate::wire::{Reader, word};

/// How differences are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// By the hashes of all elements.
    Hashes,
    /// By digests of pieces, then filters.
    Filters {
        /// Bits of a filter for each element.
        bits: u64,
        /// Elements of a piece.
        piece: u64,
    },
    /// By an invertible Bloom lookup table.
    Sketch,
}

impl Method {
    /// The name in a table.
    pub fn name(self) -> String {
        match self {
            Method::Hashes => "all hashes".into(),
            Method::Filters { bits, .. } => format!("filters, {bits} bits"),
            Method::Sketch => "sketch".into(),
        }
    }
}

/// The rounds and bytes until two replicas agree.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// Rounds until both had the same content.
    pub rounds: u64,
    /// Bytes of digests, filters, sketches, hashes: all but entries.
    pub finding_bytes: u64,
    /// Bytes of entries.
    pub entry_bytes: u64,
    /// Entries that were sent.
    pub entries: u64,
    /// Entries that were no newer than the receiver's own.
    pub in_vain: u64,
    /// Sketches that were sent; each after the first of a round is twice as large.
    pub sketches: u64,
}

impl Cost {
    /// A message that helps to find differences. The other side has only these bytes.
    pub fn sends(&mut self, message: Vec<u8>) -> Vec<u8> {
        self.finding_bytes += message.len() as u64;
        message
    }
}

/// A round in which two replicas look for their differences.
#[derive(Debug)]
pub struct Meeting<'a> {
    /// Both have hashed with this seed.
    pub seed: u64,
    /// The left one, which speaks first, and the right one.
    pub replicas: &'a mut [Replica; 2],
    /// The elements of the left one at the beginning of the round.
    pub mine: &'a [Element],
    /// Those of the right one.
    pub theirs: &'a [Element],
    /// The account of all that is sent.
    pub cost: &'a mut Cost,
}

impl Meeting<'_> {
    /// The left side sends the entries of these elements, and the right one merges them.
    ///
    /// # Errors
    ///
    /// If a store refuses.
    pub fn left_repairs(&mut self, elements: &[&Element]) -> Result<()> {
        self.repair(0, elements)
    }

    /// The right side sends the entries of these elements, and the left one merges them.
    ///
    /// # Errors
    ///
    /// If a store refuses.
    pub fn right_repairs(&mut self, elements: &[&Element]) -> Result<()> {
        self.repair(1, elements)
    }

    fn repair(&mut self, from: usize, elements: &[&Element]) -> Result<()> {
        let mut entries = Vec::new();
        for element in elements {
            // An entry that a newer one has replaced in this round is not sent.
            entries.extend(self.replicas[from].entry(self.seed, element)?);
        }
        let message = message_of(&entries);
        self.cost.entry_bytes += message.len() as u64;
        for entry in entries_of(&message)? {
            self.cost.entries += 1;
            self.cost.in_vain += u64::from(!self.replicas[1 - from].merge(&entry)?);
        }
        Ok(())
    }

    /// The right side knows what both lack: it sends entries, and asks for those that it wants.
    fn exchange(&mut self, wanted: &[u64], extra: &[u64]) -> Result<()> {
        self.right_repairs(&with_hashes(self.theirs, extra))?;
        let message = wanted.iter().flat_map(|hash| hash.to_le_bytes()).collect();
        let message = self.cost.sends(message);
        self.left_repairs(&with_hashes(self.mine, &words_of(&message)?))
    }
}

/// The elements with these hashes.
fn with_hashes<'a>(elements: &'a [Element], hashes: &[u64]) -> Vec<&'a Element> {
    let by_hash: HashMap<u64, &Element> = elements.iter().map(|one| (one.hash, one)).collect();
    let found = hashes.iter().filter_map(|hash| by_hash.get(hash));
    found.copied().collect()
}

fn words_of(message: &[u8]) -> Result<Vec<u64>> {
    let (mut reader, mut words) = (Reader(message), Vec::new());
    while !reader.0.is_empty() {
        words.push(word(&mut reader)?);
    }
    Ok(words)
}

/// The left side sends all its hashes, 64 bits each.
///
/// # Errors
///
/// If a store refuses.
pub fn by_hashes(meeting: &mut Meeting<'_>) -> Result<()> {
    let hashes = meeting.mine.iter().map(|element| element.hash);
    let message = meeting
        .cost
        .sends(hashes.flat_map(u64::to_le_bytes).collect());
    let hashes: HashSet<u64> = words_of(&message)?.into_iter().collect();
    let own: HashSet<u64> = meeting.theirs.iter().map(|element| element.hash).collect();
    let wanted: Vec<u64> = hashes.difference(&own).copied().collect();
    let extra: Vec<u64> = own.difference(&hashes).copied().collect();
    meeting.exchange(&wanted, &extra)
}

/// The left side sends an estimator, and then a table of the size that the right one asks for. A table that
/// is too small is sent again in twice the size; if that is too large, all hashes are sent.
///
/// # Errors
///
/// If a store refuses.
pub fn by_sketch(meeting: &mut Meeting<'_>) -> Result<()> {
    let message = meeting.cost.sends(strata(meeting.mine)?.to_bytes());
    let theirs = Strata::from_bytes(&message)?;
    let estimate = theirs.estimate(&strata(meeting.theirs)?)?;
    by_table(meeting, Some(Iblt::cells_for(estimate)))
}

/// By tables from this size on; without a size, by all hashes.
fn by_table(meeting: &mut Meeting<'_>, mut cells: Option<usize>) -> Result<()> {
    while let Some(size) = cells {
        // The question is the size, and the answer is the table.
        meeting.cost.sends((size as u64).to_le_bytes().to_vec());
        let message = meeting.cost.sends(table(meeting.mine, size)?.to_bytes());
        meeting.cost.sketches += 1;
        let own = table(meeting.theirs, size)?;
        if let Some(found) = Iblt::from_bytes(&message)?.difference(&own)? {
            return meeting.exchange(&found.left, &found.right);
        }
        cells = Iblt::doubled(size);
    }
    by_hashes(meeting)
}

fn strata(elements: &[Element]) -> Result<Strata> {
    let mut strata = Strata::new()?;
    for element in elements {
        strata.insert(element.hash);
    }
    Ok(strata)
}

fn table(elements: &[Element], cells: usize) -> Result<Iblt> {
    let mut table = Iblt::new(cells)?;
    for element in elements {
        table.insert(element.hash);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use crate::divergence::{Sites, diverge};

    /// The cost of one round with a first table of this size. Both must be equal after it.
    fn cost(cells: Option<usize>) -> Cost {
        let (sites, mut random) = (Sites::new().unwrap(), Random::new(1, 0));
        let mut replicas = sites.equal_replicas(1_000, &mut random).unwrap();
        diverge(&mut replicas, (200, 1_000), &mut random).unwrap();
        let [mine, theirs] = [0, 1].map(|side: usize| replicas[side].elements(7).unwrap());
        let mut cost = Cost::default();
        let mut meeting = Meeting {
            seed: 7,
            replicas: &mut replicas,
            mine: &mine,
            theirs: &theirs,
            cost: &mut cost,
        };
        by_table(&mut meeting, cells).unwrap();
        let [left, right] = replicas;
        assert_eq!(left.entries().unwrap(), right.entries().unwrap());
        assert_eq!(cost.entries - cost.in_vain, 200);
        cost
    }

    #[test]
    fn a_table_that_is_too_small_is_doubled() {
        // Some 360 elements need 470 cells or more: 32, 64, 128 and 256 are too few.
        let sketches = cost(Some(32)).sketches;
        assert!((5..=6).contains(&sketches), "{sketches}");
        assert_eq!(cost(Some(2_048)).sketches, 1);
    }

    #[test]
    fn without_a_table_all_hashes_are_sent() {
        let cost = cost(None);
        assert_eq!(cost.sketches, 0);
        assert!(cost.finding_bytes > 8_000);
    }
}
