//! One address of the site and what it answers.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::{DeflateEncoder, GzEncoder, ZlibEncoder};

/// The site while it is made.
pub(super) type Resources = BTreeMap<String, Resource>;

/// An answer, and where it leads a crawler that makes no mistake.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    pub(super) status: u16,
    /// Without those of every answer: length, connection.
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Arc<[u8]>,
    /// Paths, normalised, without what must not be followed.
    pub(super) leads_to: Vec<String>,
    /// Requests that are answered 503 before the first success.
    pub(super) failures: u64,
    /// Milliseconds before the answer.
    pub(super) delay_ms: u64,
    /// How the body is packed for everyone, in this order. If there is none, only those get a packed
    /// body who take gzip.
    pub(super) packings: &'static [Packing],
    /// `{origin}` in the body stands for the address of the server.
    pub(super) is_template: bool,
}

/// What is done to a body.
#[derive(Debug, Clone, Copy)]
pub(super) enum Packing {
    Gzip,
    /// What HTTP calls `deflate`.
    Zlib,
    /// What some servers send under that name.
    Deflate,
}

impl Packing {
    pub(super) fn pack(self, body: &[u8]) -> io::Result<Vec<u8>> {
        let level = Compression::fast();
        let mut packed = Vec::new();
        match self {
            Packing::Gzip => GzEncoder::new(body, level).read_to_end(&mut packed)?,
            Packing::Zlib => ZlibEncoder::new(body, level).read_to_end(&mut packed)?,
            Packing::Deflate => DeflateEncoder::new(body, level).read_to_end(&mut packed)?,
        };
        Ok(packed)
    }
}

impl Resource {
    pub(super) fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type", content_type.to_owned())],
            body: body.into().into(),
            leads_to: Vec::new(),
            failures: 0,
            delay_ms: 0,
            packings: &[],
            is_template: false,
        }
    }

    /// A page in UTF-8; `content` is markup.
    pub(super) fn page(title: &str, content: &str) -> Self {
        Self::document("", title, content)
    }

    /// A page with more in its head.
    pub(super) fn document(head: &str, title: &str, content: &str) -> Self {
        let html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\n{head}\
             <title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n{content}</body>\n</html>\n"
        );
        Self::new(200, "text/html", html)
    }

    pub(super) fn redirect(status: u16, location: &str) -> Self {
        let body = "<p>It has <a href=\"/hidden/behind-redirect\">moved</a>.</p>";
        Self::new(status, "text/html", body).header("Location", location)
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(super) fn leads_to<P: AsRef<str>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        let paths = paths.into_iter().map(|path| path.as_ref().to_owned());
        self.leads_to.extend(paths);
        self
    }

    pub(super) fn is_page(&self) -> bool {
        let is_html = |(name, value): &(&str, String)| {
            *name == "Content-Type" && value.starts_with("text/html")
        };
        self.status == 200 && self.headers.iter().any(is_html)
    }

    pub(super) fn find(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(known, _)| *known == name);
        header.map(|(_, value)| value.as_str())
    }
}
