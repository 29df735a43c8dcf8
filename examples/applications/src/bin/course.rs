//! Who has not taken the course: a recommender that must not bore anybody.
//!
//! A university advertises a course to the students who have not taken it. The mail program has a
//! Bloom filter of those who have. "No" is certain, so everybody who gets the mail is new to the
//! course. "Maybe" is wrong for a few, and these few are never told of it.
//!
//! The literature has this exercise with m = 90 bits, n = 19 students and k = 3 probes. The first table
//! answers it: the filter is built with 20,000 hash functions, as one filter of 90 bits shows little.
//! The second table does the same for 100,000 students, with more bits, and at last with a store that is
//! asked whenever the filter says "maybe".

use std::process::ExitCode;

use applications::{
    Cell, Error, Line, Options, Plot, Random, Report, Result, Scale, Table, program,
};
use clap::Parser;
use criba::{Access, Db};
use criba_filters::formulas::rate_for;
use criba_filters::{Classic, Design, Hashing, Insert, KeyHash, Membership, hash_key};

/// Advertises a course to those who have not taken it, by a Bloom filter of those who have.
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
        "Who is never told of a course because a filter of 90 bits takes the student for a participant?",
    );
    by_the_book(options, &mut report)?;
    at_large(options, &mut report)?;
    Ok(report)
}

/// m, n and k of the literature, and the students of the example.
const BITS: u64 = 90;
const TAKEN: u64 = 19;
const PROBES: u32 = 3;
const STUDENTS: u64 = 100;

