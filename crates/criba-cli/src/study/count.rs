//! Lookups whose reads are counted: every number here is a difference of two `stats()`.

use criba::storage::{ReadCause, ReadCounts};
use criba::{Outcome, Source, Stats};

use super::load::Loaded;
use super::workload::{Present, Workload};
use crate::escape::Escaped;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::random::fill_value;

/// Reads of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
}

/// What a series of lookups cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub(crate) lookups: u64,
    /// Of any cause.
    pub(crate) reads: Reads,
    pub(crate) data: Reads,
    pub(crate) filter: Reads,
    /// Segments asked.
    pub(crate) probes: u64,
    pub(crate) negatives: u64,
    pub(crate) false_positives: u64,
    /// The designed rates of the filters asked, each as often as it was asked.
    pub(crate) designed_sum: f64,
}

/// All that is counted for a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) present: Cost,
    pub(crate) absent: Cost,
    /// Data blocks read in the run that has the newest value, over all present lookups.
    pub(crate) holder_reads: u64,
}

/// Looks everything up, with every answer checked.
///
/// # Errors
///
/// When the store fails or gives a wrong answer.
pub(crate) fn count(
    store: &Loaded,
    work: &Workload,
    value_bytes: u64,
    progress: &mut Progress,
) -> Result<Counts, Failure> {
    let mut reader = Reader {
        store,
        work,
        value: vec![0; value_bytes as usize],
        progress,
    };
    let start = store.db.stats();
    for &ordinal in &work.present_lookups {
        reader.present(&work.present[ordinal as usize])?;
    }
    let middle = store.db.stats();
    for &ordinal in &work.absent_lookups {
        reader.absent(&work.absent[ordinal as usize])?;
    }
    let end = store.db.stats();
    let mut present = cost(&start, &middle);
    let mut absent = cost(&middle, &end);
    if start.segments().any(|segment| segment.filter.is_none()) {
        reader.explain(
            &work.present_lookups,
            |at| &work.present[at].key,
            &mut present,
        )?;
        reader.explain(&work.absent_lookups, |at| &work.absent[at], &mut absent)?;
    }
    Ok(Counts {
        present,
        absent,
        holder_reads: reader.holder_reads()?,
    })
}

struct Reader<'a> {
    store: &'a Loaded,
    work: &'a Workload,
    value: Vec<u8>,
    progress: &'a mut Progress,
}

