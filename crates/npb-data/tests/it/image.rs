//! Images, their patches and sums over patches.

use npb_data::{DataError, Image, Mask, PatchGrid, PatchSums, metrics};
use rand::RngExt;

use crate::rng;

fn numbered(size: [usize; 3]) -> Image {
    let n = size.iter().product();
    let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
    Image::new(size[0], size[1], size[2], values).unwrap()
}

#[test]
fn sixteen_bit_and_doubles_come_in() {
    let image = Image::from_slice(1, 2, 1, &[65535_u16, 1]).unwrap();
    assert_eq!(image.values(), [65535.0, 1.0]);
    let image = Image::from_slice(1, 1, 2, &[0.1_f64, -2.0]).unwrap();
    assert_eq!(image.get(0, 0, 0), Some(0.1_f32));
}

#[test]
fn nan_is_missing_at_the_reader_only() {
    let values = [1.0, f32::NAN, 3.0, 4.0];
    let image = Image::from_nan_coded(2, 1, 2, &values).unwrap();
    assert_eq!((image.n_observed(), image.n_missing()), (3, 1));
    assert_eq!((image.get(0, 0, 1), image.get(1, 0, 1)), (None, Some(4.0)));
    assert_eq!(image.values()[1], 0.0);
    assert_eq!(image.channel_means(), [Some(2.0), Some(4.0)]);
    let refused = Image::new(2, 1, 2, values.to_vec()).unwrap_err();
    assert!(matches!(
        refused,
        DataError::Pixel {
            row: 0,
            column: 0,
            channel: 1,
            ..
        }
    ));
    // A missing entry may hold anything.
    let mask = Mask::from_bools(2, 2, &[true, false, true, true]).unwrap();
    assert_eq!(
        Image::from_parts([2, 1, 2], values.to_vec(), mask).unwrap(),
        image
    );
}

#[test]
fn bad_images_are_refused_by_name() {
    let infinite = Image::from_nan_coded(1, 3, 1, &[0.0, 1.0, f32::INFINITY]).unwrap_err();
    assert!(
        infinite.to_string().contains("row 0, column 2, channel 0"),
        "{infinite}"
    );
    // Finite as a double, infinite in single precision.
    assert!(Image::from_slice(1, 1, 1, &[1e300_f64]).is_err());
    assert!(matches!(
        Image::new(0, 3, 1, vec![]).unwrap_err(),
        DataError::EmptyImage { height: 0, .. }
    ));
    assert!(matches!(
        Image::new(2, 2, 1, vec![0.0; 3]).unwrap_err(),
        DataError::Length {
            found: 3,
            expected: 4,
            ..
        }
    ));
    assert!(matches!(
        Image::new(usize::MAX, 2, 1, vec![]).unwrap_err(),
        DataError::TooLarge { .. }
    ));
    let image = numbered([2, 3, 2]);
    for (rows, cols) in [(3, 2), (2, 2), (1, 6)] {
        let mask = Mask::new(rows, cols, true).unwrap();
        assert!(matches!(
            image.hide(&mask).unwrap_err(),
            DataError::Shape { .. }
        ));
    }
    assert!(image.map(|v| 1.0 / v).is_err());
}

#[test]
fn masks_are_of_pixels_or_of_entries() {
    let image = numbered([2, 3, 2]);
    let pixel = image
        .hide(&Mask::from_fn(2, 3, |r, c| (r, c) == (1, 2)).unwrap())
        .unwrap();
    assert_eq!(pixel.n_missing(), 2);
    assert_eq!((pixel.get(1, 2, 0), pixel.get(1, 2, 1)), (None, None));
    let entry = image
        .hide(&Mask::from_fn(2, 6, |r, c| (r, c) == (1, 5)).unwrap())
        .unwrap();
    assert_eq!((entry.get(1, 2, 0), entry.get(1, 2, 1)), (Some(10.0), None));
    let all = image.hide(&Mask::new(2, 3, true).unwrap()).unwrap();
    assert_eq!(all.channel_means(), [None, None]);
    let doubled = entry.map(|v| 2.0 * v).unwrap();
    assert_eq!(
        (doubled.get(1, 2, 0), doubled.get(1, 2, 1)),
        (Some(20.0), None)
    );
}

