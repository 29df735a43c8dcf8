use super::*;

const NORMAL: Normal = Normal {
    strip_tracking: false,
};

fn page(html: impl AsRef<[u8]>) -> Page {
    let url = Url::parse("http://h/a/p?q").unwrap();
    read(
        html.as_ref(),
        Said::default(),
        &url,
        NORMAL,
        &mut Room::default(),
    )
}

/// The links, without the `http://h` before them.
fn links(page: &Page) -> Vec<&str> {
    assert_eq!(page.links.len(), page.addresses.len());
    page.addresses
        .iter()
        .map(|link| link.strip_prefix("http://h").unwrap())
        .collect()
}

fn check(html: impl AsRef<[u8]>, expected: &[&str]) {
    let html = html.as_ref();
    assert_eq!(
        links(&page(html)),
        expected,
        "{}",
        String::from_utf8_lossy(html)
    );
}

#[test]
fn links_however_they_are_written() {
    check("<a href=x>", &["/a/x"]);
    check("<A HREF='x'>", &["/a/x"]);
    check("<a\n\tclass=y href = \" x \" id>", &["/a/x"]);
    check("<a href=x/>", &["/a/x/"]);
    check("<a/href=x>", &["/a/x"]);
    check("<a x href=x href=y>", &["/a/x"]);
    check("<a href href=y>", &[]);
    check("<a download href=y>", &["/a/y"]);
    check(
        "<a href=\"?a=1&amp;b=2&copy=3&#38;d\">",
        &["/a/p?a=1&b=2&copy=3&d"],
    );
    check("<a href=\"/&#x41;&lt;\">", &["/A%3C"]);
    check("<a title='<a href=/no>' href='/y'>", &["/y"]);
    check("<a href=/y title='>'><b title=\"<a href=/no>\">", &["/y"]);
    check(
        "<area href=/x><iframe src=/y></iframe><frame src=/z>",
        &["/x", "/y", "/z"],
    );
    check("<a href=/cut", &[]);
    check(
        "</a href=/x><abbr href=/x><a name=/x><a data-href=/x><img src=/x>",
        &[],
    );
    check("<a href=/x>".repeat(3), &["/x"]);
    check("<svg><a href=/x></a></svg><math href=/y></math>", &["/x"]);
    check(
        "<a href=mailto:x@y><a href='javascript:x()'><a href=tel:1>",
        &[],
    );
    check("", &[]);
    check("\0\0<a href=/x\0>", &["/x%EF%BF%BD"]);
}

#[test]
fn what_is_no_markup_has_no_links() {
    for name in [
        "script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes",
    ] {
        check(format!("<{name}><a href=/no></{name}><a href=/y>"), &["/y"]);
        check(
            format!("<{name}><a href=/no></{name}x><a href=/no></{name} ><a href=/y>"),
            &["/y"],
        );
    }
    check("<!-- <a href=/no> --><a href=/y>", &["/y"]);
    check("<!--><a href=/y>--><!-- <a href=/no>", &["/y"]);
    check("<!-- --!><a href=/y>", &["/y"]);
    check("<!x <b><a href=/y>", &["/y"]);
    check("<?php <a href=/no ?><a href=/y>", &["/y"]);
    check(
        "<script><!-- <script> </script> <a href=/no> --></script><a href=/y>",
        &["/y"],
    );
    check("<plaintext><a href=/no></plaintext><a href=/no>", &[]);
    check(
        "<noscript><a href=/x></noscript><template><a href=/y></template>",
        &["/x", "/y"],
    );
}

#[test]
fn foreign_content_has_its_own_rules() {
    check(
        "<svg><title><a href=/x></a></title></svg><a href=/y>",
        &["/x", "/y"],
    );
    check(
        "<svg><style><a href=/x></style></svg><a href=/y>",
        &["/x", "/y"],
    );
    check("<svg/><style><a href=/no></style><a href=/y>", &["/y"]);
    check("<svg><![CDATA[<a href=/no>]]></svg><a href=/y>", &["/y"]);
    check("<![CDATA[<a href=/no><a href=/y>]]>", &["/y"]);
    check(
        "<svg><p><textarea><a href=/no></textarea><a href=/y>",
        &["/y"],
    );
    check(
        "<svg><svg></svg><script><a href=/x></svg><script><a href=/no></script>",
        &["/x"],
    );
}

#[test]
fn the_first_base_counts_for_all_links() {
    check(
        "<a href=x><base href=/b/><base href=/c/><a href=y>",
        &["/b/x", "/b/y"],
    );
    check("<base target=x><base href=b/c><a href=x>", &["/a/b/x"]);
    check("<base href='http://['><base href=/c/><a href=x>", &["/a/x"]);
    check("<base href=/b/><a href=#x>", &["/b/"]);
    check("<base href=/b/><link rel=canonical href=x>", &["/b/x"]);
    assert_eq!(
        page("<base href=//other/><a href=x>").addresses.get(0),
        "http://other/x"
    );
}

