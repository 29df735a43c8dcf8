//! What a crawl leaves out, and that it says so.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Crawls with these options. Paths that were requested; address and reason of all that was left
/// out; and the summary.
fn crawl_and_list(options: &[&str]) -> (BTreeSet<String>, BTreeMap<String, String>, Summary) {
    let (_, served) = small_site();
    let (dir, root) = (tempfile::tempdir().unwrap(), served.root().unwrap());
    let list = dir.path().join("left-out");
    let files = ["--left-out", list.to_str().unwrap()];
    let store = dir.path().join("store");
    let summary = crawl(&root, &store, &[&files, options].concat());
    check_store(&open(&store));
    #[expect(clippy::disallowed_methods, reason = "a list that the crawl wrote")]
    let list = String::from_utf8(std::fs::read(list).unwrap()).unwrap();
    let lines = list.lines().map(|line| line.split_once('\t').unwrap());
    let short = |url: &str| {
        url.strip_prefix(root.as_str())
            .map(|path| format!("/{path}"))
    };
    let left_out = lines
        .map(|(reason, url)| (short(url).unwrap_or(url.into()), reason.to_owned()))
        .collect();
    let mut requests: BTreeSet<String> = served.requests().into_keys().collect();
    requests.remove("/robots.txt");
    (requests, left_out, summary)
}

#[test]
fn everything_that_is_left_out_is_listed_with_its_reason() {
    let (requests, left_out, summary) = crawl_and_list(&[]);
    for (path, reason) in [
        ("http://elsewhere.invalid/", "out of scope"),
        ("/hidden/nofollow", "nofollow"),
        ("/hidden/page-says-nofollow", "nofollow"),
        ("/private/x", "forbidden by robots.txt"),
    ] {
        assert_eq!(
            left_out.get(path).map(String::as_str),
            Some(reason),
            "{path}"
        );
    }
    let of = |reason: &str, beginning: &str| {
        let listed = left_out.iter().filter(|(_, listed)| *listed == reason);
        listed
            .filter(|(path, _)| path.starts_with(beginning))
            .count()
    };
    for trap in [
        "/cal?",
        "/calendar/",
        "/loop/",
        "/maze/",
        "/deep/",
        "/sessions/",
    ] {
        assert!(of("nothing new in its directory", trap) > 0, "{trap}");
    }
    assert_eq!(of("too long", "/long/"), 1);
    // One link to it says nofollow, and another does not.
    assert!(!left_out.contains_key("/wishes/both"));
    assert!(left_out.keys().all(|path| !requests.contains(path)));
    let reasons: BTreeSet<&String> = left_out.values().collect();
    let counted: BTreeSet<&String> = summary.left_out.iter().map(|(reason, _)| reason).collect();
    assert_eq!(reasons, counted);
}

#[test]
fn patterns_choose_pages() {
    let options = [
        "--include",
        "/docs/",
        "--include",
        "/copies/1$",
        "--exclude",
        "/docs/1/",
    ];
    let (requests, left_out, _) = crawl_and_list(&options);
    // The seed, sitemaps, and what the patterns let through.
    let is_expected = |path: &str| {
        let is_named = path.starts_with("/docs/0/") || path == "/copies/1";
        path == "/" || path.starts_with("/sitemap") || is_named
    };
    for path in &requests {
        assert!(is_expected(path), "{path}");
    }
    assert!(requests.contains("/copies/1") && requests.contains("/docs/0/99.html"));
    assert!(requests.iter().any(|path| path.starts_with("/sitemap")));
    assert_eq!(left_out["/copies/10"], "not included");
    assert_eq!(left_out["/docs/1/100.html"], "excluded");
}

#[test]
fn pages_of_hosts_and_directories_have_limits() {
    let (requests, left_out, summary) = crawl_and_list(&["--directory-pages", "7"]);
    let count = |folder: &str| {
        requests
            .iter()
            .filter(|path| path.starts_with(folder))
            .count()
    };
    assert_eq!((count("/docs/0/"), count("/cal?")), (7, 7));
    assert_eq!(left_out["/docs/0/42.html"], "directory budget");
    assert!(summary.pages > 50);
    let (_, left_out, summary) = crawl_and_list(&["--host-pages", "20"]);
    assert_eq!(summary.pages, 20);
    let refused = left_out.values().filter(|reason| *reason == "host budget");
    assert!(refused.count() > 50);
}

/// What a budget has left out stays so when the crawl goes on, and when it is done again.
#[test]
fn a_crawl_that_is_done_again_goes_no_further() {
    let (_, served) = small_site();
    let (dir, root) = (tempfile::tempdir().unwrap(), served.root().unwrap());
    let store = dir.path().join("store");
    crawl(&root, &store, &[]);
    let before: Vec<String> = served.requests().into_keys().collect();
    crawl(&root, &store, &[]);
    crawl(&root, &store, &["--recrawl"]);
    assert!(served.requests().into_keys().eq(before));
}
