//! Sitemaps: lists of pages that a site hands out (sitemaps.org).
//!
//! The limits of the protocol, 50,000 addresses and 50 MB, are also ours: what lies beyond is not
//! read. Files that are compressed by their name (`sitemap.xml.gz`), not by HTTP, are unpacked
//! here.

use std::borrow::Cow;
use std::io::Read as _;

use flate2::read::MultiGzDecoder;
use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};

/// What a sitemap lists, as it is written there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sitemap {
    /// Addresses of pages.
    pub(crate) pages: Vec<String>,
    /// Addresses of further sitemaps.
    pub(crate) maps: Vec<String>,
}

const ADDRESSES_MAX: usize = 50_000;
const BYTES_MAX: usize = 50 << 20;
/// Longer ones are passed over; the protocol allows 2,048.
const ADDRESS_BYTES_MAX: usize = 8192;

/// Reads an XML sitemap, an index of sitemaps, or a plain list of lines.
///
/// # Errors
///
/// A sentence that says what is wrong with the file. A damaged file is refused as a whole.
pub(crate) fn read(body: &[u8]) -> Result<Sitemap, String> {
    let body = unpacked(body)?;
    let body = &body[..body.len().min(BYTES_MAX)];
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    match body.trim_ascii_start().first() {
        Some(b'<') => read_xml(body),
        _ => read_lines(body),
    }
}

fn unpacked(body: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    if !body.starts_with(&[0x1f, 0x8b]) {
        return Ok(Cow::Borrowed(body));
    }
    let mut unpacked = Vec::new();
    let mut decoder = MultiGzDecoder::new(body).take(BYTES_MAX as u64);
    match decoder.read_to_end(&mut unpacked) {
        Ok(_) => Ok(Cow::Owned(unpacked)),
        Err(error) => Err(format!("the sitemap is damaged gzip: {error}")),
    }
}

/// One address for each line.
fn read_lines(body: &[u8]) -> Result<Sitemap, String> {
    let text = std::str::from_utf8(body);
    let text = text.map_err(|error| format!("the sitemap is neither XML nor text: {error}"))?;
    let lines = text.lines().map(str::trim);
    let pages = lines.filter(|line| !line.is_empty() && line.len() <= ADDRESS_BYTES_MAX);
    Ok(Sitemap {
        pages: pages.take(ADDRESSES_MAX).map(str::to_owned).collect(),
        maps: Vec::new(),
    })
}

/// Where in the file one is.
#[derive(Debug, Default)]
struct Place {
    /// Open elements, without their prefixes, as far as they matter.
    is_index: Option<bool>,
    depth: usize,
    /// Within `<url>` or `<sitemap>`, and there within `<loc>`.
    in_entry: bool,
    in_loc: bool,
    loc: String,
}

fn read_xml(body: &[u8]) -> Result<Sitemap, String> {
    // The protocol allows UTF-8 only; what is not is replaced, and the addresses in ASCII still
    // count.
    let text = String::from_utf8_lossy(body);
    let mut reader = Reader::from_str(&text);
    let mut sitemap = Sitemap::default();
    let mut place = Place::default();
    while sitemap.pages.len() + sitemap.maps.len() < ADDRESSES_MAX {
        let event = reader.read_event();
        match event.map_err(|error| format!("the sitemap is no XML: {error}"))? {
            Event::Start(tag) => place.open(tag.local_name().as_ref())?,
            Event::End(_) => {
                if let Some(address) = place.close() {
                    let is_index = place.is_index == Some(true);
                    if is_index {
                        &mut sitemap.maps
                    } else {
                        &mut sitemap.pages
                    }
                    .push(address);
                }
            }
            Event::Text(text) => place.text(&text),
            Event::CData(text) => place.text(&text),
            Event::GeneralRef(reference) => place.text(&resolved(&reference)?),
            Event::Eof => {
                if place.depth > 0 {
                    return Err("the sitemap is cut off".into());
                }
                break;
            }
            _ => {}
        }
    }
    if place.is_index.is_none() {
        return Err("the sitemap has no <urlset> or <sitemapindex>".into());
    }
    Ok(sitemap)
}

impl Place {
    fn open(&mut self, name: &str) -> Result<(), String> {
        match (self.depth, name) {
            (0, "urlset") => self.is_index = Some(false),
            (0, "sitemapindex") => self.is_index = Some(true),
            (0, _) => {
                return Err("the sitemap begins with neither <urlset> nor <sitemapindex>".into());
            }
            (1, "url") => self.in_entry = self.is_index == Some(false),
            (1, "sitemap") => self.in_entry = self.is_index == Some(true),
            (2, "loc") => self.in_loc = self.in_entry,
            _ => {}
        }
        self.depth += 1;
        Ok(())
    }

