//! One rule, and whether it matches a path.
//!
//! A file may have tens of thousands of rules with wildcards, and for each address all of them may
//! have to be looked at. So most are ruled out by pairs of neighbouring bytes that the path does
//! not have; the others cost a pass over the path, whatever they and it repeat.

use std::cmp::Reverse;

use memchr::memmem;

use super::normal_path;

/// Pairs that a rule names: more of them rule out more, and take more memory.
const NAMED: usize = 4;

/// In the order in which they are tried: the longest first, and of those of one length `Allow`
/// first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    len: Reverse<usize>,
    allows: Reverse<bool>,
    /// Normalised; `*` is the wildcard, a literal one is `%2A`.
    pattern: Box<[u8]>,
    /// The pattern ended with `$`.
    is_anchored: bool,
    /// Bytes that are no wildcards: a path has at least as many.
    literal_len: usize,
    /// Pairs that every path has which the rule matches.
    named: [u16; NAMED],
}

impl Rule {
    pub(crate) fn new(allows: bool, path: &[u8]) -> Rule {
        let (path, is_anchored) = match path.strip_suffix(b"$") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let mut pattern = Vec::with_capacity(path.len());
        let (mut wildcards, mut literal_len) = (0, 0);
        for (nth, part) in path.split(|&byte| byte == b'*').enumerate() {
            wildcards += usize::from(nth > 0);
            // Several in a row are as good as one.
            if nth > 0 && pattern.last() != Some(&b'*') {
                pattern.push(b'*');
            }
            let part = normal_path(part);
            literal_len += part.len();
            pattern.extend_from_slice(&part);
        }
        Rule {
            len: Reverse(literal_len + wildcards + usize::from(is_anchored)),
            allows: Reverse(allows),
            named: named(&pattern),
            pattern: pattern.into(),
            is_anchored,
            literal_len,
        }
    }

    pub(super) fn allows(&self) -> bool {
        self.allows.0
    }

    pub(super) fn has_wildcard(&self) -> bool {
        self.pattern.contains(&b'*')
    }

    /// Whether a path with these pairs may match: without looking at it.
    pub(super) fn is_possible(&self, pairs: &Pairs) -> bool {
        self.named.iter().all(|&pair| pairs.has(pair))
    }

    /// Whether a normalised path begins with the pattern, or is all of it if anchored.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        self.matches_by(path, memmem::find)
    }

    /// As above, with what finds a part in a path: a test counts what is searched.
    pub(super) fn matches_by(
        &self,
        path: &[u8],
        mut find: impl FnMut(&[u8], &[u8]) -> Option<usize>,
    ) -> bool {
        if path.len() < self.literal_len {
            return false;
        }
        let mut parts = self.pattern.split(|&byte| byte == b'*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = path.strip_prefix(first) else {
            return false;
        };
        let mut last = None;
        for part in parts {
            // The earliest place leaves most for the parts that follow.
            if let Some(part) = last.replace(part) {
                let Some(at) = find(rest, part) else {
                    return false;
                };
                rest = &rest[at + part.len()..];
            }
        }
        match (last, self.is_anchored) {
            (None, is_anchored) => rest.is_empty() || !is_anchored,
            (Some(part), true) => rest.ends_with(part),
            (Some(part), false) => find(rest, part).is_some(),
        }
    }
}

/// Some pairs of a pattern, from all of its length.
fn named(pattern: &[u8]) -> [u16; NAMED] {
    let pairs = || pattern.windows(2).filter(|pair| !pair.contains(&b'*'));
    let step = pairs().count().div_ceil(NAMED).max(1);
    let mut named = [Pairs::ALWAYS; NAMED];
    for (named, pair) in named.iter_mut().zip(pairs().step_by(step)) {
        *named = place(pair);
    }
    named
}

/// The pairs of neighbouring bytes in a path, hashed: "no" is certain, "yes" is not.
#[derive(Debug)]
pub(super) struct Pairs([u64; 64]);

impl Pairs {
    /// A place that every path has.
    const ALWAYS: u16 = 0;

    pub(super) fn of(path: &[u8]) -> Pairs {
        let mut pairs = Pairs([0; 64]);
        pairs.0[0] = 1;
        for pair in path.windows(2) {
            let place = place(pair);
            pairs.0[usize::from(place / 64)] |= 1 << (place % 64);
        }
        pairs
    }

    fn has(&self, place: u16) -> bool {
        self.0[usize::from(place / 64)] >> (place % 64) & 1 == 1
    }
}

/// One of 4096.
fn place(pair: &[u8]) -> u16 {
    (u16::from(pair[0]) << 5 ^ u16::from(pair[1])) & 0xfff
}
