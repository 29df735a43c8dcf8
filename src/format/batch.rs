//! The operations of a batch, as they stand in the payload of a journal record.
//! See `docs/format.md`, "Batch".

use super::cursor::{Cursor, Malformed};
use super::varint;
use crate::key::{KeyspaceId, Kind, MAX_KEY_BYTES, MAX_VALUE_BYTES};

/// Set in the kind of an operation when the number of its keyspace follows. Without it, the keyspace
/// is the default one.
const NAMES_KEYSPACE: u8 = 0x80;

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) kind: Kind,
    pub(crate) key: &'a [u8],
    /// Empty in a delete.
    pub(crate) value: &'a [u8],
}

impl<'a> Operation<'a> {
    pub(crate) fn put(keyspace: KeyspaceId, key: &'a [u8], value: &'a [u8]) -> Operation<'a> {
        Operation {
            keyspace,
            kind: Kind::Value,
            key,
            value,
        }
    }

    pub(crate) fn delete(keyspace: KeyspaceId, key: &'a [u8]) -> Operation<'a> {
        Operation {
            keyspace,
            kind: Kind::Tombstone,
            key,
            value: &[],
        }
    }

    pub(crate) fn merge(keyspace: KeyspaceId, key: &'a [u8], operand: &'a [u8]) -> Operation<'a> {
        Operation {
            keyspace,
            kind: Kind::Operand,
            key,
            value: operand,
        }
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        if self.keyspace == KeyspaceId::DEFAULT {
            out.push(self.kind.to_u8());
        } else {
            out.push(self.kind.to_u8() | NAMES_KEYSPACE);
            varint::encode(self.keyspace.0.into(), out);
        }
        varint::encode(self.key.len() as u64, out);
        out.extend_from_slice(self.key);
        if self.kind.has_value() {
            varint::encode(self.value.len() as u64, out);
            out.extend_from_slice(self.value);
        }
    }

    pub(crate) fn encoded_bytes(&self) -> usize {
        let prefixed = |bytes: &[u8]| varint::bytes(bytes.len() as u64).saturating_add(bytes.len());
        let value_bytes = match self.kind {
            Kind::Value | Kind::Operand => prefixed(self.value),
            Kind::Tombstone => 0,
        };
        prefixed(self.key)
            .saturating_add(value_bytes)
            .saturating_add(1)
            .saturating_add(match self.keyspace {
                KeyspaceId::DEFAULT => 0,
                KeyspaceId(id) => varint::bytes(id.into()),
            })
    }
}

/// What a record carries: operations as they are written, or the only one there is, so that it need
/// not be written first and read then.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload<'a> {
    Encoded { bytes: &'a [u8], count: u32 },
    One(Operation<'a>),
}

/// An operation that is longer is better encoded once, where it need not be copied again.
pub(crate) const ONE_BYTES_MAX: usize = 16 << 10;

impl<'a> Payload<'a> {
    /// The number of operations.
    pub(crate) fn count(&self) -> u32 {
        match self {
            Payload::Encoded { count, .. } => *count,
            Payload::One(_) => 1,
        }
    }

    /// The bytes that it takes when it is encoded.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Payload::Encoded { bytes, .. } => bytes.len() as u64,
            Payload::One(one) => one.encoded_bytes() as u64,
        }
    }

    pub(crate) fn operations(&self) -> Operations<'a> {
        match *self {
            Payload::Encoded { bytes, .. } => Operations::of(bytes),
            Payload::One(one) => Operations {
                one: Some(one),
                cursor: Cursor::new(&[]),
            },
        }
    }
}

/// The operations of a payload in order. From the first that is malformed on there are only errors.
#[derive(Clone, Debug)]
pub(crate) struct Operations<'a> {
    one: Option<Operation<'a>>,
    cursor: Cursor<'a>,
}

impl<'a> Operations<'a> {
    pub(crate) fn of(payload: &'a [u8]) -> Operations<'a> {
        Operations {
            one: None,
            cursor: Cursor::new(payload),
        }
    }

    /// Whether nothing follows.
    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.one.is_none() && self.cursor.is_at_end()
    }

