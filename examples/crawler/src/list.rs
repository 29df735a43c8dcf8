//! `--list`: the pages of a store as lines, to compare with what another crawler has found.

use common::escape::Plain;

use crate::record::Record;

/// Status and URL of an address that was asked for, as a line.
pub(crate) fn line(record: &Record) -> String {
    format!("{}\t{}\n", record.status, Plain(&record.url))
}
