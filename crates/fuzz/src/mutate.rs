//! Inputs that are almost right: those of a corpus, changed in a few places.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Longest input that is made.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// Numbers that decoders trip over, as text and as bytes.
const NUMBERS: [u64; 12] =
    [0, 1, 255, 256, 65_535, 1 << 31, u32::MAX as u64, 1 << 32, i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX];

/// Makes inputs from a corpus, always the same for one seed.
pub struct Mutator {
    corpus: Vec<Vec<u8>>,
    random: ChaCha8Rng,
}

impl Mutator {
    /// From these inputs.
    #[must_use]
    pub fn new(corpus: Vec<Vec<u8>>, seed: u64) -> Self {
        Self { corpus, random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// The next input.
    pub fn input(&mut self) -> Vec<u8> {
        let mut input = self.any();
        for _ in 0..self.random.random_range(1..=4) {
            self.change(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn any(&mut self) -> Vec<u8> {
        match self.corpus.len() {
            0 => Vec::new(),
            count => self.corpus[self.random.random_range(0..count)].clone(),
        }
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.random.random_range(0..=input.len());
        let end = self.random.random_range(at..=input.len().min(at + 16));
        match self.random.random_range(0..9) {
            0 => input.insert(at, self.random.random()),
            1 if at < input.len() => input[at] = self.random.random(),
            2 if at < input.len() => input[at] ^= 1 << self.random.random_range(0..8),
            3 => drop(input.drain(at..end)),
            4 => input.truncate(at),
            5 => {
                let part = input[at..end].to_vec();
                input.splice(at..at, part);
            }
            6 => {
                let other = self.any();
                let from = self.random.random_range(0..=other.len());
                input.splice(at.., other[from..].iter().copied());
            }
            7 => self.put_number(input, at),
            _ => self.write_number(input, at),
        }
    }

    /// A number in place of bytes.
    fn put_number(&mut self, input: &mut [u8], at: usize) {
        let number = NUMBERS[self.random.random_range(0..NUMBERS.len())];
        let width = 1 << self.random.random_range(0..4);
        let mut bytes = number.to_le_bytes();
        let bytes = &mut bytes[..width];
        if self.random.random() {
            bytes.reverse();
        }
        if let Some(place) = input.get_mut(at..at + width) {
            place.copy_from_slice(bytes);
        }
    }

    /// A number in place of digits, or between bytes where there are none.
    fn write_number(&mut self, input: &mut Vec<u8>, at: usize) {
        let start = input[at..].iter().position(u8::is_ascii_digit).map_or(at, |digit| at + digit);
        let end = start + input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = match self.random.random() {
            true => NUMBERS[self.random.random_range(0..NUMBERS.len())],
            false => self.random.random_range(0..300),
        };
        input.splice(start..end, number.to_string().into_bytes());
    }
}
