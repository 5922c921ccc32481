//! Plain LZ77 Xpress decompression, [MS-XCA] 2.4.
//!
//! Literals and short matches are copied in fixed blocks that may run past their end into `SLACK` spare bytes, to be
//! overwritten by what follows: a fixed block is two vector moves where an exact length is a call.

/// Spare bytes behind the output that block copies may touch.
const SLACK: usize = 32;

/// The compressed bytes do not describe the expected output.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

/// Decompress `input` to exactly `expected` bytes at the start of `scratch`, which is grown but never shrunk.
///
/// The caller bounds `expected`. Fails if the input ends early, refers back beyond what was produced, or makes more.
pub fn decompress<'a>(
    input: &[u8],
    scratch: &'a mut Vec<u8>,
    expected: usize,
) -> Result<&'a [u8], Malformed> {
    if scratch.len() < expected + SLACK {
        scratch.resize(expected + SLACK, 0);
    }
    let out = &mut scratch[..expected + SLACK];
    let mut taken = 0;
    let mut made = 0;
    let mut flags = 0_u32;
    let mut flags_left = 0_usize;
    // Two length extensions share a byte: where the second of a pair finds it.
    let mut half_used: Option<usize> = None;
    while made < expected {
        if flags_left == 0 {
            flags = u32::from_le_bytes(array(input, taken)?);
            taken += 4;
            flags_left = 32;
        }
        let literals = (flags.leading_zeros() as usize)
            .min(flags_left)
            .min(expected - made);
        if literals > 0 {
            if let Some(block) = input.get(taken..taken + SLACK) {
                out[made..made + SLACK].copy_from_slice(block);
            } else {
                let block = input.get(taken..taken + literals).ok_or(Malformed)?;
                out[made..made + literals].copy_from_slice(block);
            }
            made += literals;
            taken += literals;
            flags = flags.checked_shl(literals as u32).unwrap_or(0);
            flags_left -= literals;
            continue;
        }
        flags <<= 1;
        flags_left -= 1;
        let reference = u16::from_le_bytes(array(input, taken)?) as usize;
        taken += 2;
        let distance = (reference >> 3) + 1;
        let mut length = reference & 7;
        if length == 7 {
            length += extension(input, &mut taken, &mut half_used)?;
        }
        length += 3;
        if distance > made || length > expected - made {
            return Err(Malformed);
        }
        copy_back(out, made, distance, length);
        made += length;
    }
    Ok(&scratch[..expected])
}

/// What a length of 7 is to be increased by.
fn extension(
    input: &[u8],
    taken: &mut usize,
    half_used: &mut Option<usize>,
) -> Result<usize, Malformed> {
    let nibble = if let Some(at) = half_used.take() {
        input[at] >> 4
    } else {
        let byte = *input.get(*taken).ok_or(Malformed)?;
        *half_used = Some(*taken);
        *taken += 1;
        byte & 15
    };
    if nibble < 15 {
        return Ok(nibble as usize);
    }
    let byte = *input.get(*taken).ok_or(Malformed)?;
    *taken += 1;
    if byte < 255 {
        return Ok(15 + byte as usize);
    }
    let mut word = u16::from_le_bytes(array(input, *taken)?) as usize;
    *taken += 2;
    if word == 0 {
        word = u32::from_le_bytes(array(input, *taken)?) as usize;
        *taken += 4;
    }
    if word < 22 {
        Err(Malformed)
    } else {
        Ok(word - 7)
    }
}

/// Copy `length` bytes from `distance` back, as if byte by byte: an overlap repeats.
#[inline]
fn copy_back(out: &mut [u8], made: usize, distance: usize, length: usize) {
    let from = made - distance;
    if distance >= 16 && length <= 32 {
        out.copy_within(from..from + 16, made);
        if length > 16 {
            out.copy_within(from + 16..from + 32, made + 16);
        }
    } else if distance >= length {
        out.copy_within(from..from + length, made);
    } else if distance == 1 {
        let byte = out[from];
        out[made..made + length].fill(byte);
    } else {
        // What lies between `from` and the end repeats with the distance as its period, and doubles each time.
        let mut copied = 0;
        while copied < length {
            let step = (distance + copied).min(length - copied);
            out.copy_within(from..from + step, made + copied);
            copied += step;
        }
    }
}

