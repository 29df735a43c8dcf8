//! The command line: what can be asked, and the text of `--help`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use criba::{Compression, Durability};

use crate::choice::{self, FilterChoice, Operator};
use crate::exit;
#[cfg(feature = "lab")]
use crate::lab::args::LabArgs;
#[cfg(feature = "study")]
use crate::study::args::StudyArgs;

/// An embedded key-value store whose segments carry a filter that also says where the key is.
#[derive(Parser, Debug)]
#[command(name = "criba", version, after_help = exit::HELP, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Measure how filters cut disk reads, on generated keys or on the lines of a file.
    ///
    /// The same keys are loaded into one store for each filter, dealt by hash into runs that overlap
    /// in key range, as flushes leave them before any compaction. Then keys that are there and keys
    /// that are not, which lie between them in key order, are looked up in random order, with only
    /// filters and index in memory. Every read is counted by the storage, every answer is checked.
    /// A lookup of a key that is there stops at the first run that has it. The stores are made in a
    /// directory of their own, criba-study-..., which is removed at the end, also after an error,
    /// though not if the process is killed.
    ///
    /// With --tree the stores are compacted by each strategy instead, and the same memory for
    /// filters is compared: the same bits for every key, or a budget shared out so that small runs
    /// get more. Generated keys are loaded in random order into a small memtable, so that the tree
    /// is as deep as that of a store many times larger; lookups begin when compaction has settled.
    ///
    /// With --scans it is the blocks that scans read, of ranges without an entry and with some: in runs
    /// as flushes leave them and in the trees of all strategies, with and without range filters.
    #[cfg(feature = "study")]
    Study(Box<StudyArgs>),
    /// Measure what filters and sketches do, beside what theory says they do.
    ///
    /// Each experiment answers one question: how the rate of false positives grows while a filter
    /// fills, what half of the memory costs, how far the counts of a sketch are off. Sets and streams
    /// are made from the seed, so rates and errors repeat; times do not. With all experiments and the
    /// default size it takes less than half a minute.
    #[cfg(feature = "lab")]
    Lab(LabArgs),
    /// Store a value under a key; the store is made if it is not there.
    Put(PutArgs),
    /// Print the value of a key.
    ///
    /// On a terminal the value is shown as escaped ASCII (\x1b and so on) with a line feed; anywhere
    /// else its bytes are written as they are, and nothing else.
    Get(GetArgs),
    /// Delete a key. It is no error if the key is not there.
    Delete(DeleteArgs),
    /// Print entries in key order, one to a line: key, tab, value, both as escaped ASCII.
    Scan(ScanArgs),
    /// Load lines of `key TAB value` or JSON objects, as `export` writes them.
    ///
    /// In text, \\ \t \n \r and \xNN stand for a byte each; any other byte stands for itself, and
    /// what follows the first tab is the value. With --json a line is an object with the string
    /// fields "key" and "value", or "key_base64" and "value_base64" for bytes that are not UTF-8. A
    /// line that begins with \+, or an object with "operand" in place of "value", is an operand. A
    /// line \=NAME, or an object with the field "keyspace" alone, names the keyspace of the lines
    /// after it, which is made if it is not there. Empty lines are skipped. The input is read as a stream; when a line is not valid, everything
    /// before it is in the store. After success everything is on stable storage, in segments with
    /// the filter that was chosen.
    Import(ImportArgs),
    /// Write all entries as lines that `import` reads back without loss.
    ///
    /// The lines of one keyspace do not name it, so that they can be imported into another. With
    /// --all, each keyspace begins with a line that names it: \=NAME, or with --json an object with
    /// the field "keyspace". All are as of one moment, empty ones too.
    Export(ExportArgs),
    /// Show counters, levels, runs and segments of a store.
    ///
    /// Memtables, levels, segments and lookups are those of one keyspace, all else is of the store.
    /// Without --keyspace the others follow, a line each.
    Stats(StatsArgs),
    /// List the keyspaces of a store: name, keys (an estimate), segments and their bytes.
    ///
    /// Names are shown as escaped ASCII; with --unescape, other commands take them so. What is not
    /// yet in segments counts among the keys alone.
    Keyspaces(KeyspacesArgs),
    /// Drop a keyspace with all that is in it, without asking.
    ///
    /// Exit code 1 when it was not there. The default keyspace cannot be dropped.
    DropKeyspace(DropKeyspaceArgs),
    /// Make a complete store of this moment, all keyspaces in it, by hard links.
    ///
    /// What is not yet in segments is flushed first, so the store is opened for writing. Where the
    /// target is on another file system, files are copied. The checkpoint is a store as any other.
    Checkpoint(CheckpointArgs),
    /// Read and verify one segment and show what it is made of.
    ///
    /// Its number is enough: without --keyspace it is looked for in all keyspaces.
    Inspect(InspectArgs),
    /// Look a key up and show what was asked, read and saved, run by run.
    Explain(ExplainArgs),
    /// Read all keyspaces of a store and verify them: checksums, order, index, filters, counts, levels.
    ///
    /// Nothing is changed. Exit code 3 when anything is damaged; what it is, is listed.
    Verify(VerifyArgs),
    /// Make a new store of all that is intact in a damaged one.
    ///
    /// With --to the damaged store is only read. With --in-place the new store is made beside it and
    /// then takes its name; the damaged one is kept as NAME.damaged-1 (or the next free number).
    /// Of each key the newest entry that can be read is taken; where a newer one is lost, an older
    /// value, or a deleted key, may be back. What is lost is listed: file, place, keys that may be
    /// concerned. All keyspaces are made anew. Where it is lost which keyspace a segment was of, it
    /// becomes one by itself, salvaged-NUMBER; where the name is lost, it is keyspace-NUMBER. Exit code 0 when nothing was lost, 3 when the new store was made but something
    /// could not be saved.
    Repair(RepairArgs),
}

