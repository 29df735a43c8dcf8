//! `--seen sled`: a store without filters as the peer. Every question that its cache cannot answer
//! reads the disk.
//!
//! It lives in a directory of its own that ends with the program, and is filled from the store when
//! the program starts: the store is the truth. sled does not say which questions it read the disk
//! for; all of them count as verified, and the reads of the whole process are in the system's
//! books.

use criba::Db;

use crate::failure::Failure;
use crate::summary::SeenCounts;

use super::{Seen, for_each, read_id};

/// sled refuses to live with much less.
const LEAST_BYTES: u64 = 1 << 20;

pub(super) struct InSled {
    tree: sled::Db,
    /// Removed after the tree was closed: fields are dropped in this order.
    _directory: tempfile::TempDir,
}

impl InSled {
    pub(super) fn new(db: &Db, cache_bytes: u64) -> Result<InSled, Failure> {
        let beside = db.path().parent().filter(|parent| parent.is_dir());
        let directory = match beside {
            Some(parent) => tempfile::tempdir_in(parent),
            None => tempfile::tempdir(),
        };
        let directory = directory.map_err(Failure::io("cannot make a directory for sled"))?;
        let config = sled::Config::new().path(directory.path().join("sled"));
        let tree = config.cache_capacity(cache_bytes.max(LEAST_BYTES)).open()?;
        let mut peer = InSled {
            tree,
            _directory: directory,
        };
        for_each(db, |key, id| peer.learn(key, id))?;
        Ok(peer)
    }
}

impl Seen for InSled {
    fn find(&mut self, key: &[u8], counts: &mut SeenCounts) -> Result<Option<u64>, Failure> {
        counts.verified_on_disk += 1;
        self.tree.get(key)?.map(|value| read_id(&value)).transpose()
    }

    fn learn(&mut self, key: &[u8], id: u64) -> Result<(), Failure> {
        let mut value = Vec::with_capacity(9);
        common::codec::put_number(&mut value, id);
        self.tree.insert(key, value)?;
        Ok(())
    }
}
