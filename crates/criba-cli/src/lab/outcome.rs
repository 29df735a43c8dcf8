//! What experiments find: lines of one measurement each.

use crate::json::Object;

/// A parameter of a structure or of what was put into it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Cell {
    Count(u64),
    Number(f64),
    Text(String),
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Count(count)
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Cell {
        Cell::Count(count.into())
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell::Number(number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.into())
    }
}

/// How a quantity is written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Unit {
    /// A probability or share, in percent.
    Rate,
    /// Three digits that count.
    Small,
    /// A number of things.
    Count,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
}

impl Quantity {
    pub(crate) const fn rate(name: &'static str) -> Quantity {
        let unit = Unit::Rate;
        Quantity { name, unit }
    }

    pub(crate) const fn number(name: &'static str) -> Quantity {
        let unit = Unit::Small;
        Quantity { name, unit }
    }

    pub(crate) const fn count(name: &'static str) -> Quantity {
        let unit = Unit::Count;
        Quantity { name, unit }
    }
}

pub(crate) const FALSE_POSITIVES: Quantity = Quantity::rate("false-positive rate");
pub(crate) const INSERT: Quantity = Quantity::number("insert ns");
pub(crate) const LOOKUP: Quantity = Quantity::number("lookup ns");

/// A structure with its parameters: what lines are about.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Subject {
    pub(crate) structure: String,
    pub(crate) parameters: Vec<(&'static str, Cell)>,
    pub(crate) bits_per_key: Option<f64>,
}

impl Subject {
    pub(crate) fn new(structure: impl Into<String>) -> Subject {
        Subject {
            structure: structure.into(),
            parameters: Vec::new(),
            bits_per_key: None,
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Cell>) -> Subject {
        self.parameters.push((name, value.into()));
        self
    }

    pub(crate) fn bits(mut self, bits: f64, keys: u64) -> Subject {
        self.bits_per_key = Some(bits / keys.max(1) as f64);
        self
    }

    /// A parameter as a number; a text is none.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        let (_, value) = self.parameters.iter().find(|one| one.0 == name)?;
        match value {
            Cell::Count(count) => Some(*count as f64),
            Cell::Number(number) => Some(*number),
            Cell::Text(_) => None,
        }
    }
}

/// One measurement.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Line {
    pub(crate) subject: Subject,
    pub(crate) quantity: Quantity,
    /// What theory says; nothing for times.
    pub(crate) expected: Option<f64>,
    pub(crate) measured: f64,
    /// Where the measured value lies by theory, all but certainly.
    pub(crate) bounds: Option<(f64, f64)>,
}

/// The lines of an experiment, its plots, and what cannot be seen in them.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) lines: Vec<Line>,
    pub(crate) plots: Vec<Plot>,
    pub(crate) notes: Vec<String>,
}

/// A plot of one quantity.
pub(crate) enum Plot {
    /// Against a parameter, a curve for each structure: points are measured, lines expected.
    Curves {
        quantity: Quantity,
        against: &'static str,
        logarithmic: Axes,
    },
    /// A bar for each line.
    Bars { quantity: Quantity },
    /// A bar for the bits per key of each structure.
    Memory,
}

/// Which axes are logarithmic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Axes {
    None,
    Horizontal,
    Vertical,
    Both,
}

impl Outcome {
    /// A value that theory says nothing of.
    pub(crate) fn measured(&mut self, subject: &Subject, quantity: Quantity, measured: f64) {
        self.push(subject, quantity, (None, measured, None));
    }

    /// A value beside the expected one, within bounds.
    pub(crate) fn compared(
        &mut self,
        subject: &Subject,
        quantity: Quantity,
        (expected, measured): (f64, f64),
        bounds: (f64, f64),
    ) {
        self.push(subject, quantity, (Some(expected), measured, Some(bounds)));
    }

    /// A share of so many trials beside the expected one: bounds are five standard deviations of the
    /// binomial distribution, and `slack`, a part of the expected share, for what the formula leaves
    /// out.
    pub(crate) fn share(
        &mut self,
        subject: &Subject,
        quantity: Quantity,
        (expected, measured): (f64, f64),
        (trials, slack): (u64, f64),
    ) {
        let trials = trials.max(1) as f64;
        let deviation = (expected * (1.0 - expected) / trials).max(0.0).sqrt();
        let off = 5.0 * deviation + 3.0 / trials + slack * expected;
        let bounds = ((expected - off).max(0.0), (expected + off).min(1.0));
        self.compared(subject, quantity, (expected, measured), bounds);
    }

    /// A value that by theory is at most so much.
    pub(crate) fn at_most(
        &mut self,
        subject: &Subject,
        quantity: Quantity,
        (bound, measured): (f64, f64),
    ) {
        self.push(
            subject,
            quantity,
            (Some(bound), measured, Some((0.0, bound))),
        );
    }

    /// A share of so many trials that by theory has at most such a probability.
    pub(crate) fn at_most_share(
        &mut self,
        subject: &Subject,
        quantity: Quantity,
        (bound, measured): (f64, f64),
        trials: u64,
    ) {
        let trials = trials.max(1) as f64;
        let deviation = (bound * (1.0 - bound) / trials).max(0.0).sqrt();
        let upper = (bound + 5.0 * deviation + 3.0 / trials).min(1.0);
        self.compared(subject, quantity, (bound, measured), (0.0, upper));
    }

    /// A share that by theory is at least so much.
    pub(crate) fn at_least(
        &mut self,
        subject: &Subject,
        quantity: Quantity,
        (bound, measured): (f64, f64),
    ) {
        self.push(
            subject,
            quantity,
            (Some(bound), measured, Some((bound, 1.0))),
        );
    }

    fn push(
        &mut self,
        subject: &Subject,
        quantity: Quantity,
        (expected, measured, bounds): (Option<f64>, f64, Option<(f64, f64)>),
    ) {
        self.lines.push(Line {
            subject: subject.clone(),
            quantity,
            expected,
            measured,
            bounds,
        });
    }

    pub(crate) fn plot(&mut self, quantity: Quantity, against: &'static str, logarithmic: Axes) {
        self.plots.push(Plot::Curves {
            quantity,
            against,
            logarithmic,
        });
    }

    pub(crate) fn bars(&mut self, quantity: Quantity) {
        self.plots.push(Plot::Bars { quantity });
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

impl Line {
    /// The line as an object: names of parameters are fields.
    pub(crate) fn json(&self, (experiment, exercise): (&str, &str)) -> Object {
        let subject = &self.subject;
        let mut object = Object::new()
            .field("experiment", experiment)
            .field("exercise", exercise)
            .field("structure", subject.structure.as_str());
        for (name, value) in &subject.parameters {
            let name = name.replace([' ', '-'], "_");
            object = match value {
                Cell::Count(count) => object.field(&name, *count),
                Cell::Number(number) => object.field(&name, *number),
                Cell::Text(text) => object.field(&name, text.as_str()),
            };
        }
        object
            .field("quantity", self.quantity.name)
            .field("expected", self.expected)
            .field("measured", self.measured)
            .field("lower", self.bounds.map(|bounds| bounds.0))
            .field("upper", self.bounds.map(|bounds| bounds.1))
            .field("bits_per_key", subject.bits_per_key)
    }
}
