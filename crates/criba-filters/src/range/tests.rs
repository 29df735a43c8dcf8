#![expect(
    clippy::big_endian_bytes,
    reason = "keys that are in the order of their numbers"
)]

mod campaign;

use super::*;

/// A segment of keys: its blocks, fences and filter.
struct Segment {
    fences: Vec<Vec<u8>>,
    filter: RangeFilter,
    built: Built,
}

/// The shortest prefix of `key` that is greater than `before`.
fn separator(before: &[u8], key: &[u8]) -> Vec<u8> {
    let shared = before.iter().zip(key).take_while(|(a, b)| a == b).count();
    key[..shared + 1].to_vec()
}

impl Segment {
    /// Of sorted distinct keys, in blocks of so many.
    fn new(keys: &[Vec<u8>], block: usize, bits: f64) -> Option<Segment> {
        let mut fences = vec![keys[0].clone()];
        let mut builder = Builder::default();
        for (at, chunk) in keys.chunks(block).enumerate() {
            if at > 0 {
                fences.push(separator(&keys[at * block - 1], &chunk[0]));
            }
            builder.begin_block(&fences[at]);
            chunk.iter().for_each(|key| builder.add(key));
        }
        fences.push(keys[keys.len() - 1].clone());
        let built = builder.build(fences.last()?, bits)?;
        let filter = RangeFilter::parse(&built.header, fences.len() as u32 - 1).unwrap();
        assert_eq!(filter.body_words(), built.body.len() as u64);
        assert_eq!(filter.keys(), keys.len() as u64);
        Some(Segment {
            fences,
            filter,
            built,
        })
    }

    fn bits_per_key(&self) -> f64 {
        let bytes = self.built.header.len() + self.built.body.len() * 8;
        bytes as f64 * 8.0 / self.filter.keys() as f64
    }

    /// Whether a key may lie in the range, which lies between the first key and the last.
    fn ask(&self, lower: &[u8], upper: &[u8]) -> bool {
        let block_of = |key: &[u8]| {
            let inner = &self.fences[1..self.fences.len() - 1];
            inner.partition_point(|fence| **fence <= *key)
        };
        let (first, last) = (block_of(lower), block_of(upper));
        match last - first {
            0 => self.ask_block(first, (Some(lower), Some(upper))),
            1 => {
                self.ask_block(first, (Some(lower), None))
                    || self.ask_block(last, (None, Some(upper)))
            }
            _ => true,
        }
    }

    /// The next key from a key on, as far as it is known, and the one before; a key of the same block.
    fn neighbours(&self, key: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let inner = &self.fences[1..self.fences.len() - 1];
        let block = inner.partition_point(|fence| **fence <= *key);
        let words = self.filter.words(block as u32);
        let words = &self.built.body[words.start as usize..words.end as usize];
        let fences = Between {
            lower: &self.fences[block],
            upper: &self.fences[block + 1],
        };
        let place = (block as u32, words);
        (
            self.filter.next_from(place, fences, key),
            self.filter.previous_to(place, fences, key),
        )
    }

    fn ask_block(&self, block: usize, range: (Option<&[u8]>, Option<&[u8]>)) -> bool {
        let words = self.filter.words(block as u32);
        let words = &self.built.body[words.start as usize..words.end as usize];
        let fences = Between {
            lower: &self.fences[block],
            upper: &self.fences[block + 1],
        };
        self.filter.may_hold((block as u32, words), fences, range)
    }
}

fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state += 1;
        crate::mix(crate::KeyHash(state), seed)
    }
}

/// Makes a key from random numbers.
type Shape = fn(&mut dyn FnMut() -> u64) -> Vec<u8>;

fn sorted(mut keys: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    keys.sort();
    keys.dedup();
    keys
}

/// The share of ranges of three neighbouring keys that is not refuted, of those that lie between keys
/// of a run that holds an eighth of all; and the bits per key.
fn wasted(all: &[Vec<u8>], bits: f64) -> (f64, f64) {
    let mut next = random(3);
    let run: Vec<Vec<u8>> = all
        .iter()
        .filter(|_| next().is_multiple_of(8))
        .cloned()
        .collect();
    let segment = Segment::new(&run, 32, bits).unwrap();
    let (mut empty, mut wasted) = (0_u32, 0_u32);
    for _ in 0..20_000 {
        let at = (next() % (all.len() as u64 - 3)) as usize;
        let (lower, upper) = (&all[at], &all[at + 2]);
        let from = run.partition_point(|key| key < lower);
        let is_inside = *lower > run[0] && *upper < run[run.len() - 1];
        let maybe = is_inside && segment.ask(lower, upper);
        if run.get(from).is_some_and(|key| key <= upper) {
            assert!(maybe || !is_inside);
        } else if is_inside {
            empty += 1;
            wasted += u32::from(maybe);
        }
    }
    (f64::from(wasted) / f64::from(empty), segment.bits_per_key())
}

#[test]
fn uniform_and_clustered_keys_are_told_apart() {
    fn check(name: &str, keys: Vec<Vec<u8>>, (bits, most): (f64, f64)) {
        let (wasted, bits_per_key) = wasted(&sorted(keys), bits);
        assert!(wasted < most, "{name}: {wasted} with {bits_per_key} bits");
        assert!((bits_per_key - bits).abs() < 0.7, "{name}: {bits_per_key}");
    }
    let mut next = random(7);
    let hex: Vec<_> = (0..100_000)
        .map(|_| format!("{:016x}", next()).into_bytes())
        .collect();
    check("hex", hex.clone(), (10.0, 0.02));
    check("hex", hex, (12.0, 0.006));
    let big_endian = (0..100_000)
        .map(|_| next().to_be_bytes().to_vec())
        .collect();
    check("big endian", big_endian, (10.0, 0.02));
    let mut sensor = |_| {
        let (sensor, time) = (next() % 300, next() % 2_592_000_000);
        format!("sensor{sensor:04}:{:013}", 1_700_000_000_000 + time).into_bytes()
    };
    let sensors: Vec<_> = (0..100_000).map(&mut sensor).collect();
    check("sensor", sensors.clone(), (10.0, 0.06));
    check("sensor", sensors, (12.0, 0.03));
}

