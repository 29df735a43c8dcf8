//! Page views and distinct visitors, counted without a read: what merge operators are for.
//!
//! `cargo run --example counters -- DIRECTORY` counts some more each time it is run.
#![expect(clippy::print_stdout, reason = "a program prints")]
#![expect(clippy::print_stderr, reason = "a program says what went wrong")]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use criba::operator::Add;
use criba::{Db, sketch};

const PAGES: [&str; 3] = ["/", "/about", "/buy"];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let directory: PathBuf = std::env::args_os()
        .nth(1)
        .unwrap_or("counters".into())
        .into();
    let views = Db::builder(directory.join("views"))
        .operator(Add::u64())
        .open()?;
    let distinct = sketch::Distinct::with_error(0.01)?;
    let visitors = Db::builder(directory.join("visitors"))
        .operator(distinct)
        .open()?;
    let mut random = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64 | 1;
    for _ in 0..100_000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Some pages more often than others.
        let page = PAGES[[0, 0, 0, 1, 1, 2][(random % 6) as usize]];
        let visitor = format!("visitor {}", random >> 8 & 0xffff);
        // Two writes, and nothing is read: any number of threads could do it at once.
        views.merge(page, 1_u64.to_le_bytes())?;
        visitors.merge(page, sketch::item(visitor))?;
    }
    println!(
        "{:<8} {:>9} {:>9} {:>6}",
        "page", "views", "visitors", "bytes"
    );
    for entry in &views.snapshot() {
        let (page, count) = entry?;
        let seen = visitors.get(&page)?.unwrap_or_default();
        let count = Add::to_u64(&count).ok_or("no number")?;
        let about = distinct.estimate(&seen)?;
        let page = String::from_utf8_lossy(&page);
        println!("{page:<8} {count:>9} {about:>9.0} {:>6}", seen.len());
    }
    let (written, kept) = (views.stats().sequence, views.disk_bytes()?);
    println!("{written} views were counted, in {kept} bytes of segments and journals");
    views.close()?;
    visitors.close()?;
    Ok(())
}
