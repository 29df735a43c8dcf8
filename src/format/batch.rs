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

pub(crate) fn encode_put(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.push(Kind::Value.to_u8());
    varint::encode(key.len() as u64, out);
    out.extend_from_slice(key);
    varint::encode(value.len() as u64, out);
    out.extend_from_slice(value);
}

pub(crate) fn encode_delete(key: &[u8], out: &mut Vec<u8>) {
    out.push(Kind::Tombstone.to_u8());
    varint::encode(key.len() as u64, out);
    out.extend_from_slice(key);
}

/// The operations of a payload in order, up to the first that is malformed.
#[derive(Clone, Debug)]
pub(crate) struct Operations<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Operations<'a> {
    pub(crate) fn of(payload: &'a [u8]) -> Operations<'a> {
        Operations {
            cursor: Cursor::new(payload),
        }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Operation<'a>>, Malformed> {
        let cursor = &mut self.cursor;
        if cursor.is_at_end() {
            return Ok(None);
        }
        let kind = Kind::from_u8(cursor.u8("operation.kind")?)
            .ok_or_else(|| cursor.malformed("operation.kind: unknown"))?;
        let key = bounded(cursor, "operation.key", MAX_KEY_BYTES)?;
        let value = match kind {
            Kind::Value => bounded(cursor, "operation.value", MAX_VALUE_BYTES)?,
            Kind::Tombstone => &[],
        };
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
        encode_put(b"key", b"value", &mut payload);
        encode_delete(b"", &mut payload);
        encode_put(b"", b"", &mut payload);
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
