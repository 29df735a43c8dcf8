//! `--hosts`: settings for single hosts, from a TOML file.
//!
//! ```toml
//! ["example.org"]
//! connections = 2
//! delay = 500
//! pages = 10000
//! include = ["/docs/"]
//!
//! ["*.example.org"]
//! proxy = "http://proxy.example:3128"
//! cookies = "cookies.txt"
//! headers = { Authorization = "Bearer 1234" }
//! ```
//!
//! The most specific section counts, and it alone: `example.org`, then `*.example.org` (hosts below
//! it), then `*` (all hosts).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use common::escape::Plain;
use serde::Deserialize;

use crate::by_host::ByHost;
use crate::http::{Cookies, Extra, Header, Proxy};
use crate::patterns::Patterns;

/// Most requests under way at one host.
const CONNECTIONS_MAX: u64 = 1024;

/// What the file says, by host.
#[derive(Debug, Default)]
pub(crate) struct HostSettings {
    sections: ByHost<HostSection>,
}

/// What it says of a host. A setting that it does not have is that of the command line.
#[derive(Debug, Clone)]
pub(crate) struct HostSection {
    connections: Option<usize>,
    delay: Option<Duration>,
    pages: Option<u64>,
    /// `None` for those of the command line.
    patterns: Option<Patterns>,
    extra: Extra,
}

impl HostSection {
    /// Requests under way at the host, from 1 to 1,024.
    pub(crate) fn connections(&self) -> Option<usize> {
        self.connections
    }

    /// The least time from one request to the next at the host.
    pub(crate) fn delay(&self) -> Option<Duration> {
        self.delay
    }

    /// Which addresses are wanted; `None` if the section has no patterns.
    pub(crate) fn patterns(&self) -> Option<&Patterns> {
        self.patterns.as_ref()
    }
}

impl HostSettings {
    /// Reads the file, and the files of cookies that it names.
    ///
    /// # Errors
    ///
    /// A sentence that names the file, the place in it, and what is wrong.
    pub(crate) fn load(path: &Path) -> Result<HostSettings, String> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let text = read_text(path)?;
        HostSettings::parse(&text, folder)
            .map_err(|what| format!("{}: {what}", Plain(&path.display().to_string())))
    }

    fn parse(text: &str, folder: &Path) -> Result<HostSettings, String> {
        let written: BTreeMap<String, Written> =
            toml::from_str(text).map_err(|error| with_line(text, &error))?;
        let mut sections = ByHost::default();
        for (name, section) in written {
            let shown = format!("[\"{}\"]", Plain(&name));
            let section = section
                .checked(folder)
                .map_err(|what| format!("{shown}: {what}"))?;
            sections
                .insert(&name, section)
                .map_err(|what| format!("{shown}: {what}"))?;
        }
        Ok(HostSettings { sections })
    }

    /// The section that counts for a host, which is written as [`url::Url::host_str`] has it.
    pub(crate) fn of(&self, host: &str) -> Option<&HostSection> {
        self.sections.get(host)
    }

    /// Pages of each host at most; 0 means none.
    pub(crate) fn pages(&self) -> ByHost<Option<u64>> {
        self.sections.clone().map(|section| section.pages)
    }

    /// What is added to requests to each host.
    pub(crate) fn extras(&self) -> ByHost<Extra> {
        self.sections.clone().map(|section| section.extra)
    }
}

/// A section as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section like [\"example.org\"]")]
struct Written {
    connections: Option<u64>,
    delay: Option<u64>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    proxy: Option<String>,
    cookies: Option<PathBuf>,
    pages: Option<u64>,
    #[serde(default)]
    include: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
}

impl Written {
    fn checked(self, folder: &Path) -> Result<HostSection, String> {
        if let Some(connections) = self.connections
            && !(1..=CONNECTIONS_MAX).contains(&connections)
        {
            return Err(format!("connections: write 1 to {CONNECTIONS_MAX}"));
        }
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| Header::new(name, value));
        let headers: Result<_, _> = headers.collect();
        let cookies = self.cookies.map(|path| read_cookies(&folder.join(path)));
        let proxy = self.proxy.map(|proxy| Proxy::parse(&proxy)).transpose();
        let has_patterns = !(self.include.is_empty() && self.exclude.is_empty());
        let patterns = Patterns::new(&self.include, &self.exclude)?;
        let patterns = has_patterns.then_some(patterns);
        Ok(HostSection {
            connections: self.connections.map(|connections| connections as usize),
            delay: self.delay.map(Duration::from_millis),
            pages: self.pages,
            patterns,
            extra: Extra {
                headers: headers.map_err(|what| format!("headers: {what}"))?,
                cookies: cookies
                    .transpose()
                    .map_err(|what| format!("cookies: {what}"))?,
                proxy: proxy
                    .map_err(|what| format!("proxy: {what}"))?
                    .map(Arc::new),
            },
        })
    }
}

/// The error with the line that it is about.
fn with_line(text: &str, error: &toml::de::Error) -> String {
    let mut what = error.message().to_owned();
    if let Some(span) = error.span() {
        let before = &text.as_bytes()[..span.start.min(text.len())];
        let number = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        let line = text
            .lines()
            .nth(number - 1)
            .unwrap_or_default()
            .trim_start();
        // Without them, TOML reads the dots of a host as tables within tables.
        if line.starts_with('[') && what.starts_with("unknown field") {
            what.push_str("; write the host in quotation marks, like [\"example.org\"]");
        }
        what = format!("line {number}: {what}");
    }
    what
}

