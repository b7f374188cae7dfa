//! Images as files have them: pixels, alpha, and how deep they are.

#[path = "picture/float_tiff.rs"]
mod float_tiff;

use image::DynamicImage;
use npb_data::{Image, Mask};

use float_tiff::Floats;

/// What a file keeps of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    Byte,
    Word,
    Float,
}

impl Depth {
    /// Alpha of an opaque pixel.
    pub(crate) fn opaque(self) -> f32 {
        match self {
            Self::Byte => 255.0,
            Self::Word => 65_535.0,
            Self::Float => 1.0,
        }
    }
}

/// An image of a file, with what is needed to write one like it.
pub(crate) struct Picture {
    /// Transparent pixels are holes.
    pub(crate) pixels: Image,
    /// Of each pixel; empty without.
    pub(crate) alpha: Vec<f32>,
    pub(crate) depth: Depth,
    /// How many pixels are transparent.
    pub(crate) transparent: usize,
}

/// The image in the bytes of a PNG or TIFF file of whole numbers, or what is wrong with them.
pub(crate) fn decoded(bytes: &[u8]) -> Result<DynamicImage, String> {
    image::load_from_memory(bytes)
        .map_err(|e| format!("{e}; PNG and TIFF (without a palette) are read"))
}

impl Picture {
    /// The picture in the bytes of a PNG or TIFF file, or what is wrong with them.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        match float_tiff::read(bytes) {
            Some(floats) => Self::of_floats(floats?),
            None => Self::of_whole(&decoded(bytes)?),
        }
    }

    fn of_whole(decoded: &DynamicImage) -> Result<Self, String> {
        let [height, width] = [decoded.height() as usize, decoded.width() as usize];
        let colour = decoded.color();
        let deep = colour.bytes_per_pixel() / colour.channel_count() > 1;
        let bytes = |raw: Vec<u8>| raw.into_iter().map(f32::from).collect();
        let words = |raw: Vec<u16>| raw.into_iter().map(f32::from).collect();
        // With alpha, opaque where there is none.
        let (channels, all): (usize, Vec<f32>) = match (colour.has_color(), deep) {
            (false, false) => (1, bytes(decoded.to_luma_alpha8().into_raw())),
            (false, true) => (1, words(decoded.to_luma_alpha16().into_raw())),
            (true, false) => (3, bytes(decoded.to_rgba8().into_raw())),
            (true, true) => (3, words(decoded.to_rgba16().into_raw())),
        };
        let pixels = all.chunks_exact(channels + 1);
        let alpha: Vec<f32> = pixels.clone().map(|pixel| pixel[channels]).collect();
        let values = pixels.flat_map(|pixel| &pixel[..channels]).copied();
        let image = Image::new(height, width, channels, values.collect());
        let mut picture = Self::with_holes(
            image.map_err(|e| e.to_string())?,
            alpha,
            if deep { Depth::Word } else { Depth::Byte },
        )?;
        if !colour.has_alpha() {
            picture.alpha = Vec::new();
        }
        Ok(picture)
    }

    /// The picture of floating-point numbers: NaN and transparent pixels are holes.
    fn of_floats(floats: Floats) -> Result<Self, String> {
        let [height, width, all] = floats.size;
        let channels = all - usize::from(floats.alpha);
        let pixels = floats.values.chunks_exact(all);
        let alpha: Vec<f32> = match floats.alpha {
            true => pixels.clone().map(|pixel| pixel[channels]).collect(),
            false => Vec::new(),
        };
        let values = pixels.flat_map(|pixel| &pixel[..channels]).copied();
        let values: Vec<f32> = values.collect();
        let image = Image::from_nan_coded(height, width, channels, &values);
        Self::with_holes(image.map_err(|e| e.to_string())?, alpha, Depth::Float)
    }

    /// Pixels whose alpha is not above 0 are holes.
    fn with_holes(image: Image, alpha: Vec<f32>, depth: Depth) -> Result<Self, String> {
        let (height, width) = (image.height(), image.width());
        let is_hole = |a: &f32| a.is_nan() || *a <= 0.0;
        let hole = |i: usize, j: usize| alpha.get(i * width + j).is_some_and(is_hole);
        let holes = Mask::from_fn(height, width, hole);
        let hidden = holes.and_then(|holes| image.hide(&holes));
        Ok(Self {
            pixels: hidden.map_err(|e| e.to_string())?,
            transparent: alpha.iter().filter(|a| is_hole(a)).count(),
            alpha,
            depth,
        })
    }
}
