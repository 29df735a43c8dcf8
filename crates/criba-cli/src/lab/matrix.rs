//! Small dense matrices: as much of them as frequent directions need.

/// Rows of numbers, all of one length.
pub(super) type Rows = Vec<Vec<f64>>;

/// Eigenvalues of a symmetric matrix, the greatest first, each with its eigenvector of length 1.
pub(super) struct Eigen {
    pub(super) values: Vec<f64>,
    pub(super) vectors: Rows,
}

/// Sweeps after which the method of Jacobi has long converged: it doubles the digits with each.
const SWEEPS_MAX: usize = 60;

pub(super) fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// The products of all rows with each other: `B B^T`.
pub(super) fn products(rows: &Rows) -> Rows {
    let with = |one: &Vec<f64>| rows.iter().map(|other| dot(one, other)).collect();
    rows.iter().map(with).collect()
}

/// The sum of the squares of all numbers.
pub(super) fn squares(rows: &Rows) -> f64 {
    rows.iter().map(|row| dot(row, row)).sum()
}

/// The covariance of rows: `B^T B`, with `width` columns.
pub(super) fn covariance(rows: &Rows, width: usize) -> Rows {
    let mut sums = vec![vec![0.0; width]; width];
    for row in rows {
        for (sum, factor) in sums.iter_mut().zip(row) {
            for (sum, value) in sum.iter_mut().zip(row) {
                *sum += factor * value;
            }
        }
    }
    sums
}

/// One matrix less another.
pub(super) fn difference(one: &Rows, other: &Rows) -> Rows {
    let pairs = one.iter().zip(other);
    let less = |(one, other): (&Vec<f64>, &Vec<f64>)| {
        let pairs = one.iter().zip(other);
        pairs.map(|(one, other)| one - other).collect()
    };
    pairs.map(less).collect()
}

/// The eigenvalues and eigenvectors of a symmetric matrix by rotations that clear one pair of places
/// after the other (Jacobi 1846; Golub, Van Loan, "Matrix computations", section 8.5).
pub(super) fn eigen(mut matrix: Rows) -> Eigen {
    let size = matrix.len();
    let mut vectors = identity(size);
    let all = squares(&matrix);
    for _ in 0..SWEEPS_MAX {
        let off: f64 = (0..size)
            .flat_map(|row| (0..row).map(move |column| (row, column)))
            .map(|(row, column)| matrix[row][column].powi(2))
            .sum();
        if off <= all * f64::EPSILON.powi(2) {
            break;
        }
        for row in 1..size {
            for column in 0..row {
                rotate(&mut matrix, &mut vectors, (column, row));
            }
        }
    }
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by(|one, other| matrix[*other][*other].total_cmp(&matrix[*one][*one]));
    Eigen {
        values: order.iter().map(|place| matrix[*place][*place]).collect(),
        vectors: order.iter().map(|place| vectors[*place].clone()).collect(),
    }
}

fn identity(size: usize) -> Rows {
    let row = |place| {
        let mut row = vec![0.0; size];
        row[place] = 1.0;
        row
    };
    (0..size).map(row).collect()
}

/// Clears the places of a pair; the rows of `vectors` turn with it.
fn rotate(matrix: &mut Rows, vectors: &mut Rows, (first, second): (usize, usize)) {
    let off = matrix[first][second];
    if off == 0.0 {
        return;
    }
    let theta = (matrix[second][second] - matrix[first][first]) / (2.0 * off);
    let tangent = theta.signum() / (theta.abs() + theta.hypot(1.0));
    let cosine = tangent.hypot(1.0).recip();
    let sine = tangent * cosine;
    for row in matrix.iter_mut() {
        let (one, other) = (row[first], row[second]);
        row[first] = cosine * one - sine * other;
        row[second] = sine * one + cosine * other;
    }
    for rows in [matrix, vectors] {
        let (head, tail) = rows.split_at_mut(second);
        for (one, other) in head[first].iter_mut().zip(&mut tail[0]) {
            (*one, *other) = (cosine * *one - sine * *other, sine * *one + cosine * *other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix;

    #[test]
    fn eigenvalues_are_those_known_by_hand() {
        let found = eigen(vec![vec![2.0, 1.0], vec![1.0, 2.0]]);
        assert!((found.values[0] - 3.0).abs() < 1e-14 && (found.values[1] - 1.0).abs() < 1e-14);
        assert!((found.vectors[0][0] - found.vectors[0][1]).abs() < 1e-14);
        let found = eigen(vec![vec![0.0, 0.0], vec![0.0, 5.0]]);
        assert_eq!(found.values, [5.0, 0.0]);
        assert!(eigen(Vec::new()).values.is_empty());
    }

    /// `M v = value v`, vectors of length 1 at right angles, the trace kept.
    #[test]
    fn vectors_belong_to_their_values() {
        let mut random = SplitMix::new(5);
        for size in [1, 2, 7, 40] {
            let mut number = || (random.next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
            let rows: Rows = (0..size)
                .map(|_| (0..size + 3).map(|_| number()).collect())
                .collect();
            let matrix = products(&rows);
            let found = eigen(matrix.clone());
            let trace: f64 = (0..size).map(|place| matrix[place][place]).sum();
            assert!((found.values.iter().sum::<f64>() - trace).abs() < 1e-9);
            assert!(found.values.is_sorted_by(|one, other| one >= other));
            for (place, (value, vector)) in found.values.iter().zip(&found.vectors).enumerate() {
                for (row, entry) in matrix.iter().zip(vector) {
                    assert!((dot(row, vector) - value * entry).abs() < 1e-9);
                }
                for (other, second) in found.vectors.iter().enumerate() {
                    let expected = f64::from(u8::from(place == other));
                    assert!((dot(vector, second) - expected).abs() < 1e-9);
                }
            }
        }
    }
}
