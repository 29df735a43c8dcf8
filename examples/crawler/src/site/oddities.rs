//! What real sites have that crawlers stumble over. Whatever stands below `/hidden/` is named in
//! places where nothing is a link; a request for it is a mistake.

use super::endless;
use super::resource::{Packing, Resource, Resources};
use super::words::Random;
use super::{AGENT, BODY_BYTES_MAX};

/// Adds them all, and names those that the front page links to.
pub(super) fn add(resources: &mut Resources) -> Vec<String> {
    let parts = [
        rules, redirects, wishes, refresh, base, canonical, copies, spelling, charsets, statuses,
        sizes, packed, cut, files, frames, no_links, sessions, sitemaps, like_traps,
    ];
    let mut entries = endless::entries();
    for part in parts {
        part(&mut Adder {
            resources,
            entries: &mut entries,
        });
    }
    entries
}

struct Adder<'a> {
    resources: &'a mut Resources,
    entries: &'a mut Vec<String>,
}

impl Adder<'_> {
    /// Adds what other pages lead to.
    fn add(&mut self, path: impl Into<String>, resource: Resource) {
        self.resources.insert(path.into(), resource);
    }

    /// Adds what the front page links to.
    fn entry(&mut self, path: impl Into<String>, resource: Resource) {
        let path = path.into();
        self.entries.push(path.clone());
        self.add(path, resource);
    }

    /// Adds plain pages.
    fn plain<P: AsRef<str>>(&mut self, paths: impl IntoIterator<Item = P>) {
        for path in paths {
            let path = path.as_ref();
            self.add(
                path,
                Resource::page(&format!("Reached: {path}"), "<p>Nothing more.</p>\n"),
            );
        }
    }

    /// Adds a page linked from the front, with links as they are written, and what they lead to.
    fn linking(&mut self, path: &str, hrefs: &[&str], leads_to: &[&str]) {
        let resource = Resource::page(path, &anchors(hrefs)).leads_to(leads_to);
        self.entry(path, resource);
        self.plain(leads_to);
    }
}

fn anchors(hrefs: &[&str]) -> String {
    let lines = hrefs
        .iter()
        .map(|href| format!("<p><a href=\"{href}\">A link</a></p>\n"));
    lines.collect()
}

fn rules(site: &mut Adder<'_>) {
    let text = format!(
        "\u{feff}# For {AGENT}, two groups that are one\r\n\
         User-agent: otherbot\r\nDisallow: /\r\nCrawl-delay: 60\r\n\r\n\
         User-agent: *\r\nDisallow: /docs/\r\n\r\n\
         user-agent: {AGENT}/9.9\r\nDisallow: /private/\r\nAllow: /private/open/\r\n\
         Disallow: /*.secret$\r\nDisallow: /q%75oted/\r\nDisallow:\r\n\r\n\
         Sitemap: {{origin}}/sitemap-index.xml\r\n\r\n\
         User-agent: {agent}\r\nDisallow: /also-private # and what begins so\r\n",
        agent = AGENT.to_uppercase(),
    );
    let mut robots = Resource::new(200, "text/plain", text).leads_to(["/sitemap-index.xml"]);
    robots.is_template = true;
    site.add("/robots.txt", robots);
    let forbidden = [
        "/private/",
        "/private/x",
        "/a.secret",
        "/quoted/x",
        "/also-private-too",
    ];
    site.plain(forbidden);
    let allowed = ["/private/open/x", "/a.secret?x", "/Private/x", "/a.secrets"];
    let hrefs = [forbidden.as_slice(), &allowed].concat();
    site.linking("/rules/", &hrefs, &allowed);
}

