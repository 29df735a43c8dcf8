//! How well a filter would do, by the gaps between the keys of its own segment.
//!
//! Keys that another run has, and this one has not, are likely to lie as the keys of this one do. So
//! some keys of a block are left out, and the filter of the others is asked for the range that
//! they span.

use super::bits::{Reader, Writer};
use super::build::BlockCodes;
use super::cells::{self, Resolution};

/// Keys that are left out at a time, and the ranges that are tried in a block.
const LEFT_OUT: usize = 3;
const TRIALS: usize = 4;

/// The share of such ranges that is refuted; 1 if no block has keys enough.
pub(super) fn refuted(samples: &[BlockCodes], resolution: Resolution) -> f64 {
    let (mut asked, mut refuted) = (0_u32, 0_u32);
    for sample in samples {
        let count = sample.all.len();
        let left_out = LEFT_OUT.min(count / 3);
        if left_out == 0 {
            continue;
        }
        let stride = (count / TRIALS).max(left_out);
        for at in (0..=count - left_out).step_by(stride) {
            asked += 1;
            refuted += u32::from(is_refuted(sample, (at, left_out), resolution));
        }
    }
    match asked {
        0 => 1.0,
        asked => f64::from(refuted) / f64::from(asked),
    }
}

fn is_refuted(sample: &BlockCodes, (at, count): (usize, usize), resolution: Resolution) -> bool {
    let (before, rest) = sample.all.split_at(at);
    let (out, behind) = rest.split_at(count);
    let mut others = [before, behind].concat();
    others.dedup();
    let mut bits = Writer::default();
    cells::encode(&others, sample.root, resolution, &mut bits);
    let reader = Reader::new(bits.words(), 0, bits.len());
    let tree = (sample.root, resolution);
    !cells::may_meet(reader, others.len() as u32, tree, (out[0], out[count - 1]))
}
