//! `--seen sled`: a store without filters as the peer. Every question that its cache cannot answer
//! reads the disk.
//!
//! It lives in a directory of its own that ends with the program, and is filled from the store when
//! the program starts: the store is the truth. sled does not say which questions it read the disk
//! for; all of them count as verified, and the reads of the whole process are in the system's
//! books.

use common::codec::{Reader, put_number};
use crawl::{Error, Seen, SeenCounts, Store};

use crate::failure::Failure;

/// sled refuses to live with much less.
const LEAST_BYTES: u64 = 1 << 20;

pub(super) struct InSled {
    tree: sled::Db,
    /// Removed after the tree was closed: fields are dropped in this order.
    _directory: tempfile::TempDir,
}

impl InSled {
    pub(super) fn new(store: &Store, cache_bytes: u64) -> Result<InSled, Failure> {
        let beside = store.db().path().parent().filter(|parent| parent.is_dir());
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
        store.for_each_seen(|key, id| peer.learn(key, id))?;
        Ok(peer)
    }
}

impl Seen for InSled {
    fn find(&mut self, key: &[u8], counts: &mut SeenCounts) -> Result<Option<u64>, Error> {
        counts.verified_on_disk += 1;
        let value = self.tree.get(key).map_err(Error::other)?;
        let id = value.map(|value| Reader(&value).number());
        Ok(id.transpose()?)
    }

    fn learn(&mut self, key: &[u8], id: u64) -> Result<(), Error> {
        let mut value = Vec::with_capacity(9);
        put_number(&mut value, id);
        self.tree.insert(key, value).map_err(Error::other)?;
        Ok(())
    }
}
