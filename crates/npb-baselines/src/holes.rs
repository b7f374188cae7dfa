//! Missing pixels filled from their neighbours, and missing entries of a cube from few spectra.

use npb_data::Image;
use npb_infer::stream;
use npb_linalg::Cholesky;
use npb_linalg::faer::Mat;
use rand::RngExt;
use spade::{DelaunayTriangulation, FloatTriangulation, HasPosition, Point2};

use crate::BaselineError;
use crate::error::{at_least_one, positive};

/// A pixel and its value.
struct Site {
    at: Point2<f64>,
    value: f64,
}

impl HasPosition for Site {
    type Scalar = f64;

    fn position(&self) -> Point2<f64> {
        self.at
    }
}

/// Fills missing entries, channel by channel, by linear interpolation over the Delaunay triangles of the observed ones; outside of all triangles the
/// nearest observed value. A channel without observed entries stays missing.
///
/// The triangulation is the library spade's.
///
/// # Errors
/// The library refuses a position.
///
/// ```
/// let nan = f32::NAN;
/// let image = npb_data::Image::from_nan_coded(3, 3, 1, &[0.0, nan, 2.0, nan, nan, nan, 4.0, nan, 6.0])?;
/// let filled = npb_baselines::interpolate_linear(&image)?;
/// assert!((filled.get(1, 1, 0).unwrap() - 3.0).abs() < 1e-6);
/// # Ok::<(), npb_baselines::BaselineError>(())
/// ```
pub fn interpolate_linear(image: &Image) -> Result<Image, BaselineError> {
    let [height, width, channels] = image.size();
    let mut values: Vec<f32> = vec![f32::NAN; image.values().len()];
    for channel in 0..channels {
        let pixels = (0..height).flat_map(|r| (0..width).map(move |c| (r, c)));
        let sites: Vec<Site> = pixels
            .clone()
            .filter_map(|(r, c)| {
                Some(Site {
                    at: Point2::new(c as f64, r as f64),
                    value: image.get(r, c, channel)?.into(),
                })
            })
            .collect();
        let triangles = DelaunayTriangulation::<Site>::bulk_load_stable(sites)
            .map_err(|e| BaselineError::Triangulation(e.to_string()))?;
        let linear = triangles.barycentric();
        for (r, c) in pixels {
            let at = Point2::new(c as f64, r as f64);
            let inside = linear.interpolate(|vertex| vertex.data().value, at);
            let nearest = || triangles.nearest_neighbor(at).map(|v| v.data().value);
            if let Some(value) = image
                .get(r, c, channel)
                .map(f64::from)
                .or(inside)
                .or_else(nearest)
            {
                values[(r * width + c) * channels + channel] = value as f32;
            }
        }
    }
    Ok(Image::from_nan_coded(height, width, channels, &values)?)
}

/// Settings of [`least_squares_bands`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BandsConfig {
    /// Spectra whose mixtures pixels are.
    pub rank: usize,
    /// Added to the diagonal of every least-squares problem, as a share of the mean square of its regressors.
    pub ridge: f64,
    /// Rounds over pixels and bands.
    pub iterations: usize,
    /// Of the start.
    pub seed: u64,
}

impl Default for BandsConfig {
    /// Rank 2, ridge 0.001, 60 rounds.
    fn default() -> Self {
        Self {
            rank: 2,
            ridge: 1e-3,
            iterations: 60,
            seed: 1,
        }
    }
}

/// Fills a cube as a matrix of few spectra, pixels x bands, by alternating least squares over the observed entries. The first spectrum starts at the band
/// means, the others at these times numbers drawn from -1 to 1. With rank 1 and no rounds: gain times band mean.
///
/// Observed entries are replaced by their fit, too. A pixel without observed entries is filled with the band means, a band without stays missing.
/// Cost: rounds x entries x rank^2.
///
/// # Errors
/// [`BaselineError::Config`]; [`BaselineError::NotPositiveDefinite`] when all values are 0.
pub fn least_squares_bands(image: &Image, config: &BandsConfig) -> Result<Image, BaselineError> {
    at_least_one("rank", config.rank)?;
    positive("ridge", config.ridge)?;
    let [height, width, bands] = image.size();
    let rank = config.rank;
    let means = image.channel_means();
    let mut rng = stream(config.seed, [0; 4]);
    let mut spectra: Vec<f64> = Vec::with_capacity(bands * rank);
    for mean in &means {
        let mean = mean.unwrap_or(0.0);
        spectra.push(mean);
        spectra.extend((1..rank).map(|_| mean * (2.0 * rng.random::<f64>() - 1.0)));
    }
    let mut of_pixel: Vec<Vec<(usize, f64)>> = vec![Vec::new(); height * width];
    let mut of_band: Vec<Vec<(usize, f64)>> = vec![Vec::new(); bands];
    for (pixel, entries) in of_pixel.iter_mut().enumerate() {
        for (band, lines) in of_band.iter_mut().enumerate() {
            if let Some(value) = image.get(pixel / width, pixel % width, band) {
                entries.push((band, value.into()));
                lines.push((pixel, value.into()));
            }
        }
    }
    let mut mixtures = regress(&of_pixel, &spectra, rank, config.ridge, 0)?;
    for round in 1..=config.iterations {
        spectra = regress(&of_band, &mixtures, rank, config.ridge, round)?;
        mixtures = regress(&of_pixel, &spectra, rank, config.ridge, round)?;
    }
    let mut values = Vec::with_capacity(image.values().len());
    for (entries, mixture) in of_pixel.iter().zip(mixtures.chunks_exact(rank)) {
        for (mean, spectrum) in means.iter().zip(spectra.chunks_exact(rank)) {
            let fitted: f64 = mixture.iter().zip(spectrum).map(|(m, s)| m * s).sum();
            values.push(match mean {
                None => f64::NAN,
                Some(mean) if entries.is_empty() => *mean,
                Some(_) => fitted,
            });
        }
    }
    Ok(Image::from_nan_coded(height, width, bands, &values)?)
}

/// Coefficients of each line's entries on the regressors of their partners; 0 for a line without entries.
fn regress(
    lines: &[Vec<(usize, f64)>],
    regressors: &[f64],
    rank: usize,
    ridge: f64,
    iteration: usize,
) -> Result<Vec<f64>, BaselineError> {
    let mut out = vec![0.0; lines.len() * rank];
    let mut factor = Cholesky::default();
    for (line, out) in lines.iter().zip(out.chunks_exact_mut(rank)) {
        if line.is_empty() {
            continue;
        }
        let mut gram = Mat::<f64>::zeros(rank, rank);
        for &(partner, value) in line {
            let x = &regressors[partner * rank..][..rank];
            for i in 0..rank {
                out[i] += x[i] * value;
                for j in 0..=i {
                    gram[(i, j)] += x[i] * x[j];
                }
            }
        }
        let mean = (0..rank).map(|i| gram[(i, i)]).sum::<f64>() / rank as f64;
        (0..rank).for_each(|i| gram[(i, i)] += ridge * mean);
        factor
            .factor(gram.as_ref())
            .map_err(|bad| BaselineError::NotPositiveDefinite {
                what: "least squares over bands",
                iteration,
                pivot: bad.pivot,
            })?;
        factor.solve(out);
    }
    Ok(out)
}
