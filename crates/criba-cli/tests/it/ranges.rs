//! Range filters, counted: `criba study --scans`, and the experiments of `criba lab` on them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{criba, in_dir, stdout};

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The scans of a row for so many entries.
fn scans<'a>(row: &'a Value, entries: &str) -> &'a Value {
    let all = row["scans"].as_array().unwrap();
    let found = all.iter().find(|scan| scan["entries"] == entries);
    found.unwrap()
}

fn count(scan: &Value, field: &str) -> u64 {
    scan[field].as_u64().unwrap()
}

#[test]
fn range_filters_save_blocks_and_no_entry() {
    let page = tempfile::NamedTempFile::new().unwrap();
    let line = "study --scans --keys 15000 --lookups 150 --range-bits 10,12 --json --html";
    let arguments: Vec<&str> = line.split(' ').chain([in_dir(page.path())]).collect();
    let rows = lines(&stdout(&arguments));
    assert_eq!(rows.len(), 3 * (6 + 3 * 3));
    let mut in_vain: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for row in &rows {
        let none = rows.iter().find(|one| {
            one["filter"] == "none"
                && one["tree"] == row["tree"]
                && one["flushes"] == row["flushes"]
        });
        let none = none.unwrap();
        for entries in ["0", "1", "3", "10", "100", "next"] {
            let (own, none) = (scans(row, entries), scans(none, entries));
            assert_eq!(count(own, "found"), count(none, "found"), "{row}");
            assert_eq!(count(own, "other_reads"), 0, "{row}");
        }
        if row["tree"] == "flushed" {
            assert_eq!(row["runs"], row["flushes"]);
            let (own, none) = (scans(row, "3"), scans(none, "3"));
            assert!(count(own, "blocks") <= count(none, "blocks"), "{row}");
        }
        if row["filter"] == "none" {
            assert!(count(scans(row, "0"), "blocks") > 700, "{row}");
            assert_eq!(count(scans(row, "0"), "asked"), 0, "{row}");
            continue;
        }
        let (own, none) = (scans(row, "0"), scans(none, "0"));
        // Small runs have few keys; the aims are for all of them together.
        assert!(count(own, "blocks") * 10 < count(none, "blocks"), "{row}");
        assert!(count(own, "blocks") >= count(own, "in_vain"), "{row}");
        let sums = in_vain.entry(row["filter"].as_str().unwrap()).or_default();
        sums.0 += count(own, "in_vain");
        sums.1 += count(own, "in_vain") + count(own, "refuted");
    }
    for (filter, most) in [("10 bits", 0.03), ("12 bits", 0.01)] {
        let (wrong, empty) = in_vain[filter];
        assert!(empty > 50_000, "{filter}: {empty}");
        let share = wrong as f64 / empty as f64;
        assert!(share > 0.0 && share < most, "{filter}: {share}");
    }
    let page = std::fs::read_to_string(page.path()).unwrap();
    assert_eq!(page.matches("<svg ").count(), 4);
    assert!(page.contains("12 bits") && !page.contains("src="));
}

#[test]
fn keys_of_a_file_are_scanned() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text: String = (0..6000)
        .map(|n| format!("dir{}/{}\n", n % 17, n * 7919 % 1_000_003))
        .collect();
    std::fs::write(file.path(), &text).unwrap();
    let line = "study --scans --lookups 20 --range-bits 12 --input";
    let arguments: Vec<&str> = line.split(' ').chain([in_dir(file.path())]).collect();
    let text = stdout(&arguments);
    assert!(text.contains("all entries right"), "{text}");
    assert!(text.contains("For an empty range"), "{text}");
    for line in [
        "study --scans --tree",
        "study --scans --range-bits 3",
        "study --scans --shape round",
        "study --shape hex",
        "study --scans --keys 1000",
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        assert_eq!(criba(&arguments).status.code(), Some(2), "{line}");
    }
}

#[cfg(feature = "lab")]
#[test]
fn the_range_filter_keeps_its_place_in_the_lab() {
    let line = "lab range-filters ranges-behind --keys 20000 --json";
    let all = lines(&stdout(&line.split(' ').collect::<Vec<_>>()));
    let measured = |experiment: &str, structure: &str, quantity: &str, bits: u64| {
        let found = all.iter().find(|line| {
            line["experiment"] == experiment
                && line["structure"] == structure
                && line["quantity"] == quantity
                && line["bits"] == bits
        });
        found.map(|line| line["measured"].as_f64().unwrap())
    };
    let own = |quantity: &str, bits| measured("range-filters", "criba", quantity, bits).unwrap();
    assert!(own("uniform", 10) < 0.03 && own("uniform", 12) < 0.01);
    for sensor in ["sensor text", "sensor binary"] {
        assert!(own(sensor, 10) < 0.06 && own(sensor, 10) > 0.001);
    }
    for quantity in ["uniform", "sensor text", "sensor binary", "words", "paths"] {
        for bits in [8, 10, 12, 14, 16, 18] {
            let surf = measured("range-filters", "SuRF", quantity, bits);
            assert!(
                own(quantity, bits) < surf.unwrap_or(1.0),
                "{quantity} {bits}"
            );
        }
    }
    // Even keys are the best case of buckets of equal length; keys right behind others of hashing.
    let buckets = measured("range-filters", "Bucketing", "uniform", 10).unwrap();
    assert!(buckets < own("uniform", 10));
    let behind = |structure| measured("ranges-behind", structure, "uniform", 16).unwrap();
    assert!(behind("Grafite") < 0.003 && behind("criba") > 0.9);
}
