//! Bars on a logarithmic scale, for numbers that lie powers of ten apart.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Canvas, GRID, INK, WIDTH, drawing, text_style};
use crate::exit::Failure;
use crate::grid::small;

/// Height of a bar, and between settings, in pixels.
const HEIGHT: i32 = 16;
const GAP: i32 = 12;

/// Room for the names of settings, for the numbers beside the bars, and for those of the axis.
const NAME_WIDTH: i32 = 220;
const NUMBER_WIDTH: i32 = 90;
const AXIS_HEIGHT: i32 = 24;

/// One or two bars for each setting, each with its number; what is 0 has no bar.
pub(crate) struct LogBars<'a> {
    /// Colour and values, one for each setting; NaN for a value that is not there.
    pub(crate) series: Vec<(RGBColor, Vec<f64>)>,
    pub(crate) names: Vec<&'a str>,
}

impl LogBars<'_> {
    /// # Errors
    ///
    /// When drawing fails.
    pub(crate) fn draw(&self) -> Result<String, Failure> {
        let each = HEIGHT * self.series.len() as i32 + GAP;
        let bottom = each * self.names.len() as i32 + GAP;
        let scale = Scale::new(self.series.iter().flat_map(|(_, values)| values));
        let mut svg = String::new();
        {
            let size = (WIDTH, (bottom + AXIS_HEIGHT) as u32);
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            scale.draw(&root, bottom)?;
            for (place, name) in self.names.iter().enumerate() {
                let top = GAP + each * place as i32;
                let middle = top + (each - GAP) / 2;
                let style = text_style(HPos::Right);
                root.draw(&Text::new(*name, (NAME_WIDTH - 10, middle), style))
                    .map_err(drawing)?;
                for (ordinal, (colour, values)) in self.series.iter().enumerate() {
                    let value = values.get(place).copied().unwrap_or(f64::NAN);
                    let top = top + HEIGHT * ordinal as i32;
                    bar(&root, *colour, top, (scale.x(value), value))?;
                }
            }
            root.present().map_err(drawing)?;
        }
        Ok(svg)
    }
}

/// Powers of ten: the axis begins at the first and ends at the last.
struct Scale {
    first: f64,
    last: f64,
}

impl Scale {
    fn new<'v>(values: impl Iterator<Item = &'v f64>) -> Scale {
        let seen = values
            .copied()
            .filter(|value| *value > 0.0 && value.is_finite());
        let (least, most) = seen.fold((f64::MAX, 0.0f64), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        if most == 0.0 {
            return Scale {
                first: -1.0,
                last: 0.0,
            };
        }
        // The shortest bar should be one, too.
        let first = (least * 0.7).log10().floor();
        let last = most.log10().ceil().max(first + 1.0);
        Scale { first, last }
    }

    /// Where a bar of this value ends; `None` for what has none.
    fn x(&self, value: f64) -> Option<i32> {
        let full = f64::from(WIDTH as i32 - NAME_WIDTH - NUMBER_WIDTH);
        let part = (value.log10() - self.first) / (self.last - self.first);
        part.is_finite()
            .then(|| NAME_WIDTH + (full * part.clamp(0.0, 1.0)) as i32)
    }

    fn draw(&self, root: &Canvas<'_>, bottom: i32) -> Result<(), Failure> {
        for power in self.first as i32..=self.last as i32 {
            let value = 10f64.powi(power);
            let Some(x) = self.x(value) else { continue };
            let line = vec![(x, GAP / 2), (x, bottom)];
            let colour = if x == NAME_WIDTH { INK } else { GRID };
            root.draw(&PathElement::new(line, colour))
                .map_err(drawing)?;
            let style = text_style(HPos::Center);
            let text = if power >= -3 {
                format!("{value}")
            } else {
                format!("{value:e}")
            };
            root.draw(&Text::new(text, (x, bottom + AXIS_HEIGHT / 2), style))
                .map_err(drawing)?;
        }
        Ok(())
    }
}

fn bar(
    root: &Canvas<'_>,
    colour: RGBColor,
    top: i32,
    (end, value): (Option<i32>, f64),
) -> Result<(), Failure> {
    let end = end.unwrap_or(NAME_WIDTH).max(NAME_WIDTH + 1);
    let corners = [(NAME_WIDTH, top + 1), (end, top + HEIGHT - 1)];
    root.draw(&Rectangle::new(corners, colour.filled()))
        .map_err(drawing)?;
    let place = (end + 8, top + HEIGHT / 2);
    root.draw(&Text::new(small(value), place, text_style(HPos::Left)))
        .map_err(drawing)
}

#[cfg(test)]
mod tests {
    use super::super::{BLOOM, NONE};
    use super::*;

    #[test]
    fn powers_of_ten_are_apart() {
        let values = [0.04, 0.002, 0.0, f64::NAN];
        let scale = Scale::new(values.iter());
        assert_eq!((scale.first, scale.last), (-3.0, -1.0));
        let x = values.map(|value| scale.x(value));
        assert!(x[0] > x[1] && x[1] > Some(NAME_WIDTH) && x[2].is_none() && x[3].is_none());
    }

    #[test]
    fn bars_bear_what_is_missing() {
        let series = vec![(BLOOM, vec![0.04, f64::NAN]), (NONE, vec![0.0, 0.003])];
        let svg = LogBars {
            series,
            names: vec!["a", "b"],
        }
        .draw()
        .unwrap();
        assert_eq!(svg.matches("<rect").count(), 4);
        assert!(svg.contains("0.0400") && svg.contains("0.00300"));
        let empty = LogBars {
            series: Vec::new(),
            names: Vec::new(),
        };
        assert!(empty.draw().is_ok());
    }
}
