//! `criba lab`: what filters and sketches do, beside what theory says they do.
//!
//! Each experiment answers one question on sets and streams that a seed repeats, with the structures of
//! `criba_filters` through their public interface. Its result is a list of
//! lines, one measurement each, which a table, JSON and a page are made of.

pub(crate) mod args;
mod bench;
mod catalog;
mod directions;
mod exercises;
mod html;
mod matrix;
mod notes;
mod occupancy;
mod outcome;
mod ranges;
mod sets;
mod table;
mod zipf;

use args::LabArgs;
use bench::{Bench, Shape};
use catalog::{ALL, Experiment};
use outcome::Outcome;

use crate::exit::{Exit, Failure};
use crate::files;
use crate::output::Output;
use crate::progress::Progress;

pub(crate) fn run(args: &LabArgs) -> Result<Exit, Failure> {
    if args.list {
        return list(args.json);
    }
    let chosen = choose(&args.experiments)?;
    if let Some(path) = &args.html {
        files::check_report(path)?;
    }
    let bench = bench(args, &chosen)?;
    let mut progress = Progress::new(Some(chosen.len() as u64), "[{bar:30}] {pos}/{len}  {msg}");
    let mut outcomes: Vec<(&Experiment, Outcome)> = Vec::new();
    for experiment in chosen {
        progress.phase(experiment.name);
        outcomes.push((experiment, (experiment.run)(&bench)?));
        progress.steps(1);
    }
    drop(progress);
    if let Some(path) = &args.html {
        files::write_report(path, &html::page(&outcomes, (bench.seed, bench.keys))?)?;
    }
    let mut output = Output::stdout();
    for (experiment, outcome) in &outcomes {
        if args.json {
            for line in &outcome.lines {
                line.json((experiment.name, experiment.exercise))
                    .write(&mut output)?;
            }
        } else {
            write!(output, "{}", text(experiment, outcome))?;
        }
    }
    output.finish()?;
    Ok(Exit::Done)
}

/// Keys of an experiment where none are given, and the fewest.
const KEYS: u64 = 100_000;
const KEYS_MIN: u64 = 1000;

/// The setting that was asked for.
///
/// # Errors
///
/// If an option was given that an experiment does not have.
fn bench(args: &LabArgs, chosen: &[&Experiment]) -> Result<Bench, Failure> {
    let is_bloom = |experiment: &&Experiment| experiment.name == catalog::BLOOM;
    let is_alone = chosen.iter().all(is_bloom);
    if !is_alone {
        if args.bits.is_some() || args.probes.is_some() {
            return Err(Failure::usage(
                "--bits and --probes are options of the experiment bloom alone: run `criba lab bloom` \
                 with them",
            ));
        }
        if args.keys.is_some_and(|keys| keys < KEYS_MIN) {
            return Err(Failure::usage(format!(
                "experiments need at least {KEYS_MIN} keys: only `criba lab bloom` takes fewer"
            )));
        }
    }
    let standard = Shape::default();
    let keys = args.keys.unwrap_or(standard.keys);
    let bits = args.bits.unwrap_or(keys * standard.bits / standard.keys);
    let probes = args.probes.unwrap_or(standard.probes);
    let others = args.keys.unwrap_or(KEYS);
    let mut bench = Bench::new(args.seed, if is_alone { keys } else { others });
    bench.shape = Shape { bits, probes, keys };
    Ok(bench)
}

fn text(experiment: &Experiment, outcome: &Outcome) -> String {
    let Experiment {
        name,
        exercise,
        question,
        ..
    } = experiment;
    let mut text = format!("{name}: {question}\nExercise: {exercise}.\n\n");
    text.push_str(&table::table(&outcome.lines).whole(1));
    for note in &outcome.notes {
        text.push_str(&format!("- {note}\n"));
    }
    text.push('\n');
    text
}

/// The experiments with these names, in the order of the catalog; all for none.
fn choose(names: &[String]) -> Result<Vec<&'static Experiment>, Failure> {
    for name in names {
        if !ALL.iter().any(|experiment| experiment.name == name) {
            let known: Vec<&str> = ALL.iter().map(|experiment| experiment.name).collect();
            return Err(Failure::usage(format!(
                "there is no experiment {name:?}; choose from {}",
                known.join(", ")
            )));
        }
    }
    let is_chosen = |experiment: &&Experiment| {
        names.is_empty() || names.iter().any(|name| name == experiment.name)
    };
    Ok(ALL.iter().filter(is_chosen).collect())
}

fn list(json: bool) -> Result<Exit, Failure> {
    let mut output = Output::stdout();
    for experiment in ALL {
        if json {
            crate::json::Object::new()
                .field("experiment", experiment.name)
                .field("exercise", experiment.exercise)
                .field("question", experiment.question)
                .write(&mut output)?;
        } else {
            writeln!(output, "{:<13} {}", experiment.name, experiment.question)?;
        }
    }
    if !json {
        writeln!(output, "\nExercises and the commands that answer them:\n")?;
    }
    for (exercise, command) in notes::all() {
        if json {
            crate::json::Object::new()
                .field("exercise", exercise)
                .field("command", command.as_str())
                .write(&mut output)?;
        } else {
            writeln!(output, "{command}\n    {exercise}")?;
        }
    }
    output.finish()?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(keys: Option<u64>, bits: Option<u64>, probes: Option<u32>) -> (u64, Shape) {
        let experiments = vec![catalog::BLOOM.to_owned()];
        let args = LabArgs {
            experiments,
            list: false,
            keys,
            bits,
            probes,
            seed: 1,
            json: false,
            html: None,
        };
        let chosen = choose(&args.experiments).unwrap();
        let bench = bench(&args, &chosen).unwrap();
        (bench.keys, bench.shape)
    }

    /// Without options, the filter of the exercise; with keys alone, five bits for each.
    #[test]
    fn the_filter_of_bloom_has_the_size_asked_for() {
        let exercise = Shape {
            bits: 1000,
            probes: 4,
            keys: 200,
        };
        assert_eq!(shape(None, None, None), (200, exercise));
        let larger = Shape {
            bits: 1500,
            keys: 300,
            ..exercise
        };
        assert_eq!(shape(Some(300), None, None), (300, larger));
        let other = Shape {
            bits: 90,
            probes: 3,
            keys: 19,
        };
        assert_eq!(shape(Some(19), Some(90), Some(3)), (19, other));
    }
}
