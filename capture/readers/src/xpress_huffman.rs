//! Xpress decompression with Huffman coding, [MS-XCA] 2.2: blocks of 65,536 bytes, each with its own code.

use crate::xpress::Malformed;

const BLOCK_BYTES: usize = 65_536;
const TABLE_BYTES: usize = 256;
const SYMBOLS: usize = 512;
const CODE_BITS: usize = 15;
const SHORTEST_MATCH: usize = 3;

/// Decompress `input` to exactly `expected` bytes at the start of `scratch`, which is grown but never shrunk.
///
/// The caller bounds `expected`. Fails if a code is over-full or incomplete where it is used, the input ends early,
/// refers back beyond what was produced, or makes more.
pub fn decompress<'a>(
    input: &[u8],
    scratch: &'a mut Vec<u8>,
    expected: usize,
) -> Result<&'a [u8], Malformed> {
    if scratch.len() < expected {
        scratch.resize(expected, 0);
    }
    let out = &mut scratch[..expected];
    let mut code = vec![0_u16; 1 << CODE_BITS];
    let (mut taken, mut made) = (0, 0);
    while made < expected {
        let lengths = input.get(taken..taken + TABLE_BYTES).ok_or(Malformed)?;
        build(lengths, &mut code)?;
        let mut bits = Bits::start(input, taken + TABLE_BYTES);
        let block_end = (made + BLOCK_BYTES).min(expected);
        while made < block_end {
            let entry = code[bits.peek(CODE_BITS)];
            if entry == 0 {
                return Err(Malformed);
            }
            bits.skip(usize::from(entry & 15))?;
            let symbol = usize::from(entry >> 4);
            if let Ok(literal) = u8::try_from(symbol) {
                out[made] = literal;
                made += 1;
                continue;
            }
            let (mut length, distance_bits) = (symbol & 15, (symbol - 256) >> 4);
            if length == 15 {
                length = bits.long_length()?;
            }
            length += SHORTEST_MATCH;
            let distance = (1 << distance_bits) + bits.peek(distance_bits);
            bits.skip(distance_bits)?;
            if distance > made || length > expected - made {
                return Err(Malformed);
            }
            copy_back(out, made, distance, length);
            made += length;
        }
        taken = bits.taken;
    }
    Ok(&scratch[..expected])
}

/// Fill the table that maps the next 15 bits to `symbol << 4 | length` (0: no symbol), codes being canonical: shorter
/// first, and by symbol among equals.
fn build(packed: &[u8], code: &mut [u16]) -> Result<(), Malformed> {
    let length = |symbol: usize| usize::from(packed[symbol / 2] >> (4 * (symbol & 1)) & 15);
    let mut at = 0;
    for bits in 1..=CODE_BITS {
        let width = 1 << (CODE_BITS - bits);
        for symbol in (0..SYMBOLS).filter(|symbol| length(*symbol) == bits) {
            code.get_mut(at..at + width)
                .ok_or(Malformed)?
                .fill((symbol << 4 | bits) as u16);
            at += width;
        }
    }
    code[at..].fill(0);
    Ok(())
}

/// Bits from 16-bit words, most significant first; between them lie whole bytes of long lengths.
struct Bits<'a> {
    input: &'a [u8],
    /// Next byte to be taken.
    taken: usize,
    /// The next bits, from the top down; at least 16 are there.
    next: u32,
    /// How many are there beyond 16.
    spare: usize,
}

impl<'a> Bits<'a> {
    fn start(input: &'a [u8], taken: usize) -> Self {
        let mut bits = Self {
            input,
            taken,
            next: 0,
            spare: 16,
        };
        bits.next = u32::from(bits.word()) << 16;
        bits.next |= u32::from(bits.word());
        bits
    }

    /// The next word; zeros behind the end, which an encoder may leave out.
    fn word(&mut self) -> u16 {
        let word = self
            .input
            .get(self.taken..)
            .and_then(|rest| rest.first_chunk::<2>())
            .map_or(0, |bytes| u16::from_le_bytes(*bytes));
        self.taken += 2;
        word
    }

