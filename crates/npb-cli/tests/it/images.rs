//! Images as instruments save them: floating-point TIFF, smaller than a patch, constant.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use tiff::decoder::{Decoder, DecodingResult};
use tiff::encoder::{TiffEncoder, colortype};

use crate::Folder;

const SMALL: &str = "--set patch=[4,4] --set model.atoms=16 --set model.sweeps.burn_in=10 --set model.sweeps.keep=10";
const SIZE: (u32, u32) = (24, 20);

fn grey(k: u32) -> u8 {
    let (x, y) = (k % SIZE.0, k / SIZE.0);
    (90 + 70 * ((x / 4 + y / 6) % 2) + (x * 31 + y * 17) % 41) as u8
}

fn write(path: &Path, values: &[f32]) {
    let mut encoder = TiffEncoder::new(File::create(path).expect("a file")).expect("a TIFF");
    let written = encoder.write_image::<colortype::Gray32Float>(SIZE.0, SIZE.1, values);
    written.expect("a TIFF");
}

fn read(path: &Path) -> Vec<f32> {
    let file = BufReader::new(File::open(path).expect("a file"));
    match Decoder::new(file).expect("a TIFF").read_image() {
        Ok(DecodingResult::F32(values)) => values,
        other => panic!("floating-point numbers expected, found {other:?}"),
    }
}

/// The same numbers are restored alike, whatever holds them; NaN is a hole, and what is known stays to the last bit.
#[test]
fn floating_point_tiff_is_read_and_written() {
    let folder = Folder::new("floats");
    let n = SIZE.0 * SIZE.1;
    let bytes: Vec<u8> = (0..n).map(grey).collect();
    let image = image::GrayImage::from_raw(SIZE.0, SIZE.1, bytes.clone()).expect("an image");
    image.save(folder.path("grey.png")).expect("a file");
    let mut values: Vec<f32> = bytes.iter().map(|&v| f32::from(v)).collect();
    write(&folder.path("grey.tiff"), &values);
    folder.npb(&format!("denoise grey.png -o g.png {SMALL}"));
    folder.npb(&format!("denoise grey.tiff -o g.tiff {SMALL}"));
    let of_bytes = image::open(folder.path("g.png")).expect("an image");
    let of_bytes = of_bytes.to_luma8().into_raw();
    let of_floats = read(&folder.path("g.tiff"));
    let rounded = of_floats.iter().map(|v| v.round().clamp(0.0, 255.0) as u8);
    assert_eq!(rounded.collect::<Vec<u8>>(), of_bytes);
    // Values of another unit, with holes.
    for (k, value) in values.iter_mut().enumerate() {
        *value = if k % 7 == 3 {
            f32::NAN
        } else {
            0.001 * *value - 3.3
        };
    }
    write(&folder.path("holes.tiff"), &values);
    folder.npb(&format!("inpaint holes.tiff -o full.tiff {SMALL}"));
    let full = read(&folder.path("full.tiff"));
    assert!(full.iter().zip(&values).all(|(f, v)| v.is_nan() || f == v));
    assert!(full.iter().all(|v| (-3.4..-2.9).contains(v)));
    let error = folder.fails("denoise grey.tiff -o g.png", 2);
    assert!(error.contains("call it .tiff"), "{error}");
}

/// Fewer pixels than a patch, and one value everywhere.
#[test]
fn images_smaller_than_a_patch_and_constant_ones_are_restored() {
    let folder = Folder::new("tiny");
    let low = image::GrayImage::from_fn(40, 5, |x, y| image::Luma([grey(x % 24 + 24 * y)]));
    low.save(folder.path("low.png")).expect("a file");
    let plan = "--set model.sweeps.burn_in=10 --set model.sweeps.keep=10";
    folder.npb(&format!("denoise low.png -o low-out.png {plan}"));
    let found = image::open(folder.path("low-out.png")).expect("an image");
    assert_eq!((found.width(), found.height()), (40, 5));
    let flat = image::GrayAlphaImage::from_fn(20, 16, |x, y| {
        image::LumaA([77, if (x + 3 * y) % 5 == 0 { 0 } else { 255 }])
    });
    flat.save(folder.path("flat.png")).expect("a file");
    folder.npb("inpaint flat.png -o flat-out.png");
    let found = image::open(folder.path("flat-out.png")).expect("an image");
    let found = found.to_luma_alpha8();
    assert!(found.pixels().all(|p| p.0 == [77, 255]));
}
