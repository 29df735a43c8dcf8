//! Memory that is brought into the processor's cache before it is read.
//!
//! A lookup asks several filters, most of them in vain, then looks into a block, and each is
//! somewhere in memory that it did not look at lately. One after the other they cost a wait each;
//! begun together, one wait.
#![cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "the instruction takes a pointer, which it does not follow"
    )
)]

/// Bytes of a cache line.
const LINE: usize = 64;

/// Begins to fetch so many elements from `first` on, as far as there are any.
#[inline(always)]
pub fn prefetch<T>(all: &[T], first: usize, count: usize) {
    let rest = all.get(first..).unwrap_or_default();
    let wanted = rest.get(..count).unwrap_or(rest);
    let mut line = 0;
    while line < size_of_val(wanted) {
        fetch(wanted.as_ptr().wrapping_byte_add(line));
        line += LINE;
    }
    // Where they do not begin with a line, they end in one more.
    if let Some(last) = wanted.last() {
        fetch(last);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fetch<T>(place: *const T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing that the program sees and never faults; every x86-64 has it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
}

/// Other processors find out by themselves what is read, a little later.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn fetch<T>(_: *const T) {}

#[cfg(test)]
mod tests {
    use super::prefetch;

    /// It changes nothing; this is for tools that watch memory.
    #[test]
    fn any_range_may_be_asked_for() {
        let all = [1u64, 2, 3, 4, 5, 6, 7, 8, 9];
        for (first, count) in [(0, 9), (3, 100), (8, 1), (9, 1), (usize::MAX, usize::MAX)] {
            prefetch(&all, first, count);
            prefetch::<u8>(&[], first, count);
        }
    }
}
