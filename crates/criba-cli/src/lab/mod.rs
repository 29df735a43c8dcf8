//! `criba lab`: what filters and sketches do, beside what theory says they do.
//!
//! Each experiment answers one question on sets and streams that a seed repeats, with the structures of
//! `criba_filters` through their public interface. Its result is a list of
//! lines, one measurement each, which a table, JSON and a page are made of.

pub(crate) mod args;
mod bench;
mod catalog;
mod exercises;
mod html;
mod outcome;
mod ranges;
mod sets;
mod table;
mod zipf;

use args::LabArgs;
use bench::Bench;
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
    let bench = Bench::new(args.seed, args.keys);
    let mut progress = Progress::new(Some(chosen.len() as u64), "[{bar:30}] {pos}/{len}  {msg}");
    let mut outcomes: Vec<(&Experiment, Outcome)> = Vec::new();
    for experiment in chosen {
        progress.phase(experiment.name);
        outcomes.push((experiment, (experiment.run)(&bench)?));
        progress.steps(1);
    }
    drop(progress);
    if let Some(path) = &args.html {
        files::write_report(path, &html::page(&outcomes, (args.seed, args.keys))?)?;
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
    output.finish()?;
    Ok(Exit::Done)
}
