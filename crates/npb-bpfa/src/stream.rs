//! Images too large for all their patches to be in memory: a dictionary is learned on a sample of patches, then all patches stream through.

use std::ops::ControlFlow;

use npb_data::{Image, PatchGrid};
use npb_infer::ranges::{OutOfRange, at_least};
use npb_infer::{Stop, SweepPlan, Trace, Watch, stream};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::config::{BpfaConfig, BpfaMove};
use crate::gibbs::BpfaSampler;
use crate::image::{ImageConfig, Restored, Totals};
use crate::patches::{Extras, ImageUnits, in_units, of_rows, random_patches, rows};
use crate::state::Shared;
use crate::{BpfaError, BpfaRows};

/// Key of the choice of the sample.
const SAMPLE: u64 = 10;

/// How a large image is restored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StreamConfig {
    /// Patches and model; its sweeps are those on the sample, and its chains do not matter.
    pub image: ImageConfig,
    /// Patches that the dictionary is learned on.
    pub sample: usize,
    /// Patches that are in memory at a time, at least one row of patches.
    pub part: usize,
    /// Sweeps of the scores of each part given what was learned.
    pub sweeps: SweepPlan,
    /// Full sweeps on each part before these: the dictionary, usage and precisions go on from the part before. 0: they are held.
    pub update: u64,
}

impl Default for StreamConfig {
    /// Learned on 50,000 patches with 80 + 0 sweeps and held; parts of 100,000 patches, 8 + 12 sweeps each.
    fn default() -> Self {
        let mut image = ImageConfig::default();
        image.model.sweeps = SweepPlan {
            burn_in: 80,
            keep: 1,
            thin: 1,
        };
        Self {
            image,
            sample: 50_000,
            part: 100_000,
            sweeps: SweepPlan {
                burn_in: 8,
                keep: 12,
                thin: 1,
            },
            update: 0,
        }
    }
}

impl StreamConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// The first that is out of range.
    pub fn validate(&self) -> Result<(), BpfaError> {
        self.image.validate()?;
        at_least("sample", self.sample as u64, 1)?;
        at_least("part", self.part as u64, 1)?;
        at_least("sweeps.keep", self.sweeps.keep, 1)?;
        let model = &self.image.model;
        if model.spikes.is_some() {
            let rule = "none: spikes are found in all patches of a pixel at once, see restore";
            return Err(OutOfRange::new("image.model.spikes", "some", rule).into());
        }
        if model.usage.dependent().is_some() {
            let rule = "not dependent: anchors lie in the whole image, see restore";
            return Err(OutOfRange::new("image.model.usage", "dependent", rule).into());
        }
        Ok(())
    }
}

/// Restores an image of any size: as [`restore`](crate::restore), but the dictionary, usage and precisions come from a random sample of the patches, and
/// the scores of the others are drawn given these, part after part.
///
/// Memory: a copy of the image, 16 bytes for each of its entries, and the rows of a part (about 4 bytes for each entry of its patches, 16 where entries
/// are missing); by this count 24 megapixels of grey need less than 2 GiB (not measured). Cost: `sweeps` scans of all patches, and the sweeps on the sample. That one draw of the
/// dictionary serves the whole image costs a little accuracy: the spread of the dictionary is not in the intervals.
///
/// ```
/// use npb_bpfa::npb_data::Image;
/// use npb_bpfa::{StreamConfig, restore_large};
///
/// let stripes: Vec<f32> = (0..40 * 32).map(|i| if (i % 32 / 4) % 2 == 0 { 40.0 } else { 200.0 }).collect();
/// let mut config = StreamConfig { sample: 200, part: 300, ..StreamConfig::default() };
/// config.image.patch = [4, 4];
/// config.image.model.atoms = 16;
/// let restored = restore_large(&Image::new(40, 32, 1, stripes.clone())?, &config)?;
/// let worst = restored.image()?.values().iter().zip(&stripes).map(|(r, t)| (r - t).abs()).fold(0.0, f32::max);
/// assert!(worst < 20.0, "{worst}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`restore`](crate::restore).
pub fn restore_large(image: &Image, config: &StreamConfig) -> Result<Restored, BpfaError> {
    restore_large_watched(image, config, &Watch::none())
}

