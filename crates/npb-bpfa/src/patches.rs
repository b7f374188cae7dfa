//! Patches of an image as rows of the model, and atoms to start from.

use npb_data::{Image, Mask, PatchGrid};
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_linalg::dot;
use npb_linalg::faer::Mat;
use npb_linalg::svd::thin_svd;
use rand::RngExt;
use rand_distr::StandardNormal;

use crate::gibbs::BpfaSampler;
use crate::roles::{NEAR_CHANNELS, Roles};
use crate::state::Dictionary;
use crate::{BpfaConfig, BpfaError, BpfaRows};

/// Keys of the random streams of the start.
const START: u64 = 9;

/// How often missing pixels become the mean of their neighbours after they were filled: the fill is smooth then.
const SMOOTHING: usize = 30;

/// BpfaUnits of the model: a value v of a channel is `(v - centre) / scale`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ImageUnits {
    /// Mean of the observed pixels of each channel; of a channel without any, that of all.
    pub(crate) centres: Vec<f64>,
    pub(crate) scale: f64,
    /// Channels of which nothing is observed.
    pub(crate) unknown: Vec<usize>,
}

impl ImageUnits {
    /// Observed means of the channels are taken out (those of patches were 1.4 dB worse), the observed range becomes 1.
    /// With bounds all channels have one centre, so that the bounds are the same in all.
    pub(crate) fn of(image: &Image, bounds: Option<[f64; 2]>) -> Result<Self, BpfaError> {
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        let cols = image.width() * image.channels();
        for row in 0..image.height() {
            for col in image.observed().ones_in_row(row) {
                let value = image.values()[row * cols + col];
                (low, high) = (low.min(value), high.max(value));
            }
        }
        if image.n_observed() == 0 {
            return Err(BpfaError::NoEntries);
        }
        let means = image.channel_means();
        let known: Vec<f64> = means.iter().copied().flatten().collect();
        let all = known.iter().sum::<f64>() / known.len() as f64;
        Ok(Self {
            centres: means
                .iter()
                .map(|m| m.filter(|_| bounds.is_none()).unwrap_or(all))
                .collect(),
            scale: f64::from(high) - f64::from(low),
            unknown: (0..means.len()).filter(|&c| means[c].is_none()).collect(),
        })
    }

    fn inward(&self, channel: usize, value: f64) -> f32 {
        ((value - self.centres[channel]) / self.scale) as f32
    }

    /// Bounds in units of the model.
    pub(crate) fn bounds(&self, [low, high]: [f64; 2]) -> (f32, f32) {
        (self.inward(0, low), self.inward(0, high))
    }

    /// Back to the units of the image.
    pub(crate) fn outward(&self, channel: usize, value: f64) -> f64 {
        value * self.scale + self.centres[channel]
    }
}

/// What part each channel has.
pub(crate) fn roles_of(image: &Image) -> Roles {
    let [height, width, channels] = image.size();
    let value =
        |at: usize, channel: usize| image.get(at / width, at % width, channel).map(f64::from);
    Roles::of((height * width, channels), NEAR_CHANNELS, value)
}

/// The channels that are modelled, with what their copies say; nothing where none of them varies.
pub(crate) fn varying(image: &Image, roles: &Roles) -> Result<Option<Image>, BpfaError> {
    let [height, width, channels] = image.size();
    let means = image.channel_means();
    if roles.modelled().all(|c| means[c].is_none()) {
        return Ok(None);
    }
    if roles.n_modelled() == channels {
        return Ok(Some(image.clone()));
    }
    let mut values = Vec::with_capacity(height * width * roles.n_modelled());
    for at in 0..height * width {
        let own = |c| image.get(at / width, at % width, c).map(f64::from);
        let merged = roles.merged(&(0..channels).map(own).collect::<Vec<_>>());
        values.extend(merged.into_iter().map(|v| v.unwrap_or(f64::NAN)));
    }
    Ok(Some(Image::from_nan_coded(
        height,
        width,
        roles.n_modelled(),
        &values,
    )?))
}

/// The image in units of the model.
pub(crate) fn in_units(image: &Image, units: &ImageUnits) -> Result<Image, BpfaError> {
    let channels = image.channels();
    let values = image.values().iter().enumerate();
    let values = values.map(|(i, &v)| units.inward(i % channels, v.into()));
    Ok(Image::from_parts(
        image.size(),
        values.collect(),
        image.observed().clone(),
    )?)
}

/// What rows are to know beside their values.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    /// Noise channels of columns: patches hold all channels of their pixels.
    pub(crate) channels: bool,
    /// Which entries are one pixel.
    pub(crate) sites: bool,
    /// Where patches lie.
    pub(crate) locations: bool,
    /// What could be measured.
    pub(crate) bounds: Option<(f32, f32)>,
}

