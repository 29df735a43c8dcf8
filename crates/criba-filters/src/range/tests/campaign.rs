//! Random segments and random ranges: one that holds a key is never denied.
//!
//! `CRIBA_RANGES=10000000` asks for so many ranges, `CRIBA_RANGES_SEED` begins with another segment.

use std::ops::Bound;

use super::*;

/// What random ranges had to say.
#[derive(Default, Debug)]
struct Tally {
    segments: u64,
    without_filter: u64,
    asked: u64,
    hold_a_key: u64,
    refuted: u64,
}

fn number(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().unwrap())
}

#[expect(clippy::print_stdout, reason = "how far a campaign is")]
fn tell(tally: &Tally) {
    println!("{tally:?}");
}

/// Makes a key from random numbers; with numbers of its own.
type Make = Box<dyn Fn(&mut dyn FnMut() -> u64) -> Vec<u8>>;

#[test]
fn no_range_with_a_key_is_denied() {
    let wanted = number("CRIBA_RANGES", 30_000);
    let mut seed = number("CRIBA_RANGES_SEED", 0);
    let mut tally = Tally::default();
    while tally.asked < wanted {
        try_segment(seed, &mut tally);
        seed += 1;
        if tally.segments.is_multiple_of(20_000) {
            tell(&tally);
        }
    }
    tell(&tally);
    // Both kinds of ranges are there, and a filter that always says "maybe" is none.
    assert!(
        tally.hold_a_key > wanted / 5 && tally.refuted > wanted / 20,
        "{tally:?}"
    );
}

/// A random number below another.
fn below(next: &mut dyn FnMut() -> u64, limit: usize) -> usize {
    (next() % limit as u64) as usize
}

/// Shapes of keys. Each has some numbers of its own, so that keys lie in clusters.
fn shape(next: &mut dyn FnMut() -> u64) -> Make {
    let byte = [0, 1, b'a', 0xfe, 0xff][below(next, 5)];
    let stem: Vec<u8> = (0..below(next, 24)).map(|_| next() as u8).collect();
    let spread = 1_u64 << below(next, 64);
    let clusters: Vec<u64> = (0..=below(next, 12)).map(|_| next()).collect();
    match below(next, 9) {
        // Prefixes of each other.
        0 => Box::new(move |next| vec![byte; below(next, 400)]),
        1 => Box::new(move |next| [&stem[..], &vec![byte; below(next, 90)]].concat()),
        // Few bytes, the least and the greatest among them.
        2 => Box::new(move |next| {
            let len = below(next, 10);
            let bytes = (0..len).map(|_| [0, 1, byte, 0xfe, 0xff][below(next, 5)]);
            bytes.collect()
        }),
        3 => Box::new(|next| (0..below(next, 40)).map(|_| next() as u8).collect()),
        // Numbers close to some others, in both forms.
        4 => Box::new(move |next| {
            let from = clusters[below(next, clusters.len())];
            from.wrapping_add(next() % spread).to_be_bytes().to_vec()
        }),
        5 => Box::new(move |next| {
            let from = clusters[below(next, clusters.len())];
            format!("{}:{:020}", stem.len(), from.wrapping_add(next() % spread)).into_bytes()
        }),
        // Behind more bytes than a code looks at, alike or nearly so.
        6 => Box::new(move |next| {
            let mut key = vec![byte; 60 + below(next, 12)];
            key.extend((0..below(next, 4)).map(|_| next() as u8));
            key
        }),
        // Paths, of words that come again.
        7 => Box::new(move |next| {
            let words = (0..1 + below(next, 5)).map(|_| clusters[below(next, clusters.len())]);
            let words: Vec<String> = words.map(|word| format!("{:x}", word >> 44)).collect();
            words.join("/").into_bytes()
        }),
        // As long as a key can be; some of them differ at the very end only.
        _ => Box::new(move |next| {
            let len = 65_535 >> below(next, 17);
            let mut key = vec![byte; len];
            for _ in 0..below(next, 3) {
                let at = below(next, len + 1);
                match key.get_mut(at) {
                    Some(other) => *other = next() as u8,
                    None => drop(key.pop()),
                }
            }
            key
        }),
    }
}

/// Keys of one to three shapes, fewer if they are long.
fn keys(next: &mut dyn FnMut() -> u64) -> Vec<Vec<u8>> {
    let most = [3, 20, 150, 800][below(next, 4)];
    let count = 1 + below(next, most);
    let shapes: Vec<_> = (0..1 + below(next, 3)).map(|_| shape(next)).collect();
    let mut keys = Vec::new();
    let mut left = 300_000;
    while keys.len() < count && left > 0 {
        let key = shapes[below(next, shapes.len())](next);
        left -= (key.len() as i64 + 8).min(left);
        keys.push(key);
    }
    sorted(keys)
}

/// A segment of blocks of any lengths, some of which hold older versions of one key only.
struct Blocks {
    fences: Vec<Vec<u8>>,
    continues: Vec<bool>,
    filter: RangeFilter,
    body: Vec<u64>,
}

