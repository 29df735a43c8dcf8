//! Who has not taken the course: a mailing that must not bore anybody.
//!
//! A university advertises a course to the students who have not taken it. The mailing program holds the
//! participants in a Bloom filter. If the filter says "no", the student is certainly new to the course and
//! gets the mail. If it says "maybe", the student gets none. For a few students "maybe" is wrong: they
//! are new to the course, and nobody tells them about it.
//!
//! The first part is an exercise of the literature, with m = 90 bits, n = 19 participants and k = 3 probes.
//! One filter of 90 bits shows little, because chance decides how many bits are set. So the program builds
//! the filter with many hash functions, and counts in each the students who are left out. The formula of
//! the textbooks is Bloom's ("Space/time trade-offs in hash coding with allowable errors", 1970). It is a
//! little too low; Bose and others ("On the false-positive rate of Bloom filters", 2008) have the exact one.
//!
//! The second part has 100,000 students and more bits for each participant. Then it adds a store, which
//! the program asks whenever the filter says "maybe".

use std::process::ExitCode;

use applications::exact::{accepted_distribution, moments};
use applications::numbers::grouped;
use applications::{
    Cell, Error, Line, Options, Plot, Random, Report, Result, Scale, Table, program,
};
use clap::Parser;
use criba::{Access, Db};
use criba_filters::formulas::rate_for;
use criba_filters::{Classic, Design, Hashing, Insert, KeyHash, Membership, hash_key};

/// Advertises a course to the students who have not taken it, by a Bloom filter of those who have.
#[derive(Parser, Debug)]
#[command(name = "course", version)]
struct Args {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    program(|args: &Args| &args.options, |args| run(&args.options))
}

fn run(options: &Options) -> Result<Report> {
    let mut report = Report::new(
        "course",
        "Who has not taken the course",
        "How many students never hear of a course because a Bloom filter takes them for participants?",
    );
    by_the_book(options, &mut report)?;
    at_large(options, &mut report)?;
    Ok(report)
}

/// m, n and k of the exercise, and its students.
const BITS: u64 = 90;
const TAKEN: u64 = 19;
const PROBES: u32 = 3;
const STUDENTS: u64 = 100;
/// The students who have not taken the course.
const OTHERS: u64 = STUDENTS - TAKEN;

/// Of 100 students, 19 have taken the course.
fn by_the_book(options: &Options, report: &mut Report) -> Result<()> {
    let design = Design {
        keys: TAKEN,
        bits: BITS,
        probes: PROBES,
        hashing: Hashing::default(),
    };
    let trials_with = try_hash_functions(design, options)?;
    let trials = trials_with.iter().sum::<u64>() as f64;
    let measured: Vec<f64> = trials_with
        .iter()
        .map(|&count| count as f64 / trials)
        .collect();
    let calculated = accepted_distribution(&design, OTHERS);
    let (mean, variance) = moments(&measured);
    // The students of one trial share a filter; trials are independent, so they decide the error.
    let error = (variance / trials).sqrt();
    let others = OTHERS as f64;
    let mut table = Table::new(
        "100 students, 19 have taken the course: m = 90, n = 19, k = 3",
        &["students", "left out", "share", "from"],
    );
    for (left_out, from) in [
        (mean, format!("measured, standard error {error:.3}")),
        (moments(&calculated).0, "calculated, exactly".into()),
        (
            others * design.rate(),
            "calculated, (1 - (1 - 1/m)^(kn))^k".into(),
        ),
        (
            others * textbook_rate(),
            "calculated, (1 - e^(-kn/m))^k".into(),
        ),
    ] {
        table.row([
            Cell::Count(OTHERS),
            Cell::Number(left_out, 2),
            Cell::Share(left_out / others),
            from.into(),
        ]);
    }
    report.table(table);
    let points = |shares: &[f64]| (0..30).map(f64::from).zip(percents(shares)).collect();
    report.plot(Plot {
        title: "Trials, percent, by the number of students left out".into(),
        across: "students left out of 81".into(),
        scales: (Scale::Linear, Scale::Linear),
        lines: vec![
            Line::new("second", "calculated", points(&calculated)),
            Line::dots("first", "measured", points(&measured)),
        ],
    });
    report.conclude(format!(
        "Of 81 students who have not taken the course, a filter of 90 bits leaves out {mean:.1} on average (standard \
         deviation {:.1}). It left out nobody in {} of {} trials; {:.0} were expected.",
        variance.sqrt(),
        grouped(trials_with[0]),
        grouped(trials as u64),
        calculated[0] * trials,
    ));
    Ok(())
}

