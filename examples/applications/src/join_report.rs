//! Tables, plot and conclusions of the program `join`, from the answers that it has measured.

use criba_filters::formulas::{probes_for, rate_for};

use crate::answers::Answer;
use crate::exact_join::Exact;
use crate::join_costs::Costs;
use crate::{Cell, Line, Plot, Report, Scale, Table, numbers};

/// Bloom filters by their bits per key, beside the formulas.
pub fn by_size(report: &mut Report, exact: &Exact, answers: &[(u64, Answer)]) {
    let (costs, keys) = (Costs::of_bloom(exact), exact.left.len() as u64);
    let (all, rows) = (exact.all.len(), exact.right.len());
    let title = format!("A Bloom filter of {keys} keys; {all} of {rows} rows have a partner");
    let heads = [
        "bits per key",
        "asked",
        "rows sent",
        "in vain",
        "expected",
        "bytes",
        "calculated",
    ];
    let mut table = Table::new(title, &heads);
    let (mut measured, mut calculated) = (Vec::new(), Vec::new());
    for (bits, answer) in answers {
        let rate = match bits * keys {
            0 => 1.0,
            all => rate_for(all, probes_for(all, keys), keys),
        };
        let theory = costs.bytes(*bits as f64);
        table.row([
            (*bits).into(),
            Cell::Bytes(answer.asked_bytes),
            answer.rows.into(),
            answer.in_vain().into(),
            Cell::Number(costs.others * rate, 1),
            answer.bytes().into(),
            (theory.round() as u64).into(),
        ]);
        measured.push((*bits as f64, answer.bytes() as f64));
        calculated.push((*bits as f64, theory));
    }
    report.table(table);
    let best = measured.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let (best_bits, best_bytes) = best.copied().unwrap_or_default();
    report.conclude(format!(
        "The least was measured with {best_bits} bits per key: {:.2} % of the bytes of all rows. \
         The formula says {:.1} bits.",
        100.0 * best_bytes / measured[0].1,
        costs.best_bits(),
    ));
    report.plot(plot(&costs, measured, calculated));
}

/// The bytes of the wanted rows are left out, so that the least can be seen.
fn plot(costs: &Costs, measured: Vec<(f64, f64)>, calculated: Vec<(f64, f64)>) -> Plot {
    let extra = |points: Vec<(f64, f64)>| {
        let kilobytes = |(bits, bytes)| (bits, (bytes - costs.fixed_bytes) / 1_000.0);
        points.into_iter().map(kilobytes).collect()
    };
    Plot {
        title: "Kilobytes of the filter and of rows in vain".into(),
        across: "bits per key of A's filter".into(),
        scales: (Scale::Linear, Scale::Logarithmic),
        lines: vec![
            Line::new("second", "calculated", extra(calculated)),
            Line::dots("first", "measured", extra(measured)),
        ],
    }
}

/// The answers of one join in several ways.
#[derive(Debug)]
pub struct Ways {
    /// B sends all rows.
    pub all: Answer,
    /// A sends its keys.
    pub keys: Answer,
    /// A filter of the calculated size, with its bits per key.
    pub bloom: (f64, Answer),
    /// A filter of the size that a planner chooses.
    pub planned: (f64, Answer),
}

/// A filter of the calculated size beside other ways to join.
pub fn by_way(report: &mut Report, ways: &Ways) {
    let (best, bloom) = &ways.bloom;
    let (planned_bits, planned) = &ways.planned;
    report.conclude(format!(
        "With the calculated {best:.1} bits per key the join needs {:.1} % of the bytes of the \
         semijoin, in which A sends its keys.",
        100.0 * bloom.bytes() as f64 / ways.keys.bytes() as f64,
    ));
    let heads = [
        "way",
        "asked",
        "answered",
        "in vain",
        "bytes",
        "of all rows",
    ];
    let mut table = Table::new("Ways to join", &heads);
    for (way, answer) in [
        ("B sends all rows".into(), &ways.all),
        ("A sends its keys (semijoin)".into(), &ways.keys),
        (format!("filter, {best:.2} bits: calculated"), bloom),
        (format!("filter, {planned_bits:.2} bits: planned"), planned),
    ] {
        table.row([
            Cell::Text(way),
            Cell::Bytes(answer.asked_bytes),
            Cell::Bytes(answer.answered_bytes),
            answer.in_vain().into(),
            answer.bytes().into(),
            Cell::Share(answer.bytes() as f64 / ways.all.bytes() as f64),
        ]);
    }
    report.table(table);
}

/// The answers by a map with some check bits.
#[derive(Debug)]
pub struct ByMap {
    /// Check bits of each key.
    pub check_bits: u64,
    /// B sends rows.
    pub rows: Answer,
    /// B counts and sums them.
    pub sum: Answer,
}

/// Maps by their check bits, beside the best Bloom filter.
pub fn by_map(report: &mut Report, exact: &Exact, bloom: &Answer, answers: &[ByMap]) {
    let costs = Costs::of_map(exact);
    let title = format!(
        "A map with numbers of {} bits; {} rows of B are above the number of A; {} bytes by the filter",
        exact.value_bits(),
        exact.above.len(),
        numbers::grouped(bloom.bytes())
    );
    let heads = [
        "check bits",
        "asked",
        "rows sent",
        "in vain",
        "expected",
        "bytes",
        "calculated",
        "counted by B",
        "bytes of count",
    ];
    let mut table = Table::new(title, &heads);
    let mut least = (u64::MAX, 0);
    for answer in answers {
        let (check_bits, rows) = (answer.check_bits, &answer.rows);
        table.row([
            check_bits.into(),
            Cell::Bytes(rows.asked_bytes),
            rows.rows.into(),
            rows.in_vain().into(),
            Cell::Number(costs.in_vain(check_bits as f64), 1),
            rows.bytes().into(),
            (costs.bytes(check_bits as f64).round() as u64).into(),
            answer.sum.numbers.map_or(0, |(count, _)| count).into(),
            Cell::Bytes(answer.sum.bytes()),
        ]);
        least = least.min((rows.bytes(), check_bits));
    }
    report.table(table);
    report.conclude(format!(
        "With a condition on both rows, a map with {} check bits needs {:.1} % of the bytes of the \
         filter. The formula says {:.1} bits.",
        least.1,
        100.0 * least.0 as f64 / bloom.bytes() as f64,
        costs.best_bits(),
    ));
}
