//! Cases from RFC 9309, and those about which parsers disagree.

use super::*;
use crawl::Rules as _;

fn allows(robots: &str, path: &str) -> bool {
    let url = Url::parse("https://www.example.com")
        .unwrap()
        .join(path)
        .unwrap();
    Robots::parse(robots.as_bytes(), "criba/1.0").allows(&url)
}

/// One rule for everyone, and whether it matches a path.
fn matches(pattern: &str, path: &str) -> bool {
    !allows(&format!("User-agent: *\nDisallow: {pattern}\n"), path)
}

/// RFC 9309, section 5.1.
#[test]
fn the_simple_example_of_the_standard() {
    let robots = "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\n\
                  User-Agent: foobot\nDisallow:/\nAllow:/example/page.html\nAllow:/example/allowed.gif\n\n\
                  User-Agent: barbot\nUser-Agent: bazbot\nDisallow: /example/page.html\n\n\
                  User-Agent: quxbot\n";
    let check = |agent: &str, path: &str, expected: bool| {
        let url = Url::parse("https://www.example.com")
            .unwrap()
            .join(path)
            .unwrap();
        let robots = Robots::parse(robots.as_bytes(), agent);
        assert_eq!(robots.allows(&url), expected, "{agent} {path}");
    };
    check("criba", "/x.gif", false);
    check("criba", "/x.gif?y", true);
    check("criba", "/example/x", false);
    check("criba", "/publications/x", true);
    check("criba", "/publications/x.gif", true);
    check("foobot", "/publications/", false);
    check("foobot", "/example/page.html", true);
    check("foobot", "/example/allowed.gif", true);
    check("barbot", "/example/page.html", false);
    check("BazBot/2.1", "/example/page.html", false);
    check("bazbot", "/x.gif", true);
    check("quxbot", "/example/", true);
}

/// RFC 9309, section 5.2.
#[test]
fn the_longest_match_of_the_standard() {
    let robots =
        "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n";
    let robots = Robots::parse(robots.as_bytes(), "foobot");
    let url = |path| {
        Url::parse("https://example.com")
            .unwrap()
            .join(path)
            .unwrap()
    };
    assert!(!robots.allows(&url("/example/page/disallowed.gif")));
    assert!(robots.allows(&url("/example/page/disallowed")));
    assert!(robots.allows(&url("/other")));
}

/// RFC 9309, section 2.2.1: groups of one agent are one.
#[test]
fn groups_of_an_agent_are_merged() {
    let robots = "user-agent: Criba\ndisallow: /foo\ndisallow: /bar\n\nuser-agent: other\ndisallow: /\n\n\
                  user-agent: criba\ndisallow: /baz\n\nuser-agent: *\ndisallow: /qux";
    for (path, expected) in [
        ("/foo", false),
        ("/bar", false),
        ("/baz", false),
        ("/qux", true),
    ] {
        assert_eq!(allows(robots, path), expected, "{path}");
    }
    let for_all = "User-agent: *\nDisallow: /a\n\nUser-agent: *\nDisallow: /b";
    assert!(!allows(for_all, "/a") && !allows(for_all, "/b") && allows(for_all, "/c"));
}

#[test]
fn an_agent_is_meant_by_its_whole_token() {
    let is_meant = |agent: &str| !allows(&format!("User-agent: {agent}\nDisallow: /"), "/");
    for agent in [
        "criba",
        "CRIBA",
        "criba/2.0",
        "criba bot",
        "*",
        " criba \t# comment",
    ] {
        assert!(is_meant(agent), "{agent}");
    }
    for agent in [
        "cribabot",
        "crib",
        "criba-images",
        "my criba",
        "",
        "/",
        "**",
        "c*",
    ] {
        assert!(!is_meant(agent), "{agent}");
    }
}

/// A group of its own, even an empty one, is all that counts.
#[test]
fn a_group_of_its_own_replaces_that_of_everyone() {
    assert!(allows(
        "User-agent: *\nDisallow: /\n\nUser-agent: criba\nDisallow:",
        "/x"
    ));
    assert!(allows(
        "User-agent: criba\n\n\n\nUser-agent: x\nDisallow:\nUser-agent: *\nDisallow: /",
        "/x"
    ));
    assert!(!allows(
        "User-agent: *\nDisallow: /\n\nUser-agent: crib\nAllow: /",
        "/x"
    ));
}

