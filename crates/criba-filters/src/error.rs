//! The one error of filters and sketches.

use std::fmt;

/// Short form.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What cannot be done, and what to do instead.
///
/// ```
/// use criba_filters::{Design, Error};
///
/// let error = Design::for_rate(1_000, 2.0).unwrap_err();
/// assert!(matches!(error, Error::Invalid(_)));
/// assert!(error.to_string().contains("choose one from"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of its bounds, or two structures to be merged differ in shape. The
    /// sentence names what it is.
    Invalid(String),
    /// There is no room for one more key.
    Full {
        /// Keys in it.
        keys: u64,
    },
    /// A map was given one key twice.
    EqualKeys,
    /// No salt that was tried gives a solution; practically impossible for distinct keys.
    Unsolvable {
        /// Salts tried.
        attempts: u32,
    },
    /// Bytes are not those of the structure that was asked for.
    Unreadable(Unreadable),
}

/// Why bytes cannot be read.
///
/// ```
/// use criba_filters::{Blocked, Error, HyperLogLog, Membership, Sketch, Unreadable};
///
/// let mut bytes = HyperLogLog::with_error(0.1)?.to_bytes();
/// let other = Blocked::from_bytes(&bytes).unwrap_err();
/// assert!(matches!(other, Error::Unreadable(Unreadable::Other { .. })));
/// bytes[24] ^= 1;
/// let damaged = HyperLogLog::from_bytes(&bytes).unwrap_err();
/// assert_eq!(damaged, Error::Unreadable(Unreadable::Checksum));
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Unreadable {
    /// They do not begin as all filters and sketches of criba do.
    Foreign,
    /// They are those of another structure, or written with another version of this one.
    Other {
        /// Kind and version asked for.
        wanted: String,
        /// Kind and version found.
        found: String,
    },
    /// There are fewer or more bytes than the first ones say.
    Length {
        /// Bytes that belong there.
        wanted: u64,
        /// Bytes found.
        found: u64,
    },
    /// The checksum is wrong: bytes have changed since they were written.
    Checksum,
    /// This rule of the format is broken. Where a checksum covers the bytes and is right, criba did
    /// not write them.
    Field(&'static str),
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
                "{attempts} salts gave no solution: hash the keys with another seed"
            ),
            Self::Unreadable(why) => why.fmt(f),
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("these bytes are no filter or sketch of criba"),
            Self::Other { wanted, found } => {
                write!(
                    f,
                    "these bytes hold {found}, not {wanted}: read them as such"
                )
            }
            Self::Length { wanted, found } => {
                write!(
                    f,
                    "{found} bytes where {wanted} belong: fetch them again, whole"
                )
            }
            Self::Checksum => f.write_str("the checksum is wrong: fetch or build it again"),
            Self::Field(what) => write!(f, "{what}: build it again"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Unreadable> for Error {
    fn from(why: Unreadable) -> Self {
        Self::Unreadable(why)
    }
}

impl Error {
    pub(crate) fn invalid<T>(why: String) -> Result<T> {
        Err(Self::Invalid(why))
    }

    /// A broken rule of a format.
    pub(crate) fn field(what: &'static str) -> Self {
        Self::Unreadable(Unreadable::Field(what))
    }
}
