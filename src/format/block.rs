//! The payload of a data block: entries in key order, in groups that can be entered directly.
//!
//! Within a group each key stores only what differs from the one before it; the first key of a
//! group is whole. The offsets of the groups stand at the end, so that a group can be found by
//! its ordinal (the filter's *slot*) or by binary search. See `docs/format.md`, "Data block".

use std::cmp::Ordering;

use super::cursor::{Cursor, Malformed};
use super::{four_bytes, varint};
use crate::key::{self, Kind, Sequence};
use criba_filters::prefetch;

/// Bytes before the first entry: base sequence, entry count, group count.
pub(crate) const HEADER_BYTES: usize = 16;

/// Payloads up to this length have offsets of two bytes, longer ones of four.
const NARROW_MAX: usize = 0xffff;

/// Bytes before the place where a group is guessed that are fetched as well, and most of the group.
const GUESS_BYTES: usize = 64;
const GROUP_BYTES_MAX: usize = 1024;

/// One entry, as given to a [`Builder`] or decoded from a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) sequence: Sequence,
    pub(crate) kind: Kind,
    pub(crate) value: &'a [u8],
}

/// Makes the payload of one block.
#[derive(Debug)]
pub(crate) struct Builder {
    payload: Vec<u8>,
    offsets: Vec<u32>,
    entries: u32,
    in_group: u32,
    group_entries_max: u32,
    base: Sequence,
    last_key: Vec<u8>,
}

impl Builder {
    /// `base` is at most every sequence that will be added.
    pub(crate) fn new(base: Sequence, group_entries_max: u32) -> Builder {
        let mut builder = Builder {
            payload: Vec::new(),
            offsets: Vec::new(),
            entries: 0,
            in_group: 0,
            group_entries_max,
            base,
            last_key: Vec::new(),
        };
        builder.clear();
        builder
    }

    pub(crate) fn clear(&mut self) {
        self.payload.clear();
        self.payload.resize(HEADER_BYTES, 0);
        self.offsets.clear();
        self.entries = 0;
        self.in_group = 0;
        self.last_key.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Ordinal of the group that the next entry goes to.
    pub(crate) fn next_group(&self) -> u32 {
        let open = self.in_group > 0 && self.in_group < self.group_entries_max;
        let groups = four_bytes(self.offsets.len() as u64);
        if open {
            groups.saturating_sub(1)
        } else {
            groups
        }
    }

    /// Length of the payload with this entry added, in bytes; at most a few bytes too high.
    pub(crate) fn len_with(&self, entry: &Entry<'_>) -> usize {
        let shared = self.shared_with(entry.key);
        let groups = self.offsets.len().saturating_add(1);
        let len = self
            .payload
            .len()
            .saturating_add(20)
            .saturating_add(entry.key.len().saturating_sub(shared))
            .saturating_add(entry.value.len());
        let width = if len.saturating_add(groups.saturating_mul(2)) > NARROW_MAX {
            4
        } else {
            2
        };
        len.saturating_add(groups.saturating_mul(width))
    }

    fn shared_with(&self, key: &[u8]) -> usize {
        let open = self.in_group > 0 && self.in_group < self.group_entries_max;
        if open {
            common_prefix(&self.last_key, key)
        } else {
            0
        }
    }

    /// Adds the next entry; entries come in the order of [`key::compare`].
    ///
    /// # Panics
    ///
    /// If its sequence is below the base, or if the payload before it has 4 GiB: a block of that
    /// length would have to hold four of the longest entries, and one such entry fills a block.
    pub(crate) fn add(&mut self, entry: &Entry<'_>) {
        let shared = self.shared_with(entry.key);
        if self.in_group == 0 || self.in_group >= self.group_entries_max {
            self.offsets.push(four_bytes(self.payload.len() as u64));
            self.in_group = 0;
        }
        let suffix = entry.key.get(shared..).unwrap_or_default();
        assert!(
            entry.sequence >= self.base,
            "a block begins with its least sequence"
        );
        let age = entry.sequence.0.saturating_sub(self.base.0);
        varint::encode(shared as u64, &mut self.payload);
        varint::encode(suffix.len() as u64, &mut self.payload);
        varint::encode(
            (age << 2) | u64::from(entry.kind.to_u8()),
            &mut self.payload,
        );
        if entry.kind.has_value() {
            varint::encode(entry.value.len() as u64, &mut self.payload);
        }
        self.payload.extend_from_slice(suffix);
        self.payload.extend_from_slice(entry.value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(suffix);
        self.entries = self.entries.saturating_add(1);
        self.in_group = self.in_group.saturating_add(1);
    }

    /// Adds the group offsets and the counts; the payload is complete until [`Builder::clear`].
    pub(crate) fn finish(&mut self) -> &[u8] {
        let groups = four_bytes(self.offsets.len() as u64);
        let narrow_len = self
            .payload
            .len()
            .saturating_add(self.offsets.len().saturating_mul(2));
        for &offset in &self.offsets {
            match u16::try_from(offset) {
                Ok(offset) if narrow_len <= NARROW_MAX => {
                    self.payload.extend_from_slice(&offset.to_le_bytes());
                }
                _ => self.payload.extend_from_slice(&offset.to_le_bytes()),
            }
        }
        let header = [
            self.base.0.to_le_bytes().as_slice(),
            &self.entries.to_le_bytes(),
            &groups.to_le_bytes(),
        ]
        .concat();
        if let Some(space) = self.payload.get_mut(..HEADER_BYTES) {
            space.copy_from_slice(&header);
        }
        &self.payload
    }
}

fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(a, b)| a == b).count()
}

