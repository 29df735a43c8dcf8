//! The operations of a batch, as they stand in the payload of a journal record.
//! See `docs/format.md`, "Batch".

use super::cursor::{Cursor, Malformed};
use super::varint;
use crate::key::{Kind, MAX_KEY_BYTES, MAX_VALUE_BYTES};

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) kind: Kind,
    pub(crate) key: &'a [u8],
    /// Empty in a delete.
    pub(crate) value: &'a [u8],
}

impl<'a> Operation<'a> {
    pub(crate) fn put(key: &'a [u8], value: &'a [u8]) -> Operation<'a> {
        let kind = Kind::Value;
        Operation { kind, key, value }
    }

    pub(crate) fn delete(key: &'a [u8]) -> Operation<'a> {
        let (kind, value) = (Kind::Tombstone, &[][..]);
        Operation { kind, key, value }
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind.to_u8());
        varint::encode(self.key.len() as u64, out);
        out.extend_from_slice(self.key);
        if self.kind == Kind::Value {
            varint::encode(self.value.len() as u64, out);
            out.extend_from_slice(self.value);
        }
    }

    pub(crate) fn encoded_bytes(&self) -> usize {
        let prefixed = |bytes: &[u8]| varint::bytes(bytes.len() as u64).saturating_add(bytes.len());
        let value_bytes = match self.kind {
            Kind::Value => prefixed(self.value),
            Kind::Tombstone => 0,
        };
        prefixed(self.key)
            .saturating_add(value_bytes)
            .saturating_add(1)
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

    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Operation<'a>>, Malformed> {
        if self.cursor.is_at_end() {
            return Ok(self.one.take());
        }
        let mut cursor = self.cursor.clone();
        let kind = Kind::from_u8(cursor.u8("operation.kind")?)
            .ok_or_else(|| cursor.malformed("operation.kind: unknown"))?;
        let key = bounded(&mut cursor, "operation.key", MAX_KEY_BYTES)?;
        let value = match kind {
            Kind::Value => bounded(&mut cursor, "operation.value", MAX_VALUE_BYTES)?,
            Kind::Tombstone => &[],
        };
        self.cursor = cursor;
        Ok(Some(Operation { kind, key, value }))
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
        let mut payload = Vec::new();
        Operation::put(b"key", b"value").encode(&mut payload);
        Operation::delete(b"").encode(&mut payload);
        Operation::put(b"", b"").encode(&mut payload);
        let mut operations = Operations::of(&payload);
        let mut seen = Vec::new();
        while let Some(Operation { kind, key, value }) = operations.next().unwrap() {
            seen.push((kind, key, value));
        }
        let expected: [(Kind, &[u8], &[u8]); 3] = [
            (Kind::Value, b"key", b"value"),
            (Kind::Tombstone, b"", b""),
            (Kind::Value, b"", b""),
        ];
        assert_eq!((seen, count(&payload)), (expected.to_vec(), Ok(3)));
        for len in [1, 3, payload.len() - 1] {
            assert!(count(&payload[..len]).is_err());
        }
    }
}
