//! Reading the resident header of a filter block: bounds checked, never more than it has.
//!
//! The module knows no field; it hands out little-endian integers until the bytes are used up.

use crate::error::{Error, Result};

/// A cursor over header bytes.
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

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8> {
        Ok(self.array::<1>(what)?[0])
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

    /// Succeeds when every byte has been read.
    pub(crate) fn end(&self) -> Result<()> {
        require(self.rest.is_empty(), "filter header: bytes after its end")
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
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
