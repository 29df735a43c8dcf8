//! Choices as words of the command line: filters, compression, durability, residency, sizes.
//!
//! Each is parsed and named in one spelling, so that what a report prints can be typed again. The
//! bounds of numbers are the library's business: it checks them at `open`.

use std::fmt;
use std::sync::Arc;

use criba::operator::{MergeOperator, Merged, named};
use criba::{
    BloomierBits, Builder, Compression, Durability, FilterPolicy, FilterResidency, Strategy,
};
use criba_filters::{Shape, ShapeFilter};

/// `none`, `bloom:10`, `bloomier:block`, `bloomier:slot`, `bloomier:12.5`, `rejecting:10`,
/// `budget:10`, and, to compare with, those of [`Shape`] by name: `classic:10`.
pub(crate) fn filter(text: &str) -> Result<FilterChoice, String> {
    let unknown = || {
        format!(
            "{text} is no filter; choose none, bloom:BITS, bloomier:block, bloomier:slot, \
             bloomier:BITS, rejecting:BITS, budget:BITS, or, to compare with, classic, \
             partitioned, peeled, fuse, ensemble, hierarchical, compressed, hybrid, cuckoo or \
             quotient and :BITS"
        )
    };
    let bits = |text: &str| text.parse::<f64>().ok().filter(|bits| bits.is_finite());
    let number_of = |number| bits(number).ok_or_else(unknown);
    let policy = match text.split_once(':') {
        None if text == "none" => FilterPolicy::None,
        Some(("bloom", number)) => FilterPolicy::Bloom {
            bits_per_key: number_of(number)?,
        },
        Some(("bloomier", "block")) => FilterPolicy::Bloomier(BloomierBits::Block),
        Some(("bloomier", "slot")) => FilterPolicy::Bloomier(BloomierBits::Slot),
        Some(("bloomier", number)) => {
            FilterPolicy::Bloomier(BloomierBits::BitsPerKey(number_of(number)?))
        }
        Some(("rejecting", number)) => {
            FilterPolicy::Bloomier(BloomierBits::Rejecting(number_of(number)?))
        }
        Some(("budget", number)) => FilterPolicy::Budget {
            bits_per_key: number_of(number)?,
        },
        Some((word, number)) => {
            let named = |shape: &Shape| shape.name() == word;
            let shape = Shape::ALL.into_iter().find(named).ok_or_else(unknown)?;
            let bits = number_of(number)?;
            if !(1.0..=64.0).contains(&bits) {
                return Err(format!("{bits} bits per key; choose 1 to 64"));
            }
            return Ok(FilterChoice::Shape(shape.filter(bits)));
        }
        None => return Err(unknown()),
    };
    Ok(FilterChoice::Policy(policy))
}

/// An operator by its name: a ready one, or one that keeps the place of another program's.
pub(crate) fn operator(name: &str) -> Result<Operator, String> {
    if !(1..=255).contains(&name.len()) {
        return Err("the name of an operator has 1 to 255 bytes".into());
    }
    let elsewhere = || Arc::new(Elsewhere(name.to_owned())) as Arc<dyn MergeOperator>;
    Ok(Operator(named(name).unwrap_or_else(elsewhere)))
}

/// An operator that was chosen.
#[derive(Clone)]
pub(crate) struct Operator(pub(crate) Arc<dyn MergeOperator>);

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.name().fmt(f)
    }
}

/// An operator that only its program has: operands can be written, and not be combined.
struct Elsewhere(String);

impl MergeOperator for Elsewhere {
    fn name(&self) -> &str {
        &self.0
    }

    fn merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Merged {
        Err("this program does not have the operator".into())
    }
}

/// A filter that can be chosen: one of the store, or one of the literature.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum FilterChoice {
    Policy(FilterPolicy),
    Shape(ShapeFilter),
}

impl FilterChoice {
    /// The store's policy, which leaves open what a shape is.
    pub(crate) fn policy(self) -> FilterPolicy {
        match self {
            FilterChoice::Policy(policy) => policy,
            FilterChoice::Shape(_) => FilterPolicy::Custom,
        }
    }

    pub(crate) fn is_none(self) -> bool {
        self.policy() == FilterPolicy::None
    }

    /// Gives it to a store; one that exists is read with all shapes.
    pub(crate) fn choose(self, builder: Builder) -> Builder {
        let builder = builder.filter(self.policy());
        match self {
            FilterChoice::Policy(_) => with_shapes(builder, None),
            FilterChoice::Shape(filter) => {
                with_shapes(builder.custom_filter(filter), Some(filter.shape()))
            }
        }
    }
}

