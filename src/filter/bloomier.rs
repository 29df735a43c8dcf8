//! The Bloomier filter: what the value of a ribbon means.
//!
//! Chazelle, Kilian, Rubinfeld, Tal, "The Bloomier filter: an efficient data structure for static
//! support lookup tables" (2004). A value holds, from its lowest bit: the ordinal of the key's data
//! block, its slot (the ordinal of the restart group in the block), and zeros: the key's
//! *fingerprint*. An absent key gets arbitrary bits: where there are to be zeros, an ordinal beyond
//! the last block or a slot beyond the last slot reject it here, a wrong ordinal is found out by the
//! fences of the block.
//!
//! What is stored is the value XOR bits of the key's hash, so that the solution is as good as random
//! whatever the places are. Zeros for a fingerprint would let everything pass; and of a bit that only
//! a few keys have, such as the highest of the ordinal in a segment of 129 blocks, the solution would
//! be 0 up to the first of these keys, which in a segment of 512 KiB made a seventh more false
//! positives.
//!
//! Where a value has fewer bits than the ordinal, it holds the ordinal's highest: what they leave are
//! blocks one behind the other, and the fences tell of all of them at once whether the key can be there.
//! They come in reverse, highest first, so that all values have the first of them, however wide they are.
//!
//! Slots are stored with all their bits or not at all: part of a slot's number would not save the
//! search in the block, and spent on the fingerprint the same bits save reads. For the same reason a
//! fractional bit is a block bit or a fingerprint bit, never a slot bit.

use std::hint::select_unpredictable;
use std::ops::Range;

use crate::turns;

use super::band::Row;
use super::form::Form;
use super::hash::{fingerprint, low_mask, mix, unmix};
use super::header::{Fields, require};
use super::lookup::{Answer, Location, Lookup, Window};
use super::resident::{Divided, TELLING};
use super::ribbon::{FIXED_BYTES, LAYER_BYTES, Planes, Ribbon, Spot};
use super::solve::{Equations, Width, solve};
use super::spec::clamp_bits;
use super::{BloomierBits, Build, Built, Damaged, Filter, FilterKind, KeyHash, Place};

/// First byte of the header. Written to disk; must not be changed. In version 1, never released, the
/// position was stored as it is.
const VERSION: u8 = 2;
/// Flag: values contain the slot. Written to disk; must not be changed.
const FLAG_SLOT: u8 = 1;
/// Flag: values contain the highest bits of the block's ordinal, in reverse. Written to disk; must not be
/// changed.
const FLAG_HIGHEST: u8 = 2;
/// Bytes of the header before the ribbon's part.
const OWN_BYTES: usize = 24;
/// Block and fingerprint bits together, when the caller leaves the number to us: a segment of one or
/// two blocks should have a filter too, at about the rate (0.8 %) of a Bloom filter of 10 bits per key.
pub(crate) const REJECTING_BITS_MIN: u32 = 7;

/// What is in the processor's cache of the fences tells blocks apart by 64: a sixteenth of fewer blocks than
/// this it would often not refute.
const TOLD_BLOCKS_MIN: u32 = 1024;

/// How the bits of a value are divided, but for the fingerprint, which takes the rest.
#[derive(Clone, Copy, Default, Debug)]
struct Layout {
    block_count: u32,
    max_slot: u16,
    has_slot: bool,
    /// Some values have no room for all bits of the ordinal.
    has_highest: bool,
    /// Bits that tell all blocks apart: 0 for one block, at most 32.
    block_bits: u32,
    /// Bits of the slot: 0 where it is not stored or where there is but one, at most 16.
    slot_bits: u32,
    /// The greatest number of so many bits, and the greatest slot that is stored.
    block_max: u64,
    stored_slot_max: u64,
}

impl Layout {
    fn new(block_count: u32, max_slot: u16, has_slot: bool) -> Self {
        let block_bits = u32::BITS - block_count.saturating_sub(1).leading_zeros();
        let slot_bits = if has_slot {
            u16::BITS - max_slot.leading_zeros()
        } else {
            0
        };
        Self {
            block_count,
            max_slot,
            has_slot,
            has_highest: false,
            block_bits,
            slot_bits,
            block_max: low_mask(block_bits),
            stored_slot_max: if has_slot { u64::from(max_slot) } else { 0 },
        }
    }

