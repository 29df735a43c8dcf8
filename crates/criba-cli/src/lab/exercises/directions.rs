//! Frequent directions beside rows that were drawn by chance: how far the covariance of a few rows is
//! from that of the whole matrix.

use crate::exit::Failure;
use crate::lab::bench::Bench;
use crate::lab::directions::Directions;
use crate::lab::matrix::{Rows, covariance, difference, dot, eigen, squares};
use crate::lab::outcome::{Axes, Outcome, Quantity, Subject};
use crate::random::SplitMix;

const ERROR: Quantity = Quantity::rate("error over |A|^2");
const OF_BEST: Quantity = Quantity::rate("error over the best bound");

/// Columns of the matrix.
const WIDTH: usize = 64;

/// Draws of rows, over which errors are averaged.
const DRAWS: u32 = 5;

pub(crate) fn run(bench: &Bench) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let rows = (bench.keys / 50).clamp(200, 2000) as usize;
    for (name, falling) in [("falling", 0.8), ("flat", 1.0)] {
        let matrix = Matrix::new(bench, rows, (name, falling));
        for length in [4, 8, 16, 32] {
            matrix.frequent(&mut outcome, length);
            matrix.drawn(bench, &mut outcome, length);
        }
    }
    outcome.plot(ERROR, "rows", Axes::Both);
    outcome.note(format!(
        "a matrix A of {rows} rows and {WIDTH} columns: each row is a random sum of {WIDTH} random \
         directions, whose lengths fall by a fifth from one to the next, or are alike; the error is \
         |A^T A - B^T B|_2 of the sketch B, over |A|_F^2"
    ));
    outcome.note(
        "expected of frequent directions is the bound 1 / l with l rows, and the best one is the least of \
         |A - A_k|_F^2 / (l - k) for all k < l; of rows drawn with a probability by the square of their \
         length it is 1 / sqrt(l), the root of the mean square (Drineas, Kannan, Mahoney 2006)",
    );
    Ok(outcome)
}

struct Matrix {
    name: &'static str,
    rows: Rows,
    covariance: Rows,
    /// Squares of the lengths of its directions.
    lengths: Vec<f64>,
    squares: f64,
}

impl Matrix {
    /// Rows that are random sums of random directions, each of which is `falling` times as long as the
    /// one before.
    fn new(bench: &Bench, rows: usize, (name, falling): (&'static str, f64)) -> Matrix {
        let mut random = bench.random(WIDTH as u64);
        let directions: Rows = (0..WIDTH)
            .map(|place| {
                let one: Vec<f64> = (0..WIDTH).map(|_| normal(&mut random)).collect();
                let length = falling.powi(place as i32) / dot(&one, &one).sqrt();
                one.iter().map(|value| value * length).collect()
            })
            .collect();
        let mut row = || {
            let mut row = vec![0.0; WIDTH];
            for direction in &directions {
                let weight = normal(&mut random);
                for (sum, value) in row.iter_mut().zip(direction) {
                    *sum += weight * value;
                }
            }
            row
        };
        let rows: Rows = (0..rows).map(|_| row()).collect();
        let covariance = covariance(&rows, WIDTH);
        Matrix {
            name,
            squares: squares(&rows),
            lengths: eigen(covariance.clone()).values,
            rows,
            covariance,
        }
    }

    fn subject(&self, name: &str, length: usize) -> Subject {
        Subject::new(format!("{name}, {}", self.name)).with("rows", length as u64)
    }

    /// The error of a sketch, as a share of the squares of the matrix.
    fn error(&self, sketch: &Rows) -> f64 {
        let off = eigen(difference(&self.covariance, &covariance(sketch, WIDTH))).values;
        off.iter().fold(0.0_f64, |most, one| most.max(one.abs())) / self.squares
    }

    /// The least bound over all `k`, as a share of the squares of the matrix.
    fn best_bound(&self, length: usize) -> f64 {
        let bound = |k: usize| self.lengths[k..].iter().sum::<f64>() / (length - k) as f64;
        (0..length).map(bound).fold(f64::INFINITY, f64::min) / self.squares
    }

    fn frequent(&self, outcome: &mut Outcome, length: usize) {
        let sketch = |rows: &[Vec<f64>]| {
            let mut sketch = Directions::new(length);
            rows.iter().for_each(|row| sketch.insert(row.clone()));
            sketch
        };
        let (first, second) = self.rows.split_at(self.rows.len() / 2);
        let mut merged = sketch(first);
        merged.merge(sketch(second));
        for (name, found) in [("frequent", sketch(&self.rows)), ("two merged", merged)] {
            let error = self.error(&found.finish());
            let subject = self.subject(name, length);
            outcome.at_most(&subject, ERROR, (1.0 / length as f64, error));
            let of_best = error / self.best_bound(length);
            outcome.at_most(&subject, OF_BEST, (1.0, of_best));
        }
    }

    /// Rows drawn with a probability by the square of their length, each as long as if all that it
    /// stands for had its direction.
    fn drawn(&self, bench: &Bench, outcome: &mut Outcome, length: usize) {
        let mut sum = 0.0;
        let sums: Vec<f64> = self
            .rows
            .iter()
            .map(|row| {
                sum += dot(row, row);
                sum
            })
            .collect();
        let mut random = bench.random(length as u64);
        let mut mean = 0.0;
        for _ in 0..DRAWS {
            let mut draw = || {
                let place = unit(&mut random) * self.squares;
                let place = sums.partition_point(|below| *below <= place);
                let row = &self.rows[place.min(self.rows.len() - 1)];
                let scale = (self.squares / (length as f64 * dot(row, row))).sqrt();
                row.iter().map(|value| value * scale).collect()
            };
            let sketch: Rows = (0..length).map(|_| draw()).collect();
            mean += self.error(&sketch).powi(2) / f64::from(DRAWS);
        }
        let expected = (length as f64).sqrt().recip();
        let subject = self.subject("drawn", length);
        let bounds = (0.0, 1.5 * expected);
        outcome.compared(&subject, ERROR, (expected, mean.sqrt()), bounds);
    }
}

/// At least 0 and less than 1.
fn unit(random: &mut SplitMix) -> f64 {
    (random.next() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number with a standard normal distribution (Box, Muller 1958).
fn normal(random: &mut SplitMix) -> f64 {
    let radius = (-2.0 * (1.0 - unit(random)).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit(random)).cos()
}
