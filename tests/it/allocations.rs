//! The largest single allocation of a thread: damage must not make a reader ask for more memory
//! than the files in front of it can need.
#![expect(unsafe_code, reason = "an allocator that counts is one by contract")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Watched;

#[global_allocator]
static WATCHED: Watched = Watched;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(bytes: usize) {
    // At the end of a thread there is none to note it in.
    LARGEST
        .try_with(|largest| largest.set(largest.get().max(bytes)))
        .ok();
}

/// The largest allocation of this thread since it was asked for the last time, in bytes.
pub(crate) fn take_largest() -> usize {
    LARGEST.take()
}

// SAFETY: all calls go to the system's allocator as they are; noting them allocates nothing.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the contract of this call, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the contract of this call, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: the caller keeps the contract of this call, which is the same.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of this call, which is the same.
        unsafe { System.dealloc(old, layout) }
    }
}
