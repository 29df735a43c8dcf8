//! Chosen keys do what was calculated, and no more than random ones under a secret key.

use std::io::Write as _;
use std::process::Command;

use crate::{number, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_attacks");

/// Five standard deviations of a share of this number of questions.
fn tolerance(share: f64, questions: f64) -> f64 {
    5.0 * (share * (1.0 - share) / questions).sqrt()
}

#[test]
fn pollution_is_as_calculated_and_a_secret_key_ends_it() {
    let rows = run(PROGRAM, &[]);
    let rows = rows.table("Pollution");
    assert_eq!(rows.len(), 5);
    for row in &rows {
        let (fill, expected) = (number(row, "fill"), number(row, "fill_calculated"));
        let chosen = row["keys"] == "chosen";
        // Chosen keys never share a bit, so there is no chance in how full they make the filter.
        let allowed = if chosen { 1e-9 } else { 0.02 };
        assert!((fill - expected).abs() < allowed, "{row}");
        // Chance decides how full the filter is, and then which questions are accepted.
        let rate = fill.powf(number(row, "probes"));
        let error = (number(row, "rate") - rate).abs();
        assert!(error < tolerance(rate, 40_000.0), "{row}");
        if !row["tries_per_key"].is_null() {
            let ratio = number(row, "tries_per_key") / number(row, "tries_calculated");
            assert!((0.7..1.4).contains(&ratio), "{row}");
        }
    }
    let [random, chosen, secret] = [0, 1, 2].map(|row| number(rows[row], "rate"));
    assert!(chosen > 8.0 * random && secret < 1.5 * random);
    // Fewer probes cost a little for random keys, and help against chosen ones.
    assert!(number(rows[3], "rate") > random && number(rows[4], "rate") < chosen / 2.0);
}

#[test]
fn forged_keys_cost_one_over_p_and_pass_only_the_public_filter() {
    let rows = run(PROGRAM, &["--seed", "2"]);
    for row in rows.table("Forgery") {
        assert_eq!(number(row, "accepted"), 100.0, "{row}");
        assert_eq!(number(row, "accepted_again"), 100.0, "{row}");
        let expected = number(row, "calculated");
        for tries in ["tries_per_key", "questions_per_key"] {
            // Five standard deviations of the mean of 100, and that filters differ.
            let ratio = number(row, tries) / expected;
            assert!((0.45..1.7).contains(&ratio), "{row}");
        }
        let (passed, expected) = (
            number(row, "under_a_secret_key"),
            number(row, "expected_there"),
        );
        assert!(
            (passed - expected).abs() < 5.0 * expected.sqrt() + 2.0,
            "{row}"
        );
    }
}

#[test]
fn a_published_filter_gives_its_members_away_as_bayes_says() {
    let rows = run(PROGRAM, &["--seed", "3"]);
    for row in rows.table("Dictionary") {
        let members = number(row, "members");
        if row["hash"] == "public" {
            assert_eq!(number(row, "members_among_them"), members, "{row}");
        } else {
            assert!(number(row, "members_among_them") < 15.0, "{row}");
        }
        let (precision, expected) = (number(row, "precision"), number(row, "by_Bayes"));
        // Chance also decides how full the small filter is; that matters only for the public hash.
        let by_fill = if row["hash"] == "public" { 0.03 } else { 0.0 };
        let allowed = tolerance(expected, number(row, "accepted")) + by_fill;
        assert!((precision - expected).abs() < allowed, "{row}");
    }
}

#[test]
fn a_secret_key_does_not_hide_names_and_a_salt_of_days_leaves_their_sizes() {
    let rows = run(PROGRAM, &[]);
    let rows = rows.table("Frequency");
    let share = |row: usize, attack| number(rows[row], attack);
    assert!(share(0, "by_dictionary") > 0.99);
    let size = share(0, "size_calculated");
    for row in 1..5 {
        assert_eq!(share(row, "by_dictionary"), 0.0);
        assert!(share(row, "and_size") > share(row, "by_frequency"));
    }
    for row in &rows[..3] {
        assert!(number(row, "and_shared_bigrams") > 0.9, "{row}");
        assert!(number(row, "by_frequency") > 1.5 * number(row, "blind_calculated"));
    }
    assert!(share(1, "patterns") <= 200.0 && share(2, "patterns") <= 210.0);
    // Nearly every record has a salt of its own: no frequency is left to see.
    assert!(share(4, "patterns") > 1_900.0);
    let allowed = tolerance(size, 2_000.0);
    assert!((share(4, "by_frequency") - share(4, "blind_calculated")).abs() < allowed);
    assert!((share(4, "and_size") - size).abs() < allowed);
    assert!(rows[4]["and_shared_bigrams"].is_null());
}

/// Runs with a list of names, and gives the exit code and the errors.
fn with_names(list: &str) -> (Option<i32>, String) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(list.as_bytes()).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["--small", "--json", "--names"]);
    let output = command.arg(file.path()).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), errors)
}

#[test]
fn lists_of_names_are_read_or_refused() {
    let name = |number: u32| {
        let letter = |place| char::from(b'A' + (number / place % 26) as u8);
        format!("{}{}{}", letter(1), letter(3), letter(26))
    };
    let list = |line: fn(String, u32) -> String| -> String {
        (0..60)
            .map(|number| line(name(number), number + 1))
            .collect()
    };
    let census = list(|name, rank| format!("{name} {} 9.9 {rank}\n", 1.0 / f64::from(rank)));
    assert_eq!(with_names(&census), (Some(0), String::new()));
    let (code, errors) = with_names(&list(|name, _| format!("{name} often\n")));
    assert!(
        code == Some(2) && errors.contains("line 1 has no number"),
        "{errors}"
    );
    let (code, errors) = with_names("Ann\nBob\n");
    assert!(
        code == Some(2) && errors.contains("at least 50"),
        "{errors}"
    );
    let missing = Command::new(PROGRAM)
        .args(["--names", "/no/such/list"])
        .output();
    let missing = missing.unwrap();
    assert_eq!(missing.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/no/such/list: "));
}
