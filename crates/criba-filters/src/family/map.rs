//! The Bloomier filter as a bumped ribbon: a static map from keys to values of 1 to 64 bits.
//!
//! Chazelle, Kilian, Rubinfeld, Tal, "The Bloomier filter" (2004); solved as in Dillinger,
//! Hübschle-Schneider, Sanders, Walzer, "Fast succinct retrieval and approximate membership using
//! ribbon" (2022). It is what segments carry, from keys to their block; here for any value, and,
//! without value, as a set.
//!
//! **Memory** about 1.01 times the bits of a value and of its check, at 100,000 keys and more; they
//! may be fractions. **Cost** one window of consecutive words; to build, one pass of elimination
//! over sorted hashes, and 32 bytes per key. **Can** return values, of absent keys too if no bits
//! check them. **Cannot** be changed, be merged, or list its keys.

use super::frame::{self, Fields, Kind, put_words, require};
use super::values::Layout;
use crate::error::{Error, Result};
use crate::hash::mix;
use crate::segment::form::Form;
use crate::segment::ribbon::{Planes, Ribbon, Spot};
use crate::segment::solve::{Equations, Solved, Width, solve};
use crate::{KeyHash, Lookup, Membership};

const KIND: Kind = *b"RIBB";
const VERSION: u8 = 2;

/// A static map, or set, as a ribbon.
///
/// Formulas, use, what was measured and what it costs: `docs/filters/bloomier.md`.
///
/// ```
/// use criba_filters::{Lookup, Map, Membership};
///
/// let prices = Map::build([("apple", 30), ("melon", 250)], 8, 6.5)?; // 6.5 bits to deny others
/// assert_eq!(prices.get("melon"), Some(250));
/// let set = Map::set(["apple", "melon"], 9.97)?; // 1/1,000
/// assert!(set.may_contain("apple"));
/// # Ok::<(), criba_filters::Error>(())
/// ```
#[doc(alias = "ribbon")]
#[doc(alias = "bloomier")]
#[derive(Debug)]
pub struct Map {
    value_bits: u32,
    keys: u64,
    ribbon: Ribbon,
    body: Vec<u64>,
    form: Form,
}

impl Map {
    /// A map of distinct keys to values of `value_bits` bits, with `check_bits` more to deny absent
    /// keys; fractions of them count.
    ///
    /// # Errors
    ///
    /// If a value has more bits, if the bits are not 1 to 64 together, or if a key is given twice.
    pub fn build<K: Into<KeyHash>>(
        entries: impl IntoIterator<Item = (K, u64)>,
        value_bits: u32,
        check_bits: f64,
    ) -> Result<Self> {
        let width = width(value_bits, check_bits)?;
        let layout = Layout::new(value_bits, u32::from(width.planes.wide) - value_bits)?;
        let mut fit = Ok(());
        let row = |(key, value): (K, u64)| {
            fit = layout.check_value(value);
            fit.is_ok().then(|| layout.row(0, key.into(), value))
        };
        let equations = Equations::of(entries.into_iter().map_while(row));
        fit?;
        let (map, equal_hashes) = Self::of(equations, value_bits, width);
        if equal_hashes {
            return Err(Error::EqualKeys);
        }
        Ok(map)
    }

    /// A set of keys, of which `check_bits` bits are stored, 1.0 to 64.0; fractions count.
    ///
    /// # Errors
    ///
    /// If the bits are out of bounds.
    pub fn set<K: Into<KeyHash>>(
        keys: impl IntoIterator<Item = K>,
        check_bits: f64,
    ) -> Result<Self> {
        let width = width(0, check_bits)?;
        let layout = Layout::new(0, u32::from(width.planes.wide))?;
        let row = |key: K| layout.row(0, key.into(), 0);
        let equations = Equations::of(keys.into_iter().map(row));
        // Keys given twice are in the set once.
        Ok(Self::of(equations, 0, width).0)
    }

    /// The map of these rows, and whether two have the same hash.
    fn of(mut equations: Equations, value_bits: u32, width: Width) -> (Self, bool) {
        let keys = equations.rows.len() as u64;
        let Solved {
            ribbon,
            body,
            equal_hashes,
            ..
        } = solve(&mut equations, width);
        let map = Self {
            value_bits,
            keys,
            ribbon,
            body,
            form: Form::detect(),
        };
        (map, equal_hashes)
    }

