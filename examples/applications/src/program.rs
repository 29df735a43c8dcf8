//! Runs an application: its options, its errors, its exit codes.

use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser};

use crate::Report;

common::exit_codes! {
    Done = 0 "the report is written, and all answers that had to be right were"
    Wrong = 1 "an answer that had to be right was wrong"
    Usage = 2 "the command line or the input is not valid"
    System = 5 "the system or the store refused"
}

/// Options that all applications have.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Input that is made up is made from this number; equal numbers give equal input
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Much smaller input: for tests, and for a first look
    #[arg(long)]
    pub small: bool,
    /// One line of JSON for each line of the tables
    #[arg(long)]
    pub json: bool,
    /// Also write a page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Options {
    /// `full`, or `small` if that was asked for.
    pub fn size(&self, full: u64, small: u64) -> u64 {
        if self.small { small } else { full }
    }
}

/// Why an application ends early.
#[derive(Debug)]
pub enum Error {
    /// An answer that must never be wrong is wrong: which, and how.
    Wrong(String),
    /// The arguments or an input file make no sense: which, and what to do.
    Usage(String),
    /// Something else failed.
    Other(Box<dyn std::error::Error + Send + Sync>),
}

/// The result of what can fail in an application.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// For `map_err`: a file that cannot be read or written, with its name.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.display().to_string();
        move |error| Error::Other(format!("{path}: {error}").into())
    }

    fn exit(&self) -> Exit {
        match self {
            Error::Wrong(_) => Exit::Wrong,
            Error::Usage(_) => Exit::Usage,
            Error::Other(_) => Exit::System,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Wrong(what) => write!(f, "an answer is wrong: {what}"),
            Error::Usage(what) => f.write_str(what),
            Error::Other(error) => f.write_str(&common::exit::with_causes(&**error)),
        }
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Error {
        Error::Other(Box::new(error))
    }
}

/// The whole of an application: reads the arguments, works, and writes the report.
///
/// The name of the program is that of `A`.
pub fn program<A: Parser>(options: fn(&A) -> &Options, work: fn(&A) -> Result<Report>) -> ExitCode {
    let command = A::command().after_help(HELP);
    let args = A::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit());
    let result = open_page(options(&args)).and_then(|page| {
        let report = work(&args)?;
        report.publish(options(&args), page)
    });
    match result {
        Ok(()) => Exit::Done.into(),
        Err(error) => {
            let text = error.to_string();
            let line = common::escape::Plain(&text);
            // If standard error is closed, there is nowhere else to say it.
            writeln!(io::stderr(), "error: {line}").unwrap_or_default();
            error.exit().into()
        }
    }
}

/// A page that cannot be written is known before the work begins.
fn open_page(options: &Options) -> Result<Option<std::fs::File>> {
    #[expect(clippy::disallowed_methods, reason = "the user names this file")]
    let open = |path: &PathBuf| {
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(path);
        file.map_err(Error::file(path))
    };
    options.html.as_ref().map(open).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_their_causes_and_have_codes() {
        let wrong = Error::Wrong("a banned address passed".into());
        assert_eq!(
            wrong.to_string(),
            "an answer is wrong: a banned address passed"
        );
        assert_eq!(wrong.exit(), Exit::Wrong);
        assert_eq!(Error::Usage("no words".into()).exit(), Exit::Usage);
        let missing = Error::file(Path::new("a/b"))(io::ErrorKind::NotFound.into());
        assert_eq!(missing.to_string(), "a/b: entity not found");
        assert_eq!(missing.exit(), Exit::System);
    }
}