/// Gives a store all filters of the literature, so that it can read segments that carry one. The
/// caller has given it the shape `but` already.
pub(crate) fn with_shapes(builder: Builder, but: Option<Shape>) -> Builder {
    let others = Shape::ALL.into_iter().filter(|shape| Some(*shape) != but);
    // The bits matter only where filters are built.
    others.fold(builder, |builder, shape| {
        builder.custom_filter(shape.filter(10.0))
    })
}

/// The word that [`filter`] reads.
pub(crate) fn filter_name(choice: FilterChoice) -> String {
    let policy = match choice {
        FilterChoice::Policy(policy) => policy,
        FilterChoice::Shape(filter) => {
            return format!("{}:{}", filter.shape().name(), filter.bits_per_key());
        }
    };
    match policy {
        FilterPolicy::None => "none".into(),
        FilterPolicy::Bloom { bits_per_key } => format!("bloom:{bits_per_key}"),
        FilterPolicy::Bloomier(BloomierBits::Block) => "bloomier:block".into(),
        FilterPolicy::Bloomier(BloomierBits::Slot) => "bloomier:slot".into(),
        FilterPolicy::Bloomier(BloomierBits::BitsPerKey(bits)) => format!("bloomier:{bits}"),
        FilterPolicy::Bloomier(BloomierBits::Rejecting(bits)) => format!("rejecting:{bits}"),
        FilterPolicy::Budget { bits_per_key } => format!("budget:{bits_per_key}"),
        other => format!("{other:?}"),
    }
}

/// A filter of a study: named whole, or by a word that `--bits` completes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum StudyFilter {
    /// `bloom`: the same bits for every key.
    UniformBloom,
    /// `bloomier-uniform`: the same bits for every key.
    UniformBloomier,
    /// `budget`: Bloomier filters with so many bits on average, shared out over the tree.
    Budget,
    /// As [`filter`] reads it.
    Whole(FilterChoice),
}

impl StudyFilter {
    /// The filter. It takes `bits_per_key` if the word leaves the bits open.
    pub(crate) fn choice(self, bits_per_key: f64) -> FilterChoice {
        FilterChoice::Policy(match self {
            StudyFilter::UniformBloom => FilterPolicy::Bloom { bits_per_key },
            StudyFilter::UniformBloomier => {
                FilterPolicy::Bloomier(BloomierBits::BitsPerKey(bits_per_key))
            }
            StudyFilter::Budget => FilterPolicy::Budget { bits_per_key },
            StudyFilter::Whole(choice) => return choice,
        })
    }

    /// The word that [`study_filter`] reads.
    pub(crate) fn name(self) -> String {
        match self {
            StudyFilter::UniformBloom => "bloom".into(),
            StudyFilter::UniformBloomier => "bloomier-uniform".into(),
            StudyFilter::Budget => "budget".into(),
            StudyFilter::Whole(choice) => filter_name(choice),
        }
    }
}

/// `bloom`, `bloomier-uniform`, `budget`, or what [`filter`] reads.
pub(crate) fn study_filter(text: &str) -> Result<StudyFilter, String> {
    match text {
        "bloom" => Ok(StudyFilter::UniformBloom),
        "bloomier-uniform" => Ok(StudyFilter::UniformBloomier),
        "budget" => Ok(StudyFilter::Budget),
        _ => filter(text).map(StudyFilter::Whole),
    }
}

/// `leveled`, `tiered` or `lazy-leveled`.
pub(crate) fn strategy(text: &str) -> Result<Strategy, String> {
    match text {
        "leveled" => Ok(Strategy::Leveled),
        "tiered" => Ok(Strategy::Tiered),
        "lazy-leveled" => Ok(Strategy::LazyLeveled),
        _ => Err(format!(
            "{text} is no strategy; choose leveled, tiered or lazy-leveled"
        )),
    }
}

/// The word that [`strategy`] reads.
pub(crate) fn strategy_name(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Leveled => "leveled",
        Strategy::Tiered => "tiered",
        Strategy::LazyLeveled => "lazy-leveled",
        Strategy::Fifo { .. } => "fifo",
        _ => "another strategy",
    }
}

/// `none`, `lz4` or `zstd:LEVEL`.
pub(crate) fn compression(text: &str) -> Result<Compression, String> {
    match text.split_once(':') {
        None if text == "none" => Some(Compression::None),
        None if text == "lz4" => Some(Compression::Lz4),
        Some(("zstd", level)) => level.parse().ok().map(|level| Compression::Zstd { level }),
        _ => None,
    }
    .ok_or_else(|| format!("{text} is no compression; choose none, lz4 or zstd:LEVEL, say zstd:3"))
}

/// `buffered`, `process` or `sync`.
pub(crate) fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "buffered" => Ok(Durability::Buffered),
        "process" => Ok(Durability::Process),
        "sync" => Ok(Durability::Sync),
        _ => Err(format!(
            "{text} is no durability; choose buffered, process or sync"
        )),
    }
}