    /// The same for values of so many bits and more.
    fn of_width(self, narrow: u32) -> Self {
        Self {
            has_highest: narrow < self.block_bits,
            ..self
        }
    }

    /// The bits of an ordinal in reverse, or back.
    #[inline]
    fn reversed(&self, bits: u64) -> u64 {
        // At least one, where this is asked for.
        bits.reverse_bits() >> (u64::BITS - self.block_bits)
    }

    /// The first of the four bits that reject most absent keys of those that all values have, if they are
    /// enough: of the fingerprint, or else the highest of many blocks, of which each is held against the fences.
    fn telling(&self, narrow: u32) -> Option<u32> {
        let is_enough = |from: &u32| from + TELLING <= narrow && narrow > TELLING;
        let of_fingerprint = narrow
            .checked_sub(TELLING)
            .filter(|from| *from >= self.position_bits());
        let has_many = self.block_count >= TOLD_BLOCKS_MIN;
        let highest = match self.has_highest {
            true => Some(0),
            false => self.block_bits.checked_sub(TELLING),
        };
        let of_block = || highest.filter(|_| has_many);
        of_fingerprint.or_else(of_block).filter(is_enough)
    }

    /// Bits below the fingerprint, at most 48.
    #[inline]
    fn position_bits(&self) -> u32 {
        self.block_bits + self.slot_bits
    }

    /// The value of a key, to be cut to the width of its block.
    fn value(&self, place: Place, mixed: u64) -> u64 {
        let slot = if self.has_slot {
            u64::from(place.slot)
        } else {
            0
        };
        let block = match self.has_highest {
            true => self.reversed(place.block.into()),
            false => place.block.into(),
        };
        (block | slot << self.block_bits) ^ fingerprint(mixed)
    }

    /// The place that a value tells, as far as it has bits for that.
    fn place(&self, value: u64, mixed: u64) -> Place {
        let position = value ^ fingerprint(mixed);
        let block = position & self.block_max;
        Place {
            block: match self.has_highest {
                true => self.reversed(block) as u32,
                false => block as u32,
            },
            slot: (position >> self.block_bits & low_mask(self.slot_bits)) as u16,
        }
    }

    /// What a value of so many bits, 1 to 64, says about the key whose fingerprint was taken from it.
    #[inline(always)]
    fn answer(&self, value: u64, bits: u32) -> Answer {
        // With what is above the slot: it is the fingerprint, of which only zeros pass.
        let slot = value >> self.block_bits;
        // At most 32 bits.
        let mut block = (value & self.block_max) as u32;
        let mut unknown_bits = 0;
        if self.has_highest {
            block = self.reversed(block.into()) as u32;
            unknown_bits = self.block_bits.saturating_sub(bits) as u8;
        }
        if (slot > self.stored_slot_max) | (block >= self.block_count) {
            return Answer::No;
        }
        Answer::At(Location {
            block,
            unknown_bits,
            // What is not above the greatest has 16 bits.
            slot: self.has_slot.then_some(slot as u16),
        })
    }

    /// Whether no value that has these bits above its lowest `unknown` ones, at most 60, and any above them,
    /// is that of a key: as what they leave of blocks is refuted, or is none.
    ///
    /// An absent key's value is rejected here by chance or else refuted, nearly always: which of the two
    /// nobody can foretell, so there is one branch for both.
    #[inline(always)]
    fn is_rejected(
        &self,
        bits: u64,
        unknown: u32,
        is_refuted: impl FnOnce(Range<u32>) -> bool,
    ) -> bool {
        let mut unknown = unknown;
        let mut least = bits << unknown;
        if self.has_highest {
            // They are the first of more than there are in `bits`.
            unknown = self.block_bits - TELLING;
            least = self.reversed(bits);
        }
        // At most 32 bits, as the number of blocks.
        let first = (least & self.block_max) as u32;
        let end = (u64::from(first) + (1 << unknown)).min(u64::from(self.block_count)) as u32;
        let is_one = (least >> self.block_bits <= self.stored_slot_max) & (first < end);
        // In place of none, block 0 is asked for.
        let blocks = select_unpredictable(is_one, (first, end), (0, 1));
        !is_one | is_refuted(blocks.0..blocks.1)
    }

