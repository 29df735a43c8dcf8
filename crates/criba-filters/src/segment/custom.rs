//! Filters that a program brings for the segments of its store.
//!
//! The store keeps name, parameters and bytes of such a filter in each segment, and asks it for
//! every key after it was built. A filter that denies a key or panics is not written. A panic in a
//! lookup counts as "maybe".

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Answer, Built, FilterKind};
use crate::fields::{Fields, require};
use crate::{Error, KeyHash, Result};

/// A filter of the program's own: builds one for each segment and opens those that were stored.
///
/// A segment stores [`name`](Self::name) and [`parameters`](Self::parameters) beside the bytes. A
/// store that is opened without a filter of that name reads such a segment without one: lookups get
/// slower but stay correct.
///
/// ```
/// use criba_filters::segment::{CustomFilter, OpenFilter};
/// use criba_filters::{KeyHash, Result};
///
/// /// Keeps the top 16 bits of every hash in a sorted list.
/// #[derive(Debug)]
/// struct Prefixes;
///
/// struct Opened(Vec<u8>);
///
/// impl CustomFilter for Prefixes {
///     fn name(&self) -> &str {
///         "prefixes"
///     }
///
///     fn build(&self, hashes: &[KeyHash]) -> Result<Vec<u8>> {
///         let mut all: Vec<u16> = hashes.iter().map(|hash| (hash.0 >> 48) as u16).collect();
///         all.sort_unstable();
///         all.dedup();
///         Ok(all.into_iter().flat_map(u16::to_le_bytes).collect())
///     }
///
///     fn open(&self, _: &str, bytes: &[u8]) -> Result<Box<dyn OpenFilter>> {
///         Ok(Box::new(Opened(bytes.to_vec())))
///     }
/// }
///
/// impl OpenFilter for Opened {
///     fn may_contain(&self, hash: KeyHash) -> bool {
///         let all = self.0.as_chunks::<2>().0;
///         let at = all.binary_search_by_key(&((hash.0 >> 48) as u16), |two| u16::from_le_bytes(*two));
///         at.is_ok()
///     }
///
///     fn memory_bytes(&self) -> usize {
///         self.0.len()
///     }
/// }
/// ```
pub trait CustomFilter: fmt::Debug + Send + Sync {
    /// Its name in segments, 1 to 255 bytes. Two filters of one name must open each other's bytes.
    fn name(&self) -> &str;

    /// What it was made with, such as `10 bits`, for people and for [`open`](Self::open): up to 255
    /// bytes.
    fn parameters(&self) -> String {
        String::new()
    }

    /// The bytes of a filter for these keys, in the order of the keys. Hashes may be equal.
    ///
    /// # Errors
    ///
    /// If there can be no filter for these keys. The segment is then written without one.
    fn build(&self, hashes: &[KeyHash]) -> Result<Vec<u8>>;

    /// The filter from the parameters and bytes that were stored. They have a checksum, so that
    /// damage is found before, but another version of the program may have written them.
    ///
    /// # Errors
    ///
    /// If the bytes are not those of such a filter. The segment is then read without one.
    fn open(&self, parameters: &str, bytes: &[u8]) -> Result<Box<dyn OpenFilter>>;
}

/// A [`CustomFilter`] of one segment, in memory as a whole.
pub trait OpenFilter: Send + Sync {
    /// Whether the key may be in the segment; `false` is certain.
    fn may_contain(&self, hash: KeyHash) -> bool;

    /// Bytes of memory that it takes.
    fn memory_bytes(&self) -> usize;

    /// Probability that an absent key passes, by design; `None` if that is unknown.
    fn expected_rate(&self) -> Option<f64> {
        None
    }
}

/// The custom filters that a program gave to its store, in that order.
#[derive(Clone, Debug, Default)]
pub struct CustomFilters(Vec<Arc<dyn CustomFilter>>);

/// Most bytes of a name and of parameters: their lengths are stored in a byte.
const TEXT_BYTES_MAX: usize = u8::MAX as usize;

impl CustomFilters {
    /// Adds a filter.
    pub fn add(&mut self, filter: Arc<dyn CustomFilter>) {
        self.0.push(filter);
    }

    /// The one that new segments get.
    #[must_use]
    pub fn first(&self) -> Option<&Arc<dyn CustomFilter>> {
        self.0.first()
    }

    fn named(&self, name: &str) -> Option<&Arc<dyn CustomFilter>> {
        self.0.iter().find(|filter| filter.name() == name)
    }

