//! Approximate sets and static maps over key hashes: hashes in, bytes out, no I/O.
//!
//! A segment asks for a filter with [`build`] when it is written and stores the result as a small
//! resident *header* and a *body* of words. A reader keeps the parsed header, a [`Filter`], and lets a
//! lookup go in two steps, so that the body may be anywhere:
//!
//! 1. [`Filter::locate`] names the one [`Window`] of body words that decides (or answers at once);
//! 2. [`Filter::answer`] takes these words and says no, maybe, or where the key is.
//!
//! Invariants:
//! 1. A key that was built in is never answered with [`Answer::No`], and a position is its own.
//! 2. A damaged header is refused with [`Error::Unreadable`](crate::Error::Unreadable) or describes
//!    some other filter; it never makes this code panic, allocate more than a small multiple of the
//!    header, or reach outside the body.
//! 3. Equal input gives equal bytes.
//!
//! The module knows neither files nor checksums nor keys. Structures that stand by themselves, at
//! the root of the crate, check their own bytes. `docs/format.md` has how hashes are split and where
//! each byte lies.

pub(crate) mod band;
pub(crate) mod blocked;
mod bloomier;
mod budget;
mod builder;
mod custom;
mod fill;
pub(crate) mod form;
mod layout;
pub(crate) mod lookup;
pub(crate) mod math;
mod memory;
mod resident;
pub(crate) mod ribbon;
pub(crate) mod solve;
mod sort;
pub(crate) mod spec;
#[cfg(test)]
mod tests;

pub use bloomier::REJECTING_BITS_MIN;
pub use budget::payload_bits;
pub use budget::{allocate, allocate_weighted};
pub use builder::Builder;
pub use builder::build;
pub use custom::{CustomFilter, CustomFilters, OpenFilter};
pub use lookup::Begun;
pub use lookup::{Answer, Location, Lookup, Window};
pub use memory::MemoryBloom;
pub use resident::{Resident, Words};
pub use spec::{BloomierBits, FilterKind, FilterSpec};

use std::ops::Range;

use crate::error::Result;
use crate::hash::KeyHash;

use custom::Custom;
use form::Form;

/// Where a key is in its segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Place {
    /// Ordinal of the data block within the segment.
    pub block: u32,
    /// Ordinal of the restart group within the block; `u16::MAX` stands for that or any later one.
    pub slot: u16,
}

impl Place {
    /// The place of a restart group, whose ordinal may be greater than a slot holds.
    #[must_use]
    pub fn of_group(block: u32, group: u32) -> Place {
        let slot = u16::try_from(group).unwrap_or(u16::MAX);
        Place { block, slot }
    }
}

/// What a filter is built from.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// Kind and size.
    pub spec: FilterSpec,
    /// Chosen at random for each filter, so that keys which collide in one do not in the next.
    pub salt: u64,
    /// One hash per distinct key, in key order.
    pub hashes: &'a [KeyHash],
    /// The place of each key; as long as `hashes`. A Bloom filter does not look at it.
    pub places: &'a [Place],
    /// Number of data blocks in the segment.
    pub block_count: u32,
    /// Greatest slot of any key.
    pub max_slot: u16,
}

/// A finished filter, to be stored.
#[derive(Clone, PartialEq, Debug)]
pub struct Built {
    /// The kind, to be stored beside the bytes.
    pub kind: FilterKind,
    /// The small part that a reader keeps in memory.
    pub header: Vec<u8>,
    /// The large part, in words that are stored little-endian and addressed by their index.
    pub body: Vec<u64>,
    /// Two keys have the same hash, so that the place which a Bloomier filter tells may be that of the
    /// other, the first of them: a reader that does not find its key there must search the index. Never
    /// set by kinds that tell no place.
    pub equal_hashes: bool,
    /// Probability that an absent key within the segment's key range passes: for Bloomier, passes
    /// also the comparison of the block ordinal with the fences.
    pub designed_rate: f64,
}

/// The resident part of a filter.
#[derive(Debug)]
pub struct Filter {
    family: Family,
    form: Form,
}

#[derive(Debug)]
enum Family {
    Bloom(blocked::Blocked),
    Bloomier(bloomier::Bloomier),
    Custom(Custom),
}