impl Blocks {
    fn new(keys: &[Vec<u8>], bits: f64, next: &mut dyn FnMut() -> u64) -> Option<Blocks> {
        let most = [1, 4, 40, 400][below(next, 4)];
        let mut builder = Builder::default();
        let (mut fences, mut continues) = (Vec::new(), Vec::new());
        let mut begin = |fence: &[u8], goes_on, builder: &mut Builder| {
            builder.begin_block(fence);
            fences.push(fence.to_vec());
            continues.push(goes_on);
        };
        begin(&keys[0], false, &mut builder);
        let mut left = 1 + below(next, most);
        for (at, key) in keys.iter().enumerate() {
            if left == 0 {
                begin(&separator(&keys[at - 1], key), false, &mut builder);
                left = 1 + below(next, most);
            }
            left -= 1;
            builder.add(key);
            for _ in 0..below(next, 40).saturating_sub(37) {
                begin(key, true, &mut builder);
                left = below(next, most);
            }
        }
        let last = &keys[keys.len() - 1];
        let built = builder.build(last, bits)?;
        let filter = RangeFilter::parse(&built.header, fences.len() as u32).unwrap();
        assert_eq!(filter.keys(), keys.len() as u64);
        // Of more blocks only some are measured.
        assert!(fences.len() > 128 || filter.fits(bits), "{bits} bits");
        fences.push(last.clone());
        Some(Blocks {
            fences,
            continues,
            filter,
            body: built.body,
        })
    }

    /// As a segment asks, for any bounds.
    fn may_hold(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
        let key_of = |bound| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        };
        let (first, last) = (&self.fences[0][..], &self.fences[self.continues.len()][..]);
        let is_outside = key_of(lower).is_some_and(|key| key > last)
            || key_of(upper).is_some_and(|key| key < first);
        if is_outside {
            return false;
        }
        let lower = key_of(lower).filter(|key| *key >= first);
        let upper = key_of(upper).filter(|key| *key <= last);
        let inner = &self.fences[1..self.continues.len()];
        let last_of = |key: &[u8]| inner.partition_point(|fence| **fence <= *key);
        let mut from = lower.map_or(0, last_of);
        while self.continues[from] && lower.is_some_and(|key| key == self.fences[from]) {
            from -= 1;
        }
        let to = upper.map_or(inner.len(), last_of);
        match to.saturating_sub(from) {
            0 => self.ask(from, (lower, upper)),
            1 => self.ask(from, (lower, None)) || self.ask(to, (None, upper)),
            _ => true,
        }
    }

    fn ask(&self, block: usize, range: (Option<&[u8]>, Option<&[u8]>)) -> bool {
        let words = self.filter.words(block as u32);
        let words = &self.body[words.start as usize..words.end as usize];
        let fences = Between {
            lower: &self.fences[block],
            upper: &self.fences[block + 1],
        };
        self.filter.may_hold((block as u32, words), fences, range)
    }
}

/// A key of the segment, one close to it, or any other one.
fn bound(keys: &[Vec<u8>], at: usize, next: &mut dyn FnMut() -> u64) -> Vec<u8> {
    let mut key = keys[at.min(keys.len() - 1)].clone();
    match below(next, 12) {
        0..=4 => {}
        5 => key.push(0),
        6 => key.push(0xff),
        7 => key.truncate(below(next, key.len() + 1)),
        8 => drop(key.pop()),
        9 => {
            if let Some(byte) = key.last_mut() {
                *byte = byte.wrapping_add(1);
            }
        }
        10 => {
            let place = below(next, key.len() + 1);
            if let Some(byte) = key.get_mut(place) {
                *byte = next() as u8;
            }
        }
        _ => key = shape(next)(next),
    }
    key
}

/// Bounds that often have no key between them, or bounds close to two keys.
fn pair(keys: &[Vec<u8>], at: usize, next: &mut dyn FnMut() -> u64) -> (Vec<u8>, Vec<u8>) {
    let one = bound(keys, at, next);
    let other = match below(next, 8) {
        0..=2 => one.clone(),
        3 => [&one[..], &[next() as u8]].concat(),
        4 => {
            let mut upper = one.clone();
            if let Some(last) = upper.last_mut() {
                *last = last.saturating_add(1);
            }
            upper
        }
        _ => {
            let farthest = [1, 2, 4, 400][below(next, 4)];
            let far = at + below(next, farthest);
            bound(keys, far, next)
        }
    };
    (one.clone().min(other.clone()), one.max(other))
}

fn try_segment(seed: u64, tally: &mut Tally) {
    let mut next = random(seed.wrapping_mul(0x9e37_79b9) + 1);
    let keys = keys(&mut next);
    let bits = [4.0, 7.5, 10.0, 16.0, 33.3, 64.0][below(&mut next, 6)];
    tally.segments += 1;
    let Some(blocks) = Blocks::new(&keys, bits, &mut next) else {
        tally.without_filter += 1;
        return;
    };
    for turn in 0..keys.len() * 3 {
        // Each key by itself, then pairs of keys and of others.
        let at = turn % keys.len();
        let (lower, upper) = if turn < keys.len() {
            (keys[at].clone(), keys[at].clone())
        } else {
            pair(&keys, at, &mut next)
        };
        let range = match below(&mut next, 16) {
            0 => (Bound::Unbounded, Bound::Included(&upper[..])),
            1 => (Bound::Included(&lower[..]), Bound::Unbounded),
            2 if lower < upper => (Bound::Excluded(&lower[..]), Bound::Excluded(&upper[..])),
            _ => (Bound::Included(&lower[..]), Bound::Included(&upper[..])),
        };
        let first = keys.partition_point(|key| match range.0 {
            Bound::Included(lower) => **key < *lower,
            Bound::Excluded(lower) => **key <= *lower,
            Bound::Unbounded => false,
        });
        let holds = keys.get(first).is_some_and(|key| match range.1 {
            Bound::Included(upper) => **key <= *upper,
            Bound::Excluded(upper) => **key < *upper,
            Bound::Unbounded => true,
        });
        let maybe = blocks.may_hold(range.0, range.1);
        assert!(maybe || !holds, "segment {seed}, {range:?}");
        tally.asked += 1;
        tally.hold_a_key += u64::from(holds);
        tally.refuted += u64::from(!maybe);
    }
}
