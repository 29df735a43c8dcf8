//! Packets of a capture file: when each came, from where, and to where.
//!
//! Files of libpcap and pcapng are read, from Ethernet (with VLANs), Linux "cooked" captures and bare IP.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

use crate::{Error, Result};

/// A packet of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// When it came, in nanoseconds since the first.
    pub nanos: u64,
    /// The address that it says it comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
}

/// The packets of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capture {
    /// The packets of IP, in their order.
    pub packets: Vec<Packet>,
    /// How many were something else, or cut off before the addresses.
    pub others: u64,
}

/// Bytes that are read at a time at first.
const BUFFER: usize = 1 << 16;
/// No packet of a network is longer; a length above it is damage.
const PACKET_MAX: usize = 1 << 20;

/// Reads a capture file.
///
/// # Errors
///
/// If it cannot be read, is no capture, is damaged or cut short, or has no packets of IP.
pub fn read(path: &Path) -> Result<Capture> {
    #[expect(clippy::disallowed_methods, reason = "the user names this file")]
    let file = File::open(path).map_err(Error::file(path))?;
    let name = path.display();
    let capture = packets(file).map_err(|problem| Error::Usage(format!("{name}: {problem}")))?;
    if capture.packets.is_empty() {
        return Err(Error::Usage(format!(
            "{name} has no packets of IP, and {} others: give a capture of a network that has some",
            capture.others
        )));
    }
    Ok(capture)
}

/// What is known of the file so far.
#[derive(Default)]
struct Reading {
    capture: Capture,
    /// Each interface's link, ticks per second and seconds to add; a file of libpcap has one.
    interfaces: Vec<(Linktype, u64, i64)>,
    /// Time of the first packet.
    first: Option<u64>,
    packets: u64,
}

fn packets(file: impl Read + Send) -> std::result::Result<Capture, String> {
    const NO_CAPTURE: &str =
        "this is no capture file: give one of libpcap or pcapng, as `tcpdump -w FILE` writes";
    let mut reader = create_reader(BUFFER, file).map_err(|error| match error {
        PcapError::ReadError => "the file cannot be read".to_string(),
        _ => NO_CAPTURE.to_string(),
    })?;
    let mut reading = Reading::default();
    let mut size = BUFFER;
    loop {
        match reader.next() {
            Ok((length, block)) => {
                reading.block(&block)?;
                reader.consume(length);
            }
            Err(PcapError::Eof) => return Ok(reading.capture),
            Err(PcapError::Incomplete(_)) => {
                if reader.refill().is_err() {
                    return Err("the file cannot be read".into());
                }
            }
            Err(PcapError::BufferTooSmall) if size < 2 * PACKET_MAX => {
                size *= 2;
                reader.grow(size);
            }
            Err(PcapError::UnexpectedEof) => {
                return Err(format!(
                    "the file ends within packet {}: capture it anew, or cut the rest off",
                    reading.packets + 1
                ));
            }
            Err(_) => {
                return Err(format!(
                    "packet {} is damaged: capture the file anew, or cut it off there",
                    reading.packets + 1
                ));
            }
        }
    }
}

