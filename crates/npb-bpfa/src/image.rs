//! Restoration of images: noise taken out, missing pixels filled, neither told.

use npb_data::{Image, Mask, PatchGrid, PatchSums};
use npb_infer::ranges::{OutOfRange, at_least};
use npb_infer::storage::fingerprint;
use npb_infer::{
    Chain, Chains, Interval, Sampler, Saved, Stop, Sweep, SweepPlan, Trace, Watch, sample,
};
use npb_priors::special::normal_quantile;
use serde::{Deserialize, Serialize};

use crate::config::BpfaConfig;
use crate::error::expect;
use crate::gibbs::BpfaSampler;
use crate::patches::{
    Extras, ImageUnits, MUCH_NOISE, in_units, noise_of_neighbours, noise_share, roles_of, rows,
    start_from_patches, suspects, varying, without,
};
use crate::roles::{Role, Roles};
use crate::state::{BpfaState, Dictionary, Shared};
use crate::{BpfaError, BpfaRows};

/// Atoms that a chain starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtomStart {
    /// Random patches of the image, smoothed into its holes, of unit length. Where more than 40% of the variance is noise, half of them (at most P) are the principal axes of
    /// the patches, and the others are filtered.
    SmoothedPatches,
    /// Random patches of what is observed, their holes filled with noise.
    NoisyPatches,
}

/// How an image is restored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImageConfig {
    /// Height and width of a patch, in pixels.
    pub patch: [usize; 2],
    /// Channels of a patch; 0: all of the image.
    pub depth: usize,
    /// From one patch to the next, down and across; 1: all patches.
    pub step: [usize; 2],
    /// Where the dictionary starts.
    pub start: AtomStart,
    /// So many patches or a few more, evenly spread, are what the first eleven twelfths of the burn-in are made of where there are four times as many; the chain then goes on with all.
    /// 0: all from the beginning.
    pub sample: usize,
    /// Values at which the measurements were cut off, such as 0 and 255: a pixel at or beyond one says only that its value lies there or beyond.
    /// The restored image may then leave these bounds. None: all values are what was measured.
    pub bounds: Option<[f64; 2]>,
    /// The model; `stored_draws` does not matter. `chains` 0: four where a pixel lies in fewer than four patches, one otherwise. Draws of one chain are of
    /// neighbouring dictionaries: many patches about a pixel make up for that, few do not.
    pub model: BpfaConfig,
}

impl Default for ImageConfig {
    /// 8 x 8 patches of all channels, all of them; 256 atoms, 80 + 80 sweeps ([`BpfaConfig::images`]).
    fn default() -> Self {
        Self {
            patch: [8, 8],
            depth: 0,
            step: [1, 1],
            start: AtomStart::SmoothedPatches,
            sample: 0,
            bounds: None,
            model: BpfaConfig {
                chains: 0,
                ..BpfaConfig::images()
            },
        }
    }
}

/// The last one in so many sweeps of the burn-in, and all that are kept, are made of all patches.
const ALL_PATCHES: u64 = 12;

/// Patches that chains of images with nothing missing begin with: the dictionary of more is hardly better.
const SAMPLE: usize = 16_000;

/// Patches about a pixel that are few, and the chains that make up for it.
const FEW_PATCHES: usize = 4;

/// Least share of missing entries at which an image is said to have holes, and to have mostly holes.
const HOLES: f64 = 0.02;
const MOSTLY_HOLES: f64 = 0.7;

/// Share of noise by which an image that is mostly holes is noisy: two images had .004 and .007 without noise, .017 with noise of 5 in 255.
const SOME_NOISE: f64 = 0.015;

/// Of the dictionary of an image with holes.
const OVERRELAXATION: f64 = 0.8;

