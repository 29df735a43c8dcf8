//! What a crawl sends, by the options about it, and the options that are refused.
#![expect(clippy::disallowed_methods, reason = "tests make files for options")]

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use url::Url;

use super::{crawl, records};
use crate::args::Args;
use crate::failure::Exit;
use crate::http::tests::server::{Server, answer};
use crate::record::State;
use crate::setup::Plan;

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// Request lines with those lines of their heads that begin with one of these names.
fn asked(server: &Server, names: &[&str]) -> Vec<String> {
    let shown = |head: String| {
        let mut lines = head.lines();
        let first = lines.next().unwrap_or_default().to_owned();
        let lines = lines.filter(|line| names.iter().any(|name| line.starts_with(name)));
        lines.fold(first, |out, line| out + "|" + line)
    };
    let mut asked: Vec<String> = server.asked().into_iter().map(shown).collect();
    asked.sort();
    asked
}

#[test]
fn headers_and_cookies_go_with_each_request_of_the_site() {
    let other = Server::start(|_| answer("200 OK", &[], b"other"));
    let elsewhere = other.url("/robots.txt");
    let server = Server::start(move |request| match request.split(' ').nth(1) {
        Some("/robots.txt") => answer("302 Found", &[&format!("Location: {elsewhere}")], b""),
        Some("/") => answer("200 OK", &[], b"<a href=/in/page>1</a>"),
        _ => answer("200 OK", &[], b"page"),
    });
    let dir = tempfile::tempdir().unwrap();
    let jar = "127.0.0.1\tFALSE\t/in\tFALSE\t0\tname\tvalue\n";
    let jar = file(dir.path(), "cookies.txt", jar);
    let options = [
        "--header",
        "X-Who: me",
        "--header",
        "accept: text/plain",
        "--cookies",
        jar.to_str().unwrap(),
    ];
    let summary = crawl(&server.url("/"), &dir.path().join("store"), &options);
    assert_eq!(summary.pages, 2);
    let names = ["X-Who", "accept", "Accept:", "Cookie"];
    let expected = [
        "GET / HTTP/1.1|X-Who: me|accept: text/plain",
        "GET /in/page HTTP/1.1|X-Who: me|accept: text/plain|Cookie: name=value",
        "GET /robots.txt HTTP/1.1|X-Who: me|accept: text/plain",
    ];
    assert_eq!(asked(&server, &names), expected);
    // Another port is another site: robots.txt leads there, but what is ours stays here.
    let expected = "GET /robots.txt HTTP/1.1|Accept: text/html,application/xhtml+xml,*/*;q=0.5";
    assert_eq!(asked(&other, &names), [expected]);
}

#[test]
fn settings_of_a_host_stand_above_those_of_the_crawl() {
    let proxy = Server::start(|request| match request.split(' ').nth(1) {
        Some("http://site.invalid/") => answer("200 OK", &[], b"<a href=/page>1</a>"),
        Some("http://site.invalid/page") => answer("200 OK", &[], b"page"),
        _ => answer("404 Not Found", &[], b""),
    });
    let dir = tempfile::tempdir().unwrap();
    file(
        dir.path(),
        "jar",
        "site.invalid\tFALSE\t/\tFALSE\t0\ta\t1\n",
    );
    let hosts = format!(
        "[\"*.invalid\"]\nproxy = \"http://u:p@{}\"\ncookies = \"jar\"\n\
         headers = {{ X-Who = \"host\" }}\n",
        proxy.address
    );
    let hosts = file(dir.path(), "hosts.toml", &hosts);
    let options = [
        "--header",
        "X-Who: all",
        "--header",
        "X-All: yes",
        "--proxy",
        "http://127.0.0.1:1",
        "--hosts",
        hosts.to_str().unwrap(),
    ];
    let root = Url::parse("http://site.invalid/").unwrap();
    let summary = crawl(&root, &dir.path().join("store"), &options);
    assert_eq!((summary.pages, summary.failed), (2, 0));
    let lines = "Proxy-Authorization: Basic dTpw|X-All: yes|X-Who: host|Cookie: a=1";
    let expected = ["", "page", "robots.txt"]
        .map(|path| format!("GET http://site.invalid/{path} HTTP/1.1|{lines}"));
    assert_eq!(asked(&proxy, &["Proxy", "X-", "Cookie"]), expected);
}

#[test]
fn what_is_wrong_with_an_option_is_said_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let check = |options: &[&str], expected: &str| {
        let plan = Plan {
            args: Args::parse_from([&["crawler", "--quiet"], options].concat()),
            store: dir.path().join("store"),
            seeds: vec![Url::parse("http://site.invalid/").unwrap()],
        };
        let refused = plan.run().unwrap_err();
        assert_eq!(refused.exit(), Exit::Usage);
        let refused = refused.to_string();
        assert!(refused.starts_with(expected), "{refused}");
        assert!(!dir.path().join("store").exists());
    };
    check(
        &["--header", "X-Who"],
        "--header: \"X-Who\" has no colon; write 'Name: value'",
    );
    check(
        &["--header", "a: b\nc: d"],
        "--header: the value of \"a\" has a line break; write",
    );
    check(
        &["--header", "User-Agent: me"],
        "--header: \"User-Agent\" cannot be set: write --agent",
    );
    check(
        &["--header", "Host: h"],
        "--header: \"Host\" cannot be set: ",
    );
    check(
        &["--proxy", "h:1"],
        "--proxy: the address has no http://; write http://HOST:PORT",
    );
    let jar = file(dir.path(), "jar", "# cookies\nno\n");
    let jar = jar.to_str().unwrap();
    check(
        &["--cookies", jar],
        &format!("--cookies: {jar}: line 2: 7 fields"),
    );
    check(
        &["--cookies", "/no/jar"],
        "--cookies: /no/jar: No such file",
    );
    let hosts = file(dir.path(), "hosts", "[\"h\"]\nspeed = 1\n");
    let hosts = hosts.to_str().unwrap();
    let expected =
        format!("--hosts: {hosts}: line 2: unknown field `speed`, expected one of `connections`");
    check(&["--hosts", hosts], &expected);
}

/// A sitemap that breaks off names the pages before that, and its record says so.
#[test]
fn a_sitemap_that_breaks_off() {
    let server = Server::start(|request| {
        let host = request.lines().find_map(|line| line.strip_prefix("Host: "));
        let host = host.unwrap_or_default();
        match request.split(' ').nth(1) {
            Some("/robots.txt") => {
                let robots = format!("Sitemap: http://{host}/map.xml");
                answer("200 OK", &[], robots.as_bytes())
            }
            Some("/map.xml") => {
                let map = format!("<urlset><url><loc>http://{host}/in-map</loc></url><url><lo");
                answer("200 OK", &["Content-Type: text/xml"], map.as_bytes())
            }
            _ => answer("200 OK", &[], b"page"),
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let summary = crawl(&server.url("/"), &store, &[]);
    assert_eq!(summary.pages, 2);
    let records = records(&super::open(&store));
    let maps = records
        .into_values()
        .filter(|record| record.state == State::Sitemap);
    let said: Vec<String> = maps.map(|record| record.title).collect();
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("the sitemap is "), "{}", said[0]);
}
