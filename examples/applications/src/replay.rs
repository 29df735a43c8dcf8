//! Sends the requests of a trace to a cache, and counts.

use crate::cache::Cache;
use crate::trace::Request;
use crate::{Cell, Error, Result};

/// The result of replaying requests.
#[derive(Debug, Default, Clone, Copy)]
pub struct Outcome {
    /// All requests, and their bytes.
    pub requests: u64,
    /// The bytes of all requests.
    pub bytes: u64,
    /// Requests for what was in the cache.
    pub hits: u64,
    /// The bytes of the hits.
    pub hit_bytes: u64,
    /// Objects that were put into the cache.
    pub writes: u64,
    /// Their bytes.
    pub written: u64,
    /// Writes of objects that were never requested again.
    pub for_nothing: u64,
}

impl Outcome {
    /// The share of the requests that hit.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.requests as f64
    }
}

/// Sends requests to a cache. It keeps the objects that it missed and for which `is_kept` says yes.
///
/// # Errors
///
/// Those of `is_kept`, and if the cache holds more than its capacity.
pub fn replay(
    requests: &[Request],
    cache: &mut dyn Cache,
    is_kept: &mut dyn FnMut(u64) -> Result<bool>,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for request in requests {
        outcome.requests += 1;
        outcome.bytes += request.size;
        if cache.get(request.object) {
            outcome.hits += 1;
            outcome.hit_bytes += request.size;
        } else if is_kept(request.object)? && cache.insert(request.object, request.size) {
            outcome.writes += 1;
            outcome.written += request.size;
            outcome.for_nothing += u64::from(request.is_only);
        }
    }
    let (bytes, capacity) = (cache.bytes(), cache.capacity());
    if bytes > capacity {
        let what = format!("a cache of {capacity} bytes holds {bytes}");
        return Err(Error::Wrong(what));
    }
    Ok(outcome)
}

/// A part of a whole, which may be nothing in a short trace.
pub fn share(part: u64, whole: u64) -> Cell {
    if whole == 0 {
        return Cell::None;
    }
    Cell::Share(part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Lru;

    /// Says that it holds more than it may.
    struct Full;

    impl Cache for Full {
        fn get(&mut self, _: u64) -> bool {
            false
        }

        fn insert(&mut self, _: u64, _: u64) -> bool {
            true
        }

        fn bytes(&self) -> u64 {
            self.capacity() + 1
        }

        fn capacity(&self) -> u64 {
            10
        }
    }

    #[test]
    fn a_cache_above_its_capacity_is_wrong() {
        let result = replay(&[], &mut Full, &mut |_| Ok(true));
        assert!(matches!(result, Err(Error::Wrong(_))));
    }

    #[test]
    fn what_is_kept_hits() {
        let request = |object, is_only| Request {
            object,
            size: 10 * object,
            is_only,
        };
        let requests = [
            request(1, false),
            request(2, true),
            request(1, false),
            request(3, true),
        ];
        let outcome = replay(&requests, &mut Lru::new(30), &mut |object| Ok(object != 3)).unwrap();
        let Outcome {
            bytes,
            hits,
            hit_bytes,
            writes,
            written,
            for_nothing,
            ..
        } = outcome;
        assert_eq!((bytes, hits, hit_bytes), (70, 1, 10));
        assert_eq!((writes, written, for_nothing), (2, 30, 1));
        assert_eq!(outcome.hit_rate(), 0.25);
        assert_eq!((share(1, 4), share(0, 0)), (Cell::Share(0.25), Cell::None));
    }
}
