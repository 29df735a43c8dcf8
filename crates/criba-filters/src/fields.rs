//! Reading fields of bytes that may be damaged: bounds checked, never more than there are.
//!
//! The module knows no structure; it hands out little-endian numbers until the bytes are used up.

use crate::error::{Error, Result};

/// A cursor over bytes. Each step names its field, for the error where bytes are used up.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next `count` bytes. A count that memory could not hold is short like any other.
    pub(crate) fn bytes(&mut self, count: u64, what: &'static str) -> Result<&'a [u8]> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let (head, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(Error::field(what))?;
        self.rest = rest;
        Ok(head)
    }

    /// So many 64-bit words; allocated once they are known to be there.
    pub(crate) fn words(&mut self, count: u64, what: &'static str) -> Result<Vec<u64>> {
        let bytes = self.bytes(count.saturating_mul(8), what)?;
        let (words, _) = bytes.as_chunks::<8>();
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A finite number.
    pub(crate) fn f64(&mut self, what: &'static str) -> Result<f64> {
        let number = f64::from_le_bytes(self.array(what)?);
        require(number.is_finite(), what)?;
        Ok(number)
    }

    /// Succeeds when every byte has been read.
    pub(crate) fn end(&self) -> Result<()> {
        self.end_of("there are bytes after the last field")
    }

    /// The same, with the error that names the place.
    pub(crate) fn end_of(&self, what: &'static str) -> Result<()> {
        require(self.rest.is_empty(), what)
    }

    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let (head, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(Error::field(what))?;
        self.rest = rest;
        Ok(*head)
    }
}

/// Turns a broken rule of the format into an error that names it.
pub(crate) fn require(holds: bool, what: &'static str) -> Result<()> {
    if holds {
        Ok(())
    } else {
        Err(Error::field(what))
    }
}
