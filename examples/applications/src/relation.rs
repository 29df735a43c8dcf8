//! Relations of two columns, key and value: in memory, in a store, in a message.

use std::collections::BTreeMap;

use criba::Db;
use tempfile::TempDir;

use crate::Result;
use crate::wire::{Reader, malformed, put_bytes};

/// Rows by their key, which is unique.
pub type Relation = BTreeMap<Vec<u8>, Vec<u8>>;

/// Rows of two relations with one key: the key, the left value, the right value.
pub type Joined = Vec<(Vec<u8>, Vec<u8>, Vec<u8>)>;

/// The join of two relations that lie in memory, in the order of keys.
pub fn join(left: &Relation, right: &Relation) -> Joined {
    let pair = |(key, theirs): (&Vec<u8>, &Vec<u8>)| {
        let ours = left.get(key)?;
        Some((key.clone(), ours.clone(), theirs.clone()))
    };
    right.iter().filter_map(pair).collect()
}

/// Bytes of these rows in a message.
pub fn bytes_of_rows<'a>(rows: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>) -> u64 {
    let mut message = Vec::new();
    let bytes = |(key, value): (&Vec<u8>, &Vec<u8>)| {
        message.clear();
        put_row(&mut message, key, value);
        message.len() as u64
    };
    rows.map(bytes).sum()
}

/// The rows in a store of their own, in a directory that is only for the run.
///
/// # Errors
///
/// If the store refuses.
pub fn store_of(relation: &Relation) -> Result<(TempDir, Db)> {
    let folder = tempfile::tempdir()?;
    let db = Db::open(folder.path())?;
    for (key, value) in relation {
        db.put(key, value)?;
    }
    db.flush()?;
    Ok((folder, db))
}

/// The number with which a value begins; 0 where there is none.
pub fn number_of(value: &[u8]) -> u64 {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: u64, digit| {
        let number = number.saturating_mul(10);
        number.saturating_add(u64::from(digit - b'0'))
    })
}

/// Appends a row to a message.
pub fn put_row(message: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    put_bytes(message, key);
    put_bytes(message, value);
}

/// The rows of a message.
///
/// # Errors
///
/// If the bytes are no rows.
pub fn rows_of(message: &[u8]) -> Result<Vec<(&[u8], &[u8])>> {
    let (mut reader, mut rows) = (Reader(message), Vec::new());
    while !reader.0.is_empty() {
        let key = reader.bytes().map_err(malformed)?;
        rows.push((key, reader.bytes().map_err(malformed)?));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_from_a_message() {
        let mut message = Vec::new();
        put_row(&mut message, b"a", b"12 b");
        put_row(&mut message, b"c", b"");
        let rows: [(&[u8], &[u8]); 2] = [(b"a", b"12 b"), (b"c", b"")];
        assert_eq!(rows_of(&message).unwrap(), rows);
        message.pop();
        assert!(rows_of(&message).is_err());
    }

    #[test]
    fn numbers_are_read_as_far_as_they_go() {
        let numbers = ["12 b", "x", "", "99999999999999999999999"].map(|v| number_of(v.as_bytes()));
        assert_eq!(numbers, [12, 0, 0, u64::MAX]);
    }
}