    /// Ends an element; the address, if it was one.
    fn close(&mut self) -> Option<String> {
        self.depth = self.depth.saturating_sub(1);
        match self.depth {
            1 => self.in_entry = false,
            2 if self.in_loc => {
                self.in_loc = false;
                let address = std::mem::take(&mut self.loc);
                let address = address.trim();
                let is_good = !address.is_empty() && address.len() <= ADDRESS_BYTES_MAX;
                return is_good.then(|| address.to_owned());
            }
            _ => {}
        }
        None
    }

    fn text(&mut self, text: &str) {
        if self.in_loc && self.depth == 3 && self.loc.len() <= ADDRESS_BYTES_MAX {
            self.loc.push_str(text);
        }
    }
}

/// The text of `&amp;` or `&#38;`; entities that the file defines itself are not read.
fn resolved(reference: &BytesRef<'_>) -> Result<String, String> {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return Ok(character.into());
    }
    let known = quick_xml::escape::resolve_predefined_entity(reference);
    known
        .map(str::to_owned)
        .ok_or_else(|| "the sitemap uses an entity of its own".into())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn pages(body: impl AsRef<[u8]>) -> Vec<String> {
        let sitemap = read(body.as_ref()).unwrap();
        assert!(sitemap.maps.is_empty());
        sitemap.pages
    }

    #[test]
    fn lists_of_pages() {
        let xml = "\u{feff}<?xml version='1.0' encoding='UTF-8'?>\n<!-- <loc>no</loc> -->\n\
            <urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>\n\
            <url>\n<loc> http://h/1?a=1&amp;b=&#50;&#x33; </loc><lastmod>2026-01-01</lastmod></url>\n\
            <url><loc><![CDATA[http://h/2?a&b]]></loc>\n<image:image xmlns:image='x'>\
            <image:loc>http://h/no.png</image:loc></image:image></url>\n\
            <url><priority>1</priority></url><url><loc/></url><url><loc>http://h/3</loc></url></urlset>";
        assert_eq!(
            pages(xml),
            ["http://h/1?a=1&b=23", "http://h/2?a&b", "http://h/3"]
        );
    }

    #[test]
    fn prefixes_do_not_count() {
        let xml = "<s:urlset xmlns:s='x'><s:url><s:loc>http://h/</s:loc></s:url></s:urlset>";
        assert_eq!(pages(xml), ["http://h/"]);
    }

    #[test]
    fn indexes() {
        let xml = "<sitemapindex><sitemap><loc>http://h/a.xml</loc></sitemap>\
            <url><loc>http://h/no</loc></url></sitemapindex>";
        let sitemap = read(xml.as_bytes()).unwrap();
        assert_eq!(sitemap.maps, ["http://h/a.xml"]);
        assert!(sitemap.pages.is_empty());
    }

    #[test]
    fn lines() {
        assert_eq!(
            pages("http://h/1\r\n\n  http://h/2?a&b \n"),
            ["http://h/1", "http://h/2?a&b"]
        );
        assert!(pages("").is_empty());
    }

    #[test]
    fn compressed_files() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"http://h/1\n").unwrap();
        let packed = packed.finish().unwrap();
        assert_eq!(pages(&packed), ["http://h/1"]);
        for cut in 2..packed.len() {
            assert!(read(&packed[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        fn check(body: impl AsRef<[u8]>, expected: &str) {
            let message = read(body.as_ref()).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
        check("<html></html>", "neither <urlset>");
        check("<urlset><url><loc>http://h/", "cut off");
        check("<urlset><url></urlset>", "no XML");
        check("<?xml version='1.0'?>", "has no <urlset>");
        check(b"\xff\xfe", "neither XML nor text");
        // No entity is expanded that the file defines, so none can grow.
        let own = "<!DOCTYPE x [<!ENTITY e 'eeee'>]><urlset><url><loc>&e;</loc></url></urlset>";
        check(own, "entity of its own");
    }

    #[test]
    fn more_than_the_limit_is_not_read() {
        let many = "http://h/\n".repeat(ADDRESSES_MAX + 5);
        assert_eq!(pages(many).len(), ADDRESSES_MAX);
        let entry = "<url><loc>http://h/</loc></url>";
        let many = format!("<urlset>{}</urlset>", entry.repeat(ADDRESSES_MAX + 5));
        assert_eq!(pages(many).len(), ADDRESSES_MAX);
        let long = format!(
            "<urlset><url><loc>{}</loc></url>{entry}</urlset>",
            "x".repeat(9000)
        );
        assert_eq!(pages(long), ["http://h/"]);
    }

    #[test]
    fn every_cut_is_an_error_or_a_list() {
        let xml = "<urlset><url><loc>http://h/&amp;&#38;<![CDATA[x]]></loc></url></urlset>";
        for cut in 1..xml.len() {
            assert!(read(&xml.as_bytes()[..cut]).is_err(), "{cut}");
        }
    }
}
