//! Starts a process for each store, group and round, one after the other.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::RunArguments;
use crate::engine::{KINDS, Kind, Result, find};
use crate::work::GROUPS;

/// # Errors
///
/// When a process failed: a wrong or missing answer of a store is one.
pub fn run(arguments: &RunArguments) -> Result<()> {
    let kinds = match &arguments.engines[..] {
        [] => KINDS.to_vec(),
        names => names.iter().map(|name| find(name)).collect::<Result<_>>()?,
    };
    let mut json = match &arguments.json {
        Some(path) => Some(File::options().create(true).append(true).open(path)?),
        None => None,
    };
    let groups = groups(arguments)?;
    for round in 0..arguments.rounds {
        for (group, for_filters) in &groups {
            // Each has another before it in each round.
            let begin = round as usize % kinds.len();
            for kind in kinds[begin..].iter().chain(&kinds[..begin]) {
                // Unless they were asked for.
                if kind.is_filter_variant && !for_filters && arguments.engines.is_empty() {
                    continue;
                }
                let begun = Instant::now();
                let line = child(arguments, *kind, group, round)?;
                let took = begun.elapsed().as_secs_f64();
                eprintln!("round {round}, {group}, {}: {took:.1} s", kind.name);
                match &mut json {
                    Some(file) => file.write_all(line.as_bytes())?,
                    None => print!("{line}"),
                }
            }
        }
    }
    Ok(())
}

fn groups(arguments: &RunArguments) -> Result<Vec<(&str, bool)>> {
    let all = GROUPS.iter().map(|(name, variants, _)| (*name, *variants));
    if arguments.groups.is_empty() {
        return Ok(all.collect());
    }
    let chosen = arguments.groups.iter().map(|name| {
        let found = all.clone().find(|(known, _)| known == name);
        found.ok_or_else(|| format!("no group {name}; `compare list` has them all").into())
    });
    chosen.collect()
}

/// The line of JSON that the process prints.
fn child(arguments: &RunArguments, kind: Kind, group: &str, round: u64) -> Result<String> {
    let work = &arguments.work;
    let dir = match &work.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let job = work.job(round);
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["child", "--engine", kind.name, "--group", group])
        .args(["--round", &round.to_string()])
        .args(["--keys", &job.keys.to_string()])
        .args(["--reads", &job.reads.to_string()])
        .args(["--value-bytes", &job.value_bytes.to_string()])
        .args(["--limit", &work.limit.to_string()])
        .arg("--dir")
        .arg(dir.path())
        .stderr(Stdio::inherit());
    if work.compression {
        command.arg("--compression");
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{}, {group}: {}", kind.name, output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
