//! Cookies of a file that curl or a browser has written, in the format of Netscape.
//!
//! A line is a cookie: domain, whether hosts below it count (`TRUE` or `FALSE`), path, whether it
//! is for https only, when it expires (seconds since 1970, 0 for never), name and value, with a tab
//! between each. RFC 6265 says with which requests a cookie goes.

use std::collections::BTreeMap;

use url::{Host, Url};

/// Cookies that may be sent.
#[derive(Debug, Default)]
pub(crate) struct Cookies {
    /// By domain; those with the longest paths first.
    by_domain: BTreeMap<String, Vec<Cookie>>,
}

#[derive(Debug)]
struct Cookie {
    /// Hosts below the domain get it, too.
    below: bool,
    path: String,
    secure: bool,
    /// Seconds since 1970.
    expires: Option<u64>,
    name: String,
    value: String,
}

/// Begins the line of a cookie that scripts of pages cannot read.
const HTTP_ONLY: &str = "#HttpOnly_";

impl Cookies {
    /// Reads the text of such a file.
    ///
    /// # Errors
    ///
    /// A sentence with the number of the line that is wrong.
    pub(crate) fn parse(text: &str) -> Result<Cookies, String> {
        let mut cookies = Cookies::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = match line.strip_prefix(HTTP_ONLY) {
                Some(cookie) => cookie,
                None if line.starts_with('#') => continue,
                None => line,
            };
            if line.trim().is_empty() {
                continue;
            }
            let (domain, cookie) =
                read_line(line).map_err(|what| format!("line {number}: {what}"))?;
            let same_domain = cookies.by_domain.entry(domain).or_default();
            // The last word counts.
            same_domain.retain(|known| known.name != cookie.name || known.path != cookie.path);
            same_domain.push(cookie);
        }
        if cookies.by_domain.is_empty() {
            return Err(
                "it holds no cookie; name a file in the Netscape format, as `curl \
                        --cookie-jar` and browsers write it (cookies.txt)"
                    .into(),
            );
        }
        for same_domain in cookies.by_domain.values_mut() {
            same_domain.sort_by_key(|cookie| usize::MAX - cookie.path.len());
        }
        Ok(cookies)
    }

    /// The value of the header `Cookie` for a request, if there is a cookie for it. `now` is in
    /// seconds since 1970.
    pub(crate) fn for_request(&self, url: &Url, now: u64) -> Option<String> {
        let mut out = String::new();
        let host = url.host_str()?;
        let is_name = matches!(url.host(), Some(Host::Domain(_)));
        let parents = host.match_indices('.').map(|(at, _)| &host[at + 1..]);
        let parents = parents.filter(|_| is_name);
        for domain in std::iter::once(host).chain(parents) {
            for cookie in self.by_domain.get(domain).into_iter().flatten() {
                if (domain == host || cookie.below) && cookie.is_for(url, now) {
                    let separator = if out.is_empty() { "" } else { "; " };
                    let equals = if cookie.name.is_empty() { "" } else { "=" };
                    out.extend([
                        separator,
                        cookie.name.as_str(),
                        equals,
                        cookie.value.as_str(),
                    ]);
                }
            }
        }
        (!out.is_empty()).then_some(out)
    }
}

impl Cookie {
    fn is_for(&self, url: &Url, now: u64) -> bool {
        let rest = url.path().strip_prefix(&self.path);
        let is_below =
            |rest: &str| rest.is_empty() || rest.starts_with('/') || self.path.ends_with('/');
        rest.is_some_and(is_below)
            && (!self.secure || url.scheme() == "https")
            && self.expires.is_none_or(|expires| expires > now)
    }
}

fn read_line(line: &str) -> Result<(String, Cookie), String> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [domain, below, path, secure, expires, name, value @ ..] = &fields[..] else {
        return Err(format!(
            "7 fields separated by tabs are expected, and it has {}; export the cookies in the \
             Netscape format (cookies.txt)",
            fields.len()
        ));
    };
    // Some programs leave out a value that is empty.
    let value = match value {
        [] => "",
        [value] => value,
        _ => {
            return Err(format!(
                "7 fields are expected, and it has {}",
                fields.len()
            ));
        }
    };
    let domain = domain.strip_prefix('.').unwrap_or(domain);
    if domain.is_empty() || domain.contains([' ', '/']) {
        return Err("the first field is not a domain".into());
    }
    if !path.starts_with('/') {
        return Err("the third field is not a path; it must begin with /".into());
    }
    let is_plain = |text: &str| !text.contains(|c: char| c.is_control() || c == ';');
    if !is_plain(name) || !is_plain(value) || name.contains('=') {
        return Err("its name or value has a character that no cookie can have".into());
    }
    let cookie = Cookie {
        below: flag(below, "second")?,
        path: (*path).to_owned(),
        secure: flag(secure, "fourth")?,
        expires: time(expires)?,
        name: (*name).to_owned(),
        value: value.to_owned(),
    };
    Ok((domain.to_ascii_lowercase(), cookie))
}

