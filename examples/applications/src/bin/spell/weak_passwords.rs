//! Forbidden passwords: a filter refuses all of them, and a few good ones.
//!
//! Spafford, "OPUS: preventing weak password choices", 1992. A good password that is refused costs its
//! owner a second choice. A weak one is never accepted.

use std::path::Path;

use applications::numbers::grouped;
use applications::{Cell, Error, Options, Random, Report, Result, Table, Words, passwords};
use criba_filters::{Design, Membership, hash_key};
use fst::Set;

use crate::filter_of;

/// Good passwords that are refused because the filter takes them for forbidden ones.
pub(crate) fn weak_passwords(
    list: &Words,
    file: Option<&Path>,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let (forbidden, source) = passwords::forbidden(file, &list.words)?;
    let trie = Set::from_iter(&forbidden)?;
    let (mut random, seed) = (Random::new(options.seed, 1), options.seed);
    let good: Vec<String> = (0..options.size(500_000, 50_000))
        .map(|_| passwords::good(&mut random))
        .filter(|password| !trie.contains(password))
        .collect();
    let heads = [
        "structure",
        "memory",
        "bits per password",
        "good passwords",
        "refused",
        "share",
    ];
    let heads = [&heads[..], &["calculated"]].concat();
    let title = format!(
        "{} forbidden passwords ({source})",
        grouped(forbidden.len() as u64)
    );
    let mut table = Table::new(title, &heads);
    let mut row = |name: String, bytes: u64, rate: f64, refuses: &dyn Fn(&str) -> bool| {
        if let Some(weak) = forbidden.iter().find(|weak| !refuses(weak)) {
            return Err(Error::Wrong(format!(
                "the forbidden password {weak:?} is accepted"
            )));
        }
        let refused = good.iter().filter(|password| refuses(password)).count();
        table.row([
            name.into(),
            Cell::Bytes(bytes),
            Cell::Number(8.0 * bytes as f64 / forbidden.len() as f64, 2),
            Cell::Count(good.len() as u64),
            Cell::Count(refused as u64),
            Cell::Share(refused as f64 / good.len() as f64),
            Cell::Share(rate),
        ]);
        Ok(refused)
    };
    let mut last = (0, 0);
    for one_in in [10_u32, 100, 1_000, 10_000] {
        let design = Design::for_rate(forbidden.len() as u64, 1.0 / f64::from(one_in))?;
        let filter = filter_of(&forbidden, design, seed)?;
        let bytes = filter.bits().div_ceil(8);
        let refuses = |password: &str| filter.may_contain(hash_key(seed, password.as_bytes()));
        let name = format!("filter, 1 in {}", grouped(one_in.into()));
        last = (bytes, row(name, bytes, filter.expected_rate(), &refuses)?);
    }
    let exact = trie.as_fst().as_bytes().len() as u64;
    row("trie".into(), exact, 0.0, &|password| {
        trie.contains(password)
    })?;
    report.table(table);
    report.conclude(format!(
        "No forbidden password is accepted. The filter made for 1 in 10,000 refuses {} of {} good \
         passwords, whose owners choose again. It takes {:.1} times the memory of the trie of this list.",
        grouped(last.1 as u64),
        grouped(good.len() as u64),
        last.0 as f64 / exact as f64,
    ));
    Ok(())
}
