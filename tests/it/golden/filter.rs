//! The decoder's part for filters: "How a hash is split" and what follows it in the document.

use super::reader::Reader;

/// What a filter says; the block is as much of the ordinal as is stored.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Answer {
    No,
    Maybe,
    /// The first and the last of the blocks that are meant.
    At {
        blocks: (u64, u64),
        slot: Option<u64>,
    },
}

#[derive(Debug)]
pub(super) struct Filter {
    salt: u64,
    body: Vec<u64>,
    family: Family,
}

#[derive(Debug)]
enum Family {
    Bloom { probes: u8, lines: u64 },
    Bloomier(Bloomier),
}

#[derive(Debug)]
struct Bloomier {
    has_slot: bool,
    has_highest: bool,
    greatest_slot: u64,
    block_count: u64,
    narrow: u64,
    wide: u64,
    /// Layers with thresholds bump, the tail has none.
    layers: Vec<Layer>,
    stash: Vec<(u64, u64)>,
}

#[derive(Debug)]
struct Layer {
    blocks: u64,
    split: u64,
    first_word: u64,
    thresholds: Option<Vec<u8>>,
}

fn scramble(mut x: u64) -> u64 {
    x ^= x >> 27;
    x = x.wrapping_mul(0x3c79_ac49_2ba7_b653);
    x ^= x >> 33;
    x = x.wrapping_mul(0x1c69_b3f7_4ac4_ae35);
    x ^ (x >> 27)
}

