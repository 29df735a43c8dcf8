//! What files are told that they will be asked for.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::storage::{AppendFile, LockGuard, ReadCause, ReadFile};

use super::*;

type Said = Arc<Mutex<Vec<Range<u64>>>>;

#[derive(Debug)]
struct Listening<T> {
    inner: T,
    said: Said,
}

impl ReadFile for Listening<Arc<dyn ReadFile>> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read(&self, cause: ReadCause, offset: u64, len: usize) -> io::Result<Slice> {
        self.inner.read(cause, offset, len)
    }

    fn will_read(&self, offset: u64, len: u64) {
        self.said.lock().unwrap().push(offset..offset + len);
    }
}

impl Storage for Listening<Memory> {
    fn path_of(&self, name: &str) -> PathBuf {
        self.inner.path_of(name)
    }

    fn create_dir(&self) -> io::Result<()> {
        self.inner.create_dir()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(Listening {
            inner: self.inner.open(name)?,
            said: Arc::clone(&self.said),
        }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn AppendFile>> {
        self.inner.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.sync_dir()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn LockGuard>> {
        self.inner.lock(name)
    }

    fn boot_id(&self) -> Option<u128> {
        self.inner.boot_id()
    }
}

const KEYS: u64 = 20_000;

fn key(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

/// A segment of some megabytes, with filter pages, and what was said when it was opened.
fn world() -> (World, Said) {
    let said = Said::default();
    let inner = Memory::new();
    inner.create_dir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(Listening {
        inner,
        said: Arc::clone(&said),
    });
    let content = (0..KEYS).map(|number| (key(number), vec![1])).collect();
    let mut setup = Setup::plain(Some(FilterSpec::Bloom { bits_per_key: 10.0 }), 0);
    setup.value_bytes = 100;
    let world = write_to(&storage, &content, setup, FilterResidency::Pinned);
    (world, said)
}

fn data_end(world: &World) -> u64 {
    world.segment.body().unwrap().footer.data_end
}

fn taken(said: &Said) -> Vec<Range<u64>> {
    std::mem::take(&mut said.lock().unwrap())
}

fn walk(world: &World, (direction, reading): (Direction, Reading), entries: usize) -> usize {
    let (segment, caches) = (Arc::clone(&world.segment), Arc::clone(&world.caches));
    let mut walk = SegmentWalk::new(segment, caches, direction, Bound::Unbounded, reading);
    (0..entries).take_while(|_| walk.advance().unwrap()).count()
}

#[test]
fn filters_are_asked_for_whole_and_lookups_ask_for_nothing() {
    let (world, said) = world();
    let footer = &world.segment.body().unwrap().footer;
    let pages = footer.filter_start..footer.filter_header;
    assert_eq!(taken(&said), vec![pages; 1]);
    for number in (0..KEYS).step_by(7) {
        assert!(world.get(&key(number), 9).0.is_some());
    }
    assert_eq!(taken(&said), []);
}

#[test]
fn walks_ask_for_what_they_come_to() {
    let (world, said) = world();
    let end = data_end(&world);
    assert!(end > 1 << 20, "{end}");
    taken(&said);
    for direction in [Direction::Forward, Direction::Backward] {
        // About four entries to a block of 512 bytes.
        assert_eq!(walk(&world, (direction, Reading::Blocks), 50), 50);
        assert_eq!(taken(&said), []);
        let all = walk(&world, (direction, Reading::Blocks), usize::MAX);
        assert_eq!(all as u64, KEYS);
        let mut asked = taken(&said);
        assert!(asked.len() < 20, "{asked:?}");
        if direction == Direction::Backward {
            asked.reverse();
        }
        assert!(asked.windows(2).all(|pair| pair[0].end == pair[1].start));
        let (first, last) = (&asked[0], &asked[asked.len() - 1]);
        let missed = first.start + (end - last.end);
        assert_eq!(missed, 8 << 10, "{asked:?}");
    }
}

#[test]
fn merges_ask_for_the_next_request() {
    let (world, said) = world();
    let end = data_end(&world);
    taken(&said);
    let way = (Direction::Forward, Reading::Ahead);
    assert_eq!(walk(&world, way, usize::MAX) as u64, KEYS);
    let asked = taken(&said);
    assert_eq!(asked.len() as u64, end.div_ceil(512 << 10), "{asked:?}");
    assert_eq!(asked[0].start, 512 << 10);
    assert!(asked.windows(2).all(|pair| pair[0].end == pair[1].start));
    assert_eq!(asked[asked.len() - 1], end..end);
}
