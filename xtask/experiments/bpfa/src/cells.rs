//! One cell of a table: an image, what was done to it, and who repairs it.

use npb_baselines::{KsvdConfig, NlMeansConfig, interpolate_linear, ksvd, median_3x3, nl_means};
use npb_bpfa::{ImageConfig, Restored, restore};
use npb_data::{Image, Mask, metrics};
use npb_infer::stream;
use rand::RngExt;
use rand_distr::StandardNormal;

use super::pictures;
use npb_kit::data::sha256_of;
use npb_kit::{Context, Outcome, Record, Result, Scale, Trial};

/// The default configuration, under the name that it has in `results.csv`.
pub(super) const OURS: &str = "npb:bpfa";
/// Keys of the random streams.
const NOISE: u64 = 1;
const HOLES: u64 = 2;
const SPIKES: u64 = 3;
/// Standard deviation of spikes.
const SPIKE_SD: f32 = 100.0;
/// Side of the piece that a smoke run looks at.
const PIECE: usize = 32;
pub(super) const PEAK: f64 = 255.0;

/// What becomes of noise beyond the range of 8 bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Nothing: the printed denoising tables are of this kind.
    Float,
    /// Rounded and clipped to 0..255.
    Clip8,
}

/// What was done to an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Damage {
    pub(super) protocol: Protocol,
    pub(super) sigma: f64,
    /// Share of the pixels (of a cube: entries) that are observed.
    pub(super) observed: f64,
    /// Share of the pixels with a spike.
    pub(super) spikes: f64,
}

impl Damage {
    pub(super) const NONE: Self = Self {
        protocol: Protocol::Float,
        sigma: 0.0,
        observed: 1.0,
        spikes: 0.0,
    };

    pub(super) fn noise(sigma: f64) -> Self {
        Self {
            sigma,
            ..Self::NONE
        }
    }

    pub(super) fn holes(observed: f64) -> Self {
        Self {
            observed,
            ..Self::NONE
        }
    }

    /// `key=value` of what was done.
    pub(super) fn setting(&self) -> String {
        let mut parts = Vec::new();
        if self.sigma > 0.0 {
            let protocol = match self.protocol {
                Protocol::Float => "float",
                Protocol::Clip8 => "clip8",
            };
            parts.push(format!("protocol={protocol}"));
            parts.push(format!("sigma={}", self.sigma));
        }
        if self.observed < 1.0 {
            parts.push(format!("observed={}", self.observed));
        }
        if self.spikes > 0.0 {
            parts.push(format!("spikes={}", self.spikes));
        }
        parts.join(";")
    }

    /// The damaged image. The same noise, holes and spikes for all methods; noise is drawn pixel by pixel, so that levels of it differ by a factor.
    pub(super) fn apply(&self, truth: &Image, per_entry: bool, seed: u64) -> Result<Image> {
        let [height, width, channels] = truth.size();
        let noise = &mut stream(seed, [0, 0, 0, NOISE]);
        let spikes = &mut stream(seed, [0, 0, 0, SPIKES]);
        let mut image = truth.map(|v| {
            let mut v = v + self.sigma as f32 * noise.sample::<f32, _>(StandardNormal);
            let (u, z): (f64, f32) = (spikes.random(), spikes.sample(StandardNormal));
            if u < self.spikes {
                v += SPIKE_SD * z;
            }
            match self.protocol {
                Protocol::Float => v,
                Protocol::Clip8 => v.round().clamp(0.0, 255.0),
            }
        })?;
        if self.observed < 1.0 {
            let holes = &mut stream(seed, [0, 0, 0, HOLES]);
            let marks = if per_entry { width * channels } else { width };
            let mask = Mask::from_fn(height, marks, |_, _| holes.random::<f64>() >= self.observed)?;
            image = image.hide(&mask)?;
        }
        Ok(image)
    }
}

/// How a variant departs from [`ImageConfig::suited_to`].
pub(super) type Departure = fn(&mut ImageConfig);

/// Who repairs it.
#[derive(Clone, Debug)]
pub(super) enum Method {
    /// The model, told nothing. What follows the slash in its name, and what is different.
    Ours(&'static str, Departure),
    /// K-SVD told so many times the noise.
    Ksvd(f64),
    /// Linear interpolation.
    Linear,
    /// Linear interpolation, then non-local means given the noise level.
    LinearThenMeans,
    /// 3 x 3 median.
    Median,
    /// 3 x 3 median, then non-local means given the noise level.
    MedianThenMeans,
    /// Non-local means given the noise level.
    Means,
}

impl Method {
    pub(super) const DEFAULT: Self = Self::Ours("", |_| {});

