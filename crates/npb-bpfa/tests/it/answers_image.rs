//! What a restored image says, beside a chain driven by hand.

use npb_bpfa::npb_data::{Image, Mask};
use npb_bpfa::npb_infer::{SweepPlan, stream};
use npb_bpfa::{
    AtomStart, BpfaMove, BpfaRows, BpfaSampler, DependentPrior, Dictionary, ImageConfig, Restored,
    SpikePrior, UsagePrior, restore,
};
use rand::RngExt;

/// Uniform numbers from 16 to 80 in quarters.
fn uniform(height: usize, width: usize, channels: usize, seed: u64) -> Image {
    let rng = &mut stream(seed, [0; 4]);
    let mut values: Vec<f32> = (0..height * width * channels)
        .map(|_| 16.0 + 0.25 * rng.random_range(0..=256) as f32)
        .collect();
    // The range is known.
    (values[0], values[1]) = (16.0, 80.0);
    Image::new(height, width, channels, values).unwrap()
}

fn config(patch: [usize; 2], step: [usize; 2]) -> ImageConfig {
    let mut config = ImageConfig {
        patch,
        step,
        start: AtomStart::NoisyPatches,
        ..ImageConfig::default()
    };
    config.model.atoms = 4;
    config.model.seed = 3;
    config.model.hold_dictionary = 1;
    config.model.sweeps = SweepPlan {
        burn_in: 1,
        keep: 3,
        thin: 2,
    };
    config
}

/// Where patches start along a side: a step apart, the last one at the border.
fn corners(side: usize, patch: usize, step: usize) -> Vec<usize> {
    let mut all = vec![0];
    while all[all.len() - 1] + patch < side {
        all.push((all[all.len() - 1] + step).min(side - patch));
    }
    all
}

struct ByHand {
    mean: Vec<f64>,
    sd: Vec<f64>,
    noise_sd: Vec<f64>,
    usage: Vec<f64>,
    spikes: Vec<f64>,
    dictionary: Dictionary,
}

