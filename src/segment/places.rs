//! Where the keys of a segment are, and the filter that is built from it.

use crate::filter::{
    self, Answer, Build, Built, Filter, FilterSpec, KeyHash, Place as FilterPlace, Scratch,
};
use crate::mapped::MappedVec;
use crate::turns;

/// The place of each key, in key order.
///
/// One is used for segment after segment: all its memory anew for each would be a twentieth of the time
/// of a merge.
#[derive(Debug, Default)]
pub(crate) struct Places {
    hashes: MappedVec<KeyHash>,
    places: MappedVec<FilterPlace>,
    max_slot: u16,
    scratch: Scratch,
}

impl Places {
    /// The next key lies in this block, in this group of it.
    pub(super) fn add(&mut self, hash: KeyHash, (block, group): (u32, u32)) {
        let slot = u16::try_from(group).unwrap_or(u16::MAX);
        self.max_slot = self.max_slot.max(slot);
        self.hashes.push(hash);
        self.places.push(FilterPlace { block, slot });
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        self.hashes.truncate(0);
        self.places.truncate(0);
        self.max_slot = 0;
    }

    /// The filter of a segment of so many blocks.
    pub(super) fn filter(&mut self, spec: FilterSpec, salt: u64, block_count: u32) -> Built {
        let input = Build {
            spec,
            salt,
            hashes: &self.hashes,
            places: &self.places,
            block_count,
            max_slot: self.max_slot,
        };
        filter::build_with(&input, &mut self.scratch)
    }

    /// Whether a filter finds every key at its place.
    pub(super) fn are_all_found_by(&self, built: &Built) -> bool {
        let Ok(filter) = Filter::parse(built.kind, &built.header, built.body.len() as u64) else {
            return false;
        };
        let later = self.hashes.iter().skip(ASKED_AHEAD).map(Some);
        let mut later = later.chain(std::iter::repeat(None));
        let mut asked = self.hashes.iter().zip(&*self.places).enumerate();
        asked.all(|(key, (hash, place))| {
            turns::after(key, KEYS_PER_TURN);
            if let Some(later) = later.next().flatten() {
                filter.prefetch(*later, &built.body);
            }
            match filter.ask(*hash, &built.body) {
                Answer::No => false,
                Answer::Maybe => true,
                Answer::At(location) => {
                    let known = 1_u64
                        .checked_shl(location.block_bits.into())
                        .map_or(u64::MAX, |m| m - 1);
                    built.equal_hashes
                        || (u64::from(place.block) & known == u64::from(location.block)
                            && location.slot.is_none_or(|slot| slot == place.slot))
                }
            }
        })
    }
}

/// Keys that are asked for between two offers of the processor.
const KEYS_PER_TURN: usize = 4096;

/// Keys whose part of the filter is on its way from memory while another is looked up.
const ASKED_AHEAD: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::BloomierBits;

    fn filter_of(places: &mut Places, keys: std::ops::Range<u64>, group_max: u32) -> Built {
        places.clear();
        for key in keys.clone() {
            let block = ((key - keys.start) / 40) as u32;
            let hash = KeyHash(key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            places.add(hash, (block, key as u32 % (group_max + 1)));
        }
        let blocks = (keys.end - keys.start).div_ceil(40) as u32;
        let built = places.filter(FilterSpec::Bloomier(BloomierBits::Slot), 7, blocks);
        assert!(places.are_all_found_by(&built));
        built
    }

    #[test]
    fn nothing_is_left_of_the_segment_before() {
        let mut used = Places::default();
        let large = filter_of(&mut used, 0..100_000, 9);
        let small = filter_of(&mut used, 3..700, 3);
        assert!(!used.are_all_found_by(&large));
        assert_eq!(small, filter_of(&mut Places::default(), 3..700, 3));
        assert_eq!(large, filter_of(&mut used, 0..100_000, 9));
    }
}