/// Patches by the definition: every corner, entry by entry.
#[test]
fn patches_of_any_shape_hold_what_the_definition_says() {
    for (size, patch, step) in [
        ([5, 6, 1], [2, 3, 1], [1, 1, 1]),
        ([5, 6, 3], [2, 3, 3], [1, 2, 1]),
        ([4, 5, 7], [2, 2, 3], [2, 1, 2]),
        ([3, 3, 4], [1, 1, 4], [1, 1, 1]),
        ([1, 1, 1], [1, 1, 1], [1, 1, 1]),
        ([7, 3, 2], [3, 3, 1], [3, 1, 1]),
    ] {
        let image = numbered(size);
        let grid = PatchGrid::new(size, patch, step).unwrap();
        let corners = |axis: usize| -> Vec<usize> {
            let last = size[axis] - patch[axis];
            let mut corners: Vec<usize> = (0..last).step_by(step[axis]).collect();
            corners.push(last);
            corners
        };
        let mut index = 0;
        let mut covering = vec![0; image.values().len()];
        for row in corners(0) {
            for column in corners(1) {
                for channel in corners(2) {
                    assert_eq!(grid.corner(index), [row, column, channel]);
                    let mut expected = Vec::new();
                    for r in row..row + patch[0] {
                        for c in column..column + patch[1] {
                            for k in channel..channel + patch[2] {
                                let at = (r * size[1] + c) * size[2] + k;
                                covering[at] += 1;
                                expected.push(at as f32);
                            }
                        }
                    }
                    let mut found = vec![0.0; grid.patch_len()];
                    grid.read(image.values(), index, &mut found);
                    assert_eq!(found, expected);
                    let observed: Vec<f32> = grid.observed(&image, index).map(|(_, v)| v).collect();
                    assert_eq!(observed, expected);
                    index += 1;
                }
            }
        }
        assert_eq!(index, grid.n_patches());
        for (at, &n) in covering.iter().enumerate() {
            let (row, column) = (at / size[2] / size[1], at / size[2] % size[1]);
            assert_eq!(
                grid.n_covering(row, column, at % size[2]),
                n,
                "{size:?}: {at}"
            );
        }
        // Patches of an image make that image again.
        let mut sums = PatchSums::new(grid, true);
        sums.add(|patch, out| grid.read(image.values(), patch, out));
        assert_eq!(sums.means(), image.values());
        assert!(sums.variances().unwrap().iter().all(|&v| v < 1e-3));
    }
}

#[test]
fn only_observed_entries_are_handed_out() {
    let image = numbered([3, 3, 1])
        .hide(&Mask::from_fn(3, 3, |r, c| r == c).unwrap())
        .unwrap();
    let grid = PatchGrid::new([3, 3, 1], [2, 2, 1], [1, 1, 1]).unwrap();
    let found: Vec<(usize, f32)> = grid.observed(&image, 0).collect();
    assert_eq!(found, [(1, 1.0), (2, 3.0)]);
}

#[test]
fn patches_that_do_not_fit_are_refused_by_name() {
    let refused = |patch, step| {
        PatchGrid::new([4, 5, 1], patch, step)
            .unwrap_err()
            .to_string()
    };
    assert!(refused([8, 2, 1], [1; 3]).contains("height of the patch is 8"));
    assert!(refused([2, 0, 1], [1; 3]).contains("width of the patch is 0"));
    assert!(refused([2, 2, 3], [1; 3]).contains("depth of the patch is 3"));
    assert!(refused([2, 2, 1], [1, 3, 1]).contains("width of the step is 3"));
    assert!(refused([2, 2, 1], [0, 1, 1]).contains("height of the step is 0"));
    let huge = PatchGrid::new([usize::MAX, usize::MAX, 1], [1; 3], [1; 3]);
    assert!(matches!(huge.unwrap_err(), DataError::TooLarge { .. }));
}

