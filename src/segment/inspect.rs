//! Everything about one segment, read and verified whole.

use crate::cursor::Direction;
use crate::error::Result;
use crate::format::block::Group;
use crate::format::segment::pages_len;

use super::outcome::LookupCost;
use super::readahead::Windows;
use super::reader::Segment;
use super::{Caches, file_name};

/// What [`Keyspace::inspect`](crate::Keyspace::inspect) says about a segment.
///
/// ```
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("apple", "red")?;
/// db.flush()?;
/// let id = db.stats().segments().next().unwrap().id;
/// let found = db.inspect(id)?;
/// assert_eq!(found.regions[0].offset, 0);
/// assert_eq!((found.blocks.len(), found.blocks[0].entries), (1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// Name of the file.
    pub file: String,
    /// The regions, in the order in which they lie in the file.
    pub regions: Vec<RegionInfo>,
    /// The data blocks, in key order.
    pub blocks: Vec<BlockInfo>,
}

/// A region of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionInfo {
    /// What it holds.
    pub name: &'static str,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes, trailer included.
    pub bytes: u64,
}

/// A data block.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockInfo {
    /// Ordinal within the segment.
    pub ordinal: u32,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length on disk, trailer included.
    pub stored_bytes: u64,
    /// Length of its payload in memory.
    pub payload_bytes: u64,
    /// Entries.
    pub entries: u32,
    /// Groups that can be entered directly.
    pub groups: u32,
    /// Its first key.
    pub first_key: Vec<u8>,
}

impl Segment {
    /// Reads and verifies every data block.
    ///
    /// Costs one read for each block that is not in the cache.
    pub(crate) fn inspect(&self, caches: &Caches) -> Result<Inspection> {
        let body = self.body()?;
        let (mut blocks, mut decoded) = (Vec::new(), Group::default());
        let mut windows = Windows::default();
        for ordinal in 0..body.fences.block_count() {
            let (offset, stored_bytes) = body.fences.extent(ordinal);
            windows.come_to(body, ordinal, Direction::Forward);
            let block = self.block(body, ordinal, caches, &mut LookupCost::default())?;
            let mut first_key = None;
            for group in 0..block.shape.group_count() {
                block
                    .shape
                    .decode_group(&block.payload, group, &mut decoded)
                    .map_err(|what| self.malformed_block(body, ordinal, &what))?;
                if let Some(first) = decoded.entries.first() {
                    first_key.get_or_insert_with(|| decoded.key(first).to_vec());
                }
            }
            blocks.push(BlockInfo {
                ordinal,
                offset,
                stored_bytes,
                payload_bytes: block.payload.len() as u64,
                entries: block.shape.entry_count(),
                groups: block.shape.group_count(),
                first_key: first_key.unwrap_or_default(),
            });
        }
        let footer = &body.footer;
        let words = body.properties.filter.map_or(0, |filter| filter.body_words);
        let starts = [
            ("data blocks", 0, footer.data_end),
            ("filter pages", footer.filter_start, pages_len(words)),
            (
                "range filter pages",
                footer.range_start,
                footer.filter_header - footer.range_start,
            ),
            (
                "filter header",
                footer.filter_header,
                footer.range_header - footer.filter_header,
            ),
            (
                "range filter header",
                footer.range_header,
                footer.index - footer.range_header,
            ),
            ("index", footer.index, footer.properties - footer.index),
            (
                "properties",
                footer.properties,
                footer.offset() - footer.properties,
            ),
            ("footer", footer.offset(), footer.len - footer.offset()),
        ];
        let regions = starts
            .map(|(name, offset, bytes)| RegionInfo {
                name,
                offset,
                bytes,
            })
            .to_vec();
        Ok(Inspection {
            file: file_name(self.meta.file),
            regions,
            blocks,
        })
    }
}
