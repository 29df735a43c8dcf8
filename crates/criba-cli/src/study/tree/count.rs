//! Lookups in a settled tree: every read is counted, every answer is checked.

use criba::{Db, Stats};

use super::keys::Keys;
use super::settle::{Shape, settle};
use crate::escape::Escaped;
use crate::exit::{Exit, Failure};
use crate::levels::{Level, expected_wasted_reads, levels};
use crate::progress::Progress;
use crate::study::args::StudyArgs;
use crate::study::count::{Cost, cost};

/// Wasted reads that should be counted, so that chance moves their number by a thirtieth.
const WASTED_READS_WANTED: f64 = 1000.0;

/// Most lookups of absent keys, as a multiple of those asked for.
const TIMES_MAX: u64 = 20;

/// What was counted, and the tree it was counted in.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    pub(super) present: Cost,
    pub(super) absent: Cost,
    /// After the absent lookups.
    pub(super) stats: Stats,
    /// With what the absent lookups did there.
    pub(super) levels: Vec<Level>,
}

/// Looks everything up; again, should the tree have changed meanwhile.
///
/// # Errors
///
/// When the store fails or gives a wrong answer, or does not come to rest.
pub(super) fn count(
    db: &Db,
    keys: &Keys,
    args: &StudyArgs,
    progress: &mut Progress,
) -> Result<Counted, Failure> {
    const ATTEMPTS: u32 = 10;
    for _ in 0..ATTEMPTS {
        let start = db.stats();
        let expected = expected_wasted_reads(&levels(&start));
        for key in keys.absent().take(absent_lookups(args.lookups, expected)) {
            progress.step();
            if db.get(key)?.is_some() {
                return Err(wrong(&key, "was never loaded and is found"));
            }
        }
        let middle = db.stats();
        look_up_present(db, keys, args, progress)?;
        let end = db.stats();
        if Shape::of(&start) == Shape::of(&end) {
            let before = levels(&start);
            let after = levels(&middle).into_iter().zip(&before);
            return Ok(Counted {
                absent: cost(&start, &middle),
                present: cost(&middle, &end),
                levels: after.map(|(level, before)| level.since(before)).collect(),
                stats: middle,
            });
        }
        settle(db)?;
    }
    Err(Failure::new(
        Exit::Io,
        "the tree does not come to rest; try again when the machine has less to do",
    ))
}

/// As many as asked for, and more until enough reads in vain are expected.
fn absent_lookups(asked: u64, expected: f64) -> usize {
    let enough = (WASTED_READS_WANTED / expected.max(f64::MIN_POSITIVE)).ceil();
    // A float that is too large becomes the largest number, which is cut.
    let lookups = (enough as u64).clamp(asked, asked.saturating_mul(TIMES_MAX));
    lookups as usize
}

fn look_up_present(
    db: &Db,
    keys: &Keys,
    args: &StudyArgs,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let mut value = vec![0; args.value_bytes as usize];
    for key in keys.some_present().take(args.lookups as usize) {
        progress.step();
        keys.fill_value(&key, &mut value);
        match db.get(key)? {
            None => return Err(wrong(&key, "was loaded and is not found")),
            Some(found) if *found != *value => return Err(wrong(&key, "has another value")),
            Some(_) => {}
        }
    }
    Ok(())
}

fn wrong(key: &[u8], what: &str) -> Failure {
    let text = format!("wrong answer: the key \"{}\" {what}", Escaped(key));
    Failure::new(Exit::Damaged, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::row::tests::default_args;

    #[test]
    fn enough_is_looked_up() {
        assert_eq!(absent_lookups(200_000, 0.04), 200_000);
        assert_eq!(absent_lookups(200_000, 0.001), 1_000_000);
        assert_eq!(absent_lookups(200_000, 0.0), 4_000_000);
        assert_eq!(absent_lookups(200_000, f64::NAN), 4_000_000);
    }

    #[test]
    fn wrong_answers_are_noticed() {
        let db = crate::levels::tests::two_runs(10);
        let args = default_args();
        let mut progress = Progress::new(None, "");
        let keys = Keys::new(3, 1);
        let mut verdict = |keys| match count(&db, keys, &args, &mut progress) {
            Ok(_) => String::new(),
            Err(Failure::Said(said)) => said.sentence,
            Err(failure) => panic!("{failure:?}"),
        };
        assert!(verdict(&keys).contains("was loaded and is not found"));
        for key in keys.present() {
            db.put(key, "other").unwrap();
        }
        assert!(verdict(&keys).contains("has another value"));
        assert!(verdict(&Keys::new(2, 1)).contains("was never loaded and is found"));
    }
}
