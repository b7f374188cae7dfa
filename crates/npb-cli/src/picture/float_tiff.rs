//! TIFF files of floating-point numbers, which the crate of the other files reads in part only.

use std::io::Cursor;

use tiff::ColorType;
use tiff::decoder::{Decoder, DecodingResult};
use tiff::tags::Tag;

/// Tag `SampleFormat`: floating-point numbers.
const FLOATS: u16 = 3;

/// An image of such a file.
pub(crate) struct Floats {
    /// Height, width, channels (alpha included).
    pub(crate) size: [usize; 3],
    /// The last channel is alpha.
    pub(crate) alpha: bool,
    /// Row by row, channels innermost; NaN may occur.
    pub(crate) values: Vec<f32>,
}

/// The image, or what is wrong with it; `None` for files of other kinds.
pub(crate) fn read(bytes: &[u8]) -> Option<Result<Floats, String>> {
    let mut decoder = Decoder::new(Cursor::new(bytes)).ok()?;
    let formats = decoder.find_tag_unsigned_vec::<u16>(Tag::SampleFormat);
    let formats = formats.ok().flatten()?;
    (formats.first() == Some(&FLOATS)).then(|| read_floats(&mut decoder))
}

fn read_floats(decoder: &mut Decoder<Cursor<&[u8]>>) -> Result<Floats, String> {
    let text = |e: tiff::TiffError| e.to_string();
    let (width, height) = decoder.dimensions().map_err(text)?;
    let (channels, alpha) = match decoder.colortype().map_err(text)? {
        ColorType::Gray(_) => (1, false),
        ColorType::GrayA(_) => (2, true),
        ColorType::RGB(_) => (3, false),
        ColorType::RGBA(_) => (4, true),
        // Several samples of no colour: two are grey and alpha.
        ColorType::Multiband { num_samples: 2, .. } => (2, true),
        other => return Err(format!("floating-point numbers as {other:?} are not read")),
    };
    let values: Vec<f32> = match decoder.read_image().map_err(text)? {
        DecodingResult::F32(values) => values,
        DecodingResult::F64(values) => values.into_iter().map(|v| v as f32).collect(),
        _ => return Err("floating-point numbers of 16 bits are not read: save 32".to_owned()),
    };
    let size = [height as usize, width as usize, channels];
    match values.len() == size.iter().product::<usize>() {
        true => Ok(Floats {
            size,
            alpha,
            values,
        }),
        false => {
            Err("channels in planes of their own are not read: save them pixel by pixel".to_owned())
        }
    }
}
