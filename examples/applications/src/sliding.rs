//! Windows that slide in panes, and what is exact in them.
//!
//! A window is a ring of panes, each a part of the time. When a pane is full the oldest one goes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;

use crate::capture::Packet;

/// A window of time in panes, and the number of packets in it that is too many.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Nanoseconds of a pane.
    pub pane_nanos: u64,
    /// Panes of the window.
    pub panes: usize,
    /// A source with so many packets in the window is above the rate.
    pub limit: u64,
}

impl Window {
    /// Nanoseconds of the whole window.
    pub fn nanos(&self) -> u64 {
        self.pane_nanos.saturating_mul(self.panes as u64)
    }
}

/// What happens in a stream that is cut into panes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A packet comes into the newest pane.
    Packet(&'a Packet),
    /// The newest pane is full, at this time. The window ends here, and is to be looked at.
    End(u64),
    /// A new pane begins, and the oldest goes.
    Turn,
}

/// Tells what happens, in its order. A packet that is older than its pane counts in it. After a pause as
/// long as the window, in which all panes are empty, time goes on at the next packet.
///
/// # Errors
///
/// The first one of `tell`.
pub fn replay<'a, E>(
    packets: &'a [Packet],
    window: Window,
    mut tell: impl FnMut(Event<'a>) -> Result<(), E>,
) -> Result<(), E> {
    let pane = window.pane_nanos.max(1);
    let mut now = 0;
    for packet in packets {
        let number = packet.nanos / pane;
        let turns = number.saturating_sub(now).min(window.panes as u64);
        for turn in 1..=turns {
            tell(Event::End((now + turn).saturating_mul(pane)))?;
            tell(Event::Turn)?;
        }
        now = now.max(number);
        tell(Event::Packet(packet))?;
    }
    tell(Event::End((now + 1).saturating_mul(pane)))
}

/// How many packets of each address the window has, exactly.
#[derive(Debug, Clone)]
pub struct Counts {
    panes: VecDeque<HashMap<IpAddr, u64>>,
    sums: HashMap<IpAddr, u64>,
    keep: usize,
}

impl Counts {
    /// Of a window of so many panes.
    pub fn new(panes: usize) -> Counts {
        Counts {
            panes: VecDeque::from([HashMap::new()]),
            sums: HashMap::new(),
            keep: panes,
        }
    }

    /// Counts an address.
    pub fn add(&mut self, address: IpAddr) {
        if let Some(newest) = self.panes.back_mut() {
            *newest.entry(address).or_default() += 1;
            *self.sums.entry(address).or_default() += 1;
        }
    }

    /// Begins a pane.
    pub fn turn(&mut self) {
        self.panes.push_back(HashMap::new());
        if self.panes.len() > self.keep {
            for (address, count) in self.panes.pop_front().into_iter().flatten() {
                let sum = self.sums.entry(address).or_default();
                *sum -= count;
                if *sum == 0 {
                    self.sums.remove(&address);
                }
            }
        }
    }

    /// Packets of an address in the window.
    pub fn get(&self, address: IpAddr) -> u64 {
        self.sums.get(&address).copied().unwrap_or(0)
    }

    /// All addresses in the window, in no order.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.sums.keys().copied()
    }

    /// The addresses with at least so many packets.
    pub fn above(&self, limit: u64) -> HashSet<IpAddr> {
        let above = self.sums.iter().filter(|(_, count)| **count >= limit);
        above.map(|(address, _)| *address).collect()
    }
}

/// When each address gets `limit` packets within the last `nanos`, each time that it had fewer before: of
/// a window that slides with every packet.
pub fn crossings(
    packets: &[Packet],
    address: fn(&Packet) -> IpAddr,
    (limit, nanos): (u64, u64),
) -> HashMap<IpAddr, Vec<u64>> {
    let mut last: HashMap<IpAddr, VecDeque<u64>> = HashMap::new();
    let mut crossings: HashMap<IpAddr, Vec<u64>> = HashMap::new();
    for packet in packets {
        let address = address(packet);
        let times = last.entry(address).or_default();
        while times
            .front()
            .is_some_and(|first| first.saturating_add(nanos) <= packet.nanos)
        {
            times.pop_front();
        }
        times.push_back(packet.nanos);
        if times.len() as u64 == limit {
            crossings.entry(address).or_default().push(packet.nanos);
        }
    }
    crossings
}

/// Nanoseconds from the last crossing before a report; below zero if the report came before the first one.
pub fn delay(crossings: &[u64], report: u64) -> f64 {
    let before = crossings.iter().rev().find(|at| **at <= report);
    let at = before.or(crossings.first()).copied().unwrap_or(report);
    report as f64 - at as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(nanos: u64, last: u8) -> Packet {
        let source = IpAddr::from([192, 0, 2, last]);
        Packet {
            nanos,
            source,
            destination: source,
        }
    }

    #[test]
    fn panes_hold_what_came_within_the_window() {
        let times = [0, 5, 12, 31, 29, 1_000, u64::MAX];
        let packets = times.map(|nanos| packet(nanos, 1));
        let window = Window {
            pane_nanos: 10,
            panes: 3,
            limit: 2,
        };
        let (mut counts, mut seen) = (Counts::new(window.panes), Vec::new());
        replay(&packets, window, |event| {
            match event {
                Event::Packet(packet) => counts.add(packet.source),
                Event::End(at) => seen.push((at, counts.get(packets[0].source))),
                Event::Turn => counts.turn(),
            }
            Ok::<(), ()>(())
        })
        .unwrap();
        let expected = [(10, 2), (20, 3), (30, 3), (40, 3), (50, 2), (60, 2)];
        assert_eq!(seen[..6], expected);
        assert_eq!(seen.last(), Some(&(u64::MAX, 1)));
        assert!(seen.len() < 12, "{seen:?}");
        assert_eq!(counts.addresses().count(), 1);
    }

    #[test]
    fn a_crossing_needs_enough_packets_in_time() {
        let packets = [0, 6, 12, 14, 15, 30, 31, 32].map(|nanos| packet(nanos, 1));
        let at = |limit| {
            crossings(&packets, |packet| packet.source, (limit, 10))
                .into_values()
                .next()
        };
        assert_eq!(at(2), Some(vec![6, 12, 31]));
        assert_eq!(at(3), Some(vec![14, 32]));
        assert_eq!(at(5), None);
        let delays = [1, 6, 13, 40].map(|report| delay(&[6, 12, 31], report));
        assert_eq!(delays, [-5.0, 0.0, 1.0, 9.0]);
    }
}
