//! Options of a keyspace.

use crate::operator::{MergeOperator, Operator};
use crate::options::{Compression, FilterPolicy, RangeFilterPolicy, Strategy, TreeOptions};

/// Options of a keyspace: see [`Db::keyspace_with`](crate::Db::keyspace_with). They begin as those of the
/// store's [`Builder`](crate::Builder), whose methods of the same names say more about each.
///
/// ```
/// use criba::{Compression, Strategy};
///
/// # fn main() -> criba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = criba::Db::open(dir.path().join("data"))?;
/// let archive = db.keyspace_with("archive", |options| {
///     options
///         .strategy(Strategy::LazyLeveled)
///         .compression(Compression::Zstd { level: 3 })
/// })?;
/// archive.put("2026", "a year")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct KeyspaceOptions {
    pub(super) tree: TreeOptions,
}

impl KeyspaceOptions {
    pub(super) fn of(tree: TreeOptions) -> KeyspaceOptions {
        KeyspaceOptions { tree }
    }

    /// Target size of a data block in bytes: see [`Builder::block_bytes`](crate::Builder::block_bytes).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let rows = db.keyspace_with("rows", |options| options.block_bytes(16 << 10))?;
    /// rows.put("1", "row")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn block_bytes(mut self, bytes: u32) -> KeyspaceOptions {
        self.tree.block_bytes = bytes;
        self
    }

    /// Entries that share a key prefix within a block: see [`Builder::entries_per_group`](crate::Builder::entries_per_group).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let rows = db.keyspace_with("rows", |options| options.entries_per_group(16))?;
    /// rows.put("1", "row")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn entries_per_group(mut self, entries: u32) -> KeyspaceOptions {
        self.tree.entries_per_group = entries;
        self
    }

    /// Compression of data blocks: see [`Builder::compression`](crate::Builder::compression).
    ///
    /// ```
    /// use criba::Compression;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let rows = db.keyspace_with("rows", |options| options.compression(Compression::Lz4))?;
    /// rows.put("1", "row")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn compression(mut self, compression: Compression) -> KeyspaceOptions {
        self.tree.compression = compression;
        self
    }

    /// Size at which a segment ends and the next one begins, in bytes: see [`Builder::segment_bytes`](crate::Builder::segment_bytes).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let rows = db.keyspace_with("rows", |options| options.segment_bytes(8 << 20))?;
    /// rows.put("1", "row")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn segment_bytes(mut self, bytes: u64) -> KeyspaceOptions {
        self.tree.segment_bytes = bytes;
        self
    }

    /// The filter that new segments carry: see [`Builder::filter`](crate::Builder::filter).
    ///
    /// ```
    /// use criba::FilterPolicy;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let rows = db.keyspace_with("rows", |options| options.filter(FilterPolicy::None))?;
    /// rows.put("1", "row")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn filter(mut self, policy: FilterPolicy) -> KeyspaceOptions {
        self.tree.filter = policy;
        self
    }

    /// The range filter that new segments carry: see [`Builder::range_filter`](crate::Builder::range_filter).
    ///
    /// ```
    /// use criba::RangeFilterPolicy;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let policy = RangeFilterPolicy::Bits { bits_per_key: 10.0 };
    /// let rows = db.keyspace_with("rows", |options| options.range_filter(policy))?;
    /// rows.put("1", "row")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn range_filter(mut self, policy: RangeFilterPolicy) -> KeyspaceOptions {
        self.tree.range_filter = policy;
        self
    }

    /// Another filter for segments of this level: see [`Builder::filter_of_level`](crate::Builder::filter_of_level).
    ///
    /// ```
    /// use criba::FilterPolicy;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let rows = db.keyspace_with("rows", |options| options.filter_of_level(0, FilterPolicy::None))?;
    /// rows.put("1", "row")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn filter_of_level(mut self, level: u32, policy: FilterPolicy) -> KeyspaceOptions {
        self.tree.level_filters.insert(level, policy);
        self
    }

    /// Another filter for the last level below the flushed runs: see [`Builder::filter_of_last_level`](crate::Builder::filter_of_last_level).
    ///
    /// ```
    /// use criba::FilterPolicy;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let rows = db.keyspace_with("rows", |options| options.filter_of_last_level(FilterPolicy::None))?;
    /// rows.put("1", "row")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn filter_of_last_level(mut self, policy: FilterPolicy) -> KeyspaceOptions {
        self.tree.last_level_filter = Some(policy);
        self
    }

    /// How the tree is kept in shape: see [`Builder::strategy`](crate::Builder::strategy).
    ///
    /// ```
    /// use criba::Strategy;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let rows = db.keyspace_with("rows", |options| options.strategy(Strategy::Tiered))?;
    /// rows.put("1", "row")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn strategy(mut self, strategy: Strategy) -> KeyspaceOptions {
        self.tree.shape.strategy = strategy;
        self
    }

    /// How many times larger a level is than the one above it: see [`Builder::level_ratio`](crate::Builder::level_ratio).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let rows = db.keyspace_with("rows", |options| options.level_ratio(8))?;
    /// rows.put("1", "row")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn level_ratio(mut self, ratio: u32) -> KeyspaceOptions {
        self.tree.shape.ratio = ratio;
        self
    }

    /// Flushed runs that are merged down together when levels are leveled: see [`Builder::level0_runs`](crate::Builder::level0_runs).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let rows = db.keyspace_with("rows", |options| options.level0_runs(8))?;
    /// rows.put("1", "row")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn level0_runs(mut self, runs: u32) -> KeyspaceOptions {
        self.tree.shape.level0_runs = runs;
        self
    }

    /// Least size of a level below the flushed runs, in bytes: see [`Builder::level_base_bytes`](crate::Builder::level_base_bytes).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let rows = db.keyspace_with("rows", |options| options.level_base_bytes(16 << 20))?;
    /// rows.put("1", "row")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn level_base_bytes(mut self, bytes: u64) -> KeyspaceOptions {
        self.tree.shape.base_bytes = bytes;
        self
    }

    /// Whether a leveled tree merges runs of similar size when it is idle: see [`Builder::merge_when_idle`](crate::Builder::merge_when_idle).
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let rows = db.keyspace_with("rows", |options| options.merge_when_idle(false))?;
    /// rows.put("1", "row")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge_when_idle(mut self, merges: bool) -> KeyspaceOptions {
        self.tree.shape.merge_when_idle = merges;
        self
    }

    /// How operands of [`Keyspace::merge`](crate::Keyspace::merge) become a value: see
    /// [`Builder::operator`](crate::Builder::operator).
    ///
    /// ```
    /// use criba::operator::Max;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let best = db.keyspace_with("best", |options| options.operator(Max))?;
    /// best.merge("player", "0711")?;
    /// best.merge("player", "0350")?;
    /// assert_eq!(best.get("player")?.unwrap(), "0711");
    /// # Ok(())
    /// # }
    /// ```
    pub fn operator(mut self, operator: impl MergeOperator + 'static) -> KeyspaceOptions {
        self.tree.operator = Operator::new(operator);
        self
    }
}