/// The rows that the patches of an image make, their entries' places in the image, and centres and scale of the units.
fn by_hand(image: &Image, config: &ImageConfig, chains: usize) -> ByHand {
    let [height, width, channels] = image.size();
    let at = |entry: usize| {
        image.get(
            entry / channels / width,
            entry / channels % width,
            entry % channels,
        )
    };
    let n = height * width * channels;
    let known: Vec<f64> = (0..n).filter_map(at).map(f64::from).collect();
    let low = known.iter().copied().fold(f64::INFINITY, f64::min);
    let high = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let scale = high - low;
    let means: Vec<f64> = (0..channels)
        .map(|c| {
            let own: Vec<f64> = (c..n)
                .step_by(channels)
                .filter_map(at)
                .map(f64::from)
                .collect();
            own.iter().sum::<f64>() / own.len() as f64
        })
        .collect();
    // Bounds are the same in all channels.
    let overall = means.iter().sum::<f64>() / channels as f64;
    let centre = |c: usize| {
        if config.bounds.is_some() {
            overall
        } else {
            means[c]
        }
    };
    let inward = |c: usize, v: f64| ((v - centre(c)) / scale) as f32;
    let depth = if config.depth == 0 {
        channels
    } else {
        config.depth
    };
    let mut patches: Vec<Vec<usize>> = Vec::new();
    let mut places = Vec::new();
    for row in corners(height, config.patch[0], config.step[0]) {
        for column in corners(width, config.patch[1], config.step[1]) {
            for channel in corners(channels, depth, 1) {
                let mut entries = Vec::new();
                for r in row..row + config.patch[0] {
                    for c in column..column + config.patch[1] {
                        let first = (r * width + c) * channels + channel;
                        entries.extend(first..first + depth);
                    }
                }
                patches.push(entries);
                places.extend([row as f32, column as f32]);
            }
        }
    }
    let length = patches[0].len();
    let (mut starts, mut columns, mut values, mut sites) = (vec![0], vec![], vec![], vec![]);
    for patch in &patches {
        for (p, &entry) in patch.iter().enumerate() {
            if let Some(v) = at(entry) {
                columns.push(p as u32);
                values.push(inward(entry % channels, f64::from(v)));
                sites.push(entry as u32);
            }
        }
        starts.push(values.len());
    }
    let mut rows = BpfaRows::new(length, &starts, columns, values).unwrap();
    if config.model.channel_noise {
        let own = (0..length as u32).map(|p| p % channels as u32).collect();
        rows = rows.with_channels(own).unwrap();
    }
    if config.model.spikes.is_some() {
        rows = rows.with_sites(n, sites).unwrap();
    }
    if let UsagePrior::Dependent { .. } = config.model.usage {
        rows = rows.with_locations(2, places).unwrap();
    }
    if let Some([low, high]) = config.bounds {
        rows = rows.with_bounds(inward(0, low), inward(0, high)).unwrap();
    }
    let mut model = config.model.clone();
    model.chains = chains;
    let plan = model.sweeps;
    let mut draws: Vec<Vec<f64>> = vec![Vec::new(); n];
    let (mut noise, mut usage, mut spikes) = (Vec::new(), vec![0.0; model.atoms], vec![0.0; n]);
    let mut dictionary = None;
    let kept = plan.keep as f64;
    for chain in 0..chains {
        let mut sampler = BpfaSampler::chain(&rows, model.clone(), chain as u64, None).unwrap();
        for sweep in 1..=plan.burn_in + plan.keep * plan.thin {
            sampler.sweep().unwrap();
            if sweep <= plan.burn_in || !(sweep - plan.burn_in).is_multiple_of(plan.thin) {
                continue;
            }
            let state = sampler.state();
            let atoms: Vec<Vec<f32>> = (0..model.atoms)
                .map(|k| state.shared.dictionary.atom(k))
                .collect();
            for (i, patch) in patches.iter().enumerate() {
                let own: Vec<(usize, f32)> = state.scores.row(i).iter().collect();
                for (p, &entry) in patch.iter().enumerate() {
                    let terms = own.iter().map(|&(k, s)| f64::from(atoms[k][p] * s));
                    draws[entry].push(centre(entry % channels) + scale * terms.sum::<f64>());
                }
                if chain == 0 {
                    let share = 1.0 / (kept * patches.len() as f64);
                    own.iter().for_each(|(k, _)| usage[*k] += share);
                }
            }
            noise.push(state.shared.noise_precisions.clone());
            for &site in &state.spikes.sites {
                spikes[site as usize] += 1.0 / (kept * chains as f64);
            }
        }
        dictionary.get_or_insert(sampler.state().shared.dictionary.clone());
    }
    let mean = |own: &Vec<f64>| own.iter().sum::<f64>() / own.len() as f64;
    let spread = |own: &Vec<f64>| {
        let centre = mean(own);
        let square: f64 = own.iter().map(|x| (x - centre).powi(2)).sum();
        (square / own.len() as f64).sqrt()
    };
    let of_channel = |c: usize| {
        let all = noise.iter().map(|own| scale / own[c].sqrt());
        all.sum::<f64>() / noise.len() as f64
    };
    ByHand {
        mean: draws.iter().map(mean).collect(),
        sd: draws.iter().map(spread).collect(),
        noise_sd: (0..noise[0].len()).map(of_channel).collect(),
        usage,
        spikes,
        dictionary: dictionary.unwrap(),
    }
}

#[track_caller]
fn same<T: Copy + Into<f64>>(found: &[T], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let found: f64 = found.into();
        let off = (found - expected).abs();
        assert!(
            off <= 2e-4 * expected.abs().max(1.0),
            "{what} {at}: {found} for {expected}"
        );
    }
}