    /// Checks names and parameters.
    ///
    /// # Errors
    ///
    /// A sentence that says which name or parameters cannot be stored.
    pub fn check(&self) -> Result<(), String> {
        for (at, filter) in self.0.iter().enumerate() {
            let name = filter.name();
            if name.is_empty() || name.len() > TEXT_BYTES_MAX {
                return Err(format!(
                    "a custom filter has a name of {} bytes: choose one of 1 to {TEXT_BYTES_MAX}",
                    name.len()
                ));
            }
            if filter.parameters().len() > TEXT_BYTES_MAX {
                return Err(format!(
                    "the parameters of the custom filter {name:?} are longer than {TEXT_BYTES_MAX} \
                     bytes: shorten them"
                ));
            }
            if self.0[..at].iter().any(|before| before.name() == name) {
                return Err(format!(
                    "two custom filters have the name {name:?}: give each a name of its own"
                ));
            }
        }
        Ok(())
    }
}

/// First byte of the header. Written to disk; must not be changed.
const VERSION: u8 = 1;
/// Bytes of the header before the name.
const FIXED_BYTES: usize = 16;

/// Builds the filter of a segment and asks it for every key.
///
/// # Errors
///
/// A sentence that says why there is no filter.
pub(crate) fn build(filter: &dyn CustomFilter, hashes: &[KeyHash]) -> Result<Built, String> {
    let name = filter.name();
    let quietly = |what: &str| format!("the custom filter {name:?} {what}");
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        let bytes = filter.build(hashes).map_err(|error| error.to_string())?;
        let parameters = filter.parameters();
        let opened = filter.open(&parameters, &bytes);
        let opened = opened.map_err(|error| error.to_string())?;
        if !hashes.iter().all(|hash| opened.may_contain(*hash)) {
            return Err("it denies a key that it was built from".to_owned());
        }
        let header = encode((name, &parameters), hashes.len() as u64, &bytes)?;
        Ok((header, opened.expected_rate()))
    }));
    match attempt {
        Ok(Ok((header, rate))) => Ok(Built {
            kind: FilterKind::Custom,
            header,
            body: Vec::new(),
            equal_hashes: false,
            designed_rate: rate.unwrap_or(f64::NAN),
        }),
        Ok(Err(why)) => Err(quietly(&format!("was not built: {why}"))),
        Err(_panic) => Err(quietly("was not built: it panicked")),
    }
}

fn encode((name, parameters): (&str, &str), keys: u64, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let length = |text: &str| {
        let length = u8::try_from(text.len());
        length.map_err(|_too_long| format!("{text:?} is longer than {TEXT_BYTES_MAX} bytes"))
    };
    let mut header = vec![VERSION, length(name)?, length(parameters)?];
    header.extend([0; 5]);
    header.extend(keys.to_le_bytes());
    header.extend(name.as_bytes());
    header.extend(parameters.as_bytes());
    header.extend(bytes);
    Ok(header)
}

/// The filter of a segment, if the program has brought one of its name.
pub(crate) struct Custom {
    name: String,
    parameters: String,
    key_count: u64,
    stored_bytes: usize,
    /// `None`: the program has no filter of this name.
    opened: Option<Box<dyn OpenFilter>>,
    panics: AtomicU64,
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom")
            .field("name", &self.name)
            .field("parameters", &self.parameters)
            .field("key_count", &self.key_count)
            .finish_non_exhaustive()
    }
}

