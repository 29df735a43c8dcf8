//! `criba lab`: its measurements as JSON, within the bounds that theory gives each.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{criba, in_dir, stdout};

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What names a line: all but its numbers of results.
fn subject(line: &Value) -> String {
    let mut line = line.as_object().unwrap().clone();
    for field in ["expected", "measured", "lower", "upper", "bits_per_key"] {
        line.remove(field);
    }
    Value::Object(line).to_string()
}

#[test]
fn every_experiment_measures_what_theory_expects() {
    let page = tempfile::NamedTempFile::new().unwrap();
    let small = ["lab", "--keys", "2000", "--seed", "3", "--json", "--html"];
    let all = lines(&stdout(&[&small[..], &[in_dir(page.path())]].concat()));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut bounded = 0;
    for line in &all {
        *counts
            .entry(line["experiment"].as_str().unwrap())
            .or_default() += 1;
        for field in ["exercise", "structure", "quantity"] {
            assert!(
                !line[field].as_str().unwrap().is_empty(),
                "{field} in {line}"
            );
        }
        let measured = line["measured"].as_f64().unwrap();
        assert!(measured.is_finite() && measured >= 0.0, "{line}");
        for field in ["expected", "lower", "upper", "bits_per_key"] {
            let value = line
                .get(field)
                .unwrap_or_else(|| panic!("no {field} in {line}"));
            assert!(
                value.is_null() || value.as_f64().unwrap() >= 0.0,
                "{field} in {line}"
            );
        }
        let is_compared = line["expected"].is_f64();
        assert_eq!(
            (line["lower"].is_f64(), line["upper"].is_f64()),
            (is_compared, is_compared)
        );
        if is_compared {
            bounded += 1;
            let bound = |field: &str| line[field].as_f64().unwrap();
            assert!(
                (bound("lower")..=bound("upper")).contains(&measured),
                "{line}"
            );
        }
    }
    let mut listed = lines(&stdout(&["lab", "--list", "--json"]));
    listed.retain(|line| line["experiment"].is_string());
    let page = std::fs::read_to_string(page.path()).unwrap();
    for experiment in &listed {
        let name = experiment["experiment"].as_str().unwrap();
        assert!(
            experiment["question"].as_str().unwrap().ends_with('?'),
            "{experiment}"
        );
        let exercise = experiment["exercise"].as_str().unwrap();
        assert!(counts.get(name) > Some(&2), "{name}: {counts:?}");
        assert!(page.contains(&format!("<h2 id=\"{name}\">")), "{name}");
        assert!(page.contains(&format!("Exercise: {exercise}.")), "{name}");
    }
    assert_eq!(counts.len(), listed.len());
    assert!(bounded > 100, "{bounded} measurements have bounds");
    assert!(page.contains("<svg") && !page.contains("src=") && !page.contains("url("));
    let subjects: Vec<String> = all.iter().map(subject).collect();
    for (place, one) in subjects.iter().enumerate() {
        assert!(!subjects[..place].contains(one), "{one} is there twice");
    }
}

/// Times differ from run to run; everything else is repeated.
#[test]
fn a_seed_repeats_an_experiment() {
    let run = |seed: &str| {
        let text = stdout(&[
            "lab", "counting", "width", "--keys", "3000", "--json", "--seed", seed,
        ]);
        lines(&text)
    };
    let first = run("1");
    assert_eq!(first, run("1"));
    assert_ne!(first, run("2"));
    assert!(first.iter().any(|line| line["experiment"] == "width"));
    assert!(first.iter().all(|line| line["experiment"] != "top"));
}

#[test]
fn tables_are_printed_for_people() {
    let text = stdout(&["lab", "top", "--keys", "2000"]);
    assert!(
        text.starts_with("top: ")
            && text.contains("\nExercise: the most frequent keys of a stream."),
        "{text}"
    );
    assert!(text.contains("space-saving"), "{text}");
    assert!(
        text.contains("largest error") && text.contains("expected"),
        "{text}"
    );
}

#[test]
fn an_unknown_experiment_is_told_those_there_are() {
    let output = criba(&["lab", "counting", "nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    for expected in [
        "there is no experiment \"nonsense\"",
        "counting",
        "distinct",
    ] {
        assert!(error.contains(expected), "{error}");
    }
    for line in [
        "lab --keys 5",
        "lab --list counting",
        "lab --seed x",
        "lab --list --bits 9",
        "lab bloom --bits 0",
        "lab bloom --probes 65",
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        assert_eq!(criba(&arguments).status.code(), Some(2), "{line}");
    }
}

/// m = 1000, k = 4, n = 200: three numbers of the same size, and the exact one is the greater.
#[test]
fn one_small_filter_has_the_size_that_was_asked_for() {
    let exercise = "lab bloom --bits 1000 --probes 4 --keys 200 --json";
    let arguments: Vec<&str> = exercise.split(' ').collect();
    let all = lines(&stdout(&arguments));
    let find = |quantity: &str| {
        all.iter()
            .find(|line| {
                (&line["structure"], &line["keys"], &line["quantity"])
                    == (&"xxh3".into(), &200.into(), &quantity.into())
            })
            .unwrap()
    };
    let rate = find("false-positive rate");
    assert_eq!((&rate["m"], &rate["k"]), (&1000.into(), &4.into()));
    let number = |line: &Value, field: &str| line[field].as_f64().unwrap();
    let formula = (1.0 - (1.0 - 0.001_f64).powi(800)).powi(4);
    assert!((number(rate, "expected") - formula).abs() < 1e-12);
    let exact = find("rate from bits, exact formula");
    let above = number(exact, "expected") / formula;
    assert!((1.0005..1.01).contains(&above), "{above}");
    assert!((number(exact, "measured") / number(exact, "expected") - 1.0).abs() < 0.01);
}

#[test]
fn options_of_bloom_are_refused_for_others() {
    for (line, expected) in [
        ("lab fill --bits 1000", "of the experiment bloom alone"),
        ("lab bloom fill --probes 4", "of the experiment bloom alone"),
        ("lab --bits 1000", "of the experiment bloom alone"),
        (
            "lab bloom fill --keys 200",
            "only `criba lab bloom` takes fewer",
        ),
    ] {
        let output = criba(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{line}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(expected), "{line}: {error}");
    }
    assert!(stdout(&["lab", "bloom", "--keys", "1"]).contains("blake2b"));
}

/// `docs/exercises.md` answers the exercises that the list names, with the same commands.
#[test]
fn every_exercise_is_answered() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/exercises.md");
    let page = std::fs::read_to_string(path).unwrap();
    let mut listed = lines(&stdout(&["lab", "--list", "--json"]));
    listed.retain(|line| line["command"].is_string());
    let text = stdout(&["lab", "--list"]);
    assert!(listed.len() > 40, "{} exercises", listed.len());
    for line in &listed {
        let (exercise, command) = (line["exercise"].as_str(), line["command"].as_str());
        let (exercise, command) = (exercise.unwrap(), command.unwrap());
        let row = format!("\n| {exercise} | `{command}` | ");
        let answer = page.split_once(&row).map(|(_, rest)| rest);
        let answer = answer.and_then(|rest| rest.lines().next());
        let answer = answer.unwrap_or_else(|| panic!("no row {row}"));
        assert!(answer.ends_with(" |") && answer.len() > 3, "{row}{answer}");
        assert!(
            text.contains(&format!("\n{command}\n    {exercise}\n")),
            "{command}"
        );
    }
    let rows = page.lines().filter(|line| line.starts_with("| ")).count();
    // One row is the head of the table.
    assert_eq!(rows, listed.len() + 1);
}
