//! The lives of the campaign: together they pass through everything that changes files.

use std::time::Duration;

use criba::{Builder, Compression, FilterPolicy, FilterResidency, Strategy};

use super::workload::{
    Buffered, Close, Compact, DropDue, DropPassing, Flush, HoldSnapshot, Kill, Load, MakePassing,
    Process, Read, Rebuild, ReleaseSnapshot, Reopen, Step, Sync, Synced, Transact, Write,
};

/// A life as it is planned.
#[derive(Clone, Copy)]
pub(crate) struct Plot {
    pub(crate) name: &'static str,
    pub(crate) settings: fn(Builder) -> Builder,
    pub(crate) load: Load,
    pub(crate) steps: &'static [Step],
}

const SMALL: Load = load(700, 0);

/// Without long keys.
const fn load(big: usize, bulk: usize) -> Load {
    Load {
        big,
        bulk,
        long: 0,
        spread: false,
        operands: false,
    }
}

/// In several keyspaces.
const SPREAD: Load = Load {
    spread: true,
    operands: true,
    ..SMALL
};

const WITH_OPERANDS: Load = Load {
    operands: true,
    ..SMALL
};

/// An age that a life passes when the clock goes on by a day.
const AGE: Duration = Duration::from_secs(3600);

const fn plain(name: &'static str, steps: &'static [Step]) -> Plot {
    Plot {
        name,
        settings: |builder| builder,
        load: SMALL,
        steps,
    }
}

const fn with(
    name: &'static str,
    settings: fn(Builder) -> Builder,
    load: Load,
    steps: &'static [Step],
) -> Plot {
    Plot {
        name,
        settings,
        load,
        steps,
    }
}

/// Flushes until there are four runs, then merges: what each strategy does with it.
const MERGES: &[Step] = &[
    Write(Synced),
    Flush,
    Write(Process),
    Flush,
    Compact,
    Write(Process),
    Flush,
    Write(Buffered),
    Write(Synced),
    Flush,
    Compact,
    Write(Process),
    Close,
];

