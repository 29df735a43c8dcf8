//! Web archives: every exchange as it went over the wire (ISO 28500, WARC/1.1).
//!
//! A body that stands in the archive already is not written again: a `revisit` record refers to it.
//! Bodies are told apart by SHA-1 because that is the digest that the readers of such files know.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::BASE32;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha1::{Digest as _, Sha1};
use url::Url;

/// Makes the bytes of records, each compressed on its own, so that a reader can enter at each.
#[derive(Debug, Default)]
pub(crate) struct WarcWriter {
    /// Room for the records of one exchange.
    room: Vec<u8>,
    written: HashMap<Digest, Place>,
}

/// One exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange<'a> {
    pub(crate) url: &'a Url,
    pub(crate) at: SystemTime,
    /// The request: line, headers, empty line.
    pub(crate) request: &'a [u8],
    /// The head of the response: status line, headers, empty line.
    pub(crate) response_head: &'a [u8],
    /// Its body, without transfer encoding; `response_head` must agree with it.
    pub(crate) body: &'a [u8],
    /// Why the body is not whole, in the words of the standard, if it is not.
    pub(crate) truncated: Option<&'static str>,
}

type Digest = [u8; 20];

/// Where a body was seen first.
#[derive(Debug)]
struct Place {
    url: Box<str>,
    date: Box<str>,
}

/// Bodies beyond these are written again, so that memory stays bounded.
const BODIES_KEPT_MAX: usize = 1 << 17;

/// Shorter bodies cost less than what refers to them.
const REVISIT_BYTES_MIN: usize = 256;

/// Bytes of room that are kept for the next exchange.
const ROOM_KEPT_MAX: usize = 1 << 20;

const REVISIT: &str = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";

impl WarcWriter {
    /// The `warcinfo` record that an archive begins with.
    ///
    /// # Errors
    ///
    /// When the system has no random bytes for its number.
    pub(crate) fn information(&mut self, file_name: &str, software: &str) -> io::Result<&[u8]> {
        self.room.clear();
        let block = format!(
            "software: {software}\r\nformat: WARC File Format 1.1\r\n\
             conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n"
        );
        let mut record = Record::new("warcinfo", &record_id()?, SystemTime::now());
        record.field("WARC-Filename", file_name);
        record.field("Content-Type", "application/warc-fields");
        self.write(record, &[block.as_bytes()])?;
        Ok(&self.room)
    }

    /// The records of an exchange, which go to the end of the archive: a `response` record, or a
    /// `revisit` record if its body is in the archive already, and a `request` record.
    ///
    /// # Errors
    ///
    /// When the system has no random bytes for their numbers.
    pub(crate) fn add(&mut self, exchange: &Exchange<'_>) -> io::Result<&[u8]> {
        self.room.clear();
        self.room.shrink_to(ROOM_KEPT_MAX);
        let payload: Digest = Sha1::digest(exchange.body).into();
        // What is cut refers to nothing: a reader could not tell that it was.
        let first = self.written.get(&payload);
        let first = first.filter(|_| exchange.truncated.is_none());
        let kind = if first.is_some() {
            "revisit"
        } else {
            "response"
        };
        let response_id = record_id()?;
        let mut record = Record::new(kind, &response_id, exchange.at);
        record.field("WARC-Target-URI", exchange.url.as_str());
        record.field("WARC-Payload-Digest", &shown(&payload));
        record.field("Content-Type", "application/http;msgtype=response");
        if let Some(first) = first {
            record.field("WARC-Profile", REVISIT);
            record.field("WARC-Refers-To-Target-URI", &first.url);
            record.field("WARC-Refers-To-Date", &first.date);
            self.write(record, &[exchange.response_head])?;
        } else {
            if let Some(why) = exchange.truncated {
                record.field("WARC-Truncated", why);
            }
            self.write(record, &[exchange.response_head, exchange.body])?;
            self.remember(payload, exchange);
        }
        let mut record = Record::new("request", &record_id()?, exchange.at);
        record.field("WARC-Target-URI", exchange.url.as_str());
        record.field("WARC-Concurrent-To", &response_id);
        record.field("Content-Type", "application/http;msgtype=request");
        self.write(record, &[exchange.request])?;
        Ok(&self.room)
    }

