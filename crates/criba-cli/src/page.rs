//! Pages: one file, nothing fetched, readable on light and dark screens.

use crate::grid::Table;

/// The style sheet. It knows the colours of the plots.
pub(crate) const STYLE: &str = include_str!("style.css");

/// A page; `body` is markup.
pub(crate) fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
         </body>\n</html>\n",
        escape(title)
    )
}

/// Lines of text as a list.
pub(crate) fn list(lines: &[String]) -> String {
    let items: String = lines
        .iter()
        .map(|line| format!("<li>{}</li>\n", escape(line)))
        .collect();
    format!("<ul>\n{items}</ul>\n")
}

/// Text from anywhere as text of the page.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' => escaped.push_str("<br>\n"),
            character if character.is_control() => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}

/// A table that scrolls where it is too wide.
pub(crate) fn table(table: &Table) -> String {
    let groups: String = table
        .groups
        .iter()
        .map(|(name, span)| format!("<th colspan=\"{span}\">{}</th>", escape(name)))
        .collect();
    let line = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
        let cells: String = cells
            .map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)))
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let heads = line("th", &mut table.heads.iter().copied());
    let rows: String = table
        .rows
        .iter()
        .map(|row| line("td", &mut row.iter().map(String::as_str)))
        .collect();
    format!(
        "<div class=\"wide\"><table>\n<thead><tr class=\"groups\">{groups}</tr>\n{heads}</thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

/// A plot with its title and what its colours mean, by their classes.
pub(crate) fn figure(title: &str, svg: &str, keys: &[(&str, &str)]) -> String {
    let keys: String = keys
        .iter()
        .map(|(class, text)| format!("<span class=\"key {class}\">{}</span>\n", escape(text)))
        .collect();
    let label = format!("<svg role=\"img\" aria-label=\"{}\" ", escape(title));
    let svg = svg.replacen("<svg ", &label, 1);
    format!(
        "<figure>\n<figcaption>{}</figcaption>\n{svg}<div>{keys}</div>\n</figure>\n",
        escape(title)
    )
}
