//! The results as a page.

use super::count::Wanted;
use super::keys::Keys;
use super::row::Row;
use super::store::TREES;
use super::table::{heading, legend, sentence, table};
use crate::exit::Failure;
use crate::page::{self, figure};
use crate::plot::{Curve, Curves, ROLES};
use crate::study::args::StudyArgs;

/// # Errors
///
/// When a plot cannot be drawn.
pub(super) fn page(rows: &[Row], keys: &Keys, args: &StudyArgs) -> Result<String, Failure> {
    let body = format!(
        "<h1>What a scan reads</h1>\n<p>{heading}</p>\n\
         <p class=\"conclusion\">{conclusion}</p>\n{figures}{table}{legend}\
         <p class=\"foot\">criba {version}, <code>criba study --scans</code>. All numbers were \
         counted.</p>\n",
        heading = page::escape(&heading(keys, args)),
        conclusion = page::escape(&sentence(rows)),
        figures = figures(rows)?,
        table = page::table(&table(rows)),
        legend = page::list(&legend(rows)),
        version = env!("CARGO_PKG_VERSION"),
    );
    Ok(page::page("criba study: scans", &body))
}

fn figures(rows: &[Row]) -> Result<String, Failure> {
    let mut markup = String::new();
    for (wanted, title) in [
        (Wanted::Exactly(0), "Data blocks read for an empty range"),
        (
            Wanted::Exactly(3),
            "Data blocks read for a range of 3 entries",
        ),
        (Wanted::Next, "Data blocks read for the next entry"),
    ] {
        let title = format!("{title}, by runs that were flushed, log scale");
        let axes = ("runs", "blocks for each scan", true);
        markup.push_str(&draw(&title, axes, &by_runs(rows, wanted))?);
    }
    let title = "Empty ranges that a run does not refute, by bits for each key, log scale";
    let axes = ("bits for each key", "in vain, percent", false);
    markup.push_str(&draw(title, axes, &by_bits(rows))?);
    Ok(markup)
}

/// A curve for each filter.
fn by_runs(rows: &[Row], wanted: Wanted) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for row in rows.iter().filter(|row| row.tree.strategy.is_none()) {
        let point = (row.runs as f64, row.cost(wanted).blocks_per_scan());
        push(&mut curves, row.filter_name(), point);
    }
    curves
}

/// A curve for each tree, with most keys.
fn by_bits(rows: &[Row]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for tree in TREES {
        let full = tree.stops.last().copied();
        let of_tree = rows.iter().filter(|row| row.tree == tree);
        for row in of_tree.filter(|row| Some(row.flushes) == full && row.bits.is_some()) {
            let share = row.cost(Wanted::Exactly(0)).share_in_vain();
            push(
                &mut curves,
                tree.name.into(),
                (row.bits_per_key(), share * 100.0),
            );
        }
    }
    curves
}

fn push(curves: &mut Vec<Curve>, name: String, point: (f64, f64)) {
    match curves.iter_mut().find(|curve| curve.name == name) {
        Some(curve) => curve.points.push(point),
        None => {
            let mut curve = Curve::new(name);
            curve.points.push(point);
            curves.push(curve);
        }
    }
}

fn draw(
    title: &str,
    (x_label, y_label, is_logarithmic): (&str, &str, bool),
    curves: &[Curve],
) -> Result<String, Failure> {
    let keys: Vec<(&str, &str)> = curves
        .iter()
        .zip(ROLES.iter().cycle())
        .map(|(curve, role)| (role.0, curve.name.as_str()))
        .collect();
    let plot = Curves {
        x_label: x_label.into(),
        y_label: y_label.into(),
        logarithmic: (is_logarithmic, true),
        curves,
    };
    Ok(figure(title, &plot.draw()?, &keys))
}
