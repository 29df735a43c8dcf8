//! Lines of a file of any kind, in bounded memory.
//!
//! A line ends with a line feed or with the input; one carriage return before the line feed
//! belongs to the end. Lines are bytes, not text.

use std::io::{self, BufRead};

/// What came next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Line {
    /// A line, now in the buffer, without its end.
    Whole,
    /// A line longer than the limit; it was skipped, and the buffer is empty.
    TooLong,
    /// The input has ended.
    End,
}

/// Reads line by line and counts.
pub(crate) struct Lines<R> {
    reader: R,
    limit: usize,
    number: u64,
    read_bytes: u64,
}

impl<R: BufRead> Lines<R> {
    /// Lines of at most `limit` bytes.
    pub(crate) fn new(reader: R, limit: usize) -> Lines<R> {
        Lines {
            reader,
            limit,
            number: 0,
            read_bytes: 0,
        }
    }

    /// The number of the line read last; the first is 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes consumed so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// The next line into `buffer`.
    ///
    /// # Errors
    ///
    /// When the input cannot be read.
    pub(crate) fn next(&mut self, buffer: &mut Vec<u8>) -> io::Result<Line> {
        buffer.clear();
        let mut too_long = false;
        let mut started = false;
        loop {
            let chunk = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                chunk => chunk?,
            };
            if chunk.is_empty() && !started {
                return Ok(Line::End);
            }
            started = true;
            let end = chunk.iter().position(|&byte| byte == b'\n');
            let text = &chunk[..end.unwrap_or(chunk.len())];
            // One more byte is kept: it may be the carriage return of the line's end.
            too_long |= buffer.len() + text.len() > self.limit + 1;
            if !too_long {
                buffer.extend_from_slice(text);
            }
            let consumed = text.len() + usize::from(end.is_some());
            let ended = end.is_some() || chunk.is_empty();
            self.reader.consume(consumed);
            self.read_bytes += consumed as u64;
            if ended {
                return Ok(self.finish(buffer, too_long));
            }
        }
    }

    fn finish(&mut self, buffer: &mut Vec<u8>, too_long: bool) -> Line {
        self.number += 1;
        if buffer.last() == Some(&b'\r') {
            buffer.pop();
        }
        if too_long || buffer.len() > self.limit {
            buffer.clear();
            return Line::TooLong;
        }
        Line::Whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn read(input: &[u8], capacity: usize, limit: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(BufReader::with_capacity(capacity, input), limit);
        let mut buffer = Vec::new();
        let mut all = Vec::new();
        loop {
            match lines.next(&mut buffer).unwrap() {
                Line::Whole => all.push(Some(buffer.clone())),
                Line::TooLong => all.push(None),
                Line::End => break,
            }
        }
        assert_eq!(lines.number(), all.len() as u64);
        assert_eq!(lines.read_bytes(), input.len() as u64);
        all
    }

    fn check(input: &[u8], expected: &[Option<&[u8]>]) {
        for capacity in 1..8 {
            let lines = read(input, capacity, 5);
            let lines: Vec<_> = lines.iter().map(Option::as_deref).collect();
            assert_eq!(lines, expected, "buffer of {capacity}");
        }
    }

    #[test]
    fn ends_are_tolerated() {
        check(b"", &[]);
        check(b"a", &[Some(b"a")]);
        check(b"a\n", &[Some(b"a")]);
        check(b"a\r\nb\r\n", &[Some(b"a"), Some(b"b")]);
        check(b"\n\r\n\n", &[Some(b""), Some(b""), Some(b"")]);
        check(b"a\rb\n\xff\0", &[Some(b"a\rb"), Some(b"\xff\0")]);
        check(b"a\r\r\n", &[Some(b"a\r")]);
    }

    #[test]
    fn long_lines_are_skipped_and_counted() {
        check(b"12345\n123456\n1\n", &[Some(b"12345"), None, Some(b"1")]);
        check(b"12345\r\n1234567890123", &[Some(b"12345"), None]);
        check(b"123456\r\n1", &[None, Some(b"1")]);
    }
}
