//! What is to be fetched: arguments and lists, read as they are needed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use crate::exit::Failure;
use crate::keys::NAME_BYTES_MAX;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Path(PathBuf),
    Url(String),
}

impl Source {
    pub(crate) fn new(name: PathBuf) -> Source {
        match name.to_str() {
            Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
                Source::Url(url.to_owned())
            }
            _ => Source::Path(name),
        }
    }
}

/// The sources in a file, or in standard input if it is called `-`.
pub(crate) fn listed(
    list: &Path,
    is_null: bool,
) -> Result<Box<dyn Iterator<Item = Result<Source, Failure>> + Send>, Failure> {
    let cannot =
        |error| Failure::usage(format!("cannot read the list {}: {error}", list.display()));
    let end = if is_null { 0 } else { b'\n' };
    if list == Path::new("-") {
        return Ok(Box::new(split(BufReader::new(io::stdin()), end)));
    }
    let file = File::open(list).map_err(cannot)?;
    Ok(Box::new(split(BufReader::new(file), end)))
}

/// Names that end with this byte; empty ones are skipped, endless ones refused.
fn split(
    mut from: impl BufRead + Send,
    end: u8,
) -> impl Iterator<Item = Result<Source, Failure>> + Send {
    let mut is_over = false;
    std::iter::from_fn(move || {
        while !is_over {
            let mut name = Vec::new();
            let mut bounded = io::Read::take(&mut from, NAME_BYTES_MAX as u64 + 1);
            match bounded.read_until(end, &mut name) {
                Err(error) => {
                    is_over = true;
                    return Some(Err(Failure::io("cannot read the list of sources", &error)));
                }
                Ok(0) => is_over = true,
                Ok(_) => {
                    if name.last() == Some(&end) {
                        name.pop();
                    }
                    if name.len() > NAME_BYTES_MAX {
                        is_over = true;
                        let what = "a name in the list of sources is too long; does the list use \
                                    zero bytes (-0)?";
                        return Some(Err(Failure::usage(what)));
                    }
                    if !name.is_empty() {
                        let name = PathBuf::from(OsString::from_vec(name));
                        return Some(Ok(Source::new(name)));
                    }
                }
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &[u8], end: u8) -> Vec<Source> {
        split(text, end).map(|source| source.unwrap()).collect()
    }

    #[test]
    fn lists_are_split() {
        let path = |name: &str| Source::Path(name.into());
        assert_eq!(
            paths(b"a\n\nb c\nd", b'\n'),
            [path("a"), path("b c"), path("d")]
        );
        assert_eq!(paths(b"a\nb\0c\0", 0), [path("a\nb"), path("c")]);
        assert_eq!(
            paths(b"http://h/x\n", b'\n'),
            [Source::Url("http://h/x".into())]
        );
        assert_eq!(paths(b"", b'\n'), []);
    }

    #[test]
    fn an_endless_name_is_refused() {
        let text = vec![b'x'; NAME_BYTES_MAX + 2];
        let mut sources = split(&text[..], b'\n');
        assert!(sources.next().unwrap().is_err());
        assert!(sources.next().is_none());
    }
}