    /// Probability that an absent key's value of so many bits is taken for a key of the segment, when
    /// the block's ordinal is compared with that of the fences around the key.
    fn pass_rate(&self, bits: u32) -> f64 {
        let fingerprint_bits = bits.saturating_sub(self.position_bits());
        let rejecting = self.block_bits.min(bits) + fingerprint_bits;
        let slots = (f64::from(self.max_slot) + 1.0) / f64::from(self.slot_bits).exp2();
        let slot_rate = if self.has_slot { slots } else { 1.0 };
        (-f64::from(rejecting)).exp2() * slot_rate
    }
}

/// Divides the bits asked for.
fn plan(width: BloomierBits, block_count: u32, max_slot: u16) -> (Layout, Width) {
    let without = Layout::new(block_count, max_slot, false);
    let with = Layout::new(block_count, max_slot, true);
    let rejecting = without.block_bits.max(REJECTING_BITS_MIN);
    match width {
        BloomierBits::Block => (without, whole(rejecting)),
        BloomierBits::Slot => (with, whole(rejecting + with.slot_bits)),
        BloomierBits::BitsPerKey(number) | BloomierBits::Rejecting(number) => {
            let bits = clamp_bits(number);
            let may_have_slot = matches!(width, BloomierBits::BitsPerKey(_));
            let has_slot = may_have_slot && bits >= f64::from(with.position_bits());
            // From 1 to 64, so the cast only drops the fraction.
            let narrow = bits as u8;
            let wide_share = bits - f64::from(narrow);
            let planes = Planes {
                narrow,
                wide: narrow + u8::from(wide_share > 0.0),
            };
            let layout = if has_slot { with } else { without };
            (layout.of_width(narrow.into()), Width { planes, wide_share })
        }
    }
}

/// The same number of planes everywhere, at most 48.
fn whole(bits: u32) -> Width {
    Width {
        planes: Planes {
            narrow: bits as u8,
            wide: bits as u8,
        },
        wide_share: 0.0,
    }
}

/// Builds filter bytes; see [`super::build`].
pub(super) fn build(input: &Build<'_>, bits: BloomierBits) -> Built {
    assert_eq!(
        input.hashes.len(),
        input.places.len(),
        "each key has a hash and a place"
    );
    let mut keys = Keys::default();
    keys.begin(input.salt);
    keys.last.slot = input.max_slot;
    for (&hash, &place) in input.hashes.iter().zip(input.places) {
        keys.add(hash, place);
    }
    keys.build(bits, input.block_count)
}

/// Keys with their places.
#[derive(Debug, Default)]
pub(super) struct Keys {
    salt: u64,
    /// Of the mixed hashes of all keys.
    sum: u64,
    /// The last block, and the greatest slot of any.
    last: Place,
    /// Of the filter that was built: what values mean, and whether each tells the place of its key.
    layout: Layout,
    all_tell_places: bool,
    /// Of each key the mixed hash, and its place; once a filter was built, its value.
    equations: Equations,
}

impl Keys {
    /// Forgets all keys.
    pub(super) fn begin(&mut self, salt: u64) {
        (self.salt, self.sum) = (salt, 0);
        self.last = Place::default();
        self.equations.rows.truncate(0);
    }

    #[inline]
    pub(super) fn add(&mut self, hash: KeyHash, place: Place) {
        self.last.block = self.last.block.max(place.block);
        self.last.slot = self.last.slot.max(place.slot);
        let mixed = mix(hash, self.salt);
        self.sum = self.sum.wrapping_add(mixed);
        self.equations.rows.push(Row {
            bits: mixed,
            value: u64::from(place.block) << u16::BITS | u64::from(place.slot),
        });
    }

