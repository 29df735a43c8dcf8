//! Bits one after the other, the first in the lowest bit of the first word.

/// Bits that are being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Writer {
    words: Vec<u64>,
    len: usize,
}

impl Writer {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.len = 0;
    }

    /// The `width` low bits of `value`, which has no others. At most 64.
    pub(super) fn put(&mut self, value: u64, width: u32) {
        debug_assert!(width <= 64 && (width == 64 || value >> width == 0));
        if width == 0 {
            return;
        }
        let at = (self.len % 64) as u32;
        match self.words.last_mut() {
            Some(last) if at > 0 => *last |= value << at,
            _ => self.words.push(value),
        }
        if at > 0 && at + width > 64 {
            self.words.push(value >> (64 - at));
        }
        self.len += width as usize;
    }

    /// The same for up to 128 bits.
    pub(super) fn put_long(&mut self, value: u128, width: u32) {
        let low = width.min(64);
        let mask = if low == 64 { u64::MAX } else { (1 << low) - 1 };
        self.put(value as u64 & mask, low);
        self.put((value >> 64) as u64, width - low);
    }

    /// `value` ones less one as zeros, then a one: 1 bit for 0. Without the one if `value` is the
    /// greatest that there can be.
    pub(super) fn put_unary(&mut self, value: u32, most: u32) {
        for _ in 0..value {
            self.put(0, 1);
        }
        if value < most {
            self.put(1, 1);
        }
    }

    /// A number that is often 0: Elias' gamma code of it and one (1975).
    pub(super) fn put_gamma(&mut self, value: u32) {
        let value = u64::from(value) + 1;
        let width = value.ilog2();
        self.put_unary(width, GAMMA_MOST);
        self.put(value & !(1 << width), width);
    }

    /// The bits of another writer behind these.
    pub(super) fn append(&mut self, other: &Writer) {
        let mut left = other.len;
        for word in &other.words {
            let width = left.min(64) as u32;
            self.put(*word, width);
            left -= width as usize;
        }
    }

    /// The bits as words, filled up with zeros.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// The bits as bytes, filled up with zeros.
    pub(super) fn bytes(&self) -> impl Iterator<Item = u8> {
        let bytes = self.words.iter().flat_map(|word| word.to_le_bytes());
        bytes.take(self.len.div_ceil(8))
    }
}

/// Widths of numbers in gamma code are below this.
const GAMMA_MOST: u32 = 33;

/// Bits that are being read. Behind the end it reads zeros, and remembers that.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    words: &'a [u64],
    at: usize,
    end: usize,
}

impl<'a> Reader<'a> {
    /// Bits `at` to `end` of the words.
    pub(super) fn new(words: &'a [u64], at: usize, end: usize) -> Reader<'a> {
        let end = end.min(words.len() * 64);
        Reader { words, at, end }
    }

    /// Whether more was read than there is.
    pub(super) fn is_overrun(&self) -> bool {
        self.at > self.end
    }

    pub(super) fn skip(&mut self, bits: u64) {
        let bits = usize::try_from(bits).unwrap_or(usize::MAX);
        self.at = self.at.saturating_add(bits).min(self.end + 1);
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or(0)
    }

    /// The next 64 bits, wherever they begin.
    #[inline]
    fn peek(&self) -> u64 {
        let (word, shift) = (self.at / 64, self.at % 64);
        let low = self.word(word) >> shift;
        // In two steps, as a shift by 64 is none.
        low | (self.word(word + 1) << 1 << (63 - shift))
    }

    #[inline]
    pub(super) fn get(&mut self, width: u32) -> u64 {
        debug_assert!(width <= 64);
        if width == 0 {
            return 0;
        }
        let value = self.peek() & (u64::MAX >> (64 - width));
        self.at += width as usize;
        value
    }

    #[inline]
    pub(super) fn get_long(&mut self, width: u32) -> u128 {
        let low = width.min(64);
        let value = u128::from(self.get(low));
        value | u128::from(self.get(width - low)) << 64
    }

    #[inline]
    pub(super) fn get_unary(&mut self, most: u32) -> u32 {
        let zeros = self.peek().trailing_zeros().min(most);
        if zeros < 64 || most <= 64 {
            self.at += (zeros + u32::from(zeros < most)) as usize;
            return zeros;
        }
        // More zeros than a word has: numbers of a block with very many keys.
        self.at += 64;
        64 + self.get_unary(most - 64)
    }

    #[inline]
    pub(super) fn get_gamma(&mut self) -> u32 {
        let width = self.get_unary(GAMMA_MOST);
        let value = (1 << width) | self.get(width);
        u32::try_from(value - 1).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let numbers = [0, 1, 2, 3, 7, 8, 100, 1 << 20, u32::MAX];
        let mut writer = Writer::default();
        writer.put(5, 3);
        for number in numbers {
            writer.put_gamma(number);
            writer.put_long(u128::from(number) << 90, 128);
            writer.put(number.into(), 32);
            writer.put_unary(number % 200, 200);
        }
        let mut behind = Writer::default();
        behind.put(1, 1);
        behind.append(&writer);
        let bytes: Vec<u8> = behind.bytes().collect();
        assert_eq!(bytes.len(), behind.len().div_ceil(8));
        let mut reader = Reader::new(&behind.words, 1, behind.len());
        assert_eq!(reader.get(3), 5);
        for number in numbers {
            assert_eq!(reader.get_gamma(), number);
            assert_eq!(reader.get_long(128), u128::from(number) << 90);
            assert_eq!(reader.get(32), u64::from(number));
            assert_eq!(reader.get_unary(200), number % 200);
        }
        assert!(!reader.is_overrun());
        assert_eq!(reader.get(64), 0);
        assert!(reader.is_overrun());
    }

    #[test]
    fn nothing_is_read_behind_the_end() {
        let mut reader = Reader::new(&[], 0, 100);
        assert_eq!(reader.get_gamma(), u32::MAX);
        assert_eq!((reader.get(64), reader.get_unary(500)), (0, 500));
        assert!(reader.is_overrun());
        reader.skip(u64::MAX);
        assert_eq!(reader.get(3), 0);
    }
}
