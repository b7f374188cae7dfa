//! Numbers that the papers print.

/// Noise levels of the printed tables.
pub(super) const SIGMAS: [f64; 7] = [5.0, 10.0, 15.0, 20.0, 25.0, 50.0, 100.0];

/// Printed denoising of grey images by K-SVD told sigma, and by the beta process told nothing; Zhou et al., IEEE TIP 21(1), 2012.
const DENOISED: [(&str, [[f64; 7]; 2]); 4] = [
    (
        "cameraman",
        [
            [37.87, 33.73, 31.42, 29.91, 28.85, 25.73, 21.69],
            [37.32, 33.40, 31.34, 30.03, 28.99, 25.67, 21.93],
        ],
    ),
    (
        "house",
        [
            [39.37, 35.98, 34.32, 33.20, 32.15, 27.95, 23.71],
            [39.18, 36.29, 34.52, 33.25, 32.24, 28.49, 24.37],
        ],
    ),
    (
        "peppers",
        [
            [37.78, 34.28, 32.22, 30.82, 29.73, 26.13, 21.75],
            [37.24, 34.31, 32.46, 31.10, 30.00, 26.46, 22.73],
        ],
    ),
    (
        "lena",
        [
            [38.60, 35.47, 33.70, 32.38, 31.32, 27.79, 24.46],
            [38.20, 35.62, 33.93, 32.65, 31.63, 28.29, 24.95],
        ],
    ),
];
/// Printed inferred noise of lena, in the order of [`SIGMAS`].
const LENA_NOISE: [f64; 7] = [5.83, 10.59, 15.53, 20.48, 25.44, 50.46, 100.54];

/// Printed denoising of colour images at 5, 10, 15, 25.
const COLOUR: [(&str, [f64; 4]); 2] = [
    ("castle", [40.34, 36.28, 34.04, 31.24]),
    ("mushroom", [39.73, 35.70, 33.41, 30.62]),
];
pub(super) const COLOUR_SIGMAS: [f64; 4] = [5.0, 10.0, 15.0, 25.0];

/// Printed inpainting at 20% and 50% observed.
const INPAINTED: [(&str, [f64; 2]); 6] = [
    ("cameraman", [24.11, 28.90]),
    ("house", [30.12, 38.02]),
    ("peppers", [25.92, 32.58]),
    ("lena", [31.00, 36.94]),
    ("castle", [29.12, 36.45]),
    ("mushroom", [31.56, 38.88]),
];

fn at<const N: usize, T: Copy>(keys: [f64; N], values: &[T; N], key: f64) -> Option<T> {
    let place = keys.iter().position(|k| *k == key)?;
    Some(values[place])
}

fn of<'a, T>(table: &'a [(&str, T)], image: &str) -> Option<&'a T> {
    table
        .iter()
        .find(|(name, _)| *name == image)
        .map(|(_, v)| v)
}

/// Printed PSNR of the beta process.
pub(super) fn denoised(image: &str, sigma: f64) -> Option<f64> {
    at(SIGMAS, &of(&DENOISED, image)?[1], sigma)
}

/// Printed PSNR of K-SVD told sigma.
pub(super) fn denoised_by_ksvd(image: &str, sigma: f64) -> Option<f64> {
    at(SIGMAS, &of(&DENOISED, image)?[0], sigma)
}

/// Printed inferred noise.
pub(super) fn noise_sd(image: &str, sigma: f64) -> Option<f64> {
    (image == "lena").then(|| at(SIGMAS, &LENA_NOISE, sigma))?
}

/// Printed PSNR of colour images.
pub(super) fn denoised_colour(image: &str, sigma: f64) -> Option<f64> {
    at(COLOUR_SIGMAS, of(&COLOUR, image)?, sigma)
}

/// Printed PSNR of inpainting.
pub(super) fn inpainted(image: &str, observed: f64) -> Option<f64> {
    at([0.2, 0.5], of(&INPAINTED, image)?, observed)
}