    /// Builds filter bytes; see [`super::build`].
    pub(super) fn build(&mut self, bits: BloomierBits, block_count: u32) -> Built {
        // A place beyond the counts would be rejected when it is read, so these follow.
        let key_count = self.equations.rows.len() as u64;
        let needed = match key_count {
            0 => 0,
            _ => self.last.block.saturating_add(1),
        };
        let (layout, width) = plan(bits, block_count.max(needed), self.last.slot);
        let bits = u32::from(width.planes.wide);
        (self.layout, self.all_tell_places) = (layout, true);
        for row in &mut *self.equations.rows {
            let place = Place {
                block: (row.value >> u16::BITS) as u32,
                slot: row.value as u16,
            };
            row.value = layout.value(place, row.bits) & low_mask(bits);
            let told = (row.value ^ fingerprint(row.bits)) & low_mask(bits);
            self.all_tell_places &= is_at(layout.answer(told, bits), place);
        }
        let solved = solve(&mut self.equations, width);
        let filter = Bloomier {
            layout,
            salt: self.salt,
            key_count,
            telling: layout.telling(u32::from(width.planes.narrow)),
            ribbon: solved.ribbon,
        };
        Built {
            kind: FilterKind::Bloomier,
            header: filter.encode(),
            body: solved.body,
            equal_hashes: solved.equal_hashes,
            designed_rate: filter.designed_rate(),
        }
    }

    /// Whether the filter that was built finds every key at its place. In the order of their hashes, which
    /// is that of the body. Of keys with equal hashes only the first is asked for.
    pub(super) fn are_all_found_by(&self, filter: &Filter, body: &[u64]) -> bool {
        let Equations { rows, repeated, .. } = &self.equations;
        let hashes = rows
            .iter()
            .map(|row| row.bits)
            .chain(repeated.iter().copied());
        // What was sorted is what was given.
        hashes.fold(0, u64::wrapping_add) == self.sum
            && self.all_tell_places
            && rows.iter().enumerate().all(|(key, row)| {
                turns::after(key, turns::KEYS);
                let answer = filter.ask(unmix(row.bits, self.salt), body);
                is_at(answer, self.layout.place(row.value, row.bits))
            })
    }
}

/// Whether an answer names this place, as far as it names any.
fn is_at(answer: Answer, place: Place) -> bool {
    match answer {
        Answer::No => false,
        Answer::Maybe => true,
        Answer::At(location) => {
            location.may_be_in(place.block) && location.slot.is_none_or(|slot| slot == place.slot)
        }
    }
}

/// The resident part of a Bloomier filter.
#[derive(Debug)]
pub(super) struct Bloomier {
    layout: Layout,
    salt: u64,
    key_count: u64,
    /// See [`Layout::telling`].
    telling: Option<u32>,
    ribbon: Ribbon,
}

