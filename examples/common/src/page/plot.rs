//! Lines and dots on two axes, as SVG. The style sheet of the page knows the colours.

use std::fmt::{self, Write as _};

use super::html::Html;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 64.0;
/// Half of the last label, in the larger letters of a narrow page.
const RIGHT: f64 = 32.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 48.0;
const GRID: &str = "#DDDDDD";
const NONE: &str = "#777777";

/// A series of values with its meaning; colours are those of the style sheet.
#[derive(Debug)]
pub struct Line {
    /// `first`, `second`, `none`, `third` or `fourth`: its colour.
    pub class: &'static str,
    /// Its name in the legend.
    pub name: String,
    /// Places on the horizontal axis, each with a value that is not negative. A logarithmic axis
    /// leaves out values that are not above zero.
    pub points: Vec<(f64, f64)>,
    /// How the points are drawn.
    pub mark: Mark,
}

/// How the points of a [`Line`] are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Joined by a line.
    Line,
    /// Each by itself: what was measured, beside a line of what theory says.
    Dots,
}

impl Line {
    /// Points joined by a line.
    pub fn new(class: &'static str, name: impl Into<String>, points: Vec<(f64, f64)>) -> Line {
        Line {
            class,
            name: name.into(),
            points,
            mark: Mark::Line,
        }
    }

    /// Points each by itself.
    pub fn dots(class: &'static str, name: impl Into<String>, points: Vec<(f64, f64)>) -> Line {
        Line {
            mark: Mark::Dots,
            ..Line::new(class, name, points)
        }
    }

    fn colour(&self) -> &'static str {
        match self.class {
            "first" => "#D96B0C",
            "second" => "#1F6FC4",
            "third" => "#2E8B57",
            "fourth" => "#8E44AD",
            _ => NONE,
        }
    }

    fn draw(&self, svg: &mut String, (across, up): (&Axis, &Axis)) -> fmt::Result {
        let colour = self.colour();
        let shown = |point: &&(f64, f64)| across.shows(point.0) && up.shows(point.1);
        let place = |&(x, y): &(f64, f64)| (LEFT + across.place(x), HEIGHT - BOTTOM - up.place(y));
        let points = self.points.iter().filter(shown).map(place);
        if self.mark == Mark::Dots {
            for (x, y) in points {
                writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>"
                )?;
            }
            return Ok(());
        }
        let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-linejoin=\"round\" points=\"{}\"/>",
            points.join(" "),
        )
    }
}

/// How values lie along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// From zero, in equal steps.
    Linear,
    /// By powers of ten.
    Logarithmic,
}

/// A plot with its title above and its legend below.
#[derive(Debug)]
pub struct Figure<'a> {
    /// What the values are: the text above the plot.
    pub title: &'a str,
    /// The text below the horizontal axis.
    pub across: &'a str,
    /// The scale of the horizontal axis and of the vertical one.
    pub scales: (Scale, Scale),
    /// What is drawn.
    pub lines: &'a [Line],
}

/// A figure on linear axes.
pub fn figure(title: &str, across: &str, lines: &[Line]) -> String {
    let scales = (Scale::Linear, Scale::Linear);
    Figure {
        title,
        across,
        scales,
        lines,
    }
    .draw()
}