/// Section 2.2.4: other lines do not interfere, empty ones do not end a group.
#[test]
fn other_lines_do_not_end_a_group() {
    for between in [
        "",
        "\n\n",
        "Sitemap: https://x/\n",
        "Crawl-delay: 5\n",
        "Host: x\n",
        "# c\n",
        "rubbish\n",
    ] {
        let robots = format!(
            "User-agent: criba\n{between}User-agent: other\n{between}Disallow: /x\n{between}Disallow: /y"
        );
        assert!(
            !allows(&robots, "/x") && !allows(&robots, "/y"),
            "{between:?}"
        );
    }
    // A rule does, also one without a path.
    assert!(allows(
        "User-agent: criba\nDisallow:\nUser-agent: other\nDisallow: /",
        "/"
    ));
    // Rules before any user agent are nobody's.
    assert!(allows("Disallow: /\nUser-agent: criba\nAllow: /x", "/"));
}

/// RFC 9309, section 2.2.2.
#[test]
fn octets_are_compared_normalised() {
    for (pattern, path) in [
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz"),
        (
            "/foo/bar?baz=https://foo.bar",
            "/foo/bar?baz=https://foo.bar",
        ),
        ("/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84"),
        ("/foo/bar/\u{30c4}", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%e3%83%84", "/foo/bar/\u{30c4}"),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
        ("/foo/bar/baz", "/foo/bar/%62%61%7a"),
        ("/%7Ejoe", "/~joe"),
        ("/a b|c", "/a%20b%7cc"),
        ("/a%3cd.html", "/a%3Cd.html"),
        ("/100%", "/100%"),
        ("/100%zz", "/100%zz"),
    ] {
        assert!(matches(pattern, path), "{pattern} {path}");
    }
    for (pattern, path) in [
        ("/a%2fb", "/a/b"),
        ("/a/b", "/a%2Fb"),
        ("/a%3Fb", "/a?b"),
        ("/FOO", "/foo"),
        ("/a%25", "/a%"),
    ] {
        assert!(!matches(pattern, path), "{pattern} {path}");
    }
}

/// RFC 9309, section 2.2.3.
#[test]
fn wildcards() {
    for (pattern, path) in [
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html"),
        ("/path/foo-%24", "/path/foo-$"),
        ("*", "/"),
        ("/*", "/"),
        ("/$", "/"),
        ("*.gif$", "/a.gif.gif"),
        ("/this/*/exactly", "/this/that/those/exactly.html"),
        ("/a*b*c", "/a-c-b-b-c-"),
        ("/a*b*c$", "/abcbc"),
        ("/*aa$", "/aaa"),
        ("/a***b", "/a-b"),
        ("/a*", "/a"),
        ("/a*$", "/a"),
        ("/a$b", "/a$b"),
        ("/a$$", "/a$"),
        ("/*?", "/x?y"),
        ("/*?", "/x?"),
    ] {
        assert!(matches(pattern, path), "{pattern} {path}");
    }
    for (pattern, path) in [
        ("/path/file-with-a-%2A.html", "/path/file-with-a-b.html"),
        ("/$", "/a"),
        ("/a$", "/a?"),
        ("/a$", "/a$"),
        ("/a$b", "/a"),
        ("a", "/a"),
        ("/a*b*b", "/a-b"),
        ("/ab*bc$", "/abc"),
        ("/*?", "/x"),
        ("$", "/"),
        ("", "/"),
        ("/#x", "/y%23x"),
    ] {
        // `/#x` is `/` and a comment.
        let is_comment = pattern.contains('#');
        assert_eq!(matches(pattern, path), is_comment, "{pattern} {path}");
    }
}

#[test]
fn the_longest_rule_decides_and_allow_a_tie() {
    fn check(rules: &str, path: &str, expected: bool) {
        assert_eq!(
            allows(&format!("User-agent: *\n{rules}"), path),
            expected,
            "{rules:?} {path}"
        );
    }
    check("Disallow: /p\nAllow: /p", "/p", true);
    check("Allow: /p\nDisallow: /p", "/p", true);
    check("Allow: /p\nDisallow: /", "/page", true);
    check("Disallow: /\nAllow: /p", "/page", true);
    check("Allow: /page\nDisallow: /*.htm", "/page.htm", false);
    check("Allow: /page\nDisallow: /*.ph", "/page.php5", true);
    check("Allow: /$\nDisallow: /", "/", true);
    check("Allow: /$\nDisallow: /", "/page", false);
    check("Allow: /*$\nDisallow: /a*", "/a", true);
    check("Allow: /*$\nDisallow: /a**", "/a", false);
    check("Allow: /foo\nDisallow: /%66oo", "/foo", true);
    check("Allow: /\u{30c4}\nDisallow: /*****", "/\u{30c4}", true);
}

#[test]
fn every_way_to_end_a_line() {
    for end in ["\n", "\r\n", "\r", "\n\r", "\r\n\r\n"] {
        let robots = [
            "\u{feff}User-Agent : criba",
            " DISALLOW:\t/x # no",
            "Allow:/x/y",
            "",
        ]
        .join(end);
        assert!(!allows(&robots, "/x"), "{end:?}");
        assert!(allows(&robots, "/x/y"), "{end:?}");
    }
}

#[test]
fn delays() {
    let delay = |lines: &str| {
        let robots = format!("User-agent: *\nCrawl-delay: 9\nUser-agent: criba\n{lines}");
        Robots::parse(robots.as_bytes(), "criba").crawl_delay()
    };
    // The agents of one group: nothing but a rule ends their list.
    assert_eq!(delay("Crawl-delay: 1.5"), Some(Duration::from_millis(1500)));
    assert_eq!(
        delay("Disallow: /\ncrawl-DELAY: 2\nCrawl-delay: 1"),
        Some(Duration::from_secs(2))
    );
    for text in ["", "x", "-1", "NaN", "inf", "1e300", "1 s"] {
        assert_eq!(delay(&format!("Crawl-delay: {text}")), None, "{text}");
    }
}

#[test]
fn sitemaps_stand_anywhere() {
    let text = "Sitemap: https://x/1.xml\nUser-agent: other\nSITEMAP:/2.xml#x\nDisallow: /";
    assert_eq!(
        Robots::parse(text.as_bytes(), "criba").sitemaps(),
        ["https://x/1.xml", "/2.xml"]
    );
}

#[test]
fn all_and_nothing() {
    let url = |path| Url::parse("https://h").unwrap().join(path).unwrap();
    assert!(Robots::allow_all().allows(&url("/x")));
    let nothing = Robots::parse(b"User-agent: *\nDisallow: /", "criba");
    assert!(!nothing.allows(&url("/x?y")));
    assert!(nothing.allows(&url("/robots.txt")));
    assert!(allows("User-agent: *\nDisallow: /", "/robots.txt"));
    assert!(allows("", "/") && allows("<html>User-agent: x</html>", "/"));
}

#[test]
fn a_long_file_is_cut_at_a_whole_line() {
    let mut text = b"User-agent: *\nDisallow: /first\n".to_vec();
    text.resize(LIMIT_BYTES - 20, b'#');
    text.extend_from_slice(b"\nDisallow: /last-of-all\nDisallow: /beyond");
    let robots = Robots::parse(&text, "criba");
    let allows = |path| robots.allows(&Url::parse("https://h").unwrap().join(path).unwrap());
    // The limit falls into `/last-of-all`; cut there, it would forbid more than was meant.
    assert!(!allows("/first") && allows("/last-of") && allows("/last-of-all") && allows("/beyond"));
    let mut whole = text[..LIMIT_BYTES].to_vec();
    whole.push(b'\n');
    let robots = Robots::parse(&whole, "criba");
    assert_eq!(robots.rules.len(), 2);
}

#[test]
fn any_bytes_are_read() {
    for byte in 0..=u8::MAX {
        let text = [
            b"User-agent: *\nDisallow: /",
            &[byte; 3][..],
            b"%",
            &[byte],
            b"\nAllow: *$$*",
        ]
        .concat();
        let robots = Robots::parse(&text, "criba");
        assert!(robots.allows(&Url::parse("https://h/robots.txt").unwrap()));
        assert!(robots.rules.len() <= 2);
    }
}

/// Whether a pattern matches the beginning of a path, or all of it, by trying everything.
fn matches_slowly(pattern: &[u8], is_anchored: bool, path: &[u8]) -> bool {
    match pattern.split_first() {
        None => path.is_empty() || !is_anchored,
        Some((b'*', rest)) => {
            (0..=path.len()).any(|skipped| matches_slowly(rest, is_anchored, &path[skipped..]))
        }
        Some((byte, rest)) => {
            path.first() == Some(byte) && matches_slowly(rest, is_anchored, &path[1..])
        }
    }
}

#[test]
fn wildcards_match_as_trying_everything_does() {
    let mut state = 7_u64;
    let mut text = |letters: &[u8], most: u64| {
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 33
        };
        let len = next() % (most + 1);
        (0..len)
            .map(|_| letters[next() as usize % letters.len()])
            .collect::<Vec<u8>>()
    };
    let mut matched = 0;
    for _ in 0..20_000 {
        let (pattern, path) = (text(b"ab*", 6), text(b"ab", 8));
        for is_anchored in [false, true] {
            let mut written = pattern.clone();
            written.extend(is_anchored.then_some(b'$'));
            let rule = Rule::new(true, &written);
            let expected = matches_slowly(&pattern, is_anchored, &path);
            let found = rule.matches(&path);
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(&written));
            assert!(!found || rule.is_possible(&Pairs::of(&path)));
            matched += u32::from(found);
        }
    }
    assert!((2_000..38_000).contains(&matched), "{matched}");
}

