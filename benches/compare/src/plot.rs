//! One plot for each section: for each work a line, on it each store at its speed (or thrift) as a
//! multiple of criba's, on a logarithmic axis. Left of one is behind criba.

use std::fmt::Write;

use crate::metric::{Metric, Unit, written};
use crate::report::{Results, Sample};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 290.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 64.0;
const ROW: f64 = 26.0;
const BOTTOM: f64 = 40.0;
const RADIUS: f64 = 5.0;

/// Multiples at the ends of the axis; what is beyond sits at the end.
const LOWEST: f64 = 1.0 / 64.0;
const HIGHEST: f64 = 16.0;
const TICKS: [(f64, &str); 11] = [
    (1.0 / 64.0, "1/64"),
    (1.0 / 32.0, "1/32"),
    (1.0 / 16.0, "1/16"),
    (1.0 / 8.0, "1/8"),
    (1.0 / 4.0, "1/4"),
    (1.0 / 2.0, "1/2"),
    (1.0, "criba"),
    (2.0, "2"),
    (4.0, "4"),
    (8.0, "8"),
    (16.0, "16"),
];

/// After Okabe and Ito, told apart by those who see colours differently too.
const COLOURS: [(&str, &str); 10] = [
    ("criba-mmap", "#666666"),
    ("criba-bloom", "#999999"),
    ("criba-10", "#333333"),
    ("fjall", "#e69f00"),
    ("coordinode", "#56b4e9"),
    ("rocksdb", "#009e73"),
    ("rocksdb-ribbon", "#7ccf9f"),
    ("lmdb", "#0072b2"),
    ("redb", "#cc79a7"),
    ("sled", "#d55e00"),
];

/// One line of a plot.
pub struct Row {
    label: &'static str,
    name: String,
    unit: Unit,
    more_is_better: bool,
}

impl Row {
    pub fn of(metric: &Metric) -> Row {
        Row {
            label: metric.label,
            name: metric.name.to_owned(),
            unit: metric.unit,
            more_is_better: metric.more_is_better(),
        }
    }

    /// The same work by time of processors.
    pub fn by_processor(metric: &Metric) -> Row {
        Row {
            label: metric.label,
            name: format!("{}_cpu_us", metric.name),
            unit: Unit::Microseconds,
            more_is_better: false,
        }
    }
}

/// `None` when nothing of it was measured.
pub fn draw(results: &Results, engines: &[&str], rows: &[Row]) -> Option<String> {
    let measured = |row: &&Row| results.get("criba", &row.name).is_some();
    let rows: Vec<_> = rows.iter().filter(measured).collect();
    if rows.is_empty() {
        return None;
    }
    let bottom = TOP + ROW * rows.len() as f64;
    let height = bottom + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    svg += &legend(engines);
    svg += &axis(bottom);
    for (nth, row) in rows.iter().enumerate() {
        svg += &line(results, row, TOP + ROW * (nth as f64 + 0.5));
    }
    Some(svg + "</svg>\n")
}

fn x(multiple: f64) -> f64 {
    let part = (multiple.clamp(LOWEST, HIGHEST) / LOWEST).log2() / (HIGHEST / LOWEST).log2();
    LEFT + part * (WIDTH - LEFT - RIGHT)
}

fn legend(engines: &[&str]) -> String {
    let mut svg = String::new();
    let mut at = 12.0;
    for engine in engines {
        let Some(colour) = colour_of(engine) else {
            continue;
        };
        svg += &format!(
            "<circle cx=\"{at}\" cy=\"18\" r=\"{RADIUS}\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"22\">{engine}</text>\n",
            at + 10.0
        );
        at += 28.0 + 7.0 * engine.len() as f64;
    }
    svg
}

fn colour_of(engine: &str) -> Option<&'static str> {
    let found = COLOURS.iter().find(|(name, _)| *name == engine);
    found.map(|(_, colour)| *colour)
}

fn axis(bottom: f64) -> String {
    let mut svg = String::new();
    for (multiple, label) in TICKS {
        let at = x(multiple);
        let (colour, width) = if multiple == 1.0 {
            ("#000", 1.5)
        } else {
            ("#ddd", 1.0)
        };
        svg += &format!(
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{label}</text>\n",
            bottom + 16.0
        );
    }
    svg += &format!(
        "<text x=\"{}\" y=\"{}\" fill=\"#555\">worse than criba</text>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#555\">better than criba</text>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#555\">criba has</text>\n",
        LEFT,
        TOP - 10.0,
        WIDTH - RIGHT,
        TOP - 10.0,
        WIDTH - 8.0,
        TOP - 10.0,
    );
    svg
}

fn line(results: &Results, row: &Row, y: f64) -> String {
    let mut svg = format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
        LEFT - 10.0,
        y + 4.0,
        row.label
    );
    let Some(own) = results.get("criba", &row.name).map(Sample::median) else {
        return svg;
    };
    svg += &format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
        WIDTH - 8.0,
        y + 4.0,
        written(row.unit, own)
    );
    let multiple = |value: f64| match row.more_is_better {
        true => value / own,
        false => own / value,
    };
    for (engine, colour) in COLOURS {
        let Some(sample) = results.get(engine, &row.name) else {
            continue;
        };
        let (low, high) = sample.range();
        let ends = (x(multiple(low)), x(multiple(high)));
        let at = x(multiple(sample.median()));
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{colour}\" \
             stroke-width=\"2\" opacity=\"0.6\"/>\
             <circle cx=\"{at:.1}\" cy=\"{y}\" r=\"{RADIUS}\" fill=\"{colour}\" \
             fill-opacity=\"0.85\"><title>{engine}: {}</title></circle>",
            ends.0,
            ends.1,
            written(row.unit, sample.median())
        );
    }
    svg
}
