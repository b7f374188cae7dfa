//! PNG files of whole numbers up to 255.

use std::io::Write as _;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

use crate::Result;

/// A PNG of so many rows and columns, of 1 channel (grey) or 3, from its pixels row by row.
pub(crate) fn png([height, width, channels]: [usize; 3], pixels: &[u8]) -> Result<Vec<u8>> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    for line in pixels.chunks(width * channels) {
        // Each line as it is.
        packed.write_all(&[0])?;
        packed.write_all(line)?;
    }
    let packed = packed.finish()?;
    let size = [height, width].map(u32::try_from);
    let [height, width] = [size[0]?, size[1]?].map(u32::to_be_bytes);
    let colour = if channels == 3 { 2 } else { 0 };
    let head = [&width[..], &height, &[8, colour, 0, 0, 0]].concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in [(b"IHDR", &head), (b"IDAT", &packed), (b"IEND", &Vec::new())] {
        let mut sum = Crc::new();
        sum.update(kind);
        sum.update(data);
        file.extend(u32::try_from(data.len())?.to_be_bytes());
        file.extend(kind);
        file.extend(data);
        file.extend(sum.sum().to_be_bytes());
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_of_the_standard() {
        // The smallest grey one, but for its packed line.
        let file = png([1, 1, 1], &[0]).unwrap();
        let head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55";
        assert_eq!(file[..33], head[..]);
        assert_eq!(file[file.len() - 12..], *b"\0\0\0\0IEND\xaeB`\x82");
        let length = u32::from_be_bytes(file[33..37].try_into().unwrap()) as usize;
        assert_eq!(
            (&file[37..41], file.len()),
            (&b"IDAT"[..], 41 + length + 4 + 12)
        );
        let mut unpacked = Vec::new();
        let mut decoder = flate2::write::ZlibDecoder::new(&mut unpacked);
        let colour = png([2, 1, 3], &[1, 2, 3, 4, 5, 6]).unwrap();
        let length = u32::from_be_bytes(colour[33..37].try_into().unwrap()) as usize;
        decoder.write_all(&colour[41..41 + length]).unwrap();
        decoder.finish().unwrap();
        assert_eq!(unpacked, [0, 1, 2, 3, 0, 4, 5, 6]);
    }
}