impl Custom {
    pub(crate) fn parse(header: &[u8], body_words: u64, filters: &CustomFilters) -> Result<Self> {
        let mut fields = Fields::new(header);
        let version = fields.u8("custom header: version cut short")?;
        require(version == VERSION, "custom header: unknown version")?;
        let name = fields.u8("custom header: length of the name cut short")?;
        require(name > 0, "custom header: there is no name")?;
        let parameters = fields.u8("custom header: length of the parameters cut short")?;
        let reserved = fields.bytes(5, "custom header: reserved bytes cut short")?;
        require(reserved == [0; 5], "custom header: reserved bytes not zero")?;
        let key_count = fields.u64("custom header: key count cut short")?;
        let mut text = |len: u8, what| {
            let bytes = fields.bytes(u64::from(len), what)?;
            let text = std::str::from_utf8(bytes);
            text.map_err(|_not_utf8| Error::field("custom header: a text is not UTF-8"))
        };
        let name = text(name, "custom header: name cut short")?;
        let parameters = text(parameters, "custom header: parameters cut short")?;
        require(body_words == 0, "custom header: there is a body")?;
        let begin = FIXED_BYTES + name.len() + parameters.len();
        let bytes = header.get(begin..).unwrap_or_default();
        let open = |filter: &Arc<dyn CustomFilter>| {
            let opened = catch_unwind(AssertUnwindSafe(|| filter.open(parameters, bytes)));
            let opened =
                opened.map_err(|_panic| Error::field("custom filter: opening it panicked"))?;
            opened.map_err(|_error| Error::field("custom filter: it does not open its bytes"))
        };
        Ok(Self {
            name: name.to_owned(),
            parameters: parameters.to_owned(),
            key_count,
            stored_bytes: bytes.len(),
            opened: filters.named(name).map(open).transpose()?,
            panics: AtomicU64::new(0),
        })
    }

    pub(crate) fn ask(&self, hash: KeyHash) -> Answer {
        let Some(opened) = &self.opened else {
            return Answer::Maybe;
        };
        match catch_unwind(AssertUnwindSafe(|| opened.may_contain(hash))) {
            Ok(false) => Answer::No,
            Ok(true) => Answer::Maybe,
            Err(_panic) => {
                self.panics.fetch_add(1, Ordering::Relaxed);
                Answer::Maybe
            }
        }
    }

    /// Name and parameters, and whether the program brought the filter.
    pub(crate) fn describe(&self) -> String {
        let Self {
            name, parameters, ..
        } = self;
        let mut text = name.clone();
        if !parameters.is_empty() {
            text = format!("{name} ({parameters})");
        }
        if self.opened.is_none() {
            text.push_str(", which this program does not have");
        }
        text
    }

    pub(crate) fn is_of(&self, filter: &dyn CustomFilter) -> bool {
        self.opened.is_some()
            && (&*self.name, &self.parameters) == (filter.name(), &filter.parameters())
    }

    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    pub(crate) fn designed_rate(&self) -> f64 {
        let rate = self
            .opened
            .as_ref()
            .map_or(Some(1.0), |opened| opened.expected_rate());
        rate.unwrap_or(f64::NAN)
    }

    /// Bits of the stored bytes for each key.
    pub(crate) fn bits_mean(&self) -> f64 {
        self.stored_bytes as f64 * 8.0 / self.key_count.max(1) as f64
    }

    pub(crate) fn key_count(&self) -> u64 {
        self.key_count
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let opened = self
            .opened
            .as_ref()
            .map_or(0, |opened| opened.memory_bytes());
        self.name.len() + self.parameters.len() + opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Filter;

    /// Knows the least hash alone, or breaks a promise.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Plan {
        Whole,
        Denies,
        Refuses,
        Panics,
        PanicsInLookups,
    }

    impl CustomFilter for Plan {
        fn name(&self) -> &str {
            "plan"
        }

        fn parameters(&self) -> String {
            format!("{self:?}")
        }

        fn build(&self, hashes: &[KeyHash]) -> Result<Vec<u8>> {
            match self {
                Plan::Refuses => Err(Error::Invalid("no such filter".to_owned())),
                Plan::Panics => panic!("planned"),
                _ => Ok(hashes
                    .iter()
                    .flat_map(|hash| hash.0.to_le_bytes())
                    .collect()),
            }
        }

        fn open(&self, parameters: &str, bytes: &[u8]) -> Result<Box<dyn OpenFilter>> {
            if parameters != format!("{self:?}") {
                return Err(Error::Invalid("of another plan".to_owned()));
            }
            Ok(Box::new(Opened(*self, bytes.to_vec())))
        }
    }

    struct Opened(Plan, Vec<u8>);

    impl OpenFilter for Opened {
        fn may_contain(&self, hash: KeyHash) -> bool {
            assert!(self.0 != Plan::PanicsInLookups || hash.0 < 1000, "planned");
            let is_there = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes) == hash.0;
            self.0 != Plan::Denies && self.1.as_chunks().0.iter().any(is_there)
        }