impl ImageConfig {
    /// The default with the patches, noise and sweeps that suit an image: 7 x 7 patches and noise by channel when several of its channels say something of their own;
    /// patches of its size when that is smaller; 80 + 80 sweeps when nearly everything is observed (240 + 80
    /// when more than 40% of the variance is noise: the dictionary is found slowly then, but sweeps are cheap; else, of a large image, 240 + 30 of which the first
    /// 220 see about 16,000 of its patches), 26 + 4 when less than 30% is and neighbours differ little (without noise the start is near, and rows are short), 140 + 60 otherwise;
    /// where pixels are missing [`BpfaConfig::overrelaxation`] saves sweeps.
    pub fn suited_to(image: &Image) -> Self {
        let mut config = Self::default();
        let within = |side: usize| [side.min(image.height()), side.min(image.width())];
        config.patch = within(8);
        let Ok(Some(image)) = varying(image, &roles_of(image)) else {
            return config;
        };
        let several = image.channels() > 1;
        if several {
            config.patch = within(7);
        }
        config.model.channel_noise = several;
        let missing = image.n_missing() as f64 / image.values().len() as f64;
        let (burn_in, keep) = if missing < HOLES {
            let sampled = Self {
                sample: SAMPLE,
                ..config.clone()
            };
            let many =
                (sampled.grid(&image)).is_ok_and(|grid| !sampled.sample_of(&grid).is_empty());
            match config.noise_share(&image) > MUCH_NOISE {
                true => (240, 80),
                false if many => {
                    config.sample = SAMPLE;
                    (240, 30)
                }
                false => (80, 80),
            }
        } else {
            config.model.overrelaxation = OVERRELAXATION;
            config.model.collapsed_atoms = 0;
            if missing < MOSTLY_HOLES || noise_of_neighbours(&image) > SOME_NOISE {
                (140, 60)
            } else {
                (26, 4)
            }
        };
        config.model.sweeps = SweepPlan {
            burn_in,
            keep,
            thin: 1,
        };
        config
    }