/// `pinned`, `shared` or `cached:BYTES`.
pub(crate) fn residency(text: &str) -> Result<FilterResidency, String> {
    match text.split_once(':') {
        None if text == "pinned" => Ok(FilterResidency::Pinned),
        None if text == "shared" => Ok(FilterResidency::Shared),
        Some(("cached", number)) => Ok(FilterResidency::Cached {
            bytes: bytes(number)?,
        }),
        _ => Err(format!(
            "{text} is no residency; choose pinned, shared or cached:BYTES, say cached:1MiB"
        )),
    }
}

/// The word that [`residency`] reads.
pub(crate) fn residency_name(residency: FilterResidency) -> String {
    match residency {
        FilterResidency::Pinned => "pinned".into(),
        FilterResidency::Shared => "shared".into(),
        FilterResidency::Cached { bytes } => format!("cached:{}", bytes_name(bytes)),
        other => format!("{other:?}"),
    }
}

/// Bits for each key; fractions count.
pub(crate) fn bits_per_key(text: &str) -> Result<f64, String> {
    let bits = text.parse().ok().filter(|bits| (1.0..=64.0).contains(bits));
    bits.ok_or_else(|| format!("{text} is no number of bits for a key; choose 1 to 64"))
}

/// A number of bytes, with an optional unit of KiB, MiB or GiB.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" | "B" => Some(0),
        "K" | "KiB" => Some(10),
        "M" | "MiB" => Some(20),
        "G" | "GiB" => Some(30),
        _ => None,
    };
    number
        .parse::<u64>()
        .ok()
        .zip(shift)
        .and_then(|(number, shift)| number.checked_mul(1 << shift))
        .ok_or_else(|| format!("{text} is no number of bytes; write 65536, 64KiB or 64MiB"))
}

/// The shortest exact text that [`bytes`] reads.
pub(crate) fn bytes_name(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read_as_they_are_named() {
        for text in [
            "none",
            "bloom:10",
            "bloom:9.5",
            "bloomier:block",
            "bloomier:slot",
            "rejecting:10",
            "budget:10",
            "classic:10",
            "partitioned:9.5",
            "peeled:10",
            "fuse:12",
        ] {
            assert_eq!(filter_name(filter(text).unwrap()), text);
        }
        assert_eq!(
            filter("bloomier:12.5"),
            Ok(FilterChoice::Policy(FilterPolicy::Bloomier(
                BloomierBits::BitsPerKey(12.5)
            )))
        );
        for text in ["bloom", "bloomier-uniform", "budget", "bloom:9.5", "none"] {
            assert_eq!(study_filter(text).unwrap().name(), text);
        }
        for text in ["leveled", "tiered", "lazy-leveled"] {
            assert_eq!(strategy_name(strategy(text).unwrap()), text);
        }
        assert!(strategy("fifo").is_err());
    }

    #[test]
    fn other_filters_are_refused() {
        for text in [
            "",
            "None",
            "bloom",
            "bloom:",
            "bloom:x",
            "bloom:NaN",
            "bloom:inf",
            "ribbon:7",
        ] {
            assert!(filter(text).unwrap_err().contains("choose none"), "{text}");
        }
    }

    #[test]
    fn the_rest_is_read() {
        assert_eq!(compression("zstd:3"), Ok(Compression::Zstd { level: 3 }));
        assert_eq!(compression("lz4"), Ok(Compression::Lz4));
        assert!(compression("zstd").is_err() && compression("lz4:1").is_err());
        assert_eq!(durability("sync"), Ok(Durability::Sync));
        assert!(durability("SYNC").is_err());
        assert_eq!(
            residency("cached:1MiB"),
            Ok(FilterResidency::Cached { bytes: 1 << 20 })
        );
        assert_eq!(
            residency_name(residency("cached:1MiB").unwrap()),
            "cached:1MiB"
        );
        assert_eq!(residency_name(residency("shared").unwrap()), "shared");
        assert!(residency("cached").is_err() && residency("cached:-1").is_err());
    }

    #[test]
    fn bytes_have_units() {
        assert_eq!(bytes("0"), Ok(0));
        assert_eq!(bytes("64KiB"), Ok(65536));
        assert_eq!(bytes("2G"), Ok(2 << 30));
        for number in [0, 1, 1023, 1024, 1536, 3 << 20, (1 << 40) + 1024, u64::MAX] {
            assert_eq!(bytes(&bytes_name(number)), Ok(number));
        }
        for text in [
            "",
            "KiB",
            "1.5M",
            "-1",
            "1 K",
            "99999999999G",
            "1TB",
            "184467440737095516160",
        ] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
