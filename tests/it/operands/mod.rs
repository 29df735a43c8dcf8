//! Operands: what they come to wherever they lie, and what happens when nobody can combine them.

mod laws;
mod model;
mod reads;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use criba::operator::{Add, Append, MergeOperator, Merged};
use criba::sim::{Memory, Survivors};
use criba::{Builder, Compaction, Db, Error, EventKind, Outcome, Strategy};

fn builder(memory: &Memory) -> Builder {
    Db::builder("operands")
        .storage(Arc::new(memory.clone()))
        .compaction(Compaction::Manual)
        .block_bytes(512)
        .memtable_bytes(1 << 20)
}

fn append() -> Append {
    Append::with_delimiter(",")
}

fn number(db: &Db, key: &str) -> Option<i64> {
    Add::to_i64(&db.get(key).unwrap()?)
}

fn text(db: &Db, key: &str) -> Option<String> {
    let value = db.get(key).unwrap()?;
    Some(String::from_utf8(value.to_vec()).unwrap())
}

/// Appends, and fails or panics while it is told to.
#[derive(Clone, Default)]
struct Moody {
    fails: Arc<AtomicBool>,
    panics: Arc<AtomicBool>,
}

impl MergeOperator for Moody {
    fn name(&self) -> &str {
        "moody"
    }

    fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Merged {
        assert!(!self.panics.load(Ordering::Relaxed), "not today");
        if self.fails.load(Ordering::Relaxed) {
            return Err("no".into());
        }
        append().merge(key, base, operands)
    }
}

#[test]
fn operands_are_combined_wherever_they_lie() {
    let memory = Memory::new();
    let db = builder(&memory).operator(append()).open().unwrap();
    let check = |expected: &str| {
        let expected = Some(expected.to_owned());
        assert_eq!(text(&db, "k"), expected);
        let both = [db.iter().next(), db.iter().next_back()];
        for entry in both {
            let (key, value) = entry.unwrap().unwrap();
            assert_eq!(
                (&*key, &*value),
                (&b"k"[..], expected.as_ref().unwrap().as_bytes())
            );
        }
        assert_eq!(
            db.get_many(["k", "l"]).unwrap()[0].as_deref(),
            db.get("k").unwrap().as_deref()
        );
        assert_eq!(db.explain("k").unwrap().value, db.get("k").unwrap());
    };
    db.merge("k", "a").unwrap();
    check("a");
    db.merge("k", "b").unwrap();
    check("a,b");
    db.flush().unwrap();
    check("a,b");
    db.merge("k", "c").unwrap();
    check("a,b,c");
    db.flush().unwrap();
    db.merge("k", "d").unwrap();
    check("a,b,c,d");
    db.compact_all().unwrap().wait().unwrap();
    check("a,b,c,d");
    db.put("k", "e").unwrap();
    check("e");
    db.merge("k", "f").unwrap();
    check("e,f");
    db.flush().unwrap();
    check("e,f");
    db.delete("k").unwrap();
    assert_eq!(text(&db, "k"), None);
    db.merge("k", "g").unwrap();
    check("g");
    db.flush().unwrap();
    check("g");
    db.compact_all().unwrap().wait().unwrap();
    check("g");
    assert_eq!(db.take("k").unwrap().unwrap(), "g");
    assert_eq!(text(&db, "k"), None);
    db.batch()
        .put("k", "h")
        .merge("k", "i")
        .merge("k", "j")
        .commit()
        .unwrap();
    check("h,i,j");
    assert_eq!(db.len().unwrap(), 1);
}

#[test]
fn a_snapshot_sees_the_operands_that_were_there() {
    let memory = Memory::new();
    let db = builder(&memory).operator(append()).open().unwrap();
    let mut snapshots = Vec::new();
    let mut expected = String::new();
    for n in 0..100 {
        match n {
            0 => db.put("k", "0").unwrap(),
            _ => db.merge("k", n.to_string()).unwrap(),
        }
        if n > 0 {
            expected.push(',');
        }
        expected.push_str(&n.to_string());
        if n % 7 == 3 {
            snapshots.push((db.snapshot(), expected.clone()));
        }
        if n % 20 == 19 {
            db.flush().unwrap();
        }
    }
    let check = |snapshots: &[(criba::Snapshot, String)]| {
        for (snapshot, expected) in snapshots {
            assert_eq!(snapshot.get("k").unwrap().unwrap(), expected.as_bytes());
            let (_, value) = snapshot.iter().next_back().unwrap().unwrap();
            assert_eq!(value, expected.as_bytes());
            let (_, value) = snapshot.iter().next().unwrap().unwrap();
            assert_eq!(value, expected.as_bytes());
        }
        assert_eq!(text(&db, "k").unwrap(), expected);
    };
    check(&snapshots);
    db.compact_all().unwrap().wait().unwrap();
    check(&snapshots);
    let entries = |db: &Db| db.stats().segments().map(|one| one.entries).sum::<u64>();
    assert_eq!(
        entries(&db),
        snapshots.len() as u64 + 1,
        "one for each stripe"
    );
    snapshots.drain(..7);
    db.put("other", "").unwrap();
    db.flush().unwrap();
    db.compact_all().unwrap().wait().unwrap();
    check(&snapshots);
    snapshots.clear();
    db.put("other", "").unwrap();
    db.flush().unwrap();
    db.compact_all().unwrap().wait().unwrap();
    check(&snapshots);
    assert_eq!(entries(&db), 2);
}