impl Filter {
    /// Reads a header and checks it against the length of the body, in words.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`](crate::Error::Unreadable) if the header does not describe a filter with
    /// such a body. The segment is then to be read without its filter.
    pub fn parse(kind: FilterKind, header: &[u8], body_words: u64) -> Result<Self> {
        Self::parse_with(kind, header, body_words, &CustomFilters::default())
    }

    /// The same where the program has custom filters. One that it does not have answers
    /// [`Answer::Maybe`].
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse); also if the custom filter refuses its bytes.
    pub fn parse_with(
        kind: FilterKind,
        header: &[u8],
        body_words: u64,
        customs: &CustomFilters,
    ) -> Result<Self> {
        let family = match kind {
            FilterKind::Bloom => Family::Bloom(blocked::Blocked::parse(header, body_words)?),
            FilterKind::Bloomier => {
                Family::Bloomier(bloomier::Bloomier::parse(header, body_words)?)
            }
            FilterKind::Custom => Family::Custom(Custom::parse(header, body_words, customs)?),
        };
        let form = Form::detect();
        Ok(Self { family, form })
    }

    /// The first step of a lookup; touches resident memory only.
    #[inline]
    #[must_use]
    pub fn locate(&self, hash: KeyHash) -> Lookup {
        match &self.family {
            Family::Bloom(bloom) => bloom.locate(hash),
            Family::Bloomier(bloomier) => bloomier.locate(hash),
            Family::Custom(custom) => Lookup::Answered(custom.ask(hash)),
        }
    }

    /// The second step of a lookup: `words` are exactly the body words of [`Window::words`], and the
    /// window is from this filter. Words of another number are answered with [`Answer::Maybe`].
    #[inline]
    #[must_use]
    pub fn answer(&self, window: &Window, words: &[u64]) -> Answer {
        let range = window.words();
        if words.len() as u64 != range.end - range.start {
            return Answer::Maybe;
        }
        match &self.family {
            Family::Bloom(bloom) => bloom.answer(window, words, self.form),
            Family::Bloomier(bloomier) => bloomier.answer(window, words, self.form),
            // It has no windows.
            Family::Custom(_) => Answer::Maybe,
        }
    }

    /// The greatest slot that it tells; `None` where it tells none, or one that stands for any behind it.
    pub fn last_slot(&self) -> Option<u16> {
        match &self.family {
            Family::Bloomier(bloomier) => bloomier.last_slot(),
            _ => None,
        }
    }

    /// Arranges a body that is in memory as a whole, so that lookups touch less of it.
    pub fn arrange(&self, body: Words) -> Resident {
        match &self.family {
            Family::Bloomier(bloomier) => match bloomier.divide(body.get()) {
                Some(divided) => Resident::Divided(divided),
                None => Resident::Whole(body),
            },
            _ => Resident::Whole(body),
        }
    }

    /// The first step for a body that was arranged by this filter: begins to fetch what the second will read
    /// first.
    #[inline(always)]
    pub fn begin(&self, hash: KeyHash, body: &Resident, begun: &mut Begun) {
        // The way of most lookups is straight, and all of it stays in registers until it is stored.
        if let (Family::Bloomier(bloomier), Resident::Divided(divided)) = (&self.family, body)
            && let Some(window) = bloomier.locate_first(hash)
        {
            divided.prefetch(&window);
            *begun = Begun {
                answered: None,
                window,
            };
        } else {
            self.begin_otherwise(hash, body, begun);
        }
    }

    #[inline(never)]
    fn begin_otherwise(&self, hash: KeyHash, body: &Resident, begun: &mut Begun) {
        *begun = Begun::of(self.locate(hash));
        if begun.answered.is_none() {
            match body {
                Resident::Whole(words) => self.prefetch(&begun.window, words.get()),
                Resident::Divided(divided) => divided.prefetch(&begun.window),
            }
        }
    }

    /// The second step for a body that was arranged by this filter. Blocks that the caller knows not to hold
    /// the key are as good as a no, and cost less if that is told here; of a filter that does not tell blocks
    /// nothing is asked. Not all that could be is refuted.
    #[inline(always)]
    pub fn answer_unless(
        &self,
        window: &Window,
        body: &Resident,
        is_refuted: impl FnOnce(Range<u32>) -> bool,
    ) -> Answer {
        if let (Resident::Divided(divided), Family::Bloomier(bloomier)) = (body, &self.family) {
            return bloomier.answer_divided(window, divided, self.form, is_refuted);
        }
        self.answer_otherwise(window, body)
    }

    #[inline(never)]
    fn answer_otherwise(&self, window: &Window, body: &Resident) -> Answer {
        match body {
            Resident::Whole(words) => match window.of(words.get()) {
                Some(words) => self.answer(window, words),
                None => Answer::Maybe,
            },
            // Not arranged by this filter.
            Resident::Divided(_) => Answer::Maybe,
        }
    }

    /// Both steps at once, for a body that is in memory as a whole: faster than one after the other. A
    /// body of another length than the filter was parsed with may be answered with [`Answer::Maybe`].
    #[inline]
    #[must_use]
    pub fn ask(&self, hash: KeyHash, body: &[u64]) -> Answer {
        match &self.family {
            Family::Bloom(bloom) => self.form.ask_bloom(bloom, hash, body),
            Family::Bloomier(bloomier) => self.form.ask_bloomier(bloomier, hash, body),
            Family::Custom(custom) => custom.ask(hash),
        }
    }

    /// Begins to fetch into the processor's cache what the second step will read, for who has several
    /// filters to ask; changes nothing else.
    #[inline]
    pub fn prefetch(&self, window: &Window, body: &[u64]) {
        match &self.family {
            Family::Bloom(_) | Family::Bloomier(_) => window.prefetch(body),
            Family::Custom(_) => {}
        }
    }

    /// The kind of filter.
    #[must_use]
    pub fn kind(&self) -> FilterKind {
        match &self.family {
            Family::Bloom(_) => FilterKind::Bloom,
            Family::Bloomier(_) => FilterKind::Bloomier,
            Family::Custom(_) => FilterKind::Custom,
        }
    }

    /// Probability that an absent key passes; see [`Built::designed_rate`]. Calculated at each call,
    /// in some microseconds.
    #[must_use]
    pub fn designed_rate(&self) -> f64 {
        match &self.family {
            Family::Bloom(bloom) => bloom.designed_rate(),
            Family::Bloomier(bloomier) => bloomier.designed_rate(),
            Family::Custom(custom) => custom.designed_rate(),
        }
    }

    /// Name and parameters of a custom filter.
    #[must_use]
    pub fn custom_name(&self) -> Option<String> {
        match &self.family {
            Family::Custom(custom) => Some(custom.describe()),
            _ => None,
        }
    }

    /// Lookups in which a custom filter panicked, which counted as "maybe".
    #[must_use]
    pub fn panics(&self) -> u64 {
        match &self.family {
            Family::Custom(custom) => custom.panics(),
            _ => 0,
        }
    }

    /// Whether this is what the custom filter builds now.
    #[must_use]
    pub fn is_of(&self, filter: &dyn CustomFilter) -> bool {
        match &self.family {
            Family::Custom(custom) => custom.is_of(filter),
            _ => false,
        }
    }

    /// Bits per key without overhead, fractions included: for Bloomier the mean width of a value, of
    /// cells their width, for Bloom the bits of the body per key.
    #[must_use]
    pub fn r_bits(&self) -> f64 {
        match &self.family {
            Family::Bloom(bloom) => bloom.bits_mean(),
            Family::Bloomier(bloomier) => bloomier.bits_mean(),
            Family::Custom(custom) => custom.bits_mean(),
        }
    }

    /// Whether every answer has the whole ordinal of the block. If not, [`Location::unknown_bits`] may be
    /// missing; never true for Bloom.
    #[must_use]
    pub fn block_ordinal_complete(&self) -> bool {
        match &self.family {
            Family::Bloom(_) | Family::Custom(_) => false,
            Family::Bloomier(bloomier) => bloomier.block_ordinal_complete(),
        }
    }

    /// Bytes of memory that this resident part takes.
    #[must_use]
    pub fn resident_bytes(&self) -> usize {
        let heap_bytes = match &self.family {
            Family::Bloom(_) => 0,
            Family::Bloomier(bloomier) => bloomier.heap_bytes(),
            Family::Custom(custom) => custom.heap_bytes(),
        };
        size_of::<Self>() + heap_bytes
    }

    /// Number of keys the filter was built from.
    #[must_use]
    pub fn key_count(&self) -> u64 {
        match &self.family {
            Family::Bloom(bloom) => bloom.key_count(),
            Family::Bloomier(bloomier) => bloomier.key_count(),
            Family::Custom(custom) => custom.key_count(),
        }
    }
}
