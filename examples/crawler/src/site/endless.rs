//! Parts of the site without end: each page is made up when it is asked for, and links to the next.

use std::collections::BTreeSet;

use super::YEAR;
use super::resource::Resource;

/// Where each of them begins, for links from elsewhere.
pub(super) fn entries() -> Vec<String> {
    let entries = [
        "/calendar/2026/1",
        "/loop/",
        "/maze/",
        "/deep/",
        "/long/a",
        "/search?p1=1",
    ];
    entries.iter().map(|&path| path.to_owned()).collect()
}

/// What a crawler requests of them that stops at `Site::limits`.
pub(super) fn within_limits() -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    // The year before, this one and the next.
    for month in 1..=12 {
        paths.extend((YEAR - 1..=YEAR + 1).map(|year| format!("/calendar/{year}/{month}")));
    }
    paths.extend(["", "x/", "x/x/"].map(|path| format!("/loop/{path}")));
    // `/maze/a/b` may stand twice in a row and go on until the third time is complete.
    let steps = ["a/", "b/", "a/", "b/", "a/"];
    paths.extend((0..=steps.len()).map(|count| format!("/maze/{}", steps[..count].concat())));
    paths.extend((0..=23).map(deep));
    // Doubled until it is too long: at 1,024 there is room, at 2,048 none.
    paths.extend((0..=10).map(|times| format!("/long/{}", "a".repeat(1 << times))));
    paths.extend((1..=12).map(search));
    paths
}

fn deep(level: usize) -> String {
    let levels: String = (1..=level).map(|level| format!("{level}/")).collect();
    format!("/deep/{levels}")
}

fn search(count: usize) -> String {
    let pairs: Vec<String> = (1..=count).map(|n| format!("p{n}={n}")).collect();
    format!("/search?{}", pairs.join("&"))
}

/// The page at a path, if it belongs to one of them.
pub(super) fn page(path: &str) -> Option<Resource> {
    let (_, rest) = path.split_once('/')?;
    let (kind, rest) = rest.split_once(['/', '?'])?;
    let link = |href: &str| format!("<p><a href=\"{href}\">There is more</a></p>\n");
    let content = match kind {
        "calendar" => return calendar(rest),
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

/// A month, with links to those around it.
fn calendar(rest: &str) -> Option<Resource> {
    let (year, month) = rest.split_once('/')?;
    let (year, month): (u32, u32) = (year.parse().ok()?, month.parse().ok()?);
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let months = year * 12 + month - 1;
    let link = |months: u32| {
        let (year, month) = (months / 12, months % 12 + 1);
        format!("<a href=\"../{year}/{month}\">{year}-{month}</a>\n")
    };
    let content = [months - 1, months + 1].map(link).concat();
    Some(Resource::page(&format!("{year}-{month}"), &content))
}
