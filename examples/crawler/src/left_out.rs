//! Addresses that were left out, each with its reason: counted by link, written once.

use std::collections::{BTreeMap, HashSet};

use common::escape::Plain;
use crawl::{Step, Store, keys};
use xxhash_rust::xxh3::xxh3_128;

use crate::failure::Failure;
use crate::keys::Kept;
use crate::output::Output;
use crate::reason::Reason;
use crate::record::{Record, State};

/// Addresses that are remembered as written: 16 bytes each. Most are in the navigation of a site,
/// on all its pages. One that is not remembered is written again.
const REMEMBERED_MAX: usize = 16_384;

/// What a run has left out.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    links: BTreeMap<Reason, u64>,
    /// Hashes of addresses that are in the store.
    written: HashSet<u128>,
}

impl LeftOut {
    /// Counts a link, and writes its address in the batch of the step.
    pub(crate) fn add(
        &mut self,
        step: &mut Step<'_>,
        kept: &Kept,
        (address, reason): (&str, Reason),
    ) {
        *self.links.entry(reason).or_default() += 1;
        if self.written.len() >= REMEMBERED_MAX {
            self.written.clear();
        }
        if self.written.insert(xxh3_128(address.as_bytes())) {
            let mut batch = step.batch().keyspace(&kept.left_out);
            batch.put(address, [reason.number()]);
        }
    }

    /// Links by reason, for the summary.
    pub(crate) fn counts(&self) -> Vec<(String, u64)> {
        let links = self.links.iter();
        links
            .map(|(reason, &count)| (reason.text().to_owned(), count))
            .collect()
    }
}

/// Writes reason and address of everything that was left out, a line each, in the order of addresses.
/// An address that was found again where it is wanted is not among them.
pub(crate) fn list(store: &Store, kept: &Kept, out: &mut Output) -> Result<(), Failure> {
    for entry in kept.left_out.iter() {
        let (address, value) = entry?;
        let damaged = || Failure::Damaged("an address that was left out".into());
        let address = std::str::from_utf8(&address).ok().ok_or_else(damaged)?;
        let reason = value.first().copied().and_then(Reason::from_number);
        let reason = reason.ok_or_else(damaged)?;
        if !was_taken(store, kept, address)? {
            out.write(format_args!("{}\t{}\n", reason.text(), Plain(address)));
        }
    }
    Ok(())
}

/// Whether an address waits or was asked for.
fn was_taken(store: &Store, kept: &Kept, address: &str) -> Result<bool, Failure> {
    let Some(id) = store.number_of(address)? else {
        return Ok(false);
    };
    let Some(record) = kept.pages.get(keys::number(id))? else {
        return Ok(true);
    };
    let state = Record::decode(&record)?.state;
    Ok(!matches!(state, State::LeftOut | State::Disallowed))
}
