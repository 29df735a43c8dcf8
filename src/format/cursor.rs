//! A bounds-checked reader that names the field it could not read.

use std::fmt;

use super::{checksum, varint};

/// Bytes do not have the shape they should: which field, and where in the slice it starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Malformed {
    /// The field, and what is wrong with it.
    pub(crate) what: String,
    /// Offset of the field within the decoded slice, in bytes.
    pub(crate) at: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Reads fields one after the other from a slice.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    /// Offset of the next field, in bytes from the start of the slice.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.remaining() == 0
    }

    /// An error about the field that starts here.
    pub(crate) fn malformed(&self, what: impl Into<String>) -> Malformed {
        Malformed {
            what: what.into(),
            at: self.at,
        }
    }

    pub(crate) fn bytes(&mut self, field: &str, len: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.saturating_add(len);
        match self.bytes.get(self.at..end) {
            Some(bytes) => {
                self.at = end;
                Ok(bytes)
            }
            None => {
                let short = len.saturating_sub(self.remaining());
                Err(self.malformed(format!("{field}: {short} bytes short")))
            }
        }
    }

    fn array<const N: usize>(&mut self, field: &str) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(field, N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self, field: &str) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn u16(&mut self, field: &str) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn u32(&mut self, field: &str) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn u64(&mut self, field: &str) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn u128(&mut self, field: &str) -> Result<u128, Malformed> {
        Ok(u128::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn f64(&mut self, field: &str) -> Result<f64, Malformed> {
        Ok(f64::from_bits(self.u64(field)?))
    }

    pub(crate) fn varint(&mut self, field: &str) -> Result<u64, Malformed> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match varint::decode(rest) {
            Some((value, len)) => {
                self.at = self.at.saturating_add(len);
                Ok(value)
            }
            None => Err(self.malformed(format!("{field}: not a whole number"))),
        }
    }

    /// A count of things of at least `unit_bytes` each: refused when so many cannot follow.
    pub(crate) fn count(&mut self, field: &str, unit_bytes: usize) -> Result<usize, Malformed> {
        let start = self.clone();
        let count = self.varint(field)?;
        let most = self.remaining().checked_div(unit_bytes.max(1)).unwrap_or(0);
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(start.malformed(format!("{field}: {count} is more than can follow"))),
        }
    }

    /// Bytes behind their own length.
    pub(crate) fn prefixed(&mut self, field: &str) -> Result<&'a [u8], Malformed> {
        let len = self.count(field, 1)?;
        self.bytes(field, len)
    }

    /// Reserved bytes must be zero, so that a later version can give them a meaning.
    pub(crate) fn zeros(&mut self, field: &str, len: usize) -> Result<(), Malformed> {
        let start = self.clone();
        if self.bytes(field, len)?.iter().any(|&byte| byte != 0) {
            return Err(start.malformed(format!("{field}: reserved bytes are not zero")));
        }
        Ok(())
    }

    /// What a file or its footer begins with: these bytes, and the only version there is so far.
    pub(crate) fn begins(
        &mut self,
        what: &str,
        magic: &[u8],
        version: u16,
    ) -> Result<(), Malformed> {
        if self.bytes(what, magic.len())? != magic {
            return Err(self.malformed(format!("{what}: not written by criba, or cut off")));
        }
        match self.u16(what)? {
            found if found == version => Ok(()),
            found => Err(self.malformed(format!(
                "{what}: format version {found}; a newer version of criba wrote it, or it is damaged"
            ))),
        }
    }

    /// The checksum of all that came before, for this place. It is returned, too.
    pub(crate) fn checksum(
        &mut self,
        what: &str,
        identity: u64,
        offset: u64,
    ) -> Result<u32, Malformed> {
        let summed = self.bytes.get(..self.at).unwrap_or_default();
        let sum = self.u32(what)?;
        if checksum::at(identity, offset, &[summed]) == sum {
            return Ok(sum);
        }
        Err(Malformed {
            what: format!("{what}: its checksum does not match"),
            at: 0,
        })
    }

    pub(crate) fn end(&self, what: &str) -> Result<(), Malformed> {
        match self.remaining() {
            0 => Ok(()),
            more => Err(self.malformed(format!("{what}: {more} bytes too many"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_field_that_is_short() {
        let mut cursor = Cursor::new(&[1, 0, 0, 0, 9, 9]);
        assert_eq!(cursor.u32("first"), Ok(1));
        let error = cursor.u64("footer.index_offset").unwrap_err();
        assert_eq!(error.to_string(), "footer.index_offset: 6 bytes short");
        assert_eq!(error.at, 4);
        assert_eq!(cursor.u16("last"), Ok(0x0909));
        assert!(cursor.end("all").is_ok());
    }

    #[test]
    fn refuses_a_count_that_cannot_follow() {
        let error = Cursor::new(&[200, 1, 0, 0]).count("edits", 1).unwrap_err();
        assert_eq!(error.to_string(), "edits: 200 is more than can follow");
        assert_eq!(Cursor::new(&[2, 0, 0]).count("edits", 1), Ok(2));
        assert!(Cursor::new(&[2, 0, 0]).count("edits", 2).is_err());
    }

    #[test]
    fn begins_with_its_magic_and_ends_with_its_checksum() {
        let mut bytes = b"magic\x01\x00content".to_vec();
        bytes.extend_from_slice(&checksum::at(7, 9, &[&bytes]).to_le_bytes());
        let read = |bytes: &[u8], version, place: (u64, u64)| {
            let mut cursor = Cursor::new(bytes);
            cursor.begins("thing", b"magic", version)?;
            cursor.bytes("content", 7)?;
            cursor.checksum("thing", place.0, place.1)?;
            cursor.end("thing")
        };
        assert_eq!(read(&bytes, 1, (7, 9)), Ok(()));
        let told = |read: Result<(), Malformed>| read.unwrap_err().what;
        assert!(told(read(&bytes, 2, (7, 9))).contains("format version 1"));
        for place in [(8, 9), (7, 8)] {
            assert!(told(read(&bytes, 1, place)).contains("checksum"));
        }
        assert!(told(read(b"nagic", 1, (7, 9))).contains("not written by criba"));
        assert!(told(read(b"mag", 1, (7, 9))).contains("2 bytes short"));
        bytes.push(0);
        assert!(told(read(&bytes, 1, (7, 9))).contains("too many"));
        bytes[8] ^= 1;
        assert!(told(read(&bytes, 1, (7, 9))).contains("checksum"));
    }

    #[test]
    fn reserved_bytes_are_checked() {
        assert!(Cursor::new(&[0, 0]).zeros("reserved", 2).is_ok());
        assert!(Cursor::new(&[0, 1]).zeros("reserved", 2).is_err());
    }
}
