//! How often an LRU cache hits, by Che's approximation.
//!
//! Che, Tung, Wang, "Hierarchical web caching systems: modeling, design and experimental results" (2002),
//! section III: an object is in an LRU cache if it was requested within the last `T` requests, where `T` is
//! nearly the same for all objects. It holds for requests that are independent of each other.

/// The `T` of a cache: within so many requests, the distinct objects just fill the capacity. Infinite if
/// all objects fit.
///
/// An object is its share of the requests and its size.
pub fn characteristic_time(objects: &[(f64, f64)], capacity: f64) -> f64 {
    let bytes_within = |time: f64| -> f64 {
        let bytes = objects
            .iter()
            .map(|(share, size)| size * requested_within(*share, time));
        bytes.sum()
    };
    if objects.iter().map(|(_, size)| size).sum::<f64>() <= capacity {
        return f64::INFINITY;
    }
    let mut high = 1.0;
    while bytes_within(high) < capacity {
        high *= 2.0;
    }
    let mut low = high / 2.0;
    // 2^-20 of the time is far below the error of the approximation.
    for _ in 0..20 {
        let middle = f64::midpoint(low, high);
        if bytes_within(middle) < capacity {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Probability that an object with this share of the requests is among the last `time` ones.
pub fn requested_within(share: f64, time: f64) -> f64 {
    -(-share * time).exp_m1()
}

/// The mean of `requested_within(share, min(t, time))` over all `t` from 0 to `span`.
///
/// It is also the share of `span` requests, after an empty beginning, at which LRU has the object.
pub fn requested_since(share: f64, time: f64, span: f64) -> f64 {
    if span == 0.0 {
        return 0.0;
    }
    let growing = time.min(span);
    // The integral of 1 - e^(-share t) from 0 to `growing`, and after that a constant.
    let first = growing - requested_within(share, growing) / share;
    let rest = (span - growing) * requested_within(share, growing);
    (first + rest) / span
}

/// The hit rate of LRU over the first so many requests, with a cache that is empty at the beginning.
pub fn lru_hit_rate(objects: &[(f64, f64)], capacity: f64, requests: f64) -> f64 {
    let time = characteristic_time(objects, capacity);
    let hits = objects
        .iter()
        .map(|(share, _)| share * requested_since(*share, time, requests));
    hits.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Cache, Lru};
    use crate::{Random, Zipf};

    #[test]
    fn a_small_cache_hits_as_often_as_calculated() {
        let (zipf, mut random) = (Zipf::new(2_000, 0.8), Random::new(1, 0));
        let objects: Vec<(f64, f64)> = (0..2_000)
            .map(|item| (zipf.probability(item), 1.0))
            .collect();
        let calculated = lru_hit_rate(&objects, 200.0, 40_000.0);
        let mut cache = Lru::new(200);
        let mut hits = 0;
        for _ in 0..40_000 {
            let object = zipf.draw(&mut random);
            if cache.get(object) {
                hits += 1;
            } else {
                cache.insert(object, 1);
            }
        }
        let measured = f64::from(hits) / 40_000.0;
        assert!(
            (measured - calculated).abs() < 0.01,
            "{measured} {calculated}"
        );
    }

    #[test]
    fn times_at_the_ends() {
        assert!(characteristic_time(&[(1.0, 5.0)], 5.0).is_infinite());
        // Two objects that come alike, and room for one and a half: 2 (1 - e^(-t/2)) = 1.5.
        let time = characteristic_time(&[(0.5, 1.0), (0.5, 1.0)], 1.5);
        assert!((time - 2.0 * 4.0_f64.ln()).abs() < 1e-4, "{time}");
        let whole = requested_since(0.5, f64::INFINITY, 4.0);
        assert!((whole - (1.0 - (1.0 - (-2.0_f64).exp()) / 2.0)).abs() < 1e-12);
        let half = requested_since(0.5, 2.0, 4.0);
        let by_hand =
            ((2.0 - requested_within(0.5, 2.0) / 0.5) + 2.0 * requested_within(0.5, 2.0)) / 4.0;
        assert!((half - by_hand).abs() < 1e-12 && half < whole);
    }
}