/// Bug that this guards against: a lookup of a counter took ever longer until the next flush.
#[test]
fn a_memtable_sums_up_what_a_key_has_many_operands_of() {
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    struct Counted(Arc<std::sync::atomic::AtomicUsize>);
    impl MergeOperator for Counted {
        fn name(&self) -> &str {
            "counted"
        }
        fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Merged {
            self.0.fetch_max(operands.len(), Ordering::Relaxed);
            Add::i64().merge(key, base, operands)
        }
    }
    for is_based in [false, true] {
        let memory = Memory::new();
        let db = builder(&memory).operator(Counted(Arc::clone(&calls)));
        let db = db.memtable_bytes(64 << 20).open().unwrap();
        if is_based {
            db.put("k", 5_i64.to_le_bytes()).unwrap();
        }
        let base = if is_based { 5 } else { 0 };
        let mut snapshots = Vec::new();
        calls.store(0, Ordering::Relaxed);
        for n in 1..=1000_i64 {
            db.merge("k", 1_i64.to_le_bytes()).unwrap();
            db.merge(format!("once {n}"), 1_i64.to_le_bytes()).unwrap();
            assert_eq!(number(&db, "k"), Some(base + n));
            if n % 100 == 50 {
                snapshots.push((db.snapshot(), base + n));
            }
        }
        // The last, those before it, and a summary.
        let most = calls.swap(0, Ordering::Relaxed);
        assert!(most <= 34, "{most} operands were combined at once");
        let check = || {
            for (snapshot, expected) in &snapshots {
                let value = snapshot.get("k").unwrap().unwrap();
                assert_eq!(Add::to_i64(&value), Some(*expected));
            }
            assert_eq!(number(&db, "k"), Some(base + 1000));
        };
        check();
        db.flush().unwrap();
        check();
        let memory = memory.crash(Survivors::Everything);
        let counted = Counted(Arc::clone(&calls));
        let db = builder(&memory).operator(counted).open().unwrap();
        assert_eq!(number(&db, "k"), Some(base + 1000));
        assert_eq!(number(&db, "once 7"), Some(1));
    }
}

#[test]
fn without_an_operator_a_merge_is_refused() {
    let memory = Memory::new();
    let db = builder(&memory).open().unwrap();
    let refused = db.merge("k", "a").unwrap_err();
    assert!(
        refused.to_string().contains("Builder::operator"),
        "{refused}"
    );
    assert!(matches!(refused, Error::Invalid(_)));
    let mut batch = db.batch();
    batch.put("other", "").merge("k", "a").put("third", "");
    assert!(matches!(batch.commit(), Err(Error::Invalid(_))));
    assert!(db.is_empty().unwrap());
    let fifo = Strategy::Fifo {
        bytes: 1 << 30,
        age: None,
    };
    drop(db);
    let refused = builder(&memory).operator(append()).strategy(fifo).open();
    assert!(matches!(refused, Err(Error::Invalid(_))));
    let refused = builder(&memory)
        .operator(Append::with_delimiter([b'-'; 300]))
        .open();
    assert!(
        matches!(refused, Err(Error::Invalid(_))),
        "its name is too long"
    );
}

/// A store with operands of [`append`] is not opened in a way that would change what they mean.
fn check_refusals(memory: &Memory) {
    // Another one would make something else of what is there.
    let refused = builder(memory).operator(Add::i64()).open().unwrap_err();
    assert!(refused.to_string().contains("has operands of"), "{refused}");
    let fifo = Strategy::Fifo {
        bytes: 1 << 30,
        age: None,
    };
    assert!(builder(memory).strategy(fifo).open().is_err());
}

