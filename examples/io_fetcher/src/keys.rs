//! The key layout: one letter for the kind, then what it is looked up by.
//!
//! | key | value |
//! |---|---|
//! | `M` | what the store is: format, index only or with content |
//! | `N` | next document number, end of the packs: written with every batch |
//! | `T` | counters of all runs |
//! | `D` path | directory: names, stamps, document numbers |
//! | `U` URL | what was fetched: validators, document number |
//! | `I` device, inode | content of a file with several names |
//! | `S` size | index only: the one document of this size, or "several" |
//! | `F` fingerprint | a document with this size and first block; 0 stands for several, told apart by hash |
//! | `W` hash | the document with this content |
//! | `B` fingerprint | where this block or line is stored |
//! | `d` number | document: size, hash, where its content is |

use std::path::{Path, PathBuf};

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

pub(crate) const META: &[u8] = b"M";
pub(crate) const NEXT: &[u8] = b"N";
pub(crate) const TOTALS: &[u8] = b"T";
pub(crate) const DIRECTORY: u8 = b'D';
pub(crate) const URL: u8 = b'U';
pub(crate) const DOCUMENT: u8 = b'd';
pub(crate) const INODE: u8 = b'I';
pub(crate) const FIRST_BLOCK: u8 = b'F';
pub(crate) const WHOLE: u8 = b'W';
/// The first letter there is: `Ledger::commit_pieces` relies on it.
pub(crate) const PIECE: u8 = b'B';

/// With content, in place of a document number under `F`: ask for the whole hash. (The empty
/// document, whose number this is, has no first block.)
pub(crate) const SEVERAL: u64 = 0;

/// Bytes of a fingerprint: no two contents share one unless someone does 2^80 work for it.
pub(crate) const FINGERPRINT_BYTES: usize = 20;

/// A truncated hash of a first block, a block or a line.
pub(crate) type Fingerprint = [u8; FINGERPRINT_BYTES];

/// The hash of a whole document.
pub(crate) type Hash = [u8; 32];

fn key(letter: u8, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + rest.len());
    key.push(letter);
    key.extend_from_slice(rest);
    key
}

/// Keys have at most 65,535 bytes; paths and URLs beyond are refused by the caller.
pub(crate) const NAME_BYTES_MAX: usize = 65_000;

/// A slash becomes a zero byte, which no name has: so keys are in the order of a sorted walk.
pub(crate) fn directory(path: &Path) -> Vec<u8> {
    let mut key = key(DIRECTORY, path.as_os_str().as_bytes());
    for byte in &mut key[1..] {
        if *byte == b'/' {
            *byte = 0;
        }
    }
    key
}

/// Undoes [`directory`].
pub(crate) fn directory_path(key: &[u8]) -> PathBuf {
    let path: Vec<u8> = key[1..]
        .iter()
        .map(|&byte| if byte == 0 { b'/' } else { byte })
        .collect();
    PathBuf::from(OsStr::from_bytes(&path))
}

pub(crate) fn url(url: &str) -> Vec<u8> {
    key(URL, url.as_bytes())
}

pub(crate) fn inode(device: u64, inode: u64) -> Vec<u8> {
    let mut rest = [0; 16];
    rest[..8].copy_from_slice(&device.to_le_bytes());
    rest[8..].copy_from_slice(&inode.to_le_bytes());
    key(INODE, &rest)
}

pub(crate) fn size(size: u64) -> Vec<u8> {
    key(b'S', &size.to_le_bytes())
}

pub(crate) fn first_block(fingerprint: &Fingerprint) -> Vec<u8> {
    key(FIRST_BLOCK, fingerprint)
}

pub(crate) fn whole(hash: &Hash) -> Vec<u8> {
    key(WHOLE, hash)
}

pub(crate) fn piece(fingerprint: &Fingerprint) -> Vec<u8> {
    key(PIECE, fingerprint)
}

/// Most significant byte first, so that documents are in the order of their numbers.
pub(crate) fn document(number: u64) -> Vec<u8> {
    let bytes: [u8; 8] = std::array::from_fn(|at| (number >> (56 - 8 * at)) as u8);
    key(DOCUMENT, &bytes)
}

/// Undoes [`document`].
pub(crate) fn document_number(key: &[u8]) -> u64 {
    key[1..]
        .iter()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_sort_as_they_are_walked() {
        let paths = ["/a", "/a/b", "/a/b/c", "/a.b", "/a0"];
        let keys: Vec<_> = paths
            .iter()
            .map(|path| directory(Path::new(path)))
            .collect();
        assert!(keys.is_sorted(), "{keys:?}");
        for (key, path) in keys.iter().zip(paths) {
            assert_eq!(directory_path(key), Path::new(path));
        }
    }

    #[test]
    fn documents_sort_by_number() {
        for number in [0, 1, 255, 256, u64::MAX] {
            assert_eq!(document_number(&document(number)), number);
        }
        assert!(document(255) < document(256));
    }
}
