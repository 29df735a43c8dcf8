//! Where bodies are kept while they are read.
//!
//! A crawl reads page after page, most of them short and some very long. Short ones take turns in
//! one buffer; a long one gets pages of its own from the system, which has them back when it is
//! dropped. So memory follows what is being read, and not the longest page that each thread has
//! ever seen, as it does with an allocator that keeps what it was given back.

use std::io;
use std::ops::Deref;

use memmap2::MmapMut;

/// Most bytes in the buffer that is used again.
const SHORT_MAX: usize = 128 << 10;

/// Address space for a body, at least, beyond what has come of it: pages are real only once they
/// are written to, and few bodies are ever moved to a larger room.
const AHEAD: usize = 8 << 20;

/// The bytes of a body.
#[derive(Debug, Default)]
pub(crate) struct Body {
    short: Vec<u8>,
    /// All bytes are here, if there is one.
    long: Option<MmapMut>,
    len: usize,
}

impl Body {
    pub(super) fn clear(&mut self) {
        self.long = None;
        self.len = 0;
    }

    /// The room behind the bytes, `len` bytes of it.
    pub(super) fn room(&mut self, len: usize) -> io::Result<&mut [u8]> {
        let (start, end) = (self.len, self.len.saturating_add(len));
        let has_room = self.long.as_ref().is_some_and(|long| long.len() >= end);
        if self.long.is_none() && end <= SHORT_MAX {
            if self.short.len() < end {
                self.short.resize(end.next_power_of_two(), 0);
            }
            return Ok(&mut self.short[start..end]);
        }
        if !has_room {
            let mut long = MmapMut::map_anon(end.saturating_add(end.max(AHEAD)))?;
            long[..start].copy_from_slice(self);
            self.long = Some(long);
        }
        let long = self.long.as_mut().map_or(&mut [][..], |long| &mut long[..]);
        Ok(&mut long[start..end])
    }

    /// Says that so many bytes were written to the room.
    pub(super) fn wrote(&mut self, len: usize) {
        self.len += len;
    }

    pub(super) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.room(bytes.len())?.copy_from_slice(bytes);
        self.wrote(bytes.len());
        Ok(())
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// What of it is worth keeping for the next body.
    pub(super) fn into_room(mut self) -> Body {
        self.clear();
        self
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.long {
            Some(long) => &long[..self.len],
            None => &self.short[..self.len],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_when_the_room_grows() {
        for step in [1000, SHORT_MAX - 1, SHORT_MAX, SHORT_MAX + 1, 1 << 20] {
            let mut body = Body::default();
            let mut expected = Vec::new();
            while expected.len() < 3 << 20 {
                let piece = vec![expected.len() as u8; step];
                body.add(&piece).unwrap();
                expected.extend_from_slice(&piece);
            }
            assert!(*body == *expected, "{step}");
            body.truncate(5);
            assert!(*body == expected[..5]);
            let body = body.into_room();
            assert!(body.is_empty() && body.short.len() <= SHORT_MAX && body.long.is_none());
        }
    }
}
