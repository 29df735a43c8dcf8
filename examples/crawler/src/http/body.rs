//! Bodies: to their end, a limit or a deadline, and decompressed.

use std::time::Instant;

use super::head::Framing;
use super::{Body, Connection, Head, Trouble};

/// A body without its transfer coding.
pub(super) struct Raw {
    pub(super) bytes: Body,
    /// It was read to its end, so the next answer begins behind it.
    pub(super) complete: bool,
    pub(super) truncated: bool,
}

/// Bytes that are asked for at a time.
const STEP_BYTES: usize = 256 << 10;
/// Bytes that are decompressed at a time.
const DECODED_BYTES: usize = 32 << 10;

/// Reads a body into `bytes`, `most` bytes of it at most, and until the deadline.
pub(super) fn read(
    connection: &mut Connection,
    head: &Head,
    bytes: Body,
    (most, deadline): (usize, Instant),
) -> Result<Raw, Trouble> {
    let mut source = Source {
        connection,
        most,
        deadline,
        bytes,
    };
    let complete = match head.framing {
        Framing::Length(len) => source.length(len)?,
        Framing::Chunked => source.chunks()?,
        Framing::UntilClose => {
            let ended = source.length(u64::MAX);
            // The end of the connection is the end of the body.
            match ended {
                Err(Trouble::Io(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {}
                other => {
                    other?;
                }
            }
            false
        }
    };
    let limited = source.bytes.len() >= most && !complete;
    Ok(Raw {
        bytes: source.bytes,
        complete,
        truncated: limited,
    })
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
                return Err(Trouble::Protocol("a chunk does not end where it should"));
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
            .ok_or(Trouble::Protocol("the size of a chunk is nonsense"))
    }

    fn trailers(&mut self) -> Result<bool, Trouble> {
        for _ in 0..128 {
            if self.line(|line| line.is_empty())? == Some(true) {
                return Ok(true);
            }
        }
        Err(Trouble::Protocol("too many trailers"))
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
                return Err(Trouble::Protocol("a line between chunks is too long"));
            }
            self.check_time()?;
            if !self.connection.fill()? {
                return Err(Trouble::Io(std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

/// Undoes the content coding, up to `most` bytes: `None` if there is nothing to undo, and whether
/// the limit cut it.
pub(super) fn decode(
    wire: &[u8],
    head: &Head,
    most: usize,
) -> Result<(Option<Body>, bool), Trouble> {
    let (out, is_whole) = match head.content_coding.as_deref() {
        Some("gzip" | "x-gzip") => decompressed(flate2::read::MultiGzDecoder::new(wire), most)?,
        Some("deflate") => decompressed(flate2::read::ZlibDecoder::new(wire), most)?,
        _ => return Ok((None, false)),
    };
    // What was cut by our own limit ends early; what came before is good.
    if !is_whole && out.is_empty() && !wire.is_empty() {
        return Err(Trouble::Protocol(
            "the body is not compressed as its head says",
        ));
    }
    Ok((Some(out), !is_whole))
}

/// What comes out, up to `most` bytes, and whether that is all.
fn decompressed(mut source: impl std::io::Read, most: usize) -> Result<(Body, bool), Trouble> {
    let mut out = Body::default();
    loop {
        // One byte more than the limit tells that there is more.
        let room = out.room((most + 1 - out.len()).min(DECODED_BYTES))?;
        match source.read(room) {
            Ok(0) => return Ok((out, true)),
            Ok(count) => out.wrote(count),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_damaged) => return Ok((out, false)),
        }
        if out.len() > most {
            out.truncate(most);
            return Ok((out, false));
        }
    }
}
