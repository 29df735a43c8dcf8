//! Parts of the site without end: each page is made up when it is asked for, and links to the next.

use super::resource::Resource;
use super::words::Random;
use super::{Endless, URL_BYTES_MAX};

/// Requests in one part after which a crawler should have given it up: more than twice of what it
/// takes to see that nothing new comes, and far from 1,000.
const REQUESTS_MAX: u64 = 500;

/// All parts. Their entries are linked from the front page.
pub(super) fn parts() -> Vec<Endless> {
    // Within so many links from the entry, a crawler cannot know yet.
    let entry = 2026 * 12;
    let months = entry - 30..=entry + 30;
    let steps = |step: &str| (0..30).map(|count| step.repeat(count)).collect::<Vec<_>>();
    let parts = [
        ("/calendar/", months.clone().map(calendar_path).collect()),
        ("/cal?", months.map(cal_path).collect()),
        ("/loop/", steps("x/")),
        ("/maze/", steps("a/b/")),
        ("/deep/", (0..30).map(deep).collect()),
        ("/search?", (1..=30).map(search).collect()),
        (
            "/sessions/",
            [vec!["0".into()], session_links("/sessions/0")].concat(),
        ),
    ];
    parts
        .into_iter()
        .map(|(beginning, first): (&str, Vec<String>)| Endless {
            beginning: beginning.into(),
            first: first
                .into_iter()
                .map(|rest| format!("{beginning}{rest}"))
                .collect(),
            requests_max: REQUESTS_MAX,
        })
        .collect()
}

/// Where each of them begins, for links from elsewhere.
pub(super) fn entries() -> Vec<String> {
    let entries = [
        "/calendar/2026/1",
        "/cal?y=2026&m=1",
        "/loop/",
        "/maze/",
        "/deep/",
        "/long/a",
        "/search?p1=1",
        "/sessions/0",
    ];
    entries.iter().map(|&path| path.to_owned()).collect()
}

/// What is requested of a part that ends where addresses become too long.
pub(super) fn long() -> Vec<String> {
    let long = |times: u32| format!("/long/{}", "a".repeat(1 << times));
    // The address has the scheme and the host in front, of less than 40 bytes.
    (0..)
        .map(long)
        .take_while(|path| path.len() + 40 < URL_BYTES_MAX)
        .collect()
}

fn calendar_path(month: u32) -> String {
    format!("{}/{}", month / 12, month % 12 + 1)
}

fn cal_path(month: u32) -> String {
    format!("y={}&m={}", month / 12, month % 12 + 1)
}

fn deep(level: usize) -> String {
    (1..=level).map(|level| format!("{level}/")).collect()
}

fn search(count: usize) -> String {
    let pairs: Vec<String> = (1..=count).map(|n| format!("p{n}={n}")).collect();
    pairs.join("&")
}

/// The page at a path, if it belongs to one of them.
pub(super) fn page(path: &str) -> Option<Resource> {
    let (_, rest) = path.split_once('/')?;
    let (kind, rest) = rest.split_once(['/', '?'])?;
    let link = |href: &str| format!("<p><a href=\"{href}\">There is more</a></p>\n");
    let content = match kind {
        "calendar" => return calendar(rest),
        "cal" => return cal(rest),
        "sessions" => return session(path, rest),
        "loop" => link("x/"),
        "maze" => link(if path.ends_with("/a/") { "b/" } else { "a/" }),
        "deep" => link(&format!("{}/", path.matches('/').count() - 1)),
        "long" => link(&rest.repeat(2)),
        "search" => {
            let next = rest.matches('=').count() + 1;
            link(&format!(
                "?{}&amp;p{next}={next}",
                rest.replace('&', "&amp;")
            ))
        }
        _ => return None,
    };
    // Bounded by what a request line may hold, and its text differs from page to page.
    Some(Resource::page(
        &format!("More of {kind}, {}", path.len()),
        &content,
    ))
}

/// Months since the year 0, from two numbers that are a month of a calendar.
fn month(year: &str, month: &str) -> Option<u32> {
    let (year, month): (u32, u32) = (year.parse().ok()?, month.parse().ok()?);
    let is_one = (1..=9999).contains(&year) && (1..=12).contains(&month);
    is_one.then(|| year * 12 + month - 1)
}

/// A month, with links to those around it.
fn calendar(rest: &str) -> Option<Resource> {
    let (year, of_year) = rest.split_once('/')?;
    let months = month(year, of_year)?;
    let link = |months: u32| {
        let path = calendar_path(months);
        format!("<a href=\"../{path}\">{}</a>\n", path.replace('/', "-"))
    };
    let content = [months - 1, months + 1].map(link).concat();
    Some(Resource::page(&format!("{year}-{of_year}"), &content))
}

const MONTHS: [&str; 12] = [
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

/// The same by a query, with names and a grid of days that begins on another weekday each month.
fn cal(query: &str) -> Option<Resource> {
    let (year, of_year) = query.strip_prefix("y=")?.split_once("&m=")?;
    let months = month(year, of_year)?;
    let name = |months: u32| format!("{} {}", MONTHS[(months % 12) as usize], months / 12);
    let days: String = (0..42)
        .map(|cell| format!("<td>{}", (cell + months) % 31 + 1))
        .collect();
    let link = |months: u32| {
        let href = cal_path(months).replace('&', "&amp;");
        format!("<a href=\"cal?{href}\">{}</a>\n", name(months))
    };
    let content = format!(
        "<table><tr><th>Mo<th>Tu<th>We<th>Th<th>Fr<th>Sa<th>Su<tr>{days}</table>\n{}{}",
        link(months - 1),
        link(months + 1)
    );
    Some(Resource::page(&name(months), &content))
}

/// Pages of the small shop that gives each link a session.
const SESSION_PAGES: u64 = 30;

/// A page with text of its own that links to all of them.
fn session(path: &str, rest: &str) -> Option<Resource> {
    let page: u64 = rest.split('?').next()?.parse().ok()?;
    if page >= SESSION_PAGES {
        return None;
    }
    let link = |href| format!("<p><a href=\"{href}\">An article</a></p>\n");
    let links: String = session_links(path).into_iter().map(link).collect();
    let text = |part| Random(1000 + 10 * page + part).paragraph(40);
    let text: String = (0..4).map(text).collect();
    let content = format!("{text}{links}");
    Some(Resource::page(&format!("Article {page}"), &content))
}

/// Links to all pages of the shop, each with a session that no other page gives.
fn session_links(path: &str) -> Vec<String> {
    // The path holds the session under which the page itself was asked for.
    let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut random = Random(path.bytes().fold(0xcbf2_9ce4_8422_2325, mix));
    let link = |to: u64| format!("{to}?sid={:x}", random.next());
    (0..SESSION_PAGES).map(link).collect()
}
