//! How a program ends: its exit codes, and an error in one line.

use std::error::Error;

/// Makes the exit codes of a program from one table: an enum `Exit`, and the text `HELP` for
/// `--help`.
///
/// Codes do not change once they are out: scripts go by them.
#[macro_export]
macro_rules! exit_codes {
    ($($name:ident = $code:literal $meaning:literal)+) => {
        /// How the process ended, for its caller.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Exit {
            $(#[doc = $meaning] $name = $code,)+
        }

        /// The table of [`Exit`] for `--help`.
        pub(crate) const HELP: &str =
            concat!("Exit codes:" $(, "\n  ", $code, "  ", $meaning)+);

        impl From<Exit> for std::process::ExitCode {
            fn from(exit: Exit) -> std::process::ExitCode {
                std::process::ExitCode::from(exit as u8)
            }
        }
    };
}

/// An error and its causes, the last one last.
pub fn with_causes(error: &dyn Error) -> String {
    let mut sentence = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        sentence = format!("{sentence}: {cause}");
        source = cause.source();
    }
    sentence
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    exit_codes! {
        Done = 0 "done"
        Io = 5 "the system refused"
    }

    #[test]
    fn the_table_is_that_of_the_codes() {
        assert_eq!(HELP, "Exit codes:\n  0  done\n  5  the system refused");
        assert_eq!((Exit::Done as u8, Exit::Io as u8), (0, 5));
    }

    #[test]
    fn every_cause_is_named() {
        #[derive(Debug)]
        struct Failed(&'static str, Option<Box<Failed>>);

        impl fmt::Display for Failed {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.0)
            }
        }

        impl Error for Failed {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                self.1.as_deref().map(|cause| cause as _)
            }
        }

        let cause = Failed("disk full", None);
        let error = Failed(
            "no copy",
            Some(Box::new(Failed("no write", Some(Box::new(cause))))),
        );
        assert_eq!(with_causes(&error), "no copy: no write: disk full");
    }
}
