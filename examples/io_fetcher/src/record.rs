//! What the values of the index hold, and their bytes.

use common::codec::{Malformed, Reader, put_bytes, put_number, put_signed};

use crate::keys::Hash;

/// First byte of a record of more than a few bytes. Written to disk.
const VERSION: u8 = 1;

/// Frames hold no more than this, so that a damaged length cannot ask for much memory.
pub(crate) const FRAME_BYTES_MAX: u32 = 4 << 20;

/// What tells that a file has not changed since, in the manner of rsync, and more strictly: a
/// change of content always changes ctime.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stamp {
    pub(crate) size: u64,
    /// Nanoseconds since 1970.
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
    pub(crate) inode: u64,
}

/// What a name stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// A file with the content of this document; 0 is the empty one.
    File { document: u64 },
    /// A symbolic link, never followed.
    Link { target: Vec<u8> },
    /// A directory, which has a record of its own.
    Directory,
}

/// One name of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) what: What,
    pub(crate) stamp: Stamp,
    pub(crate) mode: u32,
    /// It was not there when its directory was last looked at; what it held is kept.
    pub(crate) is_gone: bool,
    /// It had been changed a moment before it was read: a later change may have left the stamp as
    /// it is, so the stamp says nothing.
    pub(crate) is_racy: bool,
    /// A file without holes: zeros in it take space.
    pub(crate) is_dense: bool,
}

const LINK: u8 = 1;
const GONE: u8 = 2;
const RACY: u8 = 4;
const DIRECTORY: u8 = 8;
/// Older records lack it: zeros of their files become holes.
const DENSE: u8 = 16;
const NANOS: i64 = 1_000_000_000;

/// Names of a directory in order. Each entry is written as the difference to the one before it,
/// which makes about 30 bytes of most.
pub(crate) fn encode_directory<'e>(entries: impl Iterator<Item = &'e Entry> + Clone) -> Vec<u8> {
    let mut out = vec![VERSION];
    put_number(&mut out, entries.clone().count() as u64);
    let mut before = Before::default();
    for entry in entries {
        let kind = match entry.what {
            What::File { .. } => 0,
            What::Link { .. } => LINK,
            What::Directory => DIRECTORY,
        };
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(entry.is_gone, GONE) | flag(entry.is_racy, RACY);
        out.push(kind | flags | flag(entry.is_dense, DENSE));
        let shared = shared_prefix(&before.name, &entry.name);
        put_number(&mut out, shared as u64);
        put_bytes(&mut out, &entry.name[shared..]);
        let stamp = &entry.stamp;
        put_number(&mut out, stamp.size);
        for (time, last) in [
            (stamp.mtime, before.stamp.mtime),
            (stamp.ctime, before.stamp.ctime),
        ] {
            let seconds = time.div_euclid(NANOS);
            put_signed(&mut out, seconds - last.div_euclid(NANOS));
            put_number(&mut out, time.rem_euclid(NANOS) as u64);
        }
        put_signed(
            &mut out,
            stamp.inode.wrapping_sub(before.stamp.inode) as i64,
        );
        put_signed(&mut out, i64::from(entry.mode) - i64::from(before.mode));
        match &entry.what {
            What::File { document } => {
                put_signed(&mut out, document.wrapping_sub(before.document) as i64);
                before.document = *document;
            }
            What::Link { target } => put_bytes(&mut out, target),
            What::Directory => {}
        }
        before.name.clone_from(&entry.name);
        before.stamp = *stamp;
        before.mode = entry.mode;
    }
    out
}

/// What the next entry is told apart from.
#[derive(Default)]
struct Before {
    name: Vec<u8>,
    stamp: Stamp,
    mode: u32,
    document: u64,
}

fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Undoes [`encode_directory`].
pub(crate) fn decode_directory(bytes: &[u8]) -> Result<Vec<Entry>, Malformed> {
    let mut reader = versioned(bytes)?;
    let count = reader.count()?;
    let mut entries = Vec::new();
    let mut before = Before::default();
    for _ in 0..count {
        let entry = decode_entry(&mut reader, &mut before)?;
        entries.push(entry);
    }
    reader.end()?;
    Ok(entries)
}