/// Which map of keys of the store is meant.
#[derive(Args, Debug)]
pub(crate) struct InKeyspace {
    /// The keyspace, in place of the default one.
    #[arg(long, value_name = "NAME")]
    pub(crate) keyspace: Option<OsString>,
}

/// How keys, values and names on the command line are meant.
#[derive(Args, Debug)]
pub(crate) struct Unescape {
    /// Read \\ \t \n \r and \xNN in keys, values and names of keyspaces given as arguments as one
    /// byte each.
    #[arg(short, long)]
    pub(crate) unescape: bool,
}

#[derive(Args, Debug)]
pub(crate) struct PutArgs {
    /// The directory of the store.
    pub(crate) store: PathBuf,
    /// The key.
    pub(crate) key: OsString,
    /// The value; - reads it from standard input.
    pub(crate) value: OsString,
    /// What the write survives: buffered (a clean exit), process (a kill), sync (power loss).
    #[arg(long, default_value = "process", value_parser = choice::durability)]
    pub(crate) durability: Durability,
    #[command(flatten)]
    pub(crate) place: InKeyspace,
    #[command(flatten)]
    pub(crate) unescape: Unescape,
}

#[derive(Args, Debug)]
pub(crate) struct DeleteArgs {
    /// The directory of the store.
    pub(crate) store: PathBuf,
    /// The key.
    pub(crate) key: OsString,
    /// What the write survives: buffered (a clean exit), process (a kill), sync (power loss).
    #[arg(long, default_value = "process", value_parser = choice::durability)]
    pub(crate) durability: Durability,
    #[command(flatten)]
    pub(crate) place: InKeyspace,
    #[command(flatten)]
    pub(crate) unescape: Unescape,
}

#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// The directory of the store.
    pub(crate) store: PathBuf,
    /// The key.
    pub(crate) key: OsString,
    /// Write the bytes as they are, even to a terminal.
    #[arg(long, conflicts_with_all = ["escape", "json"])]
    pub(crate) raw: bool,
    /// Write escaped ASCII and a line feed, even to a file or a pipe.
    #[arg(long, conflicts_with = "json")]
    pub(crate) escape: bool,
    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: InKeyspace,
    #[command(flatten)]
    pub(crate) unescape: Unescape,
    /// How operands become values: "add i64", "add u64", min, max, append, "append DELIMITER", or the
    /// name of a sketch, say "distinct 12".
    #[arg(long, value_name = "NAME", value_parser = choice::operator)]
    pub(crate) operator: Option<Operator>,
}

#[derive(Args, Debug)]
pub(crate) struct ScanArgs {
    /// The directory of the store.
    pub(crate) store: PathBuf,
    /// First key of the range.
    #[arg(long, value_name = "KEY")]
    pub(crate) from: Option<OsString>,
    /// End of the range; the key itself is not part of it.
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<OsString>,
    /// Only keys that begin so.
    #[arg(long, value_name = "BYTES")]
    pub(crate) prefix: Option<OsString>,
    /// From the last key to the first.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// At most so many entries.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Keys without their values.
    #[arg(long)]
    pub(crate) keys_only: bool,
    /// One JSON object to a line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: InKeyspace,
    #[command(flatten)]
    pub(crate) unescape: Unescape,
    /// How operands become values: "add i64", "add u64", min, max, append, "append DELIMITER", or the
    /// name of a sketch, say "distinct 12".
    #[arg(long, value_name = "NAME", value_parser = choice::operator)]
    pub(crate) operator: Option<Operator>,
}

