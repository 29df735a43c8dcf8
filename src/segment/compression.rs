//! Data blocks made smaller, and whole again.

use std::cell::RefCell;
use std::io;

use lz4_flex::block::CompressTable;
use zstd::bulk::{Compressor, Decompressor};

use crate::format::Malformed;
use crate::format::region::Codec;
use crate::options::Compression;
use crate::slice::Slice;

/// No byte of LZ4 stands for more than so many.
const LZ4_RATIO_MAX: usize = 255;

/// Packs block after block.
pub(super) enum Packer {
    Lz4(CompressTable),
    Zstd(Compressor<'static>),
}

impl Packer {
    /// None where nothing is to be compressed.
    pub(super) fn of(compression: Compression) -> io::Result<Option<Packer>> {
        Ok(match compression {
            Compression::None => None,
            Compression::Lz4 => Some(Packer::Lz4(CompressTable::default())),
            Compression::Zstd { level } => Some(Packer::Zstd(Compressor::new(level)?)),
        })
    }

    /// Appends the payload, packed, and says how; nothing if that is no shorter.
    pub(super) fn pack(&mut self, payload: &[u8], out: &mut Vec<u8>) -> io::Result<Option<Codec>> {
        let start = out.len();
        let codec = match self {
            Packer::Lz4(table) => {
                let bound = lz4_flex::block::get_maximum_output_size(payload.len());
                out.resize(start + bound, 0);
                let room = out.get_mut(start..).unwrap_or_default();
                let len = lz4_flex::block::compress_into_with_table(payload, room, table)
                    .map_err(io::Error::other)?;
                out.truncate(start + len);
                Codec::Lz4
            }
            Packer::Zstd(compressor) => {
                out.resize(start + zstd::zstd_safe::compress_bound(payload.len()), 0);
                let room = out.get_mut(start..).unwrap_or_default();
                let len = compressor.compress_to_buffer(payload, room)?;
                out.truncate(start + len);
                Codec::Zstd
            }
        };
        if out.len() - start < payload.len() {
            return Ok(Some(codec));
        }
        out.truncate(start);
        Ok(None)
    }
}

/// The payload of so many bytes. That it can have so many is looked at before anything is
/// allocated.
pub(super) fn unpack(packed: Slice, codec: Codec, plain_len: usize) -> Result<Slice, Malformed> {
    let states_len = match codec {
        Codec::Plain => return Ok(packed),
        Codec::Lz4 => plain_len <= packed.len().saturating_mul(LZ4_RATIO_MAX),
        Codec::Zstd => {
            let stated = zstd::zstd_safe::get_frame_content_size(&packed);
            matches!(stated, Ok(Some(len)) if len == plain_len as u64)
        }
    };
    if !states_len {
        return Err(malformed("what is compressed has another length"));
    }
    Slice::filled(plain_len, |plain| {
        let len = match codec {
            Codec::Lz4 => {
                lz4_flex::block::decompress_into(&packed, plain).map_err(io::Error::other)
            }
            Codec::Plain | Codec::Zstd => decompress_zstd(&packed, plain),
        };
        let len = len.map_err(|error| malformed(&format!("cannot be decompressed: {error}")))?;
        if len != plain.len() {
            return Err(malformed("decompressed to another length"));
        }
        Ok(())
    })
}

fn malformed(what: &str) -> Malformed {
    Malformed {
        what: format!("data block: {what}"),
        at: 0,
    }
}

thread_local! {
    /// To make a context costs about as much as to unpack a small block.
    static CONTEXT: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

fn decompress_zstd(packed: &[u8], plain: &mut [u8]) -> io::Result<usize> {
    let with_context = |context: &RefCell<Option<Decompressor<'static>>>| {
        let mut context = context.borrow_mut();
        let context = match &mut *context {
            Some(context) => context,
            none => none.insert(Decompressor::new()?),
        };
        context.decompress_to_buffer(packed, plain)
    };
    // A thread that ends has none any more.
    let decompressed = CONTEXT.try_with(with_context);
    decompressed.unwrap_or_else(|_gone| zstd::bulk::decompress_to_buffer(packed, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Compression; 2] = [Compression::Lz4, Compression::Zstd { level: 1 }];

    fn packed(compression: Compression, payload: &[u8]) -> Option<(Codec, Slice)> {
        let mut packer = Packer::of(compression).unwrap().unwrap();
        let mut out = b"before".to_vec();
        let codec = packer.pack(payload, &mut out).unwrap();
        let (before, packed) = out.split_at(6);
        assert_eq!(before, b"before");
        assert_eq!(codec.is_none(), packed.is_empty());
        Some((codec?, Slice::from(packed.to_vec())))
    }

    #[test]
    fn what_was_packed_is_whole_again() {
        let long: Vec<u8> = (0..200_000_u32)
            .flat_map(|n| (n / 7).to_le_bytes())
            .collect();
        for compression in ALL {
            for len in [40, 4096, 65_534, 65_535, 65_536, 800_000] {
                let payload = &long[..len];
                let (codec, packed) = packed(compression, payload).unwrap();
                assert!(packed.len() < len);
                assert_eq!(unpack(packed.clone(), codec, len).unwrap(), payload);
                for wrong in [0, 1, len - 1, len + 1, len * 300] {
                    assert!(
                        unpack(packed.clone(), codec, wrong).is_err(),
                        "{codec:?} {wrong}"
                    );
                }
            }
            // The longest runs of one byte are what is packed best.
            let zeros = vec![0; 10_000_000];
            let (codec, packed) = packed(compression, &zeros).unwrap();
            assert_eq!(unpack(packed.clone(), codec, zeros.len()).unwrap(), zeros);
        }
    }

    #[test]
    fn what_does_not_shrink_is_left_alone() {
        let mut state = 1_u64;
        let noise: Vec<u8> = (0..4096)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        for compression in ALL {
            assert!(packed(compression, &noise).is_none());
            assert!(packed(compression, b"").is_none());
        }
    }

    /// By hand, as the description of LZ4's block format has it.
    #[test]
    fn a_block_of_lz4_is_what_others_know_as_one() {
        let packed = [&b"\x1aa\x01\x00"[..], &b"\x50bcdef"[..]].concat();
        let plain = unpack(Slice::from(packed), Codec::Lz4, 20).unwrap();
        assert_eq!(plain, b"aaaaaaaaaaaaaaabcdef");
        assert_eq!(
            (Codec::Plain as u8, Codec::Zstd as u8, Codec::Lz4 as u8),
            (0, 1, 2)
        );
    }

    #[test]
    fn no_length_is_believed_that_cannot_be() {
        let packed = Slice::from(vec![0xff; 10]);
        for codec in [Codec::Lz4, Codec::Zstd] {
            assert!(unpack(packed.clone(), codec, usize::MAX).is_err());
        }
    }
}