/// An entry that was decoded beside others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoded {
    /// Range of its key within the keys of the group.
    pub(crate) key: (usize, usize),
    pub(crate) sequence: Sequence,
    pub(crate) kind: Kind,
    /// Range of its value within the payload.
    pub(crate) value: (usize, usize),
}

/// Entries of a group, in order, and their keys, one after the other: memory to be used again.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) entries: Vec<Decoded>,
    pub(crate) keys: Vec<u8>,
}

impl Group {
    pub(crate) fn key(&self, entry: &Decoded) -> &[u8] {
        part(&self.keys, entry.key)
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.keys.clear();
    }
}

/// The shape of a payload, checked once; entries are decoded on demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    base: Sequence,
    entries: u32,
    groups: u32,
    /// Where entries end and group offsets begin, in bytes.
    entries_end: usize,
    wide: bool,
}

/// Where a search for the newest visible entry of a key ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// The entry; its value lies at this range of the payload.
    Entry {
        kind: Kind,
        sequence: Sequence,
        value: (usize, usize),
    },
    /// The block ended with an entry of this key that is too new: look in the next block.
    Beyond,
    /// The key has no visible entry from here on.
    Absent,
}

/// The fixed fields of one entry and where its parts lie in the payload.
struct RawEntry {
    shared: usize,
    suffix: (usize, usize),
    sequence: Sequence,
    kind: Kind,
    value: (usize, usize),
}

impl Shape {
    pub(crate) fn parse(payload: &[u8]) -> Result<Shape, Malformed> {
        let mut cursor = Cursor::new(payload);
        let base = Sequence(cursor.u64("block.base_sequence")?);
        let entries = cursor.u32("block.entries")?;
        let groups = cursor.u32("block.groups")?;
        let wide = payload.len() > NARROW_MAX;
        let width: usize = if wide { 4 } else { 2 };
        let entries_end = (groups as usize)
            .checked_mul(width)
            .and_then(|bytes| payload.len().checked_sub(bytes))
            .filter(|&end| end >= HEADER_BYTES)
            .ok_or_else(|| cursor.malformed("block.groups: more than fit"))?;
        if groups == 0 || entries < groups {
            return Err(cursor.malformed("block.entries: fewer than groups, or none"));
        }
        Ok(Shape {
            base,
            entries,
            groups,
            entries_end,
            wide,
        })
    }

    pub(crate) fn group_count(&self) -> u32 {
        self.groups
    }

    pub(crate) fn entry_count(&self) -> u32 {
        self.entries
    }

    /// Where the entries of a group lie. Past the last group the range is empty.
    pub(crate) fn group_range(
        &self,
        payload: &[u8],
        group: u32,
    ) -> Result<(usize, usize), Malformed> {
        let start = self.group_offset(payload, group)?;
        let end = self.group_offset(payload, group.saturating_add(1))?;
        if start > end || start < HEADER_BYTES {
            return Err(damaged("block.group_offsets: not ascending"));
        }
        Ok((start, end))
    }

