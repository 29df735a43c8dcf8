//! How much room a store takes.

use std::io::ErrorKind;

use crate::error::{Error, Result};
use crate::store::Store;

/// Bytes of all files in the directory.
pub(crate) fn disk_bytes(store: &Store) -> Result<u64> {
    let storage = &store.services().storage;
    let listed = storage.list();
    let names = listed.map_err(|error| Error::io(storage.path_of(""), error))?;
    let mut bytes = 0;
    for name in names {
        match storage.open(&name) {
            Ok(file) => bytes += file.len(),
            // It went meanwhile, or is no file of a store.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
            }
            Err(error) => return Err(Error::io(storage.path_of(&name), error)),
        }
    }
    Ok(bytes)
}
