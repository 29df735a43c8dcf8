//! Entries that are kept by themselves, without the blocks that they lie in.

use std::convert::Infallible;

use crate::cache::{Cache, Weigh};
use crate::doorkeeper::Doorkeeper;
use crate::key::Kind;
use crate::slice::Slice;
use criba_filters::KeyHash;

use super::outcome::Hit;

/// Memory of an entry beside its key and value, in bytes: its place in a table that has room to
/// grow, two counts of references, and what an allocation takes.
const OVERHEAD_BYTES: u64 = 144;

/// Bytes of an entry from which the number of entries is estimated.
const USUAL_BYTES: u64 = 256;

/// Bytes of the cache for each lookup that is remembered: about as many as it can hold entries.
const BYTES_PER_REMEMBERED: u64 = 256;
const REMEMBERED_MAX: u64 = 1 << 24;

/// The newest entry that a segment has of a key.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The key, then the value.
    bytes: Slice,
    key_len: u32,
    kind: Kind,
}

impl Weigh for Entry {
    fn weight_bytes(&self) -> u64 {
        self.bytes.len() as u64 + OVERHEAD_BYTES
    }
}

/// A cache of entries, for lookups of which each wants another block.
#[derive(Debug)]
pub(crate) struct EntryCache {
    pub(crate) cache: Cache<Entry>,
    offered: Doorkeeper,
}

impl EntryCache {
    /// For up to so many bytes; it begins with room for none.
    pub(super) fn new(bytes_max: u64) -> EntryCache {
        let remembered = (bytes_max / BYTES_PER_REMEMBERED).min(REMEMBERED_MAX);
        let cache = Cache::of_items(bytes_max, USUAL_BYTES);
        cache.set_capacity(0);
        EntryCache {
            cache,
            offered: Doorkeeper::new(remembered),
        }
    }

    /// The newest entry of a key in a segment.
    #[inline]
    pub(super) fn get(&self, segment: u64, hash: KeyHash, key: &[u8]) -> Option<Hit> {
        let entry = self.cache.get((segment, hash.0))?;
        let key_len = entry.key_len as usize;
        // Two keys may have one hash.
        if entry.bytes.get(..key_len)? != key {
            return None;
        }
        let end = entry.bytes.len();
        Some(Hit::of(entry.kind, entry.bytes.into_part(key_len..end)))
    }

    /// Takes the newest entry of a key in a segment if it is offered for the second time: most keys
    /// that are looked up once are not looked up again soon, and would only drive out others.
    pub(super) fn offer(&self, segment: u64, hash: KeyHash, key: &[u8], hit: &Hit) {
        let Ok(key_len) = u32::try_from(key.len()) else {
            return;
        };
        if !self.offered.again((segment, hash.0)) {
            return;
        }
        let copied: Result<Slice, Infallible> =
            Slice::filled(key.len() + hit.value.len(), |bytes| {
                let (of_key, of_value) = bytes.split_at_mut(key.len());
                of_key.copy_from_slice(key);
                of_value.copy_from_slice(&hit.value);
                Ok(())
            });
        let Ok(bytes) = copied;
        let entry = Entry {
            bytes,
            key_len,
            kind: hit.kind,
        };
        self.cache.insert((segment, hash.0), entry);
    }
}
