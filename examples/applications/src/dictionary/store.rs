//! The store as a dictionary: one sorted run on disk, read without a cache.

use std::ops::Bound::{self, Excluded};

use criba::storage::ReadCause;
use criba::{Db, Durability, Slice};

use super::{Dictionary, Pair};
use crate::Result;

pub(super) struct Store {
    db: Db,
    /// Blocks that were written when it was made.
    written: u64,
    _folder: tempfile::TempDir,
}

impl Store {
    pub(super) fn create(contacts: &[String]) -> Result<Store> {
        let folder = tempfile::tempdir()?;
        let db = Db::builder(folder.path().join("contacts"))
            .cache_bytes(0)
            .durability(Durability::Buffered)
            .merge_when_idle(false)
            .open()?;
        for contact in contacts {
            db.put(contact, "")?;
        }
        db.flush()?;
        let written = db.stats().segments().map(|segment| segment.blocks).sum();
        Ok(Store {
            db,
            written,
            _folder: folder,
        })
    }
}

fn text(contact: &Slice) -> String {
    String::from_utf8_lossy(contact).into_owned()
}

impl Dictionary for Store {
    fn contains(&self, contact: &str) -> Result<bool> {
        Ok(self.db.contains_key(contact)?)
    }

    fn add(&mut self, contact: &str) -> Result<()> {
        Ok(self.db.put(contact, "")?)
    }

    fn remove(&mut self, contact: &str) -> Result<()> {
        Ok(self.db.delete(contact)?)
    }

    fn sorted(&self) -> Result<Vec<String>> {
        let keys = self.db.iter().keys();
        Ok(keys
            .map(|key| key.map(|key| text(&key)))
            .collect::<criba::Result<_>>()?)
    }

    fn ends(&self) -> Result<Pair> {
        let key = |entry: Option<(Slice, Slice)>| entry.map(|(key, _)| text(&key));
        Ok((key(self.db.first()?), key(self.db.last()?)))
    }

    fn neighbours(&self, contact: &str) -> Result<Pair> {
        let contact = contact.as_bytes();
        let before = self.db.range(..contact).keys();
        let after = self
            .db
            .range((Excluded(contact), Bound::Unbounded::<&[u8]>))
            .keys();
        let (mut before, mut after) = (before.rev(), after);
        let (before, after) = (before.next().transpose()?, after.next().transpose()?);
        Ok((before.as_ref().map(text), after.as_ref().map(text)))
    }

    fn steps(&self) -> u64 {
        self.written + self.db.stats().reads.get(ReadCause::Data).calls
    }
}
