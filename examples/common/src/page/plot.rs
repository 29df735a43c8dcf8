//! Lines over time or work, as SVG. The style sheet of the page knows the colours.

use std::fmt::Write as _;

use super::html::Html;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 48.0;
const GRID: &str = "#DDDDDD";
const NONE: &str = "#777777";

/// A line with its meaning; colours are those of the style sheet.
#[derive(Debug)]
pub struct Line {
    /// `first`, `second`, `none`, `third` or `fourth`: its colour.
    pub class: &'static str,
    /// Its name in the legend.
    pub name: &'static str,
    /// Places on the horizontal axis, each with a value that is not negative.
    pub points: Vec<(f64, f64)>,
}

impl Line {
    fn colour(&self) -> &'static str {
        match self.class {
            "first" => "#D96B0C",
            "second" => "#1F6FC4",
            "third" => "#2E8B57",
            "fourth" => "#8E44AD",
            _ => NONE,
        }
    }
}

/// A figure with its title above and its legend below.
pub fn figure(title: &str, unit: &str, lines: &[Line]) -> String {
    let keys = lines.iter().fold(String::new(), |mut keys, line| {
        // Writing to a string cannot fail.
        writeln!(
            keys,
            "<span class=\"key {}\">{}</span>",
            line.class,
            Html(line.name)
        )
        .unwrap_or_default();
        keys
    });
    format!(
        "<figure>\n<figcaption>{title}</figcaption>\n{svg}<div>{keys}</div>\n</figure>\n",
        title = Html(title),
        svg = svg(title, unit, lines),
    )
}

fn svg(title: &str, unit: &str, lines: &[Line]) -> String {
    let greatest = |value: fn(&(f64, f64)) -> f64| {
        let all = lines.iter().flat_map(|line| &line.points).map(value);
        all.fold(0.0, f64::max)
    };
    let across = Axis::new(greatest(|point| point.0), WIDTH - LEFT - RIGHT);
    let up = Axis::new(greatest(|point| point.1), HEIGHT - TOP - BOTTOM);
    let floor = HEIGHT - BOTTOM;
    let mut svg = format!(
        "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"12\">\n",
        Html(title)
    );
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
        )
        .unwrap_or_default();
    }
    for value in across.ticks() {
        writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{NONE}\">{}</text>",
            LEFT + across.place(value),
            floor + 20.0,
            across.label(value),
        )
        .unwrap_or_default();
    }
    writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{NONE}\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 6.0,
        Html(unit),
    )
    .unwrap_or_default();
    for line in lines {
        let place = |&(x, y): &(f64, f64)| {
            format!("{:.1},{:.1}", LEFT + across.place(x), floor - up.place(y))
        };
        let points: Vec<String> = line.points.iter().map(place).collect();
        writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-linejoin=\"round\" \
             points=\"{}\"/>",
            line.colour(),
            points.join(" "),
        )
        .unwrap_or_default();
    }
    svg.push_str("</svg>\n");
    svg
}

/// From zero to the first round number that is not below the greatest value.
struct Axis {
    step: f64,
    steps: u32,
    length: f64,
}

impl Axis {
    fn new(greatest: f64, length: f64) -> Self {
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
        Self {
            step,
            steps: steps.unwrap_or(5),
            length,
        }
    }

    fn place(&self, value: f64) -> f64 {
        value / (self.step * f64::from(self.steps)) * self.length
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let step = self.step;
        (0..=self.steps).map(move |number| step * f64::from(number))
    }

    /// As many digits as tell the steps apart.
    fn label(&self, value: f64) -> String {
        if value == 0.0 {
            return "0".into();
        }
        let (value, unit) = match self.step * f64::from(self.steps) {
            greatest if greatest >= 2e9 => (value / 1e9, " G"),
            greatest if greatest >= 2e6 => (value / 1e6, " M"),
            greatest if greatest >= 2e4 => (value / 1e3, " k"),
            _ => (value, ""),
        };
        let plain = format!("{value:.6}");
        format!(
            "{}{unit}",
            plain.trim_end_matches('0').trim_end_matches('.')
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        fn check(greatest: f64, labels: &str) {
            let axis = Axis::new(greatest, 100.0);
            let found: Vec<String> = axis.ticks().map(|value| axis.label(value)).collect();
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
    fn nothing_to_draw_is_drawn() {
        let line = Line {
            class: "first",
            name: "<none>",
            points: Vec::new(),
        };
        let figure = figure("a < b", "s", &[line]);
        assert!(figure.contains("a &lt; b") && figure.contains("&lt;none&gt;"));
        assert!(!figure.contains("NaN"));
    }
}
