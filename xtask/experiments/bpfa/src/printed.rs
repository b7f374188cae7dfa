//! Numbers of others: what the papers print, and what was measured elsewhere and handed down.

/// Noise levels of the printed tables.
pub(super) const SIGMAS: [f64; 7] = [5.0, 10.0, 15.0, 20.0, 25.0, 50.0, 100.0];

/// Printed denoising of grey images by (K-SVD told sigma, beta process told nothing), Zhou et al., IEEE TIP 21(1), 2012.
const DENOISED: [(&str, [(f64, f64); 7]); 4] = [
    (
        "cameraman",
        [
            (37.87, 37.32),
            (33.73, 33.40),
            (31.42, 31.34),
            (29.91, 30.03),
            (28.85, 28.99),
            (25.73, 25.67),
            (21.69, 21.93),
        ],
    ),
    (
        "house",
        [
            (39.37, 39.18),
            (35.98, 36.29),
            (34.32, 34.52),
            (33.20, 33.25),
            (32.15, 32.24),
            (27.95, 28.49),
            (23.71, 24.37),
        ],
    ),
    (
        "peppers",
        [
            (37.78, 37.24),
            (34.28, 34.31),
            (32.22, 32.46),
            (30.82, 31.10),
            (29.73, 30.00),
            (26.13, 26.46),
            (21.75, 22.73),
        ],
    ),
    (
        "lena",
        [
            (38.60, 38.20),
            (35.47, 35.62),
            (33.70, 33.93),
            (32.38, 32.65),
            (31.32, 31.63),
            (27.79, 28.29),
            (24.46, 24.95),
        ],
    ),
];

/// Printed inferred noise of lena, in the order of [`SIGMAS`].
const LENA_NOISE: [f64; 7] = [5.83, 10.59, 15.53, 20.48, 25.44, 50.46, 100.54];

/// BM3D told sigma, protocol clip8, at 15, 25 and 50; measured elsewhere.
const BM3D_CLIPPED: [(&str, [f64; 3]); 3] = [
    ("house", [34.83, 32.86, 29.41]),
    ("peppers", [32.74, 30.24, 26.43]),
    ("cameraman", [31.88, 29.29, 25.29]),
];

/// Printed denoising of colour images at 5, 10, 15, 25.
const COLOUR: [(&str, [f64; 4]); 2] = [
    ("castle", [40.34, 36.28, 34.04, 31.24]),
    ("mushroom", [39.73, 35.70, 33.41, 30.62]),
];
pub(super) const COLOUR_SIGMAS: [f64; 4] = [5.0, 10.0, 15.0, 25.0];

/// Inpainting at 20% and 50% observed: (printed, best of biharmonic, linear and cubic interpolation measured elsewhere).
const INPAINTED: [(&str, [(f64, f64); 2]); 6] = [
    ("cameraman", [(24.11, 23.68), (28.90, 28.21)]),
    ("house", [(30.12, 30.00), (38.02, 35.49)]),
    ("peppers", [(25.92, 25.93), (32.58, 30.94)]),
    ("lena", [(31.00, 30.75), (36.94, 36.10)]),
    ("castle", [(29.12, 24.47), (36.45, 29.10)]),
    ("mushroom", [(31.56, 26.97), (38.88, 31.98)]),
];

/// House: interpolation followed by a denoiser told sigma (15, 25) at 50, 30 and 20% observed; measured elsewhere.
const TWO_STAGE: [(f64, [f64; 3]); 2] =
    [(15.0, [31.23, 28.84, 27.07]), (25.0, [29.18, 26.72, 24.95])];

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
    at(SIGMAS, of(&DENOISED, image)?, sigma).map(|(_, bpfa)| bpfa)
}

/// Printed PSNR of K-SVD told sigma.
pub(super) fn denoised_by_ksvd(image: &str, sigma: f64) -> Option<f64> {
    at(SIGMAS, of(&DENOISED, image)?, sigma).map(|(ksvd, _)| ksvd)
}

/// Printed inferred noise.
pub(super) fn noise_sd(image: &str, sigma: f64) -> Option<f64> {
    (image == "lena").then(|| at(SIGMAS, &LENA_NOISE, sigma))?
}

/// BM3D told sigma on clipped images.
pub(super) fn bm3d_clipped(image: &str, sigma: f64) -> Option<f64> {
    at([15.0, 25.0, 50.0], of(&BM3D_CLIPPED, image)?, sigma)
}

/// Printed PSNR of colour images.
pub(super) fn denoised_colour(image: &str, sigma: f64) -> Option<f64> {
    at(COLOUR_SIGMAS, of(&COLOUR, image)?, sigma)
}

/// Printed PSNR of inpainting.
pub(super) fn inpainted(image: &str, observed: f64) -> Option<f64> {
    at([0.2, 0.5], of(&INPAINTED, image)?, observed).map(|(printed, _)| printed)
}

/// The best interpolation.
pub(super) fn interpolated(image: &str, observed: f64) -> Option<f64> {
    at([0.2, 0.5], of(&INPAINTED, image)?, observed).map(|(_, best)| best)
}

/// Interpolation followed by a denoiser told sigma.
pub(super) fn two_stage(image: &str, sigma: f64, observed: f64) -> Option<f64> {
    let of_sigma = TWO_STAGE.iter().find(|(s, _)| *s == sigma)?;
    (image == "house").then(|| at([0.5, 0.3, 0.2], &of_sigma.1, observed))?
}

/// Hyperspectral crops at 5% observed: rank-2 alternating least squares on bands, measured elsewhere.
pub(super) fn bands(scene: &str) -> Option<f64> {
    match scene {
        "hydice" => Some(26.6),
        "sandiego" => Some(32.5),
        _ => None,
    }
}
