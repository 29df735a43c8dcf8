//! `--seen exact-memory`: a hash table of all URLs. Exact and fast, and as large as the crawl.

use std::collections::HashMap;

use crawl::{Error, Seen, SeenCounts, Store};

pub(super) struct InMemory {
    ids: HashMap<Box<[u8]>, u64>,
}

impl InMemory {
    pub(super) fn new(store: &Store) -> Result<InMemory, Error> {
        let mut ids = HashMap::new();
        store.for_each_seen(|key, id| {
            ids.insert(key.into(), id);
            Ok(())
        })?;
        Ok(InMemory { ids })
    }
}

impl Seen for InMemory {
    fn find(&mut self, key: &[u8], counts: &mut SeenCounts) -> Result<Option<u64>, Error> {
        let found = self.ids.get(key).copied();
        if found.is_some() {
            counts.answered_by_memtable += 1;
        } else {
            counts.answered_by_ranges += 1;
        }
        Ok(found)
    }

    fn learn(&mut self, key: &[u8], id: u64) -> Result<(), Error> {
        self.ids.insert(key.into(), id);
        Ok(())
    }
}
