//! The range filter of the store, with the blocks and fences of a segment around it.
//!
//! Fences are in memory at any rate, so their bits are not counted, as the store does not count them.
//! The others get none: to stand behind fences is an advantage of the place where this filter stands.

use criba_filters::range::{BITS_MIN, Between, Builder, Built, REFUTED_MIN, RangeFilter};

use super::{KeyRange, RangeSet};
use crate::exit::Failure;
use crate::lab::bench::made;

/// Keys of a block, as with values of about 100 bytes.
const KEYS_PER_BLOCK: usize = 32;

/// Bits for each key by which less is asked for, until header and cells fit.
const STEP: f64 = 0.1;

/// See the module.
pub(crate) struct Own {
    /// Of each block, and the last key.
    fences: Vec<Vec<u8>>,
    filter: RangeFilter,
    built: Built,
}

impl Own {
    /// For sorted keys; header and tables are within the bits. `None` if they are too few.
    ///
    /// # Errors
    ///
    /// When the filter cannot read its own bytes.
    pub(crate) fn new(keys: &[Vec<u8>], bits_per_key: f64) -> Result<Option<Own>, Failure> {
        let most = bits_per_key * keys.len() as f64;
        let mut asked = bits_per_key;
        // The bits of the cells grow in steps, and those of the header come on top.
        while asked >= BITS_MIN {
            match Own::with_body(keys, asked)? {
                Some(own) if own.bits() > most => asked -= STEP,
                other => return Ok(other),
            }
        }
        Ok(None)
    }

    fn with_body(keys: &[Vec<u8>], bits_per_key: f64) -> Result<Option<Own>, Failure> {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return Ok(None);
        };
        let mut fences = vec![first.clone()];
        let mut builder = Builder::default();
        let mut before = first;
        for (at, block) in keys.chunks(KEYS_PER_BLOCK).enumerate() {
            if at > 0 {
                fences.push(separator(before, &block[0]));
            }
            builder.begin_block(&fences[at]);
            block.iter().for_each(|key| builder.add(key));
            before = &block[block.len() - 1];
        }
        let blocks = fences.len() as u32;
        fences.push(last.clone());
        let Some(built) = builder.build(last, bits_per_key) else {
            return Ok(None);
        };
        let filter = made(RangeFilter::parse(&built.header, blocks))?;
        Ok(Some(Own {
            fences,
            filter,
            built,
        }))
    }

    /// Whether a store would do without it.
    pub(crate) fn is_refused(&self) -> bool {
        self.built.refuted < REFUTED_MIN
    }

    fn ask(&self, block: usize, range: (Option<&[u8]>, Option<&[u8]>)) -> bool {
        let words = self.filter.words(block as u32);
        let words = self
            .built
            .body
            .get(words.start as usize..words.end as usize);
        let fences = Between {
            lower: &self.fences[block],
            upper: &self.fences[block + 1],
        };
        let words = words.unwrap_or_default();
        self.filter.may_hold((block as u32, words), fences, range)
    }
}

/// The shortest prefix of a key that is greater than the one before.
fn separator(before: &[u8], key: &[u8]) -> Vec<u8> {
    let shared = before.iter().zip(key).take_while(|(a, b)| a == b).count();
    key[..shared + 1].to_vec()
}

impl RangeSet for Own {
    /// As a segment does: of three blocks that a range touches, the middle one lies in it.
    fn may_hold(&self, (lower, upper): &KeyRange) -> bool {
        let (first, last) = (&self.fences[0], &self.fences[self.fences.len() - 1]);
        if upper < first || lower > last {
            return false;
        }
        let inner = &self.fences[1..self.fences.len() - 1];
        let block_of = |key: &Vec<u8>| inner.partition_point(|fence| fence <= key);
        let (from, to) = (block_of(lower), block_of(upper));
        let lower = (lower >= first).then_some(&**lower);
        let upper = (upper <= last).then_some(&**upper);
        match to - from {
            0 => self.ask(from, (lower, upper)),
            1 => self.ask(from, (lower, None)) || self.ask(to, (None, upper)),
            _ => true,
        }
    }

    fn bits(&self) -> f64 {
        (self.built.header.len() * 8 + self.built.body.len() * 64) as f64
    }
}
