//! `put`, `get` and `delete`: one key.

use std::ffi::OsStr;
use std::io::{self, Read as _};

use criba::{Create, MAX_VALUE_BYTES};

use crate::args::{DeleteArgs, GetArgs, PutArgs};
use crate::escape::{Escaped, unescape};
use crate::exit::{Exit, Failure};
use crate::json::Object;
use crate::keyspaces::{self, Name};
use crate::output::Output;
use crate::store;

/// The bytes of an argument: as they are, or with their escapes undone.
///
/// # Errors
///
/// When an escape is none.
pub(crate) fn argument(name: &str, text: &OsStr, unescaped: bool) -> Result<Vec<u8>, Failure> {
    let bytes = text.as_encoded_bytes();
    if !unescaped {
        return Ok(bytes.to_vec());
    }
    unescape(bytes).map_err(|what| Failure::usage(what).at(name))
}

pub(crate) fn put(args: &PutArgs) -> Result<Exit, Failure> {
    let name = Name::given(&args.place, &args.unescape)?;
    let key = argument("KEY", &args.key, args.unescape.unescape)?;
    let value = if args.value == "-" {
        value_from_stdin()?
    } else {
        argument("VALUE", &args.value, args.unescape.unescape)?
    };
    store::check_limits(&key, &value).map_err(Failure::usage)?;
    let db = store::open_to_write(&args.store, Create::IfMissing)?;
    keyspaces::open(&db, &name, None)?.put_with(key, value, args.durability)?;
    db.close()?;
    Ok(Exit::Done)
}

fn value_from_stdin() -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    // One byte more than a value may have, so that the store can refuse what is too long.
    let limit = MAX_VALUE_BYTES as u64 + 1;
    io::stdin()
        .lock()
        .take(limit)
        .read_to_end(&mut value)
        .map_err(|error| Failure::io("cannot read standard input", &error))?;
    Ok(value)
}

pub(crate) fn delete(args: &DeleteArgs) -> Result<Exit, Failure> {
    let name = Name::given(&args.place, &args.unescape)?;
    let key = argument("KEY", &args.key, args.unescape.unescape)?;
    let db = store::open_to_write(&args.store, Create::Never)?;
    keyspaces::check_there(&db, &name)?;
    keyspaces::open(&db, &name, None)?.delete_with(key, args.durability)?;
    db.close()?;
    Ok(Exit::Done)
}

pub(crate) fn get(args: &GetArgs) -> Result<Exit, Failure> {
    let name = Name::given(&args.place, &args.unescape)?;
    let key = argument("KEY", &args.key, args.unescape.unescape)?;
    let (db, keyspace) = store::combine_in(&args.store, &name, args.operator.as_ref())?;
    let Some(value) = keyspace.get(&key)? else {
        return Err(Failure::new(
            Exit::NotThere,
            format!("the key \"{}\" is not there", Escaped(&key)),
        ));
    };
    let mut output = Output::stdout();
    if args.json {
        Object::new()
            .bytes("key", &key)
            .bytes("value", &value)
            .write(&mut output)?;
    } else if args.escape || (output.is_terminal() && !args.raw) {
        writeln!(output, "{}", Escaped(&value))?;
    } else {
        output.bytes(&value)?;
    }
    output.finish()?;
    db.close()?;
    Ok(Exit::Done)
}
