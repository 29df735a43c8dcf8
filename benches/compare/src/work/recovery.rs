//! How long a store takes to open when its process was killed with 64 MiB in the journal.

use std::process::Command;

use crate::engine::{Kind, Result};
use crate::keys::{FIRST, Key, Order, Values};
use crate::measure::Io;

use super::{Bench, Job};

const JOURNAL_BYTES: u64 = 64 << 20;
/// So large that nothing is flushed before the kill.
const MEMTABLE_BYTES: u64 = 256 << 20;

pub fn run(bench: &mut Bench) -> Result<()> {
    bench.job.settings.memtable_bytes = MEMTABLE_BYTES;
    let status = Command::new(std::env::current_exe()?)
        .args(["die", "--engine", bench.kind.name])
        .args(["--value-bytes", &bench.job.value_bytes.to_string()])
        .arg("--dir")
        .arg(&bench.job.dir)
        .status()?;
    if status.code().is_some() {
        return Err(format!("the process that was to kill itself ended with {status}").into());
    }
    let io = Io::now()?;
    let opened = bench.open()?;
    bench.set("open_after_kill_ms", opened.as_secs_f64() * 1e3);
    let processor = Io::now()?.since(io).processor;
    bench.set("open_after_kill_cpu_ms", processor.as_secs_f64() * 1e3);
    let found = bench.engine()?.scan(FIRST, usize::MAX, &mut |_, _| ())?;
    let lost = entries(bench.values.len()) - found as u64;
    bench.set("lost_after_kill", lost as f64);
    Ok(())
}

fn entries(value_len: usize) -> u64 {
    JOURNAL_BYTES / (Key::MEAN_BYTES + value_len as u64)
}

/// Fills the journal and ends as a crash would.
///
/// # Errors
///
/// When it could not; otherwise it does not return.
pub fn write_and_die(kind: Kind, mut job: Job) -> Result<()> {
    job.settings.memtable_bytes = MEMTABLE_BYTES;
    let engine = (kind.open)(&job.dir, &job.settings)?;
    let mut values = Values::new(job.value_bytes);
    for number in 0..entries(values.len()) {
        let key = Key::of(Order::Random, number);
        engine.put(key.bytes(), values.of(number, 0))?;
    }
    // SAFETY: it ends this process, and nothing else.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    Err("the process survived its own kill".into())
}