    /// The keyspace of the next operation; `None` at the end, and where it is malformed.
    #[inline]
    pub(crate) fn keyspace(&self) -> Option<KeyspaceId> {
        if let Some(one) = &self.one {
            return Some(one.keyspace);
        }
        // A cursor that fails makes a sentence of it, which would cost every write.
        if self.cursor.is_at_end() {
            return None;
        }
        let mut cursor = self.cursor.clone();
        match cursor.u8("operation.kind").ok()? & NAMES_KEYSPACE {
            0 => Some(KeyspaceId::DEFAULT),
            _ => other_keyspace(&mut cursor).ok(),
        }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Operation<'a>>, Malformed> {
        if self.cursor.is_at_end() {
            return Ok(self.one.take());
        }
        let mut cursor = self.cursor.clone();
        let tag = cursor.u8("operation.kind")?;
        let kind = Kind::from_u8(tag & !NAMES_KEYSPACE)
            .ok_or_else(|| cursor.malformed("operation.kind: unknown"))?;
        let keyspace = match tag & NAMES_KEYSPACE {
            0 => KeyspaceId::DEFAULT,
            _ => other_keyspace(&mut cursor)?,
        };
        let key = bounded(&mut cursor, "operation.key", MAX_KEY_BYTES)?;
        let value = match kind {
            Kind::Value | Kind::Operand => {
                bounded(&mut cursor, "operation.value", MAX_VALUE_BYTES)?
            }
            Kind::Tombstone => &[],
        };
        self.cursor = cursor;
        Ok(Some(Operation {
            keyspace,
            kind,
            key,
            value,
        }))
    }
}

/// The number of operations in a payload.
pub(crate) fn count(payload: &[u8]) -> Result<u32, Malformed> {
    let mut operations = Operations::of(payload);
    let mut count: u32 = 0;
    while operations.next()?.is_some() {
        count = count.saturating_add(1);
    }
    Ok(count)
}

/// The number of a keyspace that is not the default one.
#[cold]
fn other_keyspace(cursor: &mut Cursor<'_>) -> Result<KeyspaceId, Malformed> {
    let id = cursor.varint("operation.keyspace")?;
    match u32::try_from(id) {
        Ok(id) if id > 0 => Ok(KeyspaceId(id)),
        _ => Err(cursor.malformed("operation.keyspace: no keyspace has this number")),
    }
}

fn bounded<'a>(cursor: &mut Cursor<'a>, field: &str, max: usize) -> Result<&'a [u8], Malformed> {
    let bytes = cursor.prefixed(field)?;
    if bytes.len() > max {
        let len = bytes.len();
        return Err(cursor.malformed(format!("{field}: {len} bytes, at most {max} are possible")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let operations_of = [
            Operation::put(KeyspaceId::DEFAULT, b"key", b"value"),
            Operation::delete(KeyspaceId::DEFAULT, b""),
            Operation::put(KeyspaceId(1), b"", b""),
            Operation::delete(KeyspaceId(u32::MAX), b"k"),
            Operation::merge(KeyspaceId(3), b"key", b"more"),
        ];
        let mut payload = Vec::new();
        for operation in &operations_of {
            let before = payload.len();
            operation.encode(&mut payload);
            assert_eq!(payload.len() - before, operation.encoded_bytes());
        }
        let mut operations = Operations::of(&payload);
        let mut seen = Vec::new();
        while let Some(operation) = operations.next().unwrap() {
            seen.push(operation);
        }
        assert_eq!((seen, count(&payload)), (operations_of.to_vec(), Ok(5)));
        // The default keyspace is not named, and there are no more than 2^32.
        for malformed in [
            &[0x80, 0, 0][..],
            b"\x80\xff\xff\xff\xff\x7f\0",
            b"\x83\x01\0",
        ] {
            assert!(count(malformed).is_err());
        }
        for len in [1, 3, payload.len() - 1] {
            assert!(count(&payload[..len]).is_err());
        }
    }
}
