//! Packets of a network that is attacked, made up.

use std::net::{IpAddr, Ipv4Addr};

use crate::capture::Packet;
use crate::{Random, Zipf};

/// Packets, and who attacks.
#[derive(Debug, Clone)]
pub struct Traffic {
    /// The packets, in their order.
    pub packets: Vec<Packet>,
    /// Attackers that get above the rate, each by itself.
    pub attackers: Vec<IpAddr>,
    /// Attackers that do not, but do together.
    pub distributed: Vec<IpAddr>,
    /// Where those of the distributed attack send to.
    pub victim: IpAddr,
}

impl Traffic {
    /// Packets of which nobody knows who attacks.
    pub fn of(packets: Vec<Packet>) -> Traffic {
        Traffic {
            packets,
            attackers: Vec::new(),
            distributed: Vec::new(),
            victim: Ipv4Addr::UNSPECIFIED.into(),
        }
    }
}

const SECONDS: u64 = 60;
/// Sources that are no attackers, and how unlike they are.
const SOURCES: u64 = 50_000;
const EXPONENT: f64 = 0.9;
/// Where they send to.
const HOSTS: u64 = 2_000;
/// For each attacker: when it begins, how many seconds its rate rises, and to what multiple of the limit.
const RAMPS: [(f64, f64, f64); 5] = [
    (12.3, 2.0, 4.0),
    (18.1, 10.0, 3.0),
    (25.7, 15.0, 2.0),
    (31.4, 5.0, 1.5),
    (22.9, 25.0, 2.5),
];
/// The distributed attack: when it begins, how many sources it has, and their share of the limit.
const DISTRIBUTED: (f64, u64, f64) = (35.0, 200, 0.5);

/// A minute of packets: `per_s` a second of sources that follow Zipf's law, and attackers beside
/// them. `limit` is the packets per second above which a source is to be found.
pub fn attacked(per_s: u64, limit: f64, random: &mut Random) -> Traffic {
    let background = |number: u64| Ipv4Addr::from_bits(0x0b00_0000 + number as u32 * 77).into();
    let block = |third: u8, number: u64| Ipv4Addr::new(198, 51, third, number as u8).into();
    let host = |number: u64| Ipv4Addr::from_bits(0xcb00_0000 + number as u32).into();
    let mut traffic = Traffic {
        packets: Vec::new(),
        attackers: (1..=RAMPS.len() as u64)
            .map(|number| block(100, number))
            .collect(),
        distributed: (0..DISTRIBUTED.1)
            .map(|number| block(200, number))
            .collect(),
        victim: host(HOSTS),
    };
    let zipf = Zipf::new(SOURCES, EXPONENT);
    for step in 0..SECONDS * per_s {
        let seconds = step as f64 / per_s as f64;
        let nanos = step * 1_000_000_000 / per_s;
        let source = background(zipf.draw(random));
        let destination = host(random.below(HOSTS));
        traffic.packets.push(Packet {
            nanos,
            source,
            destination,
        });
        let mut attack = |source, destination| {
            traffic.packets.push(Packet {
                nanos,
                source,
                destination,
            });
        };
        for (attacker, (begin, rise, peak)) in traffic.attackers.iter().zip(RAMPS) {
            let risen = ((seconds - begin) / rise).clamp(0.0, 1.0);
            if random.chance(risen * peak * limit / per_s as f64) {
                attack(*attacker, host(HOSTS + 1));
            }
        }
        let (begin, count, share) = DISTRIBUTED;
        if seconds >= begin && random.chance(count as f64 * share * limit / per_s as f64) {
            attack(
                traffic.distributed[random.below(count) as usize],
                traffic.victim,
            );
        }
    }
    traffic
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attackers_send_as_much_as_they_should() {
        let traffic = attacked(2_000, 10.0, &mut Random::new(1, 0));
        let sent = |from: &[IpAddr]| {
            let packets = traffic.packets.iter();
            packets
                .filter(|packet| from.contains(&packet.source))
                .count() as f64
        };
        // It rises for two seconds to four times the limit of 10 a second, and stays there.
        let expected = 40.0 * (60.0 - 12.3 - 1.0);
        assert!((sent(&traffic.attackers[..1]) - expected).abs() < 5.0 * expected.sqrt());
        let expected = 200.0 * 5.0 * 25.0_f64;
        assert!((sent(&traffic.distributed) - expected).abs() < 5.0 * expected.sqrt());
        assert!(traffic.packets.is_sorted_by_key(|packet| packet.nanos));
    }
}
