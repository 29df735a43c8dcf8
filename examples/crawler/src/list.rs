//! `--list`: the pages of a store as lines, to compare with what another crawler has found.

use std::fmt::Write as _;

use common::escape::Plain;
use criba::Keyspace;

use crate::failure::Failure;
use crate::record::Record;

/// Status and URL of everything that was asked for, a line each, in the order of discovery.
pub(crate) fn pages(all: &Keyspace) -> Result<String, Failure> {
    let mut out = String::new();
    for entry in all.iter() {
        let record = Record::decode(&entry?.1)?;
        // Writing to memory cannot fail.
        writeln!(out, "{}\t{}", record.status, Plain(&record.url)).unwrap_or_default();
    }
    Ok(out)
}
