//! Exit codes by name, and the failures that lead to them.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::escape::Escaped;

/// What the process tells its caller. The numbers are documented in `--help` and do not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// It was done, all of it.
    Done = 0,
    /// Some documents could not be fetched or written; each was reported, the others are done.
    Partly = 1,
    /// The command line is not valid, or the store is not what it asks for.
    Usage = 2,
    /// The store is damaged: what it holds is not what was put in.
    Damaged = 3,
    /// Another process has the store open.
    Locked = 4,
    /// The system refused to read or write the store or the output.
    Io = 5,
}

/// The table of [`Exit`] for `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done (also when the reader of a pipe went away)
  1  done, except for documents that were reported
  2  the command line is not valid, or there is no such store or document
  3  the store is damaged
  4  another process has the store open
  5  the system refused to read or write the store or the output";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command ended early.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) sentence: String,
    /// Whoever reads our output has seen enough: a quiet success.
    pub(crate) is_broken_pipe: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, sentence: impl Into<String>) -> Failure {
        Failure {
            exit,
            sentence: sentence.into(),
            is_broken_pipe: false,
        }
    }

    pub(crate) fn usage(sentence: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, sentence)
    }

    pub(crate) fn damaged(sentence: impl Into<String>) -> Failure {
        Failure::new(Exit::Damaged, sentence)
    }

    /// The system refused `what`, say "cannot read packs".
    pub(crate) fn io(what: impl fmt::Display, source: &io::Error) -> Failure {
        Failure::new(Exit::Io, format!("{what}: {source}"))
    }

    /// Writing standard output failed.
    pub(crate) fn output(source: &io::Error) -> Failure {
        Failure {
            is_broken_pipe: source.kind() == io::ErrorKind::BrokenPipe,
            ..Failure::io("cannot write standard output", source)
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Paths within may come from outside.
        Escaped(self.sentence.as_bytes()).fmt(f)
    }
}

impl From<criba::Error> for Failure {
    fn from(error: criba::Error) -> Failure {
        let mut sentence = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            sentence = format!("{sentence}: {cause}");
            source = cause.source();
        }
        Failure::new(exit_of(&error), sentence)
    }
}

fn exit_of(error: &criba::Error) -> Exit {
    match error {
        criba::Error::Corrupt(_) | criba::Error::Missing { .. } => Exit::Damaged,
        criba::Error::Locked { .. } => Exit::Locked,
        criba::Error::Poisoned { cause } | criba::Error::Stalled { cause } => exit_of(cause),
        criba::Error::NotAStore { .. } | criba::Error::Invalid(_) => Exit::Usage,
        _ => Exit::Io,
    }
}
