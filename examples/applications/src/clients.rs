//! Clients of several proxies: some objects are asked for everywhere, some mostly at one proxy.

use crate::{Random, Zipf};

/// At each proxy, half of the requests follow an order of the objects by popularity that all proxies have in
/// common, and half an order of its own. Both orders follow Zipf's law. Requests are independent.
#[derive(Debug)]
pub struct Clients {
    zipf: Zipf,
    /// For each proxy, the objects in its own order.
    own: Vec<Vec<u64>>,
}

const COMMON: f64 = 0.5;

impl Clients {
    /// Clients of so many proxies, who ask for so many objects.
    pub fn new(proxies: u64, objects: u64, exponent: f64, seed: u64) -> Clients {
        let order = |proxy| {
            let mut order: Vec<u64> = (0..objects).collect();
            Random::new(seed, 1 + proxy).shuffle(&mut order);
            order
        };
        Clients {
            zipf: Zipf::new(objects, exponent),
            own: (0..proxies).map(order).collect(),
        }
    }

    /// The number of proxies.
    pub fn proxies(&self) -> usize {
        self.own.len()
    }

    /// The next request at a proxy.
    pub fn draw(&self, proxy: usize, random: &mut Random) -> u64 {
        let is_common = random.chance(COMMON);
        let object = self.zipf.draw(random);
        if is_common {
            object
        } else {
            self.own[proxy][object as usize]
        }
    }

    /// The share of each object in the requests at a proxy.
    pub fn shares(&self, proxy: usize) -> Vec<f64> {
        let own = &self.own[proxy];
        let place = |place: usize| self.zipf.probability(place as u64);
        let mut shares: Vec<f64> = (0..own.len())
            .map(|object| COMMON * place(object))
            .collect();
        for (at, object) in own.iter().enumerate() {
            shares[*object as usize] += (1.0 - COMMON) * place(at);
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_shares() {
        let clients = Clients::new(2, 100, 0.8, 1);
        let (first, second) = (clients.shares(0), clients.shares(1));
        assert!((first.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_ne!(first, second);
        let mut random = Random::new(1, 0);
        let mut counts = vec![0_u32; 100];
        for _ in 0..100_000 {
            counts[clients.draw(1, &mut random) as usize] += 1;
        }
        for (count, share) in counts.into_iter().zip(second) {
            let expected = 1e5 * share;
            let difference = f64::from(count) - expected;
            assert!(
                difference.abs() < 5.0 * expected.sqrt(),
                "{count} {expected}"
            );
        }
    }
}