fn decode_entry(reader: &mut Reader<'_>, before: &mut Before) -> Result<Entry, Malformed> {
    let flags = reader.byte()?;
    let shared = usize::try_from(reader.number()?).ok().ok_or(Malformed)?;
    let mut name = before.name.get(..shared).ok_or(Malformed)?.to_vec();
    name.extend_from_slice(reader.bytes()?);
    let size = reader.number()?;
    let mtime = decode_time(reader, before.stamp.mtime)?;
    let ctime = decode_time(reader, before.stamp.ctime)?;
    let inode = before.stamp.inode.wrapping_add(reader.signed()? as u64);
    let mode = i64::from(before.mode)
        .checked_add(reader.signed()?)
        .and_then(|mode| u32::try_from(mode).ok())
        .ok_or(Malformed)?;
    let what = match flags & (LINK | DIRECTORY) {
        0 => {
            before.document = before.document.wrapping_add(reader.signed()? as u64);
            What::File {
                document: before.document,
            }
        }
        LINK => What::Link {
            target: reader.bytes()?.to_vec(),
        },
        DIRECTORY => What::Directory,
        _ => return Err(Malformed),
    };
    before.name.clone_from(&name);
    before.mode = mode;
    before.stamp = Stamp {
        size,
        mtime,
        ctime,
        inode,
    };
    Ok(Entry {
        name,
        what,
        stamp: before.stamp,
        mode,
        is_gone: flags & GONE != 0,
        is_racy: flags & RACY != 0,
        is_dense: flags & DENSE != 0,
    })
}

fn decode_time(reader: &mut Reader<'_>, last: i64) -> Result<i64, Malformed> {
    let seconds = last.div_euclid(NANOS).checked_add(reader.signed()?);
    let nanos = i64::try_from(reader.number()?).ok().ok_or(Malformed)?;
    // The least time is less than a whole number of seconds can say: wrap there and back.
    let seconds = seconds.ok_or(Malformed)?;
    Ok(seconds.wrapping_mul(NANOS).wrapping_add(nanos))
}

fn versioned(bytes: &[u8]) -> Result<Reader<'_>, Malformed> {
    let mut reader = Reader(bytes);
    match reader.byte()? {
        VERSION => Ok(reader),
        _ => Err(Malformed),
    }
}

/// Stored bytes: compressed, unless that would not have made them fewer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    /// Where it begins in the packs, taken as one.
    pub(crate) address: u64,
    pub(crate) stored: u32,
    pub(crate) raw: u32,
}

/// A part of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) frame: Frame,
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Span {
    pub(crate) fn whole(frame: Frame) -> Span {
        Span {
            frame,
            start: 0,
            len: frame.raw,
        }
    }
}

/// A content, once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Document {
    pub(crate) size: u64,
    pub(crate) hash: Hash,
    /// In order; together they are the content.
    pub(crate) spans: Vec<Span>,
}

impl Document {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_number(&mut out, self.size);
        out.extend_from_slice(&self.hash);
        put_number(&mut out, self.spans.len() as u64);
        let mut next = 0;
        for span in &self.spans {
            encode_span(span, next, &mut out);
            next = span.frame.address + u64::from(span.frame.stored);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Document, Malformed> {
        let mut reader = versioned(bytes)?;
        let size = reader.number()?;
        let hash = reader.array()?;
        let count = reader.count()?;
        let mut spans = Vec::new();
        let mut next = 0;
        for _ in 0..count {
            let span = decode_span(&mut reader, next)?;
            next = span
                .frame
                .address
                .wrapping_add(u64::from(span.frame.stored));
            spans.push(span);
        }
        reader.end()?;
        let sum: u64 = spans.iter().map(|span| u64::from(span.len)).sum();
        (sum == size).then_some(()).ok_or(Malformed)?;
        Ok(Document { size, hash, spans })
    }
}

/// A span; `next` is where it is likely to begin.
pub(crate) fn encode_span(span: &Span, next: u64, out: &mut Vec<u8>) {
    let frame = &span.frame;
    put_signed(out, frame.address.wrapping_sub(next) as i64);
    put_number(out, u64::from(frame.stored));
    put_number(out, u64::from(frame.raw));
    put_number(out, u64::from(span.start));
    put_number(out, u64::from(frame.raw - span.start - span.len));
}

pub(crate) fn decode_span(reader: &mut Reader<'_>, next: u64) -> Result<Span, Malformed> {
    let address = next.wrapping_add(reader.signed()? as u64);
    let mut short = || -> Result<u32, Malformed> {
        let number = reader.small()?;
        (number <= FRAME_BYTES_MAX)
            .then_some(number)
            .ok_or(Malformed)
    };
    let (stored, raw, start, left) = (short()?, short()?, short()?, short()?);
    let len = raw
        .checked_sub(start)
        .and_then(|rest| rest.checked_sub(left));
    Ok(Span {
        frame: Frame {
            address,
            stored,
            raw,
        },
        start,
        len: len.ok_or(Malformed)?,
    })
}

/// A file that has not been read as far as a comparison might need.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    pub(crate) path: Vec<u8>,
    pub(crate) stamp: Stamp,
}

/// What is known under a size or the fingerprint of a first block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// One document; where it can be read to compare more of it, if that has not been done.
    One {
        document: u64,
        origin: Option<Origin>,
    },
    /// Several, told apart by more of their content.
    Several,
}

