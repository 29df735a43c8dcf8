//! The keys of a scan study: those that are loaded, in the order of loading, and those that are not,
//! three neighbours each time, whose spans are empty ranges.

use clap::ValueEnum;

use crate::exit::Failure;
use crate::random::{SplitMix, mix};
use crate::study::args::StudyArgs;
use crate::study::input;

/// Of so many neighbouring keys, [`NEIGHBOURS`] are not loaded.
const GROUP: usize = 24;

/// Keys whose span is an empty range.
const NEIGHBOURS: usize = 3;

/// Sensors of the clustered keys, and the milliseconds of 30 days.
const SENSORS: u64 = 300;
const MILLISECONDS: u64 = 2_592_000_000;

/// What generated keys look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Shape {
    /// 16 hexadecimal digits, evenly distributed.
    Hex,
    /// A sensor and a time in decimal digits: sensor0123:1700000000000.
    Sensor,
    /// The same in 4 and 8 bytes, the highest first.
    SensorBinary,
}

/// Sorted keys, and which of them are loaded when.
pub(super) struct Keys {
    pub(super) all: Vec<Box<[u8]>>,
    /// Places of the loaded ones, in the order of loading.
    pub(super) order: Vec<u32>,
    /// Where three keys begin that are not loaded.
    pub(super) held_out: Vec<u32>,
    pub(super) name: String,
}

impl Keys {
    /// Those that the options ask for.
    ///
    /// # Errors
    ///
    /// When the input cannot be read, or has too few keys.
    pub(super) fn new(args: &StudyArgs) -> Result<Keys, Failure> {
        let (all, name) = match &args.input {
            Some(path) => {
                let read = input::read(path, args.sample, args.seed)?;
                (read.keys, format!("input {}", read.name))
            }
            None => (generate(args), format!("{:?} keys", args.shape)),
        };
        Keys::deal(all, name, args.seed)
    }

    fn deal(mut all: Vec<Box<[u8]>>, name: String, seed: u64) -> Result<Keys, Failure> {
        all.sort_unstable();
        all.dedup();
        if all.len() < 100 * GROUP {
            return Err(Failure::usage(format!(
                "{} distinct keys are too few for a study of scans; take at least {}",
                all.len(),
                100 * GROUP
            )));
        }
        let mut random = SplitMix::new(mix(seed ^ 0x5ca9));
        let (mut order, mut held_out) = (Vec::new(), Vec::new());
        for first in (0..all.len()).step_by(GROUP) {
            let group = first as u32..(first + GROUP).min(all.len()) as u32;
            let room = group.len().saturating_sub(NEIGHBOURS) as u64 + 1;
            let held = group.start + random.below(room) as u32;
            // At the ends, a range would lie beside all keys and not between them.
            if group.len() < GROUP || first == 0 {
                order.extend(group);
                continue;
            }
            let end = held + NEIGHBOURS as u32;
            held_out.push(held);
            order.extend((group.start..held).chain(end..group.end));
        }
        random.shuffle(&mut order);
        Ok(Keys {
            all,
            order,
            held_out,
            name,
        })
    }

    /// The bounds, both included, of an empty range.
    pub(super) fn empty_range(&self, ordinal: usize) -> (&[u8], &[u8]) {
        let first = self.held_out[ordinal % self.held_out.len()] as usize;
        (&self.all[first], &self.all[first + NEIGHBOURS - 1])
    }
}

/// Enough to load as many keys as the options say.
#[expect(
    clippy::big_endian_bytes,
    reason = "keys that are in the order of their numbers"
)]
fn generate(args: &StudyArgs) -> Vec<Box<[u8]>> {
    let total = args.keys * GROUP as u64 / (GROUP - NEIGHBOURS) as u64;
    let mut random = SplitMix::new(mix(args.seed));
    let mut key = || {
        let mut reading = || {
            let (sensor, time) = (random.below(SENSORS), random.below(MILLISECONDS));
            (sensor as u32, 1_700_000_000_000 + time)
        };
        match args.shape {
            Shape::Hex => format!("{:016x}", random.next()).into_bytes(),
            Shape::Sensor => {
                let (sensor, time) = reading();
                format!("sensor{sensor:04}:{time:013}").into_bytes()
            }
            Shape::SensorBinary => {
                let (sensor, time) = reading();
                [&sensor.to_be_bytes()[..], &time.to_be_bytes()].concat()
            }
        }
    };
    (0..total).map(|_| key().into_boxed_slice()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lie_between_loaded_keys() {
        let all = |count: u32| {
            (0..count)
                .map(|n| format!("{n:06}").into_bytes().into())
                .collect()
        };
        let keys = Keys::deal(all(5000), "x".into(), 1).unwrap();
        let mut loaded = keys.order.clone();
        loaded.sort_unstable();
        loaded.dedup();
        assert_eq!(loaded.len() + 3 * keys.held_out.len(), 5000);
        assert_eq!(keys.held_out.len(), 207);
        for &held in &keys.held_out {
            assert!((held..held + 3).all(|place| loaded.binary_search(&place).is_err()));
        }
        assert!(Keys::deal(all(2000), "x".into(), 1).is_err());
    }
}