    fn group_offset(&self, payload: &[u8], group: u32) -> Result<usize, Malformed> {
        if group >= self.groups {
            return Ok(self.entries_end);
        }
        let width: usize = if self.wide { 4 } else { 2 };
        let at = (group as usize)
            .saturating_mul(width)
            .saturating_add(self.entries_end);
        let mut cursor = Cursor::new(payload.get(at..).unwrap_or_default());
        let offset = if self.wide {
            cursor.u32("block.group_offset")? as usize
        } else {
            usize::from(cursor.u16("block.group_offset")?)
        };
        if offset > self.entries_end {
            return Err(damaged("block.group_offset: behind the entries"));
        }
        Ok(offset)
    }

    #[inline(always)]
    fn entry_at(&self, payload: &[u8], at: usize, end: usize) -> Result<RawEntry, Malformed> {
        let bytes = payload.get(at..end).unwrap_or_default();
        self.raw_entry(bytes, at).map_err(damaged)
    }

    /// The entry at the start of `bytes`, which begin at `at`. The error is kept apart: it would make
    /// every entry be handed on through memory, and scans decode each.
    #[inline(always)]
    fn raw_entry(&self, bytes: &[u8], at: usize) -> Result<RawEntry, &'static str> {
        let mut rest = bytes;
        let mut number = |damage| {
            let (value, len) = varint::decode(rest).ok_or(damage)?;
            rest = rest.get(len..).unwrap_or_default();
            Ok::<u64, &'static str>(value)
        };
        let shared = number("entry.shared: not a whole number")?;
        let suffix_len = number("entry.suffix_len: not a whole number")?;
        let tag = number("entry.tag: not a whole number")?;
        let kind = u8::try_from(tag & 3).ok().and_then(Kind::from_u8);
        let kind = kind.ok_or("entry.tag: unknown kind")?;
        let value_len = match kind {
            Kind::Value | Kind::Operand => number("entry.value_len: not a whole number")?,
            Kind::Tombstone => 0,
        };
        let (suffix_len, value_len) = (to_usize(suffix_len), to_usize(value_len));
        let behind = rest.len().checked_sub(suffix_len);
        let behind = behind.ok_or("entry.suffix: cut off")?;
        if behind < value_len {
            return Err("entry.value: cut off");
        }
        // All of it lies within the payload: nothing can overflow.
        let start = at.saturating_add(bytes.len().saturating_sub(rest.len()));
        let end = start.saturating_add(suffix_len);
        Ok(RawEntry {
            shared: to_usize(shared),
            suffix: (start, end),
            sequence: self.base.after(tag >> 2),
            kind,
            value: (end, end.saturating_add(value_len)),
        })
    }

    /// The last group that can hold the first entry at or after `(key, sequence)`.
    fn group_of(&self, payload: &[u8], key: &[u8], sequence: Sequence) -> Result<u32, Malformed> {
        let (mut low, mut high) = (0, self.groups);
        while high.saturating_sub(low) > 1 {
            let middle = low.midpoint(high);
            let (start, end) = self.group_range(payload, middle)?;
            let first = self.entry_at(payload, start, end)?;
            let first_key = part(payload, first.suffix);
            match key::compare((first_key, first.sequence), (key, sequence)) {
                Ordering::Greater => high = middle,
                Ordering::Less | Ordering::Equal => low = middle,
            }
        }
        Ok(low)
    }

    /// Begins to fetch a group from where it lies if all take about as much: where it is will be known
    /// only when the offsets are there.
    #[inline]
    fn prefetch(&self, payload: &[u8], group: u32) {
        let entries = self.entries_end.saturating_sub(HEADER_BYTES);
        let each = entries.checked_div(self.groups as usize).unwrap_or(0);
        let guess = HEADER_BYTES.saturating_add(each.saturating_mul(group as usize));
        let first = guess.saturating_sub(GUESS_BYTES);
        let count = each.min(GROUP_BYTES_MAX).saturating_add(GUESS_BYTES);
        prefetch(payload, first, count);
    }

    /// Begins to fetch the offsets of the groups.
    #[inline]
    pub(crate) fn prefetch_offsets(&self, payload: &[u8]) {
        prefetch(payload, self.entries_end, 1);
    }

    /// Finds the newest entry of `key` that is at most `sequence`.
    ///
    /// A given `group` is where the newest entry of the key is if it is here at all (the slot of
    /// a filter); the search goes beyond that group only along versions of the key.
    ///
    /// No key is rebuilt: `matched` counts how many bytes the entry before shares with `key`,
    /// and the entry's own shared length tells most comparisons.
    pub(crate) fn search(
        &self,
        payload: &[u8],
        key: &[u8],
        sequence: Sequence,
        group: Option<u32>,
    ) -> Result<Found, Malformed> {
        let entered_by_slot = group.is_some();
        let mut group = match group {
            Some(group) => {
                self.prefetch(payload, group);
                group
            }
            None => self.group_of(payload, key, sequence)?,
        };
        let mut equal = false;
        while group < self.groups {
            let range = self.group_range(payload, group)?;
            if let Some(found) = self.search_group(payload, range, (key, sequence), &mut equal)? {
                return Ok(found);
            }
            if entered_by_slot && !equal {
                return Ok(Found::Absent);
            }
            group = group.saturating_add(1);
        }
        Ok(if equal { Found::Beyond } else { Found::Absent })
    }

    /// [`Shape::search`] in the entries of one group; `None` at its end. `equal` says whether the last entry
    /// was one of the key, and too new.
    #[inline(always)]
    fn search_group(
        &self,
        payload: &[u8],
        (mut at, end): (usize, usize),
        (key, sequence): (&[u8], Sequence),
        equal: &mut bool,
    ) -> Result<Option<Found>, Malformed> {
        let mut matched = 0;
        while at < end {
            let entry = self.entry_at(payload, at, end)?;
            at = entry.value.1;
            match entry.shared.cmp(&matched) {
                // It shares less with the key than the entry before, which is smaller.
                Ordering::Less => return Ok(Some(Found::Absent)),
                Ordering::Greater => continue,
                Ordering::Equal => {}
            }
            let suffix = part(payload, entry.suffix);
            let rest = key.get(matched..).unwrap_or_default();
            match suffix.cmp(rest) {
                Ordering::Greater => return Ok(Some(Found::Absent)),
                Ordering::Less => {
                    *equal = false;
                    matched = matched.saturating_add(common_prefix(suffix, rest));
                }
                Ordering::Equal if entry.sequence <= sequence => {
                    return Ok(Some(Found::Entry {
                        kind: entry.kind,
                        sequence: entry.sequence,
                        value: entry.value,
                    }));
                }
                Ordering::Equal => {
                    *equal = true;
                    matched = key.len();
                }
            }
        }
        Ok(None)
    }

    /// Decodes the entries of one group, which take the place of those that are there. Of a
    /// damaged group those up to the damage are there.
    pub(crate) fn decode_group(
        &self,
        payload: &[u8],
        number: u32,
        group: &mut Group,
    ) -> Result<(), Malformed> {
        group.clear();
        let (mut at, end) = self.group_range(payload, number)?;
        let mut before = 0..0_usize;
        while at < end {
            let entry = self.entry_at(payload, at, end)?;
            if entry.shared > before.len() {
                return Err(damaged("entry.shared: longer than the key before"));
            }
            let start = group.keys.len();
            let shared = before.start..before.start.saturating_add(entry.shared);
            group.keys.extend_from_within(shared);
            group.keys.extend_from_slice(part(payload, entry.suffix));
            before = start..group.keys.len();
            group.entries.push(Decoded {
                key: (start, group.keys.len()),
                sequence: entry.sequence,
                kind: entry.kind,
                value: entry.value,
            });
            at = entry.value.1;
        }
        Ok(())
    }

    /// The group to start at when walking forwards from `(key, sequence)`.
    pub(crate) fn seek_group(
        &self,
        payload: &[u8],
        key: &[u8],
        sequence: Sequence,
    ) -> Result<u32, Malformed> {
        self.group_of(payload, key, sequence)
    }
}

/// [`Shape::search`] in a group by itself, of a block whose entries are all visible: the newest entry of the key.
/// Its sequence is not known.
pub(crate) fn search_alone(group: &[u8], key: &[u8]) -> Result<Found, Malformed> {
    let shape = Shape {
        base: Sequence(0),
        entries: 1,
        groups: 1,
        entries_end: group.len(),
        wide: false,
    };
    let wanted = (key, Sequence(u64::MAX));
    let found = shape.search_group(group, (0, group.len()), wanted, &mut false)?;
    Ok(found.unwrap_or(Found::Absent))
}

fn part(payload: &[u8], range: (usize, usize)) -> &[u8] {
    payload.get(range.0..range.1).unwrap_or_default()
}

fn damaged(what: &str) -> Malformed {
    Malformed {
        what: what.to_owned(),
        at: 0,
    }
}

fn to_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
