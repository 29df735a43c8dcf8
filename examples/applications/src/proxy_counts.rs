//! The events at proxies that share their caches, and the bytes that they cost.
//!
//! The sizes of messages are those of Fan, Cao, Almeida, Broder, "Summary cache" (2000), sections V.D and
//! VI.A.

use crate::{Error, Result};

/// Bytes of a question: a head and an address.
pub const QUESTION: u64 = 70;
/// Bytes of the head of an update.
pub const HEAD: u64 = 32;
/// Bytes of a change in an update: the place of a bit and its new value.
pub const CHANGE: u64 = 4;

/// The events at all proxies together.
#[derive(Debug, Default)]
pub struct Counts {
    /// The number of proxies.
    pub proxies: u64,
    /// Bits of a digest.
    pub digest: u64,
    /// Requests at all proxies.
    pub requests: u64,
    /// Requests for what was in the cache of the proxy.
    pub local: u64,
    /// Requests that another proxy served.
    pub remote: u64,
    /// A proxy had the object, and nobody who had it was asked.
    pub false_misses: u64,
    /// Questions to other proxies.
    pub questions: u64,
    /// Questions in vain: the object was never announced.
    pub false_positives: u64,
    /// Questions in vain: the object was announced, and has left.
    pub stale: u64,
    /// Digests that were read for an object that was not announced.
    pub unannounced: u64,
    /// Those of them that said "maybe".
    pub maybe: u64,
    /// Digests that were read.
    pub reads: u64,
    /// The objects in these caches that were not announced, summed up.
    pub new: u64,
    /// Digests that were sent to all others.
    pub exchanges: u64,
    /// The objects that were not announced before these exchanges.
    pub new_at_last: u64,
    /// The bits that these exchanges changed.
    pub changed_bits: u64,
}

/// A proxy looked at the digest of another one.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// The digest said "maybe".
    pub is_asked: bool,
    /// The object is in the cache of the other one.
    pub has_it: bool,
    /// It was when the digest was sent.
    pub is_announced: bool,
    /// The objects in that cache that were not announced.
    pub new: u64,
}

impl Counts {
    /// Counts the ways in which a digest was wrong.
    ///
    /// # Errors
    ///
    /// If it denied an object that it announced.
    pub fn read(&mut self, object: u64, reading: Reading) -> Result<()> {
        let Reading {
            is_asked,
            has_it,
            is_announced,
            new,
        } = reading;
        if is_announced && !is_asked {
            let what = format!("object {object} is not in the digest that announced it");
            return Err(Error::Wrong(what));
        }
        self.reads += 1;
        self.new += new;
        self.unannounced += u64::from(!is_announced);
        self.maybe += u64::from(is_asked && !is_announced);
        self.false_positives += u64::from(is_asked && !has_it && !is_announced);
        self.stale += u64::from(!has_it && is_announced);
        Ok(())
    }

    /// A number of events for each request.
    pub fn share(&self, count: u64) -> f64 {
        count as f64 / self.requests as f64
    }

    /// The false-positive rate of the digests.
    pub fn rate(&self) -> f64 {
        self.maybe as f64 / self.unannounced as f64
    }

    /// A number of events for each exchange.
    pub fn at_exchange(&self, count: u64) -> f64 {
        count as f64 / self.exchanges as f64
    }

    /// Bytes of all updates to one of the others: of changes, and of whole digests.
    pub fn updates(&self) -> (u64, u64) {
        let heads = self.exchanges * HEAD;
        let digests = self.exchanges * self.digest.div_ceil(8);
        (heads + self.changed_bits * CHANGE, heads + digests)
    }

    /// Bytes between proxies for each request, without the objects.
    pub fn traffic(&self) -> f64 {
        let (changes, digests) = self.updates();
        let updates = changes.min(digests) * (self.proxies - 1);
        self.share(self.questions * QUESTION + updates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_wrong_in_several_ways() {
        let mut counts = Counts::default();
        let mut read = |is_asked, has_it, is_announced| {
            counts.read(
                7,
                Reading {
                    is_asked,
                    has_it,
                    is_announced,
                    new: 2,
                },
            )
        };
        read(true, true, true).unwrap();
        read(false, false, false).unwrap();
        read(true, false, false).unwrap();
        read(true, false, true).unwrap();
        // It found a new object by a false positive.
        read(true, true, false).unwrap();
        assert!(matches!(read(false, true, true), Err(Error::Wrong(_))));
        assert_eq!((counts.reads, counts.new), (5, 10));
        assert_eq!((counts.false_positives, counts.stale), (1, 1));
        assert_eq!((counts.maybe, counts.unannounced), (2, 3));
    }

    #[test]
    fn the_smaller_update_is_sent() {
        let mut counts = Counts {
            proxies: 3,
            digest: 801,
            requests: 10,
            questions: 1,
            exchanges: 2,
            changed_bits: 5,
            ..Counts::default()
        };
        assert_eq!(counts.updates(), (64 + 20, 64 + 202));
        assert_eq!(counts.traffic(), (70.0 + 2.0 * 84.0) / 10.0);
        counts.changed_bits = 1_000;
        assert_eq!(counts.traffic(), (70.0 + 2.0 * 266.0) / 10.0);
    }
}
