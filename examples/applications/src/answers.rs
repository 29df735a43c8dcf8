//! Answers of one site to the other: rows of its store in pieces, or their number and sum.

use std::io::{Read, Write};

use criba::Db;

use crate::relation::{Joined, number_of, put_row, rows_of};
use crate::wire::{Link, Reader, malformed, put_number};
use crate::{Error, Result};

// Kinds of frames. They are far from those of questions, which a program chooses.
const ROWS: u8 = 200;
const NUMBERS: u8 = 201;
const END: u8 = 202;

/// Rows are sent in pieces of about this size.
const PIECE_BYTES: usize = 64 << 10;

/// Sends the rows of a store that pass.
///
/// # Errors
///
/// If the store or the stream fails.
pub fn send_rows<S: Read + Write>(
    link: &mut Link<S>,
    db: &Db,
    passes: impl Fn(&[u8], &[u8]) -> bool,
) -> Result<()> {
    let (mut piece, mut rows) = (Vec::new(), db.iter());
    while let Some(row) = rows.next_ref() {
        let (key, value) = row?;
        if passes(key, value) {
            put_row(&mut piece, key, value);
        }
        if piece.len() >= PIECE_BYTES {
            link.send(ROWS, &piece)?;
            piece.clear();
        }
    }
    link.send(ROWS, &piece)?;
    link.send(END, &[])
}

/// Sends the rows of the keys that another site has sent with [`put_bytes`](crate::wire::put_bytes).
///
/// # Errors
///
/// If the store or the stream fails, or if the bytes are no keys.
pub fn send_rows_of<S: Read + Write>(link: &mut Link<S>, db: &Db, keys: &[u8]) -> Result<()> {
    let (mut keys, mut piece) = (Reader(keys), Vec::new());
    while !keys.0.is_empty() {
        let key = keys.bytes().map_err(malformed)?;
        if let Some(value) = db.get(key)? {
            put_row(&mut piece, key, &value);
        }
        if piece.len() >= PIECE_BYTES {
            link.send(ROWS, &piece)?;
            piece.clear();
        }
    }
    link.send(ROWS, &piece)?;
    link.send(END, &[])
}

/// Sends how many rows of a store pass, and the sum of the numbers with which they begin.
///
/// # Errors
///
/// If the store or the stream fails.
pub fn send_sum<S: Read + Write>(
    link: &mut Link<S>,
    db: &Db,
    passes: impl Fn(&[u8], &[u8]) -> bool,
) -> Result<()> {
    let (mut count, mut sum, mut rows) = (0, 0_u64, db.iter());
    while let Some(row) = rows.next_ref() {
        let (key, value) = row?;
        if passes(key, value) {
            count += 1;
            sum = sum.saturating_add(number_of(value));
        }
    }
    send_numbers(link, count, sum)
}

/// Sends two numbers.
///
/// # Errors
///
/// If the stream fails.
pub fn send_numbers<S: Read + Write>(link: &mut Link<S>, first: u64, second: u64) -> Result<()> {
    let mut message = Vec::new();
    put_number(&mut message, first);
    put_number(&mut message, second);
    link.send(NUMBERS, &message)?;
    link.send(END, &[])
}

/// The answer to a question, and the bytes of both.
#[derive(Debug, Default)]
pub struct Answer {
    /// The rows that came and have a partner.
    pub joined: Joined,
    /// All rows that came.
    pub rows: u64,
    /// The two numbers, if they were asked for.
    pub numbers: Option<(u64, u64)>,
    /// Bytes of the question.
    pub asked_bytes: u64,
    /// Bytes of the answer.
    pub answered_bytes: u64,
}

impl Answer {
    /// Bytes both ways.
    pub fn bytes(&self) -> u64 {
        self.asked_bytes + self.answered_bytes
    }

    /// Rows that came and are not in the result.
    pub fn in_vain(&self) -> u64 {
        self.rows - self.joined.len() as u64
    }
}

