//! Curves on two axes: measured points beside the lines of theory, a colour for each.

use plotters::prelude::*;

use super::{Canvas, FONT, GRID, INK, ROLES, WIDTH, drawing};
use crate::exit::Failure;
use crate::grid::thousands;

const HEIGHT: u32 = 400;

/// Room around the curves, in pixels: all around, and for the labels of the axes.
const MARGIN: i32 = 14;
const LEFT: i32 = 82;
const BELOW: i32 = 46;

/// Half of the last label goes beyond the axis.
const RIGHT: i32 = 40;

/// What a logarithmic axis shows at least: below it, values are drawn at its foot.
const DECADES_MAX: f64 = 9.0;

/// A structure: what was measured, and what theory says.
pub(crate) struct Curve {
    pub(crate) name: String,
    /// Drawn as points, joined by a thin line where there is no other.
    pub(crate) points: Vec<(f64, f64)>,
    /// Drawn as a line.
    pub(crate) line: Vec<(f64, f64)>,
}

impl Curve {
    pub(crate) fn new(name: impl Into<String>) -> Curve {
        Curve {
            name: name.into(),
            points: Vec::new(),
            line: Vec::new(),
        }
    }
}

/// Curves over one pair of axes.
pub(crate) struct Curves<'a> {
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    /// Whether the axes are logarithmic.
    pub(crate) logarithmic: (bool, bool),
    pub(crate) curves: &'a [Curve],
}

impl Curves<'_> {
    /// # Errors
    ///
    /// When drawing fails.
    pub(crate) fn draw(&self) -> Result<String, Failure> {
        let all = || {
            self.curves
                .iter()
                .flat_map(|curve| curve.points.iter().chain(&curve.line))
        };
        let x = Axis::new(all().map(|point| point.0), self.logarithmic.0);
        let y = Axis::new(all().map(|point| point.1), self.logarithmic.1);
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
            self.axes(&root, (&x, &y))?;
            root.present().map_err(drawing)?;
        }
        Ok(svg)
    }

    fn axes(&self, root: &Canvas<'_>, (x, y): (&Axis, &Axis)) -> Result<(), Failure> {
        let mut chart = ChartBuilder::on(root)
            .margin(MARGIN)
            .margin_right(RIGHT)
            .x_label_area_size(BELOW)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(x.low..x.high, y.low..y.high)
            .map_err(drawing)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(("sans-serif", FONT).into_font().color(&INK))
            .axis_desc_style(("sans-serif", FONT).into_font().color(&INK))
            .x_desc(self.x_label.as_str())
            .y_desc(self.y_label.as_str())
            .x_label_formatter(&|place| x.label(*place))
            .y_label_formatter(&|place| y.label(*place))
            .x_labels(x.labels())
            .y_labels(y.labels())
            .draw()
            .map_err(drawing)?;
        for (curve, (_, colour)) in self.curves.iter().zip(ROLES.iter().cycle()) {
            let place = |point: &(f64, f64)| Some((x.place(point.0)?, y.place(point.1)?));
            let (line, width) = match curve.line.is_empty() {
                true => (&curve.points, 1),
                false => (&curve.line, 2),
            };
            let mut line: Vec<(f64, f64)> = line.iter().filter_map(place).collect();
            line.sort_by(|one, other| one.0.total_cmp(&other.0));
            chart
                .draw_series(LineSeries::new(line, colour.stroke_width(width)))
                .map_err(drawing)?;
            let points = curve.points.iter().filter_map(place);
            chart
                .draw_series(points.map(|point| Circle::new(point, 5, colour.filled())))
                .map_err(drawing)?;
        }
        Ok(())
    }
}

/// An axis; a logarithmic one is linear in the exponents of ten.
struct Axis {
    low: f64,
    high: f64,
    is_logarithmic: bool,
}

impl Axis {
    /// From the least to the greatest value, and from 0 where the axis is not logarithmic and no
    /// value is below.
    fn new(values: impl Iterator<Item = f64>, is_logarithmic: bool) -> Axis {
        let shown = values.filter(|value| value.is_finite() && (!is_logarithmic || *value > 0.0));
        let (mut low, mut high) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |range, value| {
            (range.0.min(value), range.1.max(value))
        });
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        if is_logarithmic {
            let high = (high.log10() - 1e-9).ceil();
            let low = (low.log10() + 1e-9)
                .floor()
                .max(high - DECADES_MAX)
                .min(high - 1.0);
            return Axis {
                low,
                high,
                is_logarithmic,
            };
        }
        let low = low.min(0.0);
        let room = (high - low).max(f64::MIN_POSITIVE) * 0.05;
        Axis {
            low: if low < 0.0 { low - room } else { low },
            high: high + room,
            is_logarithmic,
        }
    }

    /// Where a value is on the axis; `None` for what is no number.
    fn place(&self, value: f64) -> Option<f64> {
        let place = match self.is_logarithmic {
            true if value > 0.0 => value.log10(),
            true if value <= 0.0 => self.low,
            _ => value,
        };
        place.is_finite().then(|| place.clamp(self.low, self.high))
    }

    /// How many labels there should be, about.
    fn labels(&self) -> usize {
        if self.is_logarithmic {
            (self.high - self.low) as usize + 1
        } else {
            8
        }
    }

    fn label(&self, place: f64) -> String {
        if !self.is_logarithmic {
            // What is left of a sum of tenths.
            let rounded = (place * 1e6).round() / 1e6;
            return plain(rounded);
        }
        if (place - place.round()).abs() > 1e-6 {
            return String::new();
        }
        plain(10f64.powi(place.round() as i32))
    }
}

fn plain(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.001 {
        return format!("{value:e}");
    }
    if value.abs() >= 1e6 {
        return format!("{} M", value / 1e6);
    }
    if value >= 1e3 && value.fract() == 0.0 {
        return thousands(value as u64);
    }
    format!("{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_drawn_whatever_it_is() {
        let mut one = Curve::new("one");
        one.points = vec![(1.0, 0.5), (10.0, 0.0), (100.0, f64::NAN), (1e9, 1e-30)];
        one.line = vec![(1.0, 0.5), (10.0, 0.1)];
        let curves = [one, Curve::new("none")];
        for logarithmic in [(false, false), (false, true), (true, true)] {
            let (x_label, y_label) = ("x".into(), "y".into());
            let plot = Curves {
                x_label,
                y_label,
                logarithmic,
                curves: &curves,
            };
            let svg = plot.draw().unwrap();
            assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
        }
        let (x_label, y_label) = ("x".into(), "y".into());
        let empty = Curves {
            x_label,
            y_label,
            logarithmic: (true, false),
            curves: &[],
        };
        assert!(empty.draw().is_ok());
    }

    #[test]
    fn axes_hold_all_values() {
        let axis = Axis::new([0.02, 30.0].into_iter(), true);
        assert_eq!((axis.low, axis.high, axis.labels()), (-2.0, 2.0, 5));
        assert_eq!(
            (axis.label(-2.0), axis.label(2.0)),
            ("0.01".into(), "100".into())
        );
        assert_eq!((axis.place(0.0), axis.place(f64::NAN)), (Some(-2.0), None));
        let axis = Axis::new([2.0, 30.0].into_iter(), false);
        assert!(axis.low == 0.0 && axis.high > 30.0);
        assert_eq!(
            [plain(2e6), plain(20_000.0), plain(0.0)],
            ["2 M", "20,000", "0"]
        );
        assert_eq!(plain(0.000_01), "1e-5");
    }
}
