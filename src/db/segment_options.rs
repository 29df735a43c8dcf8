//! Options of segments: their blocks, their size and their filters.

use std::sync::Arc;

use crate::options::{Compression, FilterPolicy};

use criba_filters::segment::CustomFilter;

use super::builder::Builder;

impl Builder {
    /// Target size of a data block in bytes: a power of two, 512 to 1 MiB. Default 4096. A point
    /// lookup reads one block; an entry that is larger has a block of its own.
    pub fn block_bytes(mut self, bytes: u32) -> Builder {
        self.options.block_bytes = bytes;
        self
    }

    /// Entries that share a key prefix within a block, 1 to 256. Default 4. Fewer make lookups
    /// faster, more make blocks smaller.
    pub fn entries_per_group(mut self, entries: u32) -> Builder {
        self.options.entries_per_group = entries;
        self
    }

    /// Compression of data blocks. Default none.
    pub fn compression(mut self, compression: Compression) -> Builder {
        self.options.compression = compression;
        self
    }

    /// Size at which a segment is ended and the next one begun, in bytes, 64 KiB to 64 GiB.
    /// Default 64 MiB. A last one of less than an eighth of it is not begun: the one before is
    /// larger then.
    pub fn segment_bytes(mut self, bytes: u64) -> Builder {
        self.options.segment_bytes = bytes;
        self
    }

    /// The filter that new segments carry. Default Bloomier with slots.
    pub fn filter(mut self, policy: FilterPolicy) -> Builder {
        self.options.filter = policy;
        self
    }

    /// Another filter for segments of this level; 0 is what flushes make. Default none: all have
    /// that of [`Builder::filter`].
    pub fn filter_of_level(mut self, level: u32, policy: FilterPolicy) -> Builder {
        self.options.level_filters.insert(level, policy);
        self
    }

    /// Another filter for the last level below the flushed runs, whichever it is. Where lookups
    /// nearly always find their key, [`FilterPolicy::None`] saves most of the filter memory: a
    /// lookup that comes as far as the last level has to read a block of it anyway.
    pub fn filter_of_last_level(mut self, policy: FilterPolicy) -> Builder {
        self.options.last_level_filter = Some(policy);
        self
    }

    /// Brings a filter of the program's own. Segments that carry a filter of its name are asked
    /// with it. With [`FilterPolicy::Custom`](crate::FilterPolicy::Custom) new segments get the
    /// first one that was brought. After it was built, it is asked for every key of its segment: if
    /// it denies one, or panics, the segment is written without a filter and
    /// [`EventKind::FilterNotBuilt`](crate::EventKind::FilterNotBuilt) says so.
    ///
    /// A segment whose filter has a name that no filter here has is read without one.
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
    /// # db.close()
    /// # }
    /// ```
    pub fn custom_filter(mut self, filter: impl CustomFilter + 'static) -> Builder {
        self.options.customs.add(Arc::new(filter));
        self
    }
}
