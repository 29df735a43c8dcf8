use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use common::codec::Malformed;
use url::{Position, Url};

use super::{Budgets, COUNTS, Counts, GAIN, GROUPS_MAX, Limits, SEEN, TRAP_BUDGET, Write};
use crate::address::Normal;
use crate::novelty::Verdict;
use crate::page;
use crate::reason::Reason;
use crate::sketch::Sketch;

/// A store in memory.
#[derive(Debug, Default)]
struct Memory(HashMap<Vec<u8>, Vec<u8>>);

impl Memory {
    fn load(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
        Ok(self.0.get(key).cloned())
    }

    fn write(&mut self, writes: Vec<Write>) {
        for write in writes {
            self.0.insert(write.key, write.value);
        }
    }

    fn counts(&self, name: &str) -> Counts {
        Counts::decode(&self.0[&super::key(COUNTS, name)]).unwrap()
    }
}

pub(super) fn limits(trap_budget: u64) -> Limits {
    Limits {
        trap_budget,
        host_pages: None,
        directory_pages: None,
    }
}

/// The pages and refusals that a crawl has met.
#[derive(Debug, Default)]
pub(super) struct Met {
    /// Path and query of all that was asked for.
    pub(super) requested: BTreeSet<String>,
    /// Of these, the pages.
    pub(super) pages: BTreeSet<String>,
    pub(super) verdicts: BTreeMap<&'static str, u64>,
    /// Old pages that led on.
    pub(super) led_on: u64,
    /// For each group, the most old pages beyond what its new ones pay for, and its last counts.
    pub(super) needs: BTreeMap<String, (i64, Counts)>,
    left_out: BTreeMap<Reason, BTreeSet<String>>,
}

/// Crawls a host breadth first, with one request at a time. `site` gives HTML for an address.
pub(super) fn crawl(limits: Limits, mut site: impl FnMut(&Url) -> Option<String>) -> Met {
    let normal = Normal {
        strip_tracking: true,
    };
    let (mut budgets, mut memory) = (Budgets::new(limits), Memory::default());
    let mut met = Met::default();
    let root = Url::parse("http://host/").unwrap();
    let mut seen = BTreeSet::from([root.to_string()]);
    let mut waiting = VecDeque::from([root]);
    let mut room = page::Room::default();
    let path = |url: &Url| url[Position::BeforePath..].to_owned();
    while let Some(url) = waiting.pop_front() {
        let admitted = budgets.admit(&url, &mut |key: &[u8]| memory.load(key));
        if let Some(reason) = admitted.unwrap() {
            met.left_out.entry(reason).or_default().insert(path(&url));
            continue;
        }
        met.requested.insert(path(&url));
        let Some(html) = site(&url) else {
            budgets.release(&url);
            continue;
        };
        met.pages.insert(path(&url));
        let page = page::read(
            html.as_bytes(),
            page::Said::default(),
            &url,
            normal,
            &mut room,
        );
        let read = budgets.read(&url, &page.sketch, &mut |key: &[u8]| memory.load(key));
        let read = read.unwrap();
        let mut leads_on = false;
        for target in page
            .addresses
            .iter()
            .filter(|to| to.starts_with("http://host/"))
        {
            let target = Url::parse(target).unwrap();
            match read.left_out {
                Some(_) if seen.contains(target.as_str()) => {}
                Some(reason) => {
                    met.left_out
                        .entry(reason)
                        .or_default()
                        .insert(path(&target));
                }
                None if seen.insert(target.to_string()) => {
                    waiting.push_back(target);
                    leads_on = true;
                }
                None => {}
            }
        }
        let writes = budgets.finish(&read, leads_on, &mut |key: &[u8]| memory.load(key));
        let writes = writes.unwrap();
        met.note(read.verdict, leads_on, &writes);
        memory.write(writes);
    }
    met
}

impl Met {
    fn note(&mut self, verdict: Verdict, leads_on: bool, writes: &[Write]) {
        let name = match verdict {
            Verdict::New => "new",
            Verdict::Old => "old",
            Verdict::Unknown => "unknown",
        };
        *self.verdicts.entry(name).or_default() += 1;
        self.led_on += u64::from(verdict == Verdict::Old && leads_on);
        for write in writes.iter().filter(|write| write.key[0] == COUNTS) {
            let counts = Counts::decode(&write.value).unwrap();
            let name = String::from_utf8(write.key[1..].to_vec()).unwrap();
            let need = counts.old as i64 - (GAIN * counts.new) as i64;
            let most = self.needs.entry(name).or_insert((need, counts));
            *most = (most.0.max(need), counts);
        }
    }
}