    fn remember(&mut self, payload: Digest, exchange: &Exchange<'_>) {
        let is_worth_it = exchange.body.len() >= REVISIT_BYTES_MIN && exchange.truncated.is_none();
        if is_worth_it && self.written.len() < BODIES_KEPT_MAX {
            let place = Place {
                url: exchange.url.as_str().into(),
                date: date(exchange.at).into(),
            };
            self.written.insert(payload, place);
        }
    }

    /// Writes a record whose block consists of these parts.
    fn write(&mut self, mut record: Record, block: &[&[u8]]) -> io::Result<()> {
        let mut digest = Sha1::new();
        for part in block {
            digest.update(part);
        }
        record.field("WARC-Block-Digest", &shown(&digest.finalize().into()));
        let length: usize = block.iter().map(|part| part.len()).sum();
        record.field("Content-Length", &length.to_string());
        let mut encoder = GzEncoder::new(&mut self.room, Compression::default());
        encoder.write_all(record.head.as_bytes())?;
        encoder.write_all(b"\r\n")?;
        for part in block {
            encoder.write_all(part)?;
        }
        encoder.write_all(b"\r\n\r\n")?;
        encoder.finish()?;
        Ok(())
    }
}

/// The head of a record.
struct Record {
    head: String,
}

impl Record {
    fn new(kind: &str, id: &str, at: SystemTime) -> Self {
        let mut record = Self {
            head: "WARC/1.1\r\n".into(),
        };
        record.field("WARC-Type", kind);
        record.field("WARC-Record-ID", id);
        record.field("WARC-Date", &date(at));
        record
    }

    /// Adds a field; what could end its line is left out.
    fn field(&mut self, name: &str, value: &str) {
        self.head.push_str(name);
        self.head.push_str(": ");
        self.head
            .extend(value.chars().filter(|character| !character.is_control()));
        self.head.push_str("\r\n");
    }
}

fn shown(digest: &Digest) -> String {
    format!("sha1:{}", BASE32.encode(digest))
}

/// A random UUID (RFC 9562, version 4) as a URI.
fn record_id() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let (a, b, c, d, e) = (
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    );
    Ok(format!("<urn:uuid:{a}-{b}-{c}-{d}-{e}>"))
}

/// `2026-01-31T12:00:00.123456Z`
pub(crate) fn date(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let (second, fraction) = (second % 60, since.subsec_micros());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z")
}

