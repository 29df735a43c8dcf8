//! Numbers and bytes in records, both ways; reading is bounded by what is there.

/// Appends a number, 7 bits to a byte.
pub(crate) fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a number that may be negative, small ones short.
pub(crate) fn put_signed(number: i64, out: &mut Vec<u8>) {
    put_number(((number << 1) ^ (number >> 63)) as u64, out);
}

/// Appends bytes with their length.
pub(crate) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Bytes of a record that are not what was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Reads a record from its beginning.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().ok().ok_or(Malformed)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
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

    pub(crate) fn signed(&mut self) -> Result<i64, Malformed> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.number()?).ok().ok_or(Malformed)?;
        self.take(len)
    }

    /// A count of things of at least one byte each: no more than bytes are left, so that nothing
    /// is allocated for what cannot be there.
    pub(crate) fn count(&mut self) -> Result<usize, Malformed> {
        let count = usize::try_from(self.number()?).ok().ok_or(Malformed)?;
        if count > self.0.len() {
            return Err(Malformed);
        }
        Ok(count)
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        self.0.is_empty().then_some(()).ok_or(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put_number(number, &mut out);
            put_signed(number as i64, &mut out);
            let mut reader = Reader(&out);
            assert_eq!(reader.number(), Ok(number));
            assert_eq!(reader.signed(), Ok(number as i64));
            assert_eq!(reader.end(), Ok(()));
        }
    }

    #[test]
    fn what_is_not_there_is_not_read() {
        assert_eq!(Reader(&[0x80]).number(), Err(Malformed));
        assert_eq!(Reader(&[0xff; 11]).number(), Err(Malformed));
        assert_eq!(Reader(&[5, 1, 2]).bytes(), Err(Malformed));
        assert_eq!(Reader(&[200, 1, 2]).count(), Err(Malformed));
        assert_eq!(Reader(&[1]).end(), Err(Malformed));
    }
}
