//! The rules of the house that no compiler checks.

mod circles;
mod examples;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules as they stand in `src/lib.rs`: each may name only those above it.
fn layers() -> Vec<String> {
    let text = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let module = |line: &str| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        Some(line.strip_prefix("mod ")?.strip_suffix(';')?.to_owned())
    };
    text.lines().filter_map(module).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a folder of the repository, with their content; nothing if it is not there. What
/// cargo made of a package below is not of the repository.
fn files(folder: &str, extension: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    found.sort();
    found
}

fn rust_files() -> Vec<(PathBuf, String)> {
    ["src", "crates", "tests", "examples", "benches"]
        .iter()
        .flat_map(|folder| files(folder, "rs"))
        .collect()
}

fn is_test_file(path: &Path) -> bool {
    let in_tests = path.iter().any(|part| part == "tests");
    in_tests || path.ends_with("tests.rs")
}

/// The part of a source file before its tests.
fn production(text: &str) -> &str {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    &text[..end]
}

/// Every name that stands behind `crate::` in a line, also in braces.
fn named_modules(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, found) in text.match_indices("crate::") {
        // `$crate::` and `some_crate::` are other things.
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &text[at + found.len()..];
        let name = |rest: &str| -> String {
            rest.chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect()
        };
        match rest.strip_prefix('{') {
            Some(group) => names.extend(top_level(group).iter().map(|part| name(part.trim()))),
            None => names.push(name(rest)),
        }
    }
    names
}

/// The parts of a brace group, up to its end, without those of groups within.
fn top_level(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&group[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts
}

#[test]
fn names_behind_crate_are_seen() {
    let names =
        named_modules("use crate::key::{self, Kind}; crate::{error::Error, slice::{a, b}};");
    assert_eq!(names, ["key", "error", "slice"]);
    assert!(named_modules("$crate::x my_crate::y").is_empty());
}

#[test]
fn a_module_names_only_modules_above_it() {
    let layers = layers();
    assert!(layers.len() > 10, "{layers:?}");
    let rank: BTreeMap<&str, usize> = layers
        .iter()
        .enumerate()
        .map(|(rank, name)| (name.as_str(), rank))
        .collect();
    let mut seen = 0;
    for (path, text) in files("src", "rs") {
        let parts: Vec<_> = path
            .iter()
            .skip(1)
            .map(|part| part.to_string_lossy())
            .collect();
        let module = parts[0].trim_end_matches(".rs").to_owned();
        if is_test_file(&path) || ["lib", "bin"].contains(&module.as_str()) {
            continue;
        }
        let own = rank.get(module.as_str());
        let own = *own.unwrap_or_else(|| panic!("{}: not in src/lib.rs", path.display()));
        let code = production(&text)
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        for name in named_modules(&code.collect::<Vec<_>>().join("\n")) {
            // What is re-exported at the root is a name for users, not for modules.
            let named = rank.get(name.as_str());
            let named = named.unwrap_or_else(|| panic!("{}: crate::{name}", path.display()));
            assert!(
                *named <= own,
                "{} names crate::{name}, which is below it",
                path.display()
            );
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen} names were checked");
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let all = rust_files();
    assert!(all.len() > 60);
    for (path, text) in all {
        // Tests of a module, in a file of their own, say it by their names.
        if path.ends_with("tests.rs") {
            continue;
        }
        let lines = production(&text).lines().count();
        if !is_test_file(&path) {
            assert!(
                lines <= 600,
                "{} has {lines} lines; 600 are enough",
                path.display()
            );
        }
        let begins_well = text
            .lines()
            .find(|line| !line.is_empty() && !line.starts_with("#!["));
        let is_told = begins_well.is_some_and(|line| line.starts_with("//!"));
        assert!(
            is_told,
            "{} does not begin with what it is for",
            path.display()
        );
    }
}

#[test]
fn banned_words_are_not_written() {
    // In pieces, so that this file does not hold them itself.
    let banned = [
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("dbg", "!("),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("/wo", "rk/"),
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
    ];
    let mut all = rust_files();
    all.extend(files("docs", "md"));
    all.extend(files("crates", "md"));
    all.extend(files("examples", "toml"));
    for name in ["README.md", "CHANGELOG.md", "Cargo.toml"] {
        if let Ok(text) = fs::read_to_string(root().join(name)) {
            all.push((PathBuf::from(name), text));
        }
    }
    for (path, text) in all {
        for (number, line) in (1..).zip(text.lines()) {
            for word in banned {
                assert!(!line.contains(word), "{}:{number}: {word}", path.display());
            }
        }
    }
}

/// An example is one file that needs nothing but the store. A program that needs more is a package of the
/// workspace, so that whoever tests the store does not build what only the program needs.
#[test]
fn programs_below_examples_are_packages_of_their_own() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let mut packages = 0;
    for entry in fs::read_dir(root().join("examples")).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_type().unwrap().is_dir() {
            continue;
        }
        let name = format!("examples/{}", entry.file_name().display());
        let own = fs::read_to_string(entry.path().join("Cargo.toml")).unwrap();
        assert!(
            manifest.contains(&format!("\"{name}\"")),
            "{name}: no member"
        );
        assert!(own.contains("\npublish = false\n"), "{name}: publish");
        assert!(
            own.contains("\n[lints]\nworkspace = true\n"),
            "{name}: lints"
        );
        packages += 1;
    }
    assert!(packages >= 3, "{packages} packages");
    assert!(
        manifest.contains("\"/examples/*.rs\""),
        "they are published"
    );
}

