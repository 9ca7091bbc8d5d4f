//! A Bloom filter that can be made smaller.

use super::encoder::Key;

/// Bits set and tested per key.
const PROBES: u64 = 5;
/// Bits per key when there is room: about one false positive in a thousand.
const BITS_PER_KEY: u64 = 16;
/// One word.
const MIN_BITS: u64 = 64;

/// Says of a key that it is certainly not among those added, or that it may be.
#[derive(Debug, Clone)]
pub(crate) struct BloomFilter {
    /// A power of two of words, so that one half can be laid over the other.
    words: Vec<u64>,
}

impl BloomFilter {
    /// Room for about `keys` keys.
    pub(crate) fn with_capacity(keys: u64) -> Self {
        let bits = keys.saturating_mul(BITS_PER_KEY).clamp(MIN_BITS, 1 << 40).next_power_of_two();
        Self { words: vec![0; (bits / 64) as usize] }
    }

    pub(crate) fn add(&mut self, key: Key<'_>) {
        for bit in self.bits(key.hash()) {
            self.words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
    }

    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        self.bits(hash).into_iter().all(|bit| self.words[(bit / 64) as usize] & (1 << (bit % 64)) != 0)
    }

    fn bits(&self, hash: u64) -> [u64; PROBES as usize] {
        let mask = self.words.len() as u64 * 64 - 1;
        // An odd step visits different bits.
        let step = hash.rotate_left(32) | 1;
        std::array::from_fn(|probe| hash.wrapping_add(step.wrapping_mul(probe as u64)) & mask)
    }

    /// Half the memory for more false positives. False when it is as small as can be.
    pub(crate) fn fold(&mut self) -> bool {
        let half = self.words.len() / 2;
        if half == 0 {
            return false;
        }
        for word in 0..half {
            self.words[word] |= self.words[half + word];
        }
        self.words.truncate(half);
        self.words.shrink_to_fit();
        true
    }

    /// Bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_by_folding_and_little_is_gained_by_chance() {
        let mut filter = BloomFilter::with_capacity(10_000);
        for value in 0..10_000 {
            filter.add(Key::Int64(value));
        }
        let wrong = |filter: &BloomFilter| {
            (10_000..110_000).filter(|value| filter.may_contain(Key::Int64(*value).hash())).count()
        };
        assert!(wrong(&filter) < 300, "{} of 100,000", wrong(&filter));
        let before = filter.memory();
        assert!(filter.fold());
        assert_eq!(filter.memory() * 2, before);
        assert!(wrong(&filter) < 5_000, "{} of 100,000", wrong(&filter));
        loop {
            assert!((0..10_000).all(|value| filter.may_contain(Key::Int64(value).hash())));
            if !filter.fold() {
                break;
            }
        }
        assert_eq!(filter.memory(), 8);
    }
}
