//! Takes fields from bytes one after the other and writes each of them down.

use std::fmt::Write as _;

/// CRC-32 of identity, offset and parts: "Checksums" of the document.
pub(super) fn checksum(identity: u64, offset: u64, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&identity.to_le_bytes());
    hasher.update(&offset.to_le_bytes());
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// Bytes of a file or of a part of it, and what was found in them so far.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset in the file of the first byte.
    base: usize,
    pub(super) dump: String,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], base: usize) -> Reader<'a> {
        Reader {
            bytes,
            at: 0,
            base,
            dump: String::new(),
        }
    }

    /// Offset in the file.
    pub(super) fn offset(&self) -> usize {
        self.base + self.at
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub(super) fn title(&mut self, text: &str) {
        writeln!(self.dump, "{text}").unwrap();
    }

    /// Writes a line about the last `len` bytes taken.
    pub(super) fn note(&mut self, len: usize, text: &str) {
        let bytes = &self.bytes[self.at - len..self.at];
        let mut hex: String = bytes.iter().take(16).map(|b| format!("{b:02x}")).collect();
        if bytes.len() > 16 {
            hex.push_str("..");
        }
        let offset = self.offset() - len;
        writeln!(self.dump, "{offset:>7}  {hex:<34}  {text}").unwrap();
    }

    /// Takes bytes without a line.
    pub(super) fn quiet(&mut self, len: usize) -> &'a [u8] {
        self.at += len;
        &self.bytes[self.at - len..self.at]
    }

    pub(super) fn bytes(&mut self, len: usize, name: &str) -> &'a [u8] {
        let bytes = self.quiet(len);
        self.note(len, name);
        bytes
    }

    pub(super) fn number(&mut self, len: usize, name: &str) -> u64 {
        let mut number = [0; 8];
        number[..len].copy_from_slice(self.quiet(len));
        let number = u64::from_le_bytes(number);
        self.note(len, &format!("{name} {number}"));
        number
    }

    pub(super) fn u8(&mut self, name: &str) -> u8 {
        self.number(1, name) as u8
    }

    pub(super) fn u16(&mut self, name: &str) -> u16 {
        self.number(2, name) as u16
    }

    pub(super) fn u32(&mut self, name: &str) -> u32 {
        self.number(4, name) as u32
    }

    pub(super) fn u64(&mut self, name: &str) -> u64 {
        self.number(8, name)
    }

    pub(super) fn u128(&mut self, name: &str) -> u128 {
        u128::from_le_bytes(self.bytes(16, name).try_into().unwrap())
    }

    pub(super) fn zeros(&mut self, len: usize, name: &str) {
        assert!(
            self.bytes(len, name).iter().all(|&byte| byte == 0),
            "{name}"
        );
    }

    /// A checksum that must be this one.
    pub(super) fn checksum(&mut self, expected: u32, name: &str) {
        let sum = u32::from_le_bytes(self.quiet(4).try_into().unwrap());
        self.note(4, name);
        assert_eq!(sum, expected, "{name} at {}", self.offset());
    }

    /// A checksum of another structure.
    pub(super) fn stored_checksum(&mut self, name: &str) -> u32 {
        u32::from_le_bytes(self.bytes(4, name).try_into().unwrap())
    }

    /// A rate for people.
    pub(super) fn rate(&mut self, name: &str) {
        let rate = f64::from_bits(u64::from_le_bytes(self.quiet(8).try_into().unwrap()));
        self.note(8, &format!("{name} {rate}"));
        assert!((0.0..=1.0).contains(&rate));
    }

    pub(super) fn quiet_varint(&mut self) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let byte = self.quiet(1)[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                assert!(byte > 0 || shift == 0, "not the shortest form");
                break;
            }
        }
        number
    }

    pub(super) fn varint(&mut self, name: &str) -> u64 {
        let start = self.at;
        let number = self.quiet_varint();
        self.note(self.at - start, &format!("{name} {number}"));
        number
    }

    /// Bytes behind their length.
    pub(super) fn prefixed(&mut self, name: &str) -> Vec<u8> {
        let start = self.at;
        let len = self.quiet_varint() as usize;
        let bytes = self.quiet(len);
        self.note(self.at - start, &format!("{name} {}", shown(bytes)));
        bytes.to_vec()
    }
}

/// Bytes for people: short ones escaped, long ones by their length.
pub(super) fn shown(bytes: &[u8]) -> String {
    if bytes.len() > 40 {
        return format!("({} bytes)", bytes.len());
    }
    format!("\"{}\"", bytes.escape_ascii())
}
