//! Taking little-endian values off a slice; `None` where it is too short.

/// What is left of a slice.
#[derive(Clone, Copy)]
pub struct Bytes<'a> {
    left: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub fn new(left: &'a [u8]) -> Self {
        Self { left }
    }

    pub fn len(&self) -> usize {
        self.left.len()
    }

    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(count)?;
        self.left = left;
        Some(taken)
    }

    pub fn skip(&mut self, count: usize) -> Option<()> {
        self.take(count).map(drop)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|bytes| bytes[0])
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn guid(&mut self) -> Option<[u8; 16]> {
        self.array()
    }

    /// A zero-terminated UTF-16 string, without its end.
    pub fn text(&mut self) -> Option<String> {
        let units = self
            .left
            .as_chunks::<2>()
            .0
            .iter()
            .position(|unit| *unit == [0, 0])?;
        let text = utf16(self.take(units * 2)?);
        self.skip(2)?;
        Some(text)
    }
}

/// UTF-16LE as text; what is no Unicode becomes U+FFFD, an odd last byte is left out.
pub fn utf16(bytes: &[u8]) -> String {
    char::decode_utf16(
        bytes
            .as_chunks::<2>()
            .0
            .iter()
            .map(|unit| u16::from_le_bytes(*unit)),
    )
    .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
    .collect()
}

/// A number of 1 to 8 bytes.
pub fn unsigned(bytes: &[u8]) -> Option<u64> {
    let mut whole = [0; 8];
    whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(whole))
}
