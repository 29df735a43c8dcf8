//! Opens a store and a keyspace of it for one command, and knows the limits of what goes in.

use std::path::Path;
use std::sync::Arc;

use criba::{Access, Builder, Compaction, Create, Db, Keyspace, MAX_KEY_BYTES, MAX_VALUE_BYTES};

use crate::choice::{Operator, with_shapes};
use crate::exit::Failure;
use crate::keyspaces::{self, Name};

/// For reading only: nothing is made or changed.
///
/// # Errors
///
/// When there is no store, it is damaged, or someone else holds it.
pub(crate) fn open_to_read(path: &Path) -> Result<Db, Failure> {
    open_with(Db::builder(path))
}

/// For reading only, where each of many keyspaces is asked for its statistics. They say as well
/// whether a merge is due in any keyspace, which takes time for each; without merges none is.
///
/// # Errors
///
/// As for [`open_to_read`].
pub(crate) fn open_to_list(path: &Path) -> Result<Db, Failure> {
    open_with(Db::builder(path).compaction(Compaction::Manual))
}

/// A keyspace for reading only. It must be there.
///
/// # Errors
///
/// As for [`open_to_read`], and when there is no such keyspace.
pub(crate) fn read_in(path: &Path, name: &Name) -> Result<(Db, Keyspace), Failure> {
    combine_in(path, name, None)
}

/// The same, with an operator for operands.
///
/// # Errors
///
/// As for [`read_in`], and when the operands are those of another operator.
pub(crate) fn combine_in(
    path: &Path,
    name: &Name,
    operator: Option<&Operator>,
) -> Result<(Db, Keyspace), Failure> {
    // Another keyspace may have another operator than the default one.
    let of_default = operator.filter(|_| name.is_default());
    let db = open_with(with_operator(Db::builder(path), of_default))?;
    keyspaces::check_there(&db, name)?;
    let keyspace = keyspaces::open(&db, name, operator)?;
    Ok((db, keyspace))
}

/// All keyspaces for reading only, with an operator for the operands of all.
///
/// # Errors
///
/// As for [`combine_in`].
pub(crate) fn combine_all(
    path: &Path,
    operator: Option<&Operator>,
) -> Result<(Db, Vec<Keyspace>), Failure> {
    let db = open_with(with_operator(Db::builder(path), operator))?;
    let all = keyspaces::open_all(&db)?;
    Ok((db, all))
}

fn open_with(builder: Builder) -> Result<Db, Failure> {
    Ok(with_shapes(builder, None)
        .create(Create::Never)
        .access(Access::ReadOnly)
        .open()?)
}

pub(crate) fn with_operator(builder: Builder, operator: Option<&Operator>) -> Builder {
    match operator {
        Some(Operator(operator)) => builder.operator(Arc::clone(operator)),
        None => builder,
    }
}

/// For reading and writing.
///
/// # Errors
///
/// As for [`open_to_read`], and when a new store cannot be made.
pub(crate) fn open_to_write(path: &Path, create: Create) -> Result<Db, Failure> {
    Ok(with_shapes(Db::builder(path), None).create(create).open()?)
}

/// Whether the store takes such an entry: asked before one is made or opened, and where a line can
/// still be named.
///
/// # Errors
///
/// A sentence with the limit.
pub(crate) fn check_limits(key: &[u8], value: &[u8]) -> Result<(), String> {
    for (name, len, most) in [
        ("key", key.len(), MAX_KEY_BYTES),
        ("value", value.len(), MAX_VALUE_BYTES),
    ] {
        if len > most {
            return Err(format!(
                "the {name} has {len} bytes; at most {most} are allowed"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named() {
        assert_eq!(check_limits(&[0; MAX_KEY_BYTES], b""), Ok(()));
        let message = check_limits(&[0; MAX_KEY_BYTES + 1], b"").unwrap_err();
        assert!(
            message.contains("the key has 65536 bytes; at most 65535"),
            "{message}"
        );
    }
}
