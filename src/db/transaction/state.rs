//! What a transaction has read, and what it will write.

use std::cell::RefCell;
use std::sync::Arc;

use crate::error::Result;
use crate::slice::Slice;
use crate::store::{Reads, Writes, check_limits};
use crate::tree::{Tree, Write, WriteSet};

/// The anomalies that a transaction is safe from.
///
/// Under either level a transaction sees one moment, its own writes on top, and its writes become
/// visible together. The levels differ in the conflicts that [`Transaction::commit`](crate::Transaction::commit) looks for.
///
/// ```
/// use criba::Isolation;
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// db.put("alice on call", "yes")?;
/// db.put("bob on call", "yes")?;
/// // Each of the two leaves, as the other is on call.
/// let leave = |isolation| -> criba::Result<_> {
///     let mut alice = db.transaction_with(isolation);
///     let mut bob = db.transaction_with(isolation);
///     if alice.get("bob on call")?.is_some() {
///         alice.delete("alice on call")?;
///     }
///     if bob.get("alice on call")?.is_some() {
///         bob.delete("bob on call")?;
///     }
///     alice.commit()?;
///     Ok(bob.commit())
/// };
/// assert!(leave(Isolation::Serializable)?.is_err());
/// db.put("alice on call", "yes")?;
/// // Both have written something else, so a snapshot does not notice: "write skew".
/// assert!(leave(Isolation::Snapshot)?.is_ok());
/// assert!(db.is_empty()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// Transactions that write have the effect that they would have one after the other, in the
    /// order of their commits. A conflict is a write by others to a key or range that the
    /// transaction has read, also to a key that it found absent.
    #[default]
    Serializable,
    /// A conflict is a write by others to a key that the transaction writes. Costs no memory for
    /// what is read. A transaction that decides by keys that it does not write may act on what is
    /// true no longer when it commits.
    Snapshot,
}

/// What a transaction has read, and what it will write.
#[derive(Debug)]
pub(super) struct State {
    pub(super) isolation: Isolation,
    pub(super) reads: RefCell<Reads>,
    pub(super) writes: Writes,
}

impl State {
    pub(super) fn new(isolation: Isolation) -> State {
        State {
            isolation,
            reads: RefCell::default(),
            writes: Writes::new(),
        }
    }

    /// A key of a keyspace will have this value, or none.
    pub(super) fn set(&mut self, tree: &Arc<Tree>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        check_limits(key, value.unwrap_or_default())?;
        let writes = self.writes.entry(tree.id());
        let (_, writes) = writes.or_insert_with(|| (Arc::clone(tree), WriteSet::default()));
        writes.set(key, value);
        Ok(())
    }

    /// A key of a keyspace will have what its operator makes of this.
    pub(super) fn merge(&mut self, tree: &Arc<Tree>, key: &[u8], operand: &[u8]) -> Result<()> {
        check_limits(key, operand)?;
        let writes = self.writes.entry(tree.id());
        let (_, writes) = writes.or_insert_with(|| (Arc::clone(tree), WriteSet::default()));
        writes.merge(tree.operator(), key, operand)
    }
}

/// What a key comes to by a write of the transaction; `stored` is asked for what is below operands.
pub(super) fn outcome(
    tree: &Tree,
    key: &[u8],
    write: &Write,
    stored: impl FnOnce() -> Result<Option<Slice>>,
) -> Result<Option<Slice>> {
    match write {
        Write::Put(value) => Ok(Some(value.clone())),
        Write::Delete => Ok(None),
        Write::Merge(operands) => {
            let base = stored()?;
            let operands: Vec<&[u8]> = operands.iter().map(|operand| &**operand).collect();
            let merged = tree.operator().merge(key, base.as_deref(), &operands)?;
            Ok(Some(Slice::from(merged)))
        }
    }
}
