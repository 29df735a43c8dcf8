//! The lines of an experiment as one table: a row for each subject, columns for each quantity.

use super::outcome::{Cell, Line, Quantity, Subject, Unit};
use crate::grid::{NONE, Table, number, rate, small, thousands};

/// The table of all lines.
pub(crate) fn table(lines: &[Line]) -> Table {
    let quantities = quantities(lines);
    let names = parameters(lines);
    let has_bits = lines.iter().any(|line| line.subject.bits_per_key.is_some());
    let mut heads = vec!["structure"];
    heads.extend(&names);
    heads.extend(has_bits.then_some("bits/key"));
    let mut groups = vec![("", heads.len())];
    for quantity in &quantities {
        let is_compared = is_compared(lines, quantity.name);
        heads.extend(is_compared.then_some("expected"));
        heads.push("measured");
        groups.push((quantity.name, 1 + usize::from(is_compared)));
    }
    let row = |subject: &Subject| {
        let mut cells = vec![subject.structure.clone()];
        cells.extend(names.iter().map(|name| parameter(subject, name)));
        cells.extend(has_bits.then(|| number(subject.bits_per_key.unwrap_or(f64::NAN), 2)));
        for quantity in &quantities {
            let is_it = |line: &&Line| line.subject == *subject && line.quantity == *quantity;
            let line = lines.iter().find(is_it);
            if is_compared(lines, quantity.name) {
                cells.push(value(*quantity, line.and_then(|line| line.expected)));
            }
            cells.push(value(*quantity, line.map(|line| line.measured)));
        }
        cells
    };
    Table {
        rows: subjects(lines).into_iter().map(row).collect(),
        groups,
        heads,
    }
}

fn is_compared(lines: &[Line], quantity: &str) -> bool {
    let mut of_it = lines.iter().filter(|line| line.quantity.name == quantity);
    of_it.any(|line| line.expected.is_some())
}

/// All quantities, in the order of their first lines.
fn quantities(lines: &[Line]) -> Vec<Quantity> {
    let mut found = Vec::new();
    for line in lines {
        if !found.contains(&line.quantity) {
            found.push(line.quantity);
        }
    }
    found
}

/// All subjects, in the order of their first lines.
fn subjects(lines: &[Line]) -> Vec<&Subject> {
    let mut found: Vec<&Subject> = Vec::new();
    for line in lines {
        if !found.contains(&&line.subject) {
            found.push(&line.subject);
        }
    }
    found
}

/// Names of all parameters.
fn parameters(lines: &[Line]) -> Vec<&'static str> {
    let mut found = Vec::new();
    for (name, _) in lines.iter().flat_map(|line| &line.subject.parameters) {
        if !found.contains(name) {
            found.push(*name);
        }
    }
    found
}

fn parameter(subject: &Subject, name: &str) -> String {
    let value = subject.parameters.iter().find(|one| one.0 == name);
    value.map_or(NONE.into(), |(_, value)| text(value))
}

/// A parameter as text.
pub(crate) fn text(value: &Cell) -> String {
    match value {
        Cell::Count(count) => thousands(*count),
        Cell::Number(number) => format!("{number}"),
        Cell::Text(text) => text.clone(),
    }
}

fn value(quantity: Quantity, value: Option<f64>) -> String {
    let Some(value) = value else {
        return NONE.into();
    };
    match quantity.unit {
        Unit::Rate => rate(value),
        Unit::Small => small(value),
        Unit::Count if value.is_finite() => thousands(value.round().max(0.0) as u64),
        Unit::Count => NONE.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Outcome;
    use super::*;

    #[test]
    fn lines_of_one_subject_are_one_row() {
        let (rate, time) = (Quantity::rate("rate"), Quantity::number("ns"));
        let mut outcome = Outcome::default();
        let one = Subject::new("a").with("probes", 7u64).bits(960.0, 100);
        let other = Subject::new("b").with("load", 0.5);
        outcome.share(&one, rate, (0.01, 0.0099), (1000, 0.0));
        outcome.measured(&one, time, 12.34);
        outcome.measured(&other, time, 5.0);
        let table = table(&outcome.lines);
        assert_eq!(
            table.heads,
            [
                "structure",
                "probes",
                "load",
                "bits/key",
                "expected",
                "measured",
                "measured"
            ]
        );
        assert_eq!(table.groups, [("", 4), ("rate", 2), ("ns", 1)]);
        assert_eq!(
            table.rows[0],
            ["a", "7", "-", "9.60", "1.00%", "0.990%", "12.3"]
        );
        assert_eq!(table.rows[1], ["b", "-", "0.5", "-", "-", "-", "5.00"]);
        let line = outcome.lines[0].json(("x", "y")).to_line();
        let start = "{\"experiment\":\"x\",\"exercise\":\"y\",\"structure\":\"a\",\"probes\":7,";
        let end = "\"bits_per_key\":9.6}";
        assert!(
            line.starts_with(start)
                && line.contains("\"quantity\":\"rate\",")
                && line.ends_with(end),
            "{line}"
        );
    }
}
