//! Random runs, cut off at random calls, over several crashes and recoveries of one store.

use super::*;

/// What an engine may do wrong with its journals. A campaign that does not find these finds
/// nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    None,
    /// A sync leaves older journals unsynced.
    OlderUnsynced,
    /// The recovered tail is not made durable before the next journal starts behind it.
    RecoveredUnsynced,
    /// A sync is acknowledged that was not made.
    NoSync,
    /// The old journal stays in the buffer while the next one is written.
    UnsealedSwitch,
}

struct Random(u64);

impl Random {
    /// A number below `bound` (splitmix64; Steele, Lea, Flood 2014).
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// An engine reduced to its journals.
struct Run {
    memory: Memory,
    storage: Arc<dyn Storage>,
    bug: Bug,
    random: Random,
    /// All records that exist; the first `written` survive a kill, the first `synced` power loss.
    history: Vec<Applied>,
    written: usize,
    synced: usize,
    synced_to: Sequence,
    older: Vec<Arc<dyn SyncFile>>,
    /// The next journal, if it was made ahead.
    ready: Option<Ready>,
    /// A journal was begun since the last crash: it vouches for those before it.
    has_begun: bool,
}

impl Run {
    /// Begins a journal and appends to it and to later ones until a call fails or the time is up.
    fn run(&mut self, recovered: &Recovered) -> Result<()> {
        if self.bug != Bug::RecoveredUnsynced {
            make_durable(&self.storage, &ids(&self.storage))?;
            self.synced = self.history.len();
            self.synced_to = recovered.point.last();
        }
        let previous = recovered.last.unwrap_or(0);
        let start = recovered.point;
        let new = after(previous + 1, previous);
        let mut writer = Writer::create(&self.storage, new, start)?;
        self.has_begun = true;
        for _ in 0..self.random.below(40) {
            match self.random.below(11) {
                0..5 => self.append(&mut writer)?,
                5 => {
                    let watermark = self.synced_to;
                    writer.append(0, b"", watermark)?;
                }
                6 => {
                    writer.write_out()?;
                    self.written = self.history.len();
                }
                7 | 8 => self.sync(&mut writer)?,
                // Asked for ahead, or too late.
                9 if self.random.below(2) == 0 => self.make_ready(&writer)?,
                _ => writer = self.switch(writer)?,
            }
        }
        Ok(())
    }

    fn append(&mut self, writer: &mut Writer) -> Result<()> {
        let len = match self.random.below(32) {
            0 => 70_000,
            1..6 => 3000,
            6..16 => 200,
            _ => 20,
        };
        let seed = self.random.below(251) + 1;
        let payload: Vec<u8> = (0..len)
            .map(|n| ((seed * (n + 7)) % 251) as u8 | 1)
            .collect();
        let count = 1 + self.random.below(3) as u32;
        let first = writer.point().next;
        self.history
            .push((writer.id(), first.0, count, payload.clone()));
        writer.append(count, &payload, self.synced_to)?;
        Ok(())
    }

    fn sync(&mut self, writer: &mut Writer) -> Result<()> {
        writer.write_out()?;
        self.written = self.history.len();
        for older in std::mem::take(&mut self.older) {
            if self.bug != Bug::OlderUnsynced {
                older.sync().map_err(|error| Error::io("older", error))?;
            }
        }
        if self.bug != Bug::NoSync {
            writer
                .syncer()
                .sync()
                .map_err(|error| Error::io(writer.path(), error))?;
        }
        self.synced = self.history.len();
        self.synced_to = writer.point().last();
        Ok(())
    }

    fn switch(&mut self, mut old: Writer) -> Result<Writer> {
        let start = old.point();
        let next = match self.ready.take() {
            Some(ready) => ready.begin(start),
            None => {
                let new = after(old.id() + 1, old.id());
                Writer::create(&self.storage, new, start)?
            }
        };
        if self.bug != Bug::UnsealedSwitch {
            old.seal(next.id())?;
            self.written = self.history.len();
        }
        self.older.push(old.syncer());
        Ok(next)
    }

    fn make_ready(&mut self, writer: &Writer) -> Result<()> {
        if self.ready.is_none() {
            let new = after(writer.id() + 1, writer.id());
            self.ready = Some(Ready::create(&self.storage, new)?);
        }
        Ok(())
    }

    /// What is left after a crash, and how many records it must hold.
    fn crash(&mut self) -> (Memory, usize) {
        match self.random.below(4) {
            0 => (self.memory.crash(Survivors::Everything), self.written),
            1 => (self.memory.crash(Survivors::Synced), self.synced),
            2 => (self.memory.crash(Survivors::Ordered), self.synced),
            _ => (self.reorder(), self.synced),
        }
    }

