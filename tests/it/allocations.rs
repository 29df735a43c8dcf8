//! The largest single allocation of a thread: damage must not make a reader ask for more memory
//! than the files in front of it can need. And the most that a thread held at once.
#![expect(unsafe_code, reason = "an allocator that counts is one by contract")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Watched;

#[global_allocator]
static WATCHED: Watched = Watched;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
    /// What this thread has allocated and not freed, and the most that it was.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// Notes an allocation of so many bytes in the place of one of so many; 0 for none.
fn note(bytes: usize, instead_of: usize) {
    // At the end of a thread there is none to note it in.
    LARGEST
        .try_with(|largest| largest.set(largest.get().max(bytes)))
        .ok();
    let change = bytes as isize - instead_of as isize;
    HELD.try_with(|held| {
        let now = held.get().0 + change;
        held.set((now, held.get().1.max(now)));
    })
    .ok();
}

/// The largest allocation of this thread since it was asked for the last time, in bytes.
pub(crate) fn take_largest() -> usize {
    LARGEST.take()
}

/// Runs something and tells how many bytes more than before this thread held at the most.
pub(crate) fn most_held<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get().0;
    HELD.set((before, before));
    let result = run();
    (result, (HELD.get().1 - before).cast_unsigned())
}

// SAFETY: all calls go to the system's allocator as they are; noting them allocates nothing.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller keeps the contract of this call, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller keeps the contract of this call, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size, layout.size());
        // SAFETY: the caller keeps the contract of this call, which is the same.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        note(0, layout.size());
        // SAFETY: the caller keeps the contract of this call, which is the same.
        unsafe { System.dealloc(old, layout) }
    }
}
