//! Options of segments: their blocks, their size and their filters.

use std::sync::Arc;

use crate::options::{Compression, FilterPolicy, RangeFilterPolicy};

use criba_filters::segment::CustomFilter;

use super::builder::Builder;

impl Builder {
    /// Target size of a data block in bytes: a power of two, 512 to 1 MiB. Default 4096. A point
    /// lookup reads one block; an entry that is larger has a block of its own.
    ///
    /// ```
    /// use criba::Db;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let error = Db::builder(&path).block_bytes(5000).open().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "block_bytes is 5000; choose a power of two: 4096 or 8192"
    /// );
    /// let db = Db::builder(&path).block_bytes(16 << 10).open()?;
    /// for number in 0..100 {
    ///     db.put(format!("{number:03}"), [b'x'; 1000])?;
    /// }
    /// db.flush()?;
    /// // 100 kB in blocks of 16 KiB.
    /// assert_eq!(db.stats().segments().next().unwrap().blocks, 7);
    /// # Ok(())
    /// # }
    /// ```
    pub fn block_bytes(mut self, bytes: u32) -> Builder {
        self.options.tree.block_bytes = bytes;
        self
    }

    /// Entries that share a key prefix within a block, 1 to 256. Default 4. Fewer make lookups
    /// faster, more make blocks smaller.
    ///
    /// ```
    /// use criba::Db;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path).entries_per_group(16).open()?;
    /// for number in 0..64 {
    ///     db.put(format!("user/{number:03}"), "")?;
    /// }
    /// db.flush()?;
    /// let segment = db.stats().segments().next().unwrap().id;
    /// assert_eq!(db.inspect(segment)?.blocks[0].groups, 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn entries_per_group(mut self, entries: u32) -> Builder {
        self.options.tree.entries_per_group = entries;
        self
    }

    /// Compression of data blocks. Default none.
    ///
    /// ```
    /// use criba::{Compression, Db};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path)
    ///     .compression(Compression::Zstd { level: 3 })
    ///     .open()?;
    /// for number in 0..100 {
    ///     db.put(format!("{number:03}"), "the same again ".repeat(20))?;
    /// }
    /// db.flush()?;
    /// let stats = db.stats();
    /// let segment = stats.segments().next().unwrap();
    /// assert!(segment.data_bytes < segment.raw_bytes / 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compression(mut self, compression: Compression) -> Builder {
        self.options.tree.compression = compression;
        self
    }

    /// Size at which a segment ends and the next one begins, in bytes, 64 KiB to 64 GiB. Default
    /// 64 MiB. A rest of less than an eighth of it makes no segment: the last one is larger then.
    ///
    /// ```
    /// use criba::Db;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path).segment_bytes(64 << 10).open()?;
    /// for number in 0..300 {
    ///     db.put(format!("{number:03}"), [b'x'; 1000])?;
    /// }
    /// db.flush()?;
    /// // One run of 300 kB, in several files.
    /// let stats = db.stats();
    /// assert_eq!(stats.runs.len(), 1);
    /// assert!(stats.runs[0].segments.len() >= 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn segment_bytes(mut self, bytes: u64) -> Builder {
        self.options.tree.segment_bytes = bytes;
        self
    }

    /// The filter that new segments carry. Default Bloomier with slots.
    ///
    /// ```
    /// use criba::{Db, FilterPolicy};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let policy = FilterPolicy::Bloom { bits_per_key: 10.0 };
    /// let db = Db::builder(&path).filter(policy).open()?;
    /// db.put("apple", "red")?;
    /// db.flush()?;
    /// let stats = db.stats();
    /// let filter = stats.segments().next().unwrap().filter.as_ref();
    /// assert_eq!(filter.unwrap().kind, "bloom");
    /// # db.close()?;
    /// let policy = FilterPolicy::Bloom { bits_per_key: 0.5 };
    /// assert!(Db::builder(&path).filter(policy).open().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn filter(mut self, policy: FilterPolicy) -> Builder {
        self.options.tree.filter = policy;
        self
    }

    /// Another filter for segments of this level. Flushes make level 0. Default none: all segments
    /// have the filter of [`Builder::filter`].
    ///
    /// ```
    /// use criba::{Db, FilterPolicy};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path)
    ///     .filter_of_level(0, FilterPolicy::Bloom { bits_per_key: 8.0 })
    ///     .open()?;
    /// # let kind = |db: &Db| db.stats().segments().next().unwrap().filter.as_ref().unwrap().kind;
    /// db.put("apple", "red")?;
    /// db.flush()?;
    /// assert_eq!(kind(&db), "bloom");
    /// db.compact_all()?.wait()?;
    /// assert_eq!(kind(&db), "bloomier");
    /// # Ok(())
    /// # }
    /// ```
    pub fn filter_of_level(mut self, level: u32, policy: FilterPolicy) -> Builder {
        self.options.tree.level_filters.insert(level, policy);
        self
    }

    /// Another filter for the last level below the flushed runs, whichever it is. Where lookups
    /// nearly always find their key, [`FilterPolicy::None`] saves most of the filter memory: a
    /// lookup that comes as far as the last level then has to read a block of it anyway.
    ///
    /// ```
    /// use criba::{Db, FilterPolicy};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let db = Db::builder(&path)
    ///     .filter_of_last_level(FilterPolicy::None)
    ///     .open()?;
    /// db.put("apple", "red")?;
    /// db.flush()?;
    /// assert!(db.stats().segments().next().unwrap().filter.is_some());
    /// db.compact_all()?.wait()?;
    /// assert!(db.stats().segments().next().unwrap().filter.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn filter_of_last_level(mut self, policy: FilterPolicy) -> Builder {
        self.options.tree.last_level_filter = Some(policy);
        self
    }

    /// The range filter that new segments carry, for scans. Default none.
    ///
    /// ```
    /// use criba::{Db, RangeFilterPolicy};
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let policy = RangeFilterPolicy::Bits { bits_per_key: 10.0 };
    /// let db = Db::builder(&path).range_filter(policy).open()?;
    /// for number in 0..10_000 {
    ///     db.put(format!("{:08}", number * 9_973), "row")?;
    /// }
    /// db.flush()?;
    /// let stats = db.stats();
    /// let filter = stats.segments().next().unwrap().range_filter.as_ref().unwrap();
    /// assert!(filter.refutes > 0.9 && filter.bits_per_key < 11.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range_filter(mut self, policy: RangeFilterPolicy) -> Builder {
        self.options.tree.range_filter = policy;
        self
    }

    /// Brings a filter of the program's own. Lookups ask it in all segments that carry a filter of
    /// its name. With [`FilterPolicy::Custom`](crate::FilterPolicy::Custom) new segments get the
    /// first filter that was brought.
    ///
    /// A new filter is asked for every key of its segment. If it denies one, or panics, the segment
    /// is written without a filter, and
    /// [`EventKind::FilterNotBuilt`](crate::EventKind::FilterNotBuilt) says so. A segment whose
    /// filter has a name that no filter of the program has is read without it.
    ///
    /// ```
    /// use criba::{Db, FilterPolicy};
    /// use criba_filters::Shape;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// let db = Db::builder(directory.path())
    ///     .filter(FilterPolicy::Custom)
    ///     .custom_filter(Shape::Cuckoo.filter(12.0))
    ///     .open()?;
    /// db.put("apple", "red")?;
    /// db.flush()?;
    /// let stats = db.stats();
    /// let filter = stats.segments().next().unwrap().filter.as_ref();
    /// assert_eq!(filter.unwrap().kind, "custom");
    /// # Ok(())
    /// # }
    /// ```
    pub fn custom_filter(mut self, filter: impl CustomFilter + 'static) -> Builder {
        self.options.customs.add(Arc::new(filter));
        self
    }
}
