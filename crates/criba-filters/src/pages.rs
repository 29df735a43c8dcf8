//! The examples in the README, in `docs/filters/` and in `docs/sketches.md`, as tests of the
//! documentation: each page is the documentation of a type that exists for nothing else.

macro_rules! pages {
    ($($page:ident = $path:literal,)*) => {$(
        #[doc = include_str!(concat!("../docs/", $path, ".md"))]
        struct $page;
    )*};
}

#[doc = include_str!("../README.md")]
struct Readme;

pages! {
    Sketches = "sketches",
    Adaptive = "filters/adaptive",
    Ams = "filters/ams",
    Blocked = "filters/blocked",
    Bloomier = "filters/bloomier",
    Classic = "filters/classic",
    Compressed = "filters/compressed",
    CountMin = "filters/count-min",
    CountSketch = "filters/count-sketch",
    Counting = "filters/counting",
    Cuckoo = "filters/cuckoo",
    Ensemble = "filters/ensemble",
    Fuse = "filters/fuse",
    Hierarchical = "filters/hierarchical",
    Hybrid = "filters/hybrid",
    Hyperloglog = "filters/hyperloglog",
    Layered = "filters/layered",
    MisraGries = "filters/misra-gries",
    Partitioned = "filters/partitioned",
    Peeled = "filters/peeled",
    Quotient = "filters/quotient",
    Scalable = "filters/scalable",
    SpaceSaving = "filters/space-saving",
    Spectral = "filters/spectral",
}
