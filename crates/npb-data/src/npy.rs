//! NumPy's .npy files.

use std::io::{self, Write};

/// Writes an array of single precision as NumPy's .npy: any number of dimensions, values with the last one running fastest.
///
/// Format 1.0: magic, version, header padded with spaces to a multiple of 64 bytes, then the values, little-endian. Nothing checks that there are as
/// many values as `shape` says.
///
/// # Errors
/// Those of the writer.
///
/// ```
/// let mut file = Vec::new();
/// npb_data::write_npy(&mut file, &[2, 2], [0.0, 1.0, 2.0, 3.0].into_iter())?;
/// assert_eq!(file.len(), 128 + 4 * 4);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_npy(
    mut out: impl Write,
    shape: &[usize],
    values: impl Iterator<Item = f32>,
) -> io::Result<()> {
    let mut sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    // NumPy writes one dimension as (n,).
    if sizes.len() == 1 {
        sizes.push(String::new());
    }
    let sizes = sizes.join(", ");
    let sizes = sizes.trim_end();
    let mut header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({sizes}), }}").into_bytes();
    // Magic, version and length take 10 bytes, the newline one.
    let length = (header.len() + 11).next_multiple_of(64) - 10;
    header.resize(length - 1, b' ');
    header.push(b'\n');
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&(length as u16).to_le_bytes())?;
    out.write_all(&header)?;
    for value in values {
        out.write_all(&value.to_le_bytes())?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npy_files_are_as_numpy_writes_them() {
        let mut file = Vec::new();
        write_npy(&mut file, &[2, 3], (0..6).map(|k| k as f32)).unwrap();
        assert_eq!(&file[..10], b"\x93NUMPY\x01\x00\x76\x00");
        let header = std::str::from_utf8(&file[10..128]).unwrap();
        assert_eq!(
            header.trim_end(),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
        );
        assert!(header.ends_with('\n'));
        assert_eq!(file.len(), 128 + 6 * 4);
        assert_eq!(file[128 + 5 * 4..], 5f32.to_le_bytes());
        let mut line = Vec::new();
        write_npy(&mut line, &[1], [2.0].into_iter()).unwrap();
        let header = std::str::from_utf8(&line[10..128]).unwrap();
        assert!(header.contains("'shape': (1,), }"));
    }
}