    pub(super) fn name(&self) -> String {
        match self {
            Self::Ours("", _) => OURS.to_owned(),
            Self::Ours(variant, _) => format!("{OURS}/{variant}"),
            Self::Ksvd(1.0) => "ksvd/told".to_owned(),
            Self::Ksvd(factor) => format!("ksvd/told-{factor}"),
            Self::Linear => "linear".to_owned(),
            Self::LinearThenMeans => "linear+nl-means".to_owned(),
            Self::Median => "median".to_owned(),
            Self::MedianThenMeans => "median+nl-means".to_owned(),
            Self::Means => "nl-means".to_owned(),
        }
    }
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) folder: &'static str,
    pub(super) file: &'static str,
    pub(super) damage: Damage,
    pub(super) method: Method,
    /// Keep the restored image and the dictionary, for a figure.
    pub(super) shown: bool,
}

impl Cell {
    pub(super) fn new(
        folder: &'static str,
        file: &'static str,
        damage: Damage,
        method: Method,
    ) -> Self {
        Self {
            folder,
            file,
            damage,
            method,
            shown: false,
        }
    }

    /// Name of the image in the tables, without size and ending.
    pub(super) fn image_name(&self) -> &'static str {
        let name = self.file.split(['.', '-']).next().unwrap_or(self.file);
        name.trim_end_matches(|c: char| c.is_ascii_digit())
    }

    pub(super) fn full_setting(&self) -> String {
        let damage = self.damage.setting();
        let between = if damage.is_empty() { "" } else { ";" };
        format!("image={}{between}{damage}", self.image_name())
    }
}

/// Series of a cell that is shown.
pub(super) const RESTORED: &str = "restored";
pub(super) const ATOMS: &str = "atoms";
pub(super) const USAGE: &str = "usage";

/// Runs cells, in the order given: a run that is stopped has done the first ones.
pub(super) fn run(context: &Context<'_>, cells: Vec<Cell>) -> Result<Vec<Record>> {
    let mut trials = Vec::with_capacity(cells.len());
    for cell in cells {
        let checksum = sha256_of(&context.data_file(cell.folder, cell.file))?;
        let mut config = ImageConfig::default();
        if let Method::Ours(_, depart) = &cell.method {
            depart(&mut config);
        }
        let config = format!(
            "{config:?}\n{:?}\n{checksum}\nshown {}",
            context.scale, cell.shown
        );
        let place = [cell.folder, &cell.full_setting(), &cell.method.name()];
        trials.push(Trial::new(place, 0, config, cell.clone()));
    }
    context.run_trials(&trials, |trial, seed| {
        let cell = &trial.work;
        let truth = load(context, cell)?;
        let per_entry = truth.channels() > 1;
        let damaged = cell.damage.apply(&truth, per_entry, seed)?;
        measure(cell, &truth, &damaged, context.scale, seed)
    })
}

/// The image of a cell; of a smoke run a piece of it.
pub(super) fn load(context: &Context<'_>, cell: &Cell) -> Result<Image> {
    let image = pictures::read(&context.data_file(cell.folder, cell.file))?;
    if context.scale != Scale::Smoke {
        return Ok(image);
    }
    let [height, width, channels] = image.size();
    let (h, w) = (PIECE.min(height), PIECE.min(width));
    let (top, left) = ((height - h) / 2, (width - w) / 2);
    let mut values = Vec::with_capacity(h * w * channels);
    for row in top..top + h {
        let start = (row * width + left) * channels;
        values.extend_from_slice(&image.values()[start..start + w * channels]);
    }
    Ok(Image::new(h, w, channels, values)?)
}

/// Peak of the measure: the largest value of a cube, 255 otherwise.
pub(super) fn peak(truth: &Image) -> f64 {
    if truth.channels() > 3 {
        truth.values().iter().fold(0.0_f32, |a, &v| a.max(v)).into()
    } else {
        PEAK
    }
}

