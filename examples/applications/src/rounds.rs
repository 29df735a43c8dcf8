//! How many calls a second: the median of many short rounds, and how far they differ.
//!
//! A round of about a millisecond mostly runs without a pause, also where other programs share the
//! processor. So the median is that of undisturbed rounds.

use std::time::Instant;

/// Calls a second, by rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rounds {
    /// The median.
    pub median: f64,
    /// What nine of ten rounds exceed.
    pub low: f64,
    /// What one of ten rounds exceeds.
    pub high: f64,
}

impl Rounds {
    /// Measures a call for each item, in rounds of `each` items.
    pub fn of<T>(items: &[T], each: usize, mut round: impl FnMut(&[T])) -> Rounds {
        let measure = |some: &[T]| {
            let start = Instant::now();
            round(some);
            some.len() as f64 / start.elapsed().as_secs_f64().max(1e-9)
        };
        let mut rates: Vec<f64> = items.chunks(each.max(1)).map(measure).collect();
        rates.sort_by(f64::total_cmp);
        let at = |tenth: usize| rates.get(rates.len() * tenth / 10).copied().unwrap_or(0.0);
        Rounds {
            median: at(5),
            low: at(1),
            high: at(9),
        }
    }

    /// The spread in millions a second, as text.
    pub fn spread(&self) -> String {
        format!("{:.1} to {:.1}", self.low / 1e6, self.high / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rounds_are_made() {
        let (mut rounds, mut calls) = (0, 0);
        let rates = Rounds::of(&[0; 95], 10, |some| {
            rounds += 1;
            calls += some.len();
        });
        assert_eq!((rounds, calls), (10, 95));
        assert!(rates.low <= rates.median && rates.median <= rates.high);
        let none = Rounds::of(&[0; 0], 10, |_| rounds += 1);
        assert_eq!((rounds, none.median), (10, 0.0));
    }
}
