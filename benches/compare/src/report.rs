//! Tables and plots of what runs measured, put into a page between two markers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::engine::Result;
use crate::metric::{Against, Goal, Metric, SECTIONS, TARGETS, Target, Unit, find, written};
use crate::plot::{self, Row};
use crate::record::{self, Record};

const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";

/// Order of columns; also which stores a report knows.
const ENGINES: [&str; 11] = [
    "criba",
    "criba-mmap",
    "criba-bloom",
    "criba-10",
    "fjall",
    "coordinode",
    "rocksdb",
    "rocksdb-ribbon",
    "lmdb",
    "redb",
    "sled",
];
const LSM_PEERS: [&str; 3] = ["fjall", "coordinode", "rocksdb"];
const SAME_DURABILITY: [&str; 4] = ["fjall", "coordinode", "rocksdb", "lmdb"];

/// What was measured in all rounds, in order.
#[derive(Clone, Debug)]
pub struct Sample(Vec<f64>);

impl Sample {
    pub fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        match self.0.len() % 2 {
            0 => f64::midpoint(self.0[middle - 1], self.0[middle]),
            _ => self.0[middle],
        }
    }

    pub fn range(&self) -> (f64, f64) {
        (self.0[0], self.0[self.0.len() - 1])
    }
}

/// Entries, bytes of a value, whether compressed: what is measured alike.
type Setting = (u64, u64, bool);

/// All samples of one setting, by store and metric.
pub struct Results {
    samples: BTreeMap<(String, String), Sample>,
}

impl Results {
    fn of(records: &[&Record]) -> Results {
        let mut values: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for record in records {
            for (metric, value) in &record.metrics {
                let key = (record.engine.clone(), metric.clone());
                values.entry(key).or_default().push(*value);
            }
        }
        let sorted = values.into_iter().map(|(key, mut values)| {
            values.sort_by(f64::total_cmp);
            (key, Sample(values))
        });
        Results {
            samples: sorted.collect(),
        }
    }

    pub fn get(&self, engine: &str, metric: &str) -> Option<&Sample> {
        self.samples.get(&(engine.to_owned(), metric.to_owned()))
    }

    fn median(&self, engine: &str, metric: &str) -> Option<f64> {
        self.get(engine, metric).map(Sample::median)
    }

    /// The stores that have one of these, in the order of columns.
    pub fn engines(&self, metrics: &[Metric]) -> Vec<&'static str> {
        let has = |engine: &&str| {
            metrics
                .iter()
                .any(|metric| self.get(engine, metric.name).is_some())
        };
        ENGINES.into_iter().filter(has).collect()
    }
}

/// # Errors
///
/// When a file cannot be read, holds no records, or the page has no markers.
pub fn write(files: &[PathBuf], page: &Path) -> Result<()> {
    let mut records = Vec::new();
    for file in files {
        records.extend(record::read(file)?);
    }
    let first = records.first().ok_or("no records in these files")?;
    let mut text = conditions(first, &records);
    let mut settings: Vec<Setting> = records.iter().map(setting).collect();
    // The first has the plots: many entries that are short.
    settings.sort_by_key(|(keys, value_bytes, compression)| {
        (*compression, *value_bytes, Reverse(*keys))
    });
    settings.dedup();
    for (nth, one) in settings.iter().enumerate() {
        let chosen: Vec<_> = records
            .iter()
            .filter(|record| setting(record) == *one)
            .collect();
        let results = Results::of(&chosen);
        text += &heading(*one, rounds(&chosen));
        text += &cuts(&results);
        text += &targets(&results);
        text += &behind(&results);
        text += &sections(&results, (nth == 0).then_some(page))?;
    }
    replace(page, &text)
}

fn setting(record: &Record) -> Setting {
    (record.keys, record.value_bytes, record.compression)
}