/// Reads a file of cookies.
///
/// # Errors
///
/// A sentence that names the file, the line in it, and what is wrong.
pub(crate) fn read_cookies(path: &Path) -> Result<Arc<Cookies>, String> {
    let cookies = Cookies::parse(&read_text(path)?);
    let cookies =
        cookies.map_err(|what| format!("{}: {what}", Plain(&path.display().to_string())))?;
    Ok(Arc::new(cookies))
}

fn read_text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("{}: {error}", Plain(&path.display().to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<HostSettings, String> {
        HostSettings::parse(text, Path::new(""))
    }

    #[test]
    fn every_setting() {
        let settings = parse(
            "[\"Example.org\"]\nconnections = 2\ndelay = 500\npages = 0\n\
             headers = { Authorization = \"Bearer 1\", Accept = \"*/*\" }\n\
             proxy = \"http://h:1\"\ninclude = [\"/docs/*\"]\nexclude = [\"*.zip\", \"/x\"]\n\
             [\"*.example.org\"]\n",
        );
        let settings = settings.unwrap();
        let own = settings.of("example.org").unwrap();
        assert_eq!(own.connections(), Some(2));
        assert_eq!(own.delay(), Some(Duration::from_millis(500)));
        assert_eq!(settings.pages().get("example.org"), Some(&Some(0)));
        let unwanted = |path: &str| {
            let url = url::Url::parse("http://example.org/").unwrap();
            own.patterns().unwrap().unwanted(&url.join(path).unwrap())
        };
        assert_eq!(unwanted("/docs/a"), None);
        assert!(unwanted("/docs/a.zip").is_some() && unwanted("/other").is_some());
        let extras = settings.extras();
        let extra = extras.get("example.org").unwrap();
        let names: Vec<_> = extra.headers.iter().map(Header::name).collect();
        assert_eq!(names, ["Accept", "Authorization"]);
        assert_eq!(extra.proxy.as_ref().unwrap().to_string(), "h:1");
        // The most specific section counts alone, and one may say nothing.
        let below = settings.of("www.example.org").unwrap();
        assert_eq!(
            (below.connections(), below.delay(), below.pages),
            (None, None, None)
        );
        assert!(below.patterns().is_none());
        assert!(settings.of("example.com").is_none());
    }

    #[test]
    fn cookies_stand_beside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            #[expect(clippy::disallowed_methods, reason = "a test makes its input")]
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        write("hosts.toml", "[\"h\"]\ncookies = \"jar\"\n");
        let load = || HostSettings::load(&folder.path().join("hosts.toml"));
        let what = load().unwrap_err();
        assert!(what.contains("hosts.toml: [\"h\"]: cookies: "), "{what}");
        assert!(what.contains("/jar: No such file"), "{what}");
        write("jar", "h\tFALSE\t/\tFALSE\t0\ta\n\nno\n");
        let what = load().unwrap_err();
        assert!(what.contains("/jar: line 3: "), "{what}");
        write("jar", "h\tFALSE\t/\tFALSE\t0\ta\t1\n");
        let extras = load().unwrap().extras();
        let cookies = extras.get("h").unwrap().cookies.as_ref().unwrap();
        let url = url::Url::parse("http://h/").unwrap();
        assert_eq!(cookies.for_request(&url, 0).unwrap(), "a=1");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        fn check(text: &str, expected: &str) {
            let what = parse(text).unwrap_err();
            assert!(what.contains(expected), "{text:?}: {what}");
        }
        check(
            "[\"h\"]\ndelay = 1\nconections = 2\n",
            "line 3: unknown field `conections`",
        );
        for known in [
            "connections",
            "delay",
            "headers",
            "proxy",
            "cookies",
            "pages",
            "include",
            "exclude",
        ] {
            check("[\"h\"]\nx = 1\n", &format!("`{known}`"));
        }
        check("[example.org]\ndelay = 1\n", "line 1: unknown field `org`");
        check("[example.org]\n", "quotation marks, like [\"example.org\"]");
        check("delay = 1\n", "a section like [\"example.org\"]");
        check("[\"h\"\n", "line 1: ");
        check("[\"h\"]\ndelay = \"1\"\n", "line 2: invalid type");
        check("[\"h\"]\ndelay = -1\n", "line 2: invalid value");
        check(
            "[\"h\"]\nconnections = 0\n",
            "[\"h\"]: connections: write 1 to 1024",
        );
        check("[\"h\"]\nconnections = 1025\n", "write 1 to 1024");
        check(
            "[\"h\"]\nproxy = \"h:1\"\n",
            "[\"h\"]: proxy: the address has no http://",
        );
        check(
            "[\"h\"]\nheaders = { Host = \"x\" }\n",
            "headers: \"Host\" cannot be set",
        );
        check("[\"h\"]\nheaders = { X = \"a\\nb\" }\n", "line break");
        check("[\"h\"]\ninclude = [\"\"]\n", "include: an empty pattern");
        check("[\"h\"]\nexclude = [\"a\\tb\"]\n", "exclude: ");
        check("[\"h:80\"]\n", "[\"h:80\"]: h:80 is not a host");
        check("[\"h\"]\n[\"H\"]\n", "is there twice");
        check("[\"h\"]\n[\"h\"]\n", "duplicate key");
    }
}
