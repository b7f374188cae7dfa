//! Images: restoration, bits, files, bad input.

use std::ops::ControlFlow;

use npb_bpfa::npb_data::{Image, Mask, metrics};
use npb_bpfa::npb_infer::checkpoint::Every;
use npb_bpfa::npb_infer::watch::Progress;
use npb_bpfa::npb_infer::{Stop, SweepPlan, Watch, stream};
use npb_bpfa::{
    BpfaError, ImageConfig, Restored, Role, Saved, SpikePrior, UsagePrior, restore, restore_watched,
};
use rand::RngExt;
use rand_distr::StandardNormal;

/// Waves and an edge, from 40 to 215.
fn truth(height: usize, width: usize, channels: usize) -> Image {
    let value = |i: usize| {
        let (row, column, channel) = (i / channels / width, i / channels % width, i % channels);
        let wave = ((row as f32) * 0.7).sin() + ((column as f32 + channel as f32) * 0.45).cos();
        let edge = if row + column > height { 30.0 } else { -30.0 };
        125.0 + 28.0 * wave + edge
    };
    let values = (0..height * width * channels).map(value).collect();
    Image::new(height, width, channels, values).unwrap()
}

fn damaged(truth: &Image, sigma: f32, missing: f64, seed: u64) -> Image {
    let mut rng = stream(seed, [0; 4]);
    let noisy = truth
        .map(|v| v + sigma * rng.sample::<f32, _>(StandardNormal))
        .unwrap();
    let mask = Mask::from_fn(truth.height(), truth.width(), |_, _| {
        rng.random::<f64>() < missing
    });
    noisy.hide(&mask.unwrap()).unwrap()
}

fn config(burn_in: u64, keep: u64) -> ImageConfig {
    let mut config = ImageConfig {
        patch: [5, 5],
        ..ImageConfig::default()
    };
    config.model.atoms = 24;
    config.model.seed = 3;
    config.model.sweeps = SweepPlan {
        burn_in,
        keep,
        thin: 1,
    };
    config
}

fn psnr(restored: &Restored, truth: &Image) -> f64 {
    metrics::psnr(restored.image().unwrap().values(), truth.values(), 255.0).unwrap()
}

fn coverage(restored: &Restored, truth: &Image) -> f64 {
    let intervals = restored.interval(0.9).unwrap();
    let entries = truth.values().iter().zip(intervals);
    let inside = entries.filter(|(t, interval)| interval.holds(f64::from(**t)));
    inside.count() as f64 / truth.values().len() as f64
}

/// The noisy image has 20.2 dB; an image that is smooth can be had much better, with intervals that mean what they say.
#[test]
fn noise_is_found_and_taken_out() {
    let truth = truth(48, 48, 1);
    let restored = restore(&damaged(&truth, 25.0, 0.0, 1), &config(40, 20)).unwrap();
    assert!(
        psnr(&restored, &truth) > 27.0,
        "{}",
        psnr(&restored, &truth)
    );
    assert!(
        (restored.noise_sd[0] - 25.0).abs() < 1.5,
        "{:?}",
        restored.noise_sd
    );
    // 5% on either side of a normal law.
    for (interval, sd) in restored.interval(0.9).unwrap().iter().zip(restored.sd()) {
        assert!((interval.width() / (2.0 * f64::from(*sd)) - 1.644_854).abs() < 1e-3);
    }
    let covered = coverage(&restored, &truth);
    assert!((0.8..0.995).contains(&covered), "{covered}");
    assert_eq!(restored.stop(), Stop::Completed);
    assert_eq!(restored.traces[0].n_sweeps(), 60);
}

#[test]
fn much_noise_gets_a_longer_burn_in() {
    let truth = truth(64, 64, 1);
    let burn_in = |sigma: f32| {
        let noisy = damaged(&truth, sigma, 0.0, 3);
        ImageConfig::suited_to(&noisy).model.sweeps.burn_in
    };
    assert_eq!((burn_in(5.0), burn_in(100.0)), (80, 240));
}

