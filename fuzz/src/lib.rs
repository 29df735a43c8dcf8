//! What the fuzz targets call: the checks of the crate's own tests, so that a test can replay
//! what a fuzzer has found.

#[path = "../../tests/it/decoders/mod.rs"]
mod decoders;

/// Feeds an input to the decoder of this name.
///
/// # Panics
///
/// When the decoder does, or what it accepts is contradictory.
pub fn run(target: &str, input: &[u8]) {
    let named = decoders::TARGETS.iter().find(|(name, _)| *name == target);
    let (_, run) = named.expect("the name of a target");
    run(input);
}

/// Inputs that the decoder of this name accepts: what a fuzzer starts from.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    decoders::seeds(target)
}

/// Names of all targets.
pub fn targets() -> impl Iterator<Item = &'static str> {
    decoders::TARGETS.iter().map(|(name, _)| *name)
}