#[test]
fn the_page_itself_is_no_link() {
    check(
        "<a href=#x><a href=''><a href='?q#y'><a href=/a/p><a href='/a/./p?q'>",
        &["/a/p"],
    );
}

#[test]
fn different_spellings_are_one_link() {
    check(
        "<a href=x><a href=./x#1><a href=' x#2 '><a href=/a/x><a href=//H:80/a/x>",
        &["/a/x"],
    );
    check(
        "<a href=X><a href=x><a href=%78>",
        &["/a/X", "/a/x", "/a/%78"],
    );
}

#[test]
fn nofollow_holds_where_every_link_says_so() {
    let page = page(
        "<a rel='ugc NoFollow' href=1><a rel=nofollows href=2><a rel=nofollow href=3><a href=./3>\
         <area rel=nofollow href=4><a rel=nofollow href=5><a href=5 rel='nofollow'>",
    );
    let nofollow: Vec<bool> = page.links.iter().map(|link| link.nofollow).collect();
    assert_eq!(nofollow, [true, false, false, true, true]);
    assert!(!page.nofollow);
}

#[test]
fn a_refresh_is_a_link() {
    fn refresh(content: &str, expected: &[&str]) {
        check(
            format!("<meta http-equiv=REFRESH content=\"{content}\">"),
            expected,
        );
    }
    refresh("0;url=/x", &["/x"]);
    refresh(" 5.5 , URL = '/x' y", &["/x"]);
    refresh("0;/x", &["/x"]);
    refresh("0 /x", &["/x"]);
    refresh(".5; url=x&amp;y", &["/a/x&y"]);
    refresh("0; url=&quot;/x&quot;/no", &["/x"]);
    refresh("0;urls", &["/a/urls"]);
    refresh("5", &[]);
    refresh("5;", &[]);
    refresh("x;url=/no", &[]);
    refresh(";url=/no", &[]);
    refresh("5x;url=/no", &[]);
    refresh("", &[]);
    check(
        "<noscript><meta http-equiv=refresh content='0;url=/x'></noscript>",
        &["/x"],
    );
    let html = "<meta http-equiv=refresh content='0;url=/x'>";
    assert_eq!(page(html).links[0].kind, LinkKind::Refresh);
}

#[test]
fn relations() {
    let html = "<link rel=canonical href=/c><link rel=canonical href=/d><link rel='NEXT x' href=/n>\
        <link rel=stylesheet href=/s><link rel='alternate stylesheet' href=/s><link rel=icon href=/i>\
        <link href=/none><a href=/n>";
    let page = page(html);
    assert_eq!(page.canonical.as_ref().unwrap().as_str(), "http://h/c");
    assert_eq!(links(&page), ["/c", "/d", "/n"]);
    let kinds: Vec<LinkKind> = page.links.iter().map(|link| link.kind).collect();
    use LinkKind::{Anchor, Canonical};
    assert_eq!(kinds, [Canonical, Canonical, Anchor]);
}

#[test]
fn a_page_may_name_itself_canonical() {
    let page = page("<link rel=canonical href='?q'>");
    assert_eq!(page.canonical.unwrap().as_str(), "http://h/a/p?q");
    assert!(page.links.is_empty());
}

#[test]
fn wishes_in_the_page_and_in_the_header() {
    fn wish(html: &str, header: Option<&str>, expected: (bool, bool)) {
        let url = Url::parse("http://h/").unwrap();
        let said = Said {
            content_type: None,
            robots_tag: header,
        };
        let page = read(html.as_bytes(), said, &url, NORMAL, &mut Room::default());
        assert_eq!((page.noindex, page.nofollow), expected, "{html} {header:?}");
    }
    wish(
        "<meta name=robots content='noindex, NOFOLLOW'>",
        None,
        (true, true),
    );
    wish("<META NAME=Robots CONTENT=None>", None, (true, true));
    wish("<meta content=nofollow name=criba>", None, (false, true));
    wish(
        "<meta name=otherbot content=none><meta name=description content=noindex>",
        None,
        (false, false),
    );
    wish(
        "<meta name=robots content='index,follow,noindexes'>",
        None,
        (false, false),
    );
    wish("", Some("noindex"), (true, false));
    wish("", Some("max-snippet: 5, nofollow\nnoindex"), (true, true));
    wish(
        "",
        Some("otherbot: noindex, nofollow\nnofollow"),
        (false, true),
    );
    wish("", Some("otherbot: none, criba: nofollow"), (false, true));
    wish(
        "",
        Some("unavailable_after: 25 Jun 2010 15:00:00 PST, noindex"),
        (true, false),
    );
    wish("", Some(":,,\n"), (false, false));
}

