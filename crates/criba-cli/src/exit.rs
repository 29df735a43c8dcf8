//! Exit codes by name, and the failures that lead to them.
//!
//! A failure is cut by what the person at the keyboard can do, as the library's errors are; its
//! causes are kept apart so that each is printed once.

use std::error::Error as _;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// What the process tells its caller. The numbers are documented in `--help` and do not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// It was done.
    Done = 0,
    /// `get`: the key is not there; `drop-keyspace`: the keyspace.
    NotThere = 1,
    /// The command line or the input is not valid, or there is no such store or keyspace.
    Usage = 2,
    /// The store, or a file of it, is damaged or missing.
    Damaged = 3,
    /// Another process has the store open.
    Locked = 4,
    /// The system refused to read or write.
    Io = 5,
}

/// The table of [`Exit`] for `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done (also when the reader of a pipe went away)
  1  get: the key is not there; drop-keyspace: the keyspace is not there
  2  the command line or the input is not valid, or there is no such store or keyspace
  3  the store is damaged, or one of its files is missing
  4  another process has the store open
  5  the system refused to read or write";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Whoever reads our output has seen enough: a quiet success.
    BrokenPipe,
    /// Something to tell.
    Said(Box<Said>),
}

/// A sentence, its causes, and the exit code.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) exit: Exit,
    pub(crate) sentence: String,
    pub(crate) causes: Vec<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, sentence: impl Into<String>) -> Failure {
        Failure::Said(Box::new(Said {
            exit,
            sentence: sentence.into(),
            causes: Vec::new(),
        }))
    }

    /// The command line or the input is not valid.
    pub(crate) fn usage(sentence: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, sentence)
    }

    /// The system refused `what`, say "cannot read words.txt".
    pub(crate) fn io(what: impl Display, source: &io::Error) -> Failure {
        Failure::Said(Box::new(Said {
            exit: Exit::Io,
            sentence: what.to_string(),
            causes: vec![source.to_string()],
        }))
    }

    /// Writing the output failed; a broken pipe is no failure to speak of.
    pub(crate) fn output(name: &str, source: &io::Error) -> Failure {
        if source.kind() == io::ErrorKind::BrokenPipe {
            return Failure::BrokenPipe;
        }
        Failure::io(format_args!("cannot write {name}"), source)
    }

    /// The same failure with the place in front, say "line 17".
    pub(crate) fn at(self, place: impl Display) -> Failure {
        match self {
            Failure::BrokenPipe => Failure::BrokenPipe,
            Failure::Said(mut said) => {
                said.sentence = format!("{place}: {}", said.sentence);
                Failure::Said(said)
            }
        }
    }
}

impl From<criba::Error> for Failure {
    fn from(error: criba::Error) -> Failure {
        let mut causes = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        Failure::Said(Box::new(Said {
            exit: exit_of(&error),
            sentence: error.to_string(),
            causes,
        }))
    }
}

fn exit_of(error: &criba::Error) -> Exit {
    match error {
        criba::Error::Corrupt(_) | criba::Error::Missing { .. } => Exit::Damaged,
        criba::Error::Locked { .. } => Exit::Locked,
        criba::Error::Poisoned { cause } | criba::Error::Stalled { cause } => {
            match exit_of(cause) {
                Exit::Damaged => Exit::Damaged,
                _ => Exit::Io,
            }
        }
        criba::Error::NotAStore { .. }
        | criba::Error::Invalid(_)
        | criba::Error::NoOperator { .. }
        | criba::Error::KeyspaceDropped { .. }
        | criba::Error::ReadOnly
        | criba::Error::Closed => Exit::Usage,
        _ => Exit::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_their_causes_and_place() {
        let error = criba::Error::Locked {
            path: "x/LOCK".into(),
        };
        let Failure::Said(said) = Failure::from(error).at("line 3") else {
            panic!("said")
        };
        assert_eq!(said.exit, Exit::Locked);
        assert!(
            said.sentence.starts_with("line 3: x/LOCK is held"),
            "{}",
            said.sentence
        );

        let full = io::Error::from(io::ErrorKind::StorageFull);
        let Failure::Said(said) = Failure::output("a file", &full) else {
            panic!("said")
        };
        assert_eq!((said.exit, said.causes.len()), (Exit::Io, 1));
        let pipe = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(matches!(
            Failure::output("a file", &pipe),
            Failure::BrokenPipe
        ));
    }

    #[test]
    fn a_cause_that_the_sentence_names_is_not_printed_again() {
        let error = criba::Error::Io {
            path: "x".into(),
            source: std::sync::Arc::new(io::ErrorKind::StorageFull.into()),
        };
        let Failure::Said(said) = Failure::from(error) else {
            panic!("said")
        };
        assert_eq!(said.sentence, "x: no storage space");
        assert!(said.causes.is_empty(), "{:?}", said.causes);
    }

    #[test]
    fn help_names_every_code() {
        let all = [
            Exit::Done,
            Exit::NotThere,
            Exit::Usage,
            Exit::Damaged,
            Exit::Locked,
            Exit::Io,
        ];
        for exit in all {
            assert!(HELP.contains(&format!("\n  {}  ", exit as u8)), "{exit:?}");
        }
    }
}
