//! What the tree takes from `sync`, for its model.

use std::cell::Cell;
use std::panic::Location;

use loom::sync::atomic;

pub(super) use loom::hint::spin_loop;
pub(super) use std::sync::atomic::Ordering as Memory;

pub(super) const SLOTS: usize = 2;
pub(super) const SEGMENT: usize = 1;
pub(super) const FIRST_LOG2: u32 = 0;
pub(super) const LEVELS: usize = 6;
/// Each chunk is as long as its entry.
pub(super) const CHUNK_BYTES_MIN: usize = 0;

/// A line of the tree that is to be wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plant {
    pub(super) file: &'static str,
    pub(super) line: u32,
    pub(super) fault: Fault,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// Without its memory order.
    Relaxed,
    /// A store that is not done.
    Lost,
}

thread_local! {
    static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
}

/// From now on a line is wrong for this thread.
pub(super) fn plant(plant: Option<Plant>) {
    PLANTED.set(plant);
}

/// The fault of the caller's line.
#[track_caller]
fn fault() -> Option<Fault> {
    let caller = Location::caller();
    let planted = PLANTED.get()?;
    let is_here = caller.line() == planted.line && caller.file().ends_with(planted.file);
    is_here.then_some(planted.fault)
}

#[track_caller]
fn planted(order: Memory) -> Memory {
    match fault() {
        Some(Fault::Relaxed) => Memory::Relaxed,
        _ => order,
    }
}

#[track_caller]
pub(super) fn fence(order: Memory) {
    if fault().is_none() {
        atomic::fence(order);
    }
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        #[derive(Debug, Default)]
        pub(super) struct $name(atomic::$name);

        impl $name {
            #[track_caller]
            pub(super) fn load(&self, order: Memory) -> $value {
                self.0.load(planted(order))
            }

            #[track_caller]
            pub(super) fn store(&self, value: $value, order: Memory) {
                if fault() != Some(Fault::Lost) {
                    self.0.store(value, planted(order));
                }
            }
        }
    };
}

atomic!(AtomicBool, bool);
atomic!(AtomicU8, u8);
atomic!(AtomicU16, u16);
atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);

impl AtomicU64 {
    pub(super) fn new(value: u64) -> AtomicU64 {
        AtomicU64(atomic::AtomicU64::new(value))
    }
}

/// As the one of the standard library, for one thread that sets it.
#[derive(Debug)]
pub(super) struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: atomic::AtomicBool,
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T> OnceLock<T> {
    pub(super) fn new() -> OnceLock<T> {
        OnceLock {
            value: std::sync::OnceLock::new(),
            is_set: atomic::AtomicBool::new(false),
        }
    }

    pub(super) fn get(&self) -> Option<&T> {
        let is_set = self.is_set.load(Memory::Acquire);
        is_set.then(|| self.value.get()).flatten()
    }

    pub(super) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        if self.value.get().is_none() {
            self.value.get_or_init(init);
            self.is_set.store(true, Memory::Release);
        }
        self.value.get().expect("it was set")
    }
}
