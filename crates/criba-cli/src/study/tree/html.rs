//! The results as a page.

use super::conclusion::sentence;
use super::row::Row;
use super::table::{heading, legend, level_table, table};
use crate::exit::Failure;
use crate::page::{self, figure};
use crate::plot::{self, LogBars};
use crate::study::args::StudyArgs;

/// # Errors
///
/// When a plot cannot be drawn.
pub(super) fn page(rows: &[Row], args: &StudyArgs) -> Result<String, Failure> {
    let names: Vec<String> = rows
        .iter()
        .map(|row| format!("{} {}", row.strategy_name(), row.filter.name()))
        .collect();
    let values = |value: fn(&Row) -> f64| rows.iter().map(value).collect();
    let bars = LogBars {
        series: vec![
            (plot::BLOOM, values(Row::wasted_reads)),
            (plot::NONE, values(Row::expected_wasted_reads)),
        ],
        names: names.iter().map(String::as_str).collect(),
    };
    let keys = [
        ("first", "measured: counted by the storage"),
        ("none", "calculated: from the designed rates of the filters"),
    ];
    let title = "Data blocks read in vain for each absent lookup, log scale";
    let body = format!(
        "<h1>After compaction: bits where they pay</h1>\n<p>{heading}</p>\n\
         <p class=\"conclusion\">{conclusion}</p>\n{figure}{table}{legend}\
         <h2>Level by level</h2>\n{levels}\
         <p class=\"foot\">criba {version}, <code>criba study --tree</code>. What is called \
         calculated was calculated; all else was counted.</p>\n",
        heading = page::escape(&heading(rows, args)),
        conclusion = page::escape(&sentence(rows)),
        figure = figure(title, &bars.draw()?, &keys),
        table = page::table(&table(rows, args)),
        legend = page::list(&legend()),
        levels = page::table(&level_table(rows)),
        version = env!("CARGO_PKG_VERSION"),
    );
    Ok(page::page("criba study: trees", &body))
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::{example, small_args};
    use super::page;

    #[test]
    fn the_page_stands_alone() {
        let rows = [
            example("leveled", "bloom", 8000),
            example("leveled", "budget", 0),
        ];
        let page = page(&rows, &small_args()).unwrap();
        assert_eq!(page.matches("<svg ").count(), 1);
        for foreign in ["<script", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("leveled budget") && page.contains("0.0400"));
    }
}
