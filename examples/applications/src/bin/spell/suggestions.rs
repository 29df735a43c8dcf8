//! Suggestions for a misspelling: words at edit distance 1, found by asking for all candidates.
//!
//! Norvig, "How to write a spelling corrector", 2007. Nearly all candidates are no words, so a filter
//! answers nearly all questions. The calculated number of candidates is that of
//! [`edits`](applications::edits::edits); those that pass are the words among them, and of the others
//! as many as the rate of the filter says.

use applications::{Cell, Error, Report, Result, Table, Words, edits, nanos_per_call};
use criba_filters::Membership;

use crate::Checker;

/// Candidates at distance 1 that the filter passes, and that the trie keeps; returns what the filter
/// saves.
pub(crate) fn suggestions(
    list: &Words,
    typos: &[(&String, String)],
    seed: u64,
    report: &mut Report,
) -> Result<String> {
    let heads = [
        "bits per word",
        "misspellings",
        "candidates each",
        "candidates calculated",
        "passed",
        "passed calculated",
        "kept",
        "us by the trie",
        "us by both",
    ];
    let mut table = Table::new("Suggestions for a misspelling", &heads);
    let typos = &typos[..typos.len().div_ceil(20).min(2_000)];
    let mean = |sum: u64| sum as f64 / typos.len() as f64;
    let mut saved = String::new();
    for bits in [4.0, 8.0, 12.0, 16.0] {
        let checker = Checker::new(&list.words, bits, seed)?;
        let (mut all, mut passed, mut kept, mut calculated) = (0, 0, 0, 0);
        for (word, typo) in typos {
            let (found, passes, candidates) = suggest(&checker, typo);
            if !found.contains(word) {
                return Err(Error::Wrong(format!(
                    "{word:?} is not suggested for {typo:?}"
                )));
            }
            (all, passed, kept) = (all + candidates, passed + passes, kept + found.len() as u64);
            calculated += edits::edits(typo.as_bytes());
        }
        let nanos = |ask: &dyn Fn(&[u8]) -> bool| {
            nanos_per_call(typos.len(), || {
                let mut found = 0;
                for (_, typo) in typos {
                    edits::for_each_edit(typo.as_bytes(), |edited| found += u64::from(ask(edited)));
                }
                std::hint::black_box(found);
            })
        };
        let rate = checker.filter.expected_rate();
        table.row([
            Cell::Number(bits, 0),
            Cell::Count(typos.len() as u64),
            Cell::Number(mean(all), 1),
            Cell::Number(mean(calculated), 1),
            Cell::Number(mean(passed), 2),
            Cell::Number(mean(kept) + rate * mean(calculated - kept), 2),
            Cell::Number(mean(kept), 2),
            Cell::Number(nanos(&|edited| checker.trie.contains(edited)) / 1_000.0, 1),
            Cell::Number(nanos(&|edited| checker.is_word(edited)) / 1_000.0, 1),
        ]);
        saved = format!(
            "and, with {bits} bits a word, {:.1} % of the {:.0} candidates of a misspelling, \
             of which {:.1} are words",
            100.0 * (1.0 - passed as f64 / all as f64),
            mean(all),
            mean(kept),
        );
    }
    report.table(table);
    Ok(saved)
}

/// The words at distance 1 that are behind the filter, how many candidates pass it, and how many
/// there are.
fn suggest(checker: &Checker<'_>, wrong: &str) -> (Vec<String>, u64, u64) {
    let (mut found, mut passed, mut all) = (Vec::new(), 0, 0);
    edits::for_each_edit(wrong.as_bytes(), |candidate| {
        all += 1;
        if checker.passes(candidate) {
            passed += 1;
            if checker.trie.contains(candidate) {
                found.push(String::from_utf8_lossy(candidate).into_owned());
            }
        }
    });
    (found, passed, all)
}