impl Reading {
    /// Takes in a part of the file. The error says what is wrong with it.
    fn block(&mut self, block: &PcapBlockOwned<'_>) -> std::result::Result<(), String> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let ticks = match header.is_nanosecond_precision() {
                    true => 1_000_000_000,
                    false => 1_000_000,
                };
                self.interface(header.network, ticks, 0)
            }
            PcapBlockOwned::Legacy(packet) => {
                let (_, ticks, _) = self.interfaces.first().copied().unwrap_or_default();
                let time = u64::from(packet.ts_sec) * ticks + u64::from(packet.ts_usec);
                self.packet(0, time, packet.data)
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.interfaces.clear();
                Ok(())
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                let ticks = interface.ts_resolution().unwrap_or_default();
                self.interface(interface.linktype, ticks, interface.ts_offset())
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let time = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                // The parser keeps the bytes that fill up the last word.
                let length = packet.data.len().min(packet.caplen as usize);
                self.packet(packet.if_id as usize, time, &packet.data[..length])
            }
            PcapBlockOwned::NG(Block::SimplePacket(_)) => Err(format!(
                "packet {} has no time: capture with times, as tcpdump does",
                self.packets + 1
            )),
            PcapBlockOwned::NG(_) => Ok(()),
        }
    }

    fn interface(
        &mut self,
        link: Linktype,
        ticks: u64,
        offset: i64,
    ) -> std::result::Result<(), String> {
        if !LINKS.contains(&link) {
            return Err(format!(
                "captures of link type {} are not read: capture from Ethernet, or from `any`",
                link.0
            ));
        }
        if ticks == 0 {
            return Err(
                "an interface has a clock that makes no sense: capture the file anew".into(),
            );
        }
        self.interfaces.push((link, ticks, offset));
        Ok(())
    }

    fn packet(
        &mut self,
        interface: usize,
        time: u64,
        bytes: &[u8],
    ) -> std::result::Result<(), String> {
        self.packets += 1;
        let Some(&(link, ticks, offset)) = self.interfaces.get(interface) else {
            return Err(format!(
                "packet {} is of an interface that is not described: capture the file anew",
                self.packets
            ));
        };
        let nanos = i128::from(time) * 1_000_000_000 / i128::from(ticks)
            + i128::from(offset) * 1_000_000_000;
        let nanos = u64::try_from(nanos.max(0)).unwrap_or(u64::MAX);
        let Some((source, destination)) = addresses(link, bytes) else {
            self.capture.others += 1;
            return Ok(());
        };
        // A packet that is a little older than the first one counts with it.
        let first = *self.first.get_or_insert(nanos);
        let nanos = nanos.saturating_sub(first);
        self.capture.packets.push(Packet {
            nanos,
            source,
            destination,
        });
        Ok(())
    }
}

/// Links whose packets are understood.
const LINKS: [Linktype; 7] = [
    Linktype::ETHERNET,
    Linktype::LINUX_SLL,
    Linktype::LINUX_SLL2,
    Linktype::RAW,
    Linktype::IPV4,
    Linktype::IPV6,
    // Bare IP of some systems.
    Linktype(12),
];

