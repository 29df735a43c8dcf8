//! The slots of nodes, their names and their heads.

use super::super::node::{Inner, Leaf, NodeRef, Order, head};
use super::super::sync::SLOTS;

#[test]
fn an_order_is_a_list_of_slots() {
    let mut twin: Vec<usize> = Vec::new();
    let mut order = Order::default();
    for slot in 0..SLOTS {
        let position = slot * 7 % (twin.len() + 1);
        twin.insert(position, slot);
        order = order.insert(position, slot);
        assert_eq!(order.slots().collect::<Vec<_>>(), twin);
    }
    assert_eq!(order.len(), SLOTS);
    let first = Order::first(SLOTS);
    assert!(first.slots().eq(0..SLOTS));
}

#[test]
fn a_leaf_is_two_cache_lines() {
    assert_eq!((size_of::<Leaf>(), size_of::<Inner>()), (128, 256));
}

#[test]
fn a_name_says_all() {
    for is_inner in [false, true] {
        let node = NodeRef {
            number: u32::MAX >> 1,
            is_inner,
            generation: 7,
        };
        assert_eq!(NodeRef::from_u64(node.to_u64()), node);
    }
}

#[test]
fn heads_are_sorted_as_keys() {
    let keys: [&[u8]; 7] = [
        b"",
        b"\0",
        b"a",
        b"a\0b",
        b"abcdefgh",
        b"abcdefgi",
        b"b\xff\xff\xff\xff\xff\xff\xff\xff",
    ];
    assert!(keys.is_sorted_by_key(|key| head(key, 0)));
    assert_eq!(head(b"", 0), 0);
    assert_eq!(head(b"abc", 7), 0);
    assert_eq!(head(b"xyab", 2), 0x6162 << 16);
    assert_eq!(head(b"xyabcdefghij", 2), 0x6162_6364);
}
