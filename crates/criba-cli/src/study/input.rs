//! Where the keys of a study come from: a generator, or the lines of a file.

use std::io::BufRead;
use std::path::Path;

use criba::MAX_KEY_BYTES;

use crate::exit::Failure;
use crate::files;
use crate::lines::{Line, Lines};
use crate::progress::Progress;
use crate::random::{SplitMix, mix};

/// Keys as they came, and an account of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    /// In no particular order; may repeat.
    pub(crate) keys: Vec<Box<[u8]>>,
    /// How many distinct keys are to be held out.
    pub(crate) held_out: HeldOut,
    /// Where they came from.
    pub(crate) name: String,
    /// Lines that were too long to be keys.
    pub(crate) skipped_long: u64,
}

/// How many distinct keys are not loaded and serve as the absent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldOut {
    /// A quarter, at least one.
    Quarter,
    /// All but so many.
    AllBut(u64),
}

/// Generated keys of 20 bytes that share a prefix, as keys do: enough to load `count` of them and to
/// hold out a third as many.
pub(crate) fn generate(count: u64, seed: u64) -> Keys {
    let total = count + count.div_ceil(3);
    let keys = (0..total)
        .map(|ordinal| {
            let number = mix(ordinal ^ mix(seed));
            format!("key:{number:016x}").into_bytes().into_boxed_slice()
        })
        .collect();
    Keys {
        keys,
        held_out: HeldOut::AllBut(count),
        name: "generated".into(),
        skipped_long: 0,
    }
}

/// The lines of a file, or `sample` of them.
///
/// # Errors
///
/// When the file cannot be read.
pub(crate) fn read(path: &Path, sample: Option<u64>, seed: u64) -> Result<Keys, Failure> {
    let input = files::open_input(path)?;
    let template = match input.bytes {
        Some(_) => "reading {bytes}/{total_bytes} [{bar:40}]",
        None => "reading {bytes}",
    };
    let progress = Progress::new(input.bytes, template);
    let name = input.name;
    let mut keys = lines(input.reader, sample, seed, &progress).map_err(|f| f.at(&name))?;
    keys.name = name;
    Ok(keys)
}

/// How many lines are read between two looks at the progress bar.
const PROGRESS_LINES: u64 = 4096;

fn lines(
    reader: impl BufRead,
    sample: Option<u64>,
    seed: u64,
    progress: &Progress,
) -> Result<Keys, Failure> {
    let mut lines = Lines::new(reader, MAX_KEY_BYTES);
    let mut line = Vec::new();
    let mut random = SplitMix::new(seed ^ 0x5a4d_504c);
    let mut keys: Vec<Box<[u8]>> = Vec::new();
    let mut seen = 0;
    let mut skipped_long = 0;
    loop {
        let found = lines.next(&mut line);
        match found.map_err(|error| Failure::io("cannot read on", &error))? {
            Line::End => break,
            Line::TooLong => skipped_long += 1,
            Line::Whole if line.is_empty() => {}
            Line::Whole => {
                seen += 1;
                // Vitter 1985, algorithm R: each line so far is kept with the same probability.
                match sample {
                    Some(size) if seen > size => {
                        let place = random.below(seen);
                        if place < size {
                            keys[place as usize] = line.as_slice().into();
                        }
                    }
                    _ => keys.push(line.as_slice().into()),
                }
            }
        }
        if lines.number().is_multiple_of(PROGRESS_LINES) {
            progress.position(lines.read_bytes());
        }
    }
    Ok(Keys {
        keys,
        held_out: HeldOut::Quarter,
        name: String::new(),
        skipped_long,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8], sample: Option<u64>, seed: u64) -> Keys {
        lines(input, sample, seed, &Progress::new(None, "")).unwrap()
    }

    #[test]
    fn lines_become_keys() {
        let long = vec![b'x'; MAX_KEY_BYTES + 1];
        let mut input = b"b\r\na\n\n\r\nb\n\xff\x00\n".to_vec();
        input.extend_from_slice(&long);
        input.push(b'\n');
        input.extend_from_slice(&long[1..]);
        let read = read(&input, None, 1);
        assert_eq!(read.skipped_long, 1);
        let keys: Vec<&[u8]> = read.keys.iter().map(|key| &**key).collect();
        assert_eq!(keys, [&b"b"[..], b"a", b"b", b"\xff\x00", &long[1..]]);
    }

    #[test]
    fn a_sample_is_even_and_repeatable() {
        let input: String = (0..1000).map(|number| format!("{number}\n")).collect();
        assert_eq!(
            read(input.as_bytes(), Some(10), 5),
            read(input.as_bytes(), Some(10), 5)
        );
        assert_eq!(read(input.as_bytes(), Some(5000), 5).keys.len(), 1000);
        let mut late = 0;
        for seed in 0..200 {
            let sample = read(input.as_bytes(), Some(10), seed);
            assert_eq!(sample.keys.len(), 10);
            let number = |key: &[u8]| std::str::from_utf8(key).unwrap().parse::<u32>().unwrap();
            late += sample.keys.iter().filter(|key| number(key) >= 500).count();
        }
        assert!(
            (900..1100).contains(&late),
            "{late} of 2000 from the second half"
        );
    }

    #[test]
    fn generated_keys_are_distinct() {
        let mut keys = generate(1000, 1).keys;
        assert_eq!(keys.len(), 1334);
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 1334);
        assert!(keys.iter().all(|key| key.len() == 20));
        assert_ne!(generate(10, 1), generate(10, 2));
    }
}