/// As [`restore_large`], watched: the watcher hears of every sweep on the sample and of every part. A run that is stopped is an error here, because a part of
/// the image has not been seen; checkpoints are not written.
///
/// # Errors
/// As [`restore_large`]; [`BpfaError::Cancelled`].
pub fn restore_large_watched(
    image: &Image,
    config: &StreamConfig,
    watch: &Watch<'_>,
) -> Result<Restored, BpfaError> {
    config.validate()?;
    let grid = config.image.grid(image)?;
    let units = ImageUnits::of(image, config.image.bounds)?;
    let image = in_units(image, &units)?;
    let extras = config.image.extras(&units);
    let (mut shared, trace) = learn(&image, &grid, extras, config, watch)?;
    let mut totals = Totals::new(
        grid,
        config.image.model.atoms,
        shared.noise_precisions.len(),
    );
    let in_row = grid.n_along(1) * grid.n_along(2);
    let lines = (config.part / in_row).max(1);
    let n_parts = grid.n_along(0).div_ceil(lines);
    let mut report = watch.part("parts", 0.5);
    for part in 0..n_parts {
        let own = part * lines..((part + 1) * lines).min(grid.n_along(0));
        let patches = of_rows(&grid, own.clone());
        let share = patches.len() as f64 / grid.n_patches() as f64;
        let observed = patches
            .clone()
            .any(|p| grid.observed(&image, p).next().is_some());
        if observed {
            let rows = rows(&image, &grid, patches, extras)?;
            shared = Part {
                rows: &rows,
                config,
                number: part as u64,
            }
            .draw(shared, &mut totals, own, share)?;
        } else {
            // Nothing is known of these patches: the mean of the image.
            for _ in 0..config.sweeps.keep {
                totals.sums.add_rows(own.clone(), |_, out| out.fill(0.0));
            }
        }
        let done = (part + 1) as f64 / n_parts as f64;
        if report.report(part as u64 + 1, done, &[], &[]) == ControlFlow::Break(()) {
            return Err(BpfaError::Cancelled);
        }
    }
    for _ in 0..config.sweeps.keep {
        totals.finish_round(&shared);
    }
    let shown = ImageConfig {
        model: BpfaConfig {
            chains: 1,
            ..config.image.model.clone()
        },
        ..config.image.clone()
    };
    Ok(totals.restored(
        &units,
        &shown,
        shared.dictionary,
        vec![trace],
        Stop::Completed,
    ))
}

/// Sweeps on a random sample of the patches that have something observed.
fn learn(
    image: &Image,
    grid: &PatchGrid,
    extras: Extras,
    config: &StreamConfig,
    watch: &Watch<'_>,
) -> Result<(Shared, Trace), BpfaError> {
    let model = &config.image.model;
    let chosen = sample(grid, config.sample, model.seed);
    let rows = rows(image, grid, chosen.iter().copied(), extras)?;
    let atoms = random_patches(image, grid, model.atoms, model.seed, 0)?;
    let mut sampler = BpfaSampler::chain(&rows, model.clone(), 0, Some(atoms))?;
    let mut part = watch.part("sample", 0.5);
    let total = model.sweeps.total();
    while sampler.n_sweeps() < total {
        sampler.sweep()?;
        let sweep = sampler.n_sweeps();
        if part.report(sweep, sweep as f64 / total as f64, &[], &[]) == ControlFlow::Break(()) {
            return Err(BpfaError::Cancelled);
        }
    }
    let (state, trace) = sampler.into_parts();
    Ok((state.shared, trace))
}

/// Patches drawn without replacement, ascending; all when fewer are there.
fn sample(grid: &PatchGrid, wanted: usize, seed: u64) -> Vec<usize> {
    let n = grid.n_patches();
    if wanted >= n {
        return (0..n).collect();
    }
    // One patch from each of `wanted` stretches of equal length: spread over the whole image.
    let mut rng = stream(seed, [0, 0, SAMPLE, 0]);
    let edge = |i: usize| (i as u128 * n as u128 / wanted as u128) as usize;
    (0..wanted)
        .map(|i| rng.random_range(edge(i)..edge(i + 1)))
        .collect()
}

/// A part of the patches.
struct Part<'a> {
    rows: &'a BpfaRows,
    config: &'a StreamConfig,
    number: u64,
}

impl Part<'_> {
    /// Draws the scores of the part given what is shared, adds the kept draws, and returns what is shared afterwards.
    fn draw(
        &self,
        shared: Shared,
        totals: &mut Totals,
        lines: std::ops::Range<usize>,
        share: f64,
    ) -> Result<Shared, BpfaError> {
        let model = &self.config.image.model;
        let config = BpfaConfig {
            hold_dictionary: 0,
            prune: false,
            ..model.clone()
        };
        // Rows of different parts have the same numbers: chains keep their random numbers apart.
        let mut sampler = BpfaSampler::with_shared(self.rows, config, 1 + self.number, shared)?;
        for _ in 0..self.config.update {
            sampler.sweep_with(&model.moves)?;
        }
        let plan = self.config.sweeps;
        for sweep in 1..=plan.total() {
            sampler.sweep_with(&[BpfaMove::Latents, BpfaMove::Scores])?;
            if plan.is_kept(sweep) {
                totals.add_lines(&sampler, lines.clone(), share);
            }
        }
        let (state, _) = sampler.into_parts();
        Ok(state.shared)
    }
}
