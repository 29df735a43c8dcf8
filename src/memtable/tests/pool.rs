//! Numbers and the places that they stand for.

use std::sync::atomic::{AtomicU32, Ordering};

use super::super::pool::{Pool, place};
use super::super::sync::{FIRST_LOG2, LEVELS};

#[test]
fn things_keep_their_place() {
    let pool: Pool<AtomicU32> = Pool::new();
    let count = if cfg!(miri) { 200 } else { 10_000 };
    for number in 0..count {
        pool.make(number).store(number, Ordering::Relaxed);
    }
    assert!((0..count).all(|number| pool.get(number).load(Ordering::Relaxed) == number));
}

#[test]
fn every_number_has_a_place_of_its_own() {
    assert_eq!(place(0), (0, 0, 0));
    assert_eq!(place(1023), (0, 15, 63));
    assert_eq!(place(1024), (1, 0, 0));
    assert_eq!(place(3071), (1, 31, 63));
    assert_eq!(place(3072), (2, 0, 0));
    let (level, segment, _) = place(u32::MAX);
    assert!(level < LEVELS && segment < 1 << (level as u32 + FIRST_LOG2));
}
