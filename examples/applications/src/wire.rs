//! Messages between two programs: frames over a stream, with a bound on their length, counted.
//!
//! A frame is a byte that says its kind, the length of its content (32 bits, least byte first), and the
//! content.

use std::io::{self, Read, Write};

pub use common::codec::{Malformed, Reader, put_bytes, put_number};

use crate::{Error, Result};

/// Most bytes of the content of a frame.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// Bytes of a frame before its content.
pub const FRAME_HEAD_BYTES: usize = 5;

/// One end of a stream of frames.
#[derive(Debug)]
pub struct Link<S> {
    stream: S,
    sent: u64,
    received: u64,
}

impl<S: Read + Write> Link<S> {
    /// Counts from zero.
    pub fn new(stream: S) -> Link<S> {
        Link {
            stream,
            sent: 0,
            received: 0,
        }
    }

    /// The stream, when all frames have gone.
    pub fn into_inner(self) -> S {
        self.stream
    }

    /// Bytes that were sent and bytes that were received, with those of the heads.
    pub fn bytes(&self) -> (u64, u64) {
        (self.sent, self.received)
    }

    /// Sends a frame.
    ///
    /// # Errors
    ///
    /// If the content is too long, or if the stream fails.
    pub fn send(&mut self, kind: u8, content: &[u8]) -> Result<()> {
        if content.len() > FRAME_BYTES_MAX {
            return Err(Error::Usage(format!(
                "a message of {} bytes is too long: choose smaller input",
                content.len()
            )));
        }
        // One write for both: a small frame is one packet.
        let mut frame = Vec::with_capacity(FRAME_HEAD_BYTES + content.len());
        frame.push(kind);
        frame.extend((content.len() as u32).to_le_bytes());
        frame.extend(content);
        self.stream.write_all(&frame)?;
        self.sent += frame.len() as u64;
        Ok(())
    }

    /// Waits for the next frame: its kind and its content.
    ///
    /// # Errors
    ///
    /// If the stream ends or fails, or if the frame is longer than allowed.
    pub fn receive(&mut self) -> Result<(u8, Vec<u8>)> {
        let mut head = [0; FRAME_HEAD_BYTES];
        self.stream.read_exact(&mut head).map_err(ended)?;
        let [kind, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(broken(format!("a frame claims {length} bytes")));
        }
        // Memory grows with the bytes that come, and not with the length that is claimed.
        let mut content = Vec::new();
        let mut rest = Read::by_ref(&mut self.stream).take(length as u64);
        let content_bytes = rest.read_to_end(&mut content)?;
        if content_bytes < length {
            return Err(ended(io::ErrorKind::UnexpectedEof.into()).into());
        }
        self.received += (FRAME_HEAD_BYTES + length) as u64;
        Ok((kind, content))
    }

    /// Waits for the next frame, which must be of this kind.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive), and if the frame is of another kind.
    pub fn expect(&mut self, kind: u8) -> Result<Vec<u8>> {
        match self.receive()? {
            (found, content) if found == kind => Ok(content),
            (found, _) => Err(broken(format!(
                "a frame of kind {found} came, and not one of kind {kind}"
            ))),
        }
    }
}

/// The next number of eight bytes.
///
/// # Errors
///
/// If there are fewer.
pub fn word(reader: &mut Reader<'_>) -> Result<u64> {
    Ok(u64::from_le_bytes(reader.array().map_err(malformed)?))
}

/// Appends flags, eight to a byte.
pub fn put_flags(message: &mut Vec<u8>, flags: &[bool]) {
    message.extend(flags.chunks(8).map(|flags| {
        let bits = flags.iter().enumerate();
        bits.fold(0, |byte, (at, &flag)| byte | u8::from(flag) << at)
    }));
}

/// The next flags, of which the reader knows the number.
///
/// # Errors
///
/// If there are fewer.
pub fn flags(reader: &mut Reader<'_>, count: usize) -> Result<Vec<bool>> {
    let cut = reader.0.split_at_checked(count.div_ceil(8));
    let (bytes, rest) = cut.ok_or_else(|| malformed(Malformed))?;
    reader.0 = rest;
    let flag = |at: usize| bytes[at / 8] >> (at % 8) & 1 == 1;
    Ok((0..count).map(flag).collect())
}

/// For `map_err`: the other end sent bytes that make no sense.
pub fn malformed(_: Malformed) -> Error {
    broken("the content of a message makes no sense".into())
}

/// Names the end of the stream, where there is nothing else to name.
fn ended(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::new(error.kind(), "the other end has closed the line")
        }
        _ => error,
    }
}

fn broken(what: String) -> Error {
    io::Error::new(io::ErrorKind::InvalidData, what).into()
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// The frame that a link receives from these bytes.
    fn received(bytes: &[u8]) -> Result<(u8, Vec<u8>)> {
        Link::new(Cursor::new(bytes.to_vec())).receive()
    }

    #[test]
    fn frames_come_back_and_both_ends_count_alike() {
        let mut sender = Link::new(Cursor::new(Vec::new()));
        sender.send(7, b"hello").unwrap();
        sender.send(8, b"").unwrap();
        let bytes = sender.stream.get_ref().clone();
        let mut receiver = Link::new(Cursor::new(bytes));
        assert_eq!(receiver.receive().unwrap(), (7, b"hello".to_vec()));
        assert!(receiver.expect(8).unwrap().is_empty());
        assert_eq!((sender.sent, receiver.bytes()), (15, (0, 15)));
    }

    #[test]
    fn flags_come_back() {
        for count in [0, 1, 8, 13] {
            let sent: Vec<bool> = (0..count).map(|at| at % 3 == 0).collect();
            let mut message = Vec::new();
            put_flags(&mut message, &sent);
            message.push(7);
            let mut reader = Reader(&message);
            assert_eq!(flags(&mut reader, count).unwrap(), sent);
            assert_eq!(reader.0, [7]);
            assert!(flags(&mut reader, 9).is_err());
        }
    }

    #[test]
    fn broken_frames_are_errors() {
        let cut = received(&[1, 3, 0, 0, 0, b'a', b'b']).unwrap_err();
        assert!(cut.to_string().contains("closed the line"), "{cut}");
        let long = received(&[1, 0xff, 0xff, 0xff, 0xff]).unwrap_err();
        assert!(long.to_string().contains("4294967295"), "{long}");
        assert!(received(&[1, 0, 0]).is_err());
        let mut other = Link::new(Cursor::new(vec![2, 0, 0, 0, 0]));
        assert!(other.expect(1).is_err());
    }
}
