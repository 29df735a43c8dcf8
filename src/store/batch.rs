//! Operations that are collected to be written together.

use crate::error::{Error, Result};
use crate::format::batch::{Operation, Payload};
use crate::key::{KeyspaceId, MAX_KEY_BYTES, MAX_VALUE_BYTES};

/// Most bytes of one batch, keys and values and a few bytes for each operation.
pub(crate) const MAX_BATCH_BYTES: usize = (u32::MAX - (1 << 20)) as usize;

/// Most operations of one batch. An entry takes up to 11 bytes more in a memtable than in a batch,
/// and a memtable that is nearly full must have names left for all of them.
const MAX_BATCH_OPERATIONS: u32 = 1 << 28;

/// Operations in the form in which a journal has them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Operations {
    payload: Vec<u8>,
    count: u32,
    invalid: Option<Error>,
}

impl Operations {
    pub(crate) fn put(&mut self, keyspace: KeyspaceId, key: &[u8], value: &[u8]) {
        if self.accepts(key, value) {
            Operation::put(keyspace, key, value).encode(&mut self.payload);
            self.count += 1;
        }
    }

    pub(crate) fn merge(&mut self, keyspace: KeyspaceId, key: &[u8], operand: &[u8]) {
        if self.accepts(key, operand) {
            Operation::merge(keyspace, key, operand).encode(&mut self.payload);
            self.count += 1;
        }
    }

    pub(crate) fn delete(&mut self, keyspace: KeyspaceId, key: &[u8]) {
        if self.accepts(key, &[]) {
            Operation::delete(keyspace, key).encode(&mut self.payload);
            self.count += 1;
        }
    }

    /// From now on the batch cannot be committed.
    pub(crate) fn refuse(&mut self, error: Error) {
        self.invalid.get_or_insert(error);
    }

    fn accepts(&mut self, key: &[u8], value: &[u8]) -> bool {
        if self.invalid.is_none() {
            let after = self.payload.len() + key.len() + value.len() + 24;
            let is_full = after > MAX_BATCH_BYTES || self.count >= MAX_BATCH_OPERATIONS;
            self.invalid = check_limits(key, value).err().or_else(|| {
                is_full.then(|| {
                    Error::Invalid(format!(
                        "a batch takes at most {MAX_BATCH_BYTES} bytes and {MAX_BATCH_OPERATIONS} \
                         operations; commit it in parts"
                    ))
                })
            });
        }
        self.invalid.is_none()
    }

    /// Forgets all of them. The memory stays for the next.
    pub(crate) fn clear(&mut self) {
        self.payload.clear();
        self.count = 0;
        self.invalid = None;
    }

    /// Operations so far.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// All of them.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if one was beyond a limit.
    pub(crate) fn payload(&self) -> Result<Payload<'_>> {
        if let Some(error) = &self.invalid {
            return Err(error.clone());
        }
        Ok(Payload::Encoded {
            bytes: &self.payload,
            count: self.count,
        })
    }
}

pub(crate) fn check_limits(key: &[u8], value: &[u8]) -> Result<()> {
    let too_long = |what, len, max| {
        Err(Error::Invalid(format!(
            "a {what} of {len} bytes; at most {max} are possible"
        )))
    };
    if key.len() > MAX_KEY_BYTES {
        return too_long("key", key.len(), MAX_KEY_BYTES);
    }
    if value.len() > MAX_VALUE_BYTES {
        return too_long("value", value.len(), MAX_VALUE_BYTES);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_no_more_operations_than_a_memtable_can_name() {
        let mut batch = Operations::default();
        batch.put(KeyspaceId::DEFAULT, b"first", b"");
        // As if there were many more.
        batch.count = MAX_BATCH_OPERATIONS - 1;
        batch.put(KeyspaceId::DEFAULT, b"last", b"");
        assert_eq!(batch.count(), MAX_BATCH_OPERATIONS);
        assert!(batch.payload().is_ok());
        batch.delete(KeyspaceId::DEFAULT, b"too many");
        assert!(matches!(batch.payload(), Err(Error::Invalid(_))));
    }
}
