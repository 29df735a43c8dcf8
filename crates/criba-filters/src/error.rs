//! The one error of filters and sketches.

use std::fmt;

/// Short form.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What cannot be done, and what to do instead.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of its bounds, which the sentence names.
    Invalid(String),
    /// There is no room for one more key.
    Full {
        /// Keys in it.
        keys: u64,
    },
    /// A map was given one key twice.
    EqualKeys,
    /// No seed that was tried gives a solution; practically impossible for distinct keys.
    Unsolvable {
        /// Seeds tried.
        attempts: u32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => f.write_str(why),
            Self::Full { keys } => write!(
                f,
                "full with {keys} keys: delete some, grow it, or build a larger one"
            ),
            Self::EqualKeys => f.write_str("a key was given twice: a map has one value for each"),
            Self::Unsolvable { attempts } => write!(
                f,
                "{attempts} seeds gave no solution: build it again with another seed"
            ),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    pub(crate) fn invalid<T>(why: String) -> Result<T, Self> {
        Err(Self::Invalid(why))
    }
}
