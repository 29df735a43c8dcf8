//! The ordinary pages: a tree by which all are reached, and links across it, spelled in every way
//! that means the same.

use std::fmt::Write as _;

use super::resource::{Resource, Resources};
use super::words::Random;

/// Each page links to so many below it.
const CHILDREN: usize = 4;

/// Adds `count` pages and the front page, which also links to the odd pages.
pub(super) fn add(resources: &mut Resources, seed: u64, count: usize, odd: &[String]) {
    let mut random = Random(seed);
    for number in 0..count {
        let page = page(number, count, &mut random);
        resources.insert(path(number), page);
    }
    let mut content = String::from("<ul>\n");
    for path in odd {
        // Writing to a string cannot fail.
        writeln!(content, "<li><a href=\"{path}\">{path}</a>").unwrap_or_default();
    }
    content.push_str(
        "</ul>\n<p><a href=\"docs/0/0.html\">All the others</a>, \
        <a href=\"/private/\">what is private</a>.</p>\n",
    );
    let first = (count > 0).then(|| path(0));
    let front = Resource::page("A site to crawl", &content)
        .leads_to(odd)
        .leads_to(first);
    resources.insert("/".into(), front);
}

/// Folders of a hundred pages.
fn path(number: usize) -> String {
    format!("/docs/{}/{number}.html", number / 100)
}

fn page(number: usize, count: usize, random: &mut Random) -> Resource {
    let below = number * CHILDREN + 1..=number * CHILDREN + CHILDREN;
    let across = (0..4 + random.below(16))
        .map(|_| random.below(count))
        .collect::<Vec<_>>();
    let linked: Vec<usize> = below.filter(|&page| page < count).chain(across).collect();
    let mut content = random.paragraph(60);
    for &target in &linked {
        let href = spelled(number, target, random);
        write!(
            content,
            "<p>See <a href={href}>page {target}</a>.</p>\n{}",
            random.paragraph(8)
        )
        .unwrap_or_default();
    }
    // As a wiki has them: pages for its authors, which it asks robots not to follow.
    content.push_str(
        "<p><a rel=nofollow href=\"?action=edit\">Edit</a> \
         <a rel=nofollow href=\"?action=history\">History</a></p>\n",
    );
    content.push_str("<p><a class=top href=\"#top\">Top</a> <a href='/'>Front</a></p>\n");
    let page = Resource::page(&format!("Page {number}"), &content);
    let tag = format!("\"{:x}\"", random.next());
    let page = page
        .header("ETag", &tag)
        .header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT");
    page.leads_to(["/"]).leads_to(linked.into_iter().map(path))
}

/// What an author sees of an ordinary page, made up when it is asked for.
pub(super) fn action(path: &str) -> Option<Resource> {
    let (page, action) = path.split_once("?action=")?;
    let is_known = page.starts_with("/docs/") && matches!(action, "edit" | "history");
    let title = format!("The {action} of {page}");
    // Text of its own, as an older version of a page has it.
    let seed = path.bytes().fold(0, |seed: u64, byte| {
        seed.wrapping_mul(31).wrapping_add(byte.into())
    });
    is_known.then(|| Resource::page(&title, &Random(seed).paragraph(60)))
}

/// An attribute value on one page that leads to another.
fn spelled(from: usize, to: usize, random: &mut Random) -> String {
    let (folder, file, plain) = (to / 100, format!("{to}.html"), path(to));
    match random.below(11) {
        0 => plain,
        1 => format!("\"{plain}#section-{to}\""),
        2 => format!("'../{folder}/{file}'"),
        3 => format!("\"./../{folder}/x/../{file}\""),
        4 => format!("\"  {plain}\n\""),
        5 => format!("\"{plain}?utm_source=site&amp;utm_medium=link\""),
        6 => format!("\"/docs/%2e/{folder}/{file}\""),
        7 => format!("\"/docs&#47;{folder}/{file}\""),
        8 => format!("\"\\docs\\{folder}\\{file}\""),
        _ if from / 100 == folder => file,
        _ => format!("../{folder}/{file}"),
    }
}