/// Source and destination of a packet of IP. An address of IPv4 within IPv6 is taken as IPv4.
fn addresses(link: Linktype, bytes: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let ether_type =
        |at: usize| Some(u16::from(*bytes.get(at)?) << 8 | u16::from(*bytes.get(at + 1)?));
    let cooked = |at: usize, header: usize| {
        let kind = EtherType(ether_type(at)?);
        Some(LaxSlicedPacket::from_ether_type(kind, bytes.get(header..)?))
    };
    let packet = match link {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(bytes).ok()?,
        Linktype::LINUX_SLL => cooked(14, 16)?,
        Linktype::LINUX_SLL2 => cooked(0, 20)?,
        _ => LaxSlicedPacket::from_ip(bytes).ok()?,
    };
    let (source, destination): (IpAddr, IpAddr) = match packet.net? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            (
                Ipv4Addr::from(header.source()).into(),
                Ipv4Addr::from(header.destination()).into(),
            )
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            (
                Ipv6Addr::from(header.source()).into(),
                Ipv6Addr::from(header.destination()).into(),
            )
        }
        LaxNetSlice::Arp(_) => return None,
    };
    Some((source.to_canonical(), destination.to_canonical()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A capture of libpcap, little-endian, in microseconds.
    fn capture(link: u32, packets: &[(u32, &[u8])]) -> Vec<u8> {
        let word = |number: u32| number.to_le_bytes();
        let mut bytes = [
            word(0xa1b2_c3d4),
            [2, 0, 4, 0],
            word(0),
            word(0),
            word(65_535),
            word(link),
        ]
        .concat();
        for (micros, packet) in packets {
            let length = word(packet.len() as u32);
            bytes.extend([word(7), word(*micros), length, length].concat());
            bytes.extend(*packet);
        }
        bytes
    }

    /// The header of a packet of IPv4 from 192.0.2.`from` to 198.51.100.1.
    fn ipv4(from: u8) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, from];
        bytes.extend([198, 51, 100, 1]);
        bytes
    }

    fn ethernet(kind: [u8; 2], rest: &[u8]) -> Vec<u8> {
        [&[0; 12], &kind[..], rest].concat()
    }

    fn read_bytes(bytes: &[u8]) -> std::result::Result<Capture, String> {
        packets(bytes)
    }

    #[test]
    fn addresses_are_found_behind_each_link() {
        let vlan = [&[0, 5, 8, 0][..], &ipv4(2)].concat();
        let arp = ethernet([8, 6], &[0; 28]);
        // A long packet of which little was kept.
        let mut cut = ipv4(3);
        cut[2] = 5;
        let packets = [
            ethernet([8, 0], &ipv4(1)),
            ethernet([0x81, 0], &vlan),
            arp,
            ethernet([8, 0], &cut),
        ];
        let packets: Vec<(u32, &[u8])> = (5..).zip(packets.iter().map(Vec::as_slice)).collect();
        let read = read_bytes(&capture(1, &packets)).unwrap();
        let sources: Vec<String> = read
            .packets
            .iter()
            .map(|packet| packet.source.to_string())
            .collect();
        assert_eq!(sources, ["192.0.2.1", "192.0.2.2", "192.0.2.3"]);
        let times: Vec<u64> = read.packets.iter().map(|packet| packet.nanos).collect();
        assert_eq!((times, read.others), (vec![0, 1_000, 3_000], 1));
        let bare = read_bytes(&capture(101, &[(1, &ipv4(9))])).unwrap();
        assert_eq!(bare.packets[0].destination.to_string(), "198.51.100.1");
        let cooked = [&[0; 14], &[8, 0][..], &ipv4(4)].concat();
        assert_eq!(
            read_bytes(&capture(113, &[(1, &cooked)]))
                .unwrap()
                .packets
                .len(),
            1
        );
    }

    #[test]
    fn damage_is_named() {
        let (one, two) = (ethernet([8, 0], &ipv4(1)), ethernet([8, 0], &ipv4(2)));
        let whole = capture(1, &[(1, &one), (2, &two)]);
        for end in 0..whole.len() {
            let error = read_bytes(&whole[..end]);
            let complete = [24, 24 + 16 + one.len()];
            assert_eq!(error.is_ok(), complete.contains(&end), "{end}: {error:?}");
        }
        let error = read_bytes(&whole[..whole.len() - 1]).unwrap_err();
        assert!(error.contains("ends within packet 2"), "{error}");
        let mut long = whole.clone();
        long[24 + 8..24 + 12].fill(0xff);
        let error = read_bytes(&long).unwrap_err();
        assert!(error.contains("packet 1"), "{error}");
        assert!(
            read_bytes(&capture(147, &[]))
                .unwrap_err()
                .contains("link type 147")
        );
        for garbage in [&b"not a capture at all, just text"[..], &[0x0a; 64], &[]] {
            assert!(read_bytes(garbage).unwrap_err().contains("no capture file"));
        }
    }

    /// Bytes that were changed give packets or an error, and no panic.
    #[test]
    fn any_byte_may_be_wrong() {
        let one = ethernet([8, 0], &ipv4(1));
        let whole = capture(1, &[(1, &one), (2, &one)]);
        for place in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[place] ^= 1 << bit;
                if let Ok(capture) = read_bytes(&bytes) {
                    assert!(capture.packets.len() <= 2, "{capture:?}");
                }
            }
        }
    }
}
