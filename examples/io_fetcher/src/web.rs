//! URLs: fetched once, asked about afterwards, and stored like any other document.
//!
//! Plain HTTP only. What was fetched before is asked for with its ETag or date, so that a server
//! that knows them sends nothing when nothing has changed. A document from the network is spooled
//! to a file first: its length is not known before, and it may have to be compared before it is
//! stored.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body};

use crate::content;
use crate::exit::Failure;
use crate::ingest::{Cost, Fate, Run, Work};
use crate::keys::{NAME_BYTES_MAX, Table};
use crate::ledger::malformed;
use crate::lines::Status;
use crate::read;
use crate::record::{Fetched, Stamp};

/// Redirects that are followed.
const REDIRECTS_MAX: u32 = 5;

/// A header that is kept; longer ones are not.
const HEADER_BYTES_MAX: usize = 4096;

/// Fetches a URL; an error in a sentence if it is to be skipped.
pub(crate) fn fetch(run: &mut Run<'_>, url: &str) -> Result<Result<(), String>, Failure> {
    run.counts.documents += 1;
    if let Err(what) = check(run, url) {
        return Ok(Err(what));
    }
    let before = run
        .ledger
        .get(Table::Url, url.as_bytes())?
        .map(|record| Fetched::decode(&record).map_err(malformed("a URL")))
        .transpose()?;
    let response = match ask(run, url, before.as_ref()) {
        Ok(response) => response,
        Err(what) => return Ok(Err(what)),
    };
    match (response.status(), &before) {
        (StatusCode::NOT_MODIFIED, Some(before)) => {
            run.counts.unchanged += 1;
            let fate = Fate::unread(before.document);
            run.tell(url.as_bytes(), Status::Unchanged, before.size, fate);
            return Ok(Ok(()));
        }
        (status, _) if !status.is_success() => {
            return Ok(Err(format!("the server answers {}", status.as_u16())));
        }
        _ => {}
    }
    let spool = run.archive.path.join("incoming");
    let stored = store(run, (url, response), &spool, before.as_ref());
    // It may not have been made.
    fs::remove_file(&spool).ok();
    match stored? {
        Ok(fetched) => {
            run.ledger.put(Table::Url, url, fetched.encode());
            run.commit()?;
            Ok(Ok(()))
        }
        Err(what) => Ok(Err(what)),
    }
}

fn check(run: &Run<'_>, url: &str) -> Result<(), String> {
    if run.archive.is_index_only {
        return Err("a URL has to be stored; use a store with content".into());
    }
    if !url.starts_with("http://") {
        return Err("only http:// is spoken here".into());
    }
    if url.len() > NAME_BYTES_MAX {
        return Err("the URL is too long".into());
    }
    Ok(())
}

fn ask(run: &Run<'_>, url: &str, before: Option<&Fetched>) -> Result<Response<Body>, String> {
    let agent: Agent = Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(run.args.timeout)))
        .max_redirects(REDIRECTS_MAX)
        .http_status_as_error(false)
        .user_agent("io_fetcher (criba example)")
        .build()
        .into();
    let mut request = agent.get(url);
    if let Some(before) = before {
        for (name, value) in [
            ("If-None-Match", &before.etag),
            ("If-Modified-Since", &before.last_modified),
        ] {
            if !value.is_empty() {
                request = request.header(name, &value[..]);
            }
        }
    }
    request.call().map_err(|error| error.to_string())
}

/// Spools the body, then compares and stores it.
fn store(
    run: &mut Run<'_>,
    (url, response): (&str, Response<Body>),
    spool: &Path,
    before: Option<&Fetched>,
) -> Result<Result<Fetched, String>, Failure> {
    let header = |name: &str| {
        let value = response.headers().get(name);
        let value = value.map_or(&b""[..], |value| value.as_bytes());
        match value.len() <= HEADER_BYTES_MAX {
            true => value.to_vec(),
            false => Vec::new(),
        }
    };
    let (etag, last_modified) = (header("etag"), header("last-modified"));
    let limit = run.args.download_max;
    let mut body = response
        .into_body()
        .into_with_config()
        .limit(limit.saturating_add(1))
        .reader();
    let cannot = |error| Failure::io("cannot spool a download", &error);
    let mut file = File::create(spool).map_err(cannot)?;
    let size = match io::copy(&mut body, &mut file) {
        Ok(size) if size > limit => {
            return Ok(Err(format!(
                "it is longer than {limit} bytes; see --download-max"
            )));
        }
        Ok(size) => size,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let stamp = read::stamp(&file.metadata().map_err(cannot)?);
    let work = spooled(spool, stamp);
    run.counts.document_bytes += size;
    let outcome = match size {
        0 => crate::ingest::known(0, Cost::default()),
        _ => content::process(run, &[&work])?
            .pop()
            .unwrap_or_else(|| Err("it was not looked at; this is a bug".into())),
    };
    let fate = match outcome {
        Ok(fate) => fate,
        Err(what) => return Ok(Err(what)),
    };
    let status = run.count(&work, fate);
    let cost = Cost {
        read: size,
        ..fate.cost
    };
    run.tell(url.as_bytes(), status, size, Fate { cost, ..fate });
    if before.is_some() {
        run.counts.new -= 1;
        run.counts.changed += 1;
    }
    Ok(Ok(Fetched {
        document: fate.document,
        size,
        at: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        etag,
        last_modified,
    }))
}

fn spooled(path: &Path, stamp: Stamp) -> Work {
    Work {
        path: path.to_owned(),
        stamp,
        device: 0,
        links: 1,
        slot: (0, 0),
        old: None,
        verify: None,
    }
}
