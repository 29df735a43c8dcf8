//! The filter leaves out as many students as the formula says, and with a store it leaves out nobody.

use crate::{number, run};

#[test]
fn as_many_are_left_out_as_was_calculated() {
    let rows = run(env!("CARGO_BIN_EXE_course"), &[]);
    let shares = rows.table("100 students");
    let [measured, exact, known_bits, formula] =
        [0, 1, 2, 3].map(|row| number(shares[row], "share"));
    // 2,000 filters of 81 questions each; those of one filter are not independent.
    assert!((measured - exact).abs() < 0.005, "{measured} {exact}");
    assert!((formula - 0.1033).abs() < 0.0001, "{formula}");
    assert!(exact > known_bits && known_bits > formula);
    for row in rows.table("4,000 students") {
        let (left_out, expected) = (number(row, "left_out"), 3_240.0 * number(row, "expected"));
        assert!(
            (left_out - expected).abs() < 5.0 * expected.sqrt() + 2.0,
            "{row}"
        );
        assert_eq!(number(row, "left_out_with_it"), 0.0);
        assert_eq!(number(row, "asked_in_the_store"), 760.0 + left_out);
    }
}
