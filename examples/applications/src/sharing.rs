//! How often proxies that share by digests hit, miss and ask in vain: expectations.
//!
//! They follow from Che's approximation (see [`crate::che`]) for LRU caches and independent requests. Let an
//! object have a share `s` of the requests at a proxy whose cache keeps what was requested within `T`:
//!
//! - It is in the cache with probability `h = 1 - e^(-s T)`.
//! - A digest was sent `t` requests ago. The object is *new*, in the cache but not in the digest, if it was
//!   requested since, but not within the `T` before: `n = e^(-s T) (1 - e^(-s min(t, T)))`.
//! - On average as many objects leave as come. So an object is *stale*, in the digest but no longer in the
//!   cache, with the same probability `n`.
//!
//! `t` is anything from 0 to the interval between digests, and `n` below is the mean over it.

use crate::che::{characteristic_time, requested_since, requested_within};
use crate::clients::Clients;

/// The caches of all proxies.
#[derive(Debug)]
pub struct Theory {
    /// For each proxy and object, its share of the requests and the probability that the cache has it.
    objects: Vec<Vec<(f64, f64)>>,
    /// For each proxy, the `T` of its cache.
    times: Vec<f64>,
}

/// Means over all proxies.
#[derive(Debug, Default, Clone, Copy)]
pub struct Expected {
    /// Share of the requests for what is in the cache of the proxy.
    pub local: f64,
    /// Share of the requests that another proxy serves, as its digest led to it.
    pub remote: f64,
    /// Share of the requests for what another proxy has, but no digest showed it.
    pub false_misses: f64,
    /// Questions because of a false positive of the filter, for each request.
    pub false_positives: f64,
    /// Questions for objects that have left the cache, for each request.
    pub stale: f64,
    /// New objects of a cache, as the mean over the time between digests.
    pub new: f64,
    /// New objects of a cache, just before it sends a digest.
    pub new_at_last: f64,
}

impl Theory {
    /// For LRU caches of so many objects.
    pub fn new(clients: &Clients, capacity: u64) -> Theory {
        let (mut objects, mut times) = (Vec::new(), Vec::new());
        for shares in (0..clients.proxies()).map(|proxy| clients.shares(proxy)) {
            let sized: Vec<(f64, f64)> = shares.iter().map(|share| (*share, 1.0)).collect();
            let time = characteristic_time(&sized, capacity as f64);
            let held = |share| (share, requested_within(share, time));
            objects.push(shares.into_iter().map(held).collect());
            times.push(time);
        }
        Theory { objects, times }
    }

    /// With digests after every so many requests, which give false positives at this rate. An interval of 0
    /// stands for digests that are always up to date.
    pub fn expected(&self, interval: f64, rate: f64) -> Expected {
        let mut sums = Expected::default();
        let mut new: Vec<Vec<f64>> = Vec::new();
        for (objects, &time) in self.objects.iter().zip(&self.times) {
            let within = |share, held| (1.0 - held) * requested_within(share, time.min(interval));
            sums.new_at_last += objects
                .iter()
                .map(|&(share, held)| within(share, held))
                .sum::<f64>();
            let mean =
                |&(share, held): &(f64, f64)| (1.0 - held) * requested_since(share, time, interval);
            new.push(objects.iter().map(mean).collect());
        }
        sums.new = new.iter().flatten().sum();
        for (at, objects) in self.objects.iter().enumerate() {
            for (object, (share, held)) in objects.iter().enumerate() {
                sums.local += share * held;
                let miss = share * (1.0 - held);
                let (mut nobody_has_it, mut nobody_found) = (1.0, 1.0);
                for other in (0..self.objects.len()).filter(|other| *other != at) {
                    let (held, new) = (self.objects[other][object].1, new[other][object]);
                    nobody_has_it *= 1.0 - held;
                    // A false positive finds even a new object.
                    nobody_found *= 1.0 - held + new * (1.0 - rate);
                    sums.stale += miss * new;
                    sums.false_positives += miss * (1.0 - held - new) * rate;
                }
                sums.remote += miss * (1.0 - nobody_found);
                sums.false_misses += miss * (nobody_found - nobody_has_it);
            }
        }
        sums.divided_by(self.objects.len() as f64)
    }
}

impl Expected {
    fn divided_by(self, proxies: f64) -> Expected {
        Expected {
            local: self.local / proxies,
            remote: self.remote / proxies,
            false_misses: self.false_misses / proxies,
            false_positives: self.false_positives / proxies,
            stale: self.stale / proxies,
            new: self.new / proxies,
            new_at_last: self.new_at_last / proxies,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_digests_miss_nothing_and_old_ones_everything_new() {
        let clients = Clients::new(3, 500, 0.8, 1);
        let theory = Theory::new(&clients, 50);
        let fresh = theory.expected(0.0, 0.0);
        assert_eq!(
            (fresh.false_misses, fresh.stale, fresh.new),
            (0.0, 0.0, 0.0)
        );
        let mut before = fresh;
        for interval in [1.0, 10.0, 100.0, 1e3, 1e4, 1e6] {
            let now = theory.expected(interval, 0.01);
            assert!(now.false_misses > before.false_misses && now.stale > before.stale);
            assert!(now.new > before.new && now.new <= now.new_at_last && now.new_at_last < 50.0);
            // Nobody having it, finding it, and not finding it are all that can be.
            let found = now.remote + now.false_misses;
            assert!((found - fresh.remote).abs() < 1e-9);
            before = now;
        }
    }
}
