//! The account of lookups: each has one row, and a filter gets credit for its own answers only.

use criba::Stats;

use super::{Place, noise, plant};
use crate::account::{Account, Answer};
use crate::ingest::Ended;
use crate::keys::Table;

fn account(ended: &Ended, table: Table) -> Account {
    ended.accounts[table as usize]
}

/// Lookups that asked the filters of a table, as the store counts them.
fn probes(stats: &Stats) -> u64 {
    let filters = stats
        .segments()
        .filter_map(|segment| segment.filter.as_ref());
    filters.map(|filter| filter.probes).sum()
}

/// Holds the rows of each table against the counters of the store, which count in another way.
fn check(ended: &Ended) {
    for (table, name) in Table::ALL {
        let account = account(ended, table);
        let of = |answer| account.of(answer);
        let rows: u64 = Answer::ALL.iter().map(|(answer, _)| of(*answer)).sum();
        assert_eq!(rows, account.lookups(), "{name}");
        let stats = ended.archive.tables[table].stats();
        let counted = stats.lookups;
        assert_eq!(
            counted.lookups,
            account.lookups() - of(Answer::Batch),
            "{name}"
        );
        assert_eq!(counted.memtable_hits, of(Answer::Memtable), "{name}");
        assert_eq!(counted.segment_hits, of(Answer::Found), "{name}");
        let absent = [
            Answer::NoSegment,
            Answer::Filter,
            Answer::FalsePositive,
            Answer::NoFilter,
        ];
        assert_eq!(counted.absent, absent.map(of).iter().sum::<u64>(), "{name}");
        if stats.segments().count() == 0 {
            assert_eq!(counted.absent, of(Answer::NoSegment), "{name}");
        }
    }
}

/// Bug: what no segment was asked for counted as answered by the filter.
#[test]
fn a_first_run_owes_nothing_to_filters() {
    let place = Place::new();
    plant(&place, 300);
    let ended = place.ingest(&[]);
    check(&ended);
    let first = account(&ended, Table::FirstBlock);
    assert!(first.of(Answer::NoSegment) > 100 && first.of(Answer::Batch) > 0);
    for (table, name) in Table::ALL {
        let account = account(&ended, table);
        assert_eq!(account.of(Answer::Filter), 0, "{name}");
        assert_eq!((account.reads_avoided, account.false_positives), (0, 0));
    }
}

#[test]
fn each_lookup_has_one_row() {
    let place = Place::new();
    plant(&place, 300);
    let ended = place.ingest(&[]);
    ended.archive.db.flush().unwrap();
    drop(ended);
    for n in 0..500 {
        place.write(&format!("new/{n}"), noise(n + 1000, 5000));
    }
    place.write("again", noise(1, 3001));
    let ended = place.ingest(&[]);
    check(&ended);
    let first = account(&ended, Table::FirstBlock);
    assert_eq!(first.of(Answer::Found), 1, "the one that is there again");
    assert!(first.of(Answer::Filter) > 480, "{first:?}");
    assert_eq!(first.of(Answer::NoFilter), 0);
    // The filter was asked once for each, and for no other.
    let asked = [Answer::Filter, Answer::FalsePositive, Answer::Found].map(|row| first.of(row));
    let stats = ended.archive.tables[Table::FirstBlock].stats();
    assert_eq!(stats.runs.len(), 1);
    assert_eq!(probes(&stats), asked.iter().sum::<u64>());
    // The new directory comes after all others, so none was asked for it.
    let names = account(&ended, Table::Directory);
    assert_eq!(
        (names.of(Answer::NoSegment), names.of(Answer::NoFilter)),
        (1, 0)
    );

    drop(ended);
    let place = Place::new();
    plant(&place, 300);
    let options = ["--filters", "none"];
    let ended = place.ingest(&options);
    ended.archive.db.flush().unwrap();
    drop(ended);
    for n in 0..500 {
        place.write(&format!("new/{n}"), noise(n + 1000, 5000));
    }
    let ended = place.ingest(&options);
    check(&ended);
    let first = account(&ended, Table::FirstBlock);
    assert!(first.of(Answer::NoFilter) > 480, "{first:?}");
    assert_eq!(
        (first.of(Answer::Filter), first.of(Answer::FalsePositive)),
        (0, 0)
    );
}

#[test]
fn the_rows_of_all_runs_are_kept() {
    let place = Place::new();
    plant(&place, 100);
    let first = place.ingest(&[]);
    let mut sum = first.accounts;
    drop(first);
    place.write("one more", b"content");
    let second = place.ingest(&[]);
    for (sum, account) in sum.iter_mut().zip(second.accounts) {
        *sum += account;
    }
    drop(second);
    let archive = crate::archive::Archive::open_to_read(&place.store).unwrap();
    assert_eq!(archive.totals.accounts, sum);
}
