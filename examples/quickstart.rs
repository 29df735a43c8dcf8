//! The README's first program: write, read, scan, ask what a lookup cost.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program prints"
)]

use criba::{Db, Durability, Result};

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<()> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "quickstart-data".into());
    let db = Db::open(&path)?;

    // Single writes survive a kill of the process.
    db.put("fruit/apple", "red")?;
    db.put("fruit/banana", "yellow")?;
    db.delete("fruit/apple")?;

    // A batch is atomic; with `Durability::Sync` it survives power loss when `commit` returns.
    let mut batch = db.batch();
    for n in 0..10_000 {
        batch.put(format!("number/{n:05}"), format!("{}", n * n));
    }
    batch.commit_with(Durability::Sync)?;

    // Values are slices, mostly into the cached block or memtable they lie in; many can be asked
    // for at once.
    assert_eq!(db.get("fruit/banana")?.as_deref(), Some(&b"yellow"[..]));
    let values = db.get_many(["fruit/banana", "fruit/none"])?;
    assert_eq!((values[0].is_some(), values[1].is_some()), (true, false));

    // Iterators and snapshots see one moment, from both ends.
    let snapshot = db.snapshot();
    db.put("fruit/cherry", "black")?;
    for entry in db.prefix("fruit/").rev() {
        let (key, value) = entry?;
        println!("{key:?} = {value:?}");
    }
    println!(
        "the snapshot sees {} fruits",
        snapshot.prefix("fruit/").count()
    );

    // Once in a segment, the filter says where a key is, and that another is not there.
    db.flush()?;
    println!("{}", db.explain("number/00042")?);
    println!("{}", db.explain("number/00042b")?);

    db.close()
}