fn flag(text: &str, which: &str) -> Result<bool, String> {
    if text.eq_ignore_ascii_case("TRUE") {
        Ok(true)
    } else if text.eq_ignore_ascii_case("FALSE") {
        Ok(false)
    } else {
        Err(format!("the {which} field is neither TRUE nor FALSE"))
    }
}

/// Cookies of a session have 0, or nothing. Some programs write fractions of a second.
fn time(text: &str) -> Result<Option<u64>, String> {
    let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
    if whole.is_empty() {
        return Ok(None);
    }
    match whole.parse() {
        Ok(0) => Ok(None),
        Ok(seconds) => Ok(Some(seconds)),
        Err(_) => Err("the fifth field is not a time in seconds since 1970".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn check(file: &str, url: &str, expected: &str) {
        let cookies = Cookies::parse(file).unwrap();
        let found = cookies.for_request(&Url::parse(url).unwrap(), NOW);
        assert_eq!(found.unwrap_or_default(), expected, "{file:?} {url}");
    }

    #[test]
    fn hosts() {
        let own = "example.org\tFALSE\t/\tFALSE\t0\ta\t1\n";
        check(own, "http://example.org/", "a=1");
        check(own, "http://EXAMPLE.org:8080/x", "a=1");
        check(own, "http://www.example.org/", "");
        check(own, "http://notexample.org/", "");
        let below = ".Example.org\tTRUE\t/\tFALSE\t0\ta\t1\n";
        check(below, "http://example.org/", "a=1");
        check(below, "http://a.b.example.org/", "a=1");
        check(below, "http://notexample.org/", "");
        check(below, "http://org/", "");
        let address = "0.0.1\tTRUE\t/\tFALSE\t0\ta\t1\n127.0.0.1\tFALSE\t/\tFALSE\t0\tb\t2";
        check(address, "http://127.0.0.1/", "b=2");
    }

    #[test]
    fn paths() {
        let file = "h\tFALSE\t/docs\tFALSE\t0\ta\t1\n";
        check(file, "http://h/docs", "a=1");
        check(file, "http://h/docs/x?y", "a=1");
        check(file, "http://h/docsx", "");
        check(file, "http://h/", "");
        let file = "h\tFALSE\t/docs/\tFALSE\t0\ta\t1\n";
        check(file, "http://h/docs/x", "a=1");
        check(file, "http://h/docs", "");
    }

    #[test]
    fn schemes_and_times() {
        let file = "h\tFALSE\t/\tTRUE\t0\ta\t1\nh\tFALSE\t/\tFALSE\t1799999999\tb\t2\n\
            h\tFALSE\t/\tFALSE\t1800000001.5\tc\t3\nh\tFALSE\t/\tFALSE\t\td\t4";
        check(file, "http://h/", "c=3; d=4");
        check(file, "https://h/", "a=1; c=3; d=4");
    }

    #[test]
    fn lines() {
        let file = "# Netscape HTTP Cookie File\r\n\r\n#HttpOnly_h\tFALSE\t/\tFALSE\t0\ta\t1\r\n\
            h\tFALSE\t/x\tFALSE\t0\tb\t\r\n# h\tFALSE\t/\tFALSE\t0\tno\t1\n\
            h\tfalse\t/\tfalse\t0\tc\nh\tFALSE\t/\tFALSE\t0\t\tbare\n\
            h\tFALSE\t/\tFALSE\t0\ta\t=2\n";
        // The longest path first; the last word of two; names and values that are empty.
        check(file, "http://h/x", "b=; c=; bare; a==2");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        fn check(line: &str, expected: &str) {
            let file = format!("# Netscape HTTP Cookie File\n{line}\n");
            let what = Cookies::parse(&file).unwrap_err();
            assert!(what.starts_with("line 2: "), "{what}");
            assert!(what.contains(expected), "{what}");
        }
        check("[{\"domain\": \"h\"}]", "and it has 1; export");
        check("h\tFALSE\t/\tFALSE\t0", "and it has 5; export");
        check("h\tFALSE\t/\tFALSE\t0\ta\tb\tc", "and it has 8");
        check("\tFALSE\t/\tFALSE\t0\ta\t1", "not a domain");
        check("http://h\tFALSE\t/\tFALSE\t0\ta\t1", "not a domain");
        check("h\tyes\t/\tFALSE\t0\ta\t1", "second field");
        check("h\tFALSE\tx\tFALSE\t0\ta\t1", "third field");
        check("h\tFALSE\t/\t1\t0\ta\t1", "fourth field");
        check("h\tFALSE\t/\tFALSE\tnever\ta\t1", "fifth field");
        check("h\tFALSE\t/\tFALSE\t-1\ta\t1", "fifth field");
        check("h\tFALSE\t/\tFALSE\t0\ta\t1; b=2", "no cookie can have");
        check("h\tFALSE\t/\tFALSE\t0\ta\u{1}\t1", "no cookie can have");
        let none = Cookies::parse("# nothing\n").unwrap_err();
        assert!(none.contains("holds no cookie"), "{none}");
    }
}