/// Of an image that is mostly holes few sweeps are enough, unless there is noise as well.
#[test]
fn noise_beside_holes_gets_more_sweeps() {
    let ramp: Vec<f32> = (0..64 * 64)
        .map(|k| 2.0 * (k % 64 + k / 64) as f32)
        .collect();
    let ramp = Image::new(64, 64, 1, ramp).unwrap();
    let burn_in = |sigma: f32, missing: f64| {
        let image = damaged(&ramp, sigma, missing, 3);
        ImageConfig::suited_to(&image).model.sweeps.burn_in
    };
    // Variance of the ramp: 2 times 4 (64^2 - 1)/12 = 2,730; a share of .015 is a sigma of 6.4.
    let found = [burn_in(0.0, 0.8), burn_in(4.0, 0.8), burn_in(9.0, 0.8)];
    assert_eq!(found, [26, 26, 140]);
    assert_eq!(burn_in(0.0, 0.5), 140);
}

#[test]
fn holes_and_noise_together_neither_told() {
    let truth = truth(48, 48, 1);
    let restored = restore(&damaged(&truth, 10.0, 0.5, 2), &config(60, 20)).unwrap();
    assert!(
        psnr(&restored, &truth) > 28.0,
        "{}",
        psnr(&restored, &truth)
    );
    let covered = coverage(&restored, &truth);
    assert!((0.8..0.995).contains(&covered), "{covered}");
}

#[test]
fn colours_share_patches_and_may_differ_in_noise() {
    let truth = truth(32, 32, 3);
    let mut rng = stream(4, [0; 4]);
    let mut entry = 0;
    let noisy = truth
        .map(|v| {
            let sigma = [5.0, 15.0, 30.0][entry % 3];
            entry += 1;
            v + sigma * rng.sample::<f32, _>(StandardNormal)
        })
        .unwrap();
    let mut config = config(40, 20);
    config.patch = [4, 4];
    config.model.channel_noise = true;
    let restored = restore(&noisy, &config).unwrap();
    for (found, sigma) in restored.noise_sd.iter().zip([5.0, 15.0, 30.0]) {
        assert!(
            (found / sigma - 1.0).abs() < 0.25,
            "{:?}",
            restored.noise_sd
        );
    }
    // Boxes that slide over the channels are rows of one kind: no channel of their own.
    config.depth = 2;
    assert!(matches!(
        restore(&noisy, &config),
        Err(BpfaError::Config(_))
    ));
    config.model.channel_noise = false;
    assert!(psnr(&restore(&noisy, &config).unwrap(), &truth) > 22.0);
}

#[test]
fn spikes_are_found_where_they_are() {
    let truth = truth(40, 40, 1);
    let mut rng = stream(5, [0; 4]);
    let mut hit = Vec::new();
    let noisy = truth
        .map(|v| {
            hit.push(rng.random::<f64>() < 0.05);
            let spike = if hit[hit.len() - 1] { 140.0 } else { 0.0 };
            v + spike + 5.0 * rng.sample::<f32, _>(StandardNormal)
        })
        .unwrap();
    let mut config = config(60, 20);
    config.model.spikes = Some(SpikePrior::default());
    let restored = restore(&noisy, &config).unwrap();
    let found = restored.spike_probability.iter().map(|&p| p > 0.5);
    let wrong = found.zip(&hit).filter(|(f, h)| f != *h).count();
    let spikes = hit.iter().filter(|h| **h).count();
    // Without spikes found all of them would be wrong.
    assert!(4 * wrong <= spikes, "{wrong} of {spikes}");
}

#[test]
fn usage_may_depend_on_where_patches_lie() {
    let truth = truth(32, 32, 1);
    let mut config = config(30, 10);
    config.model.usage = UsagePrior::Dependent {
        prior: npb_bpfa::DependentPrior {
            anchors: 9,
            neighbours: 4,
            ..Default::default()
        },
    };
    let restored = restore(&damaged(&truth, 10.0, 0.5, 6), &config).unwrap();
    assert!(
        psnr(&restored, &truth) > 24.0,
        "{}",
        psnr(&restored, &truth)
    );
}

