//! The index of a segment: for every data block its length and its lower fence.
//!
//! The fence of a block is the shortest key that is greater than the last key of the block
//! before and at most its own first key. A block whose first key is the last key of the block
//! before (more versions of it than one block holds) is marked: its fence is that key itself,
//! and the newest version is in an earlier block.

use super::cursor::{Cursor, Malformed};
use super::varint;

/// Least bytes of an encoded fence: length, shared and flag, suffix length.
const ENTRY_BYTES_MIN: usize = 3;

/// Makes the payload of an index region.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    entries: Vec<u8>,
    count: u64,
    last_fence: Vec<u8>,
}

/// One block, as decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fence<'a> {
    /// Bytes of the stored block, trailer included.
    pub(crate) stored_len: u64,
    /// The block begins with further versions of the last key of the block before.
    pub(crate) continues: bool,
    /// Bytes that this fence shares with the one before.
    pub(crate) shared: usize,
    /// The rest of the fence.
    pub(crate) suffix: &'a [u8],
}

impl Builder {
    /// Adds a block: `last_before` is the last key of the block before (`None` for the first).
    pub(crate) fn add(&mut self, stored_len: u64, last_before: Option<&[u8]>, first: &[u8]) {
        let continues = last_before == Some(first);
        let fence = match last_before {
            None => &[][..],
            Some(last) => fence(last, first),
        };
        let shared = fence
            .iter()
            .zip(&self.last_fence)
            .take_while(|(a, b)| a == b)
            .count();
        let suffix = fence.get(shared..).unwrap_or_default();
        varint::encode(stored_len, &mut self.entries);
        varint::encode(
            (shared as u64) << 1 | u64::from(continues),
            &mut self.entries,
        );
        varint::encode(suffix.len() as u64, &mut self.entries);
        self.entries.extend_from_slice(suffix);
        self.last_fence.truncate(shared);
        self.last_fence.extend_from_slice(suffix);
        self.count = self.count.saturating_add(1);
    }

    pub(crate) fn block_count(&self) -> u64 {
        self.count
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(self.entries.len().saturating_add(10));
        varint::encode(self.count, &mut payload);
        payload.extend_from_slice(&self.entries);
        payload
    }
}

/// The fence of a block that begins with `first`: its shortest prefix that is greater than `last`, the last
/// key before. If both are equal, the whole key.
pub(crate) fn fence<'a>(last: &[u8], first: &'a [u8]) -> &'a [u8] {
    let shared = last.iter().zip(first).take_while(|(a, b)| a == b).count();
    first.get(..shared.saturating_add(1)).unwrap_or(first)
}

/// Calls `each` with every block in order; returns their number.
pub(crate) fn decode(
    payload: &[u8],
    each: &mut dyn FnMut(Fence<'_>) -> Result<(), Malformed>,
) -> Result<u32, Malformed> {
    let mut cursor = Cursor::new(payload);
    let count = cursor.count("index.blocks", ENTRY_BYTES_MIN)?;
    let count =
        u32::try_from(count).map_err(|_too_many| cursor.malformed("index.blocks: too many"))?;
    for _ in 0..count {
        let stored_len = cursor.varint("index.stored_len")?;
        let tag = cursor.varint("index.shared")?;
        let suffix = cursor.prefixed("index.suffix")?;
        let shared = usize::try_from(tag >> 1).unwrap_or(usize::MAX);
        each(Fence {
            stored_len,
            continues: tag & 1 == 1,
            shared,
            suffix,
        })?;
    }
    cursor.end("index")?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_are_short_and_marked() {
        let mut builder = Builder::default();
        builder.add(4096, None, b"apple");
        builder.add(4096, Some(b"apricot"), b"banana");
        builder.add(8192, Some(b"banana"), b"banana");
        builder.add(4096, Some(b"banana"), b"bandit");
        let payload = builder.finish();
        let mut fence = Vec::new();
        let mut all = Vec::new();
        let count = decode(&payload, &mut |entry| {
            fence.truncate(entry.shared);
            fence.extend_from_slice(entry.suffix);
            all.push((entry.stored_len, entry.continues, fence.clone()));
            Ok(())
        });
        assert_eq!(count, Ok(4));
        let expected: [(u64, bool, &[u8]); 4] = [
            (4096, false, b""),
            (4096, false, b"b"),
            (8192, true, b"banana"),
            (4096, false, b"band"),
        ];
        assert!(all.iter().map(|(l, c, f)| (*l, *c, &f[..])).eq(expected));
        for len in 0..payload.len() {
            assert!(decode(&payload[..len], &mut |_| Ok(())).is_err());
        }
    }
}
