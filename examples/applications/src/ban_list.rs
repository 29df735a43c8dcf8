//! Lists of banned networks: read from a file, or made up.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use crate::networks::Network;
use crate::{Error, Random, Result};

/// Networks that no packet from the internet may come from, in the form of a file: those of the tables
/// of RFC 6890 (Cotton, Vegoda, Bonica, Haberman 2013, section 2.2) that are not global.
const NOT_GLOBAL: &str = "
0.0.0.0/8          # this network
10.0.0.0/8         # private use
100.64.0.0/10      # shared address space
127.0.0.0/8        # loopback
169.254.0.0/16     # link local
172.16.0.0/12      # private use
192.0.0.0/24       # protocol assignments
192.0.2.0/24       # documentation
192.168.0.0/16     # private use
198.18.0.0/15      # benchmarks
198.51.100.0/24    # documentation
203.0.113.0/24     # documentation
240.0.0.0/4        # reserved
::/128             # unspecified
::1/128            # loopback
100::/64           # discard
2001:2::/48        # benchmarks
2001:db8::/32      # documentation
2001:10::/28       # ORCHID
fc00::/7           # unique local
fe80::/10          # link local
";

/// Prefix lengths of the list that is made up, with a weight each: mostly single addresses, and
/// networks of the sizes that providers have.
const IPV4_MIX: [(u8, u64); 17] = [
    (32, 700),
    (31, 5),
    (30, 8),
    (29, 12),
    (28, 12),
    (27, 10),
    (26, 10),
    (25, 8),
    (24, 120),
    (23, 25),
    (22, 35),
    (21, 20),
    (20, 15),
    (19, 9),
    (18, 6),
    (17, 3),
    (16, 2),
];
const IPV6_MIX: [(u8, u64); 7] = [
    (128, 400),
    (64, 350),
    (56, 100),
    (48, 100),
    (40, 20),
    (36, 10),
    (32, 20),
];
/// One network in so many is of IPv6.
const IPV6_EVERY: u64 = 10;

/// Addresses that are given out today: 2000::/3.
const GLOBAL_IPV6: (u128, u8) = (0x2000 << 112, 3);

/// Reads the networks of a file, one a line. A `#` begins a comment.
///
/// # Errors
///
/// If the file cannot be read, or a line is neither an address nor a network; that says which line.
pub fn read(path: &Path) -> Result<Vec<Network>> {
    #[expect(clippy::disallowed_methods, reason = "the user names this file")]
    let bytes = std::fs::read(path).map_err(Error::file(path))?;
    let name = path.display();
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(Error::Usage(format!(
            "{name} is not text: give a file with an address or a network on each line"
        )));
    };
    let networks = parse(&text).map_err(|error| Error::Usage(format!("{name}, {error}")))?;
    if networks.is_empty() {
        return Err(Error::Usage(format!(
            "{name} has no networks: write an address or a network on each line"
        )));
    }
    Ok(networks)
}

/// The networks of a text, each once. An error names the line.
fn parse(text: &str) -> std::result::Result<Vec<Network>, String> {
    let (mut networks, mut seen) = (Vec::new(), HashSet::new());
    for (number, line) in (1..).zip(text.lines()) {
        let entry = line.split('#').next().unwrap_or_default().trim();
        if entry.is_empty() {
            continue;
        }
        let network = entry
            .parse()
            .map_err(|error| format!("line {number}: {error}"))?;
        if seen.insert(network) {
            networks.push(network);
        }
    }
    Ok(networks)
}

/// A list of so many networks, of which the first are those that no packet may come from.
pub fn mixed(count: u64, random: &mut Random) -> Vec<Network> {
    let mut networks = parse(NOT_GLOBAL).unwrap_or_default();
    let mut seen: HashSet<Network> = networks.iter().copied().collect();
    while (networks.len() as u64) < count {
        let is_ipv6 = random.below(IPV6_EVERY) == 0;
        let mix: &[(u8, u64)] = if is_ipv6 { &IPV6_MIX } else { &IPV4_MIX };
        let network = Network::of(random_address(is_ipv6, random), draw(mix, random));
        if seen.insert(network) {
            networks.push(network);
        }
    }
    networks
}

/// A list of so many single addresses of IPv4.
pub fn singles(count: u64, random: &mut Random) -> Vec<Network> {
    let mut seen = HashSet::new();
    let fresh = std::iter::repeat_with(|| Network::single(random_address(false, random)));
    let fresh = fresh.filter(|network| seen.insert(*network));
    fresh
        .take(usize::try_from(count).unwrap_or(usize::MAX))
        .collect()
}