/// Sends a question, receives the answer to its end, and joins each row with the one that `partner` finds
/// for its key and value, if there is one.
///
/// # Errors
///
/// If the stream fails, if what comes is no answer, or if `partner` fails.
pub fn ask<S: Read + Write>(
    link: &mut Link<S>,
    (kind, question): (u8, &[u8]),
    partner: impl Fn(&[u8], &[u8]) -> Result<Option<Vec<u8>>>,
) -> Result<Answer> {
    let before = link.bytes();
    link.send(kind, question)?;
    let mut answer = Answer::default();
    loop {
        let (kind, message) = link.receive()?;
        match kind {
            ROWS => {
                for (key, value) in rows_of(&message)? {
                    answer.rows += 1;
                    let partner = partner(key, value)?;
                    let joined = partner.map(|ours| (key.to_vec(), ours, value.to_vec()));
                    answer.joined.extend(joined);
                }
            }
            NUMBERS => {
                let mut reader = Reader(&message);
                let first = reader.number().map_err(malformed)?;
                answer.numbers = Some((first, reader.number().map_err(malformed)?));
            }
            END => break,
            other => {
                return Err(Error::Other(
                    format!("the answer has a part {other}").into(),
                ));
            }
        }
    }
    let (sent, received) = link.bytes();
    answer.asked_bytes = sent - before.0;
    answer.answered_bytes = received - before.1;
    Ok(answer)
}

/// The bytes of a line, both ways. The other site has counted them too: those that it had sent and received
/// before it sent this answer.
///
/// # Errors
///
/// If it has counted others.
pub fn check_bytes<S: Read + Write>(link: &Link<S>, counted: &Answer) -> Result<u64> {
    let (sent, received) = link.bytes();
    let expected = (sent, received - counted.answered_bytes);
    if counted.numbers != Some((expected.1, expected.0)) {
        return Err(Error::Wrong(format!(
            "A has sent and received {expected:?} bytes; B has sent and received {:?}",
            counted.numbers
        )));
    }
    Ok(sent + received)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::relation::{Relation, store_of};
    use crate::wire::put_bytes;

    /// Reads what another link has written, and drops what is written to it.
    struct Answered(io::Cursor<Vec<u8>>);

    impl Read for Answered {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.read(into)
        }
    }

    impl Write for Answered {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            Ok(from.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Sends an answer to a site that has a partner for each key that begins with an even byte.
    fn answered(send: impl Fn(&mut Link<io::Cursor<Vec<u8>>>) -> Result<()>) -> Answer {
        let mut link = Link::new(io::Cursor::new(Vec::new()));
        send(&mut link).unwrap();
        let (sent, _) = link.bytes();
        let bytes = Answered(io::Cursor::new(link.into_inner().into_inner()));
        let partner =
            |key: &[u8], _: &[u8]| Ok((key[0].is_multiple_of(2)).then(|| b"ours".to_vec()));
        let answer = ask(&mut Link::new(bytes), (1, b"all"), partner).unwrap();
        assert_eq!((answer.asked_bytes, answer.answered_bytes), (8, sent));
        answer
    }

    #[test]
    fn answers_arrive_whole() {
        let row = |number: u32| (number.to_le_bytes().to_vec(), vec![b'1'; 1_000]);
        let relation: Relation = (0..500).map(row).collect();
        let (_folder, db) = store_of(&relation).unwrap();
        let answer = answered(|link| send_rows(link, &db, |key, _| key[0] != 7));
        // 7 and 263 are left out; both are odd.
        assert_eq!((answer.rows, answer.in_vain()), (498, 248));
        let mut wanted = Vec::new();
        for number in [8_u32, 9, 900] {
            put_bytes(&mut wanted, &number.to_le_bytes());
        }
        let answer = answered(|link| send_rows_of(link, &db, &wanted));
        assert_eq!((answer.rows, answer.joined[0].0[0]), (2, 8));
        let answer = answered(|link| send_numbers(link, 3, u64::MAX));
        assert_eq!(answer.numbers, Some((3, u64::MAX)));
        let answer = answered(|link| send_sum(link, &db, |key, _| key[0] == 7));
        assert_eq!((answer.rows, answer.numbers), (0, Some((2, u64::MAX))));
    }
}