#[test]
fn relative_links_lead_somewhere() {
    let mut all = files("docs", "md");
    all.extend(files("crates", "md"));
    if let Ok(text) = fs::read_to_string(root().join("README.md")) {
        all.push((PathBuf::from("README.md"), text));
    }
    for (path, text) in all {
        let folder = root().join(path.parent().unwrap());
        let plain: String = without_code(&text);
        for (_, rest) in plain
            .match_indices("](")
            .map(|(at, found)| (at, &plain[at + found.len()..]))
        {
            let target = rest.split([')', ' ', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            assert!(
                folder.join(target).exists(),
                "{}: the link to {target} leads nowhere",
                path.display()
            );
        }
    }
}

/// Pages of filters and sketches have the same headings, are listed on the front page, and have their
/// examples run.
#[test]
fn pages_of_filters_are_alike() {
    let front = fs::read_to_string(root().join("crates/criba-filters/docs/filters.md")).unwrap();
    let run = fs::read_to_string(root().join("crates/criba-filters/src/pages.rs")).unwrap();
    let all = files("crates/criba-filters/docs/filters", "md");
    assert!(all.len() >= 21, "{} pages", all.len());
    for (path, text) in all {
        let name = path.file_stem().unwrap().to_string_lossy();
        assert!(front.contains(&format!("](filters/{name}.md)")), "{name}");
        assert!(run.contains(&format!("= \"filters/{name}\",")), "{name}");
        assert_eq!(text.matches("```rust\n").count(), 1, "{name}");
        let plain = without_code(&text);
        let headings = plain.lines().filter_map(|line| line.strip_prefix("## "));
        // Of two structures on one page it is said what they are.
        let headings: Vec<_> = headings
            .map(|heading| heading.replace("they are", "it is").replace("they", "it"))
            .collect();
        let wanted = [
            "What it is",
            "Formulas",
            "Use",
            "Measured",
            "Cost",
            "What it can and cannot do",
            "When to use it",
        ];
        assert_eq!(headings, wanted, "{name}");
    }
}

/// The text without fenced blocks.
fn without_code(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// Every promise in `docs/durability.md` names tests, and all tests that it names are there.
#[test]
fn every_promise_has_its_tests() {
    let text = fs::read_to_string(root().join("docs/durability.md")).unwrap();
    let rust: String = rust_files().into_iter().map(|(_, text)| text).collect();
    let tests_in = |line: &str| -> Vec<String> {
        let quoted = line.split('`').skip(1).step_by(2);
        let paths = quoted.filter_map(|quoted| quoted.split_once("::"));
        let is_name = |name: &&str| {
            name.chars()
                .all(|c| c.is_ascii_lowercase() || "_:0123456789".contains(c))
        };
        let names = paths.map(|(_, name)| name).filter(is_name);
        names
            .map(|name| name.rsplit("::").next().unwrap().to_owned())
            .collect()
    };
    for promise in 1..=14 {
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| P{promise} |")));
        let row = row.unwrap_or_else(|| panic!("P{promise} is not listed"));
        assert!(!tests_in(row).is_empty(), "P{promise} has no test");
    }
    let mut seen = 0;
    for name in text.lines().flat_map(tests_in) {
        seen += 1;
        assert!(
            rust.contains(&format!("fn {name}(")),
            "there is no test {name}"
        );
    }
    assert!(seen > 40, "{seen} tests are named");
}