        fn memory_bytes(&self) -> usize {
            self.1.len()
        }
    }

    fn customs(plan: Plan) -> CustomFilters {
        let mut customs = CustomFilters::default();
        customs.add(Arc::new(plan));
        customs
    }

    fn built(plan: Plan) -> Result<Built, String> {
        build(&plan, &[KeyHash(3), KeyHash(9)])
    }

    fn opened(built: &Built, customs: &CustomFilters) -> Result<Filter> {
        Filter::parse_with(FilterKind::Custom, &built.header, 0, customs)
    }

    #[test]
    fn a_filter_of_the_program_is_asked() {
        let built = built(Plan::Whole).unwrap();
        let filter = opened(&built, &customs(Plan::Whole)).unwrap();
        assert_eq!(filter.ask(KeyHash(9), &[]), Answer::Maybe);
        assert_eq!(filter.ask(KeyHash(8), &[]), Answer::No);
        assert_eq!(filter.custom_name().unwrap(), "plan (Whole)");
        assert_eq!((filter.key_count(), filter.r_bits()), (2, 64.0));
        assert!(filter.resident_bytes() >= 16);
        assert!(filter.is_of(&Plan::Whole) && !filter.is_of(&Plan::Denies));
    }

    #[test]
    fn without_the_filter_of_that_name_every_key_may_be_there() {
        let built = built(Plan::Whole).unwrap();
        let filter = opened(&built, &CustomFilters::default()).unwrap();
        assert_eq!(filter.ask(KeyHash(8), &[]), Answer::Maybe);
        let name = filter.custom_name().unwrap();
        assert!(name.contains("does not have"), "{name}");
    }

    #[test]
    fn what_breaks_its_promise_is_not_written() {
        for (plan, why) in [
            (Plan::Denies, "denies a key"),
            (Plan::Refuses, "no such filter"),
            (Plan::Panics, "panicked"),
        ] {
            let message = built(plan).unwrap_err();
            assert!(
                message.contains(why) && message.contains("plan"),
                "{message}"
            );
        }
    }

    #[test]
    fn a_panic_in_a_lookup_counts_as_maybe() {
        let built = built(Plan::PanicsInLookups).unwrap();
        let filter = opened(&built, &customs(Plan::PanicsInLookups)).unwrap();
        assert_eq!(filter.ask(KeyHash(8), &[]), Answer::No);
        assert_eq!(filter.panics(), 0);
        assert_eq!(filter.ask(KeyHash(5000), &[]), Answer::Maybe);
        assert_eq!(filter.panics(), 1);
    }

    #[test]
    fn damaged_headers_do_no_harm() {
        let whole = built(Plan::Whole).unwrap();
        let customs = customs(Plan::Whole);
        for len in 0..FIXED_BYTES + 9 {
            let header = whole.header[..len].to_vec();
            assert!(
                opened(
                    &Built {
                        header,
                        ..whole.clone()
                    },
                    &customs
                )
                .is_err(),
                "{len}"
            );
        }
        for at in 0..whole.header.len() {
            for change in [1, 0x80, 0xff] {
                let mut header = whole.header.clone();
                header[at] ^= change;
                if let Ok(filter) = opened(
                    &Built {
                        header,
                        ..whole.clone()
                    },
                    &customs,
                ) {
                    assert!(
                        filter.key_count() != 2
                            || filter.ask(KeyHash(3), &[]) != Answer::No
                            || at >= FIXED_BYTES
                    );
                }
            }
        }
        assert!(Filter::parse(FilterKind::Custom, &whole.header, 1).is_err());
        let other = opened(&whole, &self::customs(Plan::Denies));
        assert!(other.is_err(), "a filter that refuses its bytes is damaged");
    }

    #[test]
    fn names_are_checked() {
        #[derive(Debug)]
        struct Named(String);

        impl CustomFilter for Named {
            fn name(&self) -> &str {
                &self.0
            }

            fn build(&self, _: &[KeyHash]) -> Result<Vec<u8>> {
                Ok(Vec::new())
            }

            fn open(&self, _: &str, _: &[u8]) -> Result<Box<dyn OpenFilter>> {
                Err(Error::Invalid(String::new()))
            }
        }

        let check = |names: &[&str]| {
            let mut customs = CustomFilters::default();
            for name in names {
                customs.add(Arc::new(Named((*name).to_owned())));
            }
            customs.check()
        };
        assert!(check(&["a", "b"]).is_ok() && check(&[]).is_ok());
        assert!(check(&["a", "a"]).unwrap_err().contains("of its own"));
        assert!(check(&[""]).unwrap_err().contains("1 to 255"));
        assert!(check(&[&"n".repeat(256)]).unwrap_err().contains("1 to 255"));
    }
}
