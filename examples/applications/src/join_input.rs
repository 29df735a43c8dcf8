//! The two relations of a join: from files, or made up.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use criba::MAX_KEY_BYTES;

use crate::relation::Relation;
use crate::{Error, Options, Random, Result};

/// Options for the files of a join.
#[derive(Args, Debug, Clone)]
pub struct JoinInput {
    /// Rows of site A, which asks: lines of a key, a tab, and a value
    #[arg(long, value_name = "FILE", requires = "right")]
    left: Option<PathBuf>,
    /// Rows of site B; the condition compares the numbers with which the values begin
    #[arg(long, value_name = "FILE", requires = "left")]
    right: Option<PathBuf>,
}

impl JoinInput {
    /// The relation of site A.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is no relation.
    pub fn left(&self, options: &Options) -> Result<Relation> {
        let members_count = options.size(20_000, 2_000);
        match &self.left {
            Some(path) => read_relation(path),
            None => Ok(members(options.seed, members_count, customers(options))),
        }
    }

    /// The relation of site B.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is no relation.
    pub fn right(&self, options: &Options) -> Result<Relation> {
        match &self.right {
            Some(path) => read_relation(path),
            None => Ok(invoices(options.seed, customers(options))),
        }
    }

    /// The files again, as arguments of another process.
    pub fn arguments(&self) -> Vec<OsString> {
        let files = [("--left", &self.left), ("--right", &self.right)];
        let named = |(option, file): (&str, &Option<PathBuf>)| {
            let file = file.as_ref()?;
            Some([option.into(), file.into()])
        };
        files.into_iter().filter_map(named).flatten().collect()
    }

    /// Where the rows are from, in words that a terminal can show.
    pub fn origin(&self) -> String {
        match (&self.left, &self.right) {
            (Some(left), Some(right)) => {
                let files = format!("rows of {} and {}", left.display(), right.display());
                common::escape::Plain(&files).to_string()
            }
            _ => "made up".into(),
        }
    }
}

fn customers(options: &Options) -> u64 {
    options.size(200_000, 20_000)
}

/// Longest value of a row in bytes.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// Reads lines of a key, a tab, and a value; a key comes once.
fn read_relation(path: &Path) -> Result<Relation> {
    #[expect(clippy::disallowed_methods, reason = "the user names this file")]
    let bytes = std::fs::read(path).map_err(Error::file(path))?;
    let wrong = |at: usize, what: &str| {
        Error::Usage(format!("{}, line {}: {what}", path.display(), at + 1))
    };
    let mut relation = Relation::new();
    for (at, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let tab = line.iter().position(|&byte| byte == b'\t');
        let Some(tab) = tab else {
            return Err(wrong(
                at,
                "there is no tab; a row is a key, a tab, and a value",
            ));
        };
        let (key, value) = (&line[..tab], &line[tab + 1..]);
        if key.is_empty() || key.len() > MAX_KEY_BYTES || value.len() > VALUE_BYTES_MAX {
            return Err(wrong(
                at,
                "the key is empty, or the row is too long; cut it",
            ));
        }
        if relation.insert(key.to_vec(), value.to_vec()).is_some() {
            return Err(wrong(
                at,
                "the key has a row already; keep one row for each key",
            ));
        }
    }
    match relation.is_empty() {
        true => Err(Error::Usage(format!(
            "{} has no rows: give lines of a key, a tab, and a value",
            path.display()
        ))),
        false => Ok(relation),
    }
}

/// The members of a club, each with a limit. One in four has a row among the invoices.
fn members(seed: u64, members: u64, invoices: u64) -> Relation {
    let mut random = Random::new(seed, 1);
    let member = |number: u64| {
        let customer = match number % 4 {
            0 => number * invoices / members,
            // Those beyond the last invoice have bought nothing.
            _ => invoices + number,
        };
        let limit = 500 + random.below(524);
        (customer_key(customer), limit.to_string().into_bytes())
    };
    (0..members).map(member).collect()
}

/// The last invoice of each of the first customers: an amount and 60 to 110 bytes more.
fn invoices(seed: u64, invoices: u64) -> Relation {
    let mut random = Random::new(seed, 2);
    let invoice = |customer: u64| {
        // Small amounts are the most frequent ones.
        let amount = (1_000.0 * random.share() * random.share()) as u64;
        let mut text = format!(
            "{amount} euros, invoice {:08x}, to be paid by bank transfer, ",
            random.next() as u32
        );
        for _ in 0..1 + random.below(5) {
            text.push_str(&format!("item {:05x} ", random.below(1 << 20)));
        }
        (customer_key(customer), text.into_bytes())
    };
    (0..invoices).map(invoice).collect()
}

fn customer_key(customer: u64) -> Vec<u8> {
    format!("customer {customer:07}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relation::number_of;

    #[test]
    fn one_member_in_four_has_an_invoice() {
        let (members, invoices) = (members(1, 400, 10_000), invoices(1, 10_000));
        let common = members.keys().filter(|&key| invoices.contains_key(key));
        assert_eq!((members.len(), invoices.len()), (400, 10_000));
        assert_eq!(common.count(), 100);
        assert!(
            members
                .values()
                .all(|value| (500..1_024).contains(&number_of(value)))
        );
    }
}