impl Known {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Known::Several => out.push(0),
            Known::One { document, origin } => {
                out.push(1 + u8::from(origin.is_some()));
                put_number(&mut out, *document);
                if let Some(origin) = origin {
                    put_bytes(&mut out, &origin.path);
                    put_number(&mut out, origin.stamp.size);
                    put_signed(&mut out, origin.stamp.mtime);
                    put_signed(&mut out, origin.stamp.ctime);
                    put_number(&mut out, origin.stamp.inode);
                }
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Known, Malformed> {
        let mut reader = Reader(bytes);
        let kind = reader.byte()?;
        if kind == 0 {
            return Ok(Known::Several);
        }
        let document = reader.number()?;
        let origin = match kind {
            1 => None,
            2 => Some(Origin {
                path: reader.bytes()?.to_vec(),
                stamp: Stamp {
                    size: reader.number()?,
                    mtime: reader.signed()?,
                    ctime: reader.signed()?,
                    inode: reader.number()?,
                },
            }),
            _ => return Err(Malformed),
        };
        reader.end()?;
        Ok(Known::One { document, origin })
    }
}

/// What was fetched from a URL.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) document: u64,
    pub(crate) size: u64,
    /// Seconds since 1970.
    pub(crate) at: u64,
    pub(crate) etag: Vec<u8>,
    pub(crate) last_modified: Vec<u8>,
}

impl Fetched {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        for number in [self.document, self.size, self.at] {
            put_number(&mut out, number);
        }
        put_bytes(&mut out, &self.etag);
        put_bytes(&mut out, &self.last_modified);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Fetched, Malformed> {
        let mut reader = versioned(bytes)?;
        let fetched = Fetched {
            document: reader.number()?,
            size: reader.number()?,
            at: reader.number()?,
            etag: reader.bytes()?.to_vec(),
            last_modified: reader.bytes()?.to_vec(),
        };
        reader.end()?;
        Ok(fetched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &[u8], what: What, times: i64) -> Entry {
        Entry {
            name: name.to_vec(),
            what,
            stamp: Stamp {
                size: 17,
                mtime: times,
                ctime: times / 3,
                inode: u64::MAX,
            },
            mode: 0o100_644,
            is_gone: times < 0,
            is_racy: times > 0,
            is_dense: times % 3 == 0,
        }
    }

    #[test]
    fn directories_come_back() {
        let entries = vec![
            entry(b"", What::File { document: 9 }, 1_700_000_000_123_456_789),
            entry(b"abc", What::File { document: 3 }, i64::MIN),
            entry(
                b"abd\xff",
                What::Link {
                    target: b"../x".to_vec(),
                },
                i64::MAX,
            ),
            entry(b"b", What::File { document: u64::MAX }, -1),
            entry(b"c", What::Directory, 0),
        ];
        let bytes = encode_directory(entries.iter());
        assert_eq!(decode_directory(&bytes).unwrap(), entries);
        for len in 0..bytes.len() {
            assert_eq!(decode_directory(&bytes[..len]), Err(Malformed), "{len}");
        }
        // Any damaged byte is an error or another directory, never a panic.
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x81;
            drop(decode_directory(&damaged));
        }
    }

    #[test]
    fn documents_come_back() {
        let frame = |address, raw| Frame {
            address,
            stored: 10,
            raw,
        };
        let document = Document {
            size: 4096 + 5,
            hash: [7; 32],
            spans: vec![
                Span::whole(frame(1 << 40, 4096)),
                Span {
                    frame: frame(3, 100),
                    start: 20,
                    len: 5,
                },
            ],
        };
        let bytes = document.encode();
        assert_eq!(Document::decode(&bytes).unwrap(), document);
        for len in 0..bytes.len() {
            assert_eq!(Document::decode(&bytes[..len]), Err(Malformed), "{len}");
        }
    }

    #[test]
    fn what_is_known_comes_back() {
        let origin = Origin {
            path: b"/a/\xff".to_vec(),
            stamp: Stamp {
                size: 1,
                mtime: -5,
                ctime: 6,
                inode: 7,
            },
        };
        for known in [
            Known::Several,
            Known::One {
                document: 5,
                origin: None,
            },
            Known::One {
                document: 6,
                origin: Some(origin),
            },
        ] {
            assert_eq!(Known::decode(&known.encode()).unwrap(), known);
        }
        assert_eq!(Known::decode(&[9, 1]), Err(Malformed));
        let fetched = Fetched {
            document: 1,
            etag: b"\"x\"".to_vec(),
            ..Fetched::default()
        };
        assert_eq!(Fetched::decode(&fetched.encode()).unwrap(), fetched);
    }
}