/// Opened without its operator: an error for the keys that need it, and nothing is lost.
#[test]
fn a_store_opens_without_its_operator() {
    let memory = Memory::new();
    let db = builder(&memory).operator(append()).open().unwrap();
    db.put("plain", "p").unwrap();
    db.put("base", "x").unwrap();
    db.flush().unwrap();
    for n in 0..100 {
        db.merge("base", n.to_string()).unwrap();
        db.merge("journal", n.to_string()).unwrap();
        if n == 40 {
            db.flush().unwrap();
        }
    }
    let expected = [text(&db, "base"), text(&db, "journal")];
    drop(db);
    let memory = memory.crash(Survivors::Everything);
    let is_missing = |error: &Error| match error {
        Error::NoOperator { name, .. } => name.as_deref() == Some(append().name()),
        _ => false,
    };
    check_refusals(&memory);
    let db = builder(&memory).open().unwrap();
    let check = |db: &Db| {
        assert_eq!(db.get("plain").unwrap().unwrap(), "p");
        for key in ["base", "journal"] {
            assert!(is_missing(&db.get(key).unwrap_err()), "{key}");
            assert!(is_missing(&db.take(key).unwrap_err()), "{key}");
            assert!(is_missing(&db.explain(key).unwrap_err()), "{key}");
        }
        // An iterator goes on behind a key that it cannot read, in both directions.
        for entries in [db.iter().collect::<Vec<_>>(), db.iter().rev().collect()] {
            assert_eq!(entries.len(), 3);
            assert_eq!(entries.iter().filter(|entry| entry.is_ok()).count(), 1);
            let mut errors = entries.iter().filter_map(|entry| entry.as_ref().err());
            assert!(errors.all(is_missing));
        }
    };
    check(&db);
    db.put("more", "").unwrap();
    db.delete("more").unwrap();
    db.flush().unwrap();
    check(&db);
    db.compact_all().unwrap().wait().unwrap();
    check(&db);
    let snapshot = db.snapshot();
    for (key, base) in [
        ("base", Some("x")),
        ("journal", None),
        ("plain", Some("p")),
        ("no", None),
    ] {
        let (value, operands) = db.operands(key).unwrap();
        assert_eq!(value.as_deref(), base.map(str::as_bytes), "{key}");
        let expected = if base == Some("p") || key == "no" {
            0..0
        } else {
            0..100
        };
        // Those before the first flush were combined then.
        let all: Vec<String> = expected.map(|n| n.to_string()).collect();
        assert_eq!(operands.join(&b","[..]), all.join(",").as_bytes());
        assert_eq!(snapshot.operands(key).unwrap(), (value, operands));
    }
    drop(snapshot);
    assert!(db.verify(|_, _| ()).unwrap().findings.is_empty());
    db.close().unwrap();
    let db = builder(&memory).operator(append()).open().unwrap();
    assert_eq!([text(&db, "base"), text(&db, "journal")], expected);
    assert_eq!(db.len().unwrap(), 3);
}

#[test]
fn an_operator_that_fails_or_panics_is_an_error_of_the_key() {
    let memory = Memory::new();
    let moody = Moody::default();
    let db = builder(&memory).operator(moody.clone()).open().unwrap();
    db.put("a", "1").unwrap();
    db.merge("b", "2").unwrap();
    db.flush().unwrap();
    for what in ["no", "not today"] {
        let switch = if what == "no" {
            &moody.fails
        } else {
            &moody.panics
        };
        switch.store(true, Ordering::Relaxed);
        for n in 0..100 {
            db.merge("b", n.to_string()).unwrap();
        }
        let check = |db: &Db| {
            let error = db.get("b").unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            let Error::Operator { name, key, .. } = error else {
                panic!("{error}");
            };
            assert_eq!((&*name, &*key), ("moody", &b"b"[..]));
            assert_eq!(db.get("a").unwrap().unwrap(), "1");
            assert_eq!(db.iter().filter(Result::is_ok).count(), 1);
        };
        check(&db);
        db.flush().unwrap();
        check(&db);
        db.compact_all().unwrap().wait().unwrap();
        check(&db);
        let failed = |kind: &EventKind| matches!(kind, EventKind::Failed { what: told } if told.contains(what));
        assert!(
            db.stats().events.iter().any(|event| failed(&event.what)),
            "{what}"
        );
        switch.store(false, Ordering::Relaxed);
        // Nothing was lost.
        let all: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let found = text(&db, "b").unwrap();
        assert!(
            found.starts_with("2,0,1,") && found.ends_with(&all.join(",")),
            "{found}"
        );
    }
    // A value, or a delete, is the way out.
    moody.fails.store(true, Ordering::Relaxed);
    db.put("b", "new").unwrap();
    assert_eq!(text(&db, "b").unwrap(), "new");
}

