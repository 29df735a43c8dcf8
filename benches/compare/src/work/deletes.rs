//! Work with many deletions: a store that changes all the time, and a queue.

use std::time::Instant;

use crate::engine::Result;
use crate::keys::{Key, Order};
use crate::measure::{Io, Limit};

use super::points::count_all;
use super::{Bench, must_get, must_miss};

/// Of ten operations, four put a new key, four delete an old one, one reads what is there and one what
/// was deleted.
const KINDS: u64 = 10;

pub fn run(bench: &mut Bench) -> Result<()> {
    bench.job.keys /= 2;
    bench.open()?;
    bench.fill("delete_load", Order::Random)?;
    let count = bench.filled * 2;
    let mut live: Vec<u64> = (0..bench.filled).collect();
    let mut dead = Vec::new();
    let mut next = bench.filled;
    let io = Io::now()?;
    let begun = Instant::now();
    bench.mixed("delete_heavy_no_debt", count, &mut |engine, rng, values| {
        let number = live[rng.below(live.len() as u64) as usize];
        match rng.below(KINDS) {
            0..4 => {
                engine.put(Key::of(Order::Random, next).bytes(), values.of(next, 0))?;
                live.push(next);
                next += 1;
                Ok(())
            }
            4..8 if live.len() > 1 => {
                let at = rng.below(live.len() as u64) as usize;
                let gone = live.swap_remove(at);
                dead.push(gone);
                engine.delete(Key::of(Order::Random, gone).bytes())
            }
            8 if !dead.is_empty() => {
                let gone = dead[rng.below(dead.len() as u64) as usize];
                must_miss(engine, &Key::of(Order::Random, gone))
            }
            _ => must_get(engine, Order::Random, number, values.len()).map(drop),
        }
    })?;
    let took = begun.elapsed();
    let begun = Instant::now();
    let debt = bench.engine()?.settle()?.saturating_duration_since(begun);
    // As many as there was time for.
    let done = bench.metrics["delete_heavy_no_debt"] * took.as_secs_f64();
    bench.set("delete_heavy", done / (took + debt).as_secs_f64());
    bench.set_processor("delete_heavy", Io::now()?.since(io), done as u64);
    count_all(bench, "scan_after_deletes", live.len() as u64)
}

const BACKLOG: u64 = 1000;
const PARTS: usize = 10;
const OPS_PER_MARK: u64 = 64;

/// Put at the end, find and delete the first; a thousand wait between.
pub fn run_queue(bench: &mut Bench) -> Result<()> {
    bench.open()?;
    let limit = Limit::new(bench.job.limit);
    let io = Io::now()?;
    let engine = bench.engine.as_ref().ok_or("the store is closed")?;
    let mut marks = Vec::new();
    let mut first = Vec::with_capacity(32);
    let mut end = 0;
    while end < bench.job.keys + BACKLOG {
        engine.put(
            Key::of(Order::Sequential, end).bytes(),
            bench.values.of(end, 0),
        )?;
        end += 1;
        let Some(front) = end.checked_sub(BACKLOG) else {
            continue;
        };
        engine.scan(b"user", 1, &mut |key, _| {
            first.clear();
            first.extend_from_slice(key);
        })?;
        if first != Key::of(Order::Sequential, front).bytes() {
            let found = first.escape_ascii();
            return Err(format!("the first of the queue is {found}, not number {front}").into());
        }
        engine.delete(&first)?;
        if front.is_multiple_of(OPS_PER_MARK) {
            marks.push(limit.elapsed().as_secs_f64());
            if limit.is_over(0) {
                break;
            }
        }
    }
    bench.set_processor("queue", Io::now()?.since(io), end);
    bench.set_cut("queue", end, bench.job.keys + BACKLOG);
    queue_metrics(bench, &marks)
}

fn queue_metrics(bench: &mut Bench, marks: &[f64]) -> Result<()> {
    let part = (marks.len() / PARTS).max(1);
    let rate = |from: f64, to: f64, marks: usize| marks as f64 * OPS_PER_MARK as f64 / (to - from);
    let [begun, .., last] = marks else {
        return Err("the queue is too slow to measure".into());
    };
    let first = rate(*begun, marks[part.min(marks.len() - 1)], part);
    let end = rate(marks[marks.len() - 1 - part], *last, part);
    bench.set("queue", rate(*begun, *last, marks.len() - 1));
    bench.set("queue_first", first);
    bench.set("queue_last", end);
    bench.set("queue_last_to_first", end / first);
    bench.set("queue_done", (marks.len() as u64 * OPS_PER_MARK) as f64);
    Ok(())
}