    /// Noise as a share of the variance; 0 where there is nothing to see.
    fn noise_share(&self, image: &Image) -> f64 {
        let units = ImageUnits::of(image, None);
        let unit_image = units.and_then(|units| in_units(image, &units));
        match (unit_image, self.grid(image)) {
            (Ok(image), Ok(grid)) => noise_share(&image, &grid),
            _ => 0.0,
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first that is out of range. Whether patches fit an image is checked when there is one.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        for (field, value) in [
            ("patch[0]", self.patch[0]),
            ("patch[1]", self.patch[1]),
            ("step[0]", self.step[0]),
            ("step[1]", self.step[1]),
        ] {
            at_least(field, value as u64, 1)?;
        }
        if let Some([low, high]) = self.bounds
            && !(low.is_finite() && high.is_finite() && low < high)
        {
            let rule = "two finite numbers, the lower one first";
            return Err(OutOfRange::new("bounds", format!("{low}, {high}"), rule));
        }
        if self.depth != 0 && self.model.channel_noise {
            let rule = "0 (all channels) when channels have noise of their own";
            return Err(OutOfRange::new("depth", self.depth, rule));
        }
        self.with_chains().model.validate()
    }

    /// With the number of chains, if that was left open.
    fn with_chains(&self) -> Self {
        let mut config = self.clone();
        if config.model.chains == 0 {
            let [height, width] = self.patch;
            let steps = self.step[0].saturating_mul(self.step[1]);
            let few = height.saturating_mul(width) < steps.saturating_mul(FEW_PATCHES);
            config.model.chains = if few { FEW_PATCHES } else { 1 };
        }
        config
    }

    /// Where the patches of an image lie.
    fn grid(&self, image: &Image) -> Result<PatchGrid, BpfaError> {
        let [height, width] = self.patch;
        let depth = match self.depth {
            0 => image.channels(),
            depth => depth,
        };
        let step = [self.step[0], self.step[1], 1];
        Ok(PatchGrid::new(image.size(), [height, width, depth], step)?)
    }

    /// Patches that a chain begins with, evenly spread; none: it begins with all. Spikes belong to pixels and anchors to places: these see all.
    fn sample_of(&self, grid: &PatchGrid) -> Vec<usize> {
        let n = grid.n_patches();
        let apart = n.isqrt() / self.sample.max(1).isqrt();
        let model = &self.model;
        let all = model.spikes.is_some() || model.usage.dependent().is_some();
        if self.sample == 0 || apart < 2 || all || !model.has_switches() {
            return Vec::new();
        }
        let on_lattice = |patch: &usize| {
            let [row, column, channel] = grid.corner(*patch);
            let [down, across] = self.step;
            channel == 0
                && (row / down).is_multiple_of(apart)
                && (column / across).is_multiple_of(apart)
        };
        (0..n).filter(on_lattice).collect()
    }

    /// Sweeps that are made of the sample.
    fn sampled_sweeps(&self) -> u64 {
        let burn_in = self.model.sweeps.burn_in;
        burn_in - burn_in / ALL_PATCHES
    }

    fn extras(&self, units: &ImageUnits) -> Extras {
        Extras {
            channels: self.model.channel_noise,
            sites: self.model.spikes.is_some(),
            locations: self.model.usage.dependent().is_some(),
            bounds: self.bounds.map(|bounds| units.bounds(bounds)),
        }
    }
}

/// A restored image: what is believed of every entry, in the units of the image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restored {
    size: [usize; 3],
    mean: Vec<f32>,
    sd: Vec<f32>,
    unknown_channels: Vec<usize>,
    roles: Roles,
    /// Posterior mean of the noise standard deviation: one for all channels, or one for each (0 for a constant one).
    pub noise_sd: Vec<f64>,
    /// The dictionary of the last sweep of the first chain, of the channels that are modelled; an entry of a patch is 1 for the range of the observed values.
    pub dictionary: Dictionary,
    /// Share of patches that use each of its atoms, mean over the kept sweeps of the first chain.
    pub usage: Vec<f64>,
    /// Share of the kept sweeps of all chains in which each entry has a spike; empty without spiky noise.
    pub spike_probability: Vec<f32>,
    /// Scalars of each sweep of each chain, in units of the model ([`BpfaSampler::scalar_names`]).
    pub traces: Vec<Trace>,
    pub(crate) stop: Stop,
    /// How it was made.
    pub config: ImageConfig,
}

impl Restored {
    /// The posterior mean: mean over kept sweeps and over the patches that cover an entry. Channels of which nothing was observed are missing.
    ///
    /// # Errors
    /// None for an image that this crate has restored.
    pub fn image(&self) -> Result<Image, BpfaError> {
        let [height, width, channels] = self.size;
        let observed = Mask::from_fn(height, width * channels, |_, col| {
            !self.unknown_channels.contains(&(col % channels))
        })?;
        Ok(Image::from_parts(self.size, self.mean.clone(), observed)?)
    }

    /// Why the run ended.
    pub fn stop(&self) -> Stop {
        self.stop
    }

    /// Standard deviation of the restored value of every entry, height x width x channels: that of draws of single patches, over sweeps and over the
    /// patches that cover the entry. The average over patches varies less from sweep to sweep, but is not closer to the truth. NaN where nothing is said: in
    /// [`unknown_channels`](Self::unknown_channels).
    pub fn sd(&self) -> &[f32] {
        &self.sd
    }

    /// Central interval of the noise-free value of each entry, by a normal law of its mean and standard deviation.
    ///
    /// # Errors
    /// A level that is not between 0 and 1.
    pub fn interval(&self, level: f64) -> Result<Vec<Interval>, BpfaError> {
        if !(level > 0.0 && level < 1.0) {
            return Err(BpfaError::Argument {
                argument: "level",
                value: level.to_string(),
                rule: "between 0 and 1",
            });
        }
        let entry = |(&mean, &sd): (&f32, &f32)| {
            let end = |p| f64::from(mean) + normal_quantile(p) * f64::from(sd);
            Interval::central(level, end)
        };
        Ok(self.mean.iter().zip(&self.sd).map(entry).collect())
    }

