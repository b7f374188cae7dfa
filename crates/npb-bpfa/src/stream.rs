//! Images too large for all their patches to be in memory: a dictionary is learned on a sample of patches, then all patches stream through.

use std::ops::Range;

use npb_data::{Image, PatchGrid};
use npb_infer::ranges::{OutOfRange, at_least};
use npb_infer::storage::fingerprint;
use npb_infer::watch::Checkpoint;
use npb_infer::{Saved, Stop, SweepPlan, Trace, Watch, stream};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::config::{BpfaConfig, BpfaMove};
use crate::fit::fixed_atoms;
use crate::gibbs::BpfaSampler;
use crate::image::{ImageConfig, Restored, Totals};
use crate::patches::{Extras, ImageUnits, in_units, of_rows, rows, start_from_patches};
use crate::state::{BpfaState, Shared};
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
/// are missing); 24 megapixels of grey took .9 GiB at most. Cost: `sweeps` scans of all patches, and the sweeps on the sample. That one draw of the
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

/// As [`restore_large`], watched: the watcher hears of every sweep on the sample and of every part, may stop the run, and checkpoints are written where it
/// says. Of a run that is stopped the rows of the image whose patches were all seen are returned; the others are missing.
///
/// # Errors
/// As [`restore_large`]; a checkpoint that cannot be read or written, or of another run.
pub fn restore_large_watched(
    image: &Image,
    config: &StreamConfig,
    watch: &Watch<'_>,
) -> Result<Restored, BpfaError> {
    config.validate()?;
    let grid = config.image.grid(image)?;
    let units = ImageUnits::of(image, config.image.bounds)?;
    let key = fingerprint(&(image.size(), image.values(), image.observed(), config))?;
    let checkpoint = watch.checkpoint::<Reached>(MODEL, Restored::VERSION, key, 1)?;
    let image = in_units(image, &units)?;
    let stream = Streaming {
        image: &image,
        extras: config.image.extras(&units),
        grid,
        config,
        watch,
        checkpoint: &checkpoint,
    };
    let mut parts = match checkpoint.reached(0) {
        Some(Reached::Parts(parts)) => {
            parts.totals.check(&grid, &parts.shared)?;
            parts
        }
        Some(Reached::Sample { state, trace }) => stream.learn(Some((state, trace)))?,
        None => stream.learn(None)?,
    };
    stream.run(&mut parts)?;
    let Parts {
        shared,
        trace,
        mut totals,
        lines,
    } = parts;
    let stop = match lines < grid.n_along(0) {
        true => Stop::Cancelled,
        false => Stop::Completed,
    };
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
    let found = (shared.dictionary, totals.mean_usage());
    let restored = totals.restored(&units, &shown, found, vec![trace], stop);
    Ok(match stop {
        // Patches of the next line cover what follows its corner.
        Stop::Cancelled => restored.up_to(grid.corner(of_rows(&grid, lines..lines).start)[0]),
        _ => restored,
    })
}

/// Name of the model in checkpoints.
const MODEL: &str = "bpfa/large-image";

/// What a run has reached.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Reached {
    /// It learns from the sample.
    Sample { state: BpfaState, trace: Trace },
    /// Patches stream through.
    Parts(Parts),
}

/// What was learned, and the sums over the rows of patches before row `lines`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    shared: Shared,
    trace: Trace,
    totals: Totals,
    lines: usize,
}

struct Streaming<'a, 'w> {
    /// In units of the model.
    image: &'a Image,
    extras: Extras,
    grid: PatchGrid,
    config: &'a StreamConfig,
    watch: &'a Watch<'w>,
    checkpoint: &'a Checkpoint<Reached>,
}

impl Streaming<'_, '_> {
    /// Sweeps on a random sample of the patches that have something observed.
    fn learn(&self, reached: Option<(BpfaState, Trace)>) -> Result<Parts, BpfaError> {
        let model = &self.config.image.model;
        let chosen = sample(&self.grid, self.config.sample, model.seed);
        let rows = rows(self.image, &self.grid, chosen.iter().copied(), self.extras)?;
        let mut sampler = match reached {
            Some((state, trace)) => BpfaSampler::resume(&rows, model.clone(), 0, state, trace)?,
            None => start_from_patches(self.image, &self.grid, &rows, model, 0)?,
        };
        let mut part = self.watch.part("sample", 0.5);
        let total = model.sweeps.total();
        while sampler.n_sweeps() < total && !self.watch.is_stopped() {
            sampler.sweep()?;
            let sweep = sampler.n_sweeps();
            // A watcher that says stop is heard at the head of the loop.
            let _ = part.report(sweep, sweep as f64 / total as f64, &[], &[]);
            self.checkpoint
                .offer(0, sweep, || reached_sample(&sampler))?;
        }
        if self.watch.is_stopped() {
            self.checkpoint.write(0, || reached_sample(&sampler))?;
        }
        let (state, trace) = sampler.into_parts();
        let n_noise = state.shared.noise_precisions.len();
        Ok(Parts {
            shared: state.shared,
            trace,
            totals: Totals::new(self.grid, model.atoms, n_noise),
            lines: 0,
        })
    }

    /// Adds the parts that remain.
    fn run(&self, parts: &mut Parts) -> Result<(), BpfaError> {
        let all = self.grid.n_along(0);
        let in_row = self.grid.n_along(1) * self.grid.n_along(2);
        let lines = (self.config.part / in_row).max(1);
        let mut report = self.watch.part("parts", 0.5);
        while parts.lines < all && !self.watch.is_stopped() {
            let own = parts.lines..(parts.lines + lines).min(all);
            let number = (own.start / lines) as u64;
            self.add(own.clone(), number, parts)?;
            parts.lines = own.end;
            let done = own.end as f64 / all as f64;
            let _ = report.report(number + 1, done, &[], &[]);
            let reached = || Reached::Parts(parts.clone());
            match self.watch.is_stopped() {
                true => self.checkpoint.write(0, reached)?,
                false => self.checkpoint.offer(0, number + 1, reached)?,
            }
        }
        Ok(())
    }

    /// Adds the patches of these rows of patches.
    fn add(&self, own: Range<usize>, number: u64, parts: &mut Parts) -> Result<(), BpfaError> {
        let patches = of_rows(&self.grid, own.clone());
        let share = patches.len() as f64 / self.grid.n_patches() as f64;
        let mut seen = patches.clone();
        if !seen.any(|p| self.grid.observed(self.image, p).next().is_some()) {
            // Nothing is known of these patches: the mean of the image.
            for _ in 0..self.config.sweeps.keep {
                let sums = &mut parts.totals.sums;
                sums.add_rows(own.clone(), |_, out| out.fill(0.0));
            }
            return Ok(());
        }
        let rows = rows(self.image, &self.grid, patches, self.extras)?;
        let part = Part {
            rows: &rows,
            config: self.config,
            number,
        };
        parts.shared = part.draw(parts.shared.clone(), &mut parts.totals, own, share)?;
        Ok(())
    }
}

fn reached_sample(sampler: &BpfaSampler<'_>) -> Reached {
    Reached::Sample {
        state: sampler.state().clone(),
        trace: sampler.trace().clone(),
    }
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
        lines: Range<usize>,
        share: f64,
    ) -> Result<Shared, BpfaError> {
        let model = &self.config.image.model;
        let config = BpfaConfig {
            hold_dictionary: 0,
            sweeps: fixed_atoms(model.sweeps),
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
