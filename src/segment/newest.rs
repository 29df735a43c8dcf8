//! How new the newest entry of a key is.

use crate::error::Result;
use crate::format::block::Found;
use crate::key::Sequence;
use criba_filters::KeyHash;

use super::body::Body;
use super::caches::Caches;
use super::filter::FilterState;
use super::lookup::{Entrance, Lead, Lookup, Wanted};
use super::reader::Segment;

impl Segment {
    /// The sequence of the newest entry of the key; `None` if the segment has none. The key lies
    /// between the first and the last key of the segment.
    ///
    /// Reads what a lookup would. It is no lookup of the program, so it does not count as one.
    pub(crate) fn newest(
        &self,
        hash: KeyHash,
        key: &[u8],
        caches: &Caches,
    ) -> Result<Option<Sequence>> {
        let body = self.body()?;
        let wanted = Wanted {
            hash,
            key,
            sequence: Sequence(u64::MAX),
            fetched: None,
        };
        let mut lookup = Lookup::new(wanted, caches);
        let FilterState::Ready(filter) = &body.filter else {
            return self.newest_from(body, Self::by_fences(body, key), &mut lookup);
        };
        match Self::lead_to(body, filter, &mut lookup) {
            Lead::Absent => Ok(None),
            Lead::Fences => self.newest_from(body, Self::by_fences(body, key), &mut lookup),
            Lead::Block(entrance) => match self.newest_from(body, entrance, &mut lookup)? {
                // The place may be that of another key with the same hash.
                None if filter.equal_hashes => {
                    self.newest_from(body, Self::by_fences(body, key), &mut lookup)
                }
                newest => Ok(newest),
            },
        }
    }

    /// Searches a block, and the next ones as long as the key may begin there.
    fn newest_from(
        &self,
        body: &Body,
        mut entrance: Entrance,
        lookup: &mut Lookup<'_>,
    ) -> Result<Option<Sequence>> {
        let Wanted { key, sequence, .. } = lookup.wanted;
        while entrance.block < body.fences.block_count() {
            let Entrance { block, group } = entrance;
            let content = self.block(body, block, lookup.caches, &mut lookup.cost)?;
            let found = content.shape.search(&content.payload, key, sequence, group);
            match found.map_err(|malformed| self.malformed_block(body, block, &malformed))? {
                Found::Absent => return Ok(None),
                Found::Entry { sequence, .. } => return Ok(Some(sequence)),
                Found::Beyond => {
                    entrance = Entrance {
                        block: block + 1,
                        group: Some(0),
                    };
                }
            }
        }
        Ok(None)
    }
}
