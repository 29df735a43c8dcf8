//! Sitemaps: lists of pages that a site hands out (sitemaps.org).
//!
//! The limits of the protocol, 50,000 addresses and 50 MB, are also ours: what lies beyond is not
//! read. Files that are compressed by their name (`sitemap.xml.gz`), not by HTTP, are unpacked
//! here. Of a damaged file, what stands before the damage counts.

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

/// Reads an XML sitemap, an index of sitemaps, or a plain list of lines. `cut` says that the end of
/// the body is missing.
///
/// What is wrong with the file comes beside its addresses, as a sentence: they are those before the
/// damage then. An address that the damage may have cut is not among them.
pub(crate) fn read(body: &[u8], cut: bool) -> (Sitemap, Option<String>) {
    let cut = cut.then(|| "the end of the sitemap is missing".to_owned());
    let (body, damage) = unpacked(body);
    let damage = damage.or(cut);
    let (body, damage) = match body.get(..BYTES_MAX) {
        Some(whole) if body.len() > BYTES_MAX => {
            let what = format!("the sitemap is longer than {BYTES_MAX} bytes");
            (whole, damage.or(Some(what)))
        }
        _ => (&body[..], damage),
    };
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    match body.trim_ascii_start().first() {
        Some(b'<') => {
            let (map, wrong) = read_xml(body);
            // A file that ends early also breaks off within its elements: report the first cause.
            (map, damage.or(wrong))
        }
        _ => read_lines(body, damage),
    }
}

/// The file as it was before it was compressed, as much as can be had, and what is wrong with it.
fn unpacked(body: &[u8]) -> (Cow<'_, [u8]>, Option<String>) {
    if !body.starts_with(&[0x1f, 0x8b]) {
        return (Cow::Borrowed(body), None);
    }
    let mut unpacked = Vec::new();
    // One byte more than the limit tells that there is more.
    let mut decoder = MultiGzDecoder::new(body).take(BYTES_MAX as u64 + 1);
    let read = decoder.read_to_end(&mut unpacked);
    let damage = read.err();
    let damage = damage.map(|error| format!("the sitemap is damaged gzip: {error}"));
    (Cow::Owned(unpacked), damage)
}

