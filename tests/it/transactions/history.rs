//! Histories of transactions that append to lists, and the search for anomalies in them.
//!
//! As Elle does it (Kingsbury and Alvaro 2020): each element is unique, so a list tells in which order
//! it was written, and by whom. From that follows who must have been before whom: `ww` where one
//! overwrote what the other wrote, `wr` where one read it, `rw` where one read what the other then
//! overwrote. A circle is an anomaly, named after the edges in it (Adya 1999). Whoever has ended before
//! another began comes before it as well: that makes the levels strict. A deleted list that begins
//! anew has the next generation.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An element: its transaction times [`ELEMENTS_MAX`], and which of its elements it is.
pub(super) type Element = u32;

/// Elements of one transaction.
pub(super) const ELEMENTS_MAX: u32 = 16;

fn writer_of(element: Element) -> usize {
    (element / ELEMENTS_MAX) as usize
}

/// A state of a list; without elements it is absent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct Version {
    pub(super) generation: u32,
    pub(super) elements: Vec<Element>,
}

impl Version {
    pub(super) fn with(&self, element: Element) -> Version {
        let mut version = self.clone();
        version.elements.push(element);
        version
    }

    /// What a delete leaves.
    pub(super) fn deleted(&self) -> Version {
        Version {
            generation: self.generation + 1,
            elements: Vec::new(),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// What others have written was seen.
    Read(String, Version),
    /// A walk came by the key and found nothing.
    Missing(String),
    Write(String, Version),
    /// An element was appended without a look at the list: what others saw tells where it came.
    Append(String, Element),
}

/// One transaction, by its number in the history.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) is_committed: bool,
    /// Before it began, and after it had ended, by a clock of the history, where there is one.
    pub(super) span: Option<(u64, u64)>,
    pub(super) operations: Vec<Operation>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Anomaly {
    /// Writes of several in several orders.
    G0,
    /// A read of what was not committed.
    G1a,
    /// A read of what its writer has overwritten.
    G1b,
    /// Each has seen what the other wrote, or overwritten it.
    G1c,
    /// A circle with one `rw`: no snapshot explains it.
    GSingle,
    /// Two have overwritten the same version.
    LostUpdate,
    /// A circle with several `rw`, as write skew: a snapshot explains it, no order does.
    G2,
    /// A circle with at most one `rw` if time counts: what had ended before was not seen.
    Stale,
    /// A circle with several `rw` if time counts.
    G2InTime,
}

/// Whether lists may vanish, as in a FIFO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lists {
    Stay,
    Vanish,
}

type Edges = Vec<BTreeSet<usize>>;

/// The versions of a list that were committed, in order, and who wrote each.
type Chain = Vec<(Version, usize)>;

/// The anomalies of a history, and where.
pub(super) fn check(history: &[Record], lists: Lists) -> Vec<(Anomaly, String)> {
    let (history, lost) = placed(history);
    let history: Vec<Record> = match lists {
        Lists::Stay => history,
        Lists::Vanish => history.iter().map(without_absent).collect(),
    };
    let mut search = Search::new(&history);
    search.found.extend(lost);
    search.order_versions();
    search.follow_reads();
    search.find_circles();
    search.found
}

/// A history with writes in place of appends, and those that nobody ever saw: a history with appends
/// ends with a look at all lists.
fn placed(history: &[Record]) -> (Vec<Record>, Vec<(Anomaly, String)>) {
    let mut versions: HashMap<(&str, Element), Version> = HashMap::new();
    for operation in history.iter().flat_map(|record| &record.operations) {
        if let Operation::Read(key, version) | Operation::Write(key, version) = operation {
            for (at, element) in version.elements.iter().enumerate() {
                versions.entry((key, *element)).or_insert_with(|| Version {
                    generation: version.generation,
                    elements: version.elements[..=at].to_vec(),
                });
            }
        }
    }
    let mut lost = Vec::new();
    let mut place = |record: &Record| {
        let operations = record.operations.iter().filter_map(|operation| {
            let Operation::Append(key, element) = operation else {
                return Some(operation.clone());
            };
            let version = versions.get(&(key.as_str(), *element));
            if version.is_none() && record.is_committed {
                lost.push((Anomaly::LostUpdate, format!("{key}: {element} is nowhere")));
            }
            version.map(|version| Operation::Write(key.clone(), version.clone()))
        });
        Record {
            operations: operations.collect(),
            ..record.clone()
        }
    };
    let placed = history.iter().map(&mut place).collect();
    (placed, lost)
}

/// Lists that begin with another element are other lists; one that is absent says nothing.
fn without_absent(record: &Record) -> Record {
    let name = |key: &String, version: &Version| {
        let first = version.elements.first()?;
        Some(format!("{key} from {first}"))
    };
    let operations = record.operations.iter().filter_map(|operation| {
        Some(match operation {
            Operation::Read(key, seen) => Operation::Read(name(key, seen)?, seen.clone()),
            Operation::Write(key, wrote) => Operation::Write(name(key, wrote)?, wrote.clone()),
            Operation::Missing(_) | Operation::Append(..) => return None,
        })
    });
    Record {
        operations: operations.collect(),
        ..record.clone()
    }
}

struct Search<'a> {
    history: &'a [Record],
    chains: BTreeMap<&'a str, Chain>,
    /// Keys that were ever deleted: there, nothing may be one nothing or the other.
    deleted: BTreeSet<&'a str>,
    /// Versions that their own writers have overwritten.
    passing: HashMap<(&'a str, &'a Version), usize>,
    ww: Edges,
    wr: Edges,
    rw: Edges,
    found: Vec<(Anomaly, String)>,
}