/// Bug: every rule of a file full of wildcards was searched for in every path.
/// Bytes of a path that are searched to find out whether a rule matches.
fn searched(rule: &Rule, path: &[u8]) -> usize {
    let mut searched = 0;
    rule.matches_by(path, |text, part| {
        let at = memchr::memmem::find(text, part);
        searched += at.map_or(text.len(), |at| at + part.len());
        at
    });
    searched
}

#[test]
fn a_hostile_pattern_costs_one_pass_over_the_path() {
    let path = format!("/{}", "a".repeat(2000));
    let path = path.as_bytes();
    let mut most = 0;
    for (part, times) in [
        ("*a", 1999),
        ("*a", 1000),
        ("*aa", 999),
        ("*a*", 1500),
        ("*aaaaaaa", 200),
    ] {
        for end in ["", "b", "*b", "*ab*", "$", "*b$", "*aab*ab*b"] {
            let pattern = format!("/{}{end}", part.repeat(times));
            let searched = searched(&Rule::new(false, pattern.as_bytes()), path);
            assert!(
                searched <= path.len(),
                "{searched} for {times} times {part}, {end}"
            );
            most = most.max(searched);
        }
    }
    assert!(most > path.len() - 10, "{most}");
}

#[test]
fn most_of_very_many_wildcards_are_ruled_out_without_a_search() {
    let mut text = String::from("User-agent: *\n");
    for number in 0_u64.. {
        // Letters of their own, so that rules share little with each other and with the path.
        let word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let line = format!("Disallow: *{:x}*{:x}*x\n", word >> 48, word >> 32 & 0xffff);
        if text.len() + line.len() > LIMIT_BYTES {
            break;
        }
        text.push_str(&line);
    }
    let robots = Robots::parse(text.as_bytes(), "criba");
    assert!(robots.rules.len() > 15_000, "{}", robots.rules.len());
    let path = "/docs/2026/some-page-of-a-usual-length/index.html?view=all";
    let looked_at = robots.candidates(path.as_bytes()).count();
    assert!(looked_at < robots.rules.len() / 100, "{looked_at}");
    let repeated = "User-agent: *\n".to_owned() + &"Disallow: /*a\n".repeat(20_000);
    assert_eq!(Robots::parse(repeated.as_bytes(), "criba").rules.len(), 1);
}
