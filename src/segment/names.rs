//! The names of segments and of their filter files, and the salts of filters.

/// The name of a segment's file.
pub(crate) fn file_name(id: u64) -> String {
    format!("{id:06}.seg")
}

/// The number of a segment from the name of its file.
pub(crate) fn parse_name(name: &str) -> Option<u64> {
    let id = name.strip_suffix(".seg")?.parse().ok()?;
    // Number 0 is never given.
    (id > 0 && file_name(id) == name).then_some(id)
}

/// The salt of the filter in this file.
pub(crate) fn filter_salt(hash_seed: u64, file: u64) -> u64 {
    hash_seed.wrapping_mul(file | 1).rotate_left(29) ^ file
}

/// The name of a filter file.
pub(crate) fn filter_file_name(id: u64) -> String {
    format!("{id:06}.filter")
}

/// The number of a filter file from its name.
pub(crate) fn parse_filter_name(name: &str) -> Option<u64> {
    let id = name.strip_suffix(".filter")?.parse().ok()?;
    // Number 0 is never given.
    (id > 0 && filter_file_name(id) == name).then_some(id)
}