impl Reader<'_> {
    fn present(&mut self, present: &Present) -> Result<(), Failure> {
        self.progress.step();
        let Some(found) = self.store.db.get(&present.key)? else {
            return Err(self.wrong(&present.key, "was loaded and is not found"));
        };
        fill_value(
            &present.key,
            present.newest(),
            self.work.seed,
            &mut self.value,
        );
        if *found != *self.value {
            return Err(self.wrong(&present.key, "has another value than its newest"));
        }
        Ok(())
    }

    fn absent(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.progress.step();
        match self.store.db.get(key)? {
            None => Ok(()),
            Some(_) => Err(self.wrong(key, "was never loaded and is found")),
        }
    }

    fn wrong(&self, key: &[u8], what: &str) -> Failure {
        let setting = &self.store.setting;
        Failure::new(
            Exit::Damaged,
            format!(
                "wrong answer with {setting}: the key \"{}\" {what}",
                Escaped(key)
            ),
        )
    }

    /// What the lookups ask of segments, as `explain` tells. Only filters count their probes, so this
    /// is for stores in which a segment has none.
    fn explain<'k>(
        &mut self,
        lookups: &[u32],
        key: impl Fn(usize) -> &'k [u8],
        cost: &mut Cost,
    ) -> Result<(), Failure> {
        (cost.probes, cost.negatives, cost.false_positives) = (0, 0, 0);
        for &ordinal in lookups {
            let account = self.store.db.explain(key(ordinal as usize))?;
            let asked = |step: &&criba::Step| matches!(step.source, Source::Segment { .. });
            for step in account.steps.iter().filter(asked) {
                cost.probes += 1;
                match step.outcome {
                    Outcome::Absent => cost.negatives += 1,
                    Outcome::FalsePositive => cost.false_positives += 1,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Looks the present keys up again, run by run, and counts the data blocks read in the run that
    /// has the newest value; what is read in newer runs is read in vain.
    fn holder_reads(&mut self) -> Result<u64, Failure> {
        let work = self.work;
        let mut reads = 0;
        for (place, part) in work.parts.iter().rev().enumerate() {
            let before = run_data_reads(&self.store.db.stats(), place);
            for &ordinal in &work.present_lookups {
                let present = &work.present[ordinal as usize];
                if present.newest() == part.run {
                    self.present(present)?;
                }
            }
            reads += run_data_reads(&self.store.db.stats(), place) - before;
        }
        Ok(reads)
    }
}

fn run_data_reads(stats: &Stats, place: usize) -> u64 {
    let segments = stats
        .runs
        .get(place)
        .map(|run| run.segments.as_slice())
        .unwrap_or_default();
    segments
        .iter()
        .map(|segment| segment.reads.get(ReadCause::Data).calls)
        .sum()
}

/// What was counted between two moments, in which the segments stayed the same.
pub(crate) fn cost(before: &Stats, after: &Stats) -> Cost {
    let filter = between(&before.reads, &after.reads, &[ReadCause::Filter]);
    let mut cost = Cost {
        lookups: after.lookups.lookups - before.lookups.lookups,
        reads: between(&before.reads, &after.reads, &ReadCause::ALL),
        data: between(&before.reads, &after.reads, &[ReadCause::Data]),
        filter,
        ..Cost::default()
    };
    for (before, after) in before.segments().zip(after.segments()) {
        if let (Some(before), Some(after)) = (&before.filter, &after.filter) {
            let probes = after.probes - before.probes;
            cost.probes += probes;
            cost.negatives += after.negatives - before.negatives;
            cost.false_positives += after.false_positives - before.false_positives;
            cost.designed_sum += after.designed_rate * probes as f64;
        } else {
            // Without a filter, each lookup in the segment's range is designed to read.
            cost.designed_sum = f64::NAN;
        }
    }
    cost
}

fn between(before: &ReadCounts, after: &ReadCounts, causes: &[ReadCause]) -> Reads {
    causes.iter().fold(Reads::default(), |sum, &cause| {
        let (before, after) = (before.get(cause), after.get(cause));
        Reads {
            calls: sum.calls + after.calls - before.calls,
            bytes: sum.bytes + after.bytes - before.bytes,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::input::generate;
    use crate::study::load::load;
    use crate::study::row::tests::default_args;
    use crate::study::scratch::Scratch;

    #[test]
    fn wrong_answers_are_noticed() {
        let args = default_args();
        let scratch = Scratch::new(None).unwrap();
        let mut work = Workload::new(generate(300, 1), 3, 100, 1).unwrap();
        let mut progress = Progress::new(None, "");
        let path = scratch.path().join("store");
        let choice = args.choices().last().unwrap();
        let store = load(choice, &path, &work, &args, &mut progress).unwrap();
        let mut verdict = |work: &Workload| match count(&store, work, 100, &mut progress) {
            Ok(_) => String::new(),
            Err(Failure::Said(said)) => said.sentence,
            Err(failure) => panic!("{failure:?}"),
        };
        assert_eq!(verdict(&work), "");
        work.seed += 1;
        assert!(verdict(&work).contains("has another value than its newest"));
        work.seed -= 1;
        let (absent, present) = (work.absent[0].clone(), work.present[0].key.clone());
        work.absent.fill(present);
        assert!(verdict(&work).contains("was never loaded and is found"));
        for present in &mut work.present {
            present.key.clone_from(&absent);
        }
        assert!(verdict(&work).contains("was loaded and is not found"));
    }
}
