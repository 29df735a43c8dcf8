//! Where a document is cut into pieces: pure functions over its bytes.

/// A line that is longer is cut.
const LINE_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cuts {
    /// After so many bytes.
    Block(usize),
    /// Where a rolling hash of the last bytes says, on average after so many.
    Content(usize),
    /// After each line feed.
    Line,
}

/// Cuts a stream of chunks.
#[derive(Debug)]
pub(crate) struct Splitter {
    cuts: Cuts,
    rest: Vec<u8>,
}

impl Splitter {
    pub(crate) fn new(cuts: Cuts) -> Splitter {
        Splitter {
            cuts,
            rest: Vec::new(),
        }
    }

    /// Takes the next chunk and gives out the pieces that end within it; with an empty chunk,
    /// which ends the stream, also what is left.
    pub(crate) fn feed<E>(
        &mut self,
        chunk: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.rest.extend_from_slice(chunk);
        let mut start = 0;
        while let Some(len) = self.cut(&self.rest[start..], chunk.is_empty()) {
            take(&self.rest[start..start + len])?;
            start += len;
        }
        self.rest.drain(..start);
        Ok(())
    }

    fn cut(&self, bytes: &[u8], is_end: bool) -> Option<usize> {
        let cut = match self.cuts {
            Cuts::Block(len) => (bytes.len() >= len).then_some(len),
            Cuts::Line => cut_line(bytes),
            Cuts::Content(average) => cut_content(bytes, average),
        };
        cut.or((is_end && !bytes.is_empty()).then_some(bytes.len()))
    }
}

fn cut_line(bytes: &[u8]) -> Option<usize> {
    let near = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    match near.iter().position(|&byte| byte == b'\n') {
        Some(at) => Some(at + 1),
        None => (near.len() == LINE_BYTES_MAX).then_some(LINE_BYTES_MAX),
    }
}

/// The gear hash of Xia et al. ("Ddelta", 2014): each byte shifts the ones before it out, so the
/// hash depends on the last 64 bytes only. A quarter to four times the average.
fn cut_content(bytes: &[u8], average: usize) -> Option<usize> {
    let (least, most) = (average / 4, average * 4);
    // High bits: they depend on all 64 bytes. What is left of the average after the least.
    let bits = (average - least).ilog2();
    let mut hash = 0u64;
    let from = least.saturating_sub(64).min(bytes.len());
    for (at, &byte) in bytes.iter().enumerate().take(most).skip(from) {
        hash = (hash << 1).wrapping_add(GEAR[byte as usize]);
        if at + 1 >= least && hash >> (64 - bits) == 0 {
            return Some(at + 1);
        }
    }
    (bytes.len() >= most).then_some(most)
}

/// Random numbers; fixed, since pieces of earlier runs are to be found again.
const GEAR: [u64; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        // SplitMix64 (Steele, Lea and Flood, 2014).
        let mut z = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[at] = z ^ (z >> 31);
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn pieces(cuts: Cuts, bytes: &[u8], chunk: usize) -> Vec<Vec<u8>> {
        let mut splitter = Splitter::new(cuts);
        let mut pieces = Vec::new();
        let mut take = |piece: &[u8]| {
            pieces.push(piece.to_vec());
            Ok::<(), ()>(())
        };
        for chunk in bytes.chunks(chunk) {
            splitter.feed(chunk, &mut take).unwrap();
        }
        splitter.feed(&[], &mut take).unwrap();
        pieces
    }

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 7u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn pieces_are_the_whole_whatever_the_chunks() {
        let bytes = noise(100_000);
        for cuts in [Cuts::Block(1000), Cuts::Content(1024), Cuts::Line] {
            let expected = pieces(cuts, &bytes, bytes.len());
            assert_eq!(expected.concat(), bytes);
            assert!(expected.len() > 30, "{cuts:?}: {}", expected.len());
            for chunk in [777, 4096] {
                assert_eq!(pieces(cuts, &bytes, chunk), expected, "{cuts:?}");
            }
        }
        assert!(pieces(Cuts::Line, b"", 1).is_empty());
        assert_eq!(
            pieces(Cuts::Line, b"a\n\nb", 2),
            [b"a\n".to_vec(), b"\n".into(), b"b".into()]
        );
        assert_eq!(
            pieces(Cuts::Line, &[b'x'; LINE_BYTES_MAX + 1], 9999).len(),
            2
        );
    }

    #[test]
    fn content_cuts_survive_an_insertion_and_keep_to_their_bounds() {
        let bytes = noise(400_000);
        let mut changed = bytes.clone();
        changed.insert(1000, b'!');
        let before: BTreeSet<_> = pieces(Cuts::Content(4096), &bytes, 65_536)
            .into_iter()
            .collect();
        let after = pieces(Cuts::Content(4096), &changed, 65_536);
        let new = after.iter().filter(|piece| !before.contains(*piece));
        assert!(new.count() <= 3);
        let (last, others) = after.split_last().unwrap();
        assert!(
            others
                .iter()
                .all(|piece| (1024..=16_384).contains(&piece.len()))
        );
        assert!(
            last.len() <= 16_384 && (50..200).contains(&after.len()),
            "{}",
            after.len()
        );

        let blocks: BTreeSet<_> = pieces(Cuts::Block(4096), &bytes, 65_536)
            .into_iter()
            .collect();
        let after = pieces(Cuts::Block(4096), &changed, 65_536);
        assert!(after.iter().all(|piece| !blocks.contains(piece)));
    }
}
