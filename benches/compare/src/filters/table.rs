//! What was measured, for people and for programs.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use super::{Line, Question};
use crate::engine::Result;

/// Appends each line as JSON.
pub(super) fn append(path: &Path, lines: &[Line]) -> Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    for line in lines {
        writeln!(file, "{}", serde_json::to_string(line)?)?;
    }
    Ok(())
}

/// One row for each structure: medians over the rounds, with the least and the greatest.
pub(super) fn print(question: &Question<'_>, bits: u32, lines: &[Line]) {
    let Question {
        keys,
        copies,
        rounds,
        ..
    } = question;
    println!("{keys} keys, {copies} copies, a rate of 2^-{bits}, {rounds} rounds\n");
    println!("| structure | bits per key | rate | build ns | present ns | absent ns |");
    println!("|---|---|---|---|---|---|");
    for line in lines.iter().filter(|line| line.round == 0) {
        let of = |value: fn(&Line) -> f64| {
            let own = lines.iter().filter(|own| own.structure == line.structure);
            let mut values: Vec<f64> = own.map(value).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let time = |value| {
            let values = of(value);
            let (least, greatest) = (values[0], values[values.len() - 1]);
            let median = values[values.len() / 2];
            format!("{median:.1} ({least:.1}..{greatest:.1})")
        };
        let rates = of(|line| line.rate);
        println!(
            "| {} | {:.2} | {:.3} % | {} | {} | {} |",
            line.structure,
            line.bits_per_key,
            rates.iter().sum::<f64>() / rates.len() as f64 * 100.0,
            time(|line| line.build_ns),
            time(|line| line.present_ns),
            time(|line| line.absent_ns),
        );
    }
    println!();
}