fn redirects(site: &mut Adder<'_>) {
    for status in [301, 302, 303, 307, 308] {
        let target = format!("/moved/to-{status}");
        site.plain([&target]);
        let from = format!("/moved/{status}");
        site.entry(from, Resource::redirect(status, &target).leads_to([target]));
    }
    for step in 1..=8 {
        let target = format!("/chain/{}", step + 1);
        let hop = Resource::redirect(302, &format!("./{}#x", step + 1)).leads_to([&target]);
        site.add(format!("/chain/{step}"), hop);
    }
    site.plain(["/chain/9"]);
    site.entries.push("/chain/1".into());
    let to = |target: &str| Resource::redirect(301, target).leads_to([target]);
    site.entry("/ring/a", to("/ring/b"));
    site.add("/ring/b", to("/ring/c"));
    site.add("/ring/c", to("/ring/a"));
    site.entry("/ring/self", to("/ring/self"));
    site.entry("/moved/forbidden", Resource::redirect(302, "/private/x"));
    site.entry(
        "/moved/away",
        Resource::redirect(302, "http://elsewhere.invalid/"),
    );
    site.entry(
        "/moved/mail",
        Resource::redirect(302, "mailto:someone@elsewhere.invalid"),
    );
    site.entry("/moved/nowhere", Resource::new(302, "text/html", ""));
}

fn wishes(site: &mut Adder<'_>) {
    let content = "<a rel=\"nofollow\" href=\"/hidden/nofollow\">no</a>\n\
        <a rel=\"ugc NoFollow\" href=\"/hidden/nofollow-too\">no</a>\n\
        <a rel=nofollow href=/wishes/both>no</a> <a href=/wishes/both>yes</a>\n\
        <a rel=noopener href=/wishes/opener>yes</a>\n";
    let reached = ["/wishes/both", "/wishes/opener"];
    site.entry(
        "/wishes/links",
        Resource::page("Links with wishes", content).leads_to(reached),
    );
    site.plain(reached);
    let hidden = anchors(&["/hidden/page-says-nofollow"]);
    let says =
        |name: &str, content: &str| format!("<meta name=\"{name}\" content=\"{content}\">\n");
    let robots = says("ROBOTS", "noindex, NoFollow");
    site.entry(
        "/wishes/meta",
        Resource::document(&robots, "No links, please", &hidden),
    );
    site.entry(
        "/wishes/none",
        Resource::document(&says(AGENT, "none"), "Nothing, please", &hidden),
    );
    let header = Resource::page("The header wishes", &hidden);
    site.entry(
        "/wishes/header",
        header.header("X-Robots-Tag", "noarchive, nofollow"),
    );
    let other = Resource::page("Another is meant", &anchors(&["/wishes/for-another"]));
    let other = other
        .header("X-Robots-Tag", "otherbot: none")
        .leads_to(["/wishes/for-another"]);
    site.entry("/wishes/other", other);
    let noindex = says("robots", "noindex");
    let noindex = Resource::document(&noindex, "Not to be kept", &anchors(&["/wishes/followed"]));
    site.entry("/wishes/noindex", noindex.leads_to(["/wishes/followed"]));
    site.plain(["/wishes/for-another", "/wishes/followed"]);
}

fn refresh(site: &mut Adder<'_>) {
    for (name, content) in [
        ("at-once", "0;url={}"),
        ("later", "30 , URL = '{}'"),
        ("bare", "5; {}"),
    ] {
        let target = format!("/refreshed/{name}");
        let content = content.replace("{}", &target);
        let head = format!("<meta http-equiv=\"Refresh\" content=\"{content}\">\n");
        let page = Resource::document(&head, "Gone on", "").leads_to([&target]);
        site.entry(format!("/refresh/{name}"), page);
        site.plain([target]);
    }
    let head = "<meta http-equiv=refresh content=300>\n";
    site.entry("/refresh/itself", Resource::document(head, "News", ""));
}

fn base(site: &mut Adder<'_>) {
    let head = "<base target=_top><base href=\"/based/on/\"><base href=\"/hidden/\">\n";
    let reached = ["/based/on/this", "/based/that", "/absolute", "/based/on/"];
    let content = anchors(&["this", "../that", "/absolute", "#here"]);
    site.entry(
        "/base",
        Resource::document(head, "Based", &content).leads_to(reached),
    );
    site.plain(reached);
}

fn canonical(site: &mut Adder<'_>) {
    let head = "<link rel=\"canonical\" href=\"/canonical/real\">\n";
    for name in ["print", "mobile", "real"] {
        let page = Resource::document(head, "One of three", "").leads_to(["/canonical/real"]);
        site.entry(format!("/canonical/{name}"), page);
    }
    let head = "<link rel=next href=/canonical/second>\n<link rel=stylesheet href=/hidden/style.css>\n\
        <link rel=icon href=/hidden/icon.png>\n";
    let page = Resource::document(head, "First", "").leads_to(["/canonical/second"]);
    site.entry("/canonical/first", page);
    site.plain(["/canonical/second"]);
}