#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Malformed> {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk::<N>())
        .copied()
        .ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(input: &[u8], expected: usize) -> Result<Vec<u8>, Malformed> {
        decompress(input, &mut Vec::new(), expected).map(<[u8]>::to_vec)
    }

    #[test]
    fn literals_only_example_of_the_specification() {
        // [MS-XCA] 3.1: the alphabet does not compress.
        let mut input = vec![0x3f, 0, 0, 0];
        input.extend(b"abcdefghijklmnopqrstuvwxyz");
        assert_eq!(expand(&input, 26).unwrap(), b"abcdefghijklmnopqrstuvwxyz");
    }

    #[test]
    fn long_match_example_of_the_specification() {
        // [MS-XCA] 3.1: "abc" one hundred times; the length takes the 255 path.
        let input = [
            0xff, 0xff, 0xff, 0x1f, 0x61, 0x62, 0x63, 0x17, 0x00, 0x0f, 0xff, 0x26, 0x01,
        ];
        assert_eq!(expand(&input, 300).unwrap(), b"abc".repeat(100));
    }

    #[test]
    fn thirty_two_bit_length() {
        // No file at hand takes this path: "a", then a match whose 16-bit length is 0 and 32-bit length 70,000.
        let mut input = vec![0, 0, 0, 0x40, b'a', 0x07, 0x00, 0x0f, 0xff, 0, 0];
        input.extend(70_000_u32.to_le_bytes());
        let length = 70_000 - 7 + 7 + 3;
        assert_eq!(expand(&input, 1 + length).unwrap(), vec![b'a'; 1 + length]);
    }

    #[test]
    fn two_extensions_share_a_byte() {
        // Two matches of distance 1 with nibbles 2 and 5: lengths 12 and 15, one shared byte between them.
        let input = [0, 0, 0, 0x60, b'z', 0x07, 0x00, 0x52, 0x07, 0x00];
        assert_eq!(expand(&input, 28).unwrap(), vec![b'z'; 28]);
    }

    #[test]
    fn every_distance_and_length_repeats_as_byte_by_byte() {
        for distance in 1..70_usize {
            for length in 3..9_usize {
                let prefix: Vec<u8> = (0..distance as u8).collect();
                let mut input = Vec::new();
                let reference = ((distance - 1) << 3 | (length - 3)) as u16;
                let mut items: Vec<(bool, Vec<u8>)> =
                    prefix.iter().map(|byte| (false, vec![*byte])).collect();
                items.push((true, reference.to_le_bytes().to_vec()));
                for group in items.chunks(32) {
                    let flags = group
                        .iter()
                        .enumerate()
                        .fold(0_u32, |all, (i, item)| all | (item.0 as u32) << (31 - i));
                    input.extend(flags.to_le_bytes());
                    for item in group {
                        input.extend(&item.1);
                    }
                }
                let mut wanted = prefix;
                for _ in 0..length {
                    wanted.push(wanted[wanted.len() - distance]);
                }
                assert_eq!(expand(&input, wanted.len()).unwrap(), wanted);
            }
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert_eq!(expand(&[], 1), Err(Malformed));
        assert_eq!(
            expand(&[0, 0, 0, 0x80, 0, 0], 3),
            Err(Malformed),
            "distance before the start"
        );
        assert_eq!(
            expand(&[0, 0, 0, 0x40, b'a', 0, 0], 3),
            Err(Malformed),
            "more than expected"
        );
        assert_eq!(
            expand(&[0, 0, 0, 0, b'a'], 2),
            Err(Malformed),
            "input ends early"
        );
    }
}
