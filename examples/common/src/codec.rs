//! Numbers and byte strings in the values of a store, both ways.
//!
//! A [`Reader`] checks what it reads: bytes that end early or make no sense are an error, never a
//! panic, and nothing is allocated for a length that the bytes do not bear out.

/// Appends a number, seven bits to a byte, least first.
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a number that may be negative; numbers near zero are short.
pub fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// Appends bytes with their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Bytes that the program that reads them has not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Reads a value from its beginning. It holds the bytes that are left.
#[derive(Debug)]
pub struct Reader<'a>(pub &'a [u8]);

// Each of these fails with `Malformed` if the bytes end early or are not of its kind.
#[expect(clippy::missing_errors_doc, reason = "the line above says it for all")]
impl<'a> Reader<'a> {
    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().ok().ok_or(Malformed)
    }

    /// A number from [`put_number`].
    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return Err(Malformed);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    /// A number from [`put_number`] that fits 32 bits.
    pub fn small(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).ok().ok_or(Malformed)
    }

    /// A number from [`put_signed`].
    pub fn signed(&mut self) -> Result<i64, Malformed> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// A count of things of at least one byte each, which can be no more than there are bytes left.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        let count = usize::try_from(self.number()?).ok().ok_or(Malformed)?;
        if count > self.0.len() {
            return Err(Malformed);
        }
        Ok(count)
    }

    /// Bytes from [`put_bytes`].
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.number()?).ok().ok_or(Malformed)?;
        self.take(len)
    }

    /// Bytes from [`put_bytes`] that are UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).ok().ok_or(Malformed)
    }

    /// All bytes that are left, as UTF-8.
    pub fn rest_as_text(&mut self) -> Result<&'a str, Malformed> {
        let rest = std::mem::take(&mut self.0);
        std::str::from_utf8(rest).ok().ok_or(Malformed)
    }

    /// No byte is left.
    pub fn end(&self) -> Result<(), Malformed> {
        self.0.is_empty().then_some(()).ok_or(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_comes_back() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put_number(&mut out, number);
            put_signed(&mut out, number as i64);
            let mut reader = Reader(&out);
            assert_eq!(reader.number(), Ok(number));
            assert_eq!(reader.signed(), Ok(number as i64));
            assert_eq!(reader.end(), Ok(()));
        }
        let mut out = Vec::new();
        put_number(&mut out, u64::from(u32::MAX));
        put_bytes(&mut out, b"abc");
        put_bytes(&mut out, "ü".as_bytes());
        out.extend_from_slice(b"rest");
        let mut reader = Reader(&out);
        assert_eq!(reader.small(), Ok(u32::MAX));
        assert_eq!(reader.bytes(), Ok(&b"abc"[..]));
        assert_eq!(reader.text(), Ok("ü"));
        assert_eq!(reader.rest_as_text(), Ok("rest"));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn what_is_cut_is_not_read() {
        let mut out = Vec::new();
        put_bytes(&mut out, &[7; 300]);
        for len in 0..out.len() {
            assert_eq!(Reader(&out[..len]).bytes(), Err(Malformed), "{len}");
        }
        assert_eq!(Reader(&[0x80]).number(), Err(Malformed));
        assert_eq!(Reader(&[5, 1, 2]).bytes(), Err(Malformed));
        assert_eq!(Reader(&[200, 1, 2]).count(), Err(Malformed));
        assert_eq!(Reader(&[1]).end(), Err(Malformed));
    }

    #[test]
    fn what_makes_no_sense_is_not_read() {
        assert_eq!(Reader(&[0xff; 11]).number(), Err(Malformed));
        assert_eq!(
            Reader(&[0xff, 0xff, 0xff, 0xff, 0x7f]).small(),
            Err(Malformed)
        );
        assert_eq!(Reader(&[1, 0xff]).text(), Err(Malformed));
        assert_eq!(Reader(&[0xff]).rest_as_text(), Err(Malformed));
    }
}