/// One address for each line.
fn read_lines(body: &[u8], damage: Option<String>) -> (Sitemap, Option<String>) {
    let (text, damage) = match std::str::from_utf8(body) {
        Ok(text) => (text, damage),
        Err(error) => {
            let good = &body[..error.valid_up_to()];
            let what = format!("the sitemap is neither XML nor text: {error}");
            (std::str::from_utf8(good).unwrap_or_default(), Some(what))
        }
    };
    let whole = match damage {
        Some(_) => text.rfind('\n').map_or("", |end| &text[..end]),
        None => text,
    };
    // Other lines are none of a sitemap: its addresses are written in full.
    let is_address = |line: &&str| {
        let scheme = line.split("://").next().unwrap_or_default();
        let is_web = ["http", "https"]
            .iter()
            .any(|web| scheme.eq_ignore_ascii_case(web));
        is_web && line.len() <= ADDRESS_BYTES_MAX
    };
    let pages = whole.lines().map(str::trim).filter(is_address);
    let map = Sitemap {
        pages: pages.take(ADDRESSES_MAX).map(str::to_owned).collect(),
        maps: Vec::new(),
    };
    (map, damage)
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

/// Reads as far as it is XML.
fn read_xml(body: &[u8]) -> (Sitemap, Option<String>) {
    let mut sitemap = Sitemap::default();
    let mut wrong = add_xml(body, &mut sitemap).err();
    let Sitemap { pages, maps } = &mut sitemap;
    let before = pages.len() + maps.len();
    for addresses in [pages, maps] {
        addresses.retain(|address| !address.contains(char::REPLACEMENT_CHARACTER));
    }
    let lost = before - sitemap.pages.len() - sitemap.maps.len();
    if lost > 0 {
        wrong.get_or_insert_with(|| format!("{lost} addresses in the sitemap are not UTF-8"));
    }
    (sitemap, wrong)
}

fn add_xml(body: &[u8], sitemap: &mut Sitemap) -> Result<(), String> {
    // The protocol allows UTF-8 only; what is not is replaced, and the addresses in ASCII still
    // count.
    let text = String::from_utf8_lossy(body);
    let mut reader = Reader::from_str(&text);
    let mut place = Place::default();
    while sitemap.pages.len() + sitemap.maps.len() < ADDRESSES_MAX {
        let event = reader.read_event();
        match event.map_err(|error| format!("the sitemap is no XML: {error}"))? {
            Event::Start(tag) => place.open(tag.local_name().as_ref())?,
            Event::End(_) => {
                if let Some(address) = place.close() {
                    match place.is_index {
                        Some(true) => sitemap.maps.push(address),
                        _ => sitemap.pages.push(address),
                    }
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
    Ok(())
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
        let (sitemap, wrong) = read(body.as_ref(), false);
        assert_eq!((sitemap.maps.len(), wrong), (0, None));
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
        let (sitemap, wrong) = read(xml.as_bytes(), false);
        assert_eq!(sitemap.maps, ["http://h/a.xml"]);
        assert_eq!((sitemap.pages.len(), wrong), (0, None));
    }

    #[test]
    fn lines() {
        assert_eq!(
            pages("http://h/1\r\n\n  HTTPS://h/2?a&b \nNot found\n/x\nhttp://h/3"),
            ["http://h/1", "HTTPS://h/2?a&b", "http://h/3"]
        );
        assert!(pages("").is_empty());
    }

    fn packed(text: &str) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap()
    }

    /// The pages before the damage, and what it is.
    fn damaged(body: impl AsRef<[u8]>, expected: &str) -> Vec<String> {
        let (sitemap, wrong) = read(body.as_ref(), false);
        let wrong = wrong.unwrap();
        assert!(wrong.contains(expected), "{wrong}");
        assert!(sitemap.maps.is_empty());
        sitemap.pages
    }

    #[test]
    fn compressed_files() {
        let packed = packed("http://h/1\n");
        assert_eq!(pages(&packed), ["http://h/1"]);
        for cut in 2..packed.len() {
            let pages = damaged(&packed[..cut], "damaged gzip");
            assert!(pages.is_empty() || pages == ["http://h/1"], "{cut}");
        }
    }

    #[test]
    fn what_stands_before_the_damage_counts() {
        let entry = |number: u32| format!("<url><loc>http://h/{number}</loc></url>");
        let xml = format!("<urlset>{}{}", entry(1), entry(2));
        let both = ["http://h/1", "http://h/2"];
        assert_eq!(damaged(&xml, "cut off"), both);
        assert_eq!(
            damaged(format!("{xml}<url><loc>http://h/"), "cut off"),
            both
        );
        assert_eq!(damaged(format!("{xml}<url></urlset>"), "no XML"), both);
        assert_eq!(
            damaged(format!("{xml}<url><loc>&e;</loc>"), "entity of its own"),
            both
        );
        // A line that the damage may have cut is no address.
        let lines = b"http://h/1\nhttp://h/2\nhttp://h/\xff3\nhttp://h/4\n";
        assert_eq!(damaged(lines, "neither XML nor text"), both);
        let (map, wrong) = read(b"http://h/1\nhttp://h/2\nhttp://h/", true);
        assert_eq!(map.pages, both);
        assert!(wrong.unwrap().contains("the end of the sitemap is missing"));
        let (map, wrong) = read(xml.as_bytes(), true);
        assert_eq!(map.pages, both);
        assert!(wrong.unwrap().contains("the end of the sitemap is missing"));
    }

    #[test]
    fn a_compressed_file_that_is_cut_names_pages() {
        let lines: String = (0..9999_u32)
            .map(|number| format!("http://h/{}\n", number.wrapping_mul(2_654_435_761)))
            .collect();
        let packed = packed(&lines);
        let pages = damaged(&packed[..packed.len() / 2], "damaged gzip");
        assert!(pages.len() > 1000, "{}", pages.len());
        assert!(lines.lines().zip(&pages).all(|(line, page)| line == page));
    }

    #[test]
    fn addresses_that_are_not_utf_8_are_left_out() {
        let entry = b"<urlset><!-- \xe9 --><url><loc>http://h/1</loc></url>\
            <url><loc>http://h/\xe9</loc></url><url><loc>http://h/2</loc></url></urlset>";
        assert_eq!(damaged(entry, "1 addresses"), ["http://h/1", "http://h/2"]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        fn check(body: impl AsRef<[u8]>, expected: &str) {
            assert_eq!(damaged(body, expected), [""; 0]);
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
    fn every_cut_is_noticed_and_costs_only_what_it_cuts() {
        let first = "<urlset><url><loc>http://h/&amp;&#38;<![CDATA[x]]></loc></url>";
        let xml = format!("{first}<url><loc>http://h/2</loc></url></urlset>");
        let ends = [
            first.find("</url>").unwrap(),
            xml.find("</url></urlset>").unwrap(),
        ];
        for cut in 1..xml.len() {
            let (map, wrong) = read(&xml.as_bytes()[..cut], false);
            let expected = ends.iter().filter(|&&end| cut >= end).count();
            assert_eq!(
                (map.pages.len(), wrong.is_some()),
                (expected, true),
                "{cut}"
            );
        }
    }
}
