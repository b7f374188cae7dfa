//! NumPy's .npy files.

use crate::{DataError, RawTable};
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

/// The first bytes are those of a .npy file.
pub fn is_npy(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x93NUMPY")
}

/// Reads NumPy's .npy: a matrix (or one column) of numbers or truth values; NaN is missing; columns are called `x0`, `x1`, ...
///
/// Floats of 32 and 64 bit, integers of 8 to 64 bit, booleans; either order of bytes and of dimensions.
///
/// # Errors
/// Says what the file is instead: cut off, of another type, of more than two dimensions.
///
/// ```
/// let mut file = Vec::new();
/// npb_data::write_npy(&mut file, &[2, 2], [0.0, 1.0, f32::NAN, 3.0].into_iter())?;
/// let table = npb_data::read_npy(&file)?;
/// assert_eq!((table.names()[1].as_str(), table.n_rows()), ("x1", 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_npy(bytes: &[u8]) -> Result<RawTable, DataError> {
    let (header, cells) = header_and_cells(bytes)?;
    let array = Header::read(header)?;
    let [n_rows, n_cols] = array.shape;
    let n = n_rows
        .checked_mul(n_cols)
        .filter(|n| n.checked_mul(array.width) == Some(cells.len()));
    let n = n.ok_or_else(|| wrong("holds another number of bytes than its shape says"))?;
    let place = |i: usize, j: usize| match array.by_columns {
        true => j * n_rows + i,
        false => i * n_cols + j,
    };
    let value = |k: usize| array.value(cells, place(k / n_cols, k % n_cols));
    let values: Vec<f64> = (0..n).map(value).collect();
    RawTable::from_matrix(n_rows, n_cols, &values)
}

fn wrong(problem: &'static str) -> DataError {
    DataError::Npy { problem }
}

/// The header is as long as two bytes say in version 1, four in later ones; cells are what follows it.
fn header_and_cells(bytes: &[u8]) -> Result<(&str, &[u8]), DataError> {
    let cut = || wrong("the file is cut off");
    let start = match bytes.get(6).ok_or_else(cut)? {
        1 => 10,
        _ => 12,
    };
    let length = bytes.get(8..start).ok_or_else(cut)?;
    let length = length.iter().rev();
    let end = start + length.fold(0, |n, &b| n << 8 | usize::from(b));
    let header = bytes.get(start..end).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| wrong("the header is no text"))?;
    Ok((header, &bytes[end..]))
}

/// What a header says of the array.
struct Header {
    shape: [usize; 2],
    by_columns: bool,
    /// The highest byte of a number is the first.
    big_end_first: bool,
    /// Bytes of a number.
    width: usize,
    number: fn([u8; 8]) -> f64,
}

impl Header {
    fn read(header: &str) -> Result<Self, DataError> {
        let after = |key: &str| {
            let (_, rest) = header.split_once(key)?;
            Some(rest.trim_start_matches([':', ' ']))
        };
        let within = |key: &str, open: char, close: char| {
            after(key).and_then(|rest| rest.strip_prefix(open)?.split(close).next())
        };
        let sizes = within("'shape'", '(', ')').and_then(|shape| {
            let sizes = shape.split(',').map(str::trim);
            let sizes = sizes.filter(|size| !size.is_empty());
            let sizes = sizes.map(|size| size.parse::<usize>().ok());
            sizes.collect::<Option<Vec<_>>>()
        });
        let shape = match sizes.as_deref() {
            Some(&[n]) => [n, 1],
            Some(&[n, p]) => [n, p],
            _ => return Err(wrong("must be an array of one or two dimensions")),
        };
        let kind = within("'descr'", '\'', '\'');
        let kind = kind.filter(|kind| kind.is_ascii() && kind.len() == 3);
        let kind = kind.ok_or_else(|| wrong(NPY_TYPES))?;
        Ok(Self {
            shape,
            by_columns: after("'fortran_order'").is_some_and(|rest| rest.starts_with("True")),
            big_end_first: kind.starts_with('>'),
            width: usize::from(kind.as_bytes()[2].wrapping_sub(b'0')),
            number: npy_reader(&kind[1..]).ok_or_else(|| wrong(NPY_TYPES))?,
        })
    }

    /// The number in a place of the file.
    fn value(&self, cells: &[u8], place: usize) -> f64 {
        let mut eight = [0; 8];
        let own = &cells[place * self.width..(place + 1) * self.width];
        eight[..self.width].copy_from_slice(own);
        if self.big_end_first {
            eight[..self.width].reverse();
        }
        (self.number)(eight)
    }
}

const NPY_TYPES: &str = "must be of floats of 32 or 64 bit, integers or booleans";

/// A number from the bytes of one type, the lowest first, padded by zeros.
fn npy_reader(kind: &str) -> Option<fn([u8; 8]) -> f64> {
    Some(match kind {
        "f8" => f64::from_le_bytes,
        "f4" => |b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        "b1" | "u1" | "u2" | "u4" | "u8" => |b| u64::from_le_bytes(b) as f64,
        "i1" => |b| f64::from(b[0] as i8),
        "i2" => |b| f64::from(i16::from_le_bytes([b[0], b[1]])),
        "i4" => |b| f64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        "i8" => |b| i64::from_le_bytes(b) as f64,
        _ => return None,
    })
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
        let table = read_npy(&file).unwrap();
        let text = |i: usize, j: usize| table.columns()[j].text(i).unwrap();
        assert_eq!(
            (table.n_rows(), text(0, 2), text(1, 0)),
            (2, "2".into(), "3".into())
        );
        let turned = String::from_utf8_lossy(&file[10..128])
            .replace("False", "True ")
            .replace("<f4", ">i4");
        let mut other = [&file[..10], turned.as_bytes()].concat();
        (1..=6_i32).for_each(|k| other.extend((-k).to_be_bytes()));
        let table = read_npy(&other).unwrap();
        assert_eq!(
            table.columns()[1].text(0).as_deref(),
            Some("-3"),
            "by columns"
        );
        for length in 6..file.len() {
            assert!(read_npy(&file[..length]).is_err(), "{length}");
        }
        for (old, new) in [("(2, 3)", "(2, 4)"), ("<f4", "<c4"), ("(2, 3)", "(2,)  ")] {
            let header = String::from_utf8_lossy(&file[10..128]).replace(old, new);
            let other = [&file[..10], header.as_bytes(), &file[128..]].concat();
            assert!(read_npy(&other).is_err(), "{new}");
        }
        let mut line = Vec::new();
        write_npy(&mut line, &[1], [2.0].into_iter()).unwrap();
        let header = std::str::from_utf8(&line[10..128]).unwrap();
        assert!(header.contains("'shape': (1,), }"));
    }
}
