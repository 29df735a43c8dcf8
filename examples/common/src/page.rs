//! Pages with plots and tables: one file, nothing fetched, readable on light and dark screens and on a
//! phone.

mod html;
mod plot;

pub use html::Html;
pub use plot::{Figure, Line, Mark, Scale, figure};

const STYLE: &str = include_str!("page/style.css");

/// The page of a program around its parts. The title is text, the body markup.
pub fn page(title: &str, program: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\
         <p class=\"foot\">criba {version}, example <code>{program}</code>. Everything is counted, nothing \
         is estimated.</p>\n</main>\n</body>\n</html>\n",
        title = Html(title),
        program = Html(program),
        version = env!("CARGO_PKG_VERSION"),
    )
}

/// A table with a head, cells as text.
pub fn wide_table(title: &str, heads: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
        cells.fold(String::new(), |line, cell| {
            format!("{line}<{tag}>{}</{tag}>", Html(cell))
        })
    };
    let head = cells("th", &mut heads.iter().copied());
    let rows = rows.iter().fold(String::new(), |rows, row| {
        let row = cells("td", &mut row.iter().map(String::as_str));
        format!("{rows}<tr>{row}</tr>\n")
    });
    format!(
        "<h2>{}</h2>\n<div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n",
        Html(title)
    )
}
