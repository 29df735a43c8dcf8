//! `--granularity auto`: whether to cut documents, from what the counters show. Pure.

use crate::split::Cuts;

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
