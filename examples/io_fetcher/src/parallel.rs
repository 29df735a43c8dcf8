//! The same work on many things, by a few threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Fewer things than this are not worth a thread.
const WORTH_A_THREAD: usize = 4;

/// What `work` makes of each item, in the order of the items.
pub(crate) fn map<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    if threads < 2 || items.len() < WORTH_A_THREAD {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let share = || {
        let mut mine = Vec::new();
        while let Some((at, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, items.get(at)?)))
        {
            mine.push((at, work(item)));
        }
        done.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(mine);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(share);
        }
        share();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn results_are_in_order() {
        let items: Vec<u32> = (0..1000).collect();
        for threads in [1, 2, 5] {
            let squares = map(threads, &items, |n| n * n);
            assert!(
                squares
                    .iter()
                    .zip(&items)
                    .all(|(square, n)| *square == n * n)
            );
            assert_eq!(squares.len(), items.len());
        }
    }
}