/// Half of a picture is darker than what could be measured: told so, its mean is not where it was cut off.
#[test]
fn what_was_cut_off_may_lie_beyond() {
    let truth = truth(40, 40, 1);
    let cut = damaged(&truth, 40.0, 0.0, 7).map(|v| v.max(110.0)).unwrap();
    let plain = restore(&cut, &config(40, 20)).unwrap();
    let mut told = config(40, 20);
    told.bounds = Some([110.0, 1e4]);
    let told = restore(&cut, &told).unwrap();
    assert!(
        psnr(&told, &truth) > psnr(&plain, &truth) + 3.0,
        "{} {}",
        psnr(&told, &truth),
        psnr(&plain, &truth)
    );
}

fn in_pool<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.unwrap().install(run)
}

#[test]
fn bits_do_not_depend_on_threads() {
    let image = damaged(&truth(30, 28, 1), 15.0, 0.3, 9);
    let mut two = config(6, 4);
    two.model.chains = 2;
    let run = |threads| in_pool(threads, || restore(&image, &two).unwrap());
    let one = run(1);
    assert_eq!(run(2), one);
    assert_eq!(run(4), one);
    assert_eq!(one.traces.len(), 2);
    assert_ne!(one.traces[0], one.traces[1]);
}

#[test]
fn a_stopped_run_goes_on_in_the_same_bits() {
    let image = damaged(&truth(24, 24, 1), 15.0, 0.3, 10);
    let config = config(5, 5);
    let whole = restore(&image, &config).unwrap();
    let folder = std::env::temp_dir().join(format!("npb-bpfa-image-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("checkpoint");
    let stop_at = |step: u64| {
        move |p: &Progress<'_>| match p.step >= step {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let watch = Watch::new(stop_at(7)).with_checkpoint(&path, Every::sweeps(1));
    let stopped = restore_watched(&image, &config, &watch).unwrap();
    assert_eq!(
        (stopped.stop(), stopped.traces[0].n_sweeps()),
        (Stop::Cancelled, 7)
    );
    let again = Watch::none().with_checkpoint(&path, Every::sweeps(1));
    assert_eq!(restore_watched(&image, &config, &again).unwrap(), whole);
    // A checkpoint of another image is refused.
    let other = damaged(&truth(24, 24, 1), 15.0, 0.3, 11);
    let again = Watch::none().with_checkpoint(&path, Every::sweeps(1));
    assert!(matches!(
        restore_watched(&other, &config, &again),
        Err(BpfaError::Checkpoint(_))
    ));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A chain that begins with a sample of patches: its bits do not depend on threads, nor on where it was stopped, on the sample or after it; a stop on the sample
/// answers for all patches.
#[test]
fn chains_may_begin_with_some_patches() {
    let folder = std::env::temp_dir().join(format!("npb-bpfa-sample-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("checkpoint");
    for missing in [0.0, 0.3] {
        let image = damaged(&truth(40, 36, 1), 15.0, missing, 3);
        let all = config(24, 4);
        let some = ImageConfig {
            sample: 100,
            ..all.clone()
        };
        let whole = in_pool(1, || restore(&image, &some).unwrap());
        assert_eq!(in_pool(3, || restore(&image, &some).unwrap()), whole);
        let slow = restore(&image, &all).unwrap();
        assert_ne!(whole.image().unwrap(), slow.image().unwrap());
        let [fast, slow] = [&whole, &slow].map(|r| psnr(r, &truth(40, 36, 1)));
        assert!(fast > slow - 1.5, "{fast} {slow}");
        // 22 sweeps are of the sample, each third patch of 36 x 32 down and across: so many scores are active, a whole number.
        for sweep in 0..28 {
            let rows = if sweep < 22 { 12 * 11 } else { 36 * 32 };
            let active = whole.traces[0].row(sweep)[3] * f64::from(rows);
            assert!((active - active.round()).abs() < 1e-6, "sweep {sweep}");
        }
        for stop in [1, 22, 23, 26] {
            let end = move |p: &Progress<'_>| match p.step >= stop {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            let watch = Watch::new(end).with_checkpoint(&path, Every::sweeps(1));
            let stopped = restore_watched(&image, &some, &watch).unwrap();
            assert_eq!(stopped.traces[0].n_sweeps() as u64, stop);
            assert!(psnr(&stopped, &truth(40, 36, 1)) > 15.0);
            let again = Watch::none().with_checkpoint(&path, Every::sweeps(1));
            assert_eq!(restore_watched(&image, &some, &again).unwrap(), whole);
            std::fs::remove_file(&path).unwrap();
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_restored_image_comes_back_from_its_file() {
    let image = damaged(&truth(16, 16, 1), 15.0, 0.0, 12);
    let mut config = config(2, 2);
    config.model.atoms = 3;
    let restored = restore(&image, &config).unwrap();
    let bytes = restored.to_bytes().unwrap();
    assert_eq!(Restored::from_bytes(&bytes).unwrap(), restored);
    assert!(Restored::from_bytes(&bytes[..bytes.len() - 1]).is_err());
    let mut wrong = restored.clone();
    wrong.usage.pop();
    assert!(Restored::from_bytes(&wrong.to_bytes().unwrap()).is_err());
    let mut wrong = restored.clone();
    wrong.noise_sd[0] = f64::NAN;
    assert!(Restored::from_bytes(&wrong.to_bytes().unwrap()).is_err());
    let mut wrong = restored;
    wrong.config.patch = [usize::MAX, 2];
    assert!(Restored::from_bytes(&wrong.to_bytes().unwrap()).is_err());
}

#[test]
fn bad_images_are_refused_by_name() {
    let image = truth(16, 16, 1);
    let refused =
        |image: &Image, config: &ImageConfig| restore(image, config).unwrap_err().to_string();
    let mut large = config(1, 1);
    large.patch = [17, 5];
    assert!(refused(&image, &large).contains("height of the patch is 17"));
    let nothing = image.hide(&Mask::new(16, 16, true).unwrap()).unwrap();
    assert!(matches!(
        restore(&nothing, &config(1, 1)),
        Err(BpfaError::NoEntries)
    ));
    for change in [
        |c: &mut ImageConfig| c.patch[1] = 0,
        |c: &mut ImageConfig| c.step = [0, 1],
        |c: &mut ImageConfig| c.bounds = Some([1.0, f64::NAN]),
        |c: &mut ImageConfig| c.model.sweeps.keep = 0,
    ] {
        let mut config = config(1, 1);
        change(&mut config);
        assert!(restore(&image, &config).is_err());
    }
    for probability in [0.0, 1.0, f64::NAN] {
        let restored = restore(&image, &config(1, 1)).unwrap();
        assert!(restored.interval(probability).is_err());
    }
}

/// A channel of which nothing was observed stays missing and is listed; 16 bit and far-off means change nothing.
#[test]
fn unknown_channels_stay_missing_and_units_do_not_matter() {
    let image = truth(20, 20, 2);
    let mask = Mask::from_fn(20, 40, |_, col| col % 2 == 1).unwrap();
    let half = image.hide(&mask).unwrap();
    let mut config = config(3, 2);
    config.patch = [3, 3];
    let restored = restore(&half, &config).unwrap();
    assert_eq!(restored.unknown_channels(), [1]);
    let found = restored.image().unwrap();
    assert!(found.get(3, 3, 0).is_some() && found.get(3, 3, 1).is_none());
    let grey = truth(20, 20, 1);
    let deep = grey.map(|v| 256.0 * v + 1024.0).unwrap();
    let (a, b) = (
        restore(&grey, &config).unwrap(),
        restore(&deep, &config).unwrap(),
    );
    let (a, b) = (a.image().unwrap(), b.image().unwrap());
    let worst = a
        .values()
        .iter()
        .zip(b.values())
        .map(|(a, b)| (256.0 * a + 1024.0 - b).abs() / 256.0);
    assert!(worst.fold(0.0, f32::max) < 8.0);
}

/// Channels that say the same, or nothing, change no answer for the others.
#[test]
fn copies_and_constant_channels_change_no_answer() {
    let grey = damaged(&truth(20, 18, 1), 15.0, 0.1, 14);
    let config = config(10, 10);
    let alone = restore(&grey, &config).unwrap();
    // The channels of a pixel by its grey.
    let coloured = |channels: usize, of: fn(f64, usize) -> f64| {
        let pixel = |at: usize| grey.get(at / 18, at % 18, 0).map_or(f64::NAN, f64::from);
        let values: Vec<f64> = (0..360)
            .flat_map(|at| (0..channels).map(move |c| (at, c)))
            .map(|(at, c)| of(pixel(at), c))
            .collect();
        Image::from_nan_coded(20, 18, channels, &values).unwrap()
    };
    let of = |restored: &Restored, channel: usize, channels: usize| {
        let image = restored.image().unwrap();
        let every = move |values: &[f32]| -> Vec<f32> {
            values
                .iter()
                .skip(channel)
                .step_by(channels)
                .copied()
                .collect()
        };
        (every(image.values()), every(restored.sd()))
    };
    let plain = of(&alone, 0, 1);
    let three = restore(&coloured(3, |v, _| v), &config).unwrap();
    assert_eq!(three.noise_sd, alone.noise_sd);
    (0..3).for_each(|c| assert_eq!(of(&three, c, 3), plain));
    assert!(matches!(three.roles()[2], Role::CopyOf { column: 0, .. }));
    // Half as bright, upside down; opaque everywhere.
    let sepia = restore(&coloured(3, |v, c| [v, 200.0 - 0.5 * v, 255.0][c]), &config).unwrap();
    assert_eq!(of(&sepia, 0, 3), plain);
    let (mean, sd) = of(&sepia, 1, 3);
    let close = |a: f32, b: f32| (a - b).abs() < 1e-3;
    assert!(
        (0..360)
            .all(|i| close(mean[i], 200.0 - 0.5 * plain.0[i]) && close(sd[i], 0.5 * plain.1[i]))
    );
    assert_eq!(of(&sepia, 2, 3), (vec![255.0; 360], vec![0.0; 360]));
    assert_eq!(sepia.roles()[2], Role::Constant { value: 255.0 });
    assert_eq!(
        Restored::from_bytes(&sepia.to_bytes().unwrap()).unwrap(),
        sepia
    );
    let suited = |image: &Image| ImageConfig::suited_to(image);
    assert_eq!(suited(&coloured(3, |v, c| [v, v, 0.0][c])), suited(&grey));
    let colours = truth(20, 18, 3);
    assert!(suited(&colours).model.channel_noise && suited(&colours).patch == [7, 7]);
}

/// An image without contrast is given back, filled; one smaller than patches are gets smaller ones.
#[test]
fn flat_and_small_images_are_ordinary() {
    let flat = Image::new(16, 16, 1, vec![7.0; 256]).unwrap();
    let hole = Mask::from_fn(16, 16, |row, col| row == 3 && col == 4).unwrap();
    let flat = flat.hide(&hole).unwrap();
    let restored = restore(&flat, &ImageConfig::suited_to(&flat)).unwrap();
    assert_eq!(restored.image().unwrap().values(), [7.0; 256]);
    assert_eq!(restored.sd(), [0.0; 256]);
    assert_eq!(restored.noise_sd, [0.0]);
    assert_eq!(
        Restored::from_bytes(&restored.to_bytes().unwrap()).unwrap(),
        restored
    );
    let small = damaged(&truth(5, 12, 1), 5.0, 0.0, 15);
    let config = ImageConfig::suited_to(&small);
    assert_eq!(config.patch, [5, 8]);
    let restored = restore(&small, &config).unwrap();
    assert!(
        restored
            .image()
            .unwrap()
            .values()
            .iter()
            .all(|v| v.is_finite())
    );
}

/// Where few patches lie about a pixel several chains say what one does not know.
#[test]
fn few_patches_about_a_pixel_get_four_chains() {
    let cube = damaged(&truth(6, 6, 5), 5.0, 0.0, 16);
    let chains = |patch: [usize; 2], step: [usize; 2]| {
        let mut config = ImageConfig {
            patch,
            step,
            ..ImageConfig::default()
        };
        config.model.atoms = 4;
        config.model.sweeps = SweepPlan {
            burn_in: 1,
            keep: 1,
            thin: 1,
        };
        restore(&cube, &config).unwrap().traces.len()
    };
    assert_eq!(chains([1, 1], [1, 1]), 4);
    assert_eq!(chains([4, 4], [3, 2]), 4);
    assert_eq!(chains([4, 4], [2, 2]), 1);
}
