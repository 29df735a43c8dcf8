//! The program as a process of its own, as a script runs it.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use clap::Parser as _;

use crate::args::Args;
use crate::setup::Plan;
use crate::site;

/// Holds the arguments, one a line.
const ARGUMENTS: &str = "CRAWLER_ARGUMENTS";

/// Not a test: the process that other tests start.
#[test]
#[ignore = "run by other tests, as a process of its own"]
fn runs_as_a_program() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else {
        return;
    };
    let args = Args::try_parse_from(["crawler"].into_iter().chain(arguments.lines()));
    let args = args.unwrap_or_else(|refused| refused.exit());
    crate::signals::listen().unwrap();
    let plan = Plan::of(args);
    let ended = plan.and_then(|plan| crate::crawl_to_the_end(&plan));
    let exit = ended.unwrap_or_else(|failure| {
        crate::say(format_args!("error: {failure}"));
        failure.exit()
    });
    std::process::exit(exit as i32);
}

/// How a process has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Options of a crawl of the embedded site.
pub(super) fn fixed() -> Vec<String> {
    let max_bytes = site::BODY_BYTES_MAX.to_string();
    [
        "--quiet",
        "--fast",
        "--backoff",
        "5",
        "--max-bytes",
        &max_bytes,
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The process with these arguments, behind a command that runs what follows it.
pub(super) fn command(before: &[&str], arguments: &[String]) -> Command {
    let own = std::env::current_exe().unwrap();
    let test = [
        "--exact",
        "tests::program::runs_as_a_program",
        "--ignored",
        "--nocapture",
    ];
    let mut command = match before {
        [] => Command::new(own),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(own);
            command
        }
    };
    command.args(test).env(ARGUMENTS, arguments.join("\n"));
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Crawls with the fixed options and these, to the end.
pub(super) fn run(options: &[&str]) -> Ended {
    let mut arguments = fixed();
    if options.contains(&"--max-bytes") {
        arguments.truncate(arguments.len() - 2);
    }
    arguments.extend(options.iter().map(|&option| option.to_owned()));
    ended(command(&[], &arguments).output().unwrap())
}

pub(super) fn ended(output: Output) -> Ended {
    Ended {
        code: output.status.code(),
        signal: output.status.signal(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The object on standard output.
pub(super) fn json(ended: &Ended) -> serde_json::Value {
    let line = ended.stdout.lines().find(|line| line.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no object: {ended:?}"));
    serde_json::from_str(line).unwrap()
}

/// A path as an argument.
pub(super) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
