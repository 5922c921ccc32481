//! What Windows demands of a request that bypasses the cache. It is checked here and not left to the system: Wine
//! takes requests that Windows refuses, and a refusal by Windows does not say which of the three was wrong.

/// Units that offsets, sizes and memory addresses must be multiples of: powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    sector_bytes: u32,
    address_bytes: u32,
}

impl Alignment {
    /// I/O through the cache may begin and end anywhere.
    pub const NONE: Self = Self {
        sector_bytes: 1,
        address_bytes: 1,
    };

    /// Unbuffered I/O to a volume with sectors of `sector_bytes`, whose driver wants memory at multiples of
    /// `address_bytes`. What is no power of two is no unit, and taken as 4096.
    pub fn unbuffered(sector_bytes: u32, address_bytes: u32) -> Self {
        let unit = |bytes: u32| {
            if bytes.is_power_of_two() { bytes } else { 4096 }
        };
        Self {
            sector_bytes: unit(sector_bytes),
            address_bytes: unit(address_bytes),
        }
    }

    /// Whether Windows takes a transfer of `size_bytes` at `offset_bytes` from or to memory at `address`.
    pub fn permits(self, offset_bytes: u64, size_bytes: u32, address: usize) -> bool {
        offset_bytes.is_multiple_of(u64::from(self.sector_bytes))
            && size_bytes.is_multiple_of(self.sector_bytes)
            && address.is_multiple_of(self.address_bytes as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 0x7000;

    #[test]
    fn offset_size_and_address_each_have_to_fit() {
        let native_4k = Alignment::unbuffered(4096, 512);
        assert!(native_4k.permits(8192, 4096, PAGE));
        assert!(native_4k.permits(8192, 4096, PAGE + 512));
        assert!(!native_4k.permits(512, 4096, PAGE));
        assert!(!native_4k.permits(8192, 512, PAGE));
        assert!(!native_4k.permits(8192, 4096 + 512, PAGE));
        assert!(!native_4k.permits(8192, 4096, PAGE + 4));
    }

    #[test]
    fn old_sectors_take_log_writes_of_512_bytes() {
        let sectors = Alignment::unbuffered(512, 4);
        assert!(sectors.permits(512 * 7, 512, PAGE + 4));
        assert!(!sectors.permits(512 * 7 + 1, 512, PAGE));
        assert!(!sectors.permits(0, 60 * 1024 - 1, PAGE));
        assert!(!sectors.permits(0, 512, PAGE + 2));
    }

    #[test]
    fn through_the_cache_anything_goes() {
        assert!(Alignment::NONE.permits(1, 3, PAGE + 1));
    }

    #[test]
    fn a_unit_that_is_none_is_taken_with_caution() {
        assert_eq!(
            Alignment::unbuffered(0, 520),
            Alignment::unbuffered(4096, 4096)
        );
    }
}
