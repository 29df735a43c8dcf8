//! Fields of a file, read and written in place, for the one who repairs checksums.

/// CRC-32 of identity, offset and bytes: "Checksums" of `docs/format.md`.
pub(super) fn checksum(identity: u64, offset: usize, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&identity.to_le_bytes());
    hasher.update(&(offset as u64).to_le_bytes());
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// Bytes that are taken from the front; `None` when they do not suffice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// As many bytes as there are, at most these.
    pub(super) fn at_most(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        Some(self.bytes(1)?[0])
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.bytes(2)?.try_into().ok()?))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = u64::from(self.u8()?);
            value |= (byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn prefixed(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.bytes(len)
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Input(bytes.get(at..)?).u32()
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Input(bytes.get(at..)?).u64()
}

/// An offset or length that is within a file of this length.
pub(super) fn offset_at(bytes: &[u8], at: usize) -> Option<usize> {
    let offset = usize::try_from(u64_at(bytes, at)?).ok()?;
    (offset <= bytes.len()).then_some(offset)
}

pub(super) fn set(bytes: &mut [u8], at: usize, field: &[u8]) {
    if let Some(space) = bytes.get_mut(at..at + field.len()) {
        space.copy_from_slice(field);
    }
}

pub(super) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn prefixed(bytes: &[u8], out: &mut Vec<u8>) {
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
