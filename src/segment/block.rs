//! A data block in memory: checked, decompressed, ready to be searched.

use crate::cache::Weigh;
use crate::cursor::Item;
use crate::format::Malformed;
use crate::format::block::{Group, Shape};
use crate::format::region::{self, Place, RegionKind};
use crate::key::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::slice::Slice;

use super::compression;

/// Memory of a block beside its payload, in bytes.
const OVERHEAD_BYTES: u64 = 96;

/// Longest payload: one entry of the greatest size, or the greatest block, and their framing.
const PLAIN_BYTES_MAX: usize = MAX_VALUE_BYTES + MAX_KEY_BYTES + (1 << 20);

/// A data block whose checksum has been verified.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) payload: Slice,
    pub(crate) shape: Shape,
}

/// What is copied is about to be searched: what that needs first is on its way while the reference
/// is counted, which takes a look at memory as well.
impl Clone for Block {
    #[inline]
    fn clone(&self) -> Block {
        self.shape.prefetch_offsets(&self.payload);
        Block {
            payload: self.payload.clone(),
            shape: self.shape,
        }
    }
}

impl Block {
    /// Verifies and unpacks a stored block. An uncompressed one shares the memory of `stored`.
    pub(crate) fn open(stored: &Slice, place: Place) -> Result<Block, Malformed> {
        let region = region::open(stored, RegionKind::Data, place)?;
        if region.plain_len > PLAIN_BYTES_MAX {
            let what = format!(
                "data block: {} bytes are more than a block can have",
                region.plain_len
            );
            return Err(Malformed { what, at: 0 });
        }
        let packed = stored.slice(0..region.payload_len);
        Block::of_payload(compression::unpack(packed, region.codec, region.plain_len)?)
    }

    /// The block with this payload, which was verified.
    pub(super) fn of_payload(payload: Slice) -> Result<Block, Malformed> {
        let shape = Shape::parse(&payload)?;
        Ok(Block { payload, shape })
    }

    /// Appends the entries of a group; their keys share one buffer, their values the payload.
    pub(crate) fn decode(&self, group: u32, items: &mut Vec<Item>) -> Result<(), Malformed> {
        let mut decoded = Group::default();
        self.shape
            .decode_group(&self.payload, group, &mut decoded)?;
        let keys = Slice::from(decoded.keys);
        items.extend(decoded.entries.iter().map(|entry| Item {
            key: keys.slice(entry.key.0..entry.key.1),
            sequence: entry.sequence,
            kind: entry.kind,
            value: self.payload.slice(entry.value.0..entry.value.1),
        }));
        Ok(())
    }
}

impl Weigh for Block {
    fn weight_bytes(&self) -> u64 {
        // The pages of a memory map are the system's, not ours.
        let payload = if self.payload.is_mapped() {
            0
        } else {
            self.payload.len() as u64
        };
        payload + OVERHEAD_BYTES
    }
}
