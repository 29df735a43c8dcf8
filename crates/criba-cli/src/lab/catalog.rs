//! All experiments, each with the question that it answers.

use super::bench::Bench;
use super::exercises::{
    bloom, combined, counting, depth, directions, distinct, drift, frequencies, growth, hashing,
    limits, maps, merged, moments, one_filter, ranges, rebuild, top, tradeoff, union,
};
use super::outcome::Outcome;
use crate::exit::Failure;

/// An experiment: its name on the command line, the exercise of the course on filters that it answers,
/// the question, and how to find the answer.
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    pub(crate) exercise: &'static str,
    pub(crate) question: &'static str,
    pub(crate) run: fn(&Bench) -> Result<Outcome, Failure>,
}

/// The experiment that has options of its own.
pub(crate) const BLOOM: &str = "bloom";

/// In the order in which they are run and printed.
pub(crate) const ALL: &[Experiment] = &[
    Experiment {
        name: BLOOM,
        exercise: "rates against the formula with m = 1000, k = 4, n = 200",
        question: "Which rate does a small Bloom filter have, by the formula, by the exact one, and measured?",
        run: one_filter::run,
    },
    Experiment {
        name: "fill",
        exercise: "rate against theory over fill",
        question: "How does the rate of false positives grow while a Bloom filter fills, and does (1 - e^(-kn/m))^k foretell it?",
        run: bloom::by_fill,
    },
    Experiment {
        name: "probes",
        exercise: "k around its optimum",
        question: "Is m/n ln 2 the best number of hash functions, and what does another number cost?",
        run: bloom::by_probes,
    },
    Experiment {
        name: "memory",
        exercise: "memory halved",
        question: "What does half of the memory cost?",
        run: bloom::by_memory,
    },
    Experiment {
        name: "hashing",
        exercise: "hash families",
        question: "Does it matter which hash functions choose the bits?",
        run: hashing::families,
    },
    Experiment {
        name: "skew",
        exercise: "skewed against uniform input",
        question: "Does it matter whether keys come alike or some far more often than others?",
        run: bloom::by_skew,
    },
    Experiment {
        name: "cost",
        exercise: "cost of insert and lookup over k and key length",
        question: "What do more hash functions and longer keys cost?",
        run: hashing::cost,
    },
    Experiment {
        name: "construction",
        exercise: "construction time over m and k",
        question: "How does the time to build a filter grow with its bits and its hash functions?",
        run: hashing::construction,
    },
    Experiment {
        name: "wrong-size",
        exercise: "wrong n by 20 %",
        question: "What if a fifth more keys come than expected, or a fifth fewer?",
        run: bloom::by_wrong_size,
    },
    Experiment {
        name: "growth",
        exercise: "growth of n in time",
        question: "What becomes of a filter whose keys become more and more: left alone, scalable, or rebuilt?",
        run: growth::run,
    },
    Experiment {
        name: "rebuild",
        exercise: "the point at which a rebuild pays",
        question: "After how many lookups has the rebuild of an over-full filter paid for itself?",
        run: rebuild::run,
    },
    Experiment {
        name: "drift",
        exercise: "parameters that follow a change from transactional to analytical load",
        question: "How is memory best shared between filter and cache while more and more lookups are of absent keys?",
        run: drift::run,
    },
    Experiment {
        name: "ensemble",
        exercise: "ensemble against one filter",
        question: "Are several filters that must all agree better than one of the same memory?",
        run: combined::ensemble,
    },
    Experiment {
        name: "compressed",
        exercise: "compressed sizes",
        question: "How far can a sparse filter be compressed, and does that pay?",
        run: combined::compressed,
    },
    Experiment {
        name: "scalable",
        exercise: "scalable growth",
        question: "What does a filter cost that grows with its keys?",
        run: combined::scalable,
    },
    Experiment {
        name: "union",
        exercise: "union and intersection of filters with cardinalities",
        question: "How many keys are in either of two filters, and in both, by their bits?",
        run: union::run,
    },
    Experiment {
        name: "hierarchical",
        exercise: "rate and time of a hierarchical filter",
        question: "Does a small filter in front of a large one save time?",
        run: combined::hierarchical,
    },
    Experiment {
        name: "maps",
        exercise: "Bloomier constructions compared: success, space and speed",
        question: "What do static maps take: ribbon, peeling, binary fuse?",
        run: maps::run,
    },
    Experiment {
        name: "full",
        exercise: "load limits of filters with deletion",
        question: "How far can cuckoo and quotient filters be filled, and is anything lost then?",
        run: limits::full,
    },
    Experiment {
        name: "load",
        exercise: "behaviour on the way to the load limit",
        question: "What do cuckoo, quotient and counting filters cost on the way there?",
        run: limits::on_the_way,
    },
    Experiment {
        name: "counting",
        exercise: "errors of counting, spectral and layered filters",
        question: "How often do counting, spectral and layered filters count a key too high?",
        run: counting::run,
    },
    Experiment {
        name: "width",
        exercise: "sketch errors over their width",
        question: "How far are count-min and count sketch off, by their width?",
        run: frequencies::by_width,
    },
    Experiment {
        name: "exponent",
        exercise: "sketch errors over the skew of a Zipf stream",
        question: "How far are count-min and count sketch off, by the skew of the stream?",
        run: frequencies::by_exponent,
    },
    Experiment {
        name: "depth",
        exercise: "the error bound of count-min over width and depth",
        question: "How does the error of count-min follow its bound over width and depth?",
        run: depth::run,
    },
    Experiment {
        name: "moments",
        exercise: "the second moment of a stream",
        question: "How well does a tug of war tell how skewed a stream is, and at what cost?",
        run: moments::run,
    },
    Experiment {
        name: "top",
        exercise: "the most frequent keys of a stream",
        question: "How many counters do space-saving and Misra-Gries need to find the most frequent keys?",
        run: top::run,
    },
    Experiment {
        name: "distinct",
        exercise: "distinct keys of a stream",
        question: "How well do LogLog, adaptive counting and HyperLogLog count distinct keys, few and many?",
        run: distinct::run,
    },
    Experiment {
        name: "merged",
        exercise: "sketches of two nodes merged",
        question: "Are the merged sketches of two nodes as good as one of both streams?",
        run: merged::run,
    },
    Experiment {
        name: "directions",
        exercise: "frequent directions of a matrix",
        question: "How well do a few rows stand for a large matrix, chosen by frequent directions or by chance?",
        run: directions::run,
    },
    Experiment {
        name: "range-filters",
        exercise: "range filters at equal bits",
        question: "Which filter refutes the ranges between keys, on even, clustered and text keys?",
        run: ranges::neighbours,
    },
    Experiment {
        name: "ranges-behind",
        exercise: "range filters against ranges next to keys",
        question: "What do range filters say of ranges that begin right behind a key?",
        run: ranges::behind,
    },
    Experiment {
        name: "tradeoff",
        exercise: "trade-off table over all structures",
        question: "Which filter for which work: memory, time and rate of all of them?",
        run: tradeoff::run,
    },
];
