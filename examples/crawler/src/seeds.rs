//! Whether anything came of the seeds.

use common::escape::Plain;
use crawl::{Store, keys};
use url::Url;

use crate::bounds::HOPS_MAX;
use crate::failure::Failure;
use crate::http::Head;
use crate::keys::Kept;
use crate::record::{Record, State};
use crate::survey::why;

/// Seeds that are named.
const NAMED_MAX: usize = 5;

/// Why nothing came of the seeds, one line for each of the first ones. Empty if one was fetched or
/// waits to be.
pub(crate) fn no_seed(store: &Store, kept: &Kept, seeds: &[Url]) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for seed in seeds {
        match fate(store, kept, seed)? {
            Some(why) if lines.len() < NAMED_MAX => lines.push(format!("{seed}: {why}")),
            Some(_) => {}
            None => return Ok(Vec::new()),
        }
    }
    Ok(lines)
}

/// Why nothing came of a seed.
fn fate(store: &Store, kept: &Kept, seed: &Url) -> Result<Option<String>, Failure> {
    let Some(mut id) = store.number_of(seed.as_str())? else {
        return Ok(Some("left out, as a link to it would be".into()));
    };
    for _ in 0..=HOPS_MAX {
        let Some(value) = kept.pages.get(keys::number(id))? else {
            return Ok(None);
        };
        let record = Record::decode(&value)?;
        match (record.state, record.links.first()) {
            (State::Fetched | State::Sitemap, _) => return Ok(None),
            (State::LeftOut, _) => return Ok(Some("left out by a limit of the crawl".into())),
            (State::Disallowed, _) => return Ok(Some("robots.txt forbids it".into())),
            (State::Refused | State::Failed, _) => return Ok(Some(why(&record))),
            (State::Redirect, Some(target)) => id = *target,
            (State::Redirect, None) => {
                let target = Head::find(&record.head, "location").unwrap_or_default();
                let target = Plain(&target);
                return Ok(Some(format!("leads to {target}, which is left out")));
            }
        }
    }
    Ok(Some("too many redirects".into()))
}