#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// The directory of the store; it is made if it is not there.
    pub(crate) store: PathBuf,
    /// The file to read; - is standard input.
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    /// Lines are JSON objects.
    #[arg(long)]
    pub(crate) json: bool,
    /// Filter of the new segments: none, bloom:BITS, bloomier:block, bloomier:slot, bloomier:BITS,
    /// rejecting:BITS, budget:BITS; to compare with, :BITS behind classic, partitioned, peeled, fuse,
    /// ensemble, hierarchical, compressed, hybrid, cuckoo or quotient.
    #[arg(long, default_value = "bloomier:slot", value_parser = choice::filter)]
    pub(crate) filter: FilterChoice,
    /// Compression of the new segments: none, lz4 or zstd:LEVEL.
    #[arg(long, default_value = "none", value_parser = choice::compression)]
    pub(crate) compression: Compression,
    /// Memory for entries before they become a segment, say 64MiB.
    #[arg(long, value_name = "BYTES", value_parser = choice::bytes)]
    pub(crate) memtable_bytes: Option<u64>,
    /// How operands become values: "add i64", "add u64", min, max, append, "append DELIMITER", or the
    /// name of a sketch, say "distinct 12". Lines with operands need one; of an operator that only
    /// another program has, the name is enough.
    #[arg(long, value_name = "NAME", value_parser = choice::operator)]
    pub(crate) operator: Option<Operator>,
    #[command(flatten)]
    pub(crate) place: InKeyspace,
    #[command(flatten)]
    pub(crate) unescape: Unescape,
}

#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// The directory of the store.
    pub(crate) store: PathBuf,
    /// The file to write, in place of what is there; - is standard output.
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    /// One JSON object to a line.
    #[arg(long)]
    pub(crate) json: bool,
    /// How operands become values: "add i64", "add u64", min, max, append, "append DELIMITER", or the
    /// name of a sketch, say "distinct 12". Without it operands are written as they are.
    #[arg(long, value_name = "NAME", value_parser = choice::operator)]
    pub(crate) operator: Option<Operator>,
    #[command(flatten)]
    pub(crate) place: InKeyspace,
    /// All keyspaces, each behind a line with its name.
    #[arg(long, conflicts_with = "keyspace")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) unescape: Unescape,
}

#[derive(Args, Debug)]
pub(crate) struct StatsArgs {
    /// The directory of the store.
    pub(crate) store: PathBuf,
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with levels and segments.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: InKeyspace,
    #[command(flatten)]
    pub(crate) unescape: Unescape,
}

#[derive(Args, Debug)]
pub(crate) struct KeyspacesArgs {
    /// The directory of the store.
    pub(crate) store: PathBuf,
    /// One JSON object to a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DropKeyspaceArgs {
    /// The directory of the store.
    pub(crate) store: PathBuf,
    /// The keyspace.
    pub(crate) name: OsString,
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) unescape: Unescape,
}

#[derive(Args, Debug)]
pub(crate) struct CheckpointArgs {
    /// The directory of the store.
    pub(crate) store: PathBuf,
    /// The directory of the new store; it must not be there yet.
    pub(crate) target: PathBuf,
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// The directory of the store.
    pub(crate) store: PathBuf,
    /// The segment: its number or its file, 12 or 000012.seg.
    pub(crate) segment: String,
    /// List the data blocks too.
    #[arg(long)]
    pub(crate) blocks: bool,
    /// One JSON object for the segment and, with --blocks, one for each block.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: InKeyspace,
    #[command(flatten)]
    pub(crate) unescape: Unescape,
}

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The directory of the store.
    pub(crate) store: PathBuf,
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RepairArgs {
    /// The directory of the damaged store.
    pub(crate) store: PathBuf,
    /// The directory of the new store; it must not be there yet.
    #[arg(long, value_name = "DEST", required_unless_present = "in_place")]
    pub(crate) to: Option<PathBuf>,
    /// Put the new store in the place of the damaged one, which is kept under another name.
    #[arg(long, conflicts_with = "to")]
    pub(crate) in_place: bool,
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// The directory of the store.
    pub(crate) store: PathBuf,
    /// The key.
    pub(crate) key: OsString,
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: InKeyspace,
    #[command(flatten)]
    pub(crate) unescape: Unescape,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }
}
