//! Image files in and out, and images as figures.

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::GzDecoder;
use image::{DynamicImage, GrayImage, ImageFormat, ImageReader, RgbImage};
use npb_bpfa::Dictionary;
use npb_data::Image;

use npb_kit::Result;
use npb_kit::npb_report::Picture;

/// Reads a PNG, TIFF (8 or 16 bit, grey or colour) or NumPy file (8 or 16 bit unsigned, 32 or 64 bit real; two or three dimensions; NaN is missing); `.gz`
/// is unpacked.
pub(super) fn read(path: &Path) -> Result<Image> {
    let named = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = BufReader::new(File::open(path).map_err(|e| named(&e))?);
    let mut bytes = Vec::new();
    if name.ends_with(".gz") {
        GzDecoder::new(file).read_to_end(&mut bytes)
    } else {
        { file }.read_to_end(&mut bytes)
    }
    .map_err(|e| named(&e))?;
    if name.contains(".npy") {
        return from_npy(&bytes).map_err(|e| named(&e).into());
    }
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let picture = reader
        .map_err(|e| named(&e))?
        .decode()
        .map_err(|e| named(&e))?;
    from_picture(picture).map_err(|e| named(&e).into())
}

fn from_picture(picture: DynamicImage) -> Result<Image> {
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    Ok(match picture {
        DynamicImage::ImageLuma8(p) => Image::from_slice(height, width, 1, p.as_raw())?,
        DynamicImage::ImageLuma16(p) => Image::from_slice(height, width, 1, p.as_raw())?,
        DynamicImage::ImageRgb8(p) => Image::from_slice(height, width, 3, p.as_raw())?,
        DynamicImage::ImageRgb16(p) => Image::from_slice(height, width, 3, p.as_raw())?,
        DynamicImage::ImageRgb32F(p) => Image::from_nan_coded(height, width, 3, p.as_raw())?,
        other => {
            let kind = other.color();
            return Err(format!("pixels of kind {kind:?}; grey or RGB is read").into());
        }
    })
}

/// The array of a NumPy file of version 1 or 2, C order, little-endian.
fn from_npy(bytes: &[u8]) -> Result<Image> {
    let bad = "not a NumPy file of version 1 or 2";
    let (length, start) = match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => {
            (usize::from(u16::from_le_bytes([*a, *b])), 10)
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2, _, a, b, c, d, ..] => {
            (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 12)
        }
        _ => return Err(bad.into()),
    };
    let end = start + length;
    let header = std::str::from_utf8(bytes.get(start..end).ok_or(bad)?)?;
    let after = |key: &str| {
        let at = header.find(key)? + key.len();
        header[at..]
            .split_once(':')
            .map(|(_, rest)| rest.trim_start())
    };
    let descr = after("'descr'").and_then(|r| r.strip_prefix('\'')?.split_once('\''));
    let (descr, _) = descr.ok_or("no type in the header")?;
    if after("'fortran_order'").is_some_and(|r| r.starts_with("True")) {
        return Err("Fortran order; write it in C order".into());
    }
    let shape = after("'shape'").and_then(|r| r.strip_prefix('(')?.split_once(')'));
    let (shape, _) = shape.ok_or("no shape in the header")?;
    let parts = shape.split(',').map(str::trim).filter(|s| !s.is_empty());
    let shape: Vec<usize> = parts
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    let [height, width, channels] = match shape[..] {
        [h, w] => [h, w, 1],
        [h, w, c] => [h, w, c],
        _ => return Err(format!("{} dimensions; 2 or 3 are read", shape.len()).into()),
    };
    let data = &bytes[end..];
    let values: Vec<f64> = match descr {
        "|u1" | "<u1" => data.iter().map(|&b| b.into()).collect(),
        "<u2" => numbers(data, |b| u16::from_le_bytes(b).into()),
        "<f4" => numbers(data, |b| f32::from_le_bytes(b).into()),
        "<f8" => numbers(data, f64::from_le_bytes),
        other => return Err(format!("type {other}; u1, u2, f4 and f8 are read").into()),
    };
    Ok(Image::from_nan_coded(height, width, channels, &values)?)
}

fn numbers<const N: usize>(data: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    let (chunks, _) = data.as_chunks::<N>();
    chunks.iter().map(|&bytes| number(bytes)).collect()
}

