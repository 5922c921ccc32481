//! A quick hash for numbers from a file: seeded anew for each table, so that no file can aim its keys at one bucket.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Makes a `NumberHasher` for a map with whole numbers for keys.
#[derive(Clone)]
pub struct NumberState(u64);

impl Default for NumberState {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0_u64))
    }
}

impl BuildHasher for NumberState {
    type Hasher = NumberHasher;

    fn build_hasher(&self) -> NumberHasher {
        NumberHasher(self.0)
    }
}

/// Multiplies what it is given into 128 bits and folds the halves, twice, each time with the secret in between.
pub struct NumberHasher(u64);

fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = fold(
            number ^ self.0,
            0x9E37_79B9_7F4A_7C15 ^ self.0.rotate_left(32) | 1,
        );
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn finish(&self) -> u64 {
        fold(self.0, 0xD6E8_FEB8_6659_FD93)
    }
}

/// A map with whole numbers for keys.
pub type NumberMap<K, V> = std::collections::HashMap<K, V, NumberState>;

#[test]
fn neighbours_spread_over_the_low_and_the_high_bits() {
    let state = NumberState::default();
    let hashes: Vec<u64> = (0..4096_u64)
        .map(|number| state.hash_one(0xFFFF_F8A0_0000_0000 + number * 64))
        .collect();
    for shift in [0, 52] {
        let buckets: std::collections::HashSet<u64> =
            hashes.iter().map(|hash| hash >> shift & 0xFFF).collect();
        // Thrown at random into as many buckets, 63 % are hit.
        assert!(
            buckets.len() > 2_200,
            "{} of 4096 buckets at bit {shift}",
            buckets.len()
        );
    }
}
