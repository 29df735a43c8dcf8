//! Orders of growth: what is promised, and what was measured.

/// An order of growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// O(1)
    Constant,
    /// O(log n)
    Logarithmic,
    /// O(n)
    Linear,
    /// O(n log n)
    Linearithmic,
}

impl Order {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Order::Constant => "O(1)",
            Order::Logarithmic => "O(log n)",
            Order::Linear => "O(n)",
            Order::Linearithmic => "O(n log n)",
        }
    }

    /// The function itself, with a factor of one.
    pub fn at(self, n: f64) -> f64 {
        match self {
            Order::Constant => 1.0,
            Order::Logarithmic => n.log2(),
            Order::Linear => n,
            Order::Linearithmic => n * n.log2(),
        }
    }

    /// What [`exponent`] makes of the function at these sizes.
    pub fn exponent(self, sizes: &[u64]) -> f64 {
        let point = |&size: &u64| (size as f64, self.at(size as f64));
        exponent(&sizes.iter().map(point).collect::<Vec<_>>())
    }
}

/// The `e` for which costs grow as `n^e`: the slope of the line of least squares through the
/// logarithms. A cost below one counts as one, as a call is at least that.
pub fn exponent(points: &[(f64, f64)]) -> f64 {
    let log = |(n, cost): &(f64, f64)| (n.ln(), cost.max(1.0).ln());
    let logs: Vec<(f64, f64)> = points.iter().map(log).collect();
    let count = logs.len() as f64;
    let mean_n = logs.iter().map(|(n, _)| n).sum::<f64>() / count;
    let mean_cost = logs.iter().map(|(_, cost)| cost).sum::<f64>() / count;
    let product = |(n, cost): &(f64, f64)| (n - mean_n) * (cost - mean_cost);
    let square = |(n, _): &(f64, f64)| (n - mean_n) * (n - mean_n);
    let slope = logs.iter().map(product).sum::<f64>() / logs.iter().map(square).sum::<f64>();
    // Not minus zero.
    if slope.abs() < 0.005 { 0.0 } else { slope }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_of_functions() {
        let sizes = [1_000, 4_000, 16_000];
        assert_eq!(Order::Constant.exponent(&sizes), 0.0);
        assert!((Order::Linear.exponent(&sizes) - 1.0).abs() < 1e-12);
        let logarithm = Order::Logarithmic.exponent(&sizes);
        // The logarithm grows from 9.97 to 13.97 while n grows 16-fold.
        let ends = (13.966_f64 / 9.966).ln() / 16_f64.ln();
        assert!((logarithm - ends).abs() < 1e-3, "{logarithm}");
        let product = Order::Linearithmic.exponent(&sizes);
        assert!((product - 1.0 - logarithm).abs() < 1e-12);
        let square: Vec<_> = (1..5)
            .map(|n| (f64::from(n), f64::from(3 * n * n)))
            .collect();
        assert!((exponent(&square) - 2.0).abs() < 1e-12);
        assert_eq!(exponent(&[(1.0, 0.0), (2.0, 0.5)]), 0.0);
    }
}