/// An image as it is shown: 0 black, `peak` white; of a cube three of its bands. Missing pixels are black.
fn png(image: &Image, peak: f64) -> Result<Vec<u8>> {
    let [height, width, channels] = image.size();
    let shade = |row: usize, column: usize, channel: usize| {
        let value = f64::from(image.get(row, column, channel).unwrap_or(0.0)) * 255.0 / peak;
        value.round().clamp(0.0, 255.0) as u8
    };
    let bands: Vec<usize> = match channels {
        1 => vec![0],
        2 | 3 => vec![0, 1, channels - 1],
        n => vec![n / 6, n / 2, 5 * n / 6],
    };
    let pixels = (0..height * width).flat_map(|p| {
        let shade = &shade;
        bands.iter().map(move |&b| shade(p / width, p % width, b))
    });
    let pixels: Vec<u8> = pixels.collect();
    let (w, h) = (width as u32, height as u32);
    let picture = if bands.len() == 1 {
        DynamicImage::ImageLuma8(GrayImage::from_raw(w, h, pixels).ok_or("size of a picture")?)
    } else {
        DynamicImage::ImageRgb8(RgbImage::from_raw(w, h, pixels).ok_or("size of a picture")?)
    };
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Png)?;
    Ok(bytes.into_inner())
}

/// Atoms side by side, the most used first, each on its own scale with 0 grey.
pub(super) fn atoms(dictionary: &Dictionary, usage: &[f64], patch: [usize; 3]) -> Result<Image> {
    let [height, width, depth] = patch;
    let channels = if depth == 3 { 3 } else { 1 };
    let mut order: Vec<usize> = (0..usage.len()).collect();
    order.sort_by(|&a, &b| usage[b].total_cmp(&usage[a]));
    let across = (usage.len() as f64).sqrt().ceil() as usize;
    let down = usage.len().div_ceil(across);
    let (h, w) = (down * (height + 1) + 1, across * (width + 1) + 1);
    let mut values = vec![255.0_f32; h * w * channels];
    for (place, &k) in order.iter().enumerate() {
        let atom = dictionary.atom(k);
        let most = atom.iter().fold(0.0_f32, |a, x| a.max(x.abs())).max(1e-12);
        let (top, left) = (
            1 + place / across * (height + 1),
            1 + place % across * (width + 1),
        );
        for r in 0..height {
            for c in 0..width {
                for k in 0..channels {
                    let value = atom[(r * width + c) * depth + k];
                    let at = ((top + r) * w + left + c) * channels + k;
                    values[at] = 127.5 * (1.0 + value / most);
                }
            }
        }
    }
    Ok(Image::new(h, w, channels, values)?)
}

/// An image with a heading, for a figure; `peak` is shown white.
pub(super) fn shown(title: &str, image: &Image, peak: f64, number: Option<f64>) -> Result<Picture> {
    Ok(Picture {
        title: title.to_owned(),
        png: png(image, peak)?,
        size: image.size(),
        number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use npb_kit::testing::Scratch;
    use std::fs;

    #[test]
    fn files_of_all_kinds_are_read() {
        let scratch = Scratch::new("bpfa-files");
        let grey = GrayImage::from_raw(2, 1, vec![7, 250]).unwrap();
        let deep =
            image::ImageBuffer::<image::Luma<u16>, _>::from_raw(2, 1, vec![7, 65000]).unwrap();
        let colour = RgbImage::from_raw(1, 1, vec![1, 2, 3]).unwrap();
        for ending in ["png", "tiff"] {
            let path = scratch.path(&format!("grey.{ending}"));
            grey.save(&path).unwrap();
            assert_eq!(read(&path).unwrap().values(), [7.0, 250.0]);
            let path = scratch.path(&format!("deep.{ending}"));
            DynamicImage::ImageLuma16(deep.clone()).save(&path).unwrap();
            assert_eq!(read(&path).unwrap().values(), [7.0, 65000.0]);
            let path = scratch.path(&format!("colour.{ending}"));
            colour.save(&path).unwrap();
            assert_eq!(read(&path).unwrap().size(), [1, 1, 3]);
        }
        let path = scratch.path("cube.npy");
        let values = [1.0, f32::NAN, 3.0, 4.0];
        npb_data::write_npy(File::create(&path).unwrap(), &[1, 2, 2], values.into_iter()).unwrap();
        let cube = read(&path).unwrap();
        assert_eq!(
            (cube.size(), cube.get(0, 0, 1), cube.get(0, 1, 1)),
            ([1, 2, 2], None, Some(4.0))
        );
        for (name, bytes) in [
            ("a.npy", &b"\x93NUMPY\x01\x00\xff\xff{"[..]),
            ("b.npy", b"abc"),
            ("c.png", b"\x89PNG"),
        ] {
            let path = scratch.path(name);
            fs::write(&path, bytes).unwrap();
            assert!(read(&path).is_err());
        }
    }

    #[test]
    fn images_are_shown_as_png_files() {
        let image = Image::from_slice(2, 3, 1, &[0_u8, 255, 128, 3, 7, 9]).unwrap();
        let one = shown("c", &image, 255.0, Some(1.5)).unwrap();
        let figure = npb_kit::npb_report::images("f", "F", "", std::slice::from_ref(&one)).unwrap();
        assert_eq!(figure.rows, [["c", "2x3x1", "1.5"]]);
        let back = image::load_from_memory(&one.png).unwrap();
        assert_eq!(back.to_luma8().into_raw(), [0, 255, 128, 3, 7, 9]);
    }
}
