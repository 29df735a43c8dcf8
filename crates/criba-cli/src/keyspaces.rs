//! Keyspaces: their names, `keyspaces` and `drop-keyspace`.
//!
//! A command that only reads makes none, and says so where there is none of that name.

use std::sync::Arc;

use criba::{Create, Db, Keyspace};

use crate::args::{DropKeyspaceArgs, InKeyspace, KeyspacesArgs, Unescape};
use crate::choice::Operator;
use crate::escape::Escaped;
use crate::exit::{Exit, Failure};
use crate::grid::{Table, thousands};
use crate::json::Object;
use crate::output::Output;
use crate::point::argument;
use crate::store;

/// The name of the default keyspace.
const DEFAULT: &str = "default";

/// Bytes that a name may have.
const NAME_BYTES_MAX: usize = 255;

/// A name that a keyspace can have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Name(String);

impl Name {
    /// # Errors
    ///
    /// A sentence about why no keyspace can have this name.
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Name, String> {
        if !(1..=NAME_BYTES_MAX).contains(&bytes.len()) {
            return Err(format!(
                "a keyspace name of {} bytes; choose 1 to {NAME_BYTES_MAX}",
                bytes.len()
            ));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            format!(
                "the keyspace name {} is not UTF-8",
                quoted(error.as_bytes())
            )
        });
        text.map(Name)
    }

    /// The keyspace that the command line names, or the default one.
    ///
    /// # Errors
    ///
    /// When no keyspace can have that name.
    pub(crate) fn given(place: &InKeyspace, unescape: &Unescape) -> Result<Name, Failure> {
        match &place.keyspace {
            None => Ok(Name(DEFAULT.into())),
            Some(name) => Name::argument("--keyspace", name, unescape),
        }
    }

    fn argument(
        option: &str,
        text: &std::ffi::OsStr,
        unescape: &Unescape,
    ) -> Result<Name, Failure> {
        let bytes = argument(option, text, unescape.unescape)?;
        Name::new(bytes).map_err(|what| Failure::usage(what).at(option))
    }

    pub(crate) fn is_default(&self) -> bool {
        self.0 == DEFAULT
    }
}

/// Any name as text for a terminal.
pub(crate) fn quoted(name: &[u8]) -> String {
    format!("\"{}\"", Escaped(name))
}

/// # Errors
///
/// When there is no keyspace of this name.
pub(crate) fn check_there(db: &Db, name: &Name) -> Result<(), Failure> {
    if db.keyspaces().contains(&name.0) {
        return Ok(());
    }
    Err(Failure::usage(not_there(name)))
}

fn not_there(name: &Name) -> String {
    format!(
        "there is no keyspace {}; criba keyspaces STORE lists those there are",
        quoted(name.0.as_bytes())
    )
}

/// The keyspace of this name, which is made if it is not there. Operands of the default keyspace have
/// the operator with which the store was opened.
///
/// # Errors
///
/// When it cannot be made, or has operands of another operator.
pub(crate) fn open(db: &Db, name: &Name, operator: Option<&Operator>) -> Result<Keyspace, Failure> {
    Ok(match operator.filter(|_| !name.is_default()) {
        Some(Operator(operator)) => {
            db.keyspace_with(&name.0, |options| options.operator(Arc::clone(operator)))?
        }
        None => db.keyspace(&name.0)?,
    })
}

/// All keyspaces, in the order of their names.
///
/// # Errors
///
/// When one has operands of another operator than the store was opened with.
pub(crate) fn open_all(db: &Db) -> Result<Vec<Keyspace>, Failure> {
    let names = db.keyspaces();
    let opened = names.iter().map(|name| Ok(db.keyspace(name)?));
    opened.collect()
}

/// How large a keyspace is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Size {
    name: String,
    /// By estimate.
    keys: u64,
    segments: u64,
    /// Bytes of its segments.
    bytes: u64,
}

impl Size {
    fn of(keyspace: &Keyspace) -> Size {
        let stats = keyspace.stats();
        Size {
            name: keyspace.name().to_owned(),
            keys: keyspace.approximate_len(),
            segments: stats.segments().count() as u64,
            bytes: stats.segments().map(|segment| segment.file_bytes).sum(),
        }
    }

    /// Those of all keyspaces.
    ///
    /// # Errors
    ///
    /// As for [`open_all`].
    pub(crate) fn all(db: &Db) -> Result<Vec<Size>, Failure> {
        Ok(open_all(db)?.iter().map(Size::of).collect())
    }

    pub(crate) fn object(&self) -> Object {
        Object::new()
            .field("keyspace", &*self.name)
            .field("approximate_len", self.keys)
            .field("segments", self.segments)
            .field("file_bytes", self.bytes)
    }
}

pub(crate) fn table(sizes: &[Size]) -> Table {
    let cells = |size: &Size| {
        vec![
            Escaped(size.name.as_bytes()).to_string(),
            thousands(size.keys),
            thousands(size.segments),
            thousands(size.bytes),
        ]
    };
    Table {
        groups: vec![("", 4)],
        heads: vec!["keyspace", "about keys", "segments", "bytes"],
        rows: sizes.iter().map(cells).collect(),
    }
}

pub(crate) fn list(args: &KeyspacesArgs) -> Result<Exit, Failure> {
    let db = store::open_to_list(&args.store)?;
    let sizes = Size::all(&db)?;
    let mut output = Output::stdout();
    if args.json {
        for size in &sizes {
            size.object().write(&mut output)?;
        }
    } else {
        // The line of groups is empty.
        write!(output, "{}", table(&sizes).whole(1).trim_start())?;
    }
    output.finish()?;
    db.close()?;
    Ok(Exit::Done)
}

pub(crate) fn drop_one(args: &DropKeyspaceArgs) -> Result<Exit, Failure> {
    let name = Name::argument("NAME", &args.name, &args.unescape)?;
    let db = store::open_to_write(&args.store, Create::Never)?;
    if check_there(&db, &name).is_err() {
        db.close()?;
        return Err(Failure::new(Exit::NotThere, not_there(&name)));
    }
    let size = Size::of(&open(&db, &name, None)?);
    db.drop_keyspace(&name.0)?;
    db.close()?;
    let mut output = Output::stdout();
    if args.json {
        size.object().write(&mut output)?;
    } else {
        writeln!(
            output,
            "dropped {}: about {} keys, {} segments, {} bytes",
            quoted(size.name.as_bytes()),
            size.keys,
            size.segments,
            size.bytes
        )?;
    }
    output.finish()?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use criba::sim::Memory;

    #[test]
    fn names_are_those_that_the_store_takes() {
        let storage = Arc::new(Memory::new());
        let db = Db::builder("memory").storage(storage).open().unwrap();
        for len in [0, 1, NAME_BYTES_MAX, NAME_BYTES_MAX + 1] {
            let text = "n".repeat(len);
            let ours = Name::new(text.clone().into_bytes());
            assert_eq!(ours.is_ok(), db.keyspace(&text).is_ok(), "{len}");
        }
        assert!(Name::new(db.name().into()).unwrap().is_default());
        let message = Name::new(b"\x1b\xff".to_vec()).unwrap_err();
        assert!(message.contains("\"\\x1b\\xff\" is not UTF-8"), "{message}");
    }
}