impl<'a> Search<'a> {
    fn new(history: &'a [Record]) -> Search<'a> {
        let edges = || vec![BTreeSet::new(); history.len()];
        let mut search = Search {
            history,
            chains: BTreeMap::new(),
            deleted: BTreeSet::new(),
            passing: HashMap::new(),
            ww: edges(),
            wr: edges(),
            rw: edges(),
            found: Vec::new(),
        };
        for (number, record) in history.iter().enumerate() {
            search.take_writes(number, record);
        }
        search
    }

    fn take_writes(&mut self, number: usize, record: &'a Record) {
        let mut last: BTreeMap<&str, &Version> = BTreeMap::new();
        for operation in &record.operations {
            let Operation::Write(key, version) = operation else {
                continue;
            };
            if version.elements.is_empty() {
                self.deleted.insert(key);
            }
            if let Some(before) = last.insert(key, version) {
                self.passing.insert((key, before), number);
            }
        }
        if record.is_committed {
            for (key, version) in last {
                let chain = self.chains.entry(key).or_default();
                chain.push((version.clone(), number));
            }
        }
    }

    fn order_versions(&mut self) {
        for (key, chain) in &mut self.chains {
            chain.sort_by_key(|(version, _)| (version.generation, version.elements.len()));
            for pair in chain.windows(2) {
                let [(one, first), (other, second)] = pair else {
                    unreachable!("windows of two");
                };
                let is_next = one.generation < other.generation
                    || one.elements.len() < other.elements.len()
                        && other.elements.starts_with(&one.elements);
                if !is_next {
                    let what = format!("{key}: {one:?} of {first}, {other:?} of {second}");
                    self.found.push((Anomaly::LostUpdate, what));
                }
                if first != second {
                    self.ww[*first].insert(*second);
                }
            }
        }
    }

    fn follow_reads(&mut self) {
        let history = self.history;
        for (number, record) in history.iter().enumerate() {
            if !record.is_committed {
                continue;
            }
            for operation in &record.operations {
                match operation {
                    Operation::Read(key, seen) => self.follow_read(number, key, seen),
                    Operation::Missing(key) if !self.deleted.contains(&**key) => {
                        self.follow_read(number, key, &Version::default());
                    }
                    Operation::Missing(_) | Operation::Write(..) | Operation::Append(..) => {}
                }
            }
        }
    }

    fn follow_read(&mut self, number: usize, key: &str, seen: &Version) {
        let what = || format!("{key}: {number} saw {seen:?}");
        let mut writers = seen.elements.iter().map(|element| writer_of(*element));
        if writers.any(|writer| !self.history[writer].is_committed) {
            return self.found.push((Anomaly::G1a, what()));
        }
        let chain = self.chains.get(key).map_or(&[][..], |chain| &chain[..]);
        // Two may have deleted the same list, and only one of them goes on.
        let at = chain.iter().position(|(version, _)| version == seen);
        let passing = self.passing.get(&(key, seen)).filter(|_| at.is_none());
        if passing.is_some_and(|writer| *writer != number) {
            return self.found.push((Anomaly::G1b, what()));
        }
        let next = match at {
            Some(at) => {
                let writer = chain[at].1;
                if writer != number {
                    self.wr[writer].insert(number);
                }
                at + 1
            }
            None if *seen == Version::default() => 0,
            None => return self.found.push((Anomaly::G1a, what())),
        };
        if let Some((_, next)) = chain.get(next)
            && *next != number
        {
            self.rw[number].insert(*next);
        }
    }

    /// Whether there is one, which is then noted.
    fn note(&mut self, anomaly: Anomaly, circle: Option<Vec<usize>>) -> bool {
        let is_found = circle.is_some();
        let what = circle.map(|circle| (anomaly, format!("{circle:?}")));
        self.found.extend(what);
        is_found
    }

    /// Notes the worst kind of circle that there is: others contain it, too.
    fn find_circles(&mut self) {
        let both = union(&self.ww, &self.wr);
        let all = union(&both, &self.rw);
        if self.note(Anomaly::G0, circle_in(&self.ww))
            || self.note(Anomaly::G1c, circle_in(&both))
            || self.note(Anomaly::GSingle, circle_with_one(&self.rw, &both))
            || self.note(Anomaly::G2, circle_in(&all))
        {
            return;
        }
        let time = self.time_order();
        let both = union(&both, &time);
        let stale = circle_in(&both).or_else(|| circle_with_one(&self.rw, &both));
        if !self.note(Anomaly::Stale, stale) {
            self.note(Anomaly::G2InTime, circle_in(&union(&all, &time)));
        }
    }

    /// From each to those that began after it had ended, without what follows from others.
    fn time_order(&self) -> Edges {
        let committed = self.history.iter().enumerate();
        let spans = committed.filter(|(_, record)| record.is_committed);
        let spans = spans.filter_map(|(number, record)| Some((number, record.span?)));
        let spans: Vec<(usize, (u64, u64))> = spans.collect();
        let mut edges = vec![BTreeSet::new(); self.history.len()];
        for (number, (begun, _)) in &spans {
            let before = spans.iter().filter(|(_, (_, ended))| ended < begun);
            let last_begun = before.clone().map(|(_, (begun, _))| *begun).max();
            for (other, (_, ended)) in before {
                if Some(*ended) >= last_begun {
                    edges[*other].insert(*number);
                }
            }
        }
        edges
    }
}

/// A circle of one of the single edges and any of the others.
fn circle_with_one(singles: &Edges, others: &Edges) -> Option<Vec<usize>> {
    let singles = singles.iter().enumerate();
    let mut singles = singles.flat_map(|(from, to)| to.iter().map(move |to| (from, *to)));
    singles.find_map(|(from, to)| path(others, to, from))
}

fn union(one: &Edges, other: &Edges) -> Edges {
    let pairs = one.iter().zip(other);
    pairs.map(|(one, other)| one | other).collect()
}

/// A way from one to another, if there is one.
fn path(edges: &Edges, from: usize, to: usize) -> Option<Vec<usize>> {
    let mut before: BTreeMap<usize, usize> = BTreeMap::new();
    let mut waiting = vec![from];
    while let Some(at) = waiting.pop() {
        if at == to {
            let mut way = vec![to];
            while *way.last()? != from {
                way.push(before[way.last()?]);
            }
            way.reverse();
            return Some(way);
        }
        for next in &edges[at] {
            if *next != from && !before.contains_key(next) {
                before.insert(*next, at);
                waiting.push(*next);
            }
        }
    }
    None
}

/// Some circle, if there is one.
fn circle_in(edges: &Edges) -> Option<Vec<usize>> {
    // Whoever has nothing before, or nothing behind, is on none.
    let mut left: BTreeSet<usize> = (0..edges.len()).collect();
    loop {
        let has_before: BTreeSet<usize> = left
            .iter()
            .flat_map(|at| edges[*at].iter().copied())
            .collect();
        let stays = |at: &usize| {
            has_before.contains(at) && edges[*at].iter().any(|next| left.contains(next))
        };
        let next: BTreeSet<usize> = left.iter().copied().filter(stays).collect();
        if next.len() == left.len() {
            break;
        }
        left = next;
    }
    left.iter().find_map(|at| {
        let mut ways = edges[*at].iter();
        ways.find_map(|next| path(edges, *next, *at))
    })
}

/// `1 r x[1,2] w y[3] c`: transaction 1 reads, writes and commits.
fn parse(text: &str) -> Vec<Record> {
    let mut history: Vec<Record> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut record = Record::default();
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "c" => record.is_committed = true,
                "a" => {}
                kind => {
                    let (key, list) = words.next().unwrap().split_once('[').unwrap();
                    let elements = list.trim_end_matches(']').split(',');
                    let elements = elements.filter(|element| !element.is_empty());
                    // The transaction and the place: "2b" is the second of transaction 2.
                    let element = |text: &str| {
                        let (number, place) = text.split_at(text.len() - 1);
                        let place = u32::from(place.as_bytes()[0] - b'a');
                        number.parse::<u32>().unwrap() * ELEMENTS_MAX + place
                    };
                    let version = Version {
                        generation: 0,
                        elements: elements.map(element).collect(),
                    };
                    let key = key.to_owned();
                    record.operations.push(match kind {
                        "r" => Operation::Read(key, version),
                        "w" => Operation::Write(key, version),
                        "m" => Operation::Missing(key),
                        other => panic!("{other}"),
                    });
                }
            }
        }
        history.push(record);
    }
    history
}