    #[inline]
    fn peek(&self, count: usize) -> usize {
        (u64::from(self.next) >> (32 - count)) as usize
    }

    #[inline]
    fn skip(&mut self, count: usize) -> Result<(), Malformed> {
        self.next = (u64::from(self.next) << count) as u32;
        if self.spare >= count {
            self.spare -= count;
            return Ok(());
        }
        // Two words are read ahead; whoever goes beyond that lives on bits that are not there.
        if self.taken > self.input.len() + 4 {
            return Err(Malformed);
        }
        let short = count - self.spare;
        self.next |= u32::from(self.word()) << short;
        self.spare = 16 - short;
        Ok(())
    }

    /// What a length of 15 stands for, from whole bytes.
    fn long_length(&mut self) -> Result<usize, Malformed> {
        let byte = *self.input.get(self.taken).ok_or(Malformed)?;
        self.taken += 1;
        if byte < 255 {
            return Ok(15 + usize::from(byte));
        }
        let rest = self.input.get(self.taken..).ok_or(Malformed)?;
        let mut length = usize::from(u16::from_le_bytes(
            *rest.first_chunk::<2>().ok_or(Malformed)?,
        ));
        self.taken += 2;
        if length == 0 {
            let rest = &rest[2..];
            length = u32::from_le_bytes(*rest.first_chunk::<4>().ok_or(Malformed)?) as usize;
            self.taken += 4;
        }
        if length < 15 {
            Err(Malformed)
        } else {
            Ok(length)
        }
    }
}

/// Copy `length` bytes from `distance` back, as if byte by byte: an overlap repeats.
fn copy_back(out: &mut [u8], made: usize, distance: usize, length: usize) {
    let from = made - distance;
    let mut copied = 0;
    while copied < length {
        let step = (distance + copied).min(length - copied);
        out.copy_within(from..from + step, made + copied);
        copied += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(input: &[u8], expected: usize) -> Result<Vec<u8>, Malformed> {
        decompress(input, &mut Vec::new(), expected).map(<[u8]>::to_vec)
    }

    fn with_lengths(set: &[(usize, u8)], rest: &[u8]) -> Vec<u8> {
        let mut input = vec![0; TABLE_BYTES];
        for (at, value) in set {
            input[*at] = *value;
        }
        input.extend(rest);
        input
    }

    #[test]
    fn literals_example_of_the_specification() {
        // [MS-XCA] 3.2: the alphabet in codes of 4 and 5 bits.
        let mut set = vec![(48, 0x50), (59, 0x45), (60, 0x44), (61, 0x04), (128, 0x04)];
        set.extend((49..59).map(|at| (at, 0x55)));
        let input = with_lengths(
            &set,
            &[
                0xd8, 0x52, 0x3e, 0xd7, 0x94, 0x11, 0x5b, 0xe9, 0x19, 0x5f, 0xf9, 0xd6, 0x7c, 0xdf,
                0x8d, 0x04, 0, 0, 0, 0,
            ],
        );
        assert_eq!(expand(&input, 26).unwrap(), b"abcdefghijklmnopqrstuvwxyz");
    }

    #[test]
    fn long_match_example_of_the_specification() {
        // [MS-XCA] 3.2: "abc" one hundred times.
        let input = with_lengths(
            &[(48, 0x30), (49, 0x23), (128, 0x02), (143, 0x20)],
            &[0xa8, 0xdc, 0x00, 0x00, 0xff, 0x26, 0x01],
        );
        assert_eq!(expand(&input, 300).unwrap(), b"abc".repeat(100));
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert_eq!(expand(&[], 1), Err(Malformed));
        assert_eq!(expand(&[0; 300], 1), Err(Malformed), "no codes at all");
        assert_eq!(expand(&[0x11; 300], 1), Err(Malformed), "an over-full code");
        let input = with_lengths(&[(128, 0x01)], &[0; 4]);
        assert_eq!(
            expand(&input, 9),
            Err(Malformed),
            "distance before the start"
        );
        let input = with_lengths(&[(48, 0x10)], &[]);
        assert_eq!(expand(&input, 70_000), Err(Malformed), "input ends early");
    }
}
