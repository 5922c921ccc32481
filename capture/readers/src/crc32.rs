//! CRC-32 (ISO 3309), so that the bytes a reader saw can be compared with another's.

const TABLE: [u32; 256] = {
    let mut table = [0_u32; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 {
                0xEDB8_8320 ^ (value >> 1)
            } else {
                value >> 1
            };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
};

/// Continue a checksum over `bytes`; begin with 0.
pub fn update(checksum: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!checksum, |value, byte| {
        TABLE[(value as u8 ^ byte) as usize] ^ (value >> 8)
    })
}

#[test]
fn check_value_of_the_standard() {
    assert_eq!(update(update(0, b"1234"), b"56789"), 0xCBF4_3926);
}
