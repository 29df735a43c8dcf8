//! The cache-line-blocked Bloom filter of segments: one line of 64 bytes per key.
//!
//! Putze, Sanders, Singler, "Cache-, hash- and space-efficient Bloom filters" (2007). A lookup touches
//! one cache line, at the price of a higher rate than that of one large Bloom filter (about 0.95 %
//! instead of 0.82 % at 10 bits per key). The high bits of the mixed hash choose the line, the low 32
//! bits the bits in it; how is part of the disk format.

use super::form::Form;
use super::lookup::{Answer, Lookup, Window};
use super::math::{PROBES_MAX, best_probes, blocked_rate};
use super::spec::clamp_bits;
use super::{Build, Built, FilterKind, KeyHash};
use crate::error::Result;
use crate::fields::{Fields, require};
use crate::hash::{mix, start_of};

/// First byte of the header. Written to disk; must not be changed.
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 24;
/// Words and bits of a line.
pub(crate) const LINE_WORDS: usize = 8;
const LINE_BITS: f64 = 512.0;
/// Odd multiplier between probes. Written to disk by its effect; must not be changed.
pub(crate) const PROBE_FACTOR: u32 = 0x9e37_79b9;

/// The bits of a key within its line, as word index and mask: each probe takes the highest 9 bits of
/// 32 that are multiplied by an odd constant from probe to probe.
#[inline]
pub(crate) fn probes(mixed: u64, count: u8) -> impl Iterator<Item = (usize, u64)> {
    // The low half; the high half chooses the line.
    let mut state = mixed as u32;
    (0..count).map(move |_| {
        let bit = state >> 23;
        state = state.wrapping_mul(PROBE_FACTOR);
        ((bit / 64) as usize, 1u64 << (bit % 64))
    })
}

/// Number of lines for so many keys, so that fractions of bits count in the whole.
pub(crate) fn line_count(keys: u64, bits_per_key: f64) -> u32 {
    // The cast saturates at 2^32 - 1 lines, 256 GiB.
    (keys as f64 * clamp_bits(bits_per_key) / LINE_BITS).ceil() as u32
}

/// Builds filter bytes; see [`super::build`].
pub(crate) fn build(input: &Build<'_>, bits_per_key: f64) -> Built {
    let key_count = input.hashes.len() as u64;
    let lines = line_count(key_count, bits_per_key);
    let probe_count = best_probes(key_count, u64::from(lines));
    let filter = Blocked {
        probe_count,
        lines,
        salt: input.salt,
        key_count,
    };

    let mut body = vec![0; lines as usize * LINE_WORDS];
    for &hash in input.hashes {
        let mixed = mix(hash, input.salt);
        let line = start_of(mixed, u64::from(lines)) as usize;
        let words = &mut body[line * LINE_WORDS..][..LINE_WORDS];
        for (word, mask) in probes(mixed, probe_count) {
            words[word] |= mask;
        }
    }
    let header = filter.encode();
    let designed_rate = filter.designed_rate();
    Built {
        kind: FilterKind::Bloom,
        header,
        body,
        // It tells no place that could be another key's.
        equal_hashes: false,
        designed_rate,
    }
}

/// The resident part of a blocked Bloom filter.
#[derive(Debug)]
pub(crate) struct Blocked {
    probe_count: u8,
    lines: u32,
    salt: u64,
    key_count: u64,
}

impl Blocked {
    fn encode(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.push(VERSION);
        header.push(self.probe_count);
        header.extend([0; 2]);
        header.extend(self.lines.to_le_bytes());
        header.extend(self.salt.to_le_bytes());
        header.extend(self.key_count.to_le_bytes());
        header
    }

    pub(crate) fn parse(header: &[u8], body_words: u64) -> Result<Self> {
        let mut fields = Fields::new(header);
        let version = fields.u8("bloom header: version cut short")?;
        require(version == VERSION, "bloom header: unknown version")?;
        let probe_count = fields.u8("bloom header: probe count cut short")?;
        let probes_fit = (1..=PROBES_MAX).contains(&probe_count);
        require(probes_fit, "bloom header: probe count out of bounds")?;
        let reserved = fields.u16("bloom header: reserved bytes cut short")?;
        require(reserved == 0, "bloom header: reserved bytes not zero")?;
        let lines = fields.u32("bloom header: line count cut short")?;
        let words = u64::from(lines) * LINE_WORDS as u64;
        require(
            words == body_words,
            "bloom header: lines do not fill the body",
        )?;
        let salt = fields.u64("bloom header: salt cut short")?;
        let key_count = fields.u64("bloom header: key count cut short")?;
        require(
            (key_count == 0) == (lines == 0),
            "bloom header: keys without lines",
        )?;
        fields.end_of("filter header: bytes after its end")?;
        Ok(Self {
            probe_count,
            lines,
            salt,
            key_count,
        })
    }

    #[inline]
    pub(crate) fn locate(&self, hash: KeyHash) -> Lookup {
        if self.lines == 0 {
            return Lookup::Answered(Answer::No);
        }
        let mixed = mix(hash, self.salt);
        Lookup::Window(Window {
            first: start_of(mixed, u64::from(self.lines)) * LINE_WORDS as u64,
            block: 0,
            planes: LINE_WORDS as u32,
            shift: 0,
            row: mixed,
            fingerprint: 0,
        })
    }

    #[inline]
    pub(crate) fn answer(&self, window: &Window, words: &[u64], form: Form) -> Answer {
        self.judge(words, |line| {
            form.has_all(line, window.row, self.probe_count)
        })
    }

    /// Locates and answers, with a form of [`Form::has_all`].
    #[inline(always)]
    pub(crate) fn ask(
        &self,
        hash: KeyHash,
        body: &[u64],
        has_all: impl Fn(&[u64; LINE_WORDS], u64, u8) -> bool,
    ) -> Answer {
        let window = match self.locate(hash) {
            Lookup::Answered(answer) => return answer,
            Lookup::Window(window) => window,
        };
        let words = window.of(body).unwrap_or_default();
        self.judge(words, |line| has_all(line, window.row, self.probe_count))
    }

    #[inline(always)]
    fn judge(&self, words: &[u64], has_all: impl Fn(&[u64; LINE_WORDS]) -> bool) -> Answer {
        match words.try_into() {
            Ok(line) if !has_all(line) => Answer::No,
            _ => Answer::Maybe,
        }
    }

    pub(crate) fn designed_rate(&self) -> f64 {
        blocked_rate(self.key_count, u64::from(self.lines), self.probe_count)
    }

    pub(crate) fn bits_mean(&self) -> f64 {
        f64::from(self.lines) * LINE_BITS / self.key_count.max(1) as f64
    }

    pub(crate) fn key_count(&self) -> u64 {
        self.key_count
    }
}