fn next_layer(mixed: u64) -> u64 {
    scramble(mixed.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// The high half of the product.
fn scaled(x: u64, n: u64) -> u64 {
    ((u128::from(x) * u128::from(n)) >> 64) as u64
}

fn bits_of(greatest: u64) -> u64 {
    64 - u64::from(greatest.leading_zeros())
}

fn low(value: u64, bits: u64) -> u64 {
    if bits >= 64 {
        value
    } else {
        value & ((1 << bits) - 1)
    }
}

impl Filter {
    pub(super) fn decode(reader: &mut Reader<'_>, kind: u8, body: Vec<u64>) -> Filter {
        let version = if kind == 2 { 2 } else { 1 };
        assert_eq!(reader.u8("version"), version);
        let words = body.len() as u64;
        let filter = match kind {
            1 => {
                let probes = reader.u8("probes");
                reader.zeros(2, "reserved");
                let lines = u64::from(reader.u32("lines"));
                assert_eq!(words, 8 * lines);
                let salt = u64::from_le_bytes(reader.bytes(8, "salt").try_into().unwrap());
                reader.u64("key count");
                let family = Family::Bloom { probes, lines };
                Filter { salt, body, family }
            }
            2 => {
                let (salt, bloomier) = Bloomier::decode(reader, words);
                let family = Family::Bloomier(bloomier);
                Filter { salt, body, family }
            }
            other => panic!("filter kind {other}"),
        };
        assert!(reader.is_at_end());
        filter
    }

    pub(super) fn ask(&self, hash: u64) -> Answer {
        let mixed = scramble(hash ^ self.salt);
        match &self.family {
            Family::Bloom { probes, lines } => {
                let line = scaled(mixed, *lines) as usize * 8;
                let mut x = mixed as u32;
                for _ in 0..*probes {
                    let bit = (x >> 23) as usize;
                    if self.body[line + bit / 64] >> (bit % 64) & 1 == 0 {
                        return Answer::No;
                    }
                    x = x.wrapping_mul(0x9e37_79b9);
                }
                Answer::Maybe
            }
            Family::Bloomier(bloomier) => bloomier.ask(mixed, &self.body),
        }
    }
}

impl Bloomier {
    fn decode(reader: &mut Reader<'_>, words: u64) -> (u64, Bloomier) {
        let flags = reader.u8("flags");
        assert!(flags <= 3);
        let greatest_slot = u64::from(reader.u16("greatest slot"));
        let block_count = u64::from(reader.u32("block count"));
        let salt = u64::from_le_bytes(reader.bytes(8, "salt").try_into().unwrap());
        reader.u64("key count");
        let narrow = u64::from(reader.u8("narrow"));
        let wide = u64::from(reader.u8("wide"));
        assert!(wide == narrow || wide == narrow + 1);
        let has_highest = narrow < bits_of(block_count.saturating_sub(1));
        assert_eq!(flags & 2 != 0, has_highest);
        let bumping = usize::from(reader.u8("layers"));
        let tails = usize::from(reader.u8("tail"));
        let stash_count = reader.u32("stash entries");
        let mut first_word = 0;
        let mut layers = Vec::new();
        for _ in 0..bumping + tails {
            let blocks = u64::from(reader.u32("layer: blocks"));
            let split = u64::from(reader.u32("layer: split"));
            layers.push(Layer {
                blocks,
                split,
                first_word,
                thresholds: None,
            });
            first_word += split * narrow + (blocks - split) * wide;
        }
        assert_eq!(first_word, words, "layers fill the body");
        for layer in layers.iter_mut().take(bumping) {
            let bytes = layer.starts().div_ceil(128).div_ceil(4) as usize;
            layer.thresholds = Some(reader.bytes(bytes, "layer: thresholds").to_vec());
        }
        let keys: Vec<u64> = (0..stash_count).map(|_| reader.u64("stash key")).collect();
        assert!(keys.is_sorted());
        let value_len = wide.div_ceil(8) as usize;
        let stash = keys
            .into_iter()
            .map(|key| (key, reader.number(value_len, "stash value")))
            .collect();
        let bloomier = Bloomier {
            has_slot: flags & 1 != 0,
            has_highest,
            greatest_slot,
            block_count,
            narrow,
            wide,
            layers,
            stash,
        };
        (salt, bloomier)
    }

    fn ask(&self, mixed: u64, body: &[u64]) -> Answer {
        let mut x = mixed.rotate_left(32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        x ^= x >> 32;
        let fingerprint = x;
        match self.value(mixed, body) {
            None => Answer::No,
            Some((stored, bits)) => self.meaning(stored ^ low(fingerprint, bits), bits),
        }
    }

    /// What is stored and how many bits it has.
    fn value(&self, mut mixed: u64, body: &[u64]) -> Option<(u64, u64)> {
        const BUMPED: [u64; 4] = [0, 22, 54, 128];
        for layer in &self.layers {
            let start = scaled(mixed, layer.starts());
            let Some(thresholds) = &layer.thresholds else {
                continue;
            };
            let bucket = start / 128;
            let code = thresholds[(bucket / 4) as usize] >> (bucket % 4 * 2) & 3;
            if start % 128 >= BUMPED[usize::from(code)] {
                return Some(self.read(layer, start, mixed, body));
            }
            mixed = next_layer(mixed);
        }
        if let Some((_, value)) = self.stash.iter().find(|(key, _)| *key == mixed) {
            return Some((*value, self.wide));
        }
        let tail = self
            .layers
            .last()
            .filter(|layer| layer.thresholds.is_none())?;
        let start = scaled(mixed, tail.starts());
        Some(self.read(tail, start, mixed, body))
    }

    fn read(&self, layer: &Layer, start: u64, mixed: u64, body: &[u64]) -> (u64, u64) {
        let mut x = mixed.wrapping_mul(0x9e6c_63d0_876a_9a47);
        x ^= x >> 32;
        let coefficients = x | 1;
        let (block, slot) = (start / 64, start % 64);
        let before_split = block.min(layer.split);
        let word =
            layer.first_word + before_split * self.narrow + (block - before_split) * self.wide;
        let planes = if block < layer.split {
            self.narrow
        } else {
            self.wide
        };
        let value = (0..planes).fold(0, |value, plane| {
            let at = (word + plane) as usize;
            let mut window = body[at] >> slot;
            if slot > 0 {
                window |= body[at + planes as usize] << (64 - slot);
            }
            value | u64::from((window & coefficients).count_ones() & 1) << plane
        });
        (value, planes)
    }

    fn meaning(&self, value: u64, bits: u64) -> Answer {
        let block_bits = bits_of(self.block_count.saturating_sub(1));
        let slot_bits = if self.has_slot {
            bits_of(self.greatest_slot)
        } else {
            0
        };
        let block = match self.has_highest {
            // As many as there are.
            true => (0..block_bits.min(bits)).fold(0, |block, bit| {
                block | (value >> bit & 1) << (block_bits - 1 - bit)
            }),
            false => low(value, block_bits),
        };
        let slot = low(value >> block_bits, slot_bits);
        let position_bits = block_bits + slot_bits;
        let rest = value >> position_bits;
        if rest != 0 || block >= self.block_count || slot > self.greatest_slot {
            return Answer::No;
        }
        let slot = self.has_slot.then_some(slot);
        let last = block + (1 << block_bits.saturating_sub(bits)) - 1;
        Answer::At {
            blocks: (block, last),
            slot,
        }
    }
}

impl Layer {
    fn starts(&self) -> u64 {
        64 * self.blocks - 63
    }
}
