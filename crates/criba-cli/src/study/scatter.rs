//! Points on two axes: what an absent lookup reads against what the filter takes.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::row::{Row, per};
use crate::exit::Failure;
use crate::plot::{BLOOM, BLOOMIER, Canvas, FONT, GRID, INK, NONE, WIDTH, drawing, text_style};
use crate::theory::{blocked_bloom_rate, bloomier_rate};

const HEIGHT: u32 = 440;

/// Mean width of a letter, in pixels.
const LETTER_WIDTH: i32 = 7;

/// Room around the points, in pixels: all around, and for the labels of the axes.
const MARGIN: i32 = 14;
const LEFT: i32 = MARGIN + 74;
const BELOW: i32 = MARGIN + 46;

/// Data blocks read by an absent lookup against bits per key: measured points beside the curves of
/// theory. Filter pages are left out, as theory knows nothing of them.
///
/// # Errors
///
/// When drawing fails.
pub(crate) fn reads_against_bits(rows: &[Row]) -> Result<String, Failure> {
    let points: Vec<Point> = rows.iter().map(Point::new).collect();
    let scale = Scale::new(rows, &points);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(MARGIN)
            .x_label_area_size(BELOW - MARGIN)
            .y_label_area_size(LEFT - MARGIN)
            .build_cartesian_2d(0.0..scale.bits_max, (scale.low..scale.high).log_scale())
            .map_err(drawing)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(("sans-serif", FONT).into_font().color(&INK))
            .axis_desc_style(("sans-serif", FONT).into_font().color(&INK))
            .x_desc("filter memory, bits per key")
            .y_desc("data blocks read per absent lookup")
            .x_label_formatter(&|bits| format!("{bits:.0}"))
            .y_label_formatter(&|reads| power(*reads))
            .y_labels(scale.decades + 1)
            .draw()
            .map_err(drawing)?;
        for (curve, colour) in [
            (blocked_bloom_rate as Curve, BLOOM),
            (bloomier_rate, BLOOMIER),
        ] {
            let line = scale.line(curve);
            chart
                .draw_series(LineSeries::new(line, colour.stroke_width(2)))
                .map_err(drawing)?;
        }
        let area = chart.plotting_area();
        let places = points
            .iter()
            .map(|point| area.map_coordinate(&(point.bits, point.reads.max(scale.low))));
        draw_points(&root, &points, &places.collect::<Vec<_>>())?;
        root.present().map_err(drawing)?;
    }
    Ok(svg)
}

type Curve = fn(f64) -> f64;

/// A measured point.
struct Point {
    bits: f64,
    reads: f64,
    label: String,
    colour: RGBColor,
}

impl Point {
    fn new(row: &Row) -> Point {
        let reads = per(row.counts.absent.data.calls, row.counts.absent.lookups);
        let label = if reads == 0.0 {
            format!("{} (no read)", row.setting)
        } else {
            row.setting.clone()
        };
        Point {
            bits: row.bits_per_key(),
            reads,
            label,
            colour: family(row),
        }
    }
}

/// The ranges of the axes.
struct Scale {
    bits_max: f64,
    low: f64,
    high: f64,
    decades: usize,
    /// Runs that an absent lookup asks, measured: what the rates of theory are multiplied by.
    probes: f64,
}

impl Scale {
    fn new(rows: &[Row], points: &[Point]) -> Scale {
        let bits = points.iter().map(|point| point.bits).fold(16.0, f64::max);
        let probes = rows
            .iter()
            .map(|row| per(row.counts.absent.probes, row.counts.absent.lookups))
            .fold(1.0, f64::max);
        let seen = points
            .iter()
            .map(|point| point.reads)
            .filter(|&reads| reads > 0.0);
        let lowest = seen.clone().fold(1e-3, f64::min);
        let highest = seen.fold(probes, f64::max);
        let bottom = (lowest / 2.0).log10().floor();
        let top = highest.log10().ceil().max(bottom + 1.0);
        Scale {
            bits_max: (bits * 1.12 / 4.0).ceil() * 4.0,
            low: 10f64.powf(bottom),
            high: 10f64.powf(top),
            decades: (top - bottom) as usize,
            probes,
        }
    }

