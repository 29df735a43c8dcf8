//! The structures.

use criba::BloomierBits;
use criba_filters::segment::{Answer, Build, Filter, FilterKind, FilterSpec, Place, build};
use criba_filters::{Blocked, Fuse, KeyHash, Membership};
use dsi_progress_logger::no_logging;
use fastbloom::BloomFilter;
use lsm_tree::table::filter::ribbon::burr::{BurrBuilder, BurrParams, contains_hash_from_bytes};
use mem_dbg::{MemSize, SizeFlags};
use sux::bits::BitFieldVec;
use sux::dict::VFilter;
use sux::func::VBuilder;
use sux::utils::FromSlice;
use xorf::{BinaryFuse8, Filter as _};

use super::{Line, Question, Set, measure};
use crate::engine::Result;

/// A structure to be measured.
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// The only rate it can have, as bits.
    only: Option<u32>,
    pub(super) measure: fn(&Peer, &Question<'_>, (u32, u64)) -> Result<Line>,
}

impl Peer {
    pub(super) fn can(&self, bits: u32) -> bool {
        self.only.is_none_or(|only| only == bits)
    }
}

pub(super) const PEERS: [Peer; 8] = [
    peer::<Ribbon>("criba, ribbon"),
    peer::<Bloom>("criba, blocked Bloom"),
    peer::<Fuse>("criba, binary fuse"),
    peer::<Burr>("coordinode-lsm-tree, ribbon"),
    Peer {
        name: "xorf, binary fuse",
        only: Some(8),
        measure: measure::<BinaryFuse8>,
    },
    Peer {
        name: "sux, fuse, bytes",
        only: Some(8),
        measure: measure::<SuxBytes>,
    },
    peer::<SuxBits>("sux, fuse, bits"),
    peer::<BloomFilter>("fastbloom"),
];

const fn peer<S: Set>(name: &'static str) -> Peer {
    Peer {
        name,
        only: None,
        measure: measure::<S>,
    }
}

/// A filter of segments.
struct Segment {
    filter: Filter,
    kind: FilterKind,
    header: Vec<u8>,
    /// Begins at a cache line, after words that are skipped.
    body: Vec<u64>,
    skip: usize,
}

impl Segment {
    fn build(keys: &[u64], spec: FilterSpec) -> Result<Self> {
        let hashes: Vec<KeyHash> = keys.iter().map(|&key| KeyHash(key)).collect();
        let built = build(&Build {
            spec,
            salt: 7,
            hashes: &hashes,
            // One block, so that a value is nothing but its check.
            places: &vec![Place { block: 0, slot: 0 }; keys.len()],
            block_count: 1,
            max_slot: 0,
        });
        Self::new(built.kind, built.header, &built.body)
    }

    fn new(kind: FilterKind, header: Vec<u8>, words: &[u64]) -> Result<Self> {
        let filter = Filter::parse(kind, &header, words.len() as u64)?;
        let mut body = Vec::<u64>::with_capacity(words.len() + 8);
        let skip = (64 - body.as_ptr().addr() % 64) % 64 / 8;
        body.resize(skip, 0);
        body.extend(words);
        Ok(Self {
            filter,
            kind,
            header,
            body,
            skip,
        })
    }

    fn bits(&self) -> u64 {
        (self.header.len() * 8 + (self.body.len() - self.skip) * 64) as u64
    }

    #[inline]
    fn has(&self, key: u64) -> bool {
        self.filter.ask(KeyHash(key), &self.body[self.skip..]) != Answer::No
    }
}

impl Clone for Segment {
    fn clone(&self) -> Self {
        Self::new(self.kind, self.header.clone(), &self.body[self.skip..])
            .expect("it was read before")
    }
}

#[derive(Clone)]
struct Ribbon(Segment);

impl Set for Ribbon {
    fn build(keys: &[u64], bits: u32) -> Result<Self> {
        let bits = BloomierBits::Rejecting(f64::from(bits));
        Segment::build(keys, FilterSpec::Bloomier(bits)).map(Self)
    }

    fn bits(&self) -> u64 {
        self.0.bits()
    }

    #[inline]
    fn has(&self, key: u64) -> bool {
        self.0.has(key)
    }
}

#[derive(Clone)]
struct Bloom(Segment);