impl Bloomier {
    fn encode(&self) -> Vec<u8> {
        let layers = self.ribbon.layers.len() + 1;
        let fixed = OWN_BYTES + FIXED_BYTES + layers * LAYER_BYTES;
        let stash = self.ribbon.stash.len() * (8 + self.ribbon.planes.value_bytes());
        let mut header = Vec::with_capacity(fixed + self.ribbon.thresholds.len() + stash);
        header.push(VERSION);
        let flags = [
            (self.layout.has_slot, FLAG_SLOT),
            (self.layout.has_highest, FLAG_HIGHEST),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
        header.push(flags.fold(0, |all, (_, flag)| all | flag));
        header.extend(self.layout.max_slot.to_le_bytes());
        header.extend(self.layout.block_count.to_le_bytes());
        header.extend(self.salt.to_le_bytes());
        header.extend(self.key_count.to_le_bytes());
        self.ribbon.encode(&mut header);
        header
    }

    pub(super) fn parse(header: &[u8], body_words: u64) -> Result<Self, Damaged> {
        let mut fields = Fields::new(header);
        let version = fields.u8("bloomier header: version cut short")?;
        require(version == VERSION, "bloomier header: unknown version")?;
        let flags = fields.u8("bloomier header: flags cut short")?;
        let known = FLAG_SLOT | FLAG_HIGHEST;
        require(flags & !known == 0, "bloomier header: unknown flags")?;
        let max_slot = fields.u16("bloomier header: greatest slot cut short")?;
        let block_count = fields.u32("bloomier header: block count cut short")?;
        let salt = fields.u64("bloomier header: salt cut short")?;
        let key_count = fields.u64("bloomier header: key count cut short")?;
        let layout = Layout::new(block_count, max_slot, flags & FLAG_SLOT != 0);
        let ribbon = Ribbon::parse(&mut fields, body_words)?;
        let narrow = u32::from(ribbon.planes.narrow);
        let layout = layout.of_width(narrow);
        // Without the flag they are the lowest, as they were before the first release.
        let has_highest = flags & FLAG_HIGHEST != 0;
        require(
            has_highest == layout.has_highest,
            "bloomier header: values without all bits of the block, and not its highest",
        )?;
        let slot_fits = !layout.has_slot || narrow >= layout.position_bits();
        require(slot_fits, "bloomier header: values too narrow for the slot")?;
        fields.end()?;
        Ok(Self {
            layout,
            salt,
            key_count,
            telling: layout.telling(narrow),
            ribbon,
        })
    }

    /// Planes of narrow and wide values.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn planes(&self) -> Planes {
        self.ribbon.planes
    }

    #[inline(always)]
    pub(super) fn locate(&self, hash: KeyHash) -> Lookup {
        let mixed = mix(hash, self.salt);
        let fingerprint = fingerprint(mixed);
        match self.ribbon.locate_first::<true>(mixed, fingerprint) {
            Some(window) => Lookup::Window(window),
            None => self.lookup(self.ribbon.locate_bumped(mixed, fingerprint), fingerprint),
        }
    }

    /// The window of a key that is not bumped from the first layer.
    #[inline(always)]
    pub(super) fn locate_first(&self, hash: KeyHash) -> Option<Window> {
        let mixed = mix(hash, self.salt);
        self.ribbon.locate_first::<true>(mixed, fingerprint(mixed))
    }

    fn lookup(&self, spot: Spot, fingerprint: u64) -> Lookup {
        match spot {
            Spot::Body(window) => Lookup::Window(window),
            Spot::Stash(value) => {
                let bits = u32::from(self.ribbon.planes.wide);
                let value = (value ^ fingerprint) & low_mask(bits);
                Lookup::Answered(self.layout.answer(value, bits))
            }
            Spot::Nowhere => Lookup::Answered(Answer::No),
        }
    }

    #[inline]
    pub(super) fn answer(&self, window: &Window, words: &[u64], form: Form) -> Answer {
        self.layout.answer(form.open(window, words), window.planes)
    }

    /// Divides a body, if four planes tell nearly all absent keys.
    pub(super) fn divide(&self, body: &[u64]) -> Option<Divided> {
        let from = self.telling? as usize;
        let blocks = self.ribbon.block_count() as usize;
        let mut divided = Divided::with_capacity(blocks, body.len());
        for (word, planes) in self.ribbon.blocks() {
            let words = body.get(word as usize..)?.get(..usize::from(planes))?;
            let (low, rest) = words.split_at_checked(from)?;
            let (telling, high) = rest.split_first_chunk()?;
            divided.push(*telling, [low, high]);
        }
        Some(divided)
    }

    /// The answer from a divided body, or no if all blocks that may hold the key are refuted.
    ///
    /// Nearly all absent keys are told by four planes: less to compute, and of the body less to wait for.
    #[inline(always)]
    pub(super) fn answer_divided(
        &self,
        window: &Window,
        body: &Divided,
        form: Form,
        is_refuted: impl FnOnce(Range<u32>) -> bool,
    ) -> Answer {
        let (Some(from), Some((low, high))) = (self.telling, body.telling(window)) else {
            return Answer::Maybe;
        };
        let told = form.evaluate_four(low, high, window.row, window.shift);
        let bits = told ^ (window.fingerprint >> from & low_mask(TELLING));
        if self.layout.is_rejected(bits, from, is_refuted) {
            return Answer::No;
        }
        self.answer_rest(window, (told, from), body, form)
    }

