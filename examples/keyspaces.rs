//! Users with unique emails, a counter, and a copy of all that: one store with several keyspaces.
//!
//! `cargo run --example keyspaces -- DIRECTORY` goes on from what the last run has left.
#![expect(clippy::print_stdout, reason = "a program prints")]
#![expect(clippy::print_stderr, reason = "a program says what went wrong")]

use std::path::PathBuf;

use criba::operator::Add;
use criba::{Db, Keyspace, Result};

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<()> {
    let argument = std::env::args_os().nth(1);
    let directory = PathBuf::from(argument.unwrap_or_else(|| "keyspaces-data".into()));
    let db = Db::open(directory.join("store"))?;

    // Each keyspace has its own keys and options. All share one journal.
    let users = db.keyspace("users")?;
    let emails = db.keyspace("emails")?;
    let wishes = db.keyspace_with("wishes", |options| options.operator(Add::u64()))?;

    for (name, email) in [("Ada", "ada@x"), ("Bob", "bob@x"), ("Eve", "ada@x")] {
        // A count is one write without a read, so any number of threads can count at once.
        wishes.merge(email, 1_u64.to_le_bytes())?;
        let answer = match register(&users, &emails, name, email)? {
            true => "done",
            false => "it is taken",
        };
        println!("{name} wants {email}: {answer}");
    }
    let wished = wishes.get("ada@x")?.and_then(|count| Add::to_u64(&count));
    println!("ada@x was wanted {} times", wished.unwrap_or(0));

    // A complete store of this moment. Its files are hard links, so it takes next to no room.
    let copy = directory.join(format!("copy-{}", db.stats().sequence));
    db.checkpoint(&copy)?;
    let copied = Db::open(&copy)?.keyspace("users")?.len()?;
    println!("{} has {copied} users", copy.display());
    db.close()
}

/// Both writes or none: of two who want one email at the same time, one gets it.
fn register(users: &Keyspace, emails: &Keyspace, name: &str, email: &str) -> Result<bool> {
    users.transact(|tx| {
        if tx.keyspace(emails).contains_key(email)? {
            return Ok(false);
        }
        tx.put(name, email)?;
        tx.keyspace_mut(emails).put(email, name)?;
        Ok(true)
    })
}
