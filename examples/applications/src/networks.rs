//! Networks of IPv4 and IPv6: an address, and how many of its first bits count.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::Random;

/// A network, or with the greatest prefix length a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    /// The first address: bits after the prefix are zero.
    first: IpAddr,
    length: u8,
}

/// The greatest prefix length of the family of an address.
pub fn bits_of(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

impl Network {
    /// The network of this prefix length that the address is in. A greater length than the family
    /// has is taken as the greatest.
    #[inline]
    pub fn of(address: IpAddr, length: u8) -> Network {
        let length = length.min(bits_of(address));
        let first = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        };
        Network { first, length }
    }

    /// The network of one address.
    pub fn single(address: IpAddr) -> Network {
        Network::of(address, bits_of(address))
    }

    /// Its first address.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// Its last address.
    pub fn last(&self) -> IpAddr {
        self.address(u128::MAX)
    }

    /// The length of its prefix, in bits.
    #[inline]
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Whether it is one address.
    pub fn is_single(&self) -> bool {
        self.length == bits_of(self.first)
    }

    /// Bits that differ between its addresses.
    fn free_bits(&self) -> u32 {
        u32::from(bits_of(self.first) - self.length)
    }

    /// The address in it whose bits after the prefix are the low bits of `host`.
    fn address(&self, host: u128) -> IpAddr {
        let mask = 1_u128
            .checked_shl(self.free_bits())
            .map_or(u128::MAX, |end| end - 1);
        match self.first {
            // The mask has at most 32 bits here.
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() | (host & mask) as u32).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() | host & mask).into(),
        }
    }

    /// One of its addresses.
    pub fn random_address(&self, random: &mut Random) -> IpAddr {
        self.address(u128::from(random.next()) << 64 | u128::from(random.next()))
    }

    /// The networks of a greater prefix length that together are this one: two for each bit more.
    pub fn split(&self, length: u8) -> impl Iterator<Item = Network> + use<> {
        let network = *self;
        let more = length.saturating_sub(network.length).min(63);
        let rest = network.free_bits() - u32::from(more);
        (0..1_u64 << more).map(move |part| {
            let host = u128::from(part).checked_shl(rest).unwrap_or(0);
            Network::of(network.address(host), network.length + more)
        })
    }

    /// The bytes that stand for it in a store and in a filter: the prefix length, then the address.
    #[inline]
    pub fn key(&self) -> Key {
        let mut bytes = [0; 17];
        bytes[0] = self.length;
        let used = match self.first {
            IpAddr::V4(first) => {
                bytes[1..5].copy_from_slice(&first.octets());
                5
            }
            IpAddr::V6(first) => {
                bytes[1..].copy_from_slice(&first.octets());
                17
            }
        };
        Key { bytes, used }
    }
}

impl Network {
    /// The network that has these bytes as its key.
    pub fn from_key(bytes: &[u8]) -> Option<Network> {
        let (&length, address) = bytes.split_first()?;
        let address: IpAddr = match address.len() {
            4 => <[u8; 4]>::try_from(address).ok()?.into(),
            _ => <[u8; 16]>::try_from(address).ok()?.into(),
        };
        Some(Network::of(address, length))
    }
}

/// The bytes of a network. Those of the two families differ in number.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    bytes: [u8; 17],
    used: usize,
}

impl AsRef<[u8]> for Key {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_single() {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}/{}", self.first, self.length)
        }
    }
}

impl FromStr for Network {
    type Err = String;

    /// An address, or an address, a slash and a prefix length. The error says what to write.
    fn from_str(text: &str) -> Result<Network, String> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let Ok(address) = address.parse::<IpAddr>() else {
            return Err(format!(
                "{text:?} is neither an address nor a network: write one like 192.0.2.7, 192.0.2.0/24 or \
                 2001:db8::/32"
            ));
        };
        let most = bits_of(address);
        let length = match length {
            None => most,
            // `parse` alone would take a sign, too.
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
                .parse()
                .ok()
                .filter(|length| *length <= most)
                .ok_or_else(|| format!("{text:?} has a prefix length that is not 0 to {most}"))?,
            Some(_) => return Err(format!("{text:?} has a prefix length that is no number")),
        };
        let network = Network::of(address, length);
        if address.to_canonical() != address {
            return Err(format!(
                "{text:?} is an IPv4 address within IPv6: write it as IPv4, as packets are looked up so"
            ));
        }
        if network.first != address {
            return Err(format!(
                "{text:?} has bits after its prefix: write {network} for the network, or {address} for the \
                 address"
            ));
        }
        Ok(network)
    }
}

