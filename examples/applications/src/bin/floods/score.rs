//! How well detectors do, against exact counts.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use applications::capture::Packet;
use applications::sliding::{Counts, Event, Window, replay};
use applications::{Error, Result};

use crate::detect::Detector;

/// How well one detector did.
#[derive(Default)]
pub(crate) struct Score {
    pub(crate) above: u64,
    pub(crate) missed: u64,
    pub(crate) false_alarms: u64,
    pub(crate) bound: f64,
    pub(crate) largest_error: u64,
    /// Estimates, and those that exceed the bound.
    pub(crate) estimates: u64,
    pub(crate) beyond: u64,
    pub(crate) memory: u64,
    /// When each source was first reported.
    pub(crate) reported: HashMap<IpAddr, u64>,
}

/// Whether the estimate that counts is the least that is certain, or the most that is possible.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Side {
    AtLeast,
    AtMost,
}

impl Score {
    /// Looks at the end of a window. Sources with estimates at or above the limit are reported.
    fn look(
        &mut self,
        (detector, side): (&dyn Detector, Side),
        (counts, limit): (&Counts, u64),
        at: u64,
    ) -> Result<()> {
        let estimate = |source| match side {
            Side::AtLeast => detector.estimate(source).0,
            Side::AtMost => detector.estimate(source).1,
        };
        let above = counts.above(limit);
        let mut alarms = detector.candidates();
        alarms.retain(|source| estimate(*source) >= limit);
        self.above += above.len() as u64;
        let missed: HashSet<_> = above.difference(&alarms).collect();
        self.missed += missed.len() as u64;
        if let (Side::AtMost, true, Some(source)) =
            (side, detector.misses_nothing(), missed.iter().next())
        {
            return Err(Error::Wrong(format!("{} misses {source}", detector.name())));
        }
        let false_alarms: HashSet<_> = alarms.difference(&above).collect();
        self.false_alarms += false_alarms.len() as u64;
        if let (Side::AtLeast, Some(source)) = (side, false_alarms.iter().next()) {
            return Err(Error::Wrong(format!(
                "{source} is certainly above the rate, and is not"
            )));
        }
        alarms.retain(|source| !self.reported.contains_key(source));
        self.reported
            .extend(alarms.into_iter().map(|source| (source, at)));
        self.bound = self.bound.max(detector.bound());
        self.memory = self.memory.max(detector.memory_bytes());
        Ok(())
    }

    /// Compares the estimates of all sources in the window with what is exact.
    fn compare(&mut self, detector: &dyn Detector, counts: &Counts) -> Result<()> {
        let bound = detector.bound();
        for source in counts.addresses() {
            let (least, most) = detector.estimate(source);
            let count = counts.get(source);
            if count < least || most < count {
                return Err(Error::Wrong(format!(
                    "{} says {least} to {most} packets of {source}, which sent {count}",
                    detector.name()
                )));
            }
            self.estimates += 1;
            self.beyond += u64::from((most - count) as f64 > bound);
            self.largest_error = self.largest_error.max(most - count);
        }
        Ok(())
    }
}

/// A detector, and which of its estimates are scored.
pub(crate) type Scored = (Box<dyn Detector>, Vec<Side>);

/// Lets detectors see all packets. Alarms are scored at the end of each pane. The estimates of all sources
/// are compared at the end of each window that does not overlap with the last one compared.
pub(crate) fn score(
    (packets, window): (&[Packet], Window),
    address: fn(&Packet) -> IpAddr,
    detectors: &mut [Scored],
) -> Result<Vec<Vec<Score>>> {
    let fresh = |(_, sides): &Scored| sides.iter().map(|_| Score::default()).collect();
    let mut scores: Vec<Vec<Score>> = detectors.iter().map(fresh).collect();
    let mut counts = Counts::new(window.panes);
    let mut ends = 0;
    replay(packets, window, |event| {
        match event {
            Event::Packet(packet) => {
                let address = address(packet);
                counts.add(address);
                detectors
                    .iter_mut()
                    .try_for_each(|(detector, _)| detector.add(address))?;
            }
            Event::End(at) => {
                ends += 1;
                for ((detector, sides), scores) in detectors.iter_mut().zip(&mut scores) {
                    detector.end()?;
                    for (side, score) in sides.iter().zip(scores) {
                        score.look((&**detector, *side), (&counts, window.limit), at)?;
                        if *side == Side::AtMost && ends % window.panes == 0 {
                            score.compare(&**detector, &counts)?;
                        }
                    }
                }
            }
            Event::Turn => {
                counts.turn();
                detectors
                    .iter_mut()
                    .try_for_each(|(detector, _)| detector.turn())?;
            }
        }
        Ok::<(), Error>(())
    })?;
    Ok(scores)
}