    /// Whether nothing is said of an entry, by its place.
    fn is_unknown(&self, entry: usize) -> bool {
        self.unknown_channels.contains(&(entry % self.size[2]))
    }

    /// Channels of which nothing was observed: nothing is said of them.
    pub fn unknown_channels(&self) -> &[usize] {
        &self.unknown_channels
    }

    /// What part each channel has in the restoration.
    pub fn roles(&self) -> &[Role] {
        self.roles.all()
    }
}

impl Saved for Restored {
    const MODEL: &'static str = "npb-bpfa/image";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Content = Self;
    type Error = BpfaError;

    fn content(&self) -> &Self {
        self
    }

    fn from_content(content: Self) -> Result<Self, BpfaError> {
        content.config.validate()?;
        let [height, width, channels] = content.size;
        let n = height
            .checked_mul(width)
            .and_then(|n| n.checked_mul(channels));
        let sound =
            |values: &[f32]| Some(values.len()) == n && values.iter().all(|v| v.is_finite());
        expect(sound(&content.mean), "restored image")?;
        // NaN where nothing is said, and nowhere else.
        let fine = |(i, sd): (usize, &f32)| match content.is_unknown(i) {
            true => sd.is_nan(),
            false => sd.is_finite() && *sd >= 0.0,
        };
        let sds = Some(content.sd.len()) == n && content.sd.iter().enumerate().all(fine);
        expect(sds, "standard deviations of the image")?;
        let spikes = &content.spike_probability;
        let shares = spikes.iter().all(|p| (0.0..=1.0).contains(p));
        expect(
            shares && (spikes.is_empty() || spikes.len() == content.mean.len()),
            "spike probabilities",
        )?;
        content.roles.check(channels)?;
        let ascending = content.unknown_channels.windows(2).all(|w| w[0] < w[1]);
        let inside = content.unknown_channels.iter().all(|&c| c < channels);
        expect(ascending && inside, "unknown channels")?;
        let shares = content.usage.iter().all(|u| (0.0..=1.0).contains(u));
        expect(
            shares && content.usage.len() == content.dictionary.n_atoms(),
            "usage of atoms",
        )?;
        let noise = content.noise_sd.iter().all(|s| s.is_finite() && *s >= 0.0);
        expect(noise && !content.noise_sd.is_empty(), "noise")?;
        expect(
            content
                .traces
                .iter()
                .all(|t| t.names() == BpfaSampler::scalar_names()),
            "scalars of the traces",
        )?;
        let [down, across] = content.config.patch;
        let modelled = content.roles.n_modelled().max(1);
        let depth = match content.config.depth {
            0 => modelled,
            depth => depth.min(modelled),
        };
        let length = down.checked_mul(across).and_then(|n| n.checked_mul(depth));
        expect(length.is_some(), "patch")?;
        content.dictionary.check(length.unwrap_or(0))?;
        Ok(content)
    }
}