#[test]
fn planted_anomalies_are_found_and_named() {
    let found = |text: &str| -> Vec<Anomaly> {
        let found = check(&parse(text), Lists::Stay);
        found.into_iter().map(|(anomaly, _)| anomaly).collect()
    };
    use Anomaly::{G0, G1a, G1b, G1c, G2, GSingle, LostUpdate};
    let cases: [(&str, &str, &[Anomaly]); 11] = [
        (
            "one after the other",
            "r x[] w x[0a] c
             r x[0a] w x[0a,1a] r y[] w y[1b] c
             r x[0a,1a] r y[1b] c",
            &[],
        ),
        (
            "dirty write",
            "w x[0a] w y[1b,0b] c
             w x[0a,1a] w y[1b] c",
            &[G0],
        ),
        ("aborted read", "w x[0a] a\nr x[0a] c", &[G1a]),
        ("a read of nothing that ever was", "c\nr x[0a] c", &[G1a]),
        (
            "intermediate read",
            "w x[0a] w x[0a,0b] c\nr x[0a] c",
            &[G1b],
        ),
        (
            "circular information flow",
            "w x[0a] r y[1a] c\nw y[1a] r x[0a] c",
            &[G1c],
        ),
        (
            "read skew",
            "w x[0a] w y[0b] c\nr x[] r y[0b] c",
            &[GSingle],
        ),
        (
            "a phantom that is half seen",
            "w x[0a] w y[0b] c\nm x[] r y[0b] c",
            &[GSingle],
        ),
        (
            "lost update",
            "w x[0a] c\nr x[0a] w x[0a,1a] c\nr x[0a] w x[0a,2a] c",
            &[LostUpdate, GSingle],
        ),
        ("write skew", "r y[] w x[0a] c\nr x[] w y[1a] c", &[G2]),
        (
            "write skew by phantoms",
            "m y[] w x[0a] c\nm x[] w y[1a] c",
            &[G2],
        ),
    ];
    for (name, text, wanted) in cases {
        assert_eq!(found(text), wanted, "{name}");
    }
    // Those of which nothing remains in the history do not count.
    assert_eq!(found("r y[] w x[0a] c\nr x[] w y[1a] a"), []);
}

