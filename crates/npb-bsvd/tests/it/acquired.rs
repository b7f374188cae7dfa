//! Asking for cells.

use npb_bsvd::npb_data::{Rating, Ratings};
use npb_bsvd::{Acquisition, BsvdConfig, BsvdError, BsvdFit, Cells, SideInformation};
use npb_infer::{SweepPlan, Watch};

use crate::predicted::{config, fitted};
use crate::simulated::low_rank;

#[test]
fn all_or_some_of_the_unobserved_cells_are_candidates() {
    let data = low_rank(41, (30, 20), 2, 0.3, 0.3);
    let all = Cells::unobserved(&data.observed, 1000, 1);
    assert_eq!((all.rows.clone(), all.columns.clone()), {
        let hidden = Cells::of(&data.hidden);
        (hidden.rows, hidden.columns)
    });
    let dense = low_rank(41, (30, 20), 2, 0.9, 0.3);
    for ratings in [&data.observed, &dense.observed] {
        let some = Cells::unobserved(ratings, 25, 1);
        assert_eq!(some.len(), 25);
        let mut places: Vec<_> = some.rows.iter().zip(&some.columns).collect();
        assert!(
            places
                .iter()
                .all(|(i, j)| ratings.get(**i as usize, **j as usize).is_none())
        );
        places.dedup();
        assert_eq!(places.len(), 25);
        assert_eq!(some, Cells::unobserved(ratings, 25, 1));
        assert_ne!(some, Cells::unobserved(ratings, 25, 2));
    }
}

#[test]
fn the_largest_standard_deviations_come_first() {
    let data = low_rank(42, (30, 20), 2, 0.4, 0.2);
    let fit = fitted(&data.observed, &config(60, 60));
    let candidates = Cells::of(&data.hidden);
    let chosen = fit
        .next_cells(&candidates, 5, Acquisition::LargestSd)
        .unwrap();
    let sds: Vec<f64> = fit
        .predict_all(&candidates, 0.9)
        .unwrap()
        .iter()
        .map(|p| p.sd)
        .collect();
    let least = chosen[4].sd;
    assert!((sds.iter().filter(|sd| **sd > least * (1.0 - 1e-6)).count()) == 5);
    for cell in &chosen {
        let sd = fit
            .predict(cell.row as usize, cell.column as usize)
            .unwrap()
            .sd;
        assert!((sd - cell.sd).abs() < 1e-4 * sd && cell.remaining_sd == cell.sd);
    }
    let all = fit
        .next_cells(&candidates, usize::MAX, Acquisition::LargestSd)
        .unwrap();
    assert_eq!(all.len(), candidates.len());
    let few = fitted(&data.observed, &config(5, 1));
    let error = few
        .next_cells(&candidates, 5, Acquisition::LargestSd)
        .unwrap_err();
    assert!(matches!(
        error,
        BsvdError::TooFewDraws { found: 1, least: 2 }
    ));
}

/// Error after some rounds of asking for 15 cells of a noise-free matrix of rank 2.
fn error_after(seed: u64, choose: impl Fn(&BsvdFit, &Cells) -> Vec<(u32, u32)>) -> f64 {
    let (n, m) = (30, 30);
    let data = low_rank(seed, (n, m), 2, 0.15, 0.01);
    let mut known: Vec<Rating> = data.observed.iter().collect();
    let mut fit = fitted(&data.observed, &config(100, 100));
    let plan = SweepPlan {
        burn_in: 30,
        keep: 100,
        thin: 1,
    };
    for _ in 0..6 {
        let ratings = Ratings::new(n, m, &known).unwrap();
        let candidates = Cells::unobserved(&ratings, n * m, 1);
        for (i, j) in choose(&fit, &candidates) {
            known.push(Rating {
                row: i,
                column: j,
                value: data.hidden.get(i as usize, j as usize).unwrap(),
            });
        }
        let ratings = Ratings::new(n, m, &known).unwrap();
        let config = BsvdConfig {
            sweeps: plan,
            ..fit.config.clone()
        };
        let (side, none) = (SideInformation::default(), Cells::default());
        fit = fit
            .continue_with(&ratings, side, &none, &config, &Watch::none())
            .unwrap();
    }
    fit.evaluate(&data.hidden).unwrap().rmse / data.signal
}

#[test]
fn asking_for_the_uncertain_is_better_than_asking_at_random() {
    let by = |how: Acquisition| {
        move |fit: &BsvdFit, candidates: &Cells| -> Vec<(u32, u32)> {
            let chosen = fit.next_cells(candidates, 15, how).unwrap();
            chosen.iter().map(|cell| (cell.row, cell.column)).collect()
        }
    };
    let random = |_: &BsvdFit, candidates: &Cells| -> Vec<(u32, u32)> {
        let step = candidates.len() / 15;
        let place = |k: usize| (candidates.rows[k * step], candidates.columns[k * step]);
        (0..15).map(place).collect()
    };
    let total = |f: &dyn Fn(u64) -> f64| (51..55).map(f).sum::<f64>();
    let random = total(&|seed| error_after(seed, random));
    let largest = total(&|seed| error_after(seed, by(Acquisition::LargestSd)));
    let uncorrelated = total(&|seed| error_after(seed, by(Acquisition::Uncorrelated)));
    for asked in [largest, uncorrelated] {
        assert!(asked < 0.7 * random, "{uncorrelated} {largest} {random}");
    }
}
