//! `gc`: gives back the space of contents that no name has any more.
//!
//! 1. Marks the documents that have a name, and the blocks of the packs where their frames lie.
//! 2. Removes what leads to other documents from the index, their records last: a run that ends early
//!    leaves nothing that leads nowhere. Pieces stay as long as all of their frame is marked.
//! 3. Syncs, and only then makes holes of the blocks that are not marked. Nothing is copied and every
//!    address stays as it is. Killed before the end, the next run makes the same holes.
//!
//! Memory: a bit for each document and for each block.

use common::codec::Reader;
use serde_json::json;

use indicatif::HumanBytes;

use crate::archive::Archive;
use crate::args::GcArgs;
use crate::changes::Changes;
use crate::exit::{self, Exit, Failure};
use crate::keys::{self, Table};
use crate::ledger::malformed;
use crate::list;
use crate::pack::{BLOCK_BYTES, Packs};
use crate::read;
use crate::record::{Document, Frame, Known, What, decode_span};

pub(crate) fn run(args: &GcArgs) -> Result<Exit, Failure> {
    let archive = Archive::open_to_change(&args.store.store)?;
    if archive.is_index_only {
        return Err(Failure::usage(
            "this store was made with --index-only and has no content; to be rid of what it knows, \
             remove it and ingest again",
        ));
    }
    let before = Packs::bytes_on_disk(&archive.packs_folder());
    let collected = collect(&archive, &mut Changes::new(&archive))?;
    let after = Packs::bytes_on_disk(&archive.packs_folder());
    archive.db.close()?;
    let freed = before.saturating_sub(after);
    let text = match args.store.json {
        true => format!(
            "{}\n",
            json!({
                "contents_kept": collected.kept,
                "contents_removed": collected.removed,
                "pieces_removed": collected.pieces,
                "pack_bytes_before": before,
                "pack_bytes_after": after,
            })
        ),
        false => format!(
            "{} contents removed, {} kept; {} given back, {} left in packs\n",
            collected.removed,
            collected.kept,
            HumanBytes(freed),
            HumanBytes(after)
        ),
    };
    exit::say(text.as_bytes())?;
    Ok(Exit::Done)
}

/// What a collection has done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Collected {
    pub(crate) kept: u64,
    pub(crate) removed: u64,
    pub(crate) pieces: u64,
}

/// Documents, and blocks of the packs (16 TiB): what the index says is not believed beyond.
const MARKS_MAX: u64 = 1 << 32;

/// A set of numbers up to [`MARKS_MAX`].
#[derive(Default)]
struct Marks(Vec<u64>);

impl Marks {
    fn set(&mut self, number: u64) {
        let at = (number / 64) as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] |= 1 << (number % 64);
    }

    fn has(&self, number: u64) -> bool {
        let word = self.0.get((number / 64) as usize);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

/// Everything but what is printed.
pub(crate) fn collect(archive: &Archive, changes: &mut Changes<'_>) -> Result<Collected, Failure> {
    let blocks = archive.packs.end() / BLOCK_BYTES;
    if archive.next_document.max(blocks) > MARKS_MAX {
        return Err(Failure::damaged(
            "the last batch tells of more than a store can hold; `check` says more",
        ));
    }
    let named = named(archive)?;
    let mut blocks = Marks::default();
    let mut collected = Collected::default();
    let mut dead = Vec::new();
    for record in &archive.tables[Table::Document] {
        let (key, value) = record?;
        if !named.has(keys::document_number(&key)) {
            dead.push(keys::document_number(&key));
            continue;
        }
        collected.kept += 1;
        let document = Document::decode(&value).map_err(malformed("a document"))?;
        for span in &document.spans {
            for block in blocks_of(&span.frame, archive.packs.end())? {
                blocks.set(block);
            }
        }
    }
    collected.removed = dead.len() as u64;
    leads(archive, &named, changes)?;
    collected.pieces = pieces(archive, &blocks, changes)?;
    for number in dead {
        changes.delete(Table::Document, &keys::document(number))?;
    }
    changes.commit()?;
    archive.db.sync()?;
    let cannot = |error| {
        let what = "cannot give back space in the packs (the file system has to know holes, as ext4, \
                    xfs, btrfs and tmpfs do); the store is sound";
        Failure::io(what, &error)
    };
    archive
        .packs
        .free(|block| !blocks.has(block))
        .map_err(cannot)?;
    Ok(collected)
}

/// The documents that names have, gone or not.
fn named(archive: &Archive) -> Result<Marks, Failure> {
    let mut named = Marks::default();
    list::each(archive, &[], |name| {
        if let What::File { document } = name.what {
            if document >= archive.next_document {
                return Err(Failure::damaged(
                    "a name leads to a content that was never stored; `check` says more",
                ));
            }
            named.set(document);
        }
        Ok(())
    })?;
    Ok(named)
}

fn blocks_of(frame: &Frame, end: u64) -> Result<std::ops::RangeInclusive<u64>, Failure> {
    let last = frame
        .address
        .checked_add(u64::from(frame.stored).max(1) - 1);
    match last.filter(|&last| last < end) {
        Some(last) => Ok(frame.address / BLOCK_BYTES..=last / BLOCK_BYTES),
        None => Err(Failure::damaged(
            "a content lies behind the end of the packs; `check` says more",
        )),
    }
}

/// Removes what leads to documents without a name.
fn leads(archive: &Archive, named: &Marks, changes: &mut Changes<'_>) -> Result<(), Failure> {
    let number = |value: &[u8]| Reader(value).number().map_err(malformed("a content"));
    for record in &archive.tables[Table::Whole] {
        let (key, value) = record?;
        if !named.has(number(&value)?) {
            changes.delete(Table::Whole, &key)?;
        }
    }
    for record in &archive.tables[Table::Inode] {
        let (key, value) = record?;
        let known = Known::decode(&value).map_err(malformed("a file with several names"))?;
        if matches!(known, Known::One { document, .. } if !named.has(document)) {
            changes.delete(Table::Inode, &key)?;
        }
    }
    for record in &archive.tables[Table::FirstBlock] {
        let (key, value) = record?;
        let number = number(&value)?;
        if number == keys::SEVERAL || named.has(number) {
            continue;
        }
        // Others may begin with the same block: then they are found by their hash.
        let size = archive.document(number).map(|document| document.size);
        match size.is_ok_and(|size| size <= read::BLOCK_BYTES as u64) {
            true => changes.delete(Table::FirstBlock, &key)?,
            false => changes.put(Table::FirstBlock, &key, &[keys::SEVERAL as u8])?,
        }
    }
    Ok(())
}

/// Removes the pieces that lie where there will be holes; how many.
fn pieces(archive: &Archive, blocks: &Marks, changes: &mut Changes<'_>) -> Result<u64, Failure> {
    let mut removed = 0;
    for record in &archive.tables[Table::Piece] {
        let (key, value) = record?;
        let span = decode_span(&mut Reader(&value), 0).map_err(malformed("a piece"))?;
        let is_there = blocks_of(&span.frame, archive.packs.end())?.all(|block| blocks.has(block));
        if !is_there {
            changes.delete(Table::Piece, &key)?;
            removed += 1;
        }
    }
    Ok(removed)
}