/// Rows of the model from some patches of an image in units of the model.
pub(crate) fn rows(
    image: &Image,
    grid: &PatchGrid,
    patches: impl Iterator<Item = usize> + Clone,
    extras: Extras,
) -> Result<BpfaRows, BpfaError> {
    let length = grid.patch_len();
    let n = patches.clone().count();
    let rows = if image.n_missing() == 0 {
        let mut values = vec![0.0; n * length];
        for (patch, out) in patches.clone().zip(values.chunks_exact_mut(length)) {
            grid.read(image.values(), patch, out);
        }
        BpfaRows::complete(n, length, values)?
    } else {
        let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for patch in patches.clone() {
            for (column, value) in grid.observed(image, patch) {
                columns.push(column as u32);
                values.push(value);
            }
            starts.push(values.len());
        }
        BpfaRows::new(length, &starts, columns, values)?
    };
    with_extras(rows, image, grid, patches, extras)
}

fn with_extras(
    mut rows: BpfaRows,
    image: &Image,
    grid: &PatchGrid,
    patches: impl Iterator<Item = usize> + Clone,
    extras: Extras,
) -> Result<BpfaRows, BpfaError> {
    if extras.channels {
        let depth = grid.patch_size()[2];
        let channel = |p: usize| (p % depth) as u32;
        rows = rows.with_channels((0..grid.patch_len()).map(channel).collect())?;
    }
    if extras.sites {
        let cols = image.width() * image.channels();
        let observed = |&entry: &usize| image.observed().get(entry / cols, entry % cols);
        let entries = |patch| grid.entries(patch).collect::<Vec<usize>>();
        let sites = patches.clone().flat_map(entries).filter(observed);
        rows = rows.with_sites(grid.image_len(), sites.map(|e| e as u32).collect())?;
    }
    if extras.locations {
        let corner = |patch| grid.corner(patch).map(|c| c as f32);
        let places = patches.flat_map(|patch| corner(patch)[..2].to_vec());
        rows = rows.with_locations(2, places.collect())?;
    }
    if let Some((low, high)) = extras.bounds {
        rows = rows.with_bounds(low, high)?;
    }
    Ok(rows)
}

/// A chain of some patches that starts from patches of the image as atoms. Where these show much noise, it starts from that noise, principal axes and filtered patches.
pub(crate) fn start_from_patches<'r>(
    image: &Image,
    grid: &PatchGrid,
    rows: &'r BpfaRows,
    model: &BpfaConfig,
    chain: u64,
) -> Result<BpfaSampler<'r>, BpfaError> {
    let filled = smooth_into_holes(image);
    let mut atoms = random_patches(&filled, grid, model, chain);
    let axes = Axes::of(&filled, grid).filter(|axes| axes.noise_share() > MUCH_NOISE);
    if let Some(axes) = &axes {
        axes.clean(&mut atoms);
    }
    normalise(
        &mut atoms,
        grid.patch_len(),
        &mut stream(model.seed, [chain, 0, START, 1]),
    );
    let atoms = Dictionary::from_atoms(grid.patch_len(), &atoms)?;
    let sampler = BpfaSampler::chain(rows, model.clone(), chain, Some(atoms))?;
    let Some(axes) = axes else {
        return Ok(sampler);
    };
    let mut state = sampler.into_state();
    state.shared.noise_precisions.fill(axes.noise().recip());
    BpfaSampler::resume(rows, model.clone(), chain, state, 0)
}

/// Noise of an image in units of the model as a share of its variance; 0 where patches cannot say.
pub(crate) fn noise_share(image: &Image, grid: &PatchGrid) -> f64 {
    Axes::of(&smooth_into_holes(image), grid).map_or(0.0, |axes| axes.noise_share())
}

/// Noise of an image as a share of its variance, by differences of neighbouring entries: their median size is .6745 of the standard deviation that they have
/// under noise alone, whose square is twice the noise. 0 where no two neighbours are observed; texture of single entries counts as noise.
pub(crate) fn noise_of_neighbours(image: &Image) -> f64 {
    let [height, width, channels] = image.size();
    let mut sizes: Vec<f64> = Vec::new();
    for c in 0..channels {
        let at = |row: usize, column: usize| match row < height && column < width {
            true => image.get(row, column, c).map(f64::from),
            false => None,
        };
        let places = || (0..height).flat_map(|row| (0..width).map(move |column| (row, column)));
        let known: Vec<f64> = places()
            .filter_map(|(row, column)| at(row, column))
            .collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        let squares: f64 = known.iter().map(|v| (v - mean).powi(2)).sum();
        let sd = (squares / known.len() as f64).sqrt();
        if sd.is_nan() || sd <= 0.0 {
            continue;
        }
        for (row, column) in places() {
            let Some(own) = at(row, column) else { continue };
            let beside = [at(row, column + 1), at(row + 1, column)];
            let differences = beside.into_iter().flatten().map(|v| (v - own).abs() / sd);
            sizes.extend(differences);
        }
    }
    if sizes.is_empty() {
        return 0.0;
    }
    let middle = sizes.len() / 2;
    let (_, median, _) = sizes.select_nth_unstable_by(middle, f64::total_cmp);
    (*median / NORMAL_QUARTILE).powi(2) / 2.0
}