/// Restores an image: takes out its noise and fills its holes, without being told how much noise there is.
///
/// Patches of the image, less the mean of the observed pixels of each channel, are sparse combinations of a dictionary that is learned from them (Z 49 to
/// 53). A constant channel is set aside and given back, and channels that are copies of each other but for units and rounding are one ([`Restored::roles`]).
/// Every patch is an observation of its own, so a pixel has as many (dependent) opinions as patches cover it; their mean is the restored image.
/// Cost and memory of a sweep: as of [`BpfaSampler`] for as many rows as patches, and 16 bytes for an entry of the image and chain.
///
/// ```
/// use npb_bpfa::npb_data::{Image, Mask};
/// use npb_bpfa::npb_infer::SweepPlan;
/// use npb_bpfa::{ImageConfig, restore};
///
/// // Stripes, of which a fifth of the pixels is missing.
/// let stripes: Vec<f32> = (0..24 * 24).map(|i| if (i % 24 / 3) % 2 == 0 { 40.0 } else { 200.0 }).collect();
/// let missing = Mask::from_fn(24, 24, |row, column| (7 * row + 3 * column) % 5 == 0)?;
/// let image = Image::new(24, 24, 1, stripes.clone())?.hide(&missing)?;
/// let mut config = ImageConfig { patch: [4, 4], ..ImageConfig::default() };
/// config.model.atoms = 16;
/// config.model.sweeps = SweepPlan { burn_in: 30, keep: 20, thin: 1 };
/// let restored = restore(&image, &config)?;
/// let worst = restored.image()?.values().iter().zip(&stripes).map(|(r, t)| (r - t).abs()).fold(0.0, f32::max);
/// assert!(worst < 40.0, "{worst}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A configuration out of range, patches larger than the image, nothing observed; numerical trouble.
pub fn restore(image: &Image, config: &ImageConfig) -> Result<Restored, BpfaError> {
    restore_watched(image, config, &Watch::none())
}

/// As [`restore`], watched: the watcher hears of every sweep of every chain, may stop the run, and checkpoints are written where it says. A run that is
/// stopped before the first kept sweep returns its last draw.
///
/// # Errors
/// As [`restore`]; a checkpoint that cannot be read or written, or of another run.
pub fn restore_watched(
    image: &Image,
    config: &ImageConfig,
    watch: &Watch<'_>,
) -> Result<Restored, BpfaError> {
    config.validate()?;
    let config = &config.with_chains();
    config.grid(image)?;
    if image.n_observed() == 0 {
        return Err(BpfaError::NoEntries);
    }
    let key = fingerprint(&(image.size(), image.values(), image.observed(), config))?;
    let roles = roles_of(image);
    let Some(own) = varying(image, &roles)? else {
        return constant(image, roles, config);
    };
    let grid = ImageConfig {
        depth: config.depth.min(own.channels()),
        ..config.clone()
    }
    .grid(&own)?;
    let units = ImageUnits::of(&own, config.bounds)?;
    let unit_image = in_units(&own, &units)?;
    let all = rows(
        &unit_image,
        &grid,
        0..grid.n_patches(),
        config.extras(&units),
    )?;
    let (n, sweeps) = (config.model.chains, config.model.sweeps);
    let checkpoint = watch.checkpoint("npb-bpfa/image/checkpoint", Restored::VERSION, key, n)?;
    let chosen = config.sample_of(&grid);
    let some = match chosen.is_empty() {
        true => None,
        false => Some(rows(
            &unit_image,
            &grid,
            chosen.iter().copied(),
            config.extras(&units),
        )?),
    };
    let work = Work {
        image: &unit_image,
        rows: &all,
        sample: some.as_ref(),
        grid,
        config,
    };
    let plan = Chains {
        name: "chain",
        chains: n,
        sweeps,
        stored_draws: 0,
    };
    let chains = sample::<Restoring<'_>>(&plan, (watch, 1.0), &checkpoint, |chain, reached| {
        work.begin(chain, reached)
    })?;
    summarise(chains, &work, &units, roles)
}

/// An image without a channel that varies: what is known of each channel is its value.
fn constant(image: &Image, roles: Roles, config: &ImageConfig) -> Result<Restored, BpfaError> {
    let length = config.patch[0] * config.patch[1] * roles.n_modelled().max(1);
    let means = image.channel_means();
    let all = vec![0.0; length];
    let (mean, sd) = spread(image.size(), &roles, |_| (0.0, f64::NAN));
    Ok(Restored {
        size: image.size(),
        mean,
        sd,
        unknown_channels: (0..means.len()).filter(|&c| means[c].is_none()).collect(),
        roles,
        noise_sd: vec![0.0],
        dictionary: Dictionary::from_atoms(length, &all)?,
        usage: vec![0.0],
        spike_probability: Vec::new(),
        traces: Vec::new(),
        stop: Stop::Completed,
        config: config.clone(),
    })
}