    fn line(&self, rate: Curve) -> Vec<(f64, f64)> {
        let steps = 40;
        (0..=steps)
            .map(|step| self.bits_max * f64::from(step) / f64::from(steps))
            .map(|bits| (bits, rate(bits) * self.probes))
            .filter(|&(_, reads)| (self.low..=self.high).contains(&reads))
            .collect()
    }
}

fn power(value: f64) -> String {
    if value >= 0.001 {
        format!("{value}")
    } else {
        format!("{value:e}")
    }
}

/// Points and their names. A name stands right of its point, or left, above or below where that
/// would cover something.
fn draw_points(root: &Canvas<'_>, points: &[Point], places: &[(i32, i32)]) -> Result<(), Failure> {
    let mut taken: Vec<Frame> = places
        .iter()
        .map(|&(x, y)| Frame::around(x, y, 7, 7))
        .collect();
    for (point, &(x, y)) in points.iter().zip(places) {
        root.draw(&Circle::new((x, y), 6, point.colour.filled()))
            .map_err(drawing)?;
        let half = point.label.len() as i32 * LETTER_WIDTH / 2;
        let (right, left) = (x + 12, x - 12);
        let mut tries = vec![(right, y, HPos::Left), (left, y, HPos::Right)];
        for lines in 1..8 {
            tries.push((x, y - 20 * lines, HPos::Center));
            tries.push((right, y + 20 * lines, HPos::Left));
        }
        let frame = |&(x, y, anchor): &(i32, i32, HPos)| match anchor {
            HPos::Left => Frame::around(x + half, y, half, FONT / 2),
            HPos::Right => Frame::around(x - half, y, half, FONT / 2),
            HPos::Center => Frame::around(x, y, half, FONT / 2),
        };
        let fits = |place: &(i32, i32, HPos)| {
            let frame = frame(place);
            frame.is_inside() && !taken.iter().any(|other| frame.meets(other))
        };
        let place = tries.iter().copied().find(fits).unwrap_or(tries[0]);
        taken.push(frame(&place));
        let (x, y, anchor) = place;
        root.draw(&Text::new(point.label.clone(), (x, y), text_style(anchor)))
            .map_err(drawing)?;
    }
    Ok(())
}

/// A rectangle of pixels.
#[derive(Clone, Copy)]
struct Frame {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl Frame {
    fn around(x: i32, y: i32, width: i32, height: i32) -> Frame {
        Frame {
            left: x - width,
            right: x + width,
            top: y - height,
            bottom: y + height,
        }
    }

    fn meets(&self, other: &Frame) -> bool {
        let across = self.left < other.right && other.left < self.right;
        across && self.top < other.bottom && other.top < self.bottom
    }

    /// Whether it lies within the axes.
    fn is_inside(&self) -> bool {
        let across = self.left > LEFT && self.right < WIDTH as i32 - MARGIN;
        across && self.top > MARGIN && self.bottom < HEIGHT as i32 - BELOW
    }
}

fn family(row: &Row) -> RGBColor {
    match row.choice.policy() {
        criba::FilterPolicy::Bloom { .. } => BLOOM,
        criba::FilterPolicy::Bloomier(_) => BLOOMIER,
        _ => NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::row::tests::example;

    #[test]
    fn every_setting_is_drawn_by_name() {
        let rows = [
            example("none", 4000),
            example("bloom:10", 40),
            example("bloomier:slot", 0),
        ];
        let svg = reads_against_bits(&rows).unwrap();
        for name in ["none", "bloom:10", "bloomier:slot (no read)"] {
            assert!(svg.contains(name), "{name}");
        }
        assert_eq!(svg.matches("<circle").count(), 3);
        // The curves of theory.
        for colour in ["#D96B0C", "#1F6FC4"] {
            let curve = |line: &&str| line.contains("<polyline") && line.contains(colour);
            assert_eq!(svg.lines().filter(curve).count(), 1, "{svg}");
        }
    }
}
