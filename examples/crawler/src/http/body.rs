//! Bodies: to their end, a limit or a deadline.

use std::time::Instant;

use super::head::Framing;
use super::{Body, Connection, Head, Trouble};

/// A body without its transfer coding, as far as it came.
pub(super) struct Raw {
    pub(super) bytes: Body,
    /// It was read to its end, so the next answer begins behind it.
    pub(super) complete: bool,
    /// The limit cut it.
    pub(super) limited: bool,
    /// Why the rest did not come.
    pub(super) trouble: Option<Trouble>,
}

/// Bytes that are asked for at a time.
const STEP_BYTES: usize = 256 << 10;

/// Reads a body into `bytes`, `most` bytes of it at most, and until the deadline.
pub(super) fn read(
    connection: &mut Connection,
    head: &Head,
    bytes: Body,
    (most, deadline): (usize, Instant),
) -> Raw {
    let mut source = Source {
        connection,
        most,
        deadline,
        bytes,
    };
    let ended = match head.framing {
        Framing::Length(len) => source.length(len),
        Framing::Chunked => source.chunks(),
        // The end of the connection is the end of the body.
        Framing::UntilClose => match source.length(u64::MAX) {
            Err(Trouble::Io(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Ok(false)
            }
            other => other,
        },
    };
    let (complete, trouble) = match ended {
        Ok(complete) => (complete, None),
        Err(trouble) => (false, Some(trouble)),
    };
    let limited = source.bytes.len() >= most && !complete && trouble.is_none();
    Raw {
        bytes: source.bytes,
        complete,
        limited,
        trouble,
    }
}

struct Source<'a> {
    connection: &'a mut Connection,
    most: usize,
    deadline: Instant,
    bytes: Body,
}

impl Source<'_> {
    fn check_time(&self) -> Result<(), Trouble> {
        if Instant::now() > self.deadline {
            Err(Trouble::TooSlow)
        } else {
            Ok(())
        }
    }

    /// Takes `len` bytes, or as many as there is room for; whether all of them.
    fn length(&mut self, len: u64) -> Result<bool, Trouble> {
        let room = self.most - self.bytes.len();
        let wanted = usize::try_from(len).unwrap_or(usize::MAX).min(room);
        let end = self.bytes.len() + wanted;
        let pending = self.connection.pending();
        let at_once = pending.len().min(wanted);
        self.bytes.add(&pending[..at_once])?;
        self.connection.consume(at_once);
        while self.bytes.len() < end {
            self.check_time()?;
            let have = self.bytes.len();
            // A length is a promise of the server: memory follows what has really come.
            let room = self.bytes.room((end - have).min(STEP_BYTES))?;
            match self.connection.read(room)? {
                0 => return Err(Trouble::Io(std::io::ErrorKind::UnexpectedEof.into())),
                count => self.bytes.wrote(count),
            }
        }
        Ok(wanted as u64 == len)
    }

    fn chunks(&mut self) -> Result<bool, Trouble> {
        loop {
            let len = self.chunk_size()?;
            if len == 0 {
                return self.trailers();
            }
            if !self.length(len)? {
                return Ok(false);
            }
            if self.line(|line| line.is_empty())? != Some(true) {
                return Err(Trouble::protocol("a chunk does not end where it should"));
            }
        }
    }

    fn chunk_size(&mut self) -> Result<u64, Trouble> {
        let size = self.line(|line| {
            let digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
            let digits = std::str::from_utf8(digits).ok()?.trim();
            u64::from_str_radix(digits, 16).ok()
        })?;
        size.flatten()
            .ok_or(Trouble::protocol("the size of a chunk is nonsense"))
    }

    fn trailers(&mut self) -> Result<bool, Trouble> {
        for _ in 0..128 {
            if self.line(|line| line.is_empty())? == Some(true) {
                return Ok(true);
            }
        }
        Err(Trouble::protocol("too many trailers"))
    }

    /// Takes a line, without its end.
    fn line<T>(&mut self, read: impl Fn(&[u8]) -> T) -> Result<Option<T>, Trouble> {
        loop {
            let pending = self.connection.pending();
            if let Some(end) = pending.iter().position(|&byte| byte == b'\n') {
                let line = &pending[..end];
                let result = read(line.strip_suffix(b"\r").unwrap_or(line));
                self.connection.consume(end + 1);
                return Ok(Some(result));
            }
            if pending.len() > 4096 {
                return Err(Trouble::protocol("a line between chunks is too long"));
            }
            self.check_time()?;
            if !self.connection.fill()? {
                return Err(Trouble::Io(std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}
