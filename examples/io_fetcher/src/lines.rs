//! `--json`: a line for each document, and one for the whole run, which is the last.

use std::io::{self, Write as _};

use common::escape::Escaped;
use serde_json::{Value, json};

use crate::exit::{self, Failure};
use crate::keys::Hash;

/// The fate of a document, or the kind of a line without one.
///
/// The words do not change once they are out: scripts go by them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Stored,
    Indexed,
    Duplicate,
    HardLink,
    Empty,
    Unchanged,
    Verified,
    Repaired,
    Gone,
    Pruned,
    Special,
    Skipped,
    Written,
    Linked,
    Refused,
    Sound,
    Damaged,
    Missing,
    Summary,
    Error,
}

impl Status {
    /// All, with their words. `docs/io-fetcher.md` says what they mean.
    pub(crate) const ALL: [(Status, &str); 20] = [
        (Status::Stored, "stored"),
        (Status::Indexed, "indexed"),
        (Status::Duplicate, "duplicate"),
        (Status::HardLink, "hard_link"),
        (Status::Empty, "empty"),
        (Status::Unchanged, "unchanged"),
        (Status::Verified, "verified"),
        (Status::Repaired, "repaired"),
        (Status::Gone, "gone"),
        (Status::Pruned, "pruned"),
        (Status::Special, "special"),
        (Status::Skipped, "skipped"),
        (Status::Written, "written"),
        (Status::Linked, "linked"),
        (Status::Refused, "refused"),
        (Status::Sound, "sound"),
        (Status::Damaged, "damaged"),
        (Status::Missing, "missing"),
        (Status::Summary, "summary"),
        (Status::Error, "error"),
    ];

    pub(crate) fn word(self) -> &'static str {
        Status::ALL[self as usize].1
    }
}

/// The fields of a document's line, as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts<'a> {
    pub(crate) size: Option<u64>,
    pub(crate) hash: Option<Hash>,
    pub(crate) document: Option<u64>,
    /// The document that had the content before.
    pub(crate) duplicate_of: Option<u64>,
    /// Bytes read of the source, or of the packs.
    pub(crate) read: Option<u64>,
    /// Bytes written to the packs, or to the file.
    pub(crate) written: Option<u64>,
    pub(crate) reason: Option<&'a str>,
}

/// The lines of a run. Without `--json` there are none.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    is_wanted: bool,
    waiting: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(is_wanted: bool) -> Lines {
        Lines {
            is_wanted,
            waiting: Vec::new(),
        }
    }

    pub(crate) fn are_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Adds the line of a document. It is held back until the next [`Lines::flush`].
    pub(crate) fn add(&mut self, name: &[u8], status: Status, facts: &Facts<'_>) {
        if self.is_wanted {
            let mut line = facts.json(status);
            put_name(&mut line, name);
            self.push(&line);
        }
    }

    /// Adds a line about what has no name.
    pub(crate) fn add_nameless(&mut self, status: Status, facts: &Facts<'_>) {
        if self.is_wanted {
            self.push(&facts.json(status));
        }
    }

    fn push(&mut self, line: &Value) {
        self.waiting.extend_from_slice(line.to_string().as_bytes());
        self.waiting.push(b'\n');
    }

    /// Writes the lines that were held back.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let lines = std::mem::take(&mut self.waiting);
        match lines.is_empty() {
            true => Ok(()),
            false => exit::say(&lines),
        }
    }

    /// Writes the last line, with these fields: what the run did as a whole.
    pub(crate) fn end(mut self, mut summary: Value) -> Result<(), Failure> {
        summary["status"] = json!(Status::Summary.word());
        self.push(&summary);
        self.flush()
    }
}

impl Facts<'_> {
    fn json(&self, status: Status) -> Value {
        let mut line = json!({ "status": status.word() });
        let numbers = [
            ("size", self.size),
            ("document", self.document),
            ("duplicate_of", self.duplicate_of),
            ("read_bytes", self.read),
            ("written_bytes", self.written),
        ];
        for (field, number) in numbers {
            if let Some(number) = number {
                line[field] = json!(number);
            }
        }
        if let Some(hash) = self.hash {
            line["hash"] = json!(blake3::Hash::from_bytes(hash).to_hex().as_str());
        }
        if let Some(reason) = self.reason {
            line["reason"] = json!(reason);
        }
        line
    }
}

/// Adds a name to a line. One that is not UTF-8 has escapes, and says so by the name of its field.
pub(crate) fn put_name(line: &mut Value, name: &[u8]) {
    let (field, name) = match std::str::from_utf8(name) {
        Ok(name) => ("name", name.to_owned()),
        Err(_) => ("name_escaped", Escaped(name).to_string()),
    };
    line[field] = json!(name);
}

/// The last line of a run that ended early; nobody may be there to read it.
pub(crate) fn end_early(failure: &Failure) {
    let facts = Facts {
        reason: Some(&failure.sentence),
        ..Facts::default()
    };
    let mut line = facts.json(Status::Error);
    line["exit"] = json!(failure.exit as u8);
    let mut out = io::stdout();
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_at_its_place_and_on_the_page() {
        let page = include_str!("../../../docs/io-fetcher.md");
        for (at, (status, word)) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, at, "{word}");
            assert!(page.contains(&format!("| `{word}` |")), "{word}");
        }
    }

    #[test]
    fn names_come_back_from_their_lines() {
        let names: [&[u8]; 5] = [
            b"a",
            b"a\nb\\",
            b"\xff\\x41\n",
            "ü\u{202e}".as_bytes(),
            b"\\\xff",
        ];
        for name in names {
            let mut line = json!({});
            put_name(&mut line, name);
            let text = line.to_string();
            assert!(!text.contains('\n'));
            let line: Value = serde_json::from_str(&text).unwrap();
            let back = match line["name"].as_str() {
                Some(name) => name.as_bytes().to_vec(),
                None => unescape(line["name_escaped"].as_str().unwrap()),
            };
            assert_eq!(back, name);
        }
    }

    /// Undoes the escapes as the page says.
    fn unescape(text: &str) -> Vec<u8> {
        let mut parts = text.split("\\x");
        let mut bytes = parts.next().unwrap().as_bytes().to_vec();
        for part in parts {
            let (digits, rest) = part.split_at(2);
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            bytes.extend_from_slice(rest.as_bytes());
        }
        bytes
    }
}
