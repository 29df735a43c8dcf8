//! Operations grow as promised, and the filter errs as often as was calculated.

use std::sync::LazyLock;

use serde_json::Value;

use crate::{Rows, number, run};

const CONTACTS: &str = env!("CARGO_BIN_EXE_contacts");

/// The program takes a second, so tests share a run.
static RUN: LazyLock<Rows> = LazyLock::new(|| run(CONTACTS, &[]));
static OTHER_SEED: LazyLock<Rows> = LazyLock::new(|| run(CONTACTS, &["--seed", "7"]));

fn row<'a>(rows: &'a Rows, structure: &str, operation: &str) -> &'a Value {
    let rows = rows.table(&format!("Growth in the {structure}"));
    rows.into_iter()
        .find(|row| row["operation"] == operation)
        .unwrap()
}

/// Steps of an operation with 1,000 and with 16,000 contacts.
fn steps(rows: &Rows, structure: &str, operation: &str) -> (f64, f64) {
    let row = row(rows, structure, operation);
    (number(row, "steps_at_min_n"), number(row, "steps_at_max_n"))
}

#[test]
fn steps_grow_as_promised() {
    let rows = &*RUN;
    let mut operations = 0;
    for row in rows.table("Growth") {
        if row["promised"].is_null() {
            continue;
        }
        operations += 1;
        let off = (number(row, "exponent") - number(row, "calculated")).abs();
        assert!(off < 0.15, "{row}");
    }
    assert_eq!(operations, 44);

    let none = [
        "sorted list",
        "least and greatest",
        "predecessor and successor",
        "remove",
    ];
    for operation in none {
        let row = row(rows, "Bloom filter", operation);
        assert!(
            row["promised"].is_null() && row["steps_at_max_n"].is_null(),
            "{row}"
        );
    }
}

#[test]
fn steps_are_those_of_the_textbook() {
    let rows = &*RUN;
    // Half of an array is looked at for a contact, and all of it for somebody else.
    let (_, found) = steps(rows, "unsorted array", "find");
    assert!(
        (found - 8_000.0).abs() < 5.0 * 0.289 * 16_000.0 / 120_f64.sqrt(),
        "{found}"
    );
    assert_eq!(
        steps(rows, "unsorted array", "find, absent"),
        (1_000.0, 16_000.0)
    );
    assert_eq!(steps(rows, "unsorted array", "add"), (1.0, 1.0));
    // Halving takes log2 n comparisons, and moving takes half of the array.
    let (min, max) = steps(rows, "sorted array", "find");
    assert!(
        (10.0..12.0).contains(&min) && (14.0..16.0).contains(&max),
        "{min} {max}"
    );
    let (_, removed) = steps(rows, "sorted array", "remove");
    assert!((6_000.0..10_000.0).contains(&removed), "{removed}");
    // A hash and a comparison; one in 128 other keys in the same group costs a comparison more.
    let (min, max) = steps(rows, "hash table", "find");
    assert!(
        (2.0..2.1).contains(&min) && (2.0..2.1).contains(&max),
        "{min} {max}"
    );
    // All seven bits for a contact, about two for somebody else.
    assert_eq!(steps(rows, "Bloom filter", "find"), (7.0, 7.0));
    let (_, absent) = steps(rows, "Bloom filter", "find, absent");
    assert!((1.5..2.5).contains(&absent), "{absent}");
}

#[test]
fn the_store_reads_a_block_for_a_contact_and_none_for_others() {
    let rows = &*RUN;
    assert_eq!(steps(rows, "store", "find"), (1.0, 1.0));
    let (_, absent) = steps(rows, "store", "find, absent");
    assert!(absent < 0.05, "{absent}");
    // The whole list is every block once.
    assert_eq!(
        steps(rows, "store", "sorted list"),
        steps(rows, "store", "create")
    );
    assert_eq!(steps(rows, "store", "add"), (0.0, 0.0));
}

#[test]
fn new_people_are_taken_for_contacts_as_often_as_calculated() {
    for row in OTHER_SEED.table("Did we add") {
        let (taken, people) = (number(row, "taken_for_contacts"), number(row, "new_people"));
        let expected = people * number(row, "calculated");
        assert!(expected > 300.0, "{row}");
        assert!((taken - expected).abs() < 5.0 * expected.sqrt(), "{row}");
    }
}

#[test]
fn counts_repeat_with_their_seed() {
    let counts = |rows: &Rows| {
        let counts = |row: &Value| (row["steps_at_min_n"].clone(), row["steps_at_max_n"].clone());
        let in_memory = ["unsorted", "sorted", "balanced", "hash", "Bloom"].map(|structure| {
            let rows = rows.table(&format!("Growth in the {structure}"));
            rows.into_iter().map(counts).collect::<Vec<_>>()
        });
        in_memory.concat()
    };
    let again = run(CONTACTS, &["--seed", "7"]);
    assert_eq!(counts(&again), counts(&OTHER_SEED));
    assert_ne!(counts(&RUN), counts(&OTHER_SEED));
}