/// Median size of a standard normal number.
const NORMAL_QUARTILE: f64 = 0.674_49;

/// Random patches of the image, one after the other.
fn random_patches(filled: &[f32], grid: &PatchGrid, model: &BpfaConfig, chain: u64) -> Vec<f32> {
    let length = grid.patch_len();
    let mut rng = stream(model.seed, [chain, 0, START, 0]);
    let mut atoms = vec![0.0; model.atoms * length];
    for atom in atoms.chunks_exact_mut(length) {
        grid.read(filled, rng.random_range(0..grid.n_patches()), atom);
    }
    atoms
}

/// Atoms of unit length; one without any contrast becomes noise.
fn normalise(atoms: &mut [f32], length: usize, rng: &mut Xoshiro256PlusPlus) {
    let square = |atom: &[f32]| -> f64 { atom.iter().map(|&x| f64::from(x).powi(2)).sum() };
    for atom in atoms.chunks_exact_mut(length) {
        if square(atom) < 1e-12 {
            atom.iter_mut()
                .for_each(|x| *x = rng.sample(StandardNormal));
        }
        let scale = square(atom).sqrt().recip() as f32;
        atom.iter_mut().for_each(|x| *x *= scale);
    }
}

/// Patches that principal axes are found from.
const AXES_PATCHES: usize = 20_000;

/// Longest patch of which axes are found, at the cost of the cube of it.
const LONGEST: usize = 256;

/// Least share of the variance that is much noise.
pub(crate) const MUCH_NOISE: f64 = 0.4;

/// Principal axes of patches.
struct Axes {
    /// One axis a column, the most important one first.
    directions: Mat<f64>,
    /// Second moment along each.
    moments: Vec<f64>,
}

impl Axes {
    /// Nothing for long patches or few of them.
    fn of(filled: &[f32], grid: &PatchGrid) -> Option<Self> {
        let (length, n) = (grid.patch_len(), grid.n_patches());
        if length > LONGEST || n < 4 * length {
            return None;
        }
        let mut products = Mat::<f64>::zeros(length, length);
        let mut patch = vec![0.0; length];
        let chosen = (0..n).step_by(n.div_ceil(AXES_PATCHES));
        let share = 1.0 / chosen.len() as f64;
        for number in chosen {
            grid.read(filled, number, &mut patch);
            for (b, &x) in patch.iter().enumerate() {
                let x = share * f64::from(x);
                let rest = products.col_as_slice_mut(b).iter_mut().zip(&patch);
                rest.for_each(|(sum, &y)| *sum += x * f64::from(y));
            }
        }
        let svd = thin_svd(products.as_ref()).ok()?;
        Some(Self {
            directions: svd.u,
            moments: svd.singular_values,
        })
    }

    /// Variance of the noise: the least moment, along which a smooth image has next to nothing.
    fn noise(&self) -> f64 {
        self.moments.last().copied().unwrap_or(0.0)
    }

    /// Noise as a share of the variance.
    fn noise_share(&self) -> f64 {
        self.noise() * self.moments.len() as f64 / self.moments.iter().sum::<f64>()
    }

    /// Atoms become axes, as many as there are but no more than half of them; in the others the part along each axis keeps the share of its moment that is not
    /// noise.
    fn clean(&self, atoms: &mut [f32]) {
        let length = self.moments.len();
        let axes = length.min(atoms.len() / length / 2);
        for (number, atom) in atoms.chunks_exact_mut(length).enumerate() {
            let noisy: Vec<f64> = atom.iter().map(|&x| x.into()).collect();
            atom.fill(0.0);
            for (axis, &moment) in self.moments.iter().enumerate() {
                let direction = self.directions.col_as_slice(axis);
                let along = match number < axes {
                    true => f64::from(u8::from(number == axis)),
                    false => (1.0 - self.noise() / moment) * dot(direction, &noisy),
                };
                let entries = atom.iter_mut().zip(direction);
                entries.for_each(|(x, d)| *x += (along * d) as f32);
            }
        }
    }
}

/// How many robust standard deviations from the median of its neighbours make an entry a suspect.
const SUSPICIOUS: f32 = 4.0;

