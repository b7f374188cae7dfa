//! Restoration of a grey image of 512 x 512 as users start it, nothing told: Gaussian noise of standard deviation 25, and four fifths of the pixels missing.

use std::path::Path;

use npb_benches::timed;
use npb_bpfa::{ImageConfig, restore};
use npb_data::{Image, Mask};
use npb_infer::stream;
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::Outcome;

/// In the folder that `NPB_DATA_DIR` names.
const IMAGE: &str = "images/lena512.png";
const SIGMA: f32 = 25.0;
const MISSING: f64 = 0.8;
const LEVEL: f64 = 0.9;

pub(crate) fn denoise() -> Outcome {
    let truth = read();
    let rng = &mut stream(1, [0; 4]);
    let noisy = truth
        .map(|v| v + SIGMA * rng.sample::<f32, _>(StandardNormal))
        .expect("finite values");
    restored(&truth, &noisy)
}

pub(crate) fn inpaint() -> Outcome {
    let truth = read();
    let rng = &mut stream(2, [0; 4]);
    let hidden: Vec<bool> = (0..truth.values().len())
        .map(|_| rng.random::<f64>() < MISSING)
        .collect();
    let width = truth.width();
    let holes = Mask::from_fn(truth.height(), width, |row, column| {
        hidden[row * width + column]
    });
    let seen = truth
        .hide(&holes.expect("a mask"))
        .expect("of the image's size");
    restored(&truth, &seen)
}

fn read() -> Image {
    let folder = std::env::var("NPB_DATA_DIR").expect("NPB_DATA_DIR names the folder of data");
    let picture = image::open(Path::new(&folder).join(IMAGE))
        .expect("an image that can be read")
        .into_luma8();
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    Image::from_slice(height, width, 1, picture.as_raw()).expect("a grey image")
}

/// Of the whole image: peak signal to noise ratio, and the share of pixels in their intervals.
fn restored(truth: &Image, damaged: &Image) -> Outcome {
    let (restored, seconds) = timed(|| {
        let config = ImageConfig::suited_to(damaged);
        restore(damaged, &config).expect("a good image")
    });
    let image = restored.image().expect("an image");
    let pairs = || image.values().iter().zip(truth.values());
    let n = truth.values().len() as f64;
    let square: f64 = pairs().map(|(a, b)| f64::from(a - b).powi(2)).sum();
    let intervals = restored.interval(LEVEL).expect("a level");
    let inside = intervals.iter().zip(truth.values()).filter(|(i, t)| {
        let value = f64::from(**t);
        i.lower <= value && value <= i.upper
    });
    Outcome {
        seconds,
        quality: vec![
            ("psnr", 10.0 * (255.0 * 255.0 * n / square).log10()),
            ("coverage_90", inside.count() as f64 / n),
            ("noise_sd", restored.noise_sd[0]),
        ],
    }
}
