//! What recovery does with damage, and what background threads do when they fail.

use std::sync::Arc;

use criba::storage::Memory;
use criba::{Db, Error};

use crate::faults::{Call, Rig};

/// Bug: a panic of the thread that flushes left whoever waited for a flush waiting for ever.
#[test]
fn a_panic_of_the_flush_is_told_to_who_waits() {
    let rig = Rig::new(Memory::new());
    let db = Db::builder("panic")
        .storage(Arc::new(rig.clone()))
        .open()
        .unwrap();
    db.put("key", "value").unwrap();
    rig.set(|call, name| {
        assert!(
            call != Call::Create || !name.ends_with(".seg"),
            "planted in {name}"
        );
        Ok(())
    });
    let error = db.flush().unwrap_err();
    let Error::Poisoned { cause } = &error else {
        panic!("{error}");
    };
    assert!(cause.to_string().contains("planted in 0"), "{cause}");
    assert!(matches!(
        db.put("key", "other"),
        Err(Error::Poisoned { .. })
    ));
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(matches!(db.close(), Err(Error::Poisoned { .. })));
    rig.heal();
    let db = Db::builder("panic").storage(Arc::new(rig)).open().unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}
