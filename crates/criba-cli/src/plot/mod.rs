//! Plots as SVG for the page.
//!
//! A colour stands for a role: the page's style sheet finds it by its value and puts in its place
//! the one for a light or a dark screen. Nothing is filled behind a plot.

#[cfg(any(feature = "study", feature = "lab"))]
mod bars;
#[cfg(any(feature = "study", feature = "lab"))]
mod curves;
mod log_bars;

#[cfg(any(feature = "study", feature = "lab"))]
pub(crate) use bars::Bars;
#[cfg(any(feature = "study", feature = "lab"))]
pub(crate) use curves::{Curve, Curves};
pub(crate) use log_bars::LogBars;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::exit::{Exit, Failure};

/// Text and axes.
pub(crate) const INK: RGBColor = RGBColor(0x11, 0x11, 0x11);
/// Grid lines.
pub(crate) const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
/// Settings without a filter.
pub(crate) const NONE: RGBColor = RGBColor(0x77, 0x77, 0x77);
/// Bloom filters; in bars, absent lookups.
pub(crate) const BLOOM: RGBColor = RGBColor(0xd9, 0x6b, 0x0c);
/// Bloomier filters; in bars, present lookups.
pub(crate) const BLOOMIER: RGBColor = RGBColor(0x1f, 0x6f, 0xc4);

/// Colours of curves that have no role of their own, with their classes on the page.
pub(crate) const ROLES: [(&str, RGBColor); 6] = [
    ("second", BLOOMIER),
    ("first", BLOOM),
    ("third", RGBColor(0x2e, 0x8b, 0x57)),
    ("fourth", RGBColor(0x8e, 0x4e, 0xc6)),
    ("fifth", RGBColor(0xc0, 0x39, 0x2b)),
    ("none", NONE),
];

/// Width of every plot, in pixels.
pub(crate) const WIDTH: u32 = 760;

/// Size of all text.
pub(crate) const FONT: i32 = 15;

pub(crate) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Drawing into memory fails for no reason that a person could remove.
pub(crate) fn drawing(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Io, format!("cannot draw a plot: {error}"))
}

pub(crate) fn text_style(horizontal: HPos) -> TextStyle<'static> {
    ("sans-serif", FONT)
        .into_font()
        .color(&INK)
        .pos(Pos::new(horizontal, VPos::Center))
}