/// Entries that are far from the median of their neighbours, ascending: where spikes may be, for a start.
pub(crate) fn suspects(image: &Image) -> Vec<u32> {
    let [height, width, channels] = image.size();
    let at = |row: usize, column: usize, channel: usize| {
        let entry = (row * width + column) * channels + channel;
        image
            .observed()
            .get(row, column * channels + channel)
            .then(|| image.values()[entry])
    };
    let mut far = vec![None; image.values().len()];
    let mut around = Vec::with_capacity(9);
    for (entry, far) in far.iter_mut().enumerate() {
        let (row, column, channel) = (
            entry / channels / width,
            entry / channels % width,
            entry % channels,
        );
        let Some(own) = at(row, column, channel) else {
            continue;
        };
        around.clear();
        for r in row.saturating_sub(1)..(row + 2).min(height) {
            let columns = column.saturating_sub(1)..(column + 2).min(width);
            around.extend(columns.filter_map(|c| at(r, c, channel)));
        }
        *far = Some((own - median(&mut around)).abs());
    }
    let mut all: Vec<f32> = far.iter().copied().flatten().collect();
    // A normal deviate is within .6745 standard deviations half of the time.
    let limit = SUSPICIOUS * median(&mut all) / 0.6745;
    let beyond = |&entry: &usize| far[entry].is_some_and(|x| x > limit);
    (0..far.len()).filter(beyond).map(|e| e as u32).collect()
}

/// The middle one; the upper of two.
fn median(values: &mut [f32]) -> f32 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f32::total_cmp).1
}

/// The image without these entries.
pub(crate) fn without(image: &Image, entries: &[u32]) -> Result<Image, BpfaError> {
    let cols = image.width() * image.channels();
    let gone = |row: usize, col: usize| entries.binary_search(&((row * cols + col) as u32)).is_ok();
    let observed = Mask::from_fn(image.height(), cols, |row, col| {
        image.observed().get(row, col) && !gone(row, col)
    })?;
    Ok(Image::from_parts(
        image.size(),
        image.values().to_vec(),
        observed,
    )?)
}

/// Missing entries become means of their neighbours, channel by channel: first those next to known ones, ring by ring, then all of them a few times over.
/// A channel of which nothing is known becomes 0.
fn smooth_into_holes(image: &Image) -> Vec<f32> {
    let [height, width, channels] = image.size();
    let mut values = image.values().to_vec();
    if image.n_missing() == 0 {
        return values;
    }
    let around = |at: usize| {
        let (row, column) = (at / channels / width, at / channels % width);
        let line = width * channels;
        [
            (row > 0).then(|| at - line),
            (row + 1 < height).then(|| at + line),
            (column > 0).then(|| at - channels),
            (column + 1 < width).then(|| at + channels),
        ]
        .into_iter()
        .flatten()
    };
    let cols = width * channels;
    let mut known: Vec<bool> = (0..values.len())
        .map(|i| image.observed().get(i / cols, i % cols))
        .collect();
    let holes: Vec<usize> = (0..values.len()).filter(|&i| !known[i]).collect();
    let mut left = holes.clone();
    loop {
        let mean = |&at: &usize| {
            let (mut sum, mut n) = (0.0, 0);
            for other in around(at).filter(|&other| known[other]) {
                sum += values[other];
                n += 1;
            }
            (n > 0).then(|| (at, sum / n as f32))
        };
        let ring: Vec<(usize, f32)> = left.iter().filter_map(mean).collect();
        if ring.is_empty() {
            break;
        }
        for (at, value) in ring {
            values[at] = value;
            known[at] = true;
        }
        left.retain(|&at| !known[at]);
    }
    for _ in 0..SMOOTHING {
        for &at in &holes {
            let (mut sum, mut n) = (0.0, 0);
            for other in around(at) {
                sum += values[other];
                n += 1;
            }
            if n > 0 {
                values[at] = sum / n as f32;
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of noise alone the share is 1; of noise of variance v on a ramp down the rows, whose own variance is r, it is v/(v + r). Without the half it would be twice that.
    #[test]
    fn noise_of_neighbours_is_its_share_of_the_variance() {
        let image = |slope: f32, sigma: f32| {
            let mut rng = stream(5, [0; 4]);
            let noise = (0..96 * 96).map(|_| sigma * rng.sample::<f32, _>(StandardNormal));
            let values = noise.enumerate().map(|(k, e)| slope * (k / 96) as f32 + e);
            Image::new(96, 96, 1, values.collect()).unwrap()
        };
        let ramp = (96.0 * 96.0 - 1.0) / 12.0;
        for (slope, sigma, share) in [(0.0, 3.0, 1.0), (0.5, 9.0, 81.0 / (81.0 + 0.25 * ramp))] {
            let found = noise_of_neighbours(&image(slope, sigma));
            assert!((found / share - 1.0).abs() < 0.08, "{found} for {share}");
        }
        assert_eq!(
            noise_of_neighbours(&image(1.0, 0.0).map(|_| 7.0).unwrap()),
            0.0
        );
    }
}