#[test]
fn a_malformed_operand_is_an_error_of_its_key_until_a_value_is_put() {
    let memory = Memory::new();
    let db = builder(&memory).operator(Add::i64()).open().unwrap();
    db.merge("good", 7_i64.to_le_bytes()).unwrap();
    db.merge("bad", 7_i64.to_le_bytes()).unwrap();
    db.merge("bad", "seven").unwrap();
    db.flush().unwrap();
    db.compact_all().unwrap().wait().unwrap();
    assert_eq!(number(&db, "good"), Some(7));
    assert!(matches!(db.get("bad"), Err(Error::Operator { .. })));
    db.put("bad", 1_i64.to_le_bytes()).unwrap();
    db.merge("bad", 1_i64.to_le_bytes()).unwrap();
    assert_eq!(number(&db, "bad"), Some(2));
}

/// A queue leaves gaps that iterators step over; an operand in one is not stepped over.
#[test]
fn an_operand_cuts_a_gap() {
    let memory = Memory::new();
    let db = builder(&memory).operator(append()).open().unwrap();
    for n in 0..100 {
        db.put(format!("{n:03}"), "").unwrap();
        db.delete(format!("{n:03}")).unwrap();
    }
    db.put("last", "").unwrap();
    assert_eq!(db.first().unwrap().unwrap().0, "last");
    db.merge("050", "x").unwrap();
    assert_eq!(db.first().unwrap().unwrap().0, "050");
}

#[test]
fn keys_with_operands_are_counted_as_there() {
    let memory = Memory::new();
    let db = builder(&memory).operator(append()).open().unwrap();
    for n in 0..1000 {
        db.merge(format!("{n:04}"), "x").unwrap();
    }
    for is_flushed in [false, true] {
        if is_flushed {
            db.flush().unwrap();
        }
        let about = db.approximate_len() as f64;
        assert!((about - 1000.0).abs() < 50.0, "{about}");
    }
    for n in 0..500 {
        db.merge(format!("{n:04}"), "y").unwrap();
    }
    db.flush().unwrap();
    let about = db.approximate_len() as f64;
    assert!((about - 1000.0).abs() < 100.0, "{about}");
    assert_eq!(
        db.stats().segments().map(|one| one.tombstones).sum::<u64>(),
        0
    );
}

#[test]
fn a_repair_keeps_all_operands() {
    let memory = Memory::new();
    let db = builder(&memory).operator(append()).open().unwrap();
    db.put("based", "b").unwrap();
    db.flush().unwrap();
    db.merge("based", "1").unwrap();
    db.merge("free", "2").unwrap();
    db.delete("gone").unwrap();
    db.flush().unwrap();
    db.merge("based", "3").unwrap();
    db.merge("free", "4").unwrap();
    db.put("gone", "5").unwrap();
    db.delete("gone").unwrap();
    db.close().unwrap();
    let source: Arc<dyn criba::storage::Storage> = Arc::new(memory);
    let new = Memory::new();
    // Without the operator.
    let repaired = builder(&new).repair_from(&source, |_| ()).unwrap();
    assert_eq!((repaired.keys, repaired.lost.len()), (2, 0));
    let db = builder(&new).operator(append()).open().unwrap();
    assert_eq!(text(&db, "based").unwrap(), "b,1,3");
    assert_eq!(text(&db, "free").unwrap(), "2,4");
    assert_eq!(text(&db, "gone"), None);
}

#[test]
fn damage_below_an_operand_is_an_error_not_another_value() {
    let memory = Memory::new();
    let db = builder(&memory).operator(append()).open().unwrap();
    db.put("k", "base").unwrap();
    db.flush().unwrap();
    let below = db.stats().segments().next().unwrap().id;
    db.merge("k", "operand").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let name = format!("{below:06}.seg");
    let mut bytes = memory.bytes_of(&name).unwrap();
    bytes[0] ^= 1;
    memory.replace(&name, bytes);
    let db = builder(&memory).operator(append()).open().unwrap();
    assert!(matches!(db.get("k"), Err(Error::Corrupt(_))));
    assert!(matches!(db.iter().next(), Some(Err(Error::Corrupt(_)))));
    assert!(matches!(
        db.iter().next_back(),
        Some(Err(Error::Corrupt(_)))
    ));
}

#[test]
fn an_explanation_tells_where_operands_were() {
    let memory = Memory::new();
    let db = builder(&memory).operator(append()).open().unwrap();
    db.put("k", "base").unwrap();
    db.flush().unwrap();
    db.merge("k", "one").unwrap();
    db.flush().unwrap();
    db.merge("k", "two").unwrap();
    let explanation = db.explain("k").unwrap();
    assert_eq!(explanation.value.as_ref().unwrap(), "base,one,two");
    let outcomes: Vec<_> = explanation.steps.iter().map(|step| step.outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::Operand, Outcome::Operand, Outcome::Found]
    );
    assert_eq!(
        (
            explanation.data_blocks(),
            explanation.blocks_without_filters
        ),
        (2, 2)
    );
    assert!(
        explanation.to_string().contains("operand, goes on"),
        "{explanation}"
    );
}