/// In how many trials each number of students was left out.
fn try_hash_functions(design: Design, options: &Options) -> Result<Vec<u64>> {
    let mut trials_with = vec![0; OTHERS as usize + 1];
    let mut random = Random::new(options.seed, 0);
    for _ in 0..options.size(100_000, 2_000) {
        let seed = random.next();
        let filter = filter_of(design, TAKEN, seed)?;
        let left_out =
            (TAKEN..STUDENTS).filter(|&number| filter.may_contain(student(number, seed)));
        trials_with[left_out.count()] += 1;
    }
    Ok(trials_with)
}

fn percents(shares: &[f64]) -> impl Iterator<Item = f64> {
    shares.iter().map(|share| 100.0 * share)
}

/// The filter of the first students.
fn filter_of(design: Design, taken: u64, seed: u64) -> Result<Classic> {
    let mut filter = Classic::new(design)?;
    for number in 0..taken {
        filter.insert(student(number, seed))?;
    }
    Ok(filter)
}

fn name(number: u64) -> String {
    format!("student {number}")
}

fn student(number: u64, seed: u64) -> KeyHash {
    hash_key(seed, name(number).as_bytes())
}

/// The formula of the textbooks.
fn textbook_rate() -> f64 {
    let (probes, bits) = (f64::from(PROBES) * TAKEN as f64, BITS as f64);
    (1.0 - (-probes / bits).exp()).powi(PROBES as i32)
}

/// The same share of 100,000 students, with more and more bits, and then with a store behind the filter.
fn at_large(options: &Options, report: &mut Report) -> Result<()> {
    let students = options.size(100_000, 4_000);
    let taken = students * TAKEN / STUDENTS;
    let others = students - taken;
    let folder = tempfile::tempdir()?;
    let db = course_store(folder.path(), taken)?;
    let mut table = Table::new(
        format!(
            "{} students, {} have taken the course",
            grouped(students),
            grouped(taken)
        ),
        &[
            "bits per participant",
            "probes",
            "filter",
            "left out",
            "share",
            "expected",
            "asked in the store",
            "block reads",
            "left out with it",
        ],
    );
    let (mut measured, mut expected, mut last) = (Vec::new(), Vec::new(), None);
    for bits_per_key in [BITS as f64 / TAKEN as f64, 8.0, 12.0, 16.0, 20.0] {
        let design = large_design(taken, bits_per_key)?;
        let (bits, probes) = (design.bits, design.probes);
        let filter = filter_of(design, taken, options.seed)?;
        let mailing = advertise(&filter, &db, (students, taken, options.seed))?;
        let left_out = mailing.left_out.len() as u64;
        let rate = rate_for(bits, probes, taken);
        let share = left_out as f64 / others as f64;
        table.row([
            Cell::Number(bits_per_key, 2),
            Cell::Count(probes.into()),
            Cell::Bytes(bits.div_ceil(8)),
            left_out.into(),
            Cell::Share(share),
            Cell::Share(rate),
            mailing.asked.into(),
            mailing.reads.into(),
            mailing.left_out_with_store.into(),
        ]);
        measured.push((bits_per_key, 100.0 * share));
        expected.push((bits_per_key, 100.0 * rate));
        last = Some(mailing);
    }
    db.close()?;
    report.table(table);
    report.plot(Plot {
        title: "Students left out, percent".into(),
        across: "bits per participant".into(),
        scales: (Scale::Linear, Scale::Logarithmic),
        lines: vec![
            Line::new("second", "calculated", expected),
            Line::dots("first", "measured", measured),
        ],
    });
    if let Some(mailing) = last {
        conclude(&mailing, others, report);
    }
    Ok(())
}

