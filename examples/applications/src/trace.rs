//! Requests for objects with sizes: made up, or recorded.

use std::collections::HashMap;
use std::path::Path;

use common::escape::Plain;

use crate::{Error, Random, Result, Zipf};

/// A request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The number of the object.
    pub object: u64,
    /// The bytes of the object, always the same.
    pub size: u64,
    /// Whether the trace has no other request for it: a one-hit wonder.
    pub is_only: bool,
}

/// Requests in order.
#[derive(Debug)]
pub struct Trace {
    /// Where it comes from.
    pub name: String,
    /// The requests.
    pub requests: Vec<Request>,
    /// How many distinct objects there are.
    pub objects: u64,
    /// The size of all distinct objects.
    pub bytes: u64,
    /// How many objects are requested only once.
    pub one_hit_wonders: u64,
}

const BUILD: &str = include_str!("../data/build.trace");

impl Trace {
    /// The trace of the package: which files a build opened.
    ///
    /// # Errors
    ///
    /// None, if the package is whole.
    pub fn of_a_build() -> Result<Trace> {
        parse("Files that a build opened", BUILD)
    }

    /// A trace that a user has recorded: an object in each line, by any name. A tab and its size may
    /// follow; a line without a size has that of an earlier line, or else 1. Lines that begin with `#` are
    /// comments.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, has a size that is no number, or has no requests.
    pub fn read(path: &Path) -> Result<Trace> {
        #[expect(clippy::disallowed_methods, reason = "the user names this file")]
        let bytes = std::fs::read(path).map_err(Error::file(path))?;
        let name = path.display().to_string();
        parse(&name, &String::from_utf8_lossy(&bytes))
    }

    /// The bytes of a cache that has room for this share of all objects.
    pub fn capacity(&self, share: f64) -> u64 {
        (self.bytes as f64 * share).ceil() as u64
    }

    fn new(name: String, pairs: &[(u64, u64)]) -> Trace {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        let mut bytes = 0;
        for (object, size) in pairs {
            let count = counts.entry(*object).or_insert(0);
            bytes += if *count == 0 { *size } else { 0 };
            *count += 1;
        }
        let request = |&(object, size): &(u64, u64)| Request {
            object,
            size,
            is_only: counts[&object] == 1,
        };
        Trace {
            name,
            requests: pairs.iter().map(request).collect(),
            objects: counts.len() as u64,
            bytes,
            one_hit_wonders: counts.values().filter(|count| **count == 1).count() as u64,
        }
    }
}

fn parse(name: &str, text: &str) -> Result<Trace> {
    let mut numbers: HashMap<&str, u64> = HashMap::new();
    let mut sizes: HashMap<u64, u64> = HashMap::new();
    let mut pairs = Vec::new();
    for (line, number) in text.lines().zip(1_u64..) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (object, size) = match line.split_once('\t') {
            None => (line, None),
            Some((object, size)) => (object, Some(size)),
        };
        let next = numbers.len() as u64;
        let object = *numbers.entry(object).or_insert(next);
        if let Some(size) = size {
            let size = size.trim().parse::<u32>().map_err(|error| {
                Error::Usage(format!(
                    "{name}, line {number}: {size:?} is no size in bytes ({error}); a line is an object, or an \
                     object, a tab and its size",
                ))
            })?;
            sizes.insert(object, size.into());
        }
        pairs.push(object);
    }
    if pairs.is_empty() {
        let what = format!("{name} has no requests: it needs an object in each line");
        return Err(Error::Usage(what));
    }
    let with_size = |&object| (object, sizes.get(&object).copied().unwrap_or(1));
    let pairs: Vec<(u64, u64)> = pairs.iter().map(with_size).collect();
    // The name of a file reaches the terminal.
    Ok(Trace::new(Plain(name).to_string(), &pairs))
}

/// Objects that are requested by Zipf's law, independent of each other, and have sizes with a heavy tail.
#[derive(Debug)]
pub struct Catalogue {
    zipf: Zipf,
    sizes: Vec<u64>,
}

/// The sizes follow Pareto's law between these bytes. Crovella, Bestavros, "Self-similarity in World Wide
/// Web traffic" (1997), section 4: the exponent of files in the web is between 1.0 and 1.3.
const SIZES: std::ops::RangeInclusive<f64> = 2e3..=2e6;
const SIZE_EXPONENT: f64 = 1.2;

impl Catalogue {
    /// So many objects, of which the `n`-th is requested with a frequency of `1 / n^exponent`.
    pub fn new(objects: u64, exponent: f64, seed: u64) -> Catalogue {
        let mut random = Random::new(seed, 1);
        let mut size = |_| {
            let tail = (1.0 - random.share()).powf(-1.0 / SIZE_EXPONENT);
            (SIZES.start() * tail).min(*SIZES.end()) as u64
        };
        Catalogue {
            zipf: Zipf::new(objects, exponent),
            sizes: (0..objects).map(&mut size).collect(),
        }
    }

    /// So many requests.
    pub fn trace(&self, requests: u64, seed: u64) -> Trace {
        let mut random = Random::new(seed, 2);
        let draw = |_| {
            let object = self.zipf.draw(&mut random);
            (object, self.sizes[object as usize])
        };
        let pairs: Vec<(u64, u64)> = (0..requests).map(draw).collect();
        Trace::new("Made up by Zipf's law".into(), &pairs)
    }

    /// The share of the requests and the size of each object.
    pub fn objects(&self) -> Vec<(f64, f64)> {
        let sizes = self.sizes.iter().zip(0..);
        let object = |(size, item): (&u64, u64)| (self.zipf.probability(item), *size as f64);
        sizes.map(object).collect()
    }

    /// The share of one-hit wonders to expect among the distinct objects of so many requests: how often an
    /// object comes follows Poisson's law.
    pub fn one_hit_wonders(&self, requests: u64) -> f64 {
        let (mut once, mut ever) = (0.0, 0.0);
        for (share, _) in self.objects() {
            let times = share * requests as f64;
            once += times * (-times).exp();
            ever -= (-times).exp_m1();
        }
        once / ever
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_objects_with_sizes() {
        let trace = parse("test", "# none\na\t5\nb\n\na\nc d\t0\n").unwrap();
        let request = |object, size, is_only| Request {
            object,
            size,
            is_only,
        };
        let requests = [
            request(0, 5, false),
            request(1, 1, true),
            request(0, 5, false),
            request(2, 0, true),
        ];
        assert_eq!(trace.requests, requests);
        let numbers = (trace.objects, trace.bytes, trace.one_hit_wonders);
        assert_eq!(numbers, (3, 6, 2));
    }

    #[test]
    fn bad_lines_are_named() {
        let error = parse("x", "a\t5\nb\tmuch\n").unwrap_err().to_string();
        assert!(error.contains("x, line 2: \"much\""), "{error}");
        assert!(parse("x", "a\t-1").is_err() && parse("x", "# a\n\n").is_err());
    }

    #[test]
    fn the_trace_of_the_package_is_read() {
        let trace = Trace::of_a_build().unwrap();
        assert_eq!(trace.requests.len(), 9_118);
        assert_eq!((trace.objects, trace.bytes), (1_729, 981_663_377));
    }
}
