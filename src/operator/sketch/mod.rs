//! Operators that keep a sketch for each key: how many distinct items came, how often, or which.
//!
//! An operand is one item, as 8 bytes of its hash ([`item`]), or a sketch of many, as its
//! `to_bytes` in `criba-filters` gives it. Both need no read. A sketch that holds little is stored
//! as the list of what it holds, so many small ones take little room.
//!
//! All that a sketch is made of is in the name of its operator. Sketches of another shape, and
//! bytes that are no sketch, are refused: an error for their key.
//!
//! | operator | question | sketch |
//! |---|---|---|
//! | [`Distinct`] | how many distinct items came | [`HyperLogLog`](criba_filters::HyperLogLog) |
//! | [`Frequencies`] | how often an item came | [`CountMin`](criba_filters::CountMin), plain |
//! | [`Members`] | whether an item came | [`CountingBloom`](criba_filters::CountingBloom) |
//!
//! ```
//! use criba::{Db, sketch};
//!
//! # fn main() -> criba::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("data");
//! let visitors = sketch::Distinct::with_error(0.02)?;
//! let db = Db::builder(&path).operator(visitors).open()?;
//! for visitor in ["ann", "bob", "ann", "eve"] {
//!     db.merge("/index.html", sketch::item(visitor))?;
//! }
//! let value = db.get("/index.html")?.unwrap();
//! assert_eq!(visitors.estimate(&value)?.round(), 3.0);
//! # Ok(())
//! # }
//! ```

mod counted;
mod distinct;
mod list;

use criba_filters::KeyHash;

use crate::error::Error;

pub use counted::{Frequencies, Members};
pub use distinct::Distinct;

/// The operand for one item: its hash, XXH3 with 64 bits and seed 0, as 8 bytes.
///
/// Whoever can choose items can choose such that collide. Where that matters, hash them with a
/// secret seed (`criba_filters::hash_key`) and use the little-endian bytes of that hash.
///
/// ```
/// assert_eq!(criba::sketch::item("ann").len(), 8);
/// ```
#[must_use]
pub fn item(item: impl AsRef<[u8]>) -> [u8; ITEM_BYTES] {
    KeyHash::from(item.as_ref()).0.to_le_bytes()
}

/// Bytes of an operand that is one item: nothing else has this length.
const ITEM_BYTES: usize = 8;

fn hash_of(item: &[u8]) -> Option<KeyHash> {
    let bytes = item.try_into().ok()?;
    Some(KeyHash(u64::from_le_bytes(bytes)))
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` hands errors over")]
fn invalid(error: impl ToString) -> Error {
    Error::Invalid(error.to_string())
}