impl Set for Bloom {
    /// With as many bits per key as the rate takes, which lines make more than for a classic one.
    fn build(keys: &[u64], bits: u32) -> Result<Self> {
        let (rate, count) = ((-f64::from(bits)).exp2(), keys.len() as u64);
        let (mut few, mut many) = (1.0, 64.0);
        while many - few > 0.001 {
            let bits_per_key = f64::midpoint(few, many);
            if Blocked::rate_for(count, bits_per_key) > rate {
                few = bits_per_key;
            } else {
                many = bits_per_key;
            }
        }
        let spec = FilterSpec::Bloom { bits_per_key: many };
        Segment::build(keys, spec).map(Self)
    }

    fn bits(&self) -> u64 {
        self.0.bits()
    }

    #[inline]
    fn has(&self, key: u64) -> bool {
        self.0.has(key)
    }
}

/// It takes bytes, and so hashes once more than the others.
impl Set for Fuse {
    fn build(keys: &[u64], bits: u32) -> Result<Self> {
        let keys: Vec<[u8; 8]> = keys.iter().map(|key| key.to_le_bytes()).collect();
        Ok(Self::set(&keys, bits)?)
    }

    fn bits(&self) -> u64 {
        Membership::bits(self)
    }

    #[inline]
    fn has(&self, key: u64) -> bool {
        self.may_contain(&key.to_le_bytes())
    }
}

/// What its tables store, asked as they ask it. Not part of its documented interface.
#[derive(Clone)]
struct Burr(Vec<u8>);

impl Set for Burr {
    fn build(keys: &[u64], bits: u32) -> Result<Self> {
        let params = BurrParams::with_bpk(keys.len(), bits as f32);
        let params = params.map_err(|error| format!("{error:?}"))?;
        let filter = BurrBuilder::new(params).and_then(|builder| builder.build_from_hashes(keys));
        Ok(Self(
            filter
                .map_err(|error| format!("{error:?}"))?
                .to_wire_bytes(),
        ))
    }

    fn bits(&self) -> u64 {
        self.0.len() as u64 * 8
    }

    #[inline]
    fn has(&self, key: u64) -> bool {
        contains_hash_from_bytes(&self.0, key).unwrap_or(true)
    }
}

impl Set for BinaryFuse8 {
    fn build(keys: &[u64], _: u32) -> Result<Self> {
        Ok(Self::try_from(keys)?)
    }

    fn bits(&self) -> u64 {
        self.len() as u64 * 8
    }

    #[inline]
    fn has(&self, key: u64) -> bool {
        self.contains(&key)
    }
}

/// Both of this crate hash the key once more.
type SuxBytes = VFilter<u64, Box<[u8]>>;
type SuxBits = VFilter<u64, BitFieldVec<Box<[usize]>>>;

impl Set for SuxBytes {
    fn build(keys: &[u64], _: u32) -> Result<Self> {
        let builder = VBuilder::default().max_num_threads(1);
        let built = Self::try_new_with_builder(FromSlice::new(keys), builder, no_logging![]);
        Ok(built?)
    }

    fn bits(&self) -> u64 {
        self.mem_size(SizeFlags::default()) as u64 * 8
    }

    #[inline]
    fn has(&self, key: u64) -> bool {
        self.contains(key)
    }
}

impl Set for SuxBits {
    fn build(keys: &[u64], bits: u32) -> Result<Self> {
        let (bits, builder) = (bits as usize, VBuilder::default().max_num_threads(1));
        let built = Self::try_new_with_builder(FromSlice::new(keys), bits, builder, no_logging![]);
        Ok(built?)
    }

    fn bits(&self) -> u64 {
        self.mem_size(SizeFlags::default()) as u64 * 8
    }

    #[inline]
    fn has(&self, key: u64) -> bool {
        self.contains(key)
    }
}

impl Set for BloomFilter {
    fn build(keys: &[u64], bits: u32) -> Result<Self> {
        let rate = (-f64::from(bits)).exp2();
        let mut filter = Self::with_false_pos(rate).expected_items(keys.len());
        for &key in keys {
            filter.insert_hash(key);
        }
        Ok(filter)
    }

    fn bits(&self) -> u64 {
        self.num_bits() as u64
    }

    #[inline]
    fn has(&self, key: u64) -> bool {
        self.contains_hash(key)
    }
}