fn agrees(image: &Image, config: &ImageConfig, chains: usize, what: &str) -> Restored {
    let restored = restore(image, config).unwrap();
    let by_hand = by_hand(image, config, chains);
    assert_eq!(restored.traces.len(), chains, "{what}");
    let found = restored.image().unwrap();
    assert_eq!(found.n_missing(), 0, "{what}");
    same(found.values(), &by_hand.mean, &format!("{what}: mean"));
    same(restored.sd(), &by_hand.sd, &format!("{what}: sd"));
    same(
        &restored.noise_sd,
        &by_hand.noise_sd,
        &format!("{what}: noise"),
    );
    same(&restored.usage, &by_hand.usage, &format!("{what}: usage"));
    assert_eq!(restored.dictionary, by_hand.dictionary, "{what}");
    match config.model.spikes {
        Some(_) => same(&restored.spike_probability, &by_hand.spikes, what),
        None => assert!(restored.spike_probability.is_empty()),
    }
    // Normal quantiles at .995 and .6.
    for (probability, z) in [(0.99, 2.575_829_303_549), (0.2, 0.253_347_103_136)] {
        let found = restored.interval(probability).unwrap();
        let lower: Vec<f32> = found.iter().map(|i| i.lower as f32).collect();
        let upper: Vec<f32> = found.iter().map(|i| i.upper as f32).collect();
        let ends = |sign: f64| -> Vec<f64> {
            let both = by_hand.mean.iter().zip(&by_hand.sd);
            both.map(|(mean, sd)| mean + sign * z * sd).collect()
        };
        same(&lower, &ends(-1.0), &format!("{what}: lower"));
        same(&upper, &ends(1.0), &format!("{what}: upper"));
    }
    restored
}

fn holes(image: &Image, every: usize) -> Image {
    let cols = image.width() * image.channels();
    let mask = Mask::from_fn(image.height(), cols, |row, col| {
        (row * cols + col) % every == 3
    });
    image.hide(&mask.unwrap()).unwrap()
}

/// Means, spreads, noise, usage and spikes of all entries, from chains over rows that are cut out by hand: patches that are not square, steps, depth, holes,
/// noise by channel, chains, bounds and spikes, alone and in pairs.
#[test]
fn restored_entries_are_averages_over_patches_and_sweeps() {
    let grey = uniform(8, 7, 1, 1);
    agrees(&grey, &config([3, 2], [1, 1]), 1, "grey");
    agrees(
        &holes(&grey, 5),
        &config([3, 4], [2, 1]),
        1,
        "holes and steps",
    );
    let mut two = config([2, 3], [1, 1]);
    two.model.chains = 2;
    agrees(&holes(&grey, 4), &two, 2, "chains");
    // Few patches about a pixel.
    agrees(&grey, &config([2, 3], [2, 1]), 4, "four chains");
    let colours = holes(&uniform(6, 5, 3, 2), 7);
    let mut by_channel = config([2, 2], [1, 1]);
    by_channel.model.channel_noise = true;
    let found = agrees(&colours, &by_channel, 1, "noise by channel");
    assert_eq!(found.noise_sd.len(), 3);
    let mut sliding = config([2, 2], [1, 1]);
    sliding.depth = 2;
    agrees(&colours, &sliding, 1, "depth");
    let mut bounds = config([2, 2], [1, 1]);
    bounds.bounds = Some([24.0, 70.0]);
    bounds.model.spikes = Some(SpikePrior {
        a: 2.0,
        b: 5.0,
        ..SpikePrior::default()
    });
    agrees(&colours, &bounds, 1, "bounds and spikes");
    bounds.model.chains = 2;
    bounds.model.channel_noise = true;
    agrees(
        &colours,
        &bounds,
        2,
        "bounds, spikes and noise of two chains",
    );
    let mut located = config([2, 2], [1, 1]);
    located.model.usage = UsagePrior::Dependent {
        prior: DependentPrior {
            anchors: 4,
            neighbours: 2,
            ..DependentPrior::default()
        },
    };
    agrees(&grey, &located, 1, "locations");
}

/// The dictionary of the start, by a run that leaves it alone.
fn start(image: &Image, change: impl Fn(&mut ImageConfig)) -> (Vec<Vec<f64>>, f64) {
    let mut config = config([2, 2], [1, 1]);
    config.start = AtomStart::SmoothedPatches;
    config.model.atoms = 6;
    config.model.moves = vec![BpfaMove::Scores];
    change(&mut config);
    let restored = restore(image, &config).unwrap();
    let atom = |k: usize| -> Vec<f64> {
        let own = restored.dictionary.atom(k);
        own.iter().map(|&x| f64::from(x)).collect()
    };
    ((0..6).map(atom).collect(), restored.noise_sd[0])
}