fn copies(site: &mut Adder<'_>) {
    let text: String = (0..20).map(|_| Random(7).paragraph(60)).collect();
    for copy in 0..20 {
        site.entry(format!("/copies/{copy}"), Resource::page("A copy", &text));
        let near = format!("{text}<p>Printed for reader number {copy}.</p>\n");
        site.entry(
            format!("/near/{copy}"),
            Resource::page("Nearly a copy", &near),
        );
    }
}

fn spelling(site: &mut Adder<'_>) {
    let cases = ["/case/page", "/Case/page", "/case/Page", "/CASE/PAGE"];
    site.linking("/case/", &cases, &cases);
    site.linking(
        "/dots/",
        &[
            "./a/../b",
            "c/./d",
            "../../../e",
            "%2e%2e/f",
            "b/",
            "/dots//g",
        ],
        &["/dots/b", "/dots/c/d", "/e", "/f", "/dots/b/", "/dots//g"],
    );
    site.linking(
        "/spelled/",
        &[
            "x#one",
            "x#two",
            "x?",
            " y ",
            "y z",
            "?a=1&amp;b=2",
            "?b=2&amp;a=1",
            "p?gclid=1",
            "caf\u{e9}",
            "caf%C3%A9",
            "q?caf\u{e9}",
            "//elsewhere.invalid/x",
            "mailto:x@y",
            "javascript:x()",
            "tel:1",
            "http://[",
            "ftp://elsewhere.invalid/",
        ],
        &[
            "/spelled/x",
            "/spelled/x?",
            "/spelled/y",
            "/spelled/y%20z",
            "/spelled/?a=1&b=2",
            "/spelled/?b=2&a=1",
            "/spelled/p",
            "/spelled/caf%C3%A9",
            "/spelled/q?caf%C3%A9",
        ],
    );
}

fn charsets(site: &mut Adder<'_>) {
    let latin = b"<title>\xfcber</title><a href='/latin/\xfc?\xfc'>\xfc</a>".to_vec();
    let reached = "/latin/%C3%BC?%FC";
    let page = Resource::new(200, "text/html; charset=iso-8859-1", latin.clone());
    site.entry("/latin/header", page.leads_to([reached]));
    let with_meta = [b"<meta charset=windows-1252>".to_vec(), latin].concat();
    site.entry(
        "/latin/meta",
        Resource::new(200, "text/html", with_meta).leads_to([reached]),
    );
    let wide = "\u{feff}<a href=/wide/\u{6f22}>\u{6f22}</a>".encode_utf16();
    let wide: Vec<u8> = wide.flat_map(u16::to_be_bytes).collect();
    let page = Resource::new(200, "text/html", wide).leads_to(["/wide/%E6%BC%A2"]);
    site.entry("/wide/mark", page);
    site.plain([reached, "/wide/%E6%BC%A2"]);
}

fn statuses(site: &mut Adder<'_>) {
    for status in [403, 404, 410, 500] {
        let body = anchors(&["/hidden/in-an-error"]);
        site.entry(
            format!("/status/{status}"),
            Resource::new(status, "text/html", body),
        );
    }
    site.entries.push("/status/not-there".into());
    for failures in 1..=2 {
        let target = format!("/flaky/behind-{failures}");
        let mut page = Resource::page("Now it works", &anchors(&[&target])).leads_to([&target]);
        page.failures = failures;
        site.entry(format!("/flaky/{failures}"), page);
        site.plain([target]);
    }
    let mut slow = Resource::page("Slow", &anchors(&["/slow/behind"])).leads_to(["/slow/behind"]);
    slow.delay_ms = 300;
    site.entry("/slow/", slow);
    site.plain(["/slow/behind"]);
}

