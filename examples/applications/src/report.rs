//! What an application has found: tables, plots and sentences, as text, JSON or a page.

use std::fs::File;
use std::io::{self, Write as _};

use common::numbers::{bytes, grouped};
use common::page::{Figure, Html, Line, Scale, page, wide_table};
use serde_json::{Map, Value};

use crate::{Error, Options, Result};

/// A value of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A name.
    Text(String),
    /// A number of things.
    Count(u64),
    /// A size in bytes.
    Bytes(u64),
    /// A probability or share, shown in percent.
    Share(f64),
    /// A number, shown with so many decimals.
    Number(f64, usize),
    /// There is no value here.
    None,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Count(count)
    }
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Cell::Text(text) => common::escape::Plain(text).to_string(),
            Cell::Count(count) => grouped(*count),
            Cell::Bytes(size) => bytes(*size),
            Cell::Share(share) => percent(*share),
            Cell::Number(number, decimals) => format!("{number:.decimals$}"),
            Cell::None => "-".into(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Cell::Text(text) => text.as_str().into(),
            Cell::Count(count) | Cell::Bytes(count) => (*count).into(),
            // A number that is not finite becomes null.
            Cell::Share(number) | Cell::Number(number, _) => (*number).into(),
            Cell::None => Value::Null,
        }
    }
}

/// Three digits that count. The limits are those at which rounding gives one more digit before the point.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let decimals = match percent {
        0.0 => 0,
        _ if percent >= 99.95 => 0,
        _ if percent >= 9.995 => 1,
        _ if percent >= 0.9995 => 2,
        _ if percent >= 0.09995 => 3,
        _ => 4,
    };
    format!("{percent:.decimals$} %")
}

/// Lines of equal form below heads.
#[derive(Debug)]
pub struct Table {
    title: String,
    heads: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without lines. The heads are the names of its values in JSON, with an underscore for
    /// each space.
    pub fn new(title: impl Into<String>, heads: &[&'static str]) -> Table {
        Table {
            title: title.into(),
            heads: heads.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a line, which has a value for each head.
    ///
    /// # Panics
    ///
    /// If it has more or fewer.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        assert_eq!(N, self.heads.len(), "a value for each head");
        self.rows.push(cells.into());
    }

    fn text(&self) -> String {
        let mut lines = vec![self.heads.iter().map(ToString::to_string).collect()];
        lines.extend(self.cells());
        let width = |column: usize| {
            let cells = lines.iter().map(|line: &Vec<String>| &line[column]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heads.len()).map(width).collect();
        let mut text = format!("{}\n", self.title);
        for line in &lines {
            let mut out = String::new();
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                // The first column is a name: it begins at the left.
                out.push_str(&match column {
                    0 => format!("  {cell:<width$}"),
                    _ => format!("  {cell:>width$}"),
                });
            }
            text.push_str(out.trim_end());
            text.push('\n');
        }
        text
    }

    fn cells(&self) -> Vec<Vec<String>> {
        let texts = |row: &Vec<Cell>| row.iter().map(Cell::text).collect();
        self.rows.iter().map(texts).collect()
    }

    fn json(&self, program: &str) -> Vec<Value> {
        let object = |row: &Vec<Cell>| {
            let mut object = Map::new();
            object.insert("program".into(), program.into());
            object.insert("table".into(), self.title.as_str().into());
            let named = self.heads.iter().zip(row);
            object.extend(named.map(|(head, cell)| (head.replace(' ', "_"), cell.json())));
            Value::Object(object)
        };
        self.rows.iter().map(object).collect()
    }
}

/// A plot of the page.
#[derive(Debug)]
pub struct Plot {
    /// What the values are.
    pub title: String,
    /// What the horizontal axis is, with its unit.
    pub across: String,
    /// The scale of the horizontal axis and of the vertical one.
    pub scales: (Scale, Scale),
    /// What is drawn: dots for what was measured, lines for what was calculated.
    pub lines: Vec<Line>,
}

/// What an application has found.
#[derive(Debug)]
pub struct Report {
    program: &'static str,
    title: &'static str,
    question: &'static str,
    tables: Vec<Table>,
    plots: Vec<Plot>,
    conclusions: Vec<String>,
}

impl Report {
    /// A report without findings.
    pub fn new(program: &'static str, title: &'static str, question: &'static str) -> Report {
        Report {
            program,
            title,
            question,
            tables: Vec::new(),
            plots: Vec::new(),
            conclusions: Vec::new(),
        }
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) {
        self.tables.push(table);
    }

    /// Adds a plot.
    pub fn plot(&mut self, plot: Plot) {
        self.plots.push(plot);
    }

    /// Adds a sentence on what the numbers mean.
    pub fn conclude(&mut self, sentence: impl Into<String>) {
        self.conclusions.push(sentence.into());
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.title, self.question);
        for table in &self.tables {
            text.push_str(&format!("\n{}", table.text()));
        }
        text.push('\n');
        for sentence in &self.conclusions {
            text.push_str(&format!("- {sentence}\n"));
        }
        text
    }

    fn lines_of_json(&self) -> String {
        let lines = self
            .tables
            .iter()
            .flat_map(|table| table.json(self.program));
        lines.map(|line| format!("{line}\n")).collect()
    }

    fn html(&self) -> String {
        let plots: String = self
            .plots
            .iter()
            .map(|plot| {
                let figure = Figure {
                    title: &plot.title,
                    across: &plot.across,
                    scales: plot.scales,
                    lines: &plot.lines,
                };
                figure.draw()
            })
            .collect();
        let tables: String = self
            .tables
            .iter()
            .map(|table| wide_table(&table.title, &table.heads, &table.cells()))
            .collect();
        let conclusions: String = self
            .conclusions
            .iter()
            .map(|sentence| format!("<p>{}</p>\n", Html(sentence)))
            .collect();
        let body = format!(
            "<h1>{title}</h1>\n<p>{question}</p>\n<div class=\"conclusion\">\n{conclusions}</div>\n\
             <div class=\"beside plots\">\n{plots}</div>\n{tables}",
            title = Html(self.title),
            question = Html(self.question),
        );
        page(self.title, self.program, &body)
    }

    /// Prints the report, and writes its page.
    pub(crate) fn publish(&self, options: &Options, html: Option<File>) -> Result<()> {
        if let (Some(mut file), Some(path)) = (html, &options.html) {
            // A page that was there before is replaced.
            let written = file.set_len(0).or_else(no_file);
            let written = written.and_then(|()| file.write_all(self.html().as_bytes()));
            written.map_err(Error::file(path))?;
        }
        let text = match options.json {
            true => self.lines_of_json(),
            false => self.text(),
        };
        let mut out = io::stdout();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // The reader of a pipe has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => Ok(result?),
        }
    }
}

