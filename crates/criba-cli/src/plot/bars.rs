//! Bars: one or two numbers of each setting.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Canvas, INK, WIDTH, drawing, text_style};
use crate::exit::Failure;

/// Height of a bar, and between settings, in pixels.
const HEIGHT: i32 = 16;
const GAP: i32 = 12;

/// Room for the names of settings, and for the numbers beside the bars.
const NAME_WIDTH: i32 = 130;
const NUMBER_WIDTH: i32 = 90;

/// One or two bars for each setting, each with its number.
pub(crate) struct Bars<'a> {
    /// Colour and values, one for each setting; NaN for a value that is not there.
    pub(crate) series: Vec<(RGBColor, Vec<f64>)>,
    pub(crate) names: Vec<&'a str>,
    pub(crate) decimals: usize,
}

impl Bars<'_> {
    /// # Errors
    ///
    /// When drawing fails.
    pub(crate) fn draw(&self) -> Result<String, Failure> {
        let each = HEIGHT * self.series.len() as i32 + GAP;
        let height = each * self.names.len() as i32 + GAP;
        let all = self.series.iter().flat_map(|(_, values)| values);
        let most = all
            .copied()
            .filter(|value| value.is_finite())
            .fold(f64::MIN_POSITIVE, f64::max);
        let full = f64::from(WIDTH as i32 - NAME_WIDTH - NUMBER_WIDTH);
        let mut svg = String::new();
        {
            let size = (WIDTH, height.max(1) as u32);
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            for (place, name) in self.names.iter().enumerate() {
                let top = GAP + each * place as i32;
                let middle = top + (each - GAP) / 2;
                let style = text_style(HPos::Right);
                root.draw(&Text::new(*name, (NAME_WIDTH - 10, middle), style))
                    .map_err(drawing)?;
                for (ordinal, (colour, values)) in self.series.iter().enumerate() {
                    let value = values.get(place).copied().unwrap_or(f64::NAN);
                    let top = top + HEIGHT * ordinal as i32;
                    let length = if value.is_finite() {
                        full * value / most
                    } else {
                        0.0
                    };
                    self.bar(&root, *colour, (top, length as i32, value))?;
                }
            }
            let axis = [(NAME_WIDTH, GAP / 2), (NAME_WIDTH, height - GAP / 2)];
            root.draw(&PathElement::new(axis.to_vec(), INK))
                .map_err(drawing)?;
            root.present().map_err(drawing)?;
        }
        Ok(svg)
    }

    fn bar(
        &self,
        root: &Canvas<'_>,
        colour: RGBColor,
        (top, length, value): (i32, i32, f64),
    ) -> Result<(), Failure> {
        let corners = [
            (NAME_WIDTH, top + 1),
            (NAME_WIDTH + length.max(1), top + HEIGHT - 1),
        ];
        root.draw(&Rectangle::new(corners, colour.filled()))
            .map_err(drawing)?;
        let text = if value.is_finite() {
            format!("{value:.*}", self.decimals)
        } else {
            "not measured".into()
        };
        let place = (NAME_WIDTH + length.max(1) + 8, top + HEIGHT / 2);
        root.draw(&Text::new(text, place, text_style(HPos::Left)))
            .map_err(drawing)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BLOOM, BLOOMIER};
    use super::*;

    #[test]
    fn bars_bear_missing_values() {
        let series = vec![(BLOOM, vec![1.0, f64::NAN]), (BLOOMIER, vec![0.0, 3.0])];
        let svg = Bars {
            series,
            names: vec!["a", "b"],
            decimals: 1,
        }
        .draw()
        .unwrap();
        assert_eq!(svg.matches("<rect").count(), 4);
        assert!(svg.contains("not measured") && svg.contains("3.0"));
        let empty = Bars {
            series: Vec::new(),
            names: Vec::new(),
            decimals: 0,
        };
        assert!(empty.draw().is_ok());
    }
}