    /// Bits of a value.
    #[must_use]
    pub fn value_bits(&self) -> u32 {
        self.value_bits
    }

    fn resident(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.ribbon.encode(&mut bytes);
        bytes
    }

    fn layout(&self, cell_bits: u8) -> Layout {
        Layout {
            value_bits: self.value_bits,
            cell_bits: u32::from(cell_bits),
        }
    }
}

/// Divides bits into whole planes.
fn width(value_bits: u32, check_bits: f64) -> Result<Width> {
    let bits = f64::from(value_bits) + check_bits;
    if check_bits.is_nan() || check_bits < 0.0 || !(1.0..=64.0).contains(&bits) {
        return Error::invalid(format!(
            "{value_bits} bits of value and {check_bits} to check are not 1 to 64 together: choose \
             fewer, or more"
        ));
    }
    // From 1 to 64: the cast drops the fraction only.
    let narrow = bits as u8;
    let wide_share = bits - f64::from(narrow);
    let wide = narrow + u8::from(wide_share > 0.0);
    Ok(Width {
        planes: Planes { narrow, wide },
        wide_share,
    })
}

impl Lookup for Map {
    #[inline]
    fn get_hash(&self, hash: KeyHash) -> Option<u64> {
        let mixed = mix(hash, 0);
        let spot = match self.ribbon.locate_first::<true>(mixed, 0) {
            Some(window) => Spot::Body(window),
            None => self.ribbon.locate_bumped(mixed, 0),
        };
        match spot {
            Spot::Body(window) => {
                let range = window.words();
                // Windows lie within the body, whose length was checked against the layers.
                let words = &self.body[range.start as usize..range.end as usize];
                let planes = window.planes as usize;
                let cell = self.form.evaluate(words, planes, window.row, window.shift);
                // At most 64 planes.
                self.layout(window.planes as u8).value(cell, mixed)
            }
            Spot::Stash(cell) => self.layout(self.ribbon.planes.wide).value(cell, mixed),
            Spot::Nowhere => None,
        }
    }
}

impl Membership for Map {
    #[inline]
    fn may_contain_hash(&self, hash: KeyHash) -> bool {
        self.get_hash(hash).is_some()
    }

    /// Keys given, repetitions included.
    fn len(&self) -> u64 {
        self.keys
    }

    /// With thresholds and stash.
    fn bits(&self) -> u64 {
        (self.body.len() * 64 + self.resident().len() * 8) as u64
    }

    fn expected_rate(&self) -> f64 {
        let (shares, planes) = (self.ribbon.shares(), self.ribbon.planes);
        shares.narrow * self.layout(planes.narrow).rate()
            + shares.wide * self.layout(planes.wide).rate()
    }

    /// The same: what is stored is as good as random.
    fn current_rate(&self) -> f64 {
        self.expected_rate()
    }

    fn to_bytes(&self) -> Vec<u8> {
        let resident = self.resident();
        let mut payload = Vec::new();
        payload.extend(self.keys.to_le_bytes());
        payload.extend(self.value_bits.to_le_bytes());
        payload.extend((resident.len() as u64).to_le_bytes());
        payload.extend(resident);
        payload.extend((self.body.len() as u64).to_le_bytes());
        put_words(&mut payload, &self.body);
        frame::encode(KIND, VERSION, &payload)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut fields = frame::decode(KIND, VERSION, bytes)?;
        let keys = fields.u64("the number of keys is cut short")?;
        let value_bits = fields.u32("the bits of values are cut short")?;
        let resident = fields.u64("the length of the layers is cut short")?;
        let resident = fields.bytes(resident, "layers are cut short")?;
        let words = fields.u64("the length of the body is cut short")?;
        let body = fields.words(words, "the body is cut short")?;
        fields.end()?;
        let mut resident = Fields::new(resident);
        let ribbon = Ribbon::parse(&mut resident, words)?;
        resident.end_of("filter header: bytes after its end")?;
        let fits = value_bits <= u32::from(ribbon.planes.narrow);
        require(fits, "values do not fit their cells")?;
        Ok(Self {
            value_bits,
            keys,
            ribbon,
            body,
            form: Form::detect(),
        })
    }
}
