//! Runs each application small, as a user would, and checks what it counted.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::print_stderr,
    reason = "a failed test shows what the program said"
)]

mod attacks;
mod banned;
mod cache;
mod contacts;
mod course;
mod floods;
mod join;
mod proxies;
mod replicas;
mod spell;

use std::process::Command;

use serde_json::Value;

/// The lines of a table that a program prints as JSON.
pub(crate) struct Rows(pub(crate) Vec<Value>);

/// Runs a program with `--small --json`, and with more arguments.
pub(crate) fn run(program: &str, more: &[&str]) -> Rows {
    let output = Command::new(program)
        .args(["--small", "--json"])
        .args(more)
        .output()
        .unwrap();
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        panic!("{program} {more:?}: {}", output.status);
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line| serde_json::from_str(line).unwrap();
    Rows(text.lines().map(line).collect())
}

impl Rows {
    /// The lines of the tables whose title begins so.
    pub(crate) fn table(&self, title: &str) -> Vec<&Value> {
        let is_of_it = |row: &&Value| row["table"].as_str().unwrap().starts_with(title);
        let rows: Vec<&Value> = self.0.iter().filter(is_of_it).collect();
        assert!(!rows.is_empty(), "there is no table {title:?}");
        rows
    }
}

/// A value of a line as a number.
pub(crate) fn number(row: &Value, name: &str) -> f64 {
    let value = row[name].as_f64();
    value.unwrap_or_else(|| panic!("{name} is no number in {row}"))
}
