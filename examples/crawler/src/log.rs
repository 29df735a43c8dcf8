//! `--log`: what happened to each address, one JSON object in a line.
//!
//! The line of a page is written when its batch is committed, in one piece, so that a reader who
//! follows the file sees whole lines. A kill in between takes the line, not the page.
//!
//! The keys of a line are fixed. `docs/crawler.md` lists them.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crawl::{Entry, Job, keys};
use criba::Keyspace;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::http::Head;
use crate::keys::Kept;
use crate::outcome::Outcome;
use crate::output::{append, cannot_write};
use crate::record::Record;

/// A log that is being written.
pub(crate) struct Log {
    file: File,
    path: PathBuf,
}

/// How a fetch ended, as far as the record of its page does not say it.
pub(crate) struct Ended {
    id: u64,
    entry: Entry,
    took: Duration,
    /// Addresses on the page, each once, whether they are followed or not.
    links: u64,
    /// It is as it was when it was fetched before.
    is_unchanged: bool,
    trouble: Option<(String, u16)>,
}

impl Ended {
    pub(crate) fn of(job: &Job, outcome: &Outcome, took: Duration) -> Ended {
        let mut ended = Ended {
            id: job.place.id,
            entry: job.entry.clone(),
            took,
            links: 0,
            is_unchanged: matches!(outcome, Outcome::Unchanged),
            trouble: None,
        };
        match outcome {
            Outcome::Done { links, .. } => {
                let followed = links.pages.len() + links.sitemaps.len();
                ended.links = (followed + links.nofollow.len()) as u64;
            }
            Outcome::Trouble { why, status, .. } => ended.trouble = Some((why.clone(), *status)),
            Outcome::LeftOut(_) | Outcome::Unchanged => {}
        }
        ended
    }
}

/// An address of which there was no usable answer.
pub(crate) struct Trouble<'a> {
    pub(crate) url: &'a str,
    pub(crate) why: &'a str,
    /// Status of the answer, if there was one, or 0.
    pub(crate) status: u16,
    /// Fetches so far, this one among them.
    pub(crate) attempt: u32,
    /// It is not asked for again in this run.
    pub(crate) given_up: bool,
}

impl Log {
    /// Begins a log, or goes on behind what is in the file.
    pub(crate) fn open(path: &Path) -> Result<Log, Failure> {
        let opened = append(path).and_then(|mut file| {
            // A full disk may have torn the last line.
            if is_torn(path, &file)? {
                file.write_all(b"\n")?;
            }
            Ok(file)
        });
        Ok(Log {
            file: opened.map_err(cannot_write(path))?,
            path: path.to_owned(),
        })
    }

    /// A fetch has ended and is committed; `record` is what is kept of the page, if it is done.
    /// `attempts` is the number of fetches after which an address is given up.
    pub(crate) fn ended(
        &mut self,
        ended: &Ended,
        record: Option<&Record>,
        kept: &Kept,
        attempts: u32,
    ) -> Result<(), Failure> {
        if let Some((why, status)) = &ended.trouble {
            let attempt = ended.entry.attempts + 1;
            return self.trouble(&Trouble {
                url: &ended.entry.url,
                why,
                status: *status,
                attempt,
                given_up: attempt >= attempts,
            });
        }
        match record {
            Some(record) => self.page(ended, record, kept),
            None => Ok(()),
        }
    }

    /// An address had no usable answer.
    pub(crate) fn trouble(&mut self, trouble: &Trouble<'_>) -> Result<(), Failure> {
        self.line(&[
            ("event", json!("trouble")),
            ("time", json!(crate::warc::date(SystemTime::now()))),
            ("url", json!(trouble.url)),
            ("status", json!(trouble.status)),
            ("why", json!(trouble.why)),
            ("attempt", json!(trouble.attempt)),
            ("given_up", json!(trouble.given_up)),
        ])
    }

    fn page(&mut self, ended: &Ended, record: &Record, kept: &Kept) -> Result<(), Failure> {
        let Ended { entry, .. } = ended;
        let from = entry.from.map(|page| address(&kept.pages, page));
        let state = match ended.is_unchanged {
            true => "unchanged",
            false => record.state.name(),
        };
        let status = if ended.is_unchanged {
            304
        } else {
            record.status
        };
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(record.fetched_at);
        self.line(&[
            ("event", json!("page")),
            ("time", json!(crate::warc::date(time))),
            ("url", json!(record.url)),
            ("status", json!(status)),
            ("state", json!(state)),
            ("depth", json!(record.depth)),
            ("from", json!(from.transpose()?.flatten())),
            ("type", json!(Head::find(&record.head, "content-type"))),
            ("title", json!(record.title)),
            ("bytes", json!(record.bytes)),
            ("wire_bytes", json!(record.wire_bytes)),
            ("ms", json!(ended.took.as_millis() as u64)),
            ("links", json!(ended.links)),
            ("cut", json!(record.truncated)),
            ("noindex", json!(record.noindex)),
            (
                "duplicate_of",
                json!(first_with_body(kept, ended.id, record)?),
            ),
        ])
    }

    /// The keys stand in the order in which they are given.
    fn line(&mut self, fields: &[(&str, Value)]) -> Result<(), Failure> {
        let fields: Vec<String> = fields
            .iter()
            .map(|(key, value)| format!("\"{key}\":{value}"))
            .collect();
        let line = format!("{{{}}}\n", fields.join(","));
        let written = self.file.write_all(line.as_bytes());
        written.map_err(cannot_write(&self.path))
    }

    /// All lines are on disk when this returns.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let is_file = self.file.metadata().is_ok_and(|found| found.is_file());
        // Devices and pipes have no disk behind them.
        let synced = if is_file {
            self.file.sync_all()
        } else {
            Ok(())
        };
        synced.map_err(cannot_write(&self.path))
    }
}

/// Whether the file does not end with the end of a line.
fn is_torn(path: &Path, file: &File) -> io::Result<bool> {
    let found = file.metadata()?;
    if !found.is_file() || found.len() == 0 {
        return Ok(false);
    }
    #[expect(clippy::disallowed_methods, reason = "the user names this file")]
    let mut file = File::open(path)?;
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// The address of a page that is done.
pub(crate) fn address(pages: &Keyspace, id: u64) -> Result<Option<String>, Failure> {
    let value = pages.get(keys::number(id))?;
    let record = value.map(|value| Record::decode(&value)).transpose()?;
    Ok(record.map(|record| record.url))
}

/// The page that had the same body first, if that is another one.
fn first_with_body(kept: &Kept, id: u64, record: &Record) -> Result<Option<String>, Failure> {
    if record.state != crate::record::State::Fetched {
        return Ok(None);
    }
    let Some(first) = kept.contents.get(record.content_hash.to_le_bytes())? else {
        return Ok(None);
    };
    match common::codec::Reader(&first).number()? {
        first if first == id => Ok(None),
        first => address(&kept.pages, first),
    }
}