/// A pipe or device has no length to set.
fn no_file(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::InvalidInput => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("test", "A <title>", "A question?");
        let mut table = Table::new("Rates", &["policy", "hit rate", "kept"]);
        table.row(["lru\x1b".into(), Cell::Share(0.123_45), Cell::Bytes(2_500)]);
        table.row(["longer".into(), Cell::Share(f64::NAN), Cell::None]);
        report.table(table);
        report.conclude("One is better.");
        report
    }

    #[test]
    fn text_is_in_columns() {
        let text = "A <title>\nA question?\n\nRates\n  policy     hit rate    kept\n  \
                    lru\\u{1b}    12.3 %  2.5 KB\n  longer        NaN %       -\n\n- One is better.\n";
        assert_eq!(report().text(), text);
    }

    #[test]
    fn percentages_have_three_digits() {
        for (share, text) in [
            (0.0, "0 %"),
            (0.000_999_4, "0.0999 %"),
            (0.000_999_7, "0.100 %"),
            (0.009_997, "1.00 %"),
            (0.099_93, "9.99 %"),
            (0.099_97, "10.0 %"),
            (0.999_3, "99.9 %"),
            (0.999_7, "100 %"),
        ] {
            assert_eq!(percent(share), text);
        }
    }

    #[test]
    fn json_has_a_line_for_each_row() {
        let first = r#"{"hit_rate":0.12345,"kept":2500,"policy":"lru\u001b","program":"test","table":"Rates"}"#;
        let json = report().lines_of_json();
        assert_eq!(json.lines().next(), Some(first));
        assert!(json.contains(r#""hit_rate":null,"kept":null"#));
    }

    #[test]
    fn a_page_has_everything_escaped() {
        let html = report().html();
        assert!(html.contains("<h1>A &lt;title&gt;</h1>"));
        assert!(html.contains("<td>12.3 %</td>") && html.contains("One is better."));
    }
}
