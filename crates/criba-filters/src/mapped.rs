//! Vectors for what is large and soon given back.
//!
//! What an allocator gets back it keeps, and the more of it the larger the pieces are that it is
//! used to: memory in which a filter was built would stay with each thread that ever built one.
//! Here it comes from the system and goes back to it.
#![expect(
    unsafe_code,
    reason = "numbers lie in memory that the system has mapped"
)]

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// From this many bytes on, memory comes from the system and goes back to it. An allocator would
/// keep what it gets back, as something that lives longer lies behind it.
const MAPPED_BYTES_MIN: usize = 256 << 10;

/// A vector in memory of the allocator, while it is short, or of the system.
pub(crate) enum MappedVec<T> {
    Heap(Vec<T>),
    Mapped(Mapped<T>),
}

/// Memory of the system for some values.
pub(crate) struct Mapped<T> {
    map: MmapMut,
    /// So many values were written, from the beginning of the map on.
    len: usize,
    of: PhantomData<T>,
}

impl<T: Copy> Mapped<T> {
    /// With room for so many values; `None` when there are too many maps.
    fn with_capacity(capacity: usize) -> Option<Mapped<T>> {
        Some(Mapped {
            map: MmapMut::map_anon(capacity.checked_mul(size_of::<T>())?).ok()?,
            len: 0,
            of: PhantomData,
        })
    }

    fn capacity(&self) -> usize {
        self.map.len() / size_of::<T>()
    }

    /// All of the memory: values of any type may begin where a map does, as that is where a page
    /// does.
    fn slots(&mut self) -> &mut [MaybeUninit<T>] {
        let count = self.capacity();
        // SAFETY: the map is at least as long as so many values, is borrowed as mutably as the
        // slots are, and no slot need be a value.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().cast(), count) }
    }

    /// There is room.
    #[inline]
    fn push(&mut self, value: T) {
        let len = self.len;
        self.slots()[len].write(value);
        self.len += 1;
    }

    fn values(&self) -> &[T] {
        // SAFETY: so many values were written, and the map lives as long as the reference.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast(), self.len) }
    }

    fn values_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; and the map is borrowed as mutably as the values are.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().cast(), self.len) }
    }
}

impl<T: Copy> MappedVec<T> {
    /// With room for so many values.
    fn with_capacity(capacity: usize) -> MappedVec<T> {
        let bytes = capacity.saturating_mul(size_of::<T>());
        let mapped = (bytes >= MAPPED_BYTES_MIN).then(|| Mapped::with_capacity(capacity));
        match mapped.flatten() {
            Some(mapped) => MappedVec::Mapped(mapped),
            None => MappedVec::Heap(Vec::with_capacity(capacity)),
        }
    }

    fn capacity(&self) -> usize {
        match self {
            MappedVec::Heap(values) => values.capacity(),
            MappedVec::Mapped(mapped) => mapped.capacity(),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        if self.len() == self.capacity() {
            self.grow();
        }
        match self {
            MappedVec::Heap(values) => values.push(value),
            MappedVec::Mapped(mapped) => mapped.push(value),
        }
    }

    /// Twice as much room.
    #[cold]
    fn grow(&mut self) {
        let mut grown = MappedVec::with_capacity((2 * self.capacity()).max(64));
        for value in self.iter() {
            grown.push(*value);
        }
        *self = grown;
    }

    /// Keeps the first so many.
    pub(crate) fn truncate(&mut self, len: usize) {
        match self {
            MappedVec::Heap(values) => values.truncate(len),
            MappedVec::Mapped(mapped) => mapped.len = mapped.len.min(len),
        }
    }

    /// These values in place of all that was there. Makes room for all at once, if the iterator
    /// knows how many there are.
    pub(crate) fn assign(&mut self, values: impl Iterator<Item = T>) {
        let least = values.size_hint().0;
        if least > self.capacity() {
            // Not both at once.
            *self = MappedVec::default();
            *self = MappedVec::with_capacity(least);
        }
        self.truncate(0);
        values.for_each(|value| self.push(value));
    }
}

impl<T> Default for MappedVec<T> {
    fn default() -> Self {
        MappedVec::Heap(Vec::new())
    }
}

impl<T: Copy> Deref for MappedVec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            MappedVec::Heap(values) => values,
            MappedVec::Mapped(mapped) => mapped.values(),
        }
    }
}

impl<T: Copy> DerefMut for MappedVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            MappedVec::Heap(values) => values,
            MappedVec::Mapped(mapped) => mapped.values_mut(),
        }
    }
}

impl<T: Copy + fmt::Debug> fmt::Debug for MappedVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_mapped(all: &MappedVec<u64>) -> bool {
        matches!(all, MappedVec::Mapped(_))
    }

    fn of(values: impl Iterator<Item = u64>) -> MappedVec<u64> {
        let mut all = MappedVec::default();
        all.assign(values);
        all
    }

    #[test]
    fn it_holds_what_a_vector_holds() {
        let most = (3 * MAPPED_BYTES_MIN / size_of::<u64>()) as u64;
        let (mut all, mut twin) = (MappedVec::default(), Vec::new());
        for n in 0..most {
            all.push(n * n);
            twin.push(n * n);
            if n.is_power_of_two() {
                assert_eq!(*all, twin);
            }
        }
        assert!(*all == twin && is_mapped(&all));
        all[17] = 0;
        twin[17] = 0;
        all.truncate(100);
        twin.truncate(100);
        all.truncate(1000);
        assert_eq!(*all, twin);
        assert_eq!(format!("{:?}", &all[..2]), "[0, 1]");
        assert!(!is_mapped(&of(twin.iter().copied())));
        assert!(is_mapped(&of(0..most)));
        // Of an iterator that does not know how many there will be.
        let some = |n: &u64| !n.is_multiple_of(3);
        let some = of((0..most).filter(some));
        assert!(some.iter().copied().eq((0..most).filter(|n| n % 3 > 0)));
    }

    #[test]
    fn it_can_be_filled_anew() {
        let mut all = of(0..1000);
        for len in [10, 1000, MAPPED_BYTES_MIN, 3, MAPPED_BYTES_MIN / 2, 0] {
            all.assign(std::iter::repeat_n(7, len));
            assert!(all.len() == len && all.iter().all(|&value| value == 7));
        }
        assert!(is_mapped(&all));
    }
}