/// Any address of IPv4, or one of IPv6 that is given out today.
pub fn random_address(is_ipv6: bool, random: &mut Random) -> IpAddr {
    if is_ipv6 {
        let (bits, length) = GLOBAL_IPV6;
        Network::of(Ipv6Addr::from_bits(bits).into(), length).random_address(random)
    } else {
        Ipv4Addr::from_bits((random.next() >> 32) as u32).into()
    }
}

fn draw(mix: &[(u8, u64)], random: &mut Random) -> u8 {
    let all = mix.iter().map(|(_, weight)| weight).sum();
    let mut place = random.below(all);
    for &(length, weight) in mix {
        if place < weight {
            return length;
        }
        place -= weight;
    }
    0
}

/// The addresses of all networks of a list, exactly: what answers are checked against.
///
/// Ranges of addresses that do not touch, in their order. They know nothing of prefix lengths.
#[derive(Debug, Clone)]
pub struct Exact {
    /// First and last address of each.
    ranges: Vec<(IpAddr, IpAddr)>,
}

impl Exact {
    /// The addresses of these networks.
    pub fn new(networks: &[Network]) -> Exact {
        let mut all: Vec<(IpAddr, IpAddr)> = networks
            .iter()
            .map(|network| (network.first(), network.last()))
            .collect();
        all.sort_unstable();
        let mut ranges: Vec<(IpAddr, IpAddr)> = Vec::new();
        for (first, last) in all {
            match ranges.last_mut() {
                Some((_, end)) if first <= *end => *end = last.max(*end),
                _ => ranges.push((first, last)),
            }
        }
        Exact { ranges }
    }

    /// Whether an address is in one of the networks.
    pub fn contains(&self, address: IpAddr) -> bool {
        let after = self.ranges.partition_point(|(first, _)| *first <= address);
        after > 0 && address <= self.ranges[after - 1].1
    }

    /// So many addresses that are in none of the networks; with `ipv6`, one in ten is of IPv6.
    ///
    /// # Errors
    ///
    /// If there are hardly any.
    pub fn outside(&self, count: u64, ipv6: bool, random: &mut Random) -> Result<Vec<IpAddr>> {
        let mut addresses = Vec::new();
        let mut vain = 0;
        while (addresses.len() as u64) < count {
            let is_ipv6 = ipv6 && random.below(IPV6_EVERY) == 0;
            let address = random_address(is_ipv6, random);
            if !self.contains(address) {
                addresses.push(address);
                continue;
            }
            vain += 1;
            if vain > 100 * count {
                return Err(Error::Usage(
                    "the list bans nearly all addresses, so that none are left to look up: give a list \
                     that bans fewer"
                        .into(),
                ));
            }
        }
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_line_has_a_number() {
        let networks = parse("# a list\n10.0.0.0/8 # private\r\n\n10.0.0.0/8\n::1\n").unwrap();
        assert_eq!(networks.len(), 2);
        let error = parse("10.0.0.0/8\n\n10.0.0.0/99\n").unwrap_err();
        assert!(error.starts_with("line 3: \"10.0.0.0/99\""), "{error}");
    }

    #[test]
    fn ranges_contain_what_the_networks_do() {
        let mut random = Random::new(1, 0);
        let networks = mixed(2_000, &mut random);
        assert_eq!(networks.len(), 2_000);
        assert!(networks[0].to_string() == "0.0.0.0/8");
        let (exact, set) = (Exact::new(&networks), networks.iter().copied().collect());
        let is_in = |set: &HashSet<Network>, address: IpAddr| {
            (0..=128).any(|length| set.contains(&Network::of(address, length)))
        };
        let mut inside = 0;
        for turn in 0..4_000 {
            let address = match networks.get(turn) {
                Some(network) => network.random_address(&mut random),
                None => random_address(turn % 2 == 0, &mut random),
            };
            assert_eq!(exact.contains(address), is_in(&set, address), "{address}");
            inside += u32::from(exact.contains(address));
        }
        assert!((2_000..4_000).contains(&inside), "{inside}");
        let outside = exact.outside(100, true, &mut random).unwrap();
        assert!(outside.iter().all(|address| !is_in(&set, *address)));
        let all = Exact::new(&parse("0.0.0.0/0\n::/0").unwrap());
        assert!(matches!(
            all.outside(10, true, &mut random),
            Err(Error::Usage(_))
        ));
    }
}
