//! The operations of a batch, as they stand in the payload of a journal record.
//! See `docs/format.md`, "Batch".

use super::cursor::{Cursor, Malformed};
use super::varint;
use crate::key::{Kind, MAX_KEY_BYTES, MAX_VALUE_BYTES};

/// Where one operation's parts lie in the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) key: (usize, usize),
    pub(crate) value: (usize, usize),
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

/// Calls `each` with every operation in order; returns their number.
pub(crate) fn decode(payload: &[u8], each: &mut dyn FnMut(Operation)) -> Result<u32, Malformed> {
    let mut cursor = Cursor::new(payload);
    let mut count: u32 = 0;
    while !cursor.is_at_end() {
        let kind = Kind::from_u8(cursor.u8("operation.kind")?)
            .ok_or_else(|| cursor.malformed("operation.kind: unknown"))?;
        let key = bounded(&mut cursor, "operation.key", MAX_KEY_BYTES)?;
        let value = match kind {
            Kind::Value => bounded(&mut cursor, "operation.value", MAX_VALUE_BYTES)?,
            Kind::Tombstone => (cursor.position(), cursor.position()),
        };
        each(Operation { kind, key, value });
        count = count.saturating_add(1);
    }
    Ok(count)
}

fn bounded(cursor: &mut Cursor<'_>, field: &str, max: usize) -> Result<(usize, usize), Malformed> {
    let len = cursor.prefixed(field)?.len();
    if len > max {
        return Err(cursor.malformed(format!("{field}: {len} bytes, at most {max} are possible")));
    }
    Ok((cursor.position().saturating_sub(len), cursor.position()))
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
        let mut seen = Vec::new();
        let count = decode(&payload, &mut |operation| {
            let part = |(start, end): (usize, usize)| payload[start..end].to_vec();
            seen.push((operation.kind, part(operation.key), part(operation.value)));
        });
        assert_eq!(count, Ok(3));
        let expected = [
            (Kind::Value, b"key".to_vec(), b"value".to_vec()),
            (Kind::Tombstone, Vec::new(), Vec::new()),
            (Kind::Value, Vec::new(), Vec::new()),
        ];
        assert_eq!(seen, expected);
        for len in [1, 3, payload.len() - 1] {
            assert!(decode(&payload[..len], &mut |_| {}).is_err());
        }
    }
}