impl Figure<'_> {
    /// The markup of the figure.
    pub fn draw(&self) -> String {
        let mut svg = String::new();
        // Writing to a string cannot fail.
        self.svg(&mut svg).unwrap_or_default();
        let keys = self.lines.iter().fold(String::new(), |keys, line| {
            let name = Html(&line.name);
            format!("{keys}<span class=\"key {}\">{name}</span>\n", line.class)
        });
        format!(
            "<figure>\n<figcaption>{title}</figcaption>\n{svg}<div>{keys}</div>\n</figure>\n",
            title = Html(self.title),
        )
    }

    fn svg(&self, svg: &mut String) -> fmt::Result {
        let values = |value: fn(&(f64, f64)) -> f64| {
            let all = self.lines.iter().flat_map(|line| &line.points);
            all.map(value).collect::<Vec<f64>>()
        };
        let across = Axis::new(
            self.scales.0,
            &values(|point| point.0),
            WIDTH - LEFT - RIGHT,
        );
        let up = Axis::new(
            self.scales.1,
            &values(|point| point.1),
            HEIGHT - TOP - BOTTOM,
        );
        let floor = HEIGHT - BOTTOM;
        writeln!(
            svg,
            "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"12\">",
            Html(self.title)
        )?;
        for value in up.ticks() {
            let y = floor - up.place(value);
            writeln!(
                svg,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"{GRID}\"/>\n\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{NONE}\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0,
                up.label(value),
            )?;
        }
        for value in across.ticks() {
            writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{NONE}\">{}</text>",
                LEFT + across.place(value),
                floor + 20.0,
                across.label(value),
            )?;
        }
        writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{NONE}\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 6.0,
            Html(self.across),
        )?;
        for line in self.lines {
            line.draw(svg, (&across, &up))?;
        }
        writeln!(svg, "</svg>")
    }
}

/// Where values lie, in pixels from its beginning.
enum Axis {
    /// From zero to the first round number that is not below the greatest value.
    Linear { step: f64, steps: u32, length: f64 },
    /// From a power of ten to another one: their exponents, and how many of them have a label.
    Logarithmic {
        low: i32,
        high: i32,
        every: usize,
        length: f64,
    },
}

/// Labels of a logarithmic axis at most.
const LABELS_MAX: i32 = 6;

impl Axis {
    fn new(scale: Scale, values: &[f64], length: f64) -> Self {
        if scale == Scale::Logarithmic {
            let positive = || values.iter().copied().filter(|&x| x.is_finite() && x > 0.0);
            let least = positive().fold(f64::INFINITY, f64::min);
            let greatest = positive().fold(0.0, f64::max);
            if greatest > 0.0 {
                let low = (least.log10() + 1e-9).floor() as i32;
                let high = ((greatest.log10() - 1e-9).ceil() as i32).max(low + 1);
                let every = ((high - low) / LABELS_MAX + 1) as usize;
                return Axis::Logarithmic {
                    low,
                    high,
                    every,
                    length,
                };
            }
        }
        let greatest = values.iter().copied().fold(0.0, f64::max);
        let greatest = if greatest.is_finite() && greatest > 0.0 {
            greatest
        } else {
            1.0
        };
        let power = 10_f64.powf((greatest / 5.0).log10().floor());
        let is_enough = |factor: &f64| factor * power * 5.0 >= greatest * (1.0 - 1e-9);
        let factor = [1.0, 2.0, 5.0].into_iter().find(is_enough).unwrap_or(10.0);
        let step = factor * power;
        let steps = (1..=5).find(|&steps| step * f64::from(steps) >= greatest * (1.0 - 1e-9));
        Axis::Linear {
            step,
            steps: steps.unwrap_or(5),
            length,
        }
    }

    fn shows(&self, value: f64) -> bool {
        match self {
            Axis::Linear { .. } => value.is_finite(),
            Axis::Logarithmic { .. } => value.is_finite() && value > 0.0,
        }
    }

    fn place(&self, value: f64) -> f64 {
        match *self {
            Axis::Linear {
                step,
                steps,
                length,
            } => value / (step * f64::from(steps)) * length,
            Axis::Logarithmic {
                low, high, length, ..
            } => (value.log10() - f64::from(low)) / f64::from(high - low) * length,
        }
    }

    fn ticks(&self) -> Vec<f64> {
        match *self {
            Axis::Linear { step, steps, .. } => {
                (0..=steps).map(|number| step * f64::from(number)).collect()
            }
            Axis::Logarithmic {
                low, high, every, ..
            } => (low..=high)
                .step_by(every)
                .map(|power| 10_f64.powi(power))
                .collect(),
        }
    }

