//! Which addresses the user wants: `--include` and `--exclude`.
//!
//! Patterns are those of robots.txt, by the same code, so no pattern costs more than one pass over
//! an address for each of its wildcards.

use common::escape::Plain;
use url::{Position, Url};

use crate::reason::Reason;
use crate::robots::{Rule, normal_path};

/// Patterns of both kinds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patterns {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

/// One pattern. It begins where the text begins that it is compared with.
#[derive(Debug, Clone)]
struct Pattern {
    rule: Rule,
    /// Compared with path and query, not with the whole address.
    is_path: bool,
}

impl Patterns {
    /// Reads patterns as the user writes them.
    ///
    /// # Errors
    ///
    /// A sentence for the user, if a pattern is empty.
    pub(crate) fn new(include: &[String], exclude: &[String]) -> Result<Patterns, String> {
        let read = |patterns: &[String], name: &str| -> Result<Vec<Pattern>, String> {
            let read = patterns.iter().map(|text| Pattern::new(text));
            let read = read.collect::<Result<_, _>>();
            read.map_err(|what| format!("{name}: {what}"))
        };
        Ok(Patterns {
            include: read(include, "include")?,
            exclude: read(exclude, "exclude")?,
        })
    }

    /// Why an address is not wanted: an exclusion matches, or there are inclusions and none does.
    pub(crate) fn unwanted(&self, url: &Url) -> Option<Reason> {
        if self.include.is_empty() && self.exclude.is_empty() {
            return None;
        }
        let whole = normal_path(url.as_str().as_bytes());
        let path = normal_path(url[Position::BeforePath..].as_bytes());
        let matches = |pattern: &Pattern| {
            let text = if pattern.is_path { &path } else { &whole };
            pattern.rule.matches(text)
        };
        if self.exclude.iter().any(matches) {
            Some(Reason::Excluded)
        } else if self.include.is_empty() || self.include.iter().any(matches) {
            None
        } else {
            Some(Reason::NotIncluded)
        }
    }
}

impl Pattern {
    fn new(text: &str) -> Result<Pattern, String> {
        if text.is_empty() {
            return Err("an empty pattern matches everything; write `*` if that is meant".into());
        }
        if text.contains(char::is_control) {
            let text = Plain(text);
            return Err(format!(
                "\"{text}\" is not a pattern; write printable characters"
            ));
        }
        Ok(Pattern {
            rule: Rule::new(true, text.as_bytes()),
            is_path: text.starts_with('/'),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares what is left of a list of addresses.
    fn check(include: &[&str], exclude: &[&str], wanted: &[&str], unwanted: &[(&str, Reason)]) {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.into()).collect::<Vec<_>>();
        let patterns = Patterns::new(&owned(include), &owned(exclude)).unwrap();
        let base = Url::parse("http://example.org/").unwrap();
        let found = |address: &str| patterns.unwanted(&base.join(address).unwrap());
        for address in wanted {
            assert_eq!(found(address), None, "{address}");
        }
        for (address, reason) in unwanted {
            assert_eq!(found(address), Some(*reason), "{address}");
        }
    }

    #[test]
    fn without_patterns_all_is_wanted() {
        check(&[], &[], &["/", "/a?b", "http://other/"], &[]);
    }

    #[test]
    fn a_pattern_is_a_prefix_unless_it_is_anchored() {
        use Reason::NotIncluded;
        let not = [
            ("/", NotIncluded),
            ("/doc", NotIncluded),
            ("/x/docs/", NotIncluded),
        ];
        check(&["/docs/"], &[], &["/docs/", "/docs/a?b=c"], &not);
        let not = [("/docs/a", NotIncluded), ("/docs/?", NotIncluded)];
        check(&["/docs/$"], &[], &["/docs/"], &not);
        let not = [("/a.pdfs", NotIncluded), ("/a.pdf?x", NotIncluded)];
        check(&["/*.pdf$"], &[], &["/a.pdf", "/x/y.pdf", "/.pdf"], &not);
    }

    #[test]
    fn wildcards_stand_for_any_characters() {
        use Reason::Excluded;
        let not = [("/a/sort/b", Excluded), ("/p?x=1&sort=up", Excluded)];
        check(&[], &["*sort"], &["/a", "/s/o/r/t"], &not);
        let not = [("/p?a=1&sort=up", Excluded), ("/?sort=", Excluded)];
        check(&[], &["/*?*sort="], &["/sort=/", "/p?b=sort"], &not);
    }

    #[test]
    fn a_pattern_without_a_slash_in_front_is_for_the_whole_address() {
        use Reason::{Excluded, NotIncluded};
        let not = [
            ("http://other/", NotIncluded),
            ("https://example.org/", NotIncluded),
        ];
        check(&["http://example.org/"], &[], &["/", "/a"], &not);
        check(
            &[],
            &["http://*.org/a"],
            &["/b", "http://h/a"],
            &[("/a", Excluded)],
        );
    }

    #[test]
    fn an_exclusion_is_stronger_than_any_inclusion() {
        use Reason::{Excluded, NotIncluded};
        let not = [
            ("/a/b/c", Excluded),
            ("/d", NotIncluded),
            ("/b", NotIncluded),
        ];
        check(
            &["/a/", "/a/b/c", "/c"],
            &["/a/b"],
            &["/a/", "/a/c", "/c"],
            &not,
        );
    }

    #[test]
    fn letters_are_compared_as_they_are_decoded() {
        use Reason::Excluded;
        let not = [
            ("/caf%C3%A9", Excluded),
            ("/caf\u{e9}/x", Excluded),
            ("/%63af\u{e9}", Excluded),
        ];
        check(&[], &["/caf\u{e9}"], &["/Caf\u{e9}"], &not);
        check(
            &[],
            &["/a%2Ab"],
            &["/a/b"],
            &[("/a*b", Excluded), ("/a%2ab", Excluded)],
        );
    }

    #[test]
    fn an_empty_pattern_is_refused() {
        for (include, exclude) in [(vec![String::new()], vec![]), (vec![], vec![String::new()])] {
            let refused = Patterns::new(&include, &exclude).unwrap_err();
            assert!(refused.contains('*'), "{refused}");
        }
    }
}
