//! Transfers between accounts, two threads: each reads two accounts and writes both, and tries again
//! after a conflict. With few accounts most meet the other thread, with many hardly any does.

use std::sync::Barrier;
use std::time::Instant;

use crate::engine::{Bank, Result};
use crate::keys::{Key, Order, Rng};
use crate::measure::Limit;

use super::{Bench, READS_MIN, stream};

const THREADS: u64 = 2;
const ACCOUNTS_MAX: u64 = 1_000_000;
/// Accounts under high contention.
const ACCOUNTS_FEW: u64 = 8;
/// The balance of each account at first.
const BALANCE: u64 = 1 << 32;

/// The work of one thread.
struct Done {
    committed: u64,
    conflicts: u64,
    begun: Instant,
    ended: Instant,
}

/// Nothing for a store that has no such transactions.
pub fn run(bench: &mut Bench) -> Result<()> {
    let Some(open) = bench.kind.open_bank else {
        return Ok(());
    };
    let bank = open(&bench.job.dir, &bench.job.settings)?;
    let accounts = bench.job.keys.clamp(ACCOUNTS_FEW, ACCOUNTS_MAX);
    let value_bytes = bench.job.value_bytes.max(8);
    for account in 0..accounts {
        bank.put(key(account).bytes(), &value(BALANCE, value_bytes))?;
    }
    for (name, accounts) in [
        ("transactions_low", accounts),
        ("transactions_high", ACCOUNTS_FEW),
    ] {
        transfer(bench, &*bank, name, accounts)?;
    }
    let sum = (0..accounts).map(|account| balance(&*bank, account));
    let sum = sum.sum::<Result<u64>>()?;
    match sum == accounts * BALANCE {
        true => Ok(()),
        false => Err(format!("accounts have {sum}, not {}", accounts * BALANCE).into()),
    }
}

fn key(account: u64) -> Key {
    Key::of(Order::Random, account)
}

fn value(balance: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![b'.'; bytes];
    value[..8].copy_from_slice(&balance.to_le_bytes());
    value
}

fn balance_of(value: &[u8]) -> u64 {
    let bytes = value.first_chunk().copied();
    bytes.map_or(0, u64::from_le_bytes)
}

fn balance(bank: &dyn Bank, account: u64) -> Result<u64> {
    let mut balance = 0;
    bank.get(key(account).bytes(), &mut |value| {
        balance = balance_of(value)
    })?;
    Ok(balance)
}

fn transfer(bench: &mut Bench, bank: &dyn Bank, name: &str, accounts: u64) -> Result<()> {
    let barrier = Barrier::new(THREADS as usize);
    let (count, limit) = (bench.job.reads / THREADS, bench.job.limit);
    let runs: Vec<Result<Done>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mut rng = bench.rng(stream(name, thread));
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let (limit, least) = (Limit::new(limit), Limit::new(READS_MIN));
                    let mut done = Done {
                        committed: 0,
                        conflicts: 0,
                        begun: Instant::now(),
                        ended: Instant::now(),
                    };
                    while (done.committed < count || !least.is_over(done.committed))
                        && !limit.is_over(done.committed)
                    {
                        done.conflicts += transfer_one(bank, &mut rng, accounts)?;
                        done.committed += 1;
                    }
                    done.ended = Instant::now();
                    Ok(done)
                })
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .map(|end| end.unwrap_or_else(|_| Err("a thread panicked".into())))
            .collect()
    });
    let runs = runs.into_iter().collect::<Result<Vec<_>>>()?;
    let begun = runs.iter().map(|run| run.begun).min().ok_or("no threads")?;
    let ended = runs.iter().map(|run| run.ended).max().ok_or("no threads")?;
    let committed: u64 = runs.iter().map(|run| run.committed).sum();
    let conflicts: u64 = runs.iter().map(|run| run.conflicts).sum();
    bench.set(name, committed as f64 / (ended - begun).as_secs_f64());
    let share = conflicts as f64 / (committed + conflicts) as f64;
    bench.set(format!("{name}_conflicts"), share);
    bench.set_cut(name, committed, count * THREADS);
    Ok(())
}

/// Moves one from an account to another; how many conflicts that took.
fn transfer_one(bank: &dyn Bank, rng: &mut Rng, accounts: u64) -> Result<u64> {
    let from = rng.below(accounts);
    let to = (from + 1 + rng.below(accounts - 1)) % accounts;
    let (from, to) = (key(from), key(to));
    let mut conflicts = 0;
    let mut change = |[from, to]: [&[u8]; 2]| {
        let bytes = from.len();
        [
            value(balance_of(from) - 1, bytes),
            value(balance_of(to) + 1, bytes),
        ]
    };
    while !bank.transact([from.bytes(), to.bytes()], &mut change)? {
        conflicts += 1;
    }
    Ok(conflicts)
}