#[test]
fn what_has_ended_before_must_be_seen() {
    let found = |text: &str, spans: &[(u64, u64)]| -> Vec<Anomaly> {
        let mut history = parse(text);
        for (record, span) in history.iter_mut().zip(spans) {
            record.span = Some(*span);
        }
        let found = check(&history, Lists::Stay);
        found.into_iter().map(|(anomaly, _)| anomaly).collect()
    };
    let late = "w x[0a] c\nr x[] c";
    assert_eq!(found(late, &[(0, 1), (2, 3)]), [Anomaly::Stale]);
    assert_eq!(found(late, &[(0, 2), (1, 3)]), []);
    // The third saw neither of the others, and the first had ended before it began.
    let skew = "w x[0a] c\nr x[] w y[1a] c\nr y[] c";
    assert_eq!(found(skew, &[(1, 2), (0, 5), (3, 4)]), [Anomaly::G2InTime]);
    assert_eq!(found(skew, &[(1, 4), (0, 5), (3, 6)]), []);
}

#[test]
fn deletes_begin_a_list_anew() {
    let list = |generation, elements: &[Element]| Version {
        generation,
        elements: elements.to_vec(),
    };
    let read = |seen: &Version| Operation::Read("x".to_owned(), seen.clone());
    let write = |wrote: &Version| Operation::Write("x".to_owned(), wrote.clone());
    let tx = |operations: Vec<Operation>| Record {
        is_committed: true,
        span: None,
        operations,
    };
    let first = list(0, &[0]);
    let again = first.deleted().with(2 * ELEMENTS_MAX);
    let mut history = vec![
        tx(vec![read(&list(0, &[])), write(&first)]),
        tx(vec![read(&first), write(&first.deleted())]),
        tx(vec![read(&first.deleted()), write(&again)]),
        tx(vec![read(&again)]),
    ];
    assert_eq!(check(&history, Lists::Stay), []);
    // Another deletes what was deleted.
    history.push(tx(vec![read(&first), write(&first.deleted())]));
    let found = check(&history, Lists::Stay);
    assert_eq!(found[0].0, Anomaly::LostUpdate, "{found:?}");
    // A list that vanishes is no anomaly, where that may be.
    let history = [
        tx(vec![write(&first)]),
        tx(vec![read(&list(0, &[])), write(&list(0, &[ELEMENTS_MAX]))]),
    ];
    assert_eq!(check(&history, Lists::Vanish), []);
    assert_ne!(check(&history, Lists::Stay), []);
}

#[test]
fn appends_are_placed_by_who_saw_them_and_lost_ones_are_found() {
    let list = |elements: &[Element]| Version {
        generation: 0,
        elements: elements.to_vec(),
    };
    let read = |elements: &[Element]| Operation::Read("x".to_owned(), list(elements));
    let append = |element| Operation::Append("x".to_owned(), element);
    let tx = |operations: Vec<Operation>| Record {
        is_committed: true,
        span: None,
        operations,
    };
    let (first, second) = (0, ELEMENTS_MAX);
    let found = |last: Operation| -> Vec<Anomaly> {
        let unseen = [tx(vec![append(first)]), tx(vec![append(second)])];
        let history = [&unseen[..], &[tx(vec![last])]].concat();
        let found = check(&history, Lists::Stay);
        found.into_iter().map(|(anomaly, _)| anomaly).collect()
    };
    assert_eq!(found(read(&[first, second])), []);
    assert_eq!(found(read(&[second, first])), []);
    assert_eq!(found(read(&[first])), [Anomaly::LostUpdate]);
}
