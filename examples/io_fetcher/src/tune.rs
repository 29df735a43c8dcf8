//! Parameters from what the counters show: pure functions.

use crate::split::Cuts;

/// What the index was asked in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Lookups of keys that were not there.
    pub(crate) absent: u64,
    /// Lookups of keys that were.
    pub(crate) present: u64,
    /// Sorted runs of the table that has most, each of which an absent key may cost a read.
    pub(crate) runs: u64,
}

/// Reads in vain, as a part of all lookups, that are not worth more filter memory.
const WASTED_MAX: f64 = 0.001;

/// Bits for each key: so many that an absent key costs a read seldom enough, each bit halving
/// that. A load of mostly present keys needs few: what is there has to be read anyway.
pub(crate) fn bits_per_key(load: &Load) -> Option<u8> {
    let lookups = load.absent + load.present;
    if lookups < 1000 {
        return None;
    }
    let absent = load.absent as f64 / lookups as f64;
    let bits = (absent * load.runs.max(1) as f64 / WASTED_MAX)
        .log2()
        .ceil();
    Some(bits.clamp(4.0, 16.0) as u8)
}

/// Bytes that a block costs in the index: key, place and filter.
pub(crate) const PIECE_INDEX_BYTES: u64 = 36;

/// Content shrinks to about so much of it when it is compressed: bytes found again are worth less
/// than they are long.
const COMPRESSED_PART: u64 = 3;

/// Bytes of new documents after which the counters are looked at.
const WINDOW_BYTES: u64 = 32 << 20;

/// Windows without blocks after one in which they did not pay.
const WINDOWS_OFF: u64 = 7;

/// `--granularity auto`: tries blocks on a window of new documents; where what they found does not
/// pay for their index, goes without for a while, then tries again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Auto {
    bytes: u64,
    pieces: u64,
    found_bytes: u64,
    windows_off: u64,
}

impl Auto {
    /// How to cut the next document.
    pub(crate) fn cuts(&self, average: usize) -> Option<Cuts> {
        (self.windows_off == 0).then_some(Cuts::Content(average))
    }

    /// A document was stored: its bytes, the blocks that were new, the bytes of those that were
    /// not.
    pub(crate) fn stored(&mut self, bytes: u64, pieces: u64, found_bytes: u64) {
        self.bytes += bytes;
        self.pieces += pieces;
        self.found_bytes += found_bytes;
        if self.bytes < WINDOW_BYTES {
            return;
        }
        let pays = self.found_bytes / COMPRESSED_PART >= self.pieces * PIECE_INDEX_BYTES;
        *self = Auto {
            windows_off: match self.windows_off {
                0 if pays => 0,
                0 => WINDOWS_OFF,
                left => left - 1,
            },
            ..Auto::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_absent_keys_need_few_bits() {
        fn check(absent: u64, present: u64, runs: u64, bits: Option<u8>) {
            let load = Load {
                absent,
                present,
                runs,
            };
            assert_eq!(bits_per_key(&load), bits, "{load:?}");
        }
        check(10, 10, 1, None);
        check(100_000, 0, 1, Some(10));
        check(100_000, 0, 4, Some(12));
        check(100_000, 0, 1 << 20, Some(16));
        check(1_000, 99_000, 1, Some(4));
        check(0, 5_000, 3, Some(4));
    }

    #[test]
    fn blocks_are_left_off_where_they_do_not_pay_and_tried_again() {
        let mut auto = Auto::default();
        auto.stored(
            WINDOW_BYTES,
            2000,
            2000 * PIECE_INDEX_BYTES * COMPRESSED_PART,
        );
        assert!(auto.cuts(1024).is_some());
        auto.stored(WINDOW_BYTES - 1, 2000, 0);
        assert!(auto.cuts(1024).is_some(), "the window is not over");
        auto.stored(1, 0, 0);
        for _ in 0..WINDOWS_OFF {
            assert!(auto.cuts(1024).is_none());
            auto.stored(WINDOW_BYTES, 0, 0);
        }
        assert!(auto.cuts(1024).is_some());
    }
}
