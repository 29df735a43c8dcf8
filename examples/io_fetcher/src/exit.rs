//! Exit codes by name, and the failures that lead to them.

use std::fmt;
use std::io::{self, Write as _};

use common::escape::Plain;
use common::exit::with_causes;

common::exit_codes! {
    Done = 0 "done (also when the reader of a pipe went away)"
    Partly = 1 "done, except for documents that were reported"
    Usage = 2 "the command line is not valid, or there is no such store or document"
    Damaged = 3 "the store is damaged"
    Locked = 4 "another process has the store open"
    Io = 5 "the system refused to read or write the store or the output"
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

/// Writes text to standard output. Its reader may be gone: what was done stays done, and how it
/// went is in the exit code.
pub(crate) fn say(text: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text).and_then(|()| out.flush());
    match written.map_err(|error| Failure::output(&error)) {
        Err(failure) if !failure.is_broken_pipe => Err(failure),
        _ => Ok(()),
    }
}

/// Writes a line to standard error, where that is possible.
pub(crate) fn complain(line: fmt::Arguments<'_>) {
    drop(writeln!(io::stderr(), "{line}"));
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Paths within may come from outside.
        Plain(&self.sentence).fmt(f)
    }
}

impl From<criba::Error> for Failure {
    fn from(error: criba::Error) -> Failure {
        Failure::new(exit_of(&error), with_causes(&error))
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
