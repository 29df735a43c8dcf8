//! Operators that are ready, by their names.

use std::sync::Arc;

use super::sketch::{Distinct, Frequencies, Members};
use super::{Add, Append, Max, MergeOperator, Min};

/// The ready operator of this name; `None` if none has it. For programs that open stores which
/// others have made.
///
/// ```
/// use criba::operator::{Append, MergeOperator, named};
///
/// let operator = named("append \\t").unwrap();
/// let lines = operator.merge(b"key", Some(b"one"), &[b"two"]).unwrap();
/// assert_eq!(lines, b"one\ttwo");
/// assert_eq!(operator.name(), Append::with_delimiter("\t").name());
/// assert!(named("subtract").is_none());
/// ```
pub fn named(name: &str) -> Option<Arc<dyn MergeOperator>> {
    let operator: Arc<dyn MergeOperator> = match name.split_once(' ') {
        None if name == "min" => Arc::new(Min),
        None if name == "max" => Arc::new(Max),
        None if name == "append" => Arc::new(Append::new()),
        Some(("add", "i64")) => Arc::new(Add::i64()),
        Some(("add", "u64")) => Arc::new(Add::u64()),
        Some(("append", delimiter)) => Arc::new(Append::with_delimiter(unescaped(delimiter)?)),
        Some(("distinct", bits)) => Arc::new(Distinct::with_index_bits(bits.parse().ok()?).ok()?),
        Some(("frequencies", shape)) => Arc::new(Frequencies::of(shape_of(shape)?)),
        Some(("members", shape)) => Arc::new(Members::of(shape_of(shape)?)),
        _ => return None,
    };
    // A number may be spelt in many ways, a name in one.
    (operator.name() == name).then_some(operator)
}

fn shape_of(text: &str) -> Option<(u64, u8)> {
    let (cells, rows) = text.split_once('x')?;
    Some((cells.parse().ok()?, rows.parse().ok()?))
}

/// The bytes that [`slice::escape_ascii`] has written so.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let byte = match rest.next()? {
            b't' => b'\t',
            b'n' => b'\n',
            b'r' => b'\r',
            b'x' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? << 4 | digit()?).ok()?
            }
            other => other,
        };
        bytes.push(byte);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_operators_are_found_by_their_names() {
        let all: [&dyn MergeOperator; 9] = [
            &Add::i64(),
            &Add::u64(),
            &Min,
            &Max,
            &Append::new(),
            &Append::with_delimiter("a \"\t\\\u{e9}\'"),
            &Distinct::with_index_bits(5).unwrap(),
            &Frequencies::with_error(0.01, 0.01).unwrap(),
            &Members::with_rate(100, 0.01).unwrap(),
        ];
        for operator in all {
            let found = named(operator.name()).unwrap();
            assert_eq!(found.name(), operator.name());
            let item = super::super::sketch::item("x");
            let merge = |operator: &dyn MergeOperator| operator.merge(b"", Some(&item), &[&item]);
            assert_eq!(merge(&*found).unwrap(), merge(operator).unwrap());
        }
        for name in [
            "",
            "add",
            "distinct 5",
            "distinct 99",
            "members 7",
            "append \\",
            "MIN",
        ] {
            assert!(named(name).is_none(), "{name}");
        }
    }
}