    /// Of what was not synced, any sectors and any names survive.
    fn reorder(&mut self) -> Memory {
        let image = self.memory.crash(Survivors::Ordered);
        let strict = self.memory.crash(Survivors::Synced);
        let survivors = 1 + self.random.below(8);
        for name in self.memory.list().unwrap() {
            if strict.bytes_of(&name).is_none() && self.random.below(2) == 0 {
                image.remove(&name).unwrap();
                continue;
            }
            let durable_len = image.bytes_of(&name).unwrap().len();
            let mut bytes = self.memory.bytes_of(&name).unwrap();
            let unsynced = (bytes.len() - durable_len) as u64;
            if self.random.below(2) == 0 {
                bytes.truncate(durable_len + self.random.below(unsynced + 1) as usize);
            }
            let mut at = durable_len;
            while at < bytes.len() {
                let end = (at + 1).next_multiple_of(512).min(bytes.len());
                if self.random.below(8) >= survivors {
                    bytes[at..end].fill(0);
                }
                at = end;
            }
            image.replace(&name, bytes);
        }
        image.sync_dir().unwrap();
        image
    }

    /// A store with any one bit changed gives all or an error, if `is_protected`; otherwise a
    /// prefix or an error.
    fn check_flip(&mut self, image: &Memory, is_protected: bool) {
        let ids = ids(&shared(image));
        let Some(&id) = ids.get(self.random.below(ids.len().max(1) as u64) as usize) else {
            return;
        };
        let bytes = image.bytes_of(&file_name(id)).unwrap();
        if bytes.is_empty() {
            return;
        }
        let bit = self.random.below(bytes.len() as u64 * 8) as usize;
        change(image, id, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        if let Ok((_, applied)) = replay(&shared(image), &expect()) {
            assert!(
                same(&self.history, &applied),
                "bit {bit} of journal {id}: wrong records"
            );
            let lost = is_protected && applied.len() < self.history.len();
            assert!(!lost, "bit {bit} of journal {id}: records are lost");
        }
        image.replace(&file_name(id), bytes);
    }
}

fn same(history: &[Applied], applied: &[Applied]) -> bool {
    let without_id = |records: &[Applied]| -> Vec<_> {
        records
            .iter()
            .map(|(_, first, count, payload)| (*first, *count, payload.clone()))
            .collect()
    };
    applied.len() <= history.len() && without_id(&history[..applied.len()]) == without_id(applied)
}

/// Several lives of one store; an error says which promise was broken.
fn lives(seed: u64, bug: Bug) -> Result<(), String> {
    let memory = memory();
    let mut run = Run {
        storage: shared(&memory),
        memory,
        bug,
        random: Random(seed),
        history: Vec::new(),
        written: 0,
        synced: 0,
        synced_to: Sequence(0),
        older: Vec::new(),
        ready: None,
        has_begun: false,
    };
    for life in 0..6 {
        let (recovered, applied) =
            replay(&run.storage, &expect()).map_err(|error| format!("life {life}: {error}"))?;
        run.history.truncate(applied.len());
        run.written = applied.len();
        run.synced = run.synced.min(applied.len());
        let n = 1 + run.random.below(30);
        run.memory.fail_after(n, ErrorKind::StorageFull);
        let ended = run.run(&recovered);
        assert!(ended.is_ok() || ended.is_err_and(|error| error.is_disk_full()));
        run.memory.heal();

        let (image, promised) = run.crash();
        let (_, applied) = replay(&shared(&image), &expect())
            .map_err(|error| format!("life {life}: after the crash: {error}"))?;
        if !same(&run.history, &applied) {
            return Err(format!("life {life}: not what was written"));
        }
        if applied.len() < promised {
            return Err(format!(
                "life {life}: {} of {promised} records",
                applied.len()
            ));
        }
        run.history.truncate(applied.len());
        if bug == Bug::None {
            let is_kill = image.boot_id() == run.memory.boot_id();
            for _ in 0..3 {
                run.check_flip(&image, is_kill && run.has_begun);
            }
        }
        run.storage = shared(&image);
        run.memory = image;
        run.older.clear();
        run.ready = None;
        run.has_begun = false;
    }
    Ok(())
}

/// P3: after any crash the state is all records up to some point, no earlier than the last sync.
#[test]
fn no_crash_breaks_a_promise() {
    for seed in 0..1500 {
        if let Err(broken) = lives(seed, Bug::None) {
            panic!("seed {seed}: {broken}");
        }
    }
}

#[test]
fn the_campaign_finds_what_is_planted() {
    for bug in [
        Bug::OlderUnsynced,
        Bug::RecoveredUnsynced,
        Bug::NoSync,
        Bug::UnsealedSwitch,
    ] {
        let found = (0..1500).filter(|&seed| lives(seed, bug).is_err()).count();
        assert!(found > 0, "{bug:?} goes unnoticed");
    }
}
