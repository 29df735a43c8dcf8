//! The exercises of the notes that this project grew from, each with the command that answers it: what
//! `criba lab --list` prints and `docs/exercises.md` answers.

use super::catalog::{ALL, BLOOM, Experiment};

/// Exercises that programs beside the laboratory answer.
const OTHERS: &[(&str, &str)] = &[
    (
        "a cache that ignores one-hit wonders",
        "cargo run --release -p criba-applications --bin cache",
    ),
    (
        "proxies that know of each other",
        "cargo run --release -p criba-applications --bin proxies",
    ),
    (
        "banned addresses at a router",
        "cargo run --release -p criba-applications --bin banned",
    ),
    (
        "floods at a router",
        "cargo run --release -p criba-applications --bin floods",
    ),
    (
        "a spelling checker",
        "cargo run --release -p criba-applications --bin spell",
    ),
    (
        "a dictionary of contacts in six structures",
        "cargo run --release -p criba-applications --bin contacts",
    ),
    (
        "join of two sites",
        "cargo run --release -p criba-applications --bin join",
    ),
    (
        "replicas that agree",
        "cargo run --release -p criba-applications --bin replicas",
    ),
    (
        "who has not taken the course, with m = 90, n = 19, k = 3",
        "cargo run --release -p criba-applications --bin course",
    ),
    (
        "attacks on filters, and what a published filter tells",
        "cargo run --release -p criba-applications --bin attacks",
    ),
    (
        "a crawler that visits each page once",
        "cargo run --release -p criba-crawler",
    ),
    (
        "IO: which files are there already",
        "cargo run --release -p criba-io-fetcher -- ingest --store backup DIRECTORY",
    ),
    ("disk reads of a database", "criba study"),
    (
        "memory of filters shared out over the levels of a database",
        "criba study --tree",
    ),
];

/// All exercises with their commands: those of the laboratory first.
pub(super) fn all() -> impl Iterator<Item = (&'static str, String)> {
    let of_lab = ALL.iter().map(|one| (one.exercise, command(one)));
    let others = OTHERS.iter().map(|one| (one.0, one.1.to_owned()));
    of_lab.chain(others)
}

fn command(experiment: &Experiment) -> String {
    match experiment.name {
        BLOOM => "criba lab bloom --bits 1000 --probes 4 --keys 200".into(),
        name => format!("criba lab {name}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_exercise_is_there_once() {
        let names: BTreeSet<&str> = all().map(|one| one.0).collect();
        let commands: BTreeSet<String> = all().map(|one| one.1).collect();
        assert_eq!(names.len(), ALL.len() + OTHERS.len());
        assert_eq!(commands.len(), names.len());
    }
}