/// Mean and standard deviation of all entries, given those of the channels that are modelled.
fn spread(
    [height, width, channels]: [usize; 3],
    roles: &Roles,
    modelled: impl Fn(usize) -> (f64, f64),
) -> (Vec<f32>, Vec<f32>) {
    let entry = |at: usize| match roles.follows(at % channels) {
        Err(value) => (value as f32, 0.0),
        Ok((place, factor, offset)) => {
            let (mean, sd) = modelled(at / channels * roles.n_modelled() + place);
            ((offset + factor * mean) as f32, (factor.abs() * sd) as f32)
        }
    };
    (0..height * width * channels).map(entry).unzip()
}

/// A chain: its last draw and its sums.
type ImageChain = Chain<(BpfaState, Totals), ()>;

#[derive(Clone, Copy)]
struct Work<'a> {
    image: &'a Image,
    rows: &'a BpfaRows,
    /// Some of the rows, where the chain begins with these.
    sample: Option<&'a BpfaRows>,
    grid: PatchGrid,
    config: &'a ImageConfig,
}

impl<'a> Work<'a> {
    fn begin(self, chain: u64, reached: Option<&ImageChain>) -> Result<Restoring<'a>, BpfaError> {
        let (sampler, totals) = match reached {
            Some(reached) => {
                let (state, totals) = reached.state.clone();
                totals.check(&self.grid, &state.shared)?;
                let made = reached.trace.n_sweeps() as u64;
                (self.go_on(chain, state, made)?, totals)
            }
            None => {
                let sampler = self.start(chain)?;
                let n_noise = sampler.state().shared.noise_precisions.len();
                let totals = Totals::new(self.grid, self.config.model.atoms, n_noise);
                (sampler, totals)
            }
        };
        Ok(Restoring {
            work: self,
            chain,
            sampler,
            totals,
        })
    }

    /// The rows that sweep number `sweep` is made of.
    fn rows_at(self, sweep: u64) -> &'a BpfaRows {
        match self.sample {
            Some(sample) if sweep <= self.config.sampled_sweeps() => sample,
            _ => self.rows,
        }
    }

    /// A chain of all rows that goes on with what a chain of the sample has found.
    fn of_all(self, sampler: &BpfaSampler<'_>, chain: u64) -> Result<BpfaSampler<'a>, BpfaError> {
        let (shared, made) = (sampler.state().shared.clone(), sampler.n_sweeps());
        let model = self.config.model.clone();
        let start = BpfaSampler::with_shared(self.rows, model, chain, shared)?;
        let mut sampler = self.go_on(chain, start.into_state(), made)?;
        sampler.start_scores();
        Ok(sampler)
    }

    fn go_on(
        self,
        chain: u64,
        state: BpfaState,
        sweeps: u64,
    ) -> Result<BpfaSampler<'a>, BpfaError> {
        let rows = match state.scores.n_rows() == self.rows.n_rows() {
            true => self.rows,
            false => self.rows_at(sweeps),
        };
        BpfaSampler::go_on(rows, self.config.model.clone(), chain, state, sweeps)
    }

    fn start(self, chain: u64) -> Result<BpfaSampler<'a>, BpfaError> {
        let model = &self.config.model;
        let suspects = match model.spikes {
            Some(_) => suspects(self.image),
            None => Vec::new(),
        };
        let sampler = match self.config.start {
            AtomStart::SmoothedPatches => {
                let image = without(self.image, &suspects)?;
                start_from_patches(&image, &self.grid, self.rows_at(1), model, chain)?
            }
            AtomStart::NoisyPatches => {
                BpfaSampler::begin(self.rows_at(1), model.clone(), chain, None)?
            }
        };
        if suspects.is_empty() {
            return Ok(sampler);
        }
        // Atoms that have learned spikes do not forget them.
        let mut state = sampler.into_state();
        state.spikes.sites = suspects;
        self.go_on(chain, state, 0)
    }
}