/// Links at the beginning of a large page, beyond the first 8 MiB, and beyond what is read of it;
/// and a head with very many lines.
fn sizes(site: &mut Adder<'_>) {
    const LINE: &str = "<p>More of the same.</p>\n";
    let filler = |bytes: usize| LINE.repeat(bytes / LINE.len());
    let content = [
        anchors(&["/large/early"]),
        filler((8 << 20) + (512 << 10)),
        anchors(&["/large/late"]),
        filler(BODY_BYTES_MAX - (8 << 20) - (512 << 10)),
        anchors(&["/hidden/beyond-the-limit"]),
    ]
    .concat();
    let reached = ["/large/early", "/large/late"];
    site.entry(
        "/large/",
        Resource::page("Large", &content).leads_to(reached),
    );
    site.plain(reached);
    site.entry("/empty", Resource::new(200, "text/html", ""));
    let mut page = Resource::page("Many headers", &anchors(&["/headers/behind"]));
    for number in 0..400 {
        page = page.header("X-Filler", &format!("line {number}"));
    }
    site.entry("/headers/many", page.leads_to(["/headers/behind"]));
    site.plain(["/headers/behind"]);
}

fn packed(site: &mut Adder<'_>) {
    for packed in 1..=3 {
        let target = format!("/packed/inside-{packed}");
        let page = Resource::page("Packed", &anchors(&[&target])).leads_to([&target]);
        site.entry(
            format!("/packed/{packed}"),
            page.header("Content-Encoding", "gzip"),
        );
        site.plain([target]);
    }
    // Sent to everyone, whatever he takes.
    let always: [(&str, &str, &[Packing]); 4] = [
        ("zlib", "deflate", &[Packing::Zlib]),
        ("deflate", "deflate", &[Packing::Deflate]),
        ("twice", "gzip, gzip", &[Packing::Gzip, Packing::Gzip]),
        ("two", "deflate, gzip", &[Packing::Zlib, Packing::Gzip]),
    ];
    for (name, coding, packings) in always {
        let target = format!("/packed/inside-{name}");
        let page = Resource::page("Packed", &anchors(&[&target])).leads_to([&target]);
        let mut page = page.header("Content-Encoding", coding);
        page.packings = packings;
        site.entry(format!("/packed/{name}"), page);
        site.plain([target]);
    }
}

/// Pages whose ends are missing: what stands before the cut counts.
fn cut(site: &mut Adder<'_>) {
    let ends = [
        ("tag", "<a href=\"/hidden/in-half-a-tag"),
        ("value", "<a href=/hidden/in-half-a-tag"),
        ("comment", "<!-- <a href=/hidden/in-half-a-comment>no</a>"),
        (
            "script",
            "<script>\"<a href=/hidden/in-half-a-script>no</a>\"",
        ),
        ("reference", "<p>Salt &am"),
    ];
    for (name, end) in ends {
        let target = format!("/cut/before-{name}");
        let html = format!("<title>Cut</title>{}{end}", anchors(&[&target]));
        let page = Resource::new(200, "text/html", html).leads_to([&target]);
        site.entry(format!("/cut/{name}"), page);
        site.plain([target]);
    }
}

/// Pages whose addresses look like those of traps, and whose texts do not.
fn like_traps(site: &mut Adder<'_>) {
    let paths = [
        "/events/2019/05/talk.html",
        "/calendar/2023/12/",
        "/agenda?year=2020",
        "/prevented/2010/01/a.html",
        "/a/a/a/x.html",
    ];
    for (seed, path) in (50..).zip(paths) {
        let next = format!("/behind{path}");
        let text = |seed| Random(seed).paragraph(80);
        let content = text(seed) + &anchors(&[&next]);
        let page = Resource::page("A good page", &content).leads_to([&next]);
        site.entry(path, page);
        site.add(next, Resource::page("Another", &text(seed + 100)));
    }
}

fn files(site: &mut Adder<'_>) {
    let types = [
        ("paper.pdf", "application/pdf"),
        ("notes.txt", "text/plain; charset=utf-8"),
        ("picture.png", "image/png"),
        ("data.json", "application/json"),
        ("page.html.zip", "application/zip"),
    ];
    for (name, content_type) in types {
        let body = anchors(&["/hidden/in-a-file"]);
        site.entry(
            format!("/files/{name}"),
            Resource::new(200, content_type, body),
        );
    }
    let xhtml = "<html><body><a href='/files/from-page'/></body></html>";
    let page = Resource::new(200, "text/html;charset=UTF-8", xhtml).leads_to(["/files/from-page"]);
    site.entry("/files/page.pdf", page);
    site.plain(["/files/from-page"]);
}

