//! The examples in `docs/format.md` are bytes of golden files, at the offsets they state.

use std::collections::BTreeSet;
use std::path::Path;

use super::stores::STORES;

/// Structures that must have an example, by the names of their headings.
const STRUCTURES: [&str; 19] = [
    "CURRENT",
    "Manifest header",
    "Edit",
    "Journal header",
    "Record",
    "Seal",
    "Batch",
    "Regions",
    "Data block",
    "Filter pages",
    "Bloom header",
    "Bloomier header",
    "Index",
    "Properties",
    "Footer",
    "Bloomier body and lookup",
    "Range filter header",
    "Cells",
    "Filter file",
];

/// A line of an example: offset, bytes, and after two spaces what they mean.
fn parse(line: &str) -> (usize, Vec<u8>) {
    let mut words = line.trim_start().splitn(2, "  ");
    let offset = words.next().unwrap().parse().unwrap();
    let rest = words.next().unwrap().trim_start();
    let hex = rest.split("  ").next().unwrap();
    let bytes = hex
        .split(' ')
        .map(|byte| u8::from_str_radix(byte, 16).unwrap());
    (offset, bytes.collect())
}

#[test]
fn examples_are_real() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/format.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (mut heading, mut file) = ("", None);
    let mut with_example = BTreeSet::new();
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        if line.starts_with("```") {
            file = line.strip_prefix("```hex ").map(|path| {
                let (store, name) = path.split_once('/').unwrap();
                let store = STORES.into_iter().find(|one| one.name == store);
                super::golden(store.unwrap())[name].clone()
            });
        } else if let Some(bytes) = &file {
            let (offset, expected) = parse(line);
            let found = &bytes[offset..offset + expected.len()];
            assert_eq!(found, expected, "line {number} of docs/format.md: {line}");
            with_example.insert(heading);
        } else if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim();
        }
    }
    for structure in STRUCTURES {
        assert!(
            with_example.contains(structure),
            "{structure} has no example"
        );
    }
}
