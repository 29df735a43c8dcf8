//! Writes a file from its beginning, and leaves holes where its content is zeros if it is to have any.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// A hole is made of whole blocks of this size, which is that of most file systems.
const BLOCK_BYTES: usize = 4096;

/// Bytes that are collected before they are written.
const ROOM_BYTES: usize = 64 << 10;

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Holes<'f> {
    file: &'f File,
    /// Whether zeros are written, too.
    is_dense: bool,
    written: u64,
    /// What was not written yet, and where it begins: at a block.
    room: Vec<u8>,
    at: u64,
}

impl<'f> Holes<'f> {
    /// Writes to an empty file. One that is dense gets no holes.
    pub(crate) fn new(file: &'f File, is_dense: bool) -> Holes<'f> {
        Holes {
            file,
            is_dense,
            written: 0,
            room: Vec::new(),
            at: 0,
        }
    }

    pub(crate) fn write(&mut self, part: &[u8]) -> io::Result<()> {
        self.room.extend_from_slice(part);
        match self.room.len() {
            ROOM_BYTES.. => self.empty(self.room.len() / BLOCK_BYTES * BLOCK_BYTES),
            _ => Ok(()),
        }
    }

    /// Writes the rest, and returns the number of bytes that were written. A hole at the end needs
    /// the length.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        self.empty(self.room.len())?;
        self.file.set_len(self.at)?;
        Ok(self.written)
    }

    /// Writes the first bytes of the room, neighbouring blocks at once.
    fn empty(&mut self, bytes: usize) -> io::Result<()> {
        let is_dense = self.is_dense;
        let is_hole = |block: &[u8]| !is_dense && block.iter().all(|&byte| byte == 0);
        let mut blocks = self.room[..bytes].chunks(BLOCK_BYTES).peekable();
        let (mut begin, mut end) = (0, 0);
        while let Some(block) = blocks.next() {
            let is_data = !is_hole(block);
            if !is_data {
                begin = end + block.len();
            }
            end += block.len();
            let is_last = blocks.peek().is_none_or(|next| is_hole(next));
            if is_data && is_last {
                self.file
                    .write_all_at(&self.room[begin..end], self.at + begin as u64)?;
                self.written += (end - begin) as u64;
            }
        }
        self.room.drain(..bytes);
        self.at += bytes as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn content_is_as_it_was_whatever_its_parts() {
        let block = |data: bool| {
            if data {
                [7; BLOCK_BYTES]
            } else {
                [0; BLOCK_BYTES]
            }
        };
        let mut content: Vec<u8> = (0..40_u32).flat_map(|n| block(n * n % 7 < 3)).collect();
        content.extend([0; 5000]);
        for len in [0, 1, 4096, 70_000, 131_072, content.len()] {
            for part in [1, 100, 4096, 5000, content.len()] {
                for is_dense in [false, true] {
                    let mut file = tempfile::tempfile().unwrap();
                    let mut holes = Holes::new(&file, is_dense);
                    for part in content[..len].chunks(part) {
                        holes.write(part).unwrap();
                    }
                    let written = holes.finish().unwrap();
                    assert_eq!(
                        written == len as u64,
                        is_dense || len <= 4096,
                        "{len} {part}"
                    );
                    let mut found = Vec::new();
                    file.read_to_end(&mut found).unwrap();
                    assert!(found == content[..len], "{len} {part}");
                }
            }
        }
    }
}
