//! CRC-64/XZ: finds every burst of damage up to 64 bits long.

/// Polynomial of ECMA-182, bits reflected.
const POLYNOMIAL: u64 = 0xC96C_5795_D787_0F42;

static TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
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
        table[byte] = crc;
        byte += 1;
    }
    table
}

pub(super) fn crc64(bytes: &[u8]) -> u64 {
    !bytes.iter().fold(!0, |crc, &byte| {
        TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn agrees_with_the_published_check_value() {
        assert_eq!(super::crc64(b"123456789"), 0x995D_C9BB_DF19_39FA);
        assert_eq!(super::crc64(b""), 0);
    }
}