/// Sentences on the filter of 20 bits for each participant.
fn conclude(mailing: &Mailing, others: u64, report: &mut Report) {
    let left_out = mailing.left_out.len() as u64;
    report.conclude(format!(
        "A filter of 20 bits for each participant leaves out {} of {} students{}.",
        grouped(left_out),
        grouped(others),
        mailing.names(),
    ));
    report.conclude(format!(
        "More bits leave out fewer students, but the expected number is never zero. A store that is asked after each \
         \"maybe\" corrects this: {} of {} are left out then. The filter of 20 bits answers {} questions without \
         the store, which answers {}.",
        mailing.left_out_with_store,
        grouped(others),
        grouped(others - left_out),
        grouped(mailing.asked),
    ));
}

/// The number of probes of the exercise where there are as few bits as in it; else the best number.
fn large_design(taken: u64, bits_per_key: f64) -> Result<Design> {
    let best = Design::for_bits(taken, (bits_per_key * taken as f64) as u64)?;
    let probes = if bits_per_key < 5.0 {
        PROBES
    } else {
        best.probes
    };
    Ok(Design { probes, ..best })
}

/// The list of participants, on disk.
fn course_store(path: &std::path::Path, taken: u64) -> Result<Db> {
    let db = Db::open(path)?;
    for number in 0..taken {
        db.put(name(number), "taken")?;
    }
    // A handle that is opened anew looks into the files, as it would on the next day.
    db.flush()?;
    db.close()?;
    Ok(Db::builder(path)
        .access(Access::ReadOnly)
        .cache_bytes(64 << 10)
        .open()?)
}

/// What came of a mailing.
struct Mailing {
    /// Students who get no mail because the filter is wrong about them.
    left_out: Vec<u64>,
    /// Students whom the store was asked about.
    asked: u64,
    /// Blocks that the store read for this.
    reads: u64,
    /// Students who get no mail although the store was asked.
    left_out_with_store: u64,
}

impl Mailing {
    /// Some of the students who are left out.
    fn names(&self) -> String {
        let some = self.left_out.iter().take(3);
        let names: Vec<String> = some.map(|&number| name(number)).collect();
        match self.left_out.len() {
            0 => String::new(),
            1..=3 => format!(": {}", names.join(", ")),
            _ => format!(", among them {}", names.join(", ")),
        }
    }
}

/// Asks the filter about every student, and the store about those for whom the filter says "maybe".
///
/// No participant may get the mail: neither the filter nor the store may deny one.
fn advertise(
    filter: &Classic,
    db: &Db,
    (students, taken, seed): (u64, u64, u64),
) -> Result<Mailing> {
    let reads = |lookups: criba::LookupStats| lookups.absent_block_reads + lookups.hit_block_reads;
    let before = reads(db.stats().lookups);
    let (mut left_out, mut asked, mut left_out_with_store) = (Vec::new(), 0, 0);
    for number in 0..students {
        let is_participant = number < taken;
        let maybe = filter.may_contain(student(number, seed));
        let in_store = if maybe {
            asked += 1;
            db.contains_key(name(number))?
        } else {
            // The filter is certain, so the mail goes out and the store is not asked.
            false
        };
        match (is_participant, maybe, in_store) {
            (true, _, false) => {
                let name = name(number);
                return Err(Error::Wrong(format!(
                    "{name} has taken the course and gets the mail"
                )));
            }
            (true, _, true) => {}
            (false, _, _) => {
                left_out.extend(maybe.then_some(number));
                left_out_with_store += u64::from(in_store);
            }
        }
    }
    Ok(Mailing {
        asked,
        reads: reads(db.stats().lookups) - before,
        left_out,
        left_out_with_store,
    })
}
