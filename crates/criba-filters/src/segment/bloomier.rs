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
//! Slots are stored with all their bits or not at all: part of a slot's number would not save the
//! search in the block, and spent on the fingerprint the same bits save reads. For the same reason a
//! fractional bit is a block bit or a fingerprint bit, never a slot bit.

use crate::error::Result;
use std::ops::Range;

use super::band::Row;
use super::form::Form;
use super::layout::Layout;
use super::lookup::{Answer, Lookup, Window};
use super::resident::{Divided, TELLING};
use super::ribbon::{FIXED_BYTES, LAYER_BYTES, Planes, Ribbon, Spot};
use super::solve::{Equations, Width, solve};
use super::spec::clamp_bits;
use super::{BloomierBits, Build, Built, Filter, FilterKind, KeyHash, Place};
use crate::fields::{Fields, require};
use crate::hash::{fingerprint, low_mask, mix, unmix};

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
pub const REJECTING_BITS_MIN: u32 = 7;

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
pub(crate) fn build(input: &Build<'_>, bits: BloomierBits) -> Built {
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
pub(crate) struct Keys {
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
    pub(crate) fn begin(&mut self, salt: u64) {
        (self.salt, self.sum) = (salt, 0);
        self.last = Place::default();
        self.equations.rows.truncate(0);
    }

    #[inline]
    pub(crate) fn add(&mut self, hash: KeyHash, place: Place) {
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
    pub(crate) fn build(&mut self, bits: BloomierBits, block_count: u32) -> Built {
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
    pub(crate) fn are_all_found_by(&self, filter: &Filter, body: &[u64]) -> bool {
        let Equations { rows, repeated, .. } = &self.equations;
        let hashes = rows
            .iter()
            .map(|row| row.bits)
            .chain(repeated.iter().copied());
        // What was sorted is what was given.
        hashes.fold(0, u64::wrapping_add) == self.sum
            && self.all_tell_places
            && rows.iter().all(|row| {
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
pub(crate) struct Bloomier {
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

    pub(crate) fn parse(header: &[u8], body_words: u64) -> Result<Self> {
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
        fields.end_of("filter header: bytes after its end")?;
        Ok(Self {
            layout,
            salt,
            key_count,
            telling: layout.telling(narrow),
            ribbon,
        })
    }

    /// See [`super::Filter::last_slot`].
    pub(crate) fn last_slot(&self) -> Option<u16> {
        let layout = &self.layout;
        (layout.has_slot && layout.max_slot < u16::MAX).then_some(layout.max_slot)
    }

    /// Planes of narrow and wide values.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(crate) fn planes(&self) -> Planes {
        self.ribbon.planes
    }

    #[inline(always)]
    pub(crate) fn locate(&self, hash: KeyHash) -> Lookup {
        let mixed = mix(hash, self.salt);
        let fingerprint = fingerprint(mixed);
        match self.ribbon.locate_first::<true>(mixed, fingerprint) {
            Some(window) => Lookup::Window(window),
            None => self.lookup(self.ribbon.locate_bumped(mixed, fingerprint), fingerprint),
        }
    }

    /// The window of a key that is not bumped from the first layer.
    #[inline(always)]
    pub(crate) fn locate_first(&self, hash: KeyHash) -> Option<Window> {
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
    pub(crate) fn answer(&self, window: &Window, words: &[u64], form: Form) -> Answer {
        self.layout.answer(form.open(window, words), window.planes)
    }

    /// Divides a body, if four planes tell nearly all absent keys.
    pub(crate) fn divide(&self, body: &[u64]) -> Option<Divided> {
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
    pub(crate) fn answer_divided(
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
    pub(crate) fn ask<const SPLIT: bool>(
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

    pub(crate) fn designed_rate(&self) -> f64 {
        let (shares, planes) = (self.ribbon.shares(), self.ribbon.planes);
        shares.narrow * self.layout.pass_rate(u32::from(planes.narrow))
            + shares.wide * self.layout.pass_rate(u32::from(planes.wide))
    }

    pub(crate) fn bits_mean(&self) -> f64 {
        self.ribbon.bits_mean()
    }

    pub(crate) fn key_count(&self) -> u64 {
        self.key_count
    }

    pub(crate) fn block_ordinal_complete(&self) -> bool {
        !self.layout.has_highest
    }

    pub(crate) fn heap_bytes(&self) -> usize {
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