/// Of 100 students, 19 have taken the course.
fn by_the_book(options: &Options, report: &mut Report) -> Result<()> {
    let design = Design {
        keys: TAKEN,
        bits: BITS,
        probes: PROBES,
        hashing: Hashing::default(),
    };
    let trials = options.size(20_000, 2_000);
    // How often each number of students was left out.
    let mut trials_with = vec![0; (STUDENTS - TAKEN) as usize + 1];
    let mut random = Random::new(options.seed, 0);
    for _ in 0..trials {
        let seed = random.next();
        let filter = filter_of(design, TAKEN, seed)?;
        let left_out =
            (TAKEN..STUDENTS).filter(|&number| filter.may_contain(student(number, seed)));
        trials_with[left_out.count()] += 1;
    }
    let sum: usize = (0..)
        .zip(&trials_with)
        .map(|(number, count): (usize, _)| number * count)
        .sum();
    let measured = sum as f64 / (trials * (STUDENTS - TAKEN)) as f64;
    let mut table = Table::new(
        "100 students, 19 have taken the course: m = 90, n = 19, k = 3",
        &["students", "left out", "share", "from"],
    );
    let others = STUDENTS - TAKEN;
    for (share, from) in [
        (measured, format!("measured, {trials} hash functions")),
        (exact_rate(&design), "calculated, exactly".into()),
        (design.rate(), "calculated, (1 - (1 - 1/m)^(kn))^k".into()),
        (textbook_rate(), "calculated, (1 - e^(-kn/m))^k".into()),
    ] {
        let left_out = Cell::Number(share * others as f64, 2);
        table.row([
            Cell::Count(others),
            left_out,
            Cell::Share(share),
            from.into(),
        ]);
    }
    report.table(table);
    let part = |count: &usize| *count as f64 / trials as f64;
    report.plot(Plot {
        title: "Share of the trials, by students left out".into(),
        across: "students left out of 81".into(),
        scales: (Scale::Linear, Scale::Linear),
        lines: vec![Line::dots(
            "first",
            "measured",
            (0..40)
                .map(f64::from)
                .zip(trials_with.iter().map(part))
                .collect(),
        )],
    });
    report.conclude(format!(
        "Of 81 students who have not taken the course, the filter of 90 bits leaves out {:.1} in the mean; \
         in {:.1} of 100 trials it left out nobody.",
        measured * others as f64,
        100.0 * part(&trials_with[0]),
    ));
    Ok(())
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

/// The formula of the literature.
fn textbook_rate() -> f64 {
    let (set, bits) = (f64::from(PROBES) * TAKEN as f64, BITS as f64);
    (1.0 - (-set / bits).exp()).powi(PROBES as i32)
}

/// The mean of the rate over all hash functions: the mean of (ones / m)^k, where `ones` is what so many
/// independent probes set (Bose and others, "On the false-positive rate of Bloom filters", 2008).
///
/// The formulas take the power of the mean, which is less than the mean of the power.
fn exact_rate(design: &Design) -> f64 {
    let bits = design.bits as usize;
    let mut probability = vec![0.0; bits + 1];
    probability[0] = 1.0;
    for _ in 0..design.keys * u64::from(design.probes) {
        for ones in (0..=bits).rev() {
            let known = ones as f64 / bits as f64;
            let new = if ones > 0 {
                1.0 - (ones - 1) as f64 / bits as f64
            } else {
                0.0
            };
            let before = if ones > 0 { probability[ones - 1] } else { 0.0 };
            probability[ones] = probability[ones] * known + before * new;
        }
    }
    let rate = |ones: usize| (ones as f64 / bits as f64).powi(design.probes as i32);
    probability
        .iter()
        .enumerate()
        .map(|(ones, probability)| probability * rate(ones))
        .sum()
}

/// The same share of 100,000 students, with more and more bits, and then with a store behind.
fn at_large(options: &Options, report: &mut Report) -> Result<()> {
    let students = options.size(100_000, 4_000);
    let taken = students * TAKEN / STUDENTS;
    let others = students - taken;
    let folder = tempfile::tempdir()?;
    let db = course_store(folder.path(), taken)?;
    let mut table = Table::new(
        format!("{students} students, {taken} have taken the course"),
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
    let (mut measured, mut expected, mut names) = (Vec::new(), Vec::new(), String::new());
    for bits_per_key in [BITS as f64 / TAKEN as f64, 8.0, 12.0, 16.0, 20.0] {
        let design = large_design(taken, bits_per_key)?;
        let (bits, probes) = (design.bits, design.probes);
        let filter = filter_of(design, taken, options.seed)?;
        let row = advertise(&filter, &db, (students, taken, options.seed))?;
        let left_out = row.left_out.len() as u64;
        let rate = rate_for(bits, probes, taken);
        let share = left_out as f64 / others as f64;
        table.row([
            Cell::Number(bits_per_key, 2),
            Cell::Count(probes.into()),
            Cell::Bytes(bits / 8),
            left_out.into(),
            Cell::Share(share),
            Cell::Share(rate),
            row.asked.into(),
            row.reads.into(),
            row.left_out_with_store.into(),
        ]);
        measured.push((bits_per_key, 100.0 * share));
        expected.push((bits_per_key, 100.0 * rate));
        names = row.names();
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
    report.conclude(format!(
        "The filter of 20 bits a participant leaves out {names}."
    ));
    report.conclude(
        "More bits leave out fewer students, but the share never is zero. With a store that is asked after \
         each \"maybe\" nobody is left out, and the filter keeps most questions from it.",
    );
    Ok(())
}

/// With as few bits as in the literature, its number of probes; else the best one.
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
    // Lookups of a new handle go to the segments, as they would on the next day.
    db.flush()?;
    db.close()?;
    Ok(Db::builder(path)
        .access(Access::ReadOnly)
        .cache_bytes(64 << 10)
        .open()?)
}

/// How it went.
struct Mailing {
    /// Who gets no mail because the filter was wrong.
    left_out: Vec<u64>,
    asked: u64,
    reads: u64,
    left_out_with_store: u64,
}

impl Mailing {
    /// Some of those who are left out.
    fn names(&self) -> String {
        let names: Vec<String> = self
            .left_out
            .iter()
            .take(3)
            .map(|&number| name(number))
            .collect();
        if names.is_empty() {
            "nobody".into()
        } else {
            names.join(", ")
        }
    }
}

/// Asks the filter about every student, and the store about those who may have taken the course.
fn advertise(
    filter: &Classic,
    db: &Db,
    (students, taken, seed): (u64, u64, u64),
) -> Result<Mailing> {
    let reads = |lookups: criba::LookupStats| lookups.absent_block_reads + lookups.hit_block_reads;
    let before = reads(db.stats().lookups);
    let mut left_out = Vec::new();
    let mut left_out_with_store = 0;
    for number in 0..students {
        let is_participant = number < taken;
        if !filter.may_contain(student(number, seed)) {
            if is_participant {
                let name = name(number);
                return Err(Error::Wrong(format!("{name} has taken the course")));
            }
            // The mail goes out, and the store is not asked.
            continue;
        }
        if !is_participant {
            left_out.push(number);
        }
        if db.contains_key(name(number))? && !is_participant {
            left_out_with_store += 1;
        }
    }
    Ok(Mailing {
        asked: taken + left_out.len() as u64,
        reads: reads(db.stats().lookups) - before,
        left_out,
        left_out_with_store,
    })
}
