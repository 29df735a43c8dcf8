//! Files that two storages share.

use super::Storage;

/// Gives a file of one storage the same name in another, if both are on one file system. The name
/// is durable once the directory is synced.
pub(crate) fn link(from: &dyn Storage, name: &str, to: &dyn Storage) -> bool {
    let paths = from.local_path(name).zip(to.local_path(name));
    paths.is_some_and(|(from, to)| std::fs::hard_link(from, to).is_ok())
}
