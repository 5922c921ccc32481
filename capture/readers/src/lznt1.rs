//! LZNT1 decompression, [MS-XCA] 2.5: chunks of up to 4,096 bytes, each compressed by itself or stored.

use crate::xpress::Malformed;

const CHUNK_BYTES: usize = 4096;
const COMPRESSED: u16 = 0x8000;
const SHORTEST_MATCH: usize = 3;

/// Decompress `input` to exactly `expected` bytes at the start of `scratch`, which is grown but never shrunk.
///
/// The caller bounds `expected`. A chunk that is not the last may end short of 4,096 bytes; the rest of it is zeros, as
/// the specification has it. Fails if the input ends early, refers back beyond its chunk, or makes more.
pub fn decompress<'a>(
    input: &[u8],
    scratch: &'a mut Vec<u8>,
    expected: usize,
) -> Result<&'a [u8], Malformed> {
    if scratch.len() < expected {
        scratch.resize(expected, 0);
    }
    let out = &mut scratch[..expected];
    let (mut taken, mut made) = (0, 0);
    while made < expected {
        let head = input
            .get(taken..)
            .and_then(|rest| rest.first_chunk::<2>())
            .ok_or(Malformed)?;
        let head = u16::from_le_bytes(*head);
        if head == 0 {
            return Err(Malformed);
        }
        taken += 2;
        let length = usize::from(head & 0xFFF) + 1;
        let body = input.get(taken..taken + length).ok_or(Malformed)?;
        taken += length;
        let room = CHUNK_BYTES.min(expected - made);
        let chunk = &mut out[made..made + room];
        let filled = if head & COMPRESSED == 0 {
            chunk
                .get_mut(..length)
                .ok_or(Malformed)?
                .copy_from_slice(body);
            length
        } else {
            expand(body, chunk)?
        };
        made += filled;
        let follows = input
            .get(taken..taken + 2)
            .is_some_and(|head| head != [0, 0]);
        if made < expected && filled < CHUNK_BYTES && follows {
            let gap = (CHUNK_BYTES - filled).min(expected - made);
            out[made..made + gap].fill(0);
            made += gap;
        }
    }
    Ok(&scratch[..expected])
}

/// Fill `chunk` from the body of a compressed chunk; returns how much of it was filled.
fn expand(body: &[u8], chunk: &mut [u8]) -> Result<usize, Malformed> {
    let (mut taken, mut made) = (0, 0);
    while let Some(flags) = body.get(taken) {
        taken += 1;
        for bit in 0..8 {
            if taken >= body.len() {
                break;
            }
            if flags >> bit & 1 == 0 {
                *chunk.get_mut(made).ok_or(Malformed)? = body[taken];
                taken += 1;
                made += 1;
                continue;
            }
            let word = body
                .get(taken..)
                .and_then(|rest| rest.first_chunk::<2>())
                .ok_or(Malformed)?;
            let word = usize::from(u16::from_le_bytes(*word));
            taken += 2;
            // The further into the chunk, the more bits the distance needs and the fewer the length has.
            let distance_bits = made
                .saturating_sub(1)
                .checked_ilog2()
                .map_or(4, |log| (log + 1).max(4));
            let length_bits = 16 - distance_bits;
            let distance = (word >> length_bits) + 1;
            let length = (word & ((1 << length_bits) - 1)) + SHORTEST_MATCH;
            if distance > made || length > chunk.len() - made {
                return Err(Malformed);
            }
            for at in made..made + length {
                chunk[at] = chunk[at - distance];
            }
            made += length;
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand_all(input: &[u8], expected: usize) -> Result<Vec<u8>, Malformed> {
        decompress(input, &mut Vec::new(), expected).map(<[u8]>::to_vec)
    }

    #[test]
    fn example_of_the_specification() {
        // [MS-XCA] 3.3.
        let input = [
            0x38, 0xb0, 0x88, 0x46, 0x23, 0x20, 0x00, 0x20, 0x47, 0x20, 0x41, 0x00, 0x10, 0xa2,
            0x47, 0x01, 0xa0, 0x45, 0x20, 0x44, 0x00, 0x08, 0x45, 0x01, 0x50, 0x79, 0x00, 0xc0,
            0x45, 0x20, 0x05, 0x24, 0x13, 0x88, 0x05, 0xb4, 0x02, 0x4a, 0x44, 0xef, 0x03, 0x58,
            0x02, 0x8c, 0x09, 0x16, 0x01, 0x48, 0x45, 0x00, 0xbe, 0x00, 0x9e, 0x00, 0x04, 0x01,
            0x18, 0x90, 0x00,
        ];
        let text = b"F# F# G A A G F# E D D E F# F# E E F# F# G A A G F# E D D E F# E D D E E F# D E F# G F# D E \
            F# G F# E D E A F# F# G A A G F# E D D E F# E D D\0";
        assert_eq!(text.len(), 142);
        assert_eq!(expand_all(&input, 142).unwrap(), text);
    }

    #[test]
    fn stored_chunks_and_chunks_that_end_short() {
        let mut input = vec![0x02, 0x30, b'a', b'b', b'c'];
        assert_eq!(expand_all(&input, 3).unwrap(), b"abc");
        input.extend([0x00, 0x30, b'd']);
        let all = expand_all(&input, 4097).unwrap();
        assert_eq!((&all[..3], &all[4096..]), (&b"abc"[..], &b"d"[..]));
        assert!(all[3..4096].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert_eq!(expand_all(&[], 1), Err(Malformed));
        assert_eq!(expand_all(&[0, 0], 1), Err(Malformed), "ends early");
        assert_eq!(
            expand_all(&[5, 0xb0, 0], 1),
            Err(Malformed),
            "chunk is cut off"
        );
        assert_eq!(
            expand_all(&[2, 0xb0, 1, 0, 0], 3),
            Err(Malformed),
            "distance before the start"
        );
        assert_eq!(
            expand_all(&[3, 0xb0, 2, b'a', 0xff, 0x0f], 9),
            Err(Malformed),
            "more than expected"
        );
    }
}
