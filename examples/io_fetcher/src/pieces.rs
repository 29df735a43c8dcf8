//! Stores documents: whole, or cut into pieces of which only the new ones are stored.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use common::codec::Reader;

use crate::args::Granularity;
use crate::content::Job;
use crate::exit::Failure;
use crate::ingest::{GOES_ON, Run};
use crate::keys::{Fingerprint, Table};
use crate::ledger::malformed;
use crate::pack::Packs;
use crate::parallel;
use crate::read::{self, BLOCK_BYTES, CHUNK_BYTES, Sources};
use crate::record::{Document, Frame, Span, decode_span, encode_span};
use crate::split::{Cuts, Splitter};

/// Keys that wait for their batch while one document is cut.
const PENDING_MAX: usize = 16_384;

/// Lines of larger documents are not looked at: their places are held in memory.
const LINES_BYTES_MAX: u64 = 64 << 20;

/// A document, and the bytes that were written for it.
pub(crate) type Stored = (Document, u64);

/// Why a document was not stored: it is skipped, or everything ends.
enum Ended {
    Skipped(String),
    Failed(Failure),
}

impl From<String> for Ended {
    fn from(what: String) -> Ended {
        Ended::Skipped(what)
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Ended {
        Ended::Failed(failure)
    }
}

/// Stores documents, and returns them with the bytes that were written for each. Those that cannot be
/// read to their end have a sentence instead.
pub(crate) fn store(
    run: &mut Run<'_>,
    jobs: &[Job<'_>],
) -> Result<Vec<Result<Stored, String>>, Failure> {
    let stored: Vec<Result<Stored, Ended>> = match run.args.granularity {
        Granularity::Document => {
            let (packs, sources) = (&run.archive.packs, &run.sources);
            parallel::map(run.threads, jobs, |job| {
                let document = whole(packs, sources, job)?;
                let frames = document
                    .spans
                    .iter()
                    .map(|span| u64::from(span.frame.stored));
                let written = frames.sum();
                Ok((document, written))
            })
        }
        // One after the other: each is to find the pieces of those before it.
        _ => {
            let written = || run.archive.packs.written_bytes.load(Ordering::Relaxed);
            let mut store = |job| {
                let before = written();
                let document = one(run, job)?;
                Ok((document, written() - before))
            };
            jobs.iter().map(&mut store).collect()
        }
    };
    stored
        .into_iter()
        .map(|stored| match stored {
            Ok(stored) => Ok(Ok(stored)),
            Err(Ended::Skipped(what)) => Ok(Err(what)),
            Err(Ended::Failed(failure)) => Err(failure),
        })
        .collect()
}

fn one(run: &mut Run<'_>, job: &Job<'_>) -> Result<Document, Ended> {
    let average = run.args.block_bytes as usize;
    let size = job.work.stamp.size;
    let is_long = size > average as u64;
    let cuts = match run.args.granularity {
        Granularity::Document => None,
        Granularity::Block => is_long.then_some(Cuts::Block(average)),
        Granularity::Cdc => is_long.then_some(Cuts::Content(average)),
        Granularity::Auto => run.auto.cuts(average).filter(|_| is_long),
        Granularity::Line => {
            let is_text = !job.first.contains(&0) && size <= LINES_BYTES_MAX;
            is_text.then_some(Cuts::Line)
        }
    };
    let before = run.counts;
    let document = match cuts {
        Some(cuts) => cut(run, job, cuts),
        None => whole(&run.archive.packs, &run.sources, job),
    };
    let counts = &run.counts;
    let found = counts.pieces_found - before.pieces_found;
    run.auto.stored(
        size,
        counts.pieces - before.pieces - found,
        counts.pieces_found_bytes - before.pieces_found_bytes,
    );
    document
}

/// The first block is a frame of its own, so that it can be read alone.
fn whole(packs: &Packs, sources: &Sources, job: &Job<'_>) -> Result<Document, Ended> {
    let mut hasher = blake3::Hasher::new();
    let mut spans = Vec::new();
    let work = job.work;
    sources.chunks((&work.path, &work.stamp), job.first, |chunk| {
        hasher.update(chunk);
        let first = if spans.is_empty() { BLOCK_BYTES } else { 0 };
        let (first, rest) = chunk.split_at(first.min(chunk.len()));
        for part in [first, rest].into_iter().filter(|part| !part.is_empty()) {
            spans.push(Span::whole(append(packs, part)?));
        }
        Ok::<(), Ended>(())
    })?;
    Ok(Document {
        size: work.stamp.size,
        hash: *hasher.finalize().as_bytes(),
        spans,
    })
}

fn append(packs: &Packs, raw: &[u8]) -> Result<Frame, Failure> {
    let cannot = |error| Failure::io(format!("cannot write to the packs; {GOES_ON}"), &error);
    packs.append(raw).map_err(cannot)
}

fn cut(run: &mut Run<'_>, job: &Job<'_>, cuts: Cuts) -> Result<Document, Ended> {
    let mut hasher = blake3::Hasher::new();
    let mut splitter = Splitter::new(cuts);
    let mut cutting = Cutting::new(cuts);
    // The files are read through a counter of their own, as the run is borrowed meanwhile.
    let sources = std::mem::take(&mut run.sources);
    let work = job.work;
    let read = sources.chunks((&work.path, &work.stamp), job.first, |chunk| {
        hasher.update(chunk);
        splitter.feed(chunk, |piece| cutting.take(run, piece))?;
        Ok::<(), Ended>(())
    });
    run.sources = sources;
    read?;
    splitter.feed(&[], |piece| cutting.take(run, piece))?;
    cutting.seal(run)?;
    Ok(Document {
        size: work.stamp.size,
        hash: *hasher.finalize().as_bytes(),
        spans: cutting.spans,
    })
}

/// A document while it is cut. New lines are gathered into a frame; until it is written, spans in
/// it have an address that no frame has.
struct Cutting {
    is_gathered: bool,
    spans: Vec<Span>,
    gathered: Vec<u8>,
    /// Lines in the gathered frame, and where.
    new: BTreeMap<Fingerprint, (u32, u32)>,
    /// Spans in the gathered frame.
    open: Vec<usize>,
}

const UNWRITTEN: Frame = Frame {
    address: u64::MAX,
    stored: 0,
    raw: 0,
};

impl Cutting {
    fn new(cuts: Cuts) -> Cutting {
        Cutting {
            is_gathered: cuts == Cuts::Line,
            spans: Vec::new(),
            gathered: Vec::new(),
            new: BTreeMap::new(),
            open: Vec::new(),
        }
    }

    fn take(&mut self, run: &mut Run<'_>, piece: &[u8]) -> Result<(), Failure> {
        run.counts.pieces += 1;
        let fingerprint = read::fingerprint(piece);
        if let Some(&(start, len)) = self.new.get(&fingerprint) {
            found(run, piece);
            self.push(UNWRITTEN, start, len);
            return Ok(());
        }
        if let Some(value) = run.ledger.get(Table::Piece, &fingerprint)? {
            let span = decode_span(&mut Reader(&value), 0).map_err(malformed("a block"))?;
            found(run, piece);
            self.push(span.frame, span.start, span.len);
            return Ok(());
        }
        if self.is_gathered {
            let (start, len) = (self.gathered.len() as u32, piece.len() as u32);
            self.gathered.extend_from_slice(piece);
            self.new.insert(fingerprint, (start, len));
            self.push(UNWRITTEN, start, len);
            if self.gathered.len() >= CHUNK_BYTES {
                self.seal(run)?;
            }
            return Ok(());
        }
        let frame = append(&run.archive.packs, piece)?;
        self.push(frame, 0, frame.raw);
        enter(run, &fingerprint, &Span::whole(frame))
    }

    /// Adds a span, or lengthens the last one if this follows it.
    fn push(&mut self, frame: Frame, start: u32, len: u32) {
        if let Some(last) = self.spans.last_mut()
            && last.frame == frame
            && last.start + last.len == start
        {
            last.len += len;
            return;
        }
        if frame == UNWRITTEN {
            self.open.push(self.spans.len());
        }
        self.spans.push(Span { frame, start, len });
    }

    /// Writes the gathered frame and enters its lines.
    fn seal(&mut self, run: &mut Run<'_>) -> Result<(), Failure> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let frame = append(&run.archive.packs, &self.gathered)?;
        for at in self.open.drain(..) {
            self.spans[at].frame = frame;
        }
        for (fingerprint, (start, len)) in std::mem::take(&mut self.new) {
            enter(run, &fingerprint, &Span { frame, start, len })?;
        }
        self.gathered.clear();
        Ok(())
    }
}

fn found(run: &mut Run<'_>, piece: &[u8]) {
    run.counts.pieces_found += 1;
    run.counts.pieces_found_bytes += piece.len() as u64;
}

/// Pieces need not wait for their document: should the run end here, the next one finds them.
fn enter(run: &mut Run<'_>, fingerprint: &Fingerprint, span: &Span) -> Result<(), Failure> {
    let mut value = Vec::new();
    encode_span(span, 0, &mut value);
    run.ledger.put(Table::Piece, fingerprint, value);
    match run.ledger.pending() > PENDING_MAX {
        true => run.commit_pieces(),
        false => Ok(()),
    }
}
