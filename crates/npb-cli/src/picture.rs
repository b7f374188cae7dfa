//! Images as files have them: pixels, alpha, and how deep they are.

use image::DynamicImage;
use npb_data::{DataError, Image, Mask};

/// An image of a file, with what is needed to write one like it.
pub(crate) struct Picture {
    /// Transparent pixels are holes.
    pub(crate) pixels: Image,
    /// Of each pixel; empty without.
    pub(crate) alpha: Vec<f32>,
    /// Largest value of a channel: 255 or 65535.
    pub(crate) largest: f32,
    /// How many pixels are transparent.
    pub(crate) transparent: usize,
}

/// The image in the bytes of a PNG or TIFF file, or what is wrong with them.
pub(crate) fn decoded(bytes: &[u8]) -> Result<DynamicImage, String> {
    image::load_from_memory(bytes).map_err(|e| format!("{e}; PNG and TIFF are read"))
}

impl Picture {
    pub(crate) fn new(decoded: &DynamicImage) -> Result<Self, DataError> {
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
        let image = Image::new(height, width, channels, values.collect())?;
        let holes = Mask::from_fn(height, width, |i, j| alpha[i * width + j] == 0.0)?;
        Ok(Self {
            pixels: image.hide(&holes)?,
            transparent: alpha.iter().filter(|a| **a == 0.0).count(),
            alpha: if colour.has_alpha() {
                alpha
            } else {
                Vec::new()
            },
            largest: if deep { 65_535.0 } else { 255.0 },
        })
    }
}