    /// The answer from the other planes too. A call of its own, so that the way of most absent keys needs
    /// none.
    #[inline(never)]
    fn answer_rest(
        &self,
        window: &Window,
        (told, from): (u64, u32),
        body: &Divided,
        form: Form,
    ) -> Answer {
        let planes = window.planes - TELLING;
        let Some(words) = body.rest(window, planes) else {
            return Answer::Maybe;
        };
        let rest = form.evaluate(words, planes as usize, window.row, window.shift);
        let (low, high) = (rest & low_mask(from), rest >> from);
        let value = low | told << from | high << from << TELLING;
        let value = (value ^ window.fingerprint) & low_mask(window.planes);
        self.layout.answer(value, window.planes)
    }

    /// Locates and answers, with a form of [`Form::open`]. `SPLIT` may be false where all values have
    /// the same number of planes.
    #[inline(always)]
    pub(super) fn ask<const SPLIT: bool>(
        &self,
        hash: KeyHash,
        body: &[u64],
        open: impl Fn(&Window, &[u64]) -> u64,
    ) -> Answer {
        let mixed = mix(hash, self.salt);
        let fingerprint = fingerprint(mixed);
        match self.ribbon.locate_first::<SPLIT>(mixed, fingerprint) {
            Some(window) => self.answer_in(&window, body, open),
            None => self.ask_bumped(mixed, fingerprint, body, open),
        }
    }

    /// The same for a key that is bumped from the first layer. A call of its own, so that the way of
    /// most keys needs none.
    #[inline(never)]
    fn ask_bumped(
        &self,
        mixed: u64,
        fingerprint: u64,
        body: &[u64],
        open: impl Fn(&Window, &[u64]) -> u64,
    ) -> Answer {
        match self.lookup(self.ribbon.locate_bumped(mixed, fingerprint), fingerprint) {
            Lookup::Answered(answer) => answer,
            Lookup::Window(window) => self.answer_in(&window, body, open),
        }
    }

    #[inline(always)]
    fn answer_in(
        &self,
        window: &Window,
        body: &[u64],
        open: impl Fn(&Window, &[u64]) -> u64,
    ) -> Answer {
        let Some(words) = window.of(body) else {
            return Answer::Maybe;
        };
        self.layout.answer(open(window, words), window.planes)
    }

    pub(super) fn designed_rate(&self) -> f64 {
        let (shares, planes) = (self.ribbon.shares(), self.ribbon.planes);
        shares.narrow * self.layout.pass_rate(u32::from(planes.narrow))
            + shares.wide * self.layout.pass_rate(u32::from(planes.wide))
    }

    pub(super) fn bits_mean(&self) -> f64 {
        self.ribbon.bits_mean()
    }

    pub(super) fn key_count(&self) -> u64 {
        self.key_count
    }

    pub(super) fn block_ordinal_complete(&self) -> bool {
        !self.layout.has_highest
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.ribbon.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys_of(hashes: impl Iterator<Item = u64>) -> (Keys, Built) {
        let mut keys = Keys::default();
        keys.begin(3);
        for hash in hashes {
            keys.add(KeyHash(hash), Place::of_group(hash as u32 % 50, 1));
        }
        let built = keys.build(BloomierBits::Slot, 50);
        (keys, built)
    }

    /// Only rows are asked for: one that sorting loses must not go unnoticed.
    #[test]
    fn a_lost_row_is_noticed() {
        let (mut keys, built) = keys_of((0..3000).chain(100..105));
        assert!(built.equal_hashes && keys.equations.repeated.len() == 5);
        let filter = Filter::parse(built.kind, &built.header, built.body.len() as u64).unwrap();
        assert!(keys.are_all_found_by(&filter, &built.body));
        let last = keys.equations.rows.len() - 1;
        keys.equations.rows[last] = keys.equations.rows[last - 1];
        assert!(!keys.are_all_found_by(&filter, &built.body));
    }
}
