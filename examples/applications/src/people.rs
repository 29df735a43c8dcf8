//! People: addresses that are made up, all different, in random order.

use crate::Random;

const FIRST: [&str; 8] = [
    "ada", "alan", "barbara", "donald", "edsger", "grace", "john", "leslie",
];
const LAST: [&str; 8] = [
    "bloom", "dijkstra", "hopper", "knuth", "lamport", "liskov", "lovelace", "turing",
];

/// So many addresses at this host.
pub fn people(count: u64, host: &str, random: &mut Random) -> Vec<String> {
    let first = 64 * random.below(1_000_000);
    let mut numbers: Vec<u64> = (first..first + count).collect();
    random.shuffle(&mut numbers);
    let address = |number: &u64| {
        let (first, last) = (
            FIRST[(number % 8) as usize],
            LAST[(number / 8 % 8) as usize],
        );
        format!("{first}.{last}.{}@{host}", number / 64)
    };
    numbers.iter().map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_comes_twice() {
        let all = people(1_000, "example.org", &mut Random::new(1, 0));
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), 1_000);
        assert!(!all.is_sorted() && all.iter().all(|address| address.ends_with("@example.org")));
    }
}