/// All patches of 2 x 2 of one channel in units of the model.
fn patches(values: &[f64], width: usize) -> Vec<Vec<f64>> {
    let corners = (0..values.len() / width - 1).flat_map(|r| (0..width - 1).map(move |c| (r, c)));
    corners
        .map(|(r, c)| {
            let at = |r: usize, c: usize| values[r * width + c];
            vec![at(r, c), at(r, c + 1), at(r + 1, c), at(r + 1, c + 1)]
        })
        .collect()
}

/// Atoms start as patches of the image of unit length, their holes the mean of the four pixels about them.
#[test]
fn atoms_start_as_patches_that_are_smoothed_into_holes() {
    let width = 9;
    let value = |at: usize| {
        let (row, column) = (at / width, at % width);
        (100.0 + 3.0 * (row * row) as f64 + 8.0 * column as f64 - (row * column) as f64) as f32
    };
    let truth: Vec<f32> = (0..81).map(value).collect();
    let image = Image::new(9, width, 1, truth.clone()).unwrap();
    let lonely = |row: usize, column: usize| row % 2 == 1 && column % 2 == 1;
    let mask = Mask::from_fn(9, 9, lonely).unwrap();
    let image = image.hide(&mask).unwrap();
    let mut filled: Vec<f64> = truth.iter().map(|&v| f64::from(v)).collect();
    for at in (0..81).filter(|at| lonely(at / 9, at % 9)) {
        let around = [at - 9, at + 9, at - 1, at + 1];
        filled[at] = around.iter().map(|&x| f64::from(truth[x])).sum::<f64>() / 4.0;
    }
    let known: Vec<f64> = (0..81)
        .filter(|at| !lonely(at / 9, at % 9))
        .map(|at| filled[at])
        .collect();
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    let centred: Vec<f64> = filled.iter().map(|x| x - mean).collect();
    let unit = |patch: &Vec<f64>| -> Vec<f64> {
        let length = patch.iter().map(|x| x * x).sum::<f64>().sqrt();
        patch.iter().map(|x| x / length).collect()
    };
    let all: Vec<Vec<f64>> = patches(&centred, width).iter().map(unit).collect();
    let is = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
    let (atoms, _) = start(&image, |_| {});
    let found = |atom: &Vec<f64>| all.iter().position(|patch| is(atom, patch));
    let chosen: Vec<Option<usize>> = atoms.iter().map(found).collect();
    assert!(chosen.iter().all(Option::is_some), "{atoms:?}");
    // Not all the same one.
    assert!(chosen.iter().any(|x| *x != chosen[0]));
}

/// Where most of the variance is noise, half of the atoms start as principal axes of the patches, the noise as the least second moment along one of them.
#[test]
fn atoms_start_as_axes_where_there_is_much_noise() {
    let image = uniform(16, 16, 1, 5);
    let mean = image.values().iter().map(|&v| f64::from(v)).sum::<f64>() / 256.0;
    let units: Vec<f64> = image
        .values()
        .iter()
        .map(|&v| (f64::from(v) - mean) / 64.0)
        .collect();
    let all = patches(&units, 16);
    let moment = |a: usize, b: usize| {
        let sum: f64 = all.iter().map(|x| x[a] * x[b]).sum();
        sum / all.len() as f64
    };
    let (atoms, noise_sd) = start(&image, |_| {});
    let mut along = Vec::new();
    for atom in &atoms[..3] {
        let image = |a: usize| (0..4).map(|b| moment(a, b) * atom[b]).sum::<f64>();
        let own: f64 = (0..4).map(|a| atom[a] * image(a)).sum();
        (0..4).for_each(|a| assert!((image(a) - own * atom[a]).abs() < 1e-5));
        along.push(own);
    }
    assert!(along[0] > along[1] && along[1] > along[2]);
    // Second moments sum to their trace: the fourth is what is left, and the least.
    let least = (0..4).map(|a| moment(a, a)).sum::<f64>() - along.iter().sum::<f64>();
    assert!(least < along[2]);
    assert!((noise_sd - 64.0 * least.sqrt()).abs() < 1e-2, "{noise_sd}");
}