/// A chain that sums what it restores.
struct Restoring<'d> {
    work: Work<'d>,
    chain: u64,
    sampler: BpfaSampler<'d>,
    totals: Totals,
}

impl Sampler for Restoring<'_> {
    type State = (BpfaState, Totals);
    type Draw = ();
    type Error = BpfaError;

    fn names() -> Vec<String> {
        BpfaSampler::scalar_names().map(str::to_owned).to_vec()
    }

    fn step(&mut self, sweep: Sweep, scalars: &mut [f64]) -> Result<(), BpfaError> {
        let all = self.work.rows.n_rows();
        if self.sampler.rows().n_rows() < all && self.work.rows_at(sweep.number).n_rows() == all {
            self.sampler = self.work.of_all(&self.sampler, self.chain)?;
        }
        self.sampler.sweep()?;
        scalars.copy_from_slice(&self.sampler.scalars());
        if sweep.kept {
            self.totals.add(&self.sampler);
        }
        Ok(())
    }

    fn state(&self) -> (BpfaState, Totals) {
        (self.sampler.state().clone(), self.totals.clone())
    }

    fn draw(&self) {}
}

/// Sums over kept sweeps.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Totals {
    sums: PatchSums,
    noise_sd: Vec<f64>,
    usage: Vec<f64>,
    /// Kept sweeps in which each entry has a spike; empty without spiky noise.
    spikes: Vec<u32>,
}

impl Totals {
    fn new(grid: PatchGrid, n_atoms: usize, n_noise: usize) -> Self {
        Self {
            sums: PatchSums::new(grid, true),
            noise_sd: vec![0.0; n_noise],
            usage: vec![0.0; n_atoms],
            spikes: Vec::new(),
        }
    }

    fn check(&self, grid: &PatchGrid, shared: &Shared) -> Result<(), BpfaError> {
        let finite = self
            .noise_sd
            .iter()
            .chain(&self.usage)
            .all(|x| x.is_finite());
        expect(
            self.sums.grid() == grid
                && finite
                && (self.sums.rounds() == 0 || self.usage.len() == shared.dictionary.n_atoms())
                && (self.spikes.is_empty() || self.spikes.len() == grid.image_len())
                && self.noise_sd.len() == shared.noise_precisions.len(),
            "checkpoint of an image",
        )
    }

