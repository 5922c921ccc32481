//! Unaligned little-endian loads: no field of a trace is trusted to be there, or to be aligned.

/// A structure's bytes.
#[derive(Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    #[inline]
    fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..)?.first_chunk::<N>().copied()
    }

    #[inline]
    pub fn u8(self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    #[inline]
    pub fn u16(self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    #[inline]
    pub fn u32(self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    #[inline]
    pub fn u64(self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    #[inline]
    pub fn i64(self, at: usize) -> Option<i64> {
        self.array(at).map(i64::from_le_bytes)
    }

    /// A pointer of `bytes` (4 or 8).
    #[inline]
    pub fn pointer(self, at: usize, bytes: usize) -> Option<u64> {
        if bytes == 4 {
            self.u32(at).map(u64::from)
        } else {
            self.u64(at)
        }
    }

    /// UTF-16 text up to its zero, or to the end where it is cut off; and where the next field starts.
    pub fn wide(self, at: usize) -> Option<(String, usize)> {
        let bytes = self.0.get(at..)?;
        let units = bytes
            .chunks_exact(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        let length = units
            .clone()
            .position(|unit| unit == 0)
            .unwrap_or(bytes.len() / 2);
        let text = char::decode_utf16(units.take(length))
            .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER));
        Some((text.collect(), at + 2 * length + 2))
    }

    /// UTF-16 text in a field of `units` code units, ending at the first zero.
    pub fn wide_fixed(self, at: usize, units: usize) -> Option<String> {
        Fields(self.0.get(at..at + 2 * units)?)
            .wide(0)
            .map(|(text, _)| text)
    }

    /// Single-byte text up to its zero; and where the next field starts. Not UTF-8: taken as Latin-1.
    pub fn narrow(self, at: usize) -> Option<(String, usize)> {
        let bytes = self.0.get(at..)?;
        let length = bytes
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(bytes.len());
        let text = std::str::from_utf8(&bytes[..length]).map_or_else(
            |_| bytes[..length].iter().map(|byte| *byte as char).collect(),
            str::to_owned,
        );
        Some((text, at + length + 1))
    }
}