/// The neighbours of a key within its block are not passed over.
fn check_neighbours(segment: &Segment, keys: &[Vec<u8>], key: &Vec<u8>, block: usize) {
    if *key < keys[0] || *key > keys[keys.len() - 1] {
        return;
    }
    let at = keys.partition_point(|other| other < key);
    let inner = &segment.fences[1..segment.fences.len() - 1];
    let own = inner.partition_point(|fence| fence <= key);
    let in_block = |at: usize| (own * block..(own + 1) * block).contains(&at);
    let (next, previous) = segment.neighbours(key);
    if in_block(at) && at < keys.len() {
        assert!(
            next.is_some_and(|next| next <= keys[at] && next >= *key),
            "{key:?}"
        );
    }
    let until = keys.partition_point(|other| other <= key);
    if until > 0 && in_block(until - 1) {
        assert!(previous.is_some_and(|end| end > keys[until - 1]), "{key:?}");
    }
}

#[test]
fn keys_of_every_shape_are_never_denied() {
    let mut next = random(11);
    let shapes: [Shape; 6] = [
        // Prefixes of each other, of one byte.
        |next| vec![b'a'; (next() % 300) as usize],
        |next| vec![0; (next() % 70) as usize],
        |next| vec![0xff; (next() % 70) as usize],
        // Few bytes, among them the least and the greatest.
        |next| {
            let len = next() % 9;
            (0..len)
                .map(|_| [0, 1, 0x7f, 0xfe, 0xff][(next() % 5) as usize])
                .collect()
        },
        |next| (0..next() % 40).map(|_| next() as u8).collect(),
        // Long ones that differ at their end.
        |next| {
            let mut key = vec![b'x'; 2_000];
            key.extend(format!("{}", next() % 100_000).bytes());
            key
        },
    ];
    for (shape, make) in shapes.iter().enumerate() {
        for (count, block) in [(1, 4), (5, 1), (40, 7), (400, 32), (2_000, 300)] {
            let keys = sorted((0..count).map(|_| make(&mut next)).collect());
            for bits in [6.0, 10.0, 40.0] {
                let Some(segment) = Segment::new(&keys, block, bits) else {
                    continue;
                };
                for key in &keys {
                    assert!(segment.ask(key, key), "shape {shape}, {bits} bits: {key:?}");
                    let (next, previous) = segment.neighbours(key);
                    assert!(next.is_some_and(|next| next == *key), "{key:?}");
                    assert!(previous.is_some_and(|end| end > *key), "{key:?}");
                }
                for _ in 0..count {
                    let (one, other) = (make(&mut next), make(&mut next));
                    let (lower, upper) = if one < other {
                        (one, other)
                    } else {
                        (other, one)
                    };
                    check_neighbours(&segment, &keys, &lower, block);
                    let from = keys.partition_point(|key| *key < lower);
                    let holds = keys.get(from).is_some_and(|key| *key <= upper);
                    let is_inside = lower >= keys[0] && upper <= keys[keys.len() - 1];
                    let maybe = is_inside && segment.ask(&lower, &upper);
                    assert!(!holds || !is_inside || maybe, "{lower:?} {upper:?}");
                }
            }
        }
    }
}

#[test]
fn clusters_too_close_are_found_not_to_pay() {
    let mut next = random(5);
    let even: Vec<_> = (0..4_000).map(|_| next().to_be_bytes().to_vec()).collect();
    assert!(Segment::new(&sorted(even), 32, 10.0).unwrap().built.refuted > 0.9);
    // Keys in a row: all gaps are between one and the next.
    let row: Vec<_> = (0..4_000_u32).map(|n| n.to_be_bytes().to_vec()).collect();
    let row = Segment::new(&row, 32, 10.0).unwrap();
    assert!(row.ask(&7_u32.to_be_bytes(), &7_u32.to_be_bytes()));
}

#[test]
fn damaged_headers_are_refused_or_answer() {
    let mut next = random(13);
    let keys = sorted(
        (0..500)
            .map(|_| format!("{:08}", next() % 10_000_000).into_bytes())
            .collect(),
    );
    let segment = Segment::new(&keys, 32, 12.0).unwrap();
    let blocks = segment.fences.len() as u32 - 1;
    let header = &segment.built.header;
    for len in 0..header.len() {
        assert!(RangeFilter::parse(&header[..len], blocks).is_err(), "{len}");
    }
    assert!(RangeFilter::parse(header, blocks + 1).is_err());
    for bit in 0..header.len() * 8 {
        let mut damaged = header.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let Ok(filter) = RangeFilter::parse(&damaged, blocks) else {
            continue;
        };
        let damaged = Segment {
            filter,
            fences: segment.fences.clone(),
            built: segment.built.clone(),
        };
        for block in 0..blocks as usize {
            let words = damaged.filter.words(block as u32);
            if words.end <= damaged.built.body.len() as u64 {
                let range = (Some(&*keys[3]), Some(&*keys[200]));
                let _answer = damaged.ask_block(block, range);
            }
        }
    }
}

#[test]
fn too_few_bits_are_no_filter() {
    let keys: Vec<_> = (0..40_u32).map(|n| n.to_be_bytes().to_vec()).collect();
    assert!(Segment::new(&keys, 8, 0.5).is_none());
    assert_eq!(Builder::default().build(b"", 10.0), None);
}