    /// Adds a draw of all patches.
    fn add(&mut self, sampler: &BpfaSampler<'_>) {
        let BpfaState {
            shared,
            scores,
            spikes,
            ..
        } = sampler.state();
        let all = 0..self.sums.grid().n_along(0);
        self.sums.add_rows(all, |patch, out| {
            sampler.reconstruct(patch..patch + 1, out);
        });
        self.sums.finish_round();
        // Atoms come and go in the burn-in only.
        self.usage.resize(scores.n_atoms(), 0.0);
        let usage = self.usage.iter_mut().zip(scores.counts());
        usage.for_each(|(sum, count)| *sum += count as f64 / scores.n_rows() as f64);
        let noise = self.noise_sd.iter_mut().zip(&shared.noise_precisions);
        noise.for_each(|(sum, g)| *sum += g.sqrt().recip());
        if spikes.is_modelled() {
            self.spikes.resize(self.sums.grid().image_len(), 0);
            for &site in &spikes.sites {
                self.spikes[site as usize] += 1;
            }
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), BpfaError> {
        self.sums.merge(&other.sums)?;
        let noise = self.noise_sd.iter_mut().zip(&other.noise_sd);
        noise.for_each(|(sum, x)| *sum += x);
        let spikes = self.spikes.iter_mut().zip(&other.spikes);
        spikes.for_each(|(sum, x)| *sum += x);
        Ok(())
    }

    /// Share of the patches that use each atom, mean over the sweeps that were added.
    fn mean_usage(&self) -> Vec<f64> {
        let rounds = self.sums.rounds() as f64;
        // Sums of many shares of 1 may miss it by a rounding.
        self.usage.iter().map(|u| (u / rounds).min(1.0)).collect()
    }

    /// What these sums say, `dictionary` and `usage` being of one chain.
    fn restored(
        self,
        units: &ImageUnits,
        roles: Roles,
        config: &ImageConfig,
        (dictionary, usage): (Dictionary, Vec<f64>),
        traces: Vec<Trace>,
        stop: Stop,
    ) -> Restored {
        let [height, width, modelled] = self.sums.grid().image_size();
        let size = [height, width, roles.all().len()];
        let means = self.sums.means();
        let variances = self.sums.variances().unwrap_or_default();
        let (mean, sd) = spread(size, &roles, |at| {
            let channel = at % modelled;
            let sd = match units.unknown.contains(&channel) {
                true => f64::NAN,
                false => f64::from(variances[at]).sqrt() * units.scale,
            };
            (units.outward(channel, f64::from(means[at])), sd)
        });
        let all = self.sums.rounds() as f64;
        let noise: Vec<f64> = self
            .noise_sd
            .iter()
            .map(|s| s * units.scale / all)
            .collect();
        let of_channel = |channel| match roles.follows(channel) {
            Err(_) => 0.0,
            Ok((place, factor, _)) => factor.abs() * noise[place.min(noise.len() - 1)],
        };
        let share = |at: usize| match roles.follows(at % size[2]) {
            Ok((place, ..)) => self.spikes[at / size[2] * modelled + place] as f32 / all as f32,
            Err(_) => 0.0,
        };
        Restored {
            size,
            mean,
            sd,
            unknown_channels: units.unknown.iter().map(|&c| roles.column(c)).collect(),
            noise_sd: match config.model.channel_noise {
                true => (0..size[2]).map(of_channel).collect(),
                false => noise,
            },
            dictionary,
            usage,
            spike_probability: match self.spikes.is_empty() {
                true => Vec::new(),
                false => (0..mean_len(size)).map(share).collect(),
            },
            traces,
            stop,
            config: config.clone(),
            roles,
        }
    }
}

fn mean_len([height, width, channels]: [usize; 3]) -> usize {
    height * width * channels
}

/// What the chains come to; one that was stopped before its first kept sweep has the draw that it was at.
fn summarise(
    chains: Vec<ImageChain>,
    work: &Work<'_>,
    units: &ImageUnits,
    roles: Roles,
) -> Result<Restored, BpfaError> {
    let stop = Stop::of_all(chains.iter().map(|chain| chain.stop));
    let (mut all, mut of_first, mut traces) = (None::<Totals>, None, Vec::new());
    for (number, chain) in (0..).zip(chains) {
        let (state, mut totals) = chain.state;
        if totals.sums.rounds() == 0 {
            let made = chain.trace.n_sweeps() as u64;
            let mut sampler = work.go_on(number, state.clone(), made)?;
            if sampler.rows().n_rows() < work.rows.n_rows() {
                sampler = work.of_all(&sampler, number)?;
            }
            totals.add(&sampler);
        }
        of_first.get_or_insert_with(|| (state.shared.dictionary, totals.mean_usage()));
        match &mut all {
            None => all = Some(totals),
            Some(all) => all.merge(&totals)?,
        }
        traces.push(chain.trace);
    }
    let (Some(totals), Some(of_first)) = (all, of_first) else {
        return Err(BpfaError::NoEntries);
    };
    Ok(totals.restored(units, roles, work.config, of_first, traces, stop))
}
