//! Numbers and byte strings in the values of the store, both ways. Bytes read are checked: a value
//! that ends early or says nonsense is an error, never a panic.

use crate::failure::Failure;

/// Appends a number, seven bits a byte, least first.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a length and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes a value apart, from its front.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// What is being read, for the error.
    of: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(of: &'static str, bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes, of }
    }

    fn short(&self) -> Failure {
        Failure::Damaged(format!("a value ({}) ends too early", self.of))
    }

    pub(crate) fn number(&mut self) -> Result<u64, Failure> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or_else(|| self.short())?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Failure::Damaged(format!(
            "a number in a value ({}) is too long",
            self.of
        )))
    }

    /// A number that must fit 32 bits.
    pub(crate) fn small(&mut self) -> Result<u32, Failure> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_error| {
            Failure::Damaged(format!("{number} in a value ({}) is too large", self.of))
        })
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Failure> {
        let len = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        self.take(len)
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Failure> {
        let (bytes, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Failure> {
        let bytes = self.bytes()?;
        self.utf8(bytes)
    }

    fn utf8(&self, bytes: &'a [u8]) -> Result<&'a str, Failure> {
        std::str::from_utf8(bytes).map_err(|_error| {
            Failure::Damaged(format!("text in a value ({}) is not UTF-8", self.of))
        })
    }

    /// All that is left, as text.
    pub(crate) fn rest_as_text(&mut self) -> Result<&'a str, Failure> {
        let rest = self.rest();
        self.utf8(rest)
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bytes_come_back() {
        let mut out = Vec::new();
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            put_number(&mut out, number);
        }
        put_bytes(&mut out, b"abc");
        let mut reader = Reader::new("test", &out);
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(reader.number().unwrap(), number);
        }
        assert_eq!(reader.text().unwrap(), "abc");
        assert!(reader.is_empty());
    }

    #[test]
    fn what_is_cut_is_an_error() {
        let mut out = Vec::new();
        put_bytes(&mut out, &[7; 300]);
        for len in 0..out.len() {
            assert!(Reader::new("test", &out[..len]).bytes().is_err(), "{len}");
        }
        assert!(Reader::new("test", &[0xff; 12]).number().is_err());
        assert!(
            Reader::new("test", &[0xff, 0xff, 0xff, 0xff, 0x7f])
                .small()
                .is_err()
        );
    }
}
