//! The outcomes as a page.

use super::catalog::Experiment;
use super::outcome::{Axes, Line, Outcome, Plot, Quantity, Unit};
use super::table::{table, text};
use crate::exit::Failure;
use crate::page::{self, figure};
use crate::plot::{Bars, Curve, Curves, LogBars, ROLES};

/// # Errors
///
/// When a plot cannot be drawn.
pub(crate) fn page(
    outcomes: &[(&Experiment, Outcome)],
    (seed, keys): (u64, u64),
) -> Result<String, Failure> {
    let mut sections = String::new();
    for (experiment, outcome) in outcomes {
        sections.push_str(&section(experiment, outcome)?);
    }
    let links: String = outcomes
        .iter()
        .map(|(experiment, _)| format!("<a href=\"#{0}\">{0}</a> ", experiment.name))
        .collect();
    let body = format!(
        "<h1>The laboratory of filters and sketches</h1>\n\
         <p>{keys} keys in each set, as many draws in each stream, seed {seed}. Points and bars are \
         measured, lines are what theory expects; where it expects nothing, thin lines join the points.</p>\n<p>{links}</p>\n{sections}\
         <p class=\"foot\">criba {version}, <code>criba lab</code>.</p>\n",
        keys = crate::grid::thousands(keys),
        version = env!("CARGO_PKG_VERSION"),
    );
    Ok(page::page("criba lab", &body))
}

fn section(experiment: &Experiment, outcome: &Outcome) -> Result<String, Failure> {
    let mut markup = format!(
        "<h2 id=\"{name}\">{name}</h2>\n<p>{question}</p>\n<p>Exercise: {exercise}.</p>\n",
        name = experiment.name,
        exercise = page::escape(experiment.exercise),
        question = page::escape(experiment.question),
    );
    for plot in &outcome.plots {
        markup.push_str(&draw(plot, &outcome.lines)?);
    }
    markup.push_str(&page::table(&table(&outcome.lines)));
    if !outcome.notes.is_empty() {
        markup.push_str(&page::list(&outcome.notes));
    }
    Ok(markup)
}

fn draw(plot: &Plot, lines: &[Line]) -> Result<String, Failure> {
    match plot {
        Plot::Curves {
            quantity,
            against,
            logarithmic,
        } => curves(lines, *quantity, (against, *logarithmic)),
        Plot::Bars { quantity } => bars(lines, *quantity),
        Plot::Memory => memory(lines),
    }
}

/// A curve for each structure: what is measured as points, what is expected as a line.
fn curves(
    lines: &[Line],
    quantity: Quantity,
    (against, logarithmic): (&'static str, Axes),
) -> Result<String, Failure> {
    let scale = match quantity.unit {
        Unit::Rate => 100.0,
        Unit::Small | Unit::Count => 1.0,
    };
    let mut curves: Vec<Curve> = Vec::new();
    for line in lines.iter().filter(|line| line.quantity == quantity) {
        let Some(x) = line.subject.number(against) else {
            continue;
        };
        let name = &line.subject.structure;
        if !curves.iter().any(|curve| curve.name == *name) {
            curves.push(Curve::new(name));
        }
        if let Some(curve) = curves.iter_mut().find(|curve| curve.name == *name) {
            curve.points.push((x, line.measured * scale));
            curve
                .line
                .extend(line.expected.map(|expected| (x, expected * scale)));
        }
    }
    let keys: Vec<(&str, &str)> = curves
        .iter()
        .zip(ROLES.iter().cycle())
        .map(|(curve, role)| (role.0, curve.name.as_str()))
        .collect();
    let percent = if quantity.unit == Unit::Rate {
        ", percent"
    } else {
        ""
    };
    let svg = Curves {
        x_label: against.into(),
        y_label: format!("{}{percent}", quantity.name),
        logarithmic: (
            matches!(logarithmic, Axes::Both | Axes::Horizontal),
            matches!(logarithmic, Axes::Both | Axes::Vertical),
        ),
        curves: &curves,
    }
    .draw()?;
    Ok(figure(
        &format!("{}, by {against}", quantity.name),
        &svg,
        &keys,
    ))
}

fn bars(lines: &[Line], quantity: Quantity) -> Result<String, Failure> {
    let of_it: Vec<&Line> = lines
        .iter()
        .filter(|line| line.quantity == quantity)
        .collect();
    let names: Vec<String> = of_it.iter().map(|line| name(line, &of_it)).collect();
    let measured = of_it.iter().map(|line| line.measured).collect();
    let mut series = vec![(ROLES[0].1, measured)];
    let mut keys = vec![(ROLES[0].0, "measured")];
    if of_it.iter().any(|line| line.expected.is_some()) {
        let expected = of_it.iter().map(|line| line.expected.unwrap_or(f64::NAN));
        series.push((crate::plot::NONE, expected.collect()));
        keys.push(("none", "expected"));
    }
    let svg = LogBars {
        series,
        names: names.iter().map(String::as_str).collect(),
    }
    .draw()?;
    Ok(figure(
        &format!("{}, log scale", quantity.name),
        &svg,
        &keys,
    ))
}

/// Bits per key of each structure.
fn memory(lines: &[Line]) -> Result<String, Failure> {
    let mut bits: Vec<(&str, f64)> = Vec::new();
    for line in lines {
        let name = line.subject.structure.as_str();
        if let Some(own) = line.subject.bits_per_key
            && !bits.iter().any(|other| other.0 == name)
        {
            bits.push((name, own));
        }
    }
    let (names, values) = bits.into_iter().unzip();
    let svg = Bars {
        series: vec![(ROLES[0].1, values)],
        names,
        decimals: 2,
    }
    .draw()?;
    Ok(figure("bits per key", &svg, &[]))
}

/// The structure of a line, with its parameters where there are others of it.
fn name(line: &Line, all: &[&Line]) -> String {
    let structure = &line.subject.structure;
    let is_other = |other: &&&Line| other.subject.structure == *structure;
    if all.iter().filter(is_other).count() < 2 {
        return structure.clone();
    }
    let values = line.subject.parameters.iter().map(|(_, value)| text(value));
    std::iter::once(structure.clone())
        .chain(values)
        .collect::<Vec<_>>()
        .join(" ")
}
