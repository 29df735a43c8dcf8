//! How near real documentation comes to the limits: what the limits were set by.
//!
//! `CRAWLER_TREES=/usr/share/doc/rust-doc/html:/usr/share/doc/python3.11/html cargo test --release \
//! -p criba-crawler calibration -- --ignored --nocapture`
#![expect(clippy::print_stdout, reason = "what is measured is printed")]

use std::path::Path;

use url::Url;

use super::tests::{Met, crawl, limits};
use super::{GAIN, TRAP_BUDGET};

/// The file that a server has at an address, if it is HTML.
fn file(folder: &Path, url: &Url) -> Option<String> {
    let mut path = url.path()[1..].to_owned();
    if path.is_empty() || path.ends_with('/') {
        path.push_str("index.html");
    }
    if !path.ends_with(".html") {
        return None;
    }
    #[expect(clippy::disallowed_methods, reason = "pages that others wrote")]
    let bytes = std::fs::read(folder.join(path)).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn show(tree: &str, met: &Met) {
    let (pages, verdicts, led_on) = (met.pages.len(), &met.verdicts, met.led_on);
    println!("{tree}: {pages} pages, {verdicts:?}, {led_on} old ones led on");
    // The most old pages of a group beyond what its new ones pay for, at any time.
    let mut needs: Vec<_> = met.needs.iter().collect();
    needs.sort_by_key(|(_, (need, _))| -need);
    for (name, (need, counts)) in needs.iter().take(6) {
        println!("  {need} {name} {counts:?}");
    }
    let host = needs.iter().find(|(name, _)| !name.ends_with('/'));
    println!("  host: {host:?}");
    let ratio = |new: u64, old: u64| old as f64 / new.max(1) as f64;
    let worst = needs
        .iter()
        .filter(|(_, (_, counts))| counts.old > 50)
        .max_by(|(_, (_, one)), (_, (_, other))| {
            ratio(one.new, one.old).total_cmp(&ratio(other.new, other.old))
        });
    println!("  worst ratio above 50 old pages (limit {GAIN}): {worst:?}");
}

#[test]
#[ignore = "reads trees of documentation that the machine may not have"]
fn documentation_stays_far_from_the_limits() {
    let trees = std::env::var("CRAWLER_TREES").unwrap_or_default();
    for tree in trees.split(':').filter(|tree| !tree.is_empty()) {
        let folder = Path::new(tree);
        let all = crawl(limits(u64::MAX / 1000), |url| file(folder, url));
        show(tree, &all);
        let limited = crawl(limits(TRAP_BUDGET), |url| file(folder, url));
        let lost: Vec<_> = all.pages.difference(&limited.pages).collect();
        println!(
            "  {} lost: {:?}",
            lost.len(),
            lost.iter().take(5).collect::<Vec<_>>()
        );
        assert!(lost.is_empty(), "{tree}");
    }
}
