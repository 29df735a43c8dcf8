//! Transactions that are run again after a conflict.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::store::Store;

use super::super::keyspace::Keyspace;
use super::{Isolation, Transaction};

/// How often a transaction is tried.
const ATTEMPTS_MAX: u32 = 100;

/// Attempts that follow each other at once; only other threads may take the processor between them.
const QUICK_ATTEMPTS: u32 = 3;

/// The longest pause doubles with each attempt, from the first to the last of these.
const PAUSE_MIN: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(10);

impl Keyspace {
    /// Runs a serializable transaction and commits it, and does so again as long as it meets a
    /// conflict. Returns what the last run of `work` has returned.
    ///
    /// `work` may run several times, so it should change nothing but the transaction. No lock is held
    /// while it runs. Between two runs there is a pause of random length, up to 10 ms. After 100
    /// runs the conflict is returned. Any other error, of `work` or of the store, is returned at
    /// once, and nothing of that run is written.
    ///
    /// A transfer that leaves no account below zero:
    ///
    /// ```
    /// use criba::Db;
    ///
    /// #[derive(Debug)]
    /// enum Refusal {
    ///     TooLittle,
    ///     Store(criba::Error),
    /// }
    ///
    /// impl From<criba::Error> for Refusal {
    ///     fn from(error: criba::Error) -> Refusal {
    ///         Refusal::Store(error)
    ///     }
    /// }
    ///
    /// fn balance(bytes: Option<criba::Slice>) -> u64 {
    ///     bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.as_ref().try_into().unwrap()))
    /// }
    ///
    /// fn transfer(db: &Db, from: &str, to: &str, amount: u64) -> Result<(), Refusal> {
    ///     db.transact(|tx| {
    ///         let left = balance(tx.get(from)?).checked_sub(amount).ok_or(Refusal::TooLittle)?;
    ///         let sum = balance(tx.get(to)?) + amount;
    ///         tx.put(from, left.to_le_bytes())?;
    ///         tx.put(to, sum.to_le_bytes())?;
    ///         Ok(())
    ///     })
    /// }
    ///
    /// # fn main() -> Result<(), Refusal> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// db.put("alice", 70_u64.to_le_bytes())?;
    /// transfer(&db, "alice", "bob", 50)?;
    /// assert!(matches!(transfer(&db, "alice", "bob", 50), Err(Refusal::TooLittle)));
    /// assert_eq!(balance(db.get("alice")?), 20);
    /// assert_eq!(balance(db.get("bob")?), 50);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A unique index, so that no two users have one address:
    ///
    /// ```
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// let register = |user: &str, address: &str| {
    ///     db.transact(|tx| {
    ///         let index = format!("address/{address}");
    ///         if tx.contains_key(&index)? {
    ///             return Ok::<_, criba::Error>(false);
    ///         }
    ///         tx.put(index, user)?;
    ///         tx.put(format!("user/{user}"), address)?;
    ///         Ok(true)
    ///     })
    /// };
    /// assert!(register("alice", "a@example.org")?);
    /// assert!(!register("bob", "a@example.org")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// That of `work`, or those of [`Transaction::commit`].
    pub fn transact<T, E: From<Error>>(
        &self,
        work: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transact_with(Isolation::default(), work)
    }

    /// Runs a transaction of this level as [`Keyspace::transact`] does.
    ///
    /// ```
    /// use criba::Isolation;
    ///
    /// # fn main() -> criba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = criba::Db::open(dir.path().join("data"))?;
    /// for day in 1..=9 {
    ///     db.put(format!("rain/2026-05-0{day}"), "")?;
    /// }
    /// // It does not matter that a day may come meanwhile.
    /// db.transact_with(Isolation::Snapshot, |tx| {
    ///     let days = tx.prefix("rain/").count();
    ///     tx.put("days of rain", days.to_string())
    /// })?;
    /// assert_eq!(db.get("days of rain")?.unwrap(), "9");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Keyspace::transact`].
    pub fn transact_with<T, E: From<Error>>(
        &self,
        isolation: Isolation,
        mut work: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut attempt = 1;
        loop {
            let mut transaction = self.transaction_with(isolation);
            let done = work(&mut transaction)?;
            match transaction.commit() {
                Ok(()) => return Ok(done),
                Err(Error::Conflict(_)) if attempt < ATTEMPTS_MAX => {}
                Err(error) => return Err(E::from(error)),
            }
            pause(self.store(), attempt);
            attempt += 1;
        }
    }
}

/// Waits before the attempt that follows this one.
fn pause(store: &Store, attempt: u32) {
    match attempt.checked_sub(QUICK_ATTEMPTS) {
        None | Some(0) => std::thread::yield_now(),
        Some(late) => {
            // Each hasher begins with other numbers.
            let random = RandomState::new().hash_one(attempt);
            store.pause(longest_pause(late).mul_f64(random as f64 / u64::MAX as f64));
        }
    }
}

/// The longest pause after the attempt with this number, counted from 1 behind the quick ones.
fn longest_pause(late: u32) -> Duration {
    let doublings = late.saturating_sub(1).min(16);
    (PAUSE_MIN * (1 << doublings)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_bounded() {
        let micros = |late| longest_pause(late).as_micros();
        assert_eq!([1, 2, 3, 8].map(micros), [50, 100, 200, 6400]);
        assert_eq!([9, 50, u32::MAX].map(micros), [10_000; 3]);
    }
}
