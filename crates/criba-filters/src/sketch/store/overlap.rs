//! How many keys two sets have in common, by maximum likelihood.
//!
//! Model (Ertl 2017, section 4): the ranks of a register are those of independent Poisson numbers
//! of keys that are only in the one set, only in the other, or in both. The sizes `a` and `b` of
//! the sets are given, so one number is unknown: `x`, the keys in both. With `e = 2^-k / 4096`
//!
//! - a register with the ranks `i < k` has the second from a key that is only in the other set:
//!   up to a factor without `x`, probability `g(b - x)`, where `g(n) = exp(-n e) (1 - exp(-n e))`,
//!   and `g(a - x)` the other way round;
//! - one with the rank `k` twice: `u (u + 1 - exp(-a e) - exp(-b e))`, `u = exp(-(a + b - x) e)`;
//! - one with the rank 0 twice: `u` for `e = 1 / 4096`.
//!
//! So three histograms of ranks tell all there is to know about `x`.

use super::{KeySketch, RANK_MAX, REGISTERS};

/// Ranks that are told apart; the greatest never occurs below 2^50 keys.
const RANKS: usize = RANK_MAX as usize;

/// Steps of the search for the maximum: each leaves 0.618 of the interval, all together 1 / 40,000,
/// a small part of the error.
const STEPS: u32 = 22;

/// How many keys two sets of so many keys have in common: at most the smaller number.
pub(super) fn common((left, a): (&KeySketch, f64), (right, b): (&KeySketch, f64)) -> f64 {
    let most = a.min(b);
    if most <= 0.0 || left.is_empty() || right.is_empty() {
        return 0.0;
    }
    let registers = Compared::new(left, right);
    let (mut low, mut high) = (0.0, most);
    let shrink = (5_f64.sqrt() - 1.0) / 2.0;
    let mut inner = high - shrink * (high - low);
    let mut outer = low + shrink * (high - low);
    let mut at_inner = registers.log_likelihood(a, b, inner);
    let mut at_outer = registers.log_likelihood(a, b, outer);
    for _ in 0..STEPS {
        if at_inner >= at_outer {
            (high, outer, at_outer) = (outer, inner, at_inner);
            inner = high - shrink * (high - low);
            at_inner = registers.log_likelihood(a, b, inner);
        } else {
            (low, inner, at_inner) = (inner, outer, at_outer);
            outer = low + shrink * (high - low);
            at_outer = registers.log_likelihood(a, b, outer);
        }
    }
    f64::midpoint(low, high)
}

/// The registers of two sketches, compared.
struct Compared {
    /// By rank, of those where the right one is greater: the rank of the right one.
    right: [u32; RANKS],
    /// Of those where the left one is greater.
    left: [u32; RANKS],
    equal: [u32; RANKS],
}

impl Compared {
    fn new(left: &KeySketch, right: &KeySketch) -> Compared {
        let mut compared = Compared {
            right: [0; RANKS],
            left: [0; RANKS],
            equal: [0; RANKS],
        };
        for (left, right) in left.dense().iter().zip(right.dense().iter()) {
            let counts = match left.cmp(right) {
                std::cmp::Ordering::Less => &mut compared.right,
                std::cmp::Ordering::Greater => &mut compared.left,
                std::cmp::Ordering::Equal => &mut compared.equal,
            };
            let rank = usize::from(*left.max(right)).min(RANKS - 1);
            counts[rank] += 1;
        }
        compared
    }

    fn log_likelihood(&self, a: f64, b: f64, x: f64) -> f64 {
        let e = 1.0 / REGISTERS as f64;
        let mut sum = -f64::from(self.equal[0]) * (a + b - x) * e;
        for rank in 1..RANKS {
            let e = e * (-(rank as f64)).exp2();
            let add = |count: u32, log: &dyn Fn() -> f64| match count {
                0 => 0.0,
                count => f64::from(count) * log(),
            };
            let single = |n: f64| -n * e + logarithm(-(-n * e).exp_m1());
            sum += add(self.right[rank], &|| single(b - x));
            sum += add(self.left[rank], &|| single(a - x));
            sum += add(self.equal[rank], &|| {
                let chance = (-a * e).exp_m1() * (-b * e).exp_m1();
                // exp(-(a + b - x) e) - exp(-(a + b) e), without cancellation or overflow.
                let shared = -(-(a + b - x) * e).exp() * (-x * e).exp_m1();
                -(a + b - x) * e + logarithm(chance + shared)
            });
        }
        sum
    }
}

/// What is impossible by the model has some probability all the same: the sizes may be guesses.
fn logarithm(probability: f64) -> f64 {
    probability.max(f64::MIN_POSITIVE).ln()
}