/// Means and variances over patches and rounds by the definition, in one piece, in parts, and with other numbers of threads.
#[test]
fn sums_are_those_of_the_definition_in_equal_bits() {
    let (size, patch) = ([70, 9, 2], [3, 2, 2]);
    let grid = PatchGrid::new(size, patch, [1; 3]).unwrap();
    let mut rng = rng(3);
    let length = grid.n_patches() * grid.patch_len();
    let rounds: Vec<Vec<f32>> = (0..3)
        .map(|_| (0..length).map(|_| rng.random::<f32>()).collect())
        .collect();
    let mut said: Vec<Vec<f64>> = vec![Vec::new(); grid.image_len()];
    for round in &rounds {
        for patch in 0..grid.n_patches() {
            for (position, entry) in grid.entries(patch).enumerate() {
                said[entry].push(round[patch * grid.patch_len() + position].into());
            }
        }
    }
    let write = |round: &[f32], patch: usize, out: &mut [f32]| {
        out.copy_from_slice(&round[patch * out.len()..][..out.len()]);
    };
    let summed = |threads: usize, parts: bool| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let mut sums = PatchSums::new(grid, true);
            for round in &rounds {
                if parts {
                    sums.add_rows(0..32, |patch, out| write(round, patch, out));
                    sums.add_rows(32..68, |patch, out| write(round, patch, out));
                    sums.finish_round();
                } else {
                    sums.add(|patch, out| write(round, patch, out));
                }
            }
            sums
        })
    };
    let sums = summed(1, false);
    let (means, variances) = (sums.means(), sums.variances().unwrap());
    for (entry, values) in said.iter().enumerate() {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        assert!((f64::from(means[entry]) - mean).abs() < 1e-6);
        assert!((f64::from(variances[entry]) - variance).abs() < 1e-6);
    }
    // One round and two, merged.
    let of = |rounds: &[Vec<f32>]| {
        let mut sums = PatchSums::new(grid, true);
        for round in rounds {
            sums.add(|patch, out| write(round, patch, out));
        }
        sums
    };
    let mut merged = of(&rounds[..1]);
    merged.merge(&of(&rounds[1..])).unwrap();
    for (found, expected) in [
        (merged.means(), &means),
        (merged.variances().unwrap(), &variances),
    ] {
        let off = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
        assert!(off.fold(0.0, f32::max) < 1e-6);
    }
    for threads in [2, 4] {
        assert_eq!(summed(threads, false), sums);
        assert_eq!(summed(threads, true), sums);
    }
    let stored = serde_json::to_string(&sums).unwrap();
    assert_eq!(serde_json::from_str::<PatchSums>(&stored).unwrap(), sums);
    let damaged = stored.replace("\"image\":[70,", "\"image\":[71,");
    assert!(serde_json::from_str::<PatchSums>(&damaged).is_err());
}

#[test]
fn psnr_is_in_decibels_of_the_peak() {
    let psnr = |e: &[f32], t: &[f32], peak| metrics::psnr(e, t, peak);
    assert_eq!(psnr(&[1.0], &[1.0], 255.0).unwrap(), f64::INFINITY);
    assert!((psnr(&[0.0; 4], &[1.0; 4], 10.0).unwrap() - 20.0).abs() < 1e-12);
    for (estimate, truth, peak) in [
        (&[1.0_f32][..], &[][..], 1.0),
        (&[], &[], 1.0),
        (&[f32::NAN], &[1.0], 1.0),
        (&[1.0], &[1.0], 0.0),
        (&[1.0], &[1.0], f64::NAN),
    ] {
        assert!(psnr(estimate, truth, peak).is_err());
    }
}
