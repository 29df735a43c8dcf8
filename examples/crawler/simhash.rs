//! Fingerprints of texts that stay close when a text changes little.

/// In how many bits two fingerprints differ; up to 3 of 64 is "nearly the same text" (Manku, Jain, Das
/// Sarma: "Detecting near-duplicates for web crawling", 2007).
pub(crate) fn distance(one: u64, other: u64) -> u32 {
    (one ^ other).count_ones()
}