fn frames(site: &mut Adder<'_>) {
    let content = "<iframe src=frame></iframe><map><area href='/frames/area'></map>\n\
        <frameset><frame src=\"/frames/set\"></frameset><embed src=/hidden/embed>\n\
        <img src=/hidden/image.png><form action=/hidden/form></form>\n";
    let reached = ["/frames/frame", "/frames/area", "/frames/set"];
    site.entry(
        "/frames/",
        Resource::page("Frames", content).leads_to(reached),
    );
    site.plain(reached);
}

fn no_links(site: &mut Adder<'_>) {
    let link = "<a href=/hidden/no-link>no</a>";
    let within: String = [
        "script", "style", "textarea", "title", "xmp", "noembed", "iframe",
    ]
    .map(|name| format!("<{name}>{link}</{name}>\n"))
    .concat();
    let content = format!(
        "{within}<!-- {link} -->\n<p title='{link}'>\n<script>document.write(\"{link}\")</script>\n\
         <b data-href=/hidden/data>no</b>\n<noscript><a href=/quiet/noscript>yes</a></noscript>\n\
         <a name=x href=/quiet/unquoted>yes</a><A HREF='/quiet/upper'>yes</A>\n"
    );
    let reached = ["/quiet/noscript", "/quiet/unquoted", "/quiet/upper"];
    site.entry(
        "/quiet/",
        Resource::page("Quiet", &content).leads_to(reached),
    );
    site.plain(reached);
}

/// Each page gives each link another session: without their removal, there is no end.
fn sessions(site: &mut Adder<'_>) {
    let mut random = Random(11);
    let items: Vec<String> = (0..10).map(|item| format!("/shop/{item}")).collect();
    for item in &items {
        let links = items.iter().map(|item| match random.next() {
            session if session % 2 == 0 => format!("{item};jsessionid={session:X}"),
            session => format!("{item}?PHPSESSID={session:x}"),
        });
        let links: Vec<String> = links.collect();
        let links: Vec<&str> = links.iter().map(String::as_str).collect();
        let page = Resource::page(&format!("Item {item}"), &anchors(&links)).leads_to(&items);
        site.add(item.clone(), page);
    }
    site.entries.push(items[0].clone());
}

fn sitemaps(site: &mut Adder<'_>) {
    const SPACE: &str = "http://www.sitemaps.org/schemas/sitemap/0.9";
    let mut add = |path: &str, text: String, leads_to: &[&str]| {
        let mut map = Resource::new(200, "application/xml", text).leads_to(leads_to);
        map.is_template = true;
        site.add(path, map);
    };
    let maps = [
        "/sitemap-1.xml",
        "/sitemap-2.txt",
        "/sitemap-cut.xml",
        "/sitemap-missing.xml",
    ];
    let locs = maps
        .map(|map| format!("<sitemap><loc>{{origin}}{map}</loc></sitemap>\n"))
        .concat();
    let index =
        format!("<?xml version=\"1.0\"?>\n<sitemapindex xmlns=\"{SPACE}\">\n{locs}</sitemapindex>");
    add("/sitemap-index.xml", index, &maps);
    let urls = [
        "/listed/1",
        "/listed/2?a=1&amp;b=2",
        "/private/x",
        "/docs/0/0.html",
    ];
    let locs =
        urls.map(|url| format!("<url><loc>\n{{origin}}{url}</loc><priority>1</priority></url>\n"));
    let map = format!("<urlset xmlns=\"{SPACE}\">\n{}</urlset>", locs.concat());
    add(
        "/sitemap-1.xml",
        map,
        &["/listed/1", "/listed/2?a=1&b=2", "/docs/0/0.html"],
    );
    add(
        "/sitemap-2.txt",
        "{origin}/listed/3\r\n{origin}/listed/4".into(),
        &["/listed/3", "/listed/4"],
    );
    let whole = "<url><loc>{origin}/listed/5</loc></url>\n";
    let map = format!("<urlset xmlns=\"{SPACE}\">\n{whole}<url><loc>{{origin}}/hidden/to");
    add("/sitemap-cut.xml", map, &["/listed/5"]);
    site.plain([
        "/listed/1",
        "/listed/2?a=1&b=2",
        "/listed/3",
        "/listed/4",
        "/listed/5",
    ]);
}