/// Reads a page with one link, which must be this one.
fn query(html: &[u8], content_type: Option<&str>, expected: &str) {
    let url = Url::parse("http://h/").unwrap();
    let said = Said {
        content_type,
        robots_tag: None,
    };
    let page = read(html, said, &url, NORMAL, &mut Room::default());
    assert_eq!(
        links(&page),
        [expected],
        "{}",
        String::from_utf8_lossy(html)
    );
}

#[test]
fn charsets() {
    let latin = b"<a href='/\xfc?\xfc'>";
    query(latin, None, "/%C3%BC?%FC");
    query(
        latin,
        Some("text/html; Charset = \"ISO-8859-1\""),
        "/%C3%BC?%FC",
    );
    query(latin, Some("text/html; charset=iso-8859-7"), "/%CF%8C?%FC");
    query("<a href='/ü?ü'>".as_bytes(), None, "/%C3%BC?%C3%BC");
    query(
        "\u{feff}<a href='/ü?ü'>".as_bytes(),
        Some("text/html;charset=latin1"),
        "/%C3%BC?%C3%BC",
    );
    query(b"<meta charset=koi8-r><a href='/\xc1'>", None, "/%D0%B0");
    query(
        b"<meta http-equiv=Content-Type content='text/html; charset=koi8-r'><a href='/\xc1'>",
        None,
        "/%D0%B0",
    );
    query(
        b"<meta charset=koi8-r><a href='/\xc1'>",
        Some("text/html; charset=latin1"),
        "/%C3%81",
    );
    query(
        b"<!-- <meta charset=koi8-r> --><a href='/\xc1'>",
        None,
        "/%C3%81",
    );
    query(
        b"<meta charset=utf-16><a href='/\xc3\xbc'>",
        None,
        "/%C3%BC",
    );
    query(
        b"<meta charset=nonsense><a href='/\xc3\xbc'>",
        Some("text/html; charset=x"),
        "/%C3%BC",
    );
}

#[test]
fn charsets_of_wide_and_of_damaged_text() {
    let wide = |text: &str| {
        text.encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<u8>>()
    };
    query(&wide("\u{feff}<a href='/ü?ü'>"), None, "/%C3%BC?%C3%BC");
    query(
        &wide("<a href='/ü?ü'>"),
        Some("text/html; charset=utf-16"),
        "/%C3%BC?%C3%BC",
    );
    query(
        b"<a href='/\xff\xc3'>",
        Some("text/html; charset=utf-8"),
        "/%EF%BF%BD%EF%BF%BD",
    );
    let far = [
        vec![b' '; 1024],
        b"<meta charset=koi8-r><a href='/\xc1'>".to_vec(),
    ]
    .concat();
    query(&far, None, "/%C3%81");
}

#[test]
fn titles() {
    fn title(html: &str, expected: &str) {
        assert_eq!(page(html).title, expected);
    }
    title(
        "<title>\n A &amp;  <b>B </title><title>C</title>",
        "A & <b>B",
    );
    title("<svg><title>no</title></svg><title>yes</title>", "yes");
    title("<h1>no</h1>", "");
    title("<title></title><title>no</title>", "");
    assert_eq!(
        page(format!("<title>{}", "x".repeat(5000))).title.len(),
        TITLE_BYTES_MAX
    );
    let cut = page(format!("<title>{}x", "ü".repeat(5000))).title;
    assert!(cut.len() <= TITLE_BYTES_MAX + 3 && cut.starts_with("üü"));
}

#[test]
fn only_the_visible_text_has_a_fingerprint() {
    let one = page("<title>x</title><p>one two <b>three</b> four");
    let other = page("<script>y</script><div class=z>one</div> TWO<!-- c -->, three <i>four");
    assert_ne!(one.simhash, 0);
    assert_eq!(one.simhash, other.simhash);
    assert_eq!(page("<script>y</script>").simhash, 0);
}

/// Whatever the bytes are, a page is read.
#[test]
fn any_bytes_are_a_page() {
    let pieces: [&[u8]; 16] = [
        b"<a ",
        b"href=",
        b"\"",
        b"'",
        b">",
        b"<!--",
        b"-->",
        b"</",
        b"script",
        b"svg",
        b"<![CDATA[",
        b"&#x",
        b"\0",
        b"\xff\xfe",
        b"title",
        b"<",
    ];
    let mut state = 1_u64;
    for _ in 0..3000 {
        let mut html = Vec::new();
        for _ in 0..20 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            html.extend_from_slice(pieces[(state >> 60) as usize]);
        }
        let page = page(&html);
        assert!(page.links.len() <= 20);
    }
}