/// A text of words that depend on a seed.
fn text(seed: u64, count: u64) -> String {
    let word = |at: u64| {
        (seed + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(at * at * 7919)
            >> 13
    };
    (0..count)
        .map(|at| format!("w{} ", word(at) % 50_021))
        .collect()
}

fn page(title: &str, text: &str, links: impl IntoIterator<Item = String>) -> Option<String> {
    let links = links
        .into_iter()
        .map(|to| format!("<a href=\"{to}\">There</a> "));
    let links: String = links.collect();
    Some(format!(
        "<title>{title}</title><h1>{title}</h1><p>{text}<p>{links}"
    ))
}

/// Good pages: a tree in which each page is found, and that leads to what is below it.
fn good(path: &str, fan: u64, count: u64) -> Option<String> {
    let number: u64 = path.strip_prefix("/good/")?.parse().ok()?;
    let below = (fan * number + 1..=fan * number + fan).filter(|&to| to < count);
    page(
        "Good",
        &text(number, 150),
        below.map(|to| format!("/good/{to}")),
    )
}

const NAMES: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A calendar without end in both directions.
fn calendar(url: &Url) -> Option<String> {
    let mut values = url.query_pairs().map(|(_, value)| value.into_owned());
    let year: i64 = values.next()?.parse().ok()?;
    let month: i64 = values.next()?.parse().ok()?;
    let month = year * 12 + month - 1;
    let link = |month: i64| {
        format!(
            "/cal?y={}&amp;m={}",
            month.div_euclid(12),
            month.rem_euclid(12) + 1
        )
    };
    // A grid that begins on another day in each month, with the days before and after.
    let first = month.rem_euclid(7);
    let days: String = (0..42)
        .map(|cell| format!("<td>{} ", (cell + 31 - first) % 31 + 1))
        .collect();
    let name = NAMES[month.rem_euclid(12) as usize];
    let title = format!("{name} {year}");
    let grid = format!("Mo Tu We Th Fr Sa Su <table>{days}</table>");
    page(&title, &grid, [link(month - 1), link(month + 1)])
}

#[test]
fn a_calendar_ends() {
    let met = crawl(limits(TRAP_BUDGET), |url| match url.path() {
        "/cal" => calendar(url),
        "/" => page(
            "Front",
            "",
            ["/good/0".into(), "/cal?y=2026&amp;m=1".into()],
        ),
        path => good(path, 3, 300),
    });
    let months = met.requested.iter().filter(|path| path.starts_with("/cal"));
    let months = months.count();
    assert!((100..1000).contains(&months), "{months}");
    assert_eq!(
        met.pages
            .iter()
            .filter(|path| path.starts_with("/good/"))
            .count(),
        300
    );
    assert!(met.left_out[&Reason::NothingNewInDirectory].len() < 10);
}

#[test]
fn a_calendar_with_dates_in_its_days_ends() {
    let met = crawl(limits(TRAP_BUDGET), |url| match url.path() {
        "/cal" => {
            let (path, html) = (url[Position::BeforePath..].to_owned(), calendar(url)?);
            Some(html.replace("<td>", &format!("<td><a href=/>Events on {path}</a> ")))
        }
        "/" => page("Front", "", ["/cal?y=2026&amp;m=1".into()]),
        _ => None,
    });
    assert!(
        (100..1000).contains(&met.requested.len()),
        "{}",
        met.requested.len()
    );
}

/// Every link of every page has a session that was not there before.
#[test]
fn sessions_end_and_all_pages_are_there() {
    let mut session = 0_u64;
    let met = crawl(limits(TRAP_BUDGET), |url| {
        let number: u64 = match url.path() {
            "/" => 0,
            path => path
                .strip_prefix("/p")?
                .parse()
                .ok()
                .filter(|&page| page < 30)?,
        };
        let link = |to: u64| {
            session = (session + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            format!("/p{to}?sid={session:x}")
        };
        page("A page", &text(number, 120), (0..30).map(link))
    });
    let requests = met.requested.len();
    assert!((100..1000).contains(&requests), "{requests}");
    let paths = met.pages.iter().map(|page| page.split('?').next());
    assert_eq!(paths.collect::<BTreeSet<_>>().len(), 31);
}

/// Folders without end, and good pages beside them that are found late.
#[test]
fn folders_without_end_end() {
    let met = crawl(limits(TRAP_BUDGET), |url| {
        let path = url.path();
        let link = |to: &str| {
            page(
                &format!("More of {path}"),
                "You have come here by a link.",
                [to.into()],
            )
        };
        match path.split('/').nth(1)? {
            "" => {
                let traps = ["/x/", "/maze/a/", "/deep/", "/good/0", "/late/0/"];
                page("Front", "", traps.map(String::from))
            }
            "x" => link("x/"),
            "maze" => link(if path.ends_with("/a/") { "b/" } else { "a/" }),
            "deep" => link(&format!("{}/", path.matches('/').count() - 1)),
            "late" => {
                let number = path.matches('/').count() as u64;
                let next = (number < 60).then(|| format!("{number}/"));
                page("Late", &text(number << 20, 50), next)
            }
            _ => good(path, 2, 200),
        }
    });
    for trap in ["/x/", "/maze/", "/deep/"] {
        let requests = met.requested.iter().filter(|path| path.starts_with(trap));
        let requests = requests.count();
        assert!((100..400).contains(&requests), "{trap} {requests}");
    }
    for (kept, count) in [("/good/", 200), ("/late/", 58)] {
        let pages = met.pages.iter().filter(|path| path.starts_with(kept));
        assert_eq!(pages.count(), count, "{kept}");
    }
}

/// Every page stands in a new folder right below the host, so only the host can end it.
#[test]
fn the_host_ends_what_no_directory_can() {
    let met = crawl(limits(TRAP_BUDGET), |url| {
        let number = url.path().matches('-').count();
        page(
            "Soft 404",
            "There is nothing here, really.",
            [format!("/{}/", "-".repeat(number + 1))],
        )
    });
    assert!((TRAP_BUDGET as usize * 4..TRAP_BUDGET as usize * 20).contains(&met.requested.len()));
    assert_eq!(met.left_out[&Reason::NothingNewInHost].len(), 1);
}

#[test]
fn a_list_of_pages_that_are_all_alike_is_fetched_whole() {
    let met = crawl(limits(TRAP_BUDGET), |url| match url.path() {
        "/" => page(
            "Front",
            &text(0, 100),
            (0..5000).map(|number| format!("/same/{number}")),
        ),
        _ => page(
            "No usage",
            "No usage of this class was found.",
            ["/".into()],
        ),
    });
    assert_eq!(met.pages.len(), 5001);
    assert!(met.left_out.is_empty());
}

#[test]
fn a_budget_of_zero_is_none() {
    let met = crawl(limits(0), |url| {
        let number = url.path().len();
        page("More", "", (number < 2000).then(|| "-".repeat(number)))
    });
    assert_eq!(met.requested.len(), 2000);
    assert!(met.needs.is_empty(), "nothing is written");
}

#[test]
fn pages_of_a_host_and_of_a_directory_have_hard_limits() {
    let site = |url: &Url| match url.path() {
        "/" => page(
            "Front",
            "",
            (0..100).flat_map(|to| [format!("/a/{to}"), format!("/q?{to}=1")]),
        ),
        "/a/7" => None,
        path => page(
            path,
            &text(path.len() as u64, 50),
            ["/a/b/1".into(), "/a/b/2".into()],
        ),
    };
    let met = crawl(
        Limits {
            directory_pages: Some(20),
            ..limits(0)
        },
        site,
    );
    let count = |beginning: &str| {
        met.pages
            .iter()
            .filter(|path| path.starts_with(beginning))
            .count()
    };
    assert_eq!((count("/a/b"), count("/a/"), count("/q?")), (2, 22, 20));
    assert_eq!(met.left_out[&Reason::DirectoryPages].len(), 79 + 80);
    let met = crawl(
        Limits {
            host_pages: Some(50),
            ..limits(0)
        },
        site,
    );
    assert_eq!(met.pages.len(), 50);
    assert!(met.left_out[&Reason::HostPages].len() > 100);
}

/// A page of text, judged and counted.
fn enter(budgets: &mut Budgets, memory: &mut Memory, address: &str, seed: u64) -> Verdict {
    let (url, sketch) = (Url::parse(address).unwrap(), sketch(seed));
    let read = budgets.read(&url, &sketch, &mut |key: &[u8]| memory.load(key));
    let read = read.unwrap();
    let writes = budgets.finish(&read, true, &mut |key: &[u8]| memory.load(key));
    memory.write(writes.unwrap());
    read.verdict
}

fn sketch(seed: u64) -> Sketch {
    let mut simhash = crate::simhash::Simhash::default();
    simhash.text(text(seed, 100).as_bytes());
    simhash.finish().1
}

#[test]
fn what_is_under_way_counts_against_hard_limits() {
    let (mut budgets, mut memory) = (
        Budgets::new(Limits {
            directory_pages: Some(2),
            host_pages: Some(3),
            trap_budget: 0,
        }),
        Memory::default(),
    );
    let url = |path: &str| Url::parse(&format!("http://h{path}")).unwrap();
    let admit = |budgets: &mut Budgets, memory: &Memory, path: &str| {
        budgets
            .admit(&url(path), &mut |key: &[u8]| memory.load(key))
            .unwrap()
    };
    assert_eq!(admit(&mut budgets, &memory, "/a/1"), None);
    assert_eq!(admit(&mut budgets, &memory, "/a/2"), None);
    assert_eq!(
        admit(&mut budgets, &memory, "/a/3"),
        Some(Reason::DirectoryPages)
    );
    budgets.release(&url("/a/2"));
    assert_eq!(admit(&mut budgets, &memory, "/a/3"), None);
    assert_eq!(admit(&mut budgets, &memory, "/b/1"), None);
    assert_eq!(
        admit(&mut budgets, &memory, "/c/1"),
        Some(Reason::HostPages)
    );
    for path in ["/a/1", "/a/3", "/b/1"] {
        enter(&mut budgets, &mut memory, &format!("http://h{path}"), 1);
    }
    // Another process finds the same.
    let mut budgets = Budgets::new(budgets.limits);
    assert_eq!(
        admit(&mut budgets, &memory, "/c/1"),
        Some(Reason::HostPages)
    );
    assert_eq!(
        memory.counts("http://h"),
        Counts {
            pages: 3,
            own_pages: 0,
            new: 0,
            old: 0
        }
    );
    assert_eq!(
        memory.counts("http://h/a/"),
        Counts {
            pages: 2,
            own_pages: 2,
            new: 0,
            old: 0
        }
    );
}

/// Groups that have left memory are as they were.
#[test]
fn more_groups_than_memory_holds() {
    let (mut budgets, mut memory) = (Budgets::new(limits(TRAP_BUDGET)), Memory::default());
    let many = 3 * GROUPS_MAX as u64;
    for round in 0..3 {
        for host in 0..many {
            let verdict = enter(&mut budgets, &mut memory, &format!("http://h{host}/"), host);
            let expected = if round == 0 {
                Verdict::New
            } else {
                Verdict::Old
            };
            assert_eq!(verdict, expected, "{round} {host}");
            assert!(budgets.groups.len() <= GROUPS_MAX);
        }
    }
    for host in 0..many {
        let counts = memory.counts(&format!("http://h{host}"));
        assert_eq!(
            counts,
            Counts {
                pages: 3,
                own_pages: 3,
                new: 1,
                old: 2
            }
        );
    }
}

/// Counts are exact after a kill, and pages look newer than they are, at most.
#[test]
fn a_kill_forgets_what_was_seen_and_no_count() {
    let (mut budgets, mut memory) = (Budgets::new(limits(TRAP_BUDGET)), Memory::default());
    for page in 0..40 {
        assert_eq!(
            enter(&mut budgets, &mut memory, "http://h/", page),
            Verdict::New
        );
    }
    let before = memory.counts("http://h");
    assert_eq!((before.pages, before.new), (40, 40));
    // Pages up to the 32nd were saved with it, and the later ones are new again.
    let mut killed = Budgets::new(budgets.limits);
    assert_eq!(
        enter(&mut killed, &mut memory, "http://h/", 10),
        Verdict::Old
    );
    assert_eq!(
        enter(&mut killed, &mut memory, "http://h/", 35),
        Verdict::New
    );
    let after = memory.counts("http://h");
    assert_eq!((after.pages, after.new, after.old), (42, 41, 1));
    memory.write(killed.flush());
    let mut stopped = Budgets::new(budgets.limits);
    assert_eq!(
        enter(&mut stopped, &mut memory, "http://h/", 35),
        Verdict::Old
    );
    assert!(stopped.flush().is_empty(), "nothing has changed");
}

#[test]
fn bytes_that_make_no_sense_are_an_error() {
    for kind in [COUNTS, SEEN] {
        let (mut budgets, mut memory) = (Budgets::new(limits(TRAP_BUDGET)), Memory::default());
        for page in 0..3 {
            enter(&mut budgets, &mut memory, "http://h/", page);
        }
        memory.write(budgets.flush());
        memory
            .0
            .get_mut(&super::key(kind, "http://h"))
            .unwrap()
            .pop();
        let mut budgets = Budgets::new(budgets.limits);
        let url = Url::parse("http://h/").unwrap();
        let read = budgets.read(&url, &sketch(1), &mut |key: &[u8]| memory.load(key));
        assert_eq!(read.err(), Some(Malformed));
    }
}
