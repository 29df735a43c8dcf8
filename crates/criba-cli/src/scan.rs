//! `scan`: entries in key order, a part of them, either way.

use std::ops::Bound;

use crate::args::ScanArgs;
use crate::escape::Escaped;
use crate::exit::{Exit, Failure};
use crate::json::Object;
use crate::keyspaces::Name;
use crate::output::Output;
use crate::point::argument;
use crate::store;

/// Keys from the lower bound up to, not including, the upper one.
type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

pub(crate) fn scan(args: &ScanArgs) -> Result<Exit, Failure> {
    let bound = |name: &str, text: &Option<std::ffi::OsString>| {
        text.as_deref()
            .map(|text| argument(name, text, args.unescape.unescape))
            .transpose()
    };
    let from = bound("--from", &args.from)?;
    let to = bound("--to", &args.to)?;
    let prefix = bound("--prefix", &args.prefix)?;
    let name = Name::given(&args.place, &args.unescape)?;
    let (db, keyspace) = store::combine_in(&args.store, &name, args.operator.as_ref())?;
    let mut output = Output::stdout();
    if let Some(range) = range(from, to, prefix) {
        let entries = keyspace.range(range);
        let limit = args.limit.unwrap_or(u64::MAX);
        if args.reverse {
            print(entries.rev(), limit, args, &mut output)?;
        } else {
            print(entries, limit, args, &mut output)?;
        }
    }
    output.finish()?;
    db.close()?;
    Ok(Exit::Done)
}

/// What lies within all three, or `None` when that is nothing for certain.
fn range(from: Option<Vec<u8>>, to: Option<Vec<u8>>, prefix: Option<Vec<u8>>) -> Option<Range> {
    let end = prefix.as_deref().and_then(after_prefix);
    let lower = from.max(prefix).unwrap_or_default();
    let upper = match (to, end) {
        (Some(to), Some(end)) => Some(to.min(end)),
        (to, end) => to.or(end),
    };
    match upper {
        Some(upper) if upper <= lower => None,
        Some(upper) => Some((Bound::Included(lower), Bound::Excluded(upper))),
        None => Some((Bound::Included(lower), Bound::Unbounded)),
    }
}

/// The first key after all that begin with the prefix; `None` when nothing can follow them.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut end = prefix[..=kept].to_vec();
    end[kept] += 1;
    Some(end)
}

fn print(
    entries: impl Iterator<Item = criba::Result<(criba::Slice, criba::Slice)>>,
    limit: u64,
    args: &ScanArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut left = limit;
    if left == 0 {
        return Ok(());
    }
    for entry in entries {
        let (key, value) = entry?;
        match (args.json, args.keys_only) {
            (true, true) => Object::new().bytes("key", &key).write(output)?,
            (true, false) => {
                Object::new()
                    .bytes("key", &key)
                    .bytes("value", &value)
                    .write(output)?;
            }
            (false, true) => writeln!(output, "{}", Escaped(&key))?,
            (false, false) => writeln!(output, "{}\t{}", Escaped(&key), Escaped(&value))?,
        }
        left -= 1;
        if left == 0 {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: Option<&str>, to: Option<&str>, prefix: Option<&str>, expected: &str) {
        let owned = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
        let range = range(owned(from), owned(to), owned(prefix));
        let keys = ["", "a", "aa", "ab", "b", "ba", "c"];
        let within = |key: &&&str| {
            range.as_ref().is_some_and(|range| {
                std::ops::RangeBounds::contains(range, &key.as_bytes().to_vec())
            })
        };
        assert_eq!(
            keys.iter()
                .filter(within)
                .copied()
                .collect::<Vec<_>>()
                .join(" "),
            expected
        );
    }

    #[test]
    fn bounds_meet() {
        check(None, None, None, " a aa ab b ba c");
        check(Some("aa"), None, None, "aa ab b ba c");
        check(None, Some("b"), None, " a aa ab");
        check(None, None, Some("a"), "a aa ab");
        check(Some("aa"), None, Some("a"), "aa ab");
        check(Some("aa"), Some("ab"), Some("a"), "aa");
        check(None, Some("z"), Some("b"), "b ba");
        check(Some("b"), Some("a"), None, "");
        check(Some("b"), None, Some("a"), "");
        check(None, Some(""), None, "");
    }

    #[test]
    fn the_end_of_a_prefix() {
        assert_eq!(after_prefix(b"a\xff\xff").as_deref(), Some(&b"b"[..]));
        assert_eq!(after_prefix(b"\xff\xff"), None);
        assert_eq!(after_prefix(b""), None);
    }
}