    /// As many digits as tell the steps apart.
    fn label(&self, value: f64) -> String {
        let greatest = match *self {
            Axis::Linear { step, steps, .. } => step * f64::from(steps),
            Axis::Logarithmic { .. } if value < 1e-4 => return format!("1e{:.0}", value.log10()),
            Axis::Logarithmic { .. } => value * 3.0,
        };
        let (value, unit) = match greatest {
            _ if value == 0.0 => (0.0, ""),
            greatest if greatest >= 2e9 => (value / 1e9, " G"),
            greatest if greatest >= 2e6 => (value / 1e6, " M"),
            greatest if greatest >= 2e4 => (value / 1e3, " k"),
            _ => (value, ""),
        };
        let plain = format!("{value:.6}");
        let plain = plain.trim_end_matches('0').trim_end_matches('.');
        format!("{plain}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        fn check(greatest: f64, labels: &str) {
            let axis = Axis::new(Scale::Linear, &[greatest], 100.0);
            let labels_of = |value: &f64| axis.label(*value);
            let found: Vec<String> = axis.ticks().iter().map(labels_of).collect();
            assert_eq!(found.join(" "), labels, "{greatest}");
            assert!(axis.place(greatest) <= 100.0 + 1e-6 || greatest.is_nan());
        }
        check(0.0, "0 0.2 0.4 0.6 0.8 1");
        check(f64::NAN, "0 0.2 0.4 0.6 0.8 1");
        check(5.0, "0 1 2 3 4 5");
        check(5.1, "0 2 4 6");
        check(0.03, "0 0.01 0.02 0.03");
        check(12_000.0, "0 5000 10000 15000");
        check(48_000.0, "0 10 k 20 k 30 k 40 k 50 k");
        check(2_100_000.0, "0 0.5 M 1 M 1.5 M 2 M 2.5 M");
    }

    #[test]
    fn logarithmic_axes_end_at_powers_of_ten() {
        fn check(values: &[f64], labels: &str) {
            let axis = Axis::new(Scale::Logarithmic, values, 100.0);
            let labels_of = |value: &f64| axis.label(*value);
            let found: Vec<String> = axis.ticks().iter().map(labels_of).collect();
            assert_eq!(found.join(" "), labels, "{values:?}");
        }
        check(&[0.0, 0.02, 3.0], "0.01 0.1 1 10");
        check(&[1.0, 1_000_000.0], "1 100 10 k 1 M");
        check(&[100.0], "100 1000");
        check(&[1e-6, 0.5], "1e-6 0.0001 0.01 1");
        check(&[0.0], "0 0.2 0.4 0.6 0.8 1");
        let axis = Axis::new(Scale::Logarithmic, &[1.0, 100.0], 100.0);
        assert!(!axis.shows(0.0) && axis.shows(10.0));
        assert!((axis.place(10.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn a_measured_zero_is_no_dot_on_a_logarithmic_axis() {
        let lines = [Line::dots("first", "dots", vec![(1.0, 0.0), (10.0, 0.5)])];
        let figure = Figure {
            title: "rate",
            across: "keys",
            scales: (Scale::Logarithmic, Scale::Logarithmic),
            lines: &lines,
        };
        assert_eq!(figure.draw().matches("<circle").count(), 1);
    }

    #[test]
    fn each_colour_follows_the_style_sheet() {
        let style = include_str!("style.css");
        for class in ["first", "second", "third", "fourth"] {
            let colour = Line::new(class, "", Vec::new()).colour();
            for attribute in ["stroke", "fill"] {
                let rule =
                    format!("svg [{attribute}=\"{colour}\"] {{ {attribute}: var(--{class}); }}");
                assert!(style.contains(&rule), "{rule}");
            }
        }
    }

    #[test]
    fn nothing_to_draw_is_drawn() {
        let line = Line::new("first", "<none>", Vec::new());
        let figure = figure("a < b", "s", &[line]);
        assert!(figure.contains("a &lt; b") && figure.contains("&lt;none&gt;"));
        assert!(!figure.contains("NaN"));
    }
}