pub(super) fn measure(
    cell: &Cell,
    truth: &Image,
    damaged: &Image,
    scale: Scale,
    seed: u64,
) -> Result<Outcome> {
    let sigma = cell.damage.sigma;
    let told = |factor: f64| NlMeansConfig::told(factor * sigma);
    let image = match &cell.method {
        Method::Ours(_, depart) => {
            let mut config = ImageConfig::suited_to(damaged);
            depart(&mut config);
            config.model.seed = seed;
            if scale == Scale::Smoke {
                config.model.atoms = config.model.atoms.min(24);
                config.model.sweeps = npb_kit::sweeps(4, 4);
            }
            return ours(cell, truth, &restore(damaged, &config)?);
        }
        Method::Ksvd(factor) => {
            let mut config = KsvdConfig::told(factor * sigma);
            if scale == Scale::Smoke {
                config.iterations = 1;
            }
            ksvd(damaged, &config)?
        }
        Method::Linear => interpolate_linear(damaged)?,
        Method::LinearThenMeans => nl_means(&interpolate_linear(damaged)?, &told(1.0))?,
        Method::Median => median_3x3(damaged)?,
        // The median has taken most of the noise out: so much is left of it (nine normals have a median with this standard deviation).
        Method::MedianThenMeans => nl_means(&median_3x3(damaged)?, &told(MEDIAN_LEFT))?,
        Method::Means => nl_means(damaged, &told(1.0))?,
    };
    let psnr = metrics::psnr(image.values(), truth.values(), peak(truth))?;
    Ok(Outcome::metrics([("psnr", psnr)]))
}

/// Standard deviation of the median of nine standard normals.
const MEDIAN_LEFT: f64 = 0.408;

/// Metrics `psnr`, `noise_sd`, `coverage_90` (of the noise-free pixels), `coverage_90_missing`, `atoms`.
pub(super) fn ours(cell: &Cell, truth: &Image, restored: &Restored) -> Result<Outcome> {
    let image = restored.image()?;
    let psnr = metrics::psnr(image.values(), truth.values(), peak(truth))?;
    let inside = truth.values().iter().zip(restored.interval(0.9)?);
    let inside = inside.filter(|(t, interval)| interval.holds(f64::from(**t)));
    let inside = inside.count();
    let used = restored.usage.iter().filter(|&&u| u > 0.0).count();
    let mut outcome = Outcome::metrics([
        ("psnr", psnr),
        ("noise_sd", restored.noise_sd[0]),
        ("coverage_90", inside as f64 / truth.values().len() as f64),
        ("atoms", used as f64),
    ]);
    if cell.shown {
        let numbers = |values: &[f32]| values.iter().map(|&v| f64::from(v)).collect();
        let series = &mut outcome.series;
        series.insert(RESTORED.to_owned(), numbers(image.values()));
        let k = restored.dictionary.n_atoms();
        let atoms: Vec<f32> = (0..k).flat_map(|k| restored.dictionary.atom(k)).collect();
        series.insert(ATOMS.to_owned(), numbers(&atoms));
        series.insert(USAGE.to_owned(), restored.usage.clone());
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat() -> Image {
        Image::new(60, 60, 1, vec![128.0; 3600]).unwrap()
    }

    #[test]
    fn damage_is_what_it_says_and_the_same_for_all() {
        let truth = flat();
        let damage = Damage {
            observed: 0.2,
            ..Damage::noise(25.0)
        };
        let damaged = damage.apply(&truth, false, 3).unwrap();
        assert_eq!(damaged, damage.apply(&truth, false, 3).unwrap());
        let share = damaged.n_observed() as f64 / 3600.0;
        assert!((share - 0.2).abs() < 0.03, "{share}");
        let whole = Damage::noise(25.0).apply(&truth, false, 3).unwrap();
        let squares = whole.values().iter().map(|v| f64::from(v - 128.0).powi(2));
        let sd = (squares.sum::<f64>() / 3600.0).sqrt();
        assert!((sd - 25.0).abs() < 1.0, "{sd}");
        // Twice the noise is the same noise, doubled.
        let twice = Damage::noise(50.0).apply(&truth, false, 3).unwrap();
        let both = whole.values().iter().zip(twice.values());
        assert!(
            both.clone()
                .all(|(a, b)| (2.0 * (a - 128.0) - (b - 128.0)).abs() < 1e-3)
        );
        let clipped = Damage {
            protocol: Protocol::Clip8,
            ..Damage::noise(100.0)
        };
        let clipped = clipped.apply(&truth, false, 3).unwrap();
        assert!(
            clipped
                .values()
                .iter()
                .all(|v| (0.0..=255.0).contains(v) && v.fract() == 0.0)
        );
        assert_eq!(damage.setting(), "protocol=float;sigma=25;observed=0.2");
    }

    #[test]
    fn spikes_fall_on_their_share_of_the_pixels() {
        let damage = Damage {
            spikes: 0.1,
            ..Damage::NONE
        };
        let damaged = damage.apply(&flat(), false, 1).unwrap();
        let hit = damaged.values().iter().filter(|v| **v != 128.0).count();
        assert!((300..420).contains(&hit), "{hit}");
    }
}
