//! Addresses without end: what a server makes up as long as one asks.
//!
//! Every rule can be wrong about a page, so each has a limit that the user sets, and each has a
//! name under which the summary counts what it left out.

use std::ops::RangeInclusive;

use url::Url;

/// Where an address stops looking like a page.
#[derive(Debug, Clone)]
pub(crate) struct TrapLimits {
    /// The longest address.
    pub(crate) url_bytes: usize,
    /// The deepest path.
    pub(crate) path_segments: usize,
    /// How often in a row the same segments may follow each other: `/a/b/a/b` is 2.
    pub(crate) repeats: usize,
    /// The most parameters in the query.
    pub(crate) query_params: usize,
    /// The years that a calendar may show; `None` for all.
    pub(crate) calendar_years: Option<RangeInclusive<u32>>,
}

impl TrapLimits {
    /// What suits nearly all sites, in this year.
    pub(crate) fn new(year: u32) -> Self {
        Self {
            url_bytes: 2048,
            path_segments: 24,
            repeats: 2,
            query_params: 12,
            calendar_years: Some(year.saturating_sub(1)..=year.saturating_add(1)),
        }
    }
}

/// The rule by which an address looks like a trap.
pub(crate) fn is_trap(url: &Url, limits: &TrapLimits) -> Option<&'static str> {
    if url.as_str().len() > limits.url_bytes {
        return Some("too long");
    }
    let segments: Vec<&str> = url
        .path()
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    if segments.len() > limits.path_segments {
        return Some("too deep a path");
    }
    if repeats(&segments, limits.repeats) {
        return Some("repeated segments");
    }
    let query = url.query().unwrap_or_default();
    if query.bytes().filter(|&byte| byte == b'&').count() >= limits.query_params.max(1) {
        return Some("too many parameters");
    }
    let years = limits.calendar_years.as_ref()?;
    let year = calendar_year(url, &segments)?;
    (!years.contains(&year)).then_some("calendar")
}

/// Whether up to four segments follow themselves more than `limit` times.
fn repeats(segments: &[&str], limit: usize) -> bool {
    const PERIOD_MAX: usize = 4;
    (1..=PERIOD_MAX).any(|period| {
        let mut same = 0;
        segments
            .iter()
            .zip(segments.iter().skip(period))
            .any(|(before, after)| {
                same = if before == after { same + 1 } else { 0 };
                same >= period * limit.max(1)
            })
    })
}

/// The year that a calendar shows: the address says "calendar" or the like, and has a date.
fn calendar_year(url: &Url, segments: &[&str]) -> Option<u32> {
    const WORDS: [&str; 4] = ["calendar", "kalender", "event", "agenda"];
    let whole = url[url::Position::BeforePath..].to_ascii_lowercase();
    if !WORDS.iter().any(|word| whole.contains(word)) {
        return None;
    }
    let in_path = segments.iter().zip(segments.iter().skip(1).chain([&""]));
    let in_path = in_path.filter_map(|(part, next)| {
        // A year stands before a month, or begins a date.
        let (year, rest) = year(part)?;
        let is_date = rest.starts_with('-') || rest.is_empty() && is_month(next);
        is_date.then_some(year)
    });
    let in_query = url
        .query()
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| {
            const NAMES: [&str; 6] = ["year", "y", "date", "month", "day", "week"];
            let (name, value) = pair.split_once('=')?;
            NAMES
                .contains(&name.to_ascii_lowercase().as_str())
                .then_some(())?;
            year(value).map(|(year, _)| year)
        });
    in_path.chain(in_query).next()
}

/// The year of four digits that a text begins with, and what follows.
fn year(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let is_year = digits.bytes().all(|byte| byte.is_ascii_digit())
        && !rest.starts_with(|next: char| next.is_ascii_digit());
    is_year
        .then(|| digits.parse().ok())
        .flatten()
        .map(|year| (year, rest))
}

fn is_month(text: &str) -> bool {
    matches!(text.parse(), Ok(1..=12_u8)) && text.len() <= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: &str, addresses: &[&str]) {
        for address in addresses {
            let url = Url::parse("http://h").unwrap().join(address).unwrap();
            let found = is_trap(&url, &TrapLimits::new(2026)).unwrap_or_default();
            assert_eq!(found, rule, "{address}");
        }
    }

    #[test]
    fn pages_are_no_traps() {
        check(
            "",
            &[
                "/",
                "/a/a/b/b/c/c",
                "/a/b/a/b/c/a/b/a/b",
                "/src/lib/src/lib/src",
                "/x//y//z",
                "/2031/05/post",
                "/events/2026/12/31",
                "/calendar/2025-01",
                "/calendar?month=2027-12",
                "/calendar/room/4711/99",
                "/events/rfc/1234",
                "/?calendar=1&id=9999",
                "/?a&b&c&d&e&f&g&h&i&j&k&l",
            ],
        );
    }

    #[test]
    fn long_deep_and_manifold() {
        check("too long", &[&format!("/{}", "x".repeat(2048))]);
        let deep: String = (0..25).map(|n| format!("/{n}")).collect();
        check("too deep a path", &[&deep]);
        check("", &[&deep[..deep.len() - 3]]);
        check("too many parameters", &["/?a&b&c&d&e&f&g&h&i&j&k&l&m"]);
    }

    #[test]
    fn segments_that_follow_themselves() {
        check(
            "repeated segments",
            &[
                "/a/a/a",
                "/x/a/b/a/b/a/b/y",
                "/a/b/c/a/b/c/a/b/c",
                "/1/2/3/4/1/2/3/4/1/2/3/4/5",
            ],
        );
        check("", &["/a/a", "/a/b/a/b/a", "/a/a/b/a/a/b/a"]);
    }

    #[test]
    fn calendars_beyond_their_years() {
        check(
            "calendar",
            &[
                "/calendar/2028/01",
                "/Calendar/1999/1/",
                "/events?view=month&date=2031-05-01",
                "/kalender/woche/2024-12-30",
                "/index.php?option=agenda&year=3000",
            ],
        );
        let mut limits = TrapLimits::new(2026);
        limits.calendar_years = None;
        let url = Url::parse("http://h/calendar/9999/01").unwrap();
        assert_eq!(is_trap(&url, &limits), None);
    }
}
