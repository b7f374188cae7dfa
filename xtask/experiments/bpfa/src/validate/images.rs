//! What intervals of restored images hold, on images that are simulated.

use npb_bpfa::npb_data::Image;
use npb_bpfa::{ImageConfig, restore};
use npb_infer::{Xoshiro256PlusPlus, stream};
use npb_kit::Result;
use npb_kit::validate::coverage::{LEVELS, Quantity, Share, findings};
use npb_kit::validate::{Findings, Plan};
use rand::RngExt;
use rand_distr::StandardNormal;

/// Height and width: 8 x 8 places for patches of 8 x 8 pixels.
const SIDE: usize = 15;
const NOISE: f64 = 15.0;

fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    rng.sample(StandardNormal)
}

/// A picture without noise: waves, or flat blocks.
fn picture(is_waves: bool, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    let waves: Vec<[f64; 4]> = (0..3)
        .map(|_| [0; 4].map(|_| rng.random::<f64>()))
        .collect();
    let (edges, greys) = (
        [0; 2].map(|_| rng.random_range(4..12)),
        [0; 4].map(|_| 60.0 + 140.0 * rng.random::<f64>()),
    );
    let pixel = |at: usize| {
        let (y, x) = (at / SIDE, at % SIDE);
        if !is_waves {
            return greys[2 * usize::from(y >= edges[0]) + usize::from(x >= edges[1])];
        }
        let wave = |w: &[f64; 4]| {
            let phase = (0.2 + 0.6 * w[0]) * x as f64 + (0.2 + 0.6 * w[1]) * y as f64;
            20.0 * (0.5 + w[2]) * (phase + 6.3 * w[3]).sin()
        };
        128.0 + waves.iter().map(wave).sum::<f64>()
    };
    (0..SIDE * SIDE).map(pixel).collect()
}

/// The shares of entries that are inside, of all or of those that are not seen.
fn held(image: &Image, truth: &[f64], config: &ImageConfig) -> Result<Option<[f64; 2]>> {
    let restored = restore(image, config)?;
    let ends = [restored.interval(LEVELS[0])?, restored.interval(LEVELS[1])?];
    let line = image.width() * image.channels();
    let mut share = Share::default();
    for (at, truth) in truth.iter().enumerate() {
        if image.n_missing() == 0 || !image.observed().get(at / line, at % line) {
            share.add([ends[0][at].holds(*truth), ends[1][at].holds(*truth)]);
        }
    }
    Ok(share.of_table())
}

pub(super) fn pixels(plan: &Plan) -> Result<Findings> {
    let tables = plan.scale.pick(1, 20, 1_000);
    let mut quantities = Vec::new();
    for (name, is_waves) in [("waves", true), ("blocks", false)] {
        let mut by_table = Vec::new();
        for t in 0..tables {
            let seed = plan.seed * 1000 + t;
            let rng = &mut stream(seed, [u64::from(is_waves), 1, 0, 0]);
            let truth = picture(is_waves, rng);
            let noisy = truth.iter().map(|x| (x + NOISE * normal(rng)) as f32);
            let image = Image::new(SIDE, SIDE, 1, noisy.collect())?;
            let mut config = ImageConfig::suited_to(&image);
            config.model.seed = seed;
            by_table.extend(held(&image, &truth, &config)?);
        }
        quantities.extend(Quantity::of_levels(name, &by_table));
    }
    let notes = "Images of 15 x 15 pixels with noise of standard deviation 15: how often the intervals of all pixels hold them without noise.";
    Ok(findings(plan, "npb:bpfa/images", &quantities, notes))
}

pub(super) fn bands(plan: &Plan) -> Result<Findings> {
    let (tables, side, n_bands) = plan.scale.pick((1, 6, 10), (4, 30, 160), (100, 30, 160));
    const SEEN: f64 = 0.05;
    const MATERIALS: usize = 4;
    let mut by_table = Vec::new();
    for t in 0..tables {
        let seed = plan.seed * 1000 + t;
        let rng = &mut stream(seed, [0, 2, 0, 0]);
        // Spectra are random walks; a pixel is a mixture of two materials.
        let mut spectra = vec![[0.0; MATERIALS]; n_bands];
        for k in 0..MATERIALS {
            let mut level = 100.0 + 20.0 * normal(rng);
            spectra.iter_mut().for_each(|band| {
                level += 4.0 * normal(rng);
                band[k] = level;
            });
        }
        let mut truth = Vec::new();
        for _ in 0..side * side {
            let (a, b) = (
                rng.random_range(0..MATERIALS),
                rng.random_range(0..MATERIALS),
            );
            let share = rng.random::<f64>();
            let mixed = |band: &[f64; MATERIALS]| share * band[a] + (1.0 - share) * band[b];
            truth.extend(spectra.iter().map(mixed));
        }
        let seen = |x: &f64| match rng.random::<f64>() < SEEN {
            true => (x + normal(rng)) as f32,
            false => f32::NAN,
        };
        let cells: Vec<f32> = truth.iter().map(seen).collect();
        let image = Image::from_nan_coded(side, side, n_bands, &cells)?;
        let mut config = ImageConfig {
            patch: [1, 1],
            ..ImageConfig::default()
        };
        config.model.atoms = 16;
        config.model.seed = seed;
        config.model.sweeps = npb_kit::sweeps(60, 40);
        by_table.extend(held(&image, &truth, &config)?);
    }
    let quantities = Quantity::of_levels("entries that are not seen", &by_table);
    let notes = "Cubes of 900 pixels and 160 bands, four spectra that are random walks, two of them mixed in each pixel, 5% seen, noise of standard deviation 1; four chains.";
    Ok(findings(plan, "npb:bpfa/images", &quantities, notes))
}