/// Fewest and most rounds of a store and group.
fn rounds(records: &[&Record]) -> (usize, usize) {
    let mut counts = BTreeMap::new();
    for record in records {
        *counts.entry((&record.engine, &record.group)).or_insert(0) += 1;
    }
    let counts = || counts.values().copied();
    (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
}

fn heading((keys, value_bytes, compression): Setting, rounds: (usize, usize)) -> String {
    let compression = if compression {
        "compressed"
    } else {
        "not compressed"
    };
    let rounds = match rounds {
        (1, 1) => "1 round".to_owned(),
        (least, most) if least == most => format!("{most} rounds"),
        (least, most) => format!("{least} to {most} rounds"),
    };
    format!(
        "## {} entries, values of {value_bytes} bytes, {compression}, {rounds}\n\n",
        grouped(keys)
    )
}

/// What was not done whole, so that nobody takes its numbers for those of the others.
fn cuts(results: &Results) -> String {
    let mut text = String::new();
    for ((engine, metric), sample) in &results.samples {
        let (Some(work), [least, ..]) = (metric.strip_suffix("_cut_at"), &sample.0[..]) else {
            continue;
        };
        let work = match work {
            "load" => "the load of YCSB",
            "delete_load" => "the load of delete-heavy",
            "cold_fill" => "the fill before cold or starved lookups",
            other => find(other).map_or(other, |metric| metric.label),
        };
        text += &format!("| {engine} | {work} | {} |\n", grouped(*least as u64));
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "Cut short by the limit of time, after so many operations; what follows a fill that was cut \
         short was measured on so many entries:\n\n| | | operations |\n|---|---|--:|\n{text}\n"
    )
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn conditions(first: &Record, records: &[Record]) -> String {
    let environment = &first.environment;
    let all = records
        .iter()
        .flat_map(|record| record.environment.versions.iter());
    let versions: BTreeMap<_, _> = all.collect();
    let versions = versions.iter();
    let versions: Vec<_> = versions
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let kernels = records.iter().map(|record| &*record.environment.kernel);
    let kernels: Vec<_> = kernels.collect::<BTreeSet<_>>().into_iter().collect();
    let loads = records
        .iter()
        .filter_map(|record| record.environment.load.parse::<f64>().ok());
    let (low, high) = loads.fold((f64::MAX, 0f64), |(low, high), load| {
        (low.min(load), high.max(load))
    });
    format!(
        "{} with {} threads, {} of memory, Linux {}. Load average of the machine at the end of each \
         process: {low:.1} to {high:.1}. {}.\n\n",
        environment.processor,
        environment.threads,
        written(Unit::Bytes, environment.memory_bytes as f64),
        kernels.join(" and "),
        versions.join(", "),
    )
}

fn targets(results: &Results) -> String {
    let mut text = "### Against the targets\n\n\
        | work | target | criba | compared with | ratio | by processor time | |\n\
        |---|---|---|---|---|---|---|\n"
        .to_owned();
    for target in TARGETS {
        text += &target_row(results, target).unwrap_or_default();
    }
    text + "\n"
}

/// What others do better, targets or not, so that no loss has to be looked for.
fn behind(results: &Results) -> String {
    let metrics = SECTIONS.iter().flat_map(|section| section.metrics);
    let rows: String = metrics.filter_map(|one| behind_row(results, one)).collect();
    format!(
        "### Where another is ahead\n\n\
         | work | criba | the best | ratio | all that are ahead |\n|---|---|---|---|---|\n{rows}\n"
    )
}

fn behind_row(results: &Results, metric: &Metric) -> Option<String> {
    let own = results.median("criba", metric.name)?;
    let peers = ENGINES.into_iter().filter(|name| !is_own(name));
    let ahead = peers.filter_map(|name| {
        let value = results.median(name, metric.name)?;
        metric.by_merit(value, own).is_gt().then_some((name, value))
    });
    let mut ahead: Vec<_> = ahead.collect();
    ahead.sort_by(|a, b| metric.by_merit(b.1, a.1));
    let (best, value) = *ahead.first()?;
    let names: Vec<_> = ahead.iter().map(|(name, _)| *name).collect();
    Some(format!(
        "| {} | {} | {best}: {} | {} | {} |\n",
        metric.label,
        written(metric.unit, own),
        written(metric.unit, value),
        if value == 0.0 {
            String::new()
        } else {
            written(Unit::Factor, own / value)
        },
        names.join(", "),
    ))
}

fn is_own(engine: &str) -> bool {
    engine.starts_with("criba")
}

/// `None` where something was not measured.
fn target_row(results: &Results, target: &Target) -> Option<String> {
    let metric = find(target.metric)?;
    let own = results.median(target.of, target.metric)?;
    let peer = best_peer(results, &metric, target.against);
    let ratio = match (target.against, peer) {
        (Against::Itself, _) => None,
        (_, Some((_, value))) => Some(own / value),
        (_, None) => return None,
    };
    let compared = ratio.unwrap_or(own);
    let is_ratio = ratio.is_some();
    let (wanted, is_met) = match target.goal {
        Goal::AtLeast(goal) => (
            goal_text("at least", goal, is_ratio, metric.unit),
            compared >= goal,
        ),
        Goal::AtMost(goal) => (
            goal_text("at most", goal, is_ratio, metric.unit),
            compared <= goal,
        ),
    };
    let peer = peer.map_or(String::new(), |(name, value)| {
        format!("{name}: {}", written(metric.unit, value))
    });
    Some(format!(
        "| {} | {wanted} | {} | {peer} | {} | {} | {} |\n",
        target.label,
        written(metric.unit, own),
        ratio.map_or(String::new(), |ratio| written(Unit::Factor, ratio)),
        processor_ratio(results, target).unwrap_or_default(),
        if is_met { "met" } else { "**missed**" },
    ))
}

/// How many times less time of processors than the thriftiest of those compared with.
fn processor_ratio(results: &Results, target: &Target) -> Option<String> {
    let name = format!("{}_cpu_us", target.metric);
    let own = results.median(target.of, &name)?;
    let peers = names(&target.against).iter();
    let peers = peers.filter_map(|peer| Some((*peer, results.median(peer, &name)?)));
    let (peer, least) = peers.min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!("{} ({peer})", written(Unit::Factor, least / own)))
}

fn goal_text(bound: &str, goal: f64, is_ratio: bool, unit: Unit) -> String {
    match is_ratio {
        true => format!("{bound} {goal} x"),
        false => format!("{bound} {}", written(unit, goal)),
    }
}

fn best_peer(results: &Results, metric: &Metric, against: Against) -> Option<(&'static str, f64)> {
    let names = names(&against);
    let medians = names
        .iter()
        .filter_map(|name| Some((*name, results.median(name, metric.name)?)));
    medians.max_by(|a, b| metric.by_merit(a.1, b.1))
}

fn names(against: &Against) -> &[&'static str] {
    match against {
        Against::Lsm => &LSM_PEERS,
        Against::SameDurability => &SAME_DURABILITY,
        Against::Engine(name) => std::slice::from_ref(name),
        Against::Itself => &[],
    }
}

/// With the plots beside the page, if there is one.
fn sections(results: &Results, page: Option<&Path>) -> Result<String> {
    let mut text = String::new();
    for section in SECTIONS {
        let engines = results.engines(section.metrics);
        if engines.is_empty() {
            continue;
        }
        write!(text, "### {}\n\n", section.title)?;
        let by_clock: Vec<_> = section.metrics.iter().map(Row::of).collect();
        let by_processor: Vec<_> = section.metrics.iter().map(Row::by_processor).collect();
        let title = section.title;
        for (kind, rows) in [("", by_clock), ("-processor", by_processor)] {
            let (Some(name), Some(page)) = (section.plot, page) else {
                continue;
            };
            if let Some(svg) = plot::draw(results, &engines, &rows) {
                let file = format!("{name}{kind}.svg");
                std::fs::write(page.with_file_name(&file), svg)?;
                let what = if kind.is_empty() {
                    ""
                } else {
                    ", by processor time"
                };
                write!(text, "![{title}{what}]({file})\n\n")?;
            }
        }
        text += &table(results, section.metrics, &engines);
        text += &processor_table(results, section.metrics, &engines);
    }
    Ok(text)
}

fn table(results: &Results, metrics: &[Metric], engines: &[&str]) -> String {
    let mut text = format!("| | {} |\n|---|", engines.join(" | "));
    text += &"--:|".repeat(engines.len());
    text.push('\n');
    for metric in metrics {
        let samples: Vec<_> = engines
            .iter()
            .map(|engine| results.get(engine, metric.name))
            .collect();
        if samples.iter().all(Option::is_none) {
            continue;
        }
        let cells: Vec<_> = samples
            .into_iter()
            .map(|sample| cell(sample, metric))
            .collect();
        text += &format!("| {} | {} |\n", metric.label, cells.join(" | "));
    }
    text + "\n"
}

/// The same work by time of processors, where that was measured.
fn processor_table(results: &Results, metrics: &[Metric], engines: &[&str]) -> String {
    let mut text = String::new();
    for metric in metrics {
        let name = format!("{}_cpu_us", metric.name);
        let medians: Vec<_> = engines
            .iter()
            .map(|engine| results.median(engine, &name))
            .collect();
        if medians.iter().all(Option::is_none) {
            continue;
        }
        let cells = medians.into_iter().map(|median| {
            median.map_or(String::new(), |median| written(Unit::Microseconds, median))
        });
        let cells: Vec<_> = cells.collect();
        text += &format!("| {} | {} |\n", metric.label, cells.join(" | "));
    }
    if text.is_empty() {
        return text;
    }
    let rule = "--:|".repeat(engines.len());
    format!(
        "Processor time for each operation, all threads together:\n\n| | {} |\n|---|{rule}\n{text}\n",
        engines.join(" | ")
    )
}

fn cell(sample: Option<&Sample>, metric: &Metric) -> String {
    let Some(sample) = sample else {
        return String::new();
    };
    let median = written(metric.unit, sample.median());
    let (low, high) = sample.range();
    if sample.0.len() == 1 {
        return median;
    }
    let (low, high) = (written(metric.unit, low), written(metric.unit, high));
    format!("{median}<br><sub>{low} to {high}</sub>")
}

fn replace(page: &Path, text: &str) -> Result<()> {
    let old =
        std::fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
    let begin = old.find(BEGIN).map(|at| at + BEGIN.len());
    let (Some(begin), Some(end)) = (begin, old.find(END)) else {
        return Err(format!("{} lacks the lines {BEGIN} and {END}", page.display()).into());
    };
    let new = format!("{}\n\n{}\n\n{}", &old[..begin], text.trim(), &old[end..]);
    Ok(std::fs::write(page, new)?)
}