/// The date of a day since 1970 (Hinnant: "chrono-compatible low-level date algorithms", 2013).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    // Years begin in March, so that leap days end them.
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read as _;
    use std::time::Duration;

    use flate2::bufread::GzDecoder;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// The whole records at the beginning of an archive, each uncompressed on its own: head, block.
    /// And the bytes behind them.
    pub(crate) fn records_of(mut archive: &[u8]) -> (Vec<(String, Vec<u8>)>, &[u8]) {
        let mut records = Vec::new();
        while !archive.is_empty() {
            let mut text = Vec::new();
            let mut decoder = GzDecoder::new(archive);
            if decoder.read_to_end(&mut text).is_err() {
                break;
            }
            archive = decoder.into_inner();
            let end = text
                .windows(4)
                .position(|part| part == b"\r\n\r\n")
                .unwrap();
            let block = text.split_off(end + 4);
            let block = block.strip_suffix(b"\r\n\r\n").unwrap().to_vec();
            records.push((String::from_utf8(text).unwrap(), block));
        }
        (records, archive)
    }

    pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    fn archive(bodies: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        let mut writer = WarcWriter::default();
        let first = writer.information("x.warc.gz", "criba\r\nevil: 1");
        let mut bytes = first.unwrap().to_vec();
        for (number, body) in (0..).zip(bodies) {
            let url = Url::parse(&format!("http://h/{number}")).unwrap();
            let exchange = Exchange {
                url: &url,
                at: at(number),
                request: b"GET / HTTP/1.1\r\n\r\n",
                response_head: b"HTTP/1.1 200 OK\r\n\r\n",
                body,
                truncated: body.starts_with(b"cut").then_some("length"),
            };
            bytes.extend_from_slice(writer.add(&exchange).unwrap());
        }
        let (records, rest) = records_of(&bytes);
        assert_eq!(rest, b"");
        records
    }

    #[test]
    fn each_record_says_what_it_holds() {
        let long = [b'x'; 300];
        let records = archive(&[b"", &long, &long, b"cut"]);
        let kinds: Vec<_> = records
            .iter()
            .map(|(head, _)| field(head, "WARC-Type").unwrap())
            .collect();
        let expected = [
            "warcinfo", "response", "request", "response", "request", "revisit", "request",
            "response", "request",
        ];
        assert_eq!(kinds, expected);
        for (head, block) in &records {
            assert!(head.starts_with("WARC/1.1\r\n"));
            let length: usize = field(head, "Content-Length").unwrap().parse().unwrap();
            assert_eq!(length, block.len());
            let digest = shown(&Sha1::digest(block).into());
            assert_eq!(field(head, "WARC-Block-Digest"), Some(digest.as_str()));
        }
        let heads: Vec<&str> = records.iter().map(|(head, _)| head.as_str()).collect();
        assert_eq!(
            field(heads[2], "WARC-Concurrent-To"),
            field(heads[1], "WARC-Record-ID")
        );
        assert_eq!(field(heads[7], "WARC-Truncated"), Some("length"));
        assert_eq!(field(heads[3], "WARC-Truncated"), None);
        // The digest of nothing, as every reader of such files knows it.
        let nothing = "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ";
        assert_eq!(field(heads[1], "WARC-Payload-Digest"), Some(nothing));
    }

    #[test]
    fn a_body_that_is_there_is_referred_to() {
        let long = [b'x'; 300];
        let records = archive(&[&long, &long, b"short", b"short"]);
        let (head, block) = &records[3];
        assert_eq!(field(head, "WARC-Type"), Some("revisit"));
        assert_eq!(field(head, "WARC-Refers-To-Target-URI"), Some("http://h/0"));
        assert_eq!(
            field(head, "WARC-Refers-To-Date"),
            field(&records[1].0, "WARC-Date")
        );
        assert_eq!(
            field(head, "WARC-Payload-Digest"),
            field(&records[1].0, "WARC-Payload-Digest")
        );
        assert_eq!(block, b"HTTP/1.1 200 OK\r\n\r\n");
        assert_eq!(field(&records[7].0, "WARC-Type"), Some("response"));
    }

    #[test]
    fn a_body_that_is_cut_refers_to_nothing_and_is_not_referred_to() {
        let body = [b'x'; 300];
        let url = Url::parse("http://h/").unwrap();
        let mut writer = WarcWriter::default();
        let mut bytes = Vec::new();
        for truncated in [Some("disconnect"), None, Some("time"), None] {
            let exchange = Exchange {
                url: &url,
                at: at(0),
                request: b"GET / HTTP/1.1\r\n\r\n",
                response_head: b"HTTP/1.1 200 OK\r\n\r\n",
                body: &body,
                truncated,
            };
            bytes.extend_from_slice(writer.add(&exchange).unwrap());
        }
        let (records, _) = records_of(&bytes);
        let shown = |(head, _): &(String, Vec<u8>)| {
            let truncated = field(head, "WARC-Truncated").map(str::to_owned);
            (field(head, "WARC-Type").unwrap().to_owned(), truncated)
        };
        let shown: Vec<_> = records.iter().step_by(2).map(shown).collect();
        let expected = [
            ("response", Some("disconnect")),
            ("response", None),
            ("response", Some("time")),
            ("revisit", None),
        ];
        let expected = expected.map(|(kind, why)| (kind.to_owned(), why.map(str::to_owned)));
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_field_is_one_line() {
        let mut record = Record::new("x", "y", at(0));
        record.field("Name", "a\r\nB: c\0");
        assert!(record.head.ends_with("Name: aB: c\r\n"));
    }

    #[test]
    fn dates() {
        fn check(seconds: u64, expected: &str) {
            assert_eq!(date(at(seconds)), format!("{expected}.000000Z"));
        }
        check(0, "1970-01-01T00:00:00");
        check(951_782_399, "2000-02-28T23:59:59");
        check(951_782_400, "2000-02-29T00:00:00");
        check(1_709_251_199, "2024-02-29T23:59:59");
        check(4_107_542_400, "2100-03-01T00:00:00");
        check(1_798_761_599, "2026-12-31T23:59:59");
    }

    #[test]
    fn ids_are_uuids_of_their_own() {
        let (one, other) = (record_id().unwrap(), record_id().unwrap());
        assert_ne!(one, other);
        assert!(one.starts_with("<urn:uuid:") && one.len() == 47);
        assert_eq!(one.as_bytes()[24], b'4');
        assert!(b"89ab".contains(&one.as_bytes()[29]));
    }
}
