//! CRC-64/XZ: finds every burst of damage up to 64 bits long.

/// Polynomial of ECMA-182, bits reflected.
const POLYNOMIAL: u64 = 0xC96C_5795_D787_0F42;

/// `TABLES[k][byte]`: what a byte followed by k zero bytes does to the register.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ POLYNOMIAL
            } else {
                crc >> 1
            };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut at = 256;
    while at < 8 * 256 {
        let before = tables[at / 256 - 1][at % 256];
        tables[at / 256][at % 256] = tables[0][before as u8 as usize] ^ (before >> 8);
        at += 1;
    }
    tables
}

/// Eight bytes at a time, whose look-ups do not wait for each other.
pub(super) fn crc64(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(!0, |crc, word| {
        let mixed = (crc ^ u64::from_le_bytes(*word)).to_le_bytes();
        (0..8).fold(0, |sum, k| sum ^ TABLES[7 - k][usize::from(mixed[k])])
    });
    !rest.iter().fold(crc, byte_by_byte)
}

fn byte_by_byte(crc: u64, &byte: &u8) -> u64 {
    TABLES[0][usize::from(crc as u8 ^ byte)] ^ (crc >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_published_check_value() {
        assert_eq!(crc64(b"123456789"), 0x995D_C9BB_DF19_39FA);
        assert_eq!(crc64(b""), 0);
    }

    #[test]
    fn eight_bytes_at_a_time_are_the_same_as_one() {
        let bytes: Vec<u8> = (0..100_u8).map(|i| i.wrapping_mul(37)).collect();
        for len in 0..bytes.len() {
            let slow = !bytes[..len].iter().fold(!0, byte_by_byte);
            assert_eq!(crc64(&bytes[..len]), slow, "{len} bytes");
        }
    }
}
