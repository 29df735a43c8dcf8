//! Content codings: what a body was packed with, undone.

use std::io::Read;

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

use super::words::Named;
use super::{Body, Head, Trouble};

/// Most codings in a row.
const CODINGS_MAX: usize = 4;
/// Bytes that are decompressed at a time.
const STEP_BYTES: usize = 32 << 10;

/// Undoes the content codings, each up to `most` bytes: `None` if there is nothing to undo, and
/// whether that is all.
///
/// # Errors
///
/// When the head names a coding that is not known here, or one that the body does not have.
pub(super) fn undo(wire: &[u8], head: &Head, most: usize) -> Result<(Option<Body>, bool), Trouble> {
    let named = head.content_coding.as_deref().unwrap_or_default();
    let codings = named.split(',').map(str::trim);
    let codings: Vec<&str> = codings
        .filter(|coding| !matches!(*coding, "" | "identity"))
        .take(CODINGS_MAX + 1)
        .collect();
    if codings.len() > CODINGS_MAX {
        return Err(Trouble::protocol(format!(
            "the body has more than {CODINGS_MAX} content codings"
        )));
    }
    let (mut out, mut is_whole) = (None::<Body>, true);
    if wire.is_empty() {
        return Ok((out, is_whole));
    }
    // The last one was applied last.
    for coding in codings.into_iter().rev() {
        let packed = out.as_deref().unwrap_or(wire);
        let (unpacked, is_all) = undo_one(coding, packed, most)?;
        is_whole &= is_all;
        out = Some(unpacked);
    }
    Ok((out, is_whole))
}

fn undo_one(coding: &str, packed: &[u8], most: usize) -> Result<(Body, bool), Trouble> {
    let (out, is_whole) = match coding {
        "gzip" | "x-gzip" => decompressed(MultiGzDecoder::new(packed), most)?,
        // The standard means zlib; some servers never knew.
        "deflate" => match decompressed(ZlibDecoder::new(packed), most)? {
            (out, false) if out.is_empty() => decompressed(DeflateDecoder::new(packed), most)?,
            zlib => zlib,
        },
        other => {
            return Err(Trouble::protocol(format!(
                "the body has the content coding {}, which was not asked for",
                Named(other)
            )));
        }
    };
    // Where our own limit or damage cut it, what came before is good.
    if !is_whole && out.is_empty() && !packed.is_empty() {
        return Err(Trouble::protocol(
            "the body is not compressed as its head says",
        ));
    }
    Ok((out, is_whole))
}

/// What comes out, up to `most` bytes, and whether that is all.
fn decompressed(mut source: impl Read, most: usize) -> Result<(Body, bool), Trouble> {
    let mut out = Body::default();
    loop {
        // One byte more than the limit tells that there is more.
        let room = out.room((most.saturating_add(1) - out.len()).min(STEP_BYTES))?;
        match source.read(room) {
            Ok(0) => return Ok((out, true)),
            Ok(count) => out.wrote(count),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_damaged) => return Ok((out, false)),
        }
        if out.len() > most {
            out.truncate(most);
            return Ok((out, false));
        }
    }
}
