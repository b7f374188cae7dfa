//! Denoisers of images that need no training: the median of 3 x 3 pixels, and non-local means.

use npb_data::Image;

use crate::BaselineError;
use crate::error::{at_least_one, complete_image, positive};

/// The median of each pixel and its neighbours (3 x 3; fewer at the border), channel by channel. For an even number, the mean of the middle two.
///
/// # Errors
/// [`BaselineError::MissingPixel`] for an image with holes.
///
/// ```
/// let spike = npb_data::Image::from_slice(3, 3, 1, &[1_u8, 1, 1, 1, 255, 1, 1, 1, 1])?;
/// assert_eq!(npb_baselines::median_3x3(&spike)?.get(1, 1, 0), Some(1.0));
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
pub fn median_3x3(image: &Image) -> Result<Image, BaselineError> {
    complete_image(image)?;
    let [height, width, channels] = image.size();
    let values = image.values();
    let mut out = Vec::with_capacity(values.len());
    let mut around = Vec::with_capacity(9);
    for row in 0..height {
        for column in 0..width {
            for channel in 0..channels {
                around.clear();
                for r in row.saturating_sub(1)..(row + 2).min(height) {
                    for c in column.saturating_sub(1)..(column + 2).min(width) {
                        around.push(values[(r * width + c) * channels + channel]);
                    }
                }
                around.sort_unstable_by(f32::total_cmp);
                let half = around.len() / 2;
                out.push(if around.len() % 2 == 1 {
                    around[half]
                } else {
                    0.5 * (around[half - 1] + around[half])
                });
            }
        }
    }
    Ok(Image::new(height, width, channels, out)?)
}

/// Settings of [`nl_means`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NlMeansConfig {
    /// Noise standard deviation, in the units of the image; it must be told.
    pub sigma: f64,
    /// Bandwidth of the weights as a multiple of `sigma`.
    pub bandwidth: f64,
    /// Patches reach this far from their centre.
    pub patch_radius: usize,
    /// Patches are looked for this far away.
    pub search_radius: usize,
}

impl NlMeansConfig {
    /// Patches of 5 x 5 in a window of 21 x 21, bandwidth 0.8 sigma.
    pub fn told(sigma: f64) -> Self {
        Self {
            sigma,
            bandwidth: 0.8,
            patch_radius: 2,
            search_radius: 10,
        }
    }
}

/// Non-local means: every pixel becomes the mean of the pixels around it, weighted by `exp(-max(d^2 - 2 sigma^2, 0) / (bandwidth sigma)^2)`, `d^2` the mean
/// squared difference of the patches around the two, all channels together; the image is mirrored at its border.
///
/// Source: Buades, Coll and Morel, CVPR 2005; patch distances for all pixels at once, one shift after the other. Cost: (2 search + 1)^2 passes.
///
/// # Errors
/// [`BaselineError::Config`], [`BaselineError::MissingPixel`].
pub fn nl_means(image: &Image, config: &NlMeansConfig) -> Result<Image, BaselineError> {
    complete_image(image)?;
    positive("sigma", config.sigma)?;
    positive("bandwidth", config.bandwidth)?;
    at_least_one("search_radius", config.search_radius)?;
    let [height, width, channels] = image.size();
    let reach = config.search_radius as isize;
    let (mut sums, mut weights) = (
        vec![0.0; height * width * channels],
        vec![0.0; height * width],
    );
    let inverse = (config.bandwidth * config.sigma).powi(-2);
    for down in -reach..=reach {
        for right in -reach..=reach {
            let shifted = |row: usize, column: usize| {
                let (r, c) = (
                    mirror(row as isize + down, height),
                    mirror(column as isize + right, width),
                );
                (r * width + c) * channels
            };
            let distance = |row: usize, column: usize| {
                let (a, b) = ((row * width + column) * channels, shifted(row, column));
                let square = |k: usize| (image.values()[a + k] - image.values()[b + k]).powi(2);
                (0..channels).map(square).sum::<f32>() / channels as f32
            };
            let distances: Vec<f32> = (0..height * width)
                .map(|p| distance(p / width, p % width))
                .collect();
            let near = box_means(&distances, width, config.patch_radius);
            for (pixel, &d) in near.iter().enumerate() {
                let excess = (f64::from(d) - 2.0 * config.sigma * config.sigma).max(0.0);
                let weight = (-excess * inverse).exp();
                let from = shifted(pixel / width, pixel % width);
                weights[pixel] += weight;
                for k in 0..channels {
                    sums[pixel * channels + k] += weight * f64::from(image.values()[from + k]);
                }
            }
        }
    }
    let mean = |(i, sum): (usize, &f64)| (sum / weights[i / channels]) as f32;
    let out = sums.iter().enumerate().map(mean).collect();
    Ok(Image::new(height, width, channels, out)?)
}

/// An index beyond the border, mirrored at it (the border's pixel is repeated).
fn mirror(at: isize, n: usize) -> usize {
    let period = 2 * n as isize;
    let at = at.rem_euclid(period);
    at.min(period - 1 - at) as usize
}

/// Means over squares of `2 radius + 1`, smaller at the border.
fn box_means(values: &[f32], width: usize, radius: usize) -> Vec<f32> {
    let height = values.len() / width;
    // Of everything above and to the left.
    let mut sums = vec![0.0_f64; (height + 1) * (width + 1)];
    for row in 0..height {
        let mut line = 0.0;
        for column in 0..width {
            line += f64::from(values[row * width + column]);
            sums[(row + 1) * (width + 1) + column + 1] =
                sums[row * (width + 1) + column + 1] + line;
        }
    }
    let mean = |pixel: usize| {
        let (row, column) = (pixel / width, pixel % width);
        let (top, bottom) = (row.saturating_sub(radius), (row + radius + 1).min(height));
        let (left, right) = (
            column.saturating_sub(radius),
            (column + radius + 1).min(width),
        );
        let at = |r: usize, c: usize| sums[r * (width + 1) + c];
        let sum = at(bottom, right) - at(top, right) - at(bottom, left) + at(top, left);
        (sum / ((bottom - top) * (right - left)) as f64) as f32
    };
    (0..values.len()).map(mean).collect()
}