/// Prefix lengths in use, and in how many networks.
#[derive(Debug, Clone)]
pub struct Lengths {
    /// Number of networks by length; IPv4, then IPv6.
    counts: [[u64; 129]; 2],
    /// Lengths with a network, the longest first.
    used: [Vec<u8>; 2],
}

impl Default for Lengths {
    fn default() -> Lengths {
        Lengths {
            counts: [[0; 129]; 2],
            used: [Vec::new(), Vec::new()],
        }
    }
}

impl Lengths {
    /// Counts a network.
    pub fn add(&mut self, network: &Network) {
        let family = usize::from(network.first.is_ipv6());
        let count = &mut self.counts[family][usize::from(network.length)];
        *count += 1;
        if *count == 1 {
            let used = &mut self.used[family];
            used.push(network.length);
            used.sort_unstable_by(|one, other| other.cmp(one));
        }
    }

    /// Takes back a network that was counted.
    pub fn remove(&mut self, network: &Network) {
        let family = usize::from(network.first.is_ipv6());
        let count = &mut self.counts[family][usize::from(network.length)];
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.used[family].retain(|length| *length != network.length);
        }
    }

    /// The lengths that networks of the family of this address have, the longest first.
    #[inline]
    pub fn of(&self, address: IpAddr) -> &[u8] {
        &self.used[usize::from(address.is_ipv6())]
    }

    /// All networks.
    pub fn total(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_goes_both_ways() {
        for text in [
            "192.0.2.7",
            "10.0.0.0/8",
            "0.0.0.0/0",
            "::/0",
            "2001:db8::/32",
            "fe80::1",
        ] {
            let network = text.parse::<Network>().unwrap();
            assert_eq!(network.to_string(), text);
            assert_eq!(Network::from_key(network.key().as_ref()), Some(network));
        }
        assert_eq!(
            "192.0.2.7/32".parse::<Network>().unwrap().to_string(),
            "192.0.2.7"
        );
    }

    #[test]
    fn nonsense_is_named() {
        for (text, part) in [
            ("", "neither"),
            ("10.0.0/8", "neither"),
            ("010.0.0.1", "neither"),
            ("10.0.0.0/33", "not 0 to 32"),
            ("10.0.0.0/+8", "no number"),
            ("10.0.0.0/", "not 0 to 32"),
            ("::/129", "not 0 to 128"),
            ("10.0.0.1/8", "write 10.0.0.0/8"),
            ("::ffff:10.0.0.1", "write it as IPv4"),
        ] {
            let error = text.parse::<Network>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn parts_are_the_whole() {
        let network: Network = "198.18.0.0/15".parse().unwrap();
        let parts: Vec<String> = network.split(17).map(|part| part.to_string()).collect();
        let expected = [
            "198.18.0.0/17",
            "198.18.128.0/17",
            "198.19.0.0/17",
            "198.19.128.0/17",
        ];
        assert_eq!(parts, expected);
        assert_eq!(network.last().to_string(), "198.19.255.255");
        let all: Network = "::/0".parse().unwrap();
        assert_eq!(all.split(2).last().unwrap().to_string(), "c000::/2");
        assert_eq!(
            all.last().to_string(),
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
        );
    }

    #[test]
    fn random_addresses_are_within() {
        let mut random = Random::new(1, 0);
        for text in [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "192.0.2.7",
            "::/0",
            "fc00::/7",
            "::1",
        ] {
            let network: Network = text.parse().unwrap();
            let address = network.random_address(&mut random);
            assert_eq!(Network::of(address, network.length()), network);
        }
    }

    #[test]
    fn lengths_are_in_use_while_a_network_has_them() {
        let mut lengths = Lengths::default();
        let networks = ["10.0.0.0/8", "11.0.0.0/8", "10.0.0.1", "::1"];
        let networks = networks.map(|text| text.parse::<Network>().unwrap());
        networks.iter().for_each(|network| lengths.add(network));
        assert_eq!(lengths.of(networks[0].first()), [32, 8]);
        assert_eq!(lengths.of(networks[3].first()), [128]);
        lengths.remove(&networks[0]);
        assert_eq!(lengths.of(networks[0].first()), [32, 8]);
        lengths.remove(&networks[1]);
        assert_eq!(lengths.of(networks[0].first()), [32]);
        assert_eq!(lengths.total(), 2);
    }
}