pub(crate) const LIVES: &[Plot] = &[
    with("in keyspaces", |builder| builder, SPREAD, MERGES),
    with(
        "keyspaces come and go",
        |builder| builder,
        SPREAD,
        &[
            Write(Process),
            MakePassing,
            Write(Synced),
            DropPassing,
            Write(Process),
            MakePassing,
            Flush,
            Write(Process),
            DropPassing,
            Reopen,
            MakePassing,
            Kill,
            Transact(Process),
            DropPassing,
            Transact(Synced),
            Flush,
            Close,
        ],
    ),
    plain("create", &[Close]),
    plain(
        "batches",
        &[
            Write(Process),
            Write(Synced),
            Write(Buffered),
            Write(Process),
            Write(Synced),
            Write(Buffered),
            Sync,
            Write(Process),
            Close,
        ],
    ),
    plain(
        "flush",
        &[
            Write(Process),
            Write(Synced),
            Flush,
            Write(Synced),
            Write(Process),
            Write(Buffered),
            Flush,
            Write(Synced),
            Close,
        ],
    ),
    plain(
        "compaction",
        &[
            Write(Synced),
            Write(Process),
            Flush,
            Write(Synced),
            HoldSnapshot,
            Write(Process),
            Flush,
            Write(Synced),
            Compact,
            Write(Process),
            ReleaseSnapshot,
            Compact,
            Close,
        ],
    ),
    plain(
        "transactions",
        &[
            Transact(Process),
            Transact(Synced),
            Transact(Buffered),
            Flush,
            Transact(Process),
            Kill,
            Transact(Synced),
            Close,
        ],
    ),
    plain(
        "filters rebuilt",
        &[
            Write(Process),
            Write(Synced),
            Flush,
            Write(Synced),
            Rebuild,
            Write(Process),
            Flush,
            Rebuild,
            Compact,
            Close,
        ],
    ),
    plain(
        "reopened",
        &[
            Write(Synced),
            Write(Process),
            Reopen,
            Write(Process),
            Flush,
            Reopen,
            Reopen,
            Write(Synced),
            Write(Buffered),
            Close,
        ],
    ),
    plain(
        "killed",
        &[
            Write(Synced),
            Write(Process),
            Kill,
            Write(Process),
            Write(Synced),
            Kill,
            Sync,
            Write(Process),
            Kill,
            Flush,
            Write(Process),
            Write(Synced),
            Kill,
            Close,
        ],
    ),
    plain(
        "many small batches",
        &[
            Write(Process),
            Write(Process),
            Write(Process),
            Write(Process),
            Write(Process),
            Write(Process),
            Write(Process),
            Write(Synced),
            Write(Buffered),
            Write(Buffered),
            Write(Buffered),
            Write(Process),
            Write(Process),
            Flush,
            Write(Process),
            Write(Process),
            Write(Process),
            Write(Process),
            Close,
        ],
    ),
    plain(
        "read only",
        &[
            Write(Process),
            Write(Synced),
            Read,
            Write(Process),
            Flush,
            Write(Process),
            Kill,
            Read,
            Write(Process),
            Close,
        ],
    ),
    with(
        "big values",
        |builder| builder,
        load(3_000, 0),
        &[
            Write(Process),
            Write(Process),
            Write(Synced),
            Write(Process),
            Write(Process),
            Flush,
            Write(Process),
            Write(Process),
            Write(Process),
            Compact,
            Close,
        ],
    ),
    with(
        "compressed, filters by pages",
        |builder| {
            builder
                .compression(Compression::Zstd { level: 1 })
                .filter_residency(FilterResidency::Cached { bytes: 1 << 14 })
        },
        load(2_000, 0),
        &[
            Write(Process),
            Write(Process),
            Flush,
            Write(Synced),
            Rebuild,
            Write(Process),
            Compact,
            Close,
        ],
    ),
    with(
        "tiered",
        |builder| builder.strategy(Strategy::Tiered).level_ratio(2),
        SMALL,
        MERGES,
    ),
    with(
        "lazy leveled, within a budget",
        |builder| {
            builder
                .strategy(Strategy::LazyLeveled)
                .level_ratio(2)
                .filter(FilterPolicy::Budget { bits_per_key: 8.0 })
        },
        SMALL,
        MERGES,
    ),
    with(
        "dropped by age",
        |builder| {
            builder.strategy(Strategy::Fifo {
                bytes: u64::MAX,
                age: Some(AGE),
            })
        },
        SMALL,
        &[
            Write(Synced),
            Write(Process),
            Flush,
            DropDue(2),
            Write(Process),
            Flush,
            Write(Process),
            DropDue(3),
            Write(Synced),
            Close,
        ],
    ),
    plain(
        "snapshots held",
        &[
            Write(Process),
            HoldSnapshot,
            Write(Process),
            Flush,
            HoldSnapshot,
            Write(Process),
            Compact,
            Write(Synced),
            HoldSnapshot,
            Write(Process),
            Compact,
            ReleaseSnapshot,
            Compact,
            Reopen,
            Write(Process),
            Reopen,
            Close,
        ],
    ),
    with(
        "operands",
        |builder| builder,
        WITH_OPERANDS,
        &[
            Write(Synced),
            Write(Process),
            Flush,
            Write(Process),
            HoldSnapshot,
            Write(Buffered),
            Write(Synced),
            Flush,
            Write(Process),
            Compact,
            Write(Process),
            ReleaseSnapshot,
            Kill,
            Write(Process),
            Flush,
            Compact,
            Write(Process),
            Read,
            Close,
        ],
    ),
    with(
        "operands tiered",
        |builder| builder.strategy(Strategy::Tiered).level_ratio(2),
        WITH_OPERANDS,
        MERGES,
    ),
    // What a kill leaves of an append is another thing than with the map that all others have.
    with(
        "journal by calls",
        |builder| builder.map_journal(false),
        SMALL,
        &[
            Write(Buffered),
            Write(Buffered),
            Write(Process),
            Write(Synced),
            Write(Buffered),
            Write(Process),
            Flush,
            Write(Buffered),
            Write(Synced),
            Write(Process),
            Kill,
            Write(Buffered),
            Write(Process),
            Close,
        ],
    ),
];

/// Lives in which threads work beside who writes, so that no two recordings are alike.
pub(crate) const THREADED_LIVES: &[Plot] = &[
    // Memtables that fill, so that the journal after the next is made ahead.
    with(
        "sealed when full",
        |builder| builder,
        load(3_000, 6),
        &[
            Write(Process),
            Write(Process),
            Write(Synced),
            Write(Process),
            Write(Process),
            Write(Buffered),
            Write(Process),
            Flush,
            Write(Process),
            Close,
        ],
    ),
];

/// Lives of a few hundred KiB: each state costs more to make and to read.
pub(crate) const LARGE_LIVES: &[Plot] = &[
    with(
        "merged in parts",
        |builder| builder.segment_bytes(64 << 10).compaction_threads(2),
        load(700, 90),
        &[
            Write(Process),
            Write(Process),
            Flush,
            Write(Process),
            Write(Synced),
            Compact,
            Write(Process),
            Close,
        ],
    ),
    with(
        "dropped by size",
        |builder| {
            builder.strategy(Strategy::Fifo {
                bytes: 80 << 10,
                age: None,
            })
        },
        load(700, 60),
        &[
            Write(Process),
            Flush,
            Write(Synced),
            Flush,
            DropDue(1),
            Write(Process),
            Close,
        ],
    ),
    // More than a leaf of a memtable has, in each of two batches that come to lie between each other.
    with(
        "long keys that are alike",
        |builder| {
            builder
                .memtable_bytes(4 << 20)
                .compression(Compression::Lz4)
        },
        Load { long: 16, ..SMALL },
        &[
            Write(Process),
            Write(Synced),
            Flush,
            Write(Process),
            Compact,
            Close,
        ],
    ),
];
